"""What is said when a container cannot be run as asked, and what is left when its worker is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.messages import missing, naming
from support.processes import children, wait_for
from support.tools import standin
from support.tools.container_engines import containers, extract_in
from support.tools.openface_tools import extract, replaying_tool, script

from tasks.tools.containers import ContainerError, Docker, Podman

pytest_plugins = ["support.tools.container_engines"]

ROOT = Path(__file__).parents[2]


# --- what cannot be run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("binary", "why"), [("/no/such/tool", "No such file or directory"), ("/etc/passwd", "Permission denied")]
)
def test_a_wrong_path_inside_the_image_is_called_so(
    engine,
    image_of,
    study_copy: Path,
    store_root: Path,
    binary: str,
    why: str,
) -> None:
    outcome = extract_in(engine, image_of(), study_copy, store_root, binary=binary)
    assert missing(outcome.reason, binary, "[openface] binary", why) == []


def test_what_the_engine_says_of_a_container_that_it_cannot_run_is_told(
    engine,
    image_of,
    study_copy: Path,
    store_root: Path,
) -> None:
    outcome = extract_in(engine, image_of(), study_copy, store_root, memory_gib=0.0001)
    assert outcome.status == "failed"
    assert missing(outcome.reason, "p01-s01.avi", engine.name, "12") == []
    assert "; it printed last: " in outcome.reason
    assert "memory" in outcome.reason.lower()
    assert "another video" not in outcome.reason


def test_a_client_that_gives_up_in_mid_run_is_not_taken_for_a_cut_video(
    study_copy: Path, store_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ends while the container writes: the client's exit code is 125, rows are there."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    recorded = study_copy / "openface/p01-s01.csv.gz"
    body = f"""
        case "$1" in
            image) echo sha256:{"1" * 64};;
            run)
                out=$(printf '%s' "$*" | sed 's/.*source=\\([^,]*\\),destination=.output.*/\\1/')
                zcat '{recorded}' 2>/dev/null | head -n 101 > "$out/video.csv"
                echo 'error waiting for container: unexpected EOF' >&2; exit 125;;
        esac
    """
    script(tmp_path, body).rename(bin_folder / "docker")
    monkeypatch.setenv("PATH", str(bin_folder), prepend=":")
    outcome = extract(
        study_copy, store_root, "p01-s01", backend="container", engine="docker", image=f"sha256:{'1' * 64}"
    )
    assert missing(outcome.reason, "125", "p01-s01.avi", "EOF") == []


@pytest.mark.needs("docker")
def test_dockers_daemon_that_is_down_is_not_a_missing_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(ContainerError) as error:
        Docker("docker").resolve(f"sha256:{'0' * 64}")
    assert missing(error.value, "docker version") == []
    assert missing(error.value, "connect", "Docker") == []
    assert "not on this machine" not in str(error.value)


def test_an_engine_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.tools.containers._ENGINE_TIMEOUT_S", 0.2)
    hanging = Podman(str(script(tmp_path, "exec sleep 1000\n")))
    with pytest.raises(ContainerError, match=naming("podman", "answer")):
        hanging.resolve(f"sha256:{'0' * 64}")


# --- full disks, long outputs ----------------------------------------------------------------------------------------


def test_a_full_temporary_folder_is_named(
    study_copy: Path, store_root: Path, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_as_temporary(small_disk, monkeypatch)
    tool = replaying_tool(tmp_path, study_copy / "openface/p01-s01.csv.gz")  # 1.7 MB; it ends with 0 all the same
    outcome = extract(study_copy, store_root, "p01-s01", backend="binary", binary=tool)
    assert outcome.status == "failed"
    assert "p01-s01.csv: " in outcome.reason
    assert missing(outcome.reason, "TMPDIR", small_disk, "full") == []


def test_a_full_temporary_folder_is_named_for_containers(
    engine,
    image_of,
    study_copy: Path,
    store_root: Path,
    small_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = image_of()
    use_as_temporary(small_disk, monkeypatch)
    outcome = extract_in(engine, image, study_copy, store_root)
    assert outcome.status == "failed"
    assert missing(outcome.reason, "TMPDIR", small_disk, "full") == []


def use_as_temporary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.mark.parametrize("shift", range(8))
def test_what_was_printed_last_begins_with_a_word(
    study_copy: Path, store_root: Path, tmp_path: Path, shift: int
) -> None:
    tool = script(tmp_path, f"yes 'openface' | head -n 1000 | tr '\\n' ' '; echo {'x' * shift}; exit 3\n")
    reason = extract(study_copy, store_root, "p01-s01", backend="binary", binary=tool).reason
    assert "… openface openface " in reason
    assert len(reason) < 500


# --- as root, and killed ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.needs("root")
def test_plan_measures_the_container_on_a_cut_that_its_user_may_read(
    engine,
    image_of,
    study_copy: Path,
    tmp_path: Path,
) -> None:
    video = study_copy / "videos/p01-s01.avi"
    os.chown(video, 12345, 12345)
    video.chmod(0o600)
    config = tmp_path / "c.toml"
    config.write_text(
        f'features = ["openface"]\n[openface]\nbackend = "container"\nengine = "{engine.name}"\n'
        f'image = "{image_of("any")}"\nbinary = "{standin.BINARY}"\n'
    )
    command = [sys.executable, "-m", "flows.cli", "plan", str(study_copy), "--config", str(config)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, umask=0o077)
    assert shown.returncode == 0, shown.stderr
    assert "not measured" not in shown.stdout, shown.stdout


WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from support.tools.openface_tools import extract
study, root = map(Path, sys.argv[1:3])
extract(study, root, "p01-s01", backend="container", engine=sys.argv[3], image=sys.argv[4], binary=sys.argv[5])
"""


@pytest.mark.slow
@pytest.mark.parametrize("with_reaper", [True, False])
def test_container_and_output_go_with_the_worker(
    engine,
    image_of,
    study_copy: Path,
    store_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_reaper: bool,
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    hanging, image = image_of("hang"), image_of()
    command = [
        sys.executable, "-c", WORKER, str(study_copy), str(store_root), engine.name, hanging, standin.BINARY,
    ]  # fmt: skip
    worker = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"TMPDIR": str(temporary)}, start_new_session=True)
    wait_for(lambda: list(temporary.glob("storyframes-openface-*/output/video.csv")))
    if not with_reaper:
        for reaper in children(worker.pid, "reaper_process.py"):
            os.kill(reaper, signal.SIGKILL)
    worker.kill()
    worker.wait()
    if not with_reaper:
        assert list(temporary.iterdir())
        assert containers(engine)
        use_as_temporary(temporary, monkeypatch)
        assert extract_in(engine, image, study_copy, store_root).status == "done"
    wait_for(lambda: not list(temporary.iterdir()))
    wait_for(lambda: not containers(engine))
