"""The environments of plug-ins: made from pins and from nothing else, whole or not at all, and noticed when changed."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.messages import naming
from support.tools.outside_programs import wheel

from tasks.extractors.outside.environment import (
    EnvironmentMissingError,
    InstallError,
    Requirements,
    environments_folder,
    find_environment,
    install_environment,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


Require = Callable[..., Requirements]


@pytest.fixture
def require(tmp_path: Path) -> Require:
    """Requirements of these pins, which are looked for in one folder only."""

    def make(*pins: str, probe: str = "import tiny", **more) -> Requirements:
        file = tmp_path / "requirements.txt"
        file.write_text("\n".join(["--no-index", f"--find-links {tmp_path}", *pins, ""]))
        return Requirements("tiny", file, probe=probe, **more)

    return make


def left_over() -> list[str]:
    """What lies in the folder of environments besides locks."""
    return [path.name for path in environments_folder().iterdir() if path.suffix != ".lock"]


def test_pins_that_were_never_installed_say_which_command_installs_them(require: Require) -> None:
    with pytest.raises(EnvironmentMissingError, match=naming("tiny", "storyframes extractors install tiny")):
        find_environment(require(f"tiny==1.0 --hash=sha256:{'0' * 64}"))


@pytest.mark.slow
def test_it_is_made_once_from_the_pins_alone_and_other_pins_are_another(
    require: Require, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = require(wheel(tmp_path, needs="absent-from-here"))
    (tmp_path / "constraints.txt").write_text("tiny==2.0\n")  # of another environment, as 'make' sets them
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints.txt"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = install_environment(requirements)
    assert install_environment(requirements) == made == find_environment(requirements)
    assert made.folder.name.startswith("tiny-")
    assert (made.folder.stat().st_mode | made.folder.parent.stat().st_mode) & 0o077 in (0, 0o055)
    version = ".".join(map(str, sys.version_info[:3]))
    assert made.python == version
    assert {"tiny-1.0"} <= set(made.distributions)
    assert not [name for name in made.distributions if "absent" in name or "numpy" in name]
    ask = [str(made.executable), "-I", "-c", "import sys, tiny; print(tiny.answer, sys.prefix)"]
    assert subprocess.run(ask, capture_output=True, text=True).stdout.split() == ["42", str(made.folder)]
    others = require(wheel(tmp_path, needs="absent-from-here"), wheel(tmp_path, "more"))
    with pytest.raises(EnvironmentMissingError, match="storyframes extractors install tiny"):
        find_environment(others)
    assert install_environment(others).folder != made.folder
    assert find_environment(require(wheel(tmp_path, needs="absent-from-here"))) == made


def wrong_hash(folder: Path) -> tuple[str, ...]:
    return (wheel(folder)[:-4] + "0000",)


def no_hash(folder: Path) -> tuple[str, ...]:
    return (wheel(folder).split()[0],)


def sources_only(folder: Path) -> tuple[str, ...]:
    source = folder / "tiny-1.0.tar.gz"
    source.write_bytes(b"anything")
    return (f"tiny==1.0 --hash=sha256:{hashlib.sha256(b'anything').hexdigest()}",)


def broken(folder: Path) -> tuple[str, ...]:
    return (wheel(folder, files={"tiny.py": "raise ImportError('libGL.so.1 is not here')\n"}),)


FAULTS = {
    wrong_hash: naming("pins of tiny", "tiny==1.0", "Got "),
    no_hash: naming("pins of tiny", "ash"),
    sources_only: naming("pins of tiny", "No matching distribution"),
    broken: naming("tiny", "libGL.so.1 is not here"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_installed_as_pinned_leaves_nothing(require: Require, tmp_path: Path, fault: Callable) -> None:
    requirements = require(*fault(tmp_path))
    with pytest.raises(InstallError, match=FAULTS[fault]):
        install_environment(requirements)
    assert left_over() == []
    with pytest.raises(EnvironmentMissingError):
        find_environment(requirements)


@pytest.mark.slow
def test_it_is_made_from_a_kept_copy_whose_digests_count(tmp_path: Path) -> None:
    (kept := tmp_path / "kept").mkdir()
    pin = wheel(kept) + "".join(f" --hash=sha256:{number:064}" for number in range(6))  # of other Pythons
    (pins := tmp_path / "pins.txt").write_text(pin)
    requirements = Requirements("tiny", pins, probe="import tiny")
    with pytest.raises(InstallError, match=naming("--from", tmp_path / "gone", "pip download", pins)):
        install_environment(requirements, wheels=tmp_path / "gone")
    content = (path := next(kept.iterdir())).read_bytes()
    path.write_bytes(content + b"another")
    with pytest.raises(InstallError, match=naming("pins of tiny", path.name, "Got ")):
        install_environment(requirements, wheels=kept)
    assert left_over() == []
    path.write_bytes(content)
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(f"""#!/bin/sh
echo "$@" >> {log}
exec {sys.executable} "$@"
""")
    python.chmod(0o700)
    made = install_environment(requirements, python, kept)
    asked = next(line.split() for line in log.read_text().splitlines() if "--find-links" in line)
    copies = Path(asked[asked.index("--find-links") + 1])  # pip reads a wheel twice: kept may be changed in between
    assert (copies.is_relative_to(environments_folder()), copies.exists()) == (True, False)
    path.unlink()
    assert install_environment(requirements, wheels=kept) == made


def test_an_interpreter_that_does_not_do_is_refused(require: Require, tmp_path: Path) -> None:
    requirements = require(wheel(tmp_path), pythons=("2.7", "3.2"))
    with pytest.raises(InstallError, match=naming("2.7", "3.2", sys.version.split()[0], "--python")):
        install_environment(requirements)
    for path in (tmp_path / "nothing", Path("/bin/true")):
        with pytest.raises(InstallError, match=naming(path, "interpreter")):
            install_environment(requirements, path)


def refused(requirements: Requirements, *parts: str) -> None:
    with pytest.raises(EnvironmentMissingError, match=naming(*parts, "storyframes extractors install tiny")):
        find_environment(requirements)


@pytest.mark.slow
def test_one_that_was_changed_by_hand_is_not_used_and_is_made_again(require: Require, tmp_path: Path) -> None:
    requirements = require(wheel(tmp_path))
    made = install_environment(requirements)
    (packages,) = made.folder.glob("lib/python*/site-packages")
    (packages / "other-2.0.dist-info").mkdir()
    refused(requirements, "other-2.0", "installed or removed")
    (packages / "other-2.0.dist-info").rmdir()
    assert find_environment(requirements) == made
    (packages / "tiny-1.0.dist-info").rename(tmp_path / "removed")
    refused(requirements, "tiny-1.0", "installed or removed")
    (tmp_path / "removed").rename(packages / "tiny-1.0.dist-info")
    (made.folder / "bin/python").unlink()
    refused(requirements, "interpreter is gone")
    made = install_environment(requirements)
    assert find_environment(requirements) == made


INSTALL = """
import sys
from pathlib import Path
from tasks.extractors.outside.environment import Requirements, install_environment
print(install_environment(Requirements("tiny", Path(sys.argv[1]), probe=sys.argv[2])).made_at)
"""


def start(requirements: Requirements) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", INSTALL, str(requirements.pins), requirements.probe]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_second_install_at_the_same_time_waits_for_the_first(require: Require, tmp_path: Path) -> None:
    requirements = require(wheel(tmp_path))
    both = [start(requirements), start(requirements)]
    made_at = {process.communicate()[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert made_at == {find_environment(requirements).made_at + "\n"}


@pytest.mark.slow
def test_an_install_that_is_killed_leaves_nothing_that_counts(require: Require, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    requirements = require(wheel(tmp_path), probe=f"import time; open({str(reached)!r}, 'w'); time.sleep(1000)")
    process = start(requirements)
    while not reached.exists():
        assert process.poll() is None
        os.sched_yield()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left_over() == [".tiny.partial"]
    with pytest.raises(EnvironmentMissingError):
        find_environment(requirements)
    made = install_environment(require(wheel(tmp_path)))
    assert left_over() == [made.folder.name]
