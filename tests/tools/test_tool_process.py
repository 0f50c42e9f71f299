"""Tools as processes: how they end, what is kept of what they print, what goes with whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from support.processes import alive, wait_for
from support.tools.openface_tools import script

from tasks.tools.containers import ContainerJob, Image, Limits, Mount, Podman
from tasks.tools.tool_process import run_tool


def test_a_tool_that_hangs_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    tool = script(tmp_path, "echo started; sleep 1000 & echo $! > child; wait\n")
    result = run_tool([str(tool)], folder=tmp_path, timeout_s=3, environment=os.environ)
    assert result.timed_out
    assert result.output == "started"
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: not alive(child))


def test_the_exit_code_and_the_end_of_what_was_printed_are_kept(tmp_path: Path) -> None:
    tool = script(tmp_path, f"yes {tmp_path}/x | head -c 5000000; echo the end >&2; exit 134\n")
    result = run_tool([str(tool)], folder=tmp_path, timeout_s=30, environment=os.environ)
    assert result.exit_code == 134
    assert result.output.endswith("the end")
    assert len(result.output) <= 4000


def test_a_tool_killed_by_a_signal_ends_as_a_shell_would_say(tmp_path: Path) -> None:
    result = run_tool([str(script(tmp_path, "kill -9 $$\n"))], folder=tmp_path, timeout_s=30, environment=os.environ)
    assert result.exit_code == 137


def test_the_tool_dies_with_the_process_that_runs_it(tmp_path: Path) -> None:
    tool = script(tmp_path, "echo $$ > pid; exec sleep 1000\n")
    code = f"""
        from pathlib import Path
        from tasks.tools.tool_process import run_tool
        run_tool([{str(tool)!r}], folder=Path({str(tmp_path)!r}), timeout_s=100, environment={{}})
    """
    runner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    wait_for(
        lambda: runner.poll() is not None or ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    )
    pid = int((tmp_path / "pid").read_text())
    assert alive(pid)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    wait_for(lambda: not alive(pid))


def test_a_command_that_does_not_exist_says_so(tmp_path: Path) -> None:
    result = run_tool(["/no/such/tool"], folder=tmp_path, timeout_s=30, environment=os.environ)
    assert result.exit_code == 1
    assert "cannot run /no/such/tool: No such file or directory" in result.output


def test_a_container_has_no_network_no_rights_and_one_folder_to_write_to(tmp_path: Path) -> None:
    """What podman is asked for; tests/tools/test_containers.py looks inside."""
    engine = Podman(str(script(tmp_path, f'[ "$1" != run ] || printf "%s\\n" "$@" > {tmp_path}/asked\n')))
    (tmp_path / "out").mkdir()
    output, limits = Mount(tmp_path / "out", "/out"), Limits(cpus=2, memory_gib=1.5, timeout_s=30)
    job = ContainerJob("attempt", ("/bin/tool", "-x"), (), output, limits)
    assert engine.run(Image("sha256:ab", "ab"), job).exit_code == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    for option, value in (("--network", "none"), ("--cap-drop", "all"), ("--pull", "never"), ("--memory", "1536m")):
        assert asked[asked.index(option) + 1] == value
    assert {"--read-only", "--rm", "--http-proxy=false", "no-new-privileges"} <= {*asked}
    assert [line for line in asked if "destination=" in line] == [f"type=bind,source={tmp_path}/out,destination=/out"]
    assert asked[-4:] == ["--entrypoint", "/bin/tool", "sha256:ab", "-x"]
