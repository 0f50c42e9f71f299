"""Private folders with a named owner: gone with him, or with the next one that is made."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.commands import ROOT, storyframes_here
from support.messages import missing

from storyframes.store.storage.processes import ProcessIdentity
from storyframes.store.storage.scratch import make_scratch_folder, new_folder, scratch_beside, scratch_folder, sweep

PURPOSES = ["openface", "dyads", "neverheardof9"]
WEEK_S = 7 * 24 * 3600


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of its own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def start_owner(purpose: str = "openface") -> tuple[subprocess.Popen[str], Path]:
    """A process with a folder that has a file of a person in it."""
    code = (
        "import sys, time\nfrom storyframes.store.storage.scratch import make_scratch_folder\n"
        "folder = make_scratch_folder(sys.argv[1])\n(folder / 'output').mkdir()\n"
        "(folder / 'output/video.csv').write_text('landmarks')\nprint(folder, flush=True)\ntime.sleep(1000)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, purpose], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def leave(owner: ProcessIdentity, purpose: str = "openface", *, idle_s: float = 0) -> Path:
    """A folder with something in it, as a process of that name would have made it."""
    folder = Path(tempfile.gettempdir()) / f"storyframes-{purpose}-{owner.text('.')}-abcd_123"
    (folder / "output").mkdir(parents=True)
    (folder / "output/video.csv").write_text("landmarks")
    age(folder, idle_s)
    return folder


def age(folder: Path, idle_s: float) -> None:
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (time.time() - idle_s,) * 2)


def test_the_folder_is_private_and_goes_with_the_block(temporary: Path) -> None:
    with scratch_folder("openface") as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "video.csv").write_text("landmarks")
        assert sweep() == []
        assert folder.exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_folder_removes_those_of_the_dead(temporary: Path, purpose: str, deadly: signal.Signals) -> None:
    process, left = start_owner(purpose)
    assert sweep() == []  # it lives
    process.send_signal(deadly)
    process.wait()
    assert left.exists()
    made = make_scratch_folder("version")
    assert list(temporary.iterdir()) == [made]


def test_one_that_has_ended_and_that_nobody_has_asked_after_is_dead() -> None:
    process, left = start_owner()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert [leftover.path for leftover in sweep()] == [left]
    process.wait()


def test_an_id_that_was_used_again_is_not_the_owner() -> None:
    us = ProcessIdentity.this_process()
    left = leave(ProcessIdentity(us.boot, us.namespace, us.pid, "1"))
    alive = leave(us)
    assert [leftover.path for leftover in sweep()] == [left]
    assert alive.exists()


@pytest.mark.parametrize("field", ["boot", "namespace"])
def test_whom_nobody_here_can_ask_after_is_left_alone_for_a_week(field: str, monkeypatch) -> None:
    us = ProcessIdentity.this_process()
    stranger = ProcessIdentity(
        "0-0" if field == "boot" else us.boot, "1" if field == "namespace" else us.namespace, 2, "3"
    )
    left = leave(stranger, idle_s=WEEK_S - 100)
    assert sweep() == []
    with monkeypatch.context() as ahead:  # of the other machine, and of the server whose folder it is
        now = time.time() + 2 * WEEK_S
        ahead.setattr(time, "time", lambda: now)
        assert sweep() == []
    age(left, WEEK_S + 100)
    (left / "output/video.csv").write_text("more")  # somebody works in there
    assert sweep() == []
    age(left, WEEK_S + 100)
    assert [leftover.path for leftover in sweep()] == [left]


@pytest.mark.parametrize("purpose", ["openface", "tables", "init", "curves"])
def test_the_folders_of_older_versions_go_after_a_week(temporary: Path, purpose: str) -> None:
    left = temporary / f"storyframes-{purpose}-ab_d1234"
    left.mkdir(mode=0o700)
    of_the_user = temporary / f"storyframes-{purpose}-original"
    of_the_user.mkdir()
    of_the_user.chmod(0o755)
    age(of_the_user, 2 * WEEK_S)
    assert sweep() == []
    age(left, WEEK_S + 100)
    assert [leftover.path for leftover in sweep()] == [left]


def test_signals_that_an_older_version_left_beside_nothing_are_swept(temporary: Path) -> None:
    us = ProcessIdentity.this_process()
    gone = ProcessIdentity(us.boot, us.namespace, us.pid, "1")
    for owner in (us, gone):
        (temporary / f".storyframes-dyads-{owner.text('.')}-ab_d1234").mkdir()
    assert [leftover.path.name for leftover in sweep()] == [f".storyframes-dyads-{gone.text('.')}-ab_d1234"]


@pytest.mark.parametrize("purpose", ["two words", "two-words", "", "Upper"])
def test_a_folder_that_would_not_be_found_again_is_not_made(purpose: str) -> None:
    with pytest.raises(ValueError, match="lower-case"):
        make_scratch_folder(purpose)


_SOURCES = [
    path
    for room in ("storyframes", "tasks", "flows", *ROOT.glob("plugins/*/storyframes_*"))
    for path in (ROOT / room).rglob("*.py")
    if "tests" not in path.relative_to(ROOT).parts
]


def test_one_file_makes_all_temporary_folders() -> None:
    """Else one would be left where its process is killed; a file without a name is gone with its process."""
    makers = re.compile(r"tempfile\.(?!gettempdir\(|TemporaryFile\()|from tempfile import")
    making = {path.name for path in _SOURCES if makers.search(path.read_text())}
    assert (len(_SOURCES) > 300, making) == (True, {"scratch.py"})


_HELD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
import atexit
atexit.register(lambda: print(resource.getrlimit(resource.RLIMIT_CORE)[0]))
from flows.cli.entry import main
sys.argv = ["storyframes", "--version"]
main()
"""


@pytest.mark.needs("core files")
def test_a_process_that_holds_recordings_leaves_no_image_of_its_memory() -> None:
    done = subprocess.run([sys.executable, "-c", _HELD], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "0", done.stderr


@pytest.mark.parametrize(
    "name", ["storyframes-plan-notes", "storyframes-openface", "storyframes-demo-abcd1234", "other-openface-abcd1234"]
)
def test_what_is_not_ours_by_name_stays(temporary: Path, name: str) -> None:
    (temporary / name).mkdir()
    age(temporary / name, 10 * WEEK_S)
    assert sweep() == []
    assert (temporary / name).exists()


def test_a_link_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    us = ProcessIdentity.this_process()
    (
        temporary / f"storyframes-openface-{ProcessIdentity(us.boot, us.namespace, 1, '2').text('.')}-abcd1234"
    ).symlink_to(precious)
    inside = leave(ProcessIdentity(us.boot, us.namespace, us.pid, "1"))
    (inside / "link").symlink_to(precious)
    assert [leftover.path for leftover in sweep()] == [inside]
    assert (precious / "file").exists()


@pytest.mark.needs("root")
def test_another_users_folder_stays() -> None:
    us = ProcessIdentity.this_process()
    foreign = leave(ProcessIdentity(us.boot, us.namespace, us.pid, "1"))
    os.chown(foreign, 12345, 12345)
    assert sweep() == []
    assert foreign.exists()


def test_a_dry_run_only_tells() -> None:
    process, left = start_owner()
    process.kill()
    process.wait()
    (leftover,) = sweep(dry_run=True)
    assert leftover.path == left
    assert leftover.bytes >= len("landmarks")
    assert left.exists()


def test_gc_removes_them(store_root: Path) -> None:
    process, left = start_owner("version")
    alive = storyframes_here("gc", store_root)
    assert alive.returncode == 0, alive.stderr
    assert "killed processes" not in alive.stdout
    process.kill()
    process.wait()
    shown = storyframes_here("gc", store_root, "--dry-run")
    assert not missing(shown.stdout, "1 to be removed", "temporary folders of killed processes")
    assert left.exists()
    done = storyframes_here("gc", store_root)
    assert not missing(done.stdout, "1 removed", "temporary folders of killed processes")
    assert not left.exists()


# --- beside what is being made ---------------------------------------------------------------------------------------

CONVERT = """
import sys, time
from pathlib import Path
from tasks.extractors.glove import load_word_vectors
import tasks.extractors.glove as module

fill = module._fill
def fill_and_hang(*arguments):
    fill(*arguments)
    print("half done", flush=True)
    time.sleep(1000)

module._fill = fill_and_hang
load_word_vectors(Path(sys.argv[1]))
"""

FETCH = """
import sys
from tasks.models.weights import ModelFile, fetch

url, digest = sys.argv[1:]
fetch(ModelFile("m", "m.bin", url, digest, 10, "none", "tests"), lambda *_: print("half done", flush=True))
"""


def kill_when_half_done(code: str, *arguments: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "half done\n"
    process.kill()
    process.wait()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/storyframes"


def write_vectors(path: Path, word: str) -> Path:
    path.write_text("".join(f"{word}{number} 0.1 0.2 0.3\n" for number in range(9)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("word", ["a", "b"])
def test_a_killed_conversion_of_word_vectors_is_swept_by_the_next(cache: Path, tmp_path: Path, word: str) -> None:
    from tasks.extractors.glove import load_word_vectors

    kill_when_half_done(CONVERT, str(write_vectors(tmp_path / "v.txt", "a")))
    folder = cache / "word-vectors"
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 1
    load_word_vectors(write_vectors(tmp_path / "v.txt", word))  # the same vectors, or others that took their place
    (left,) = [path for path in folder.iterdir() if path.is_dir()]
    assert not left.name.startswith(".")


def test_a_killed_download_is_swept_by_the_next(cache: Path) -> None:
    from tasks.models.weights import ModelFile, fetch

    content = b"weights" * (1 << 19)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.path == "/hangs":
                self.wfile.write(content[: 1 << 21])
                released.wait()
            else:
                self.wfile.write(content)

        def log_message(self, *arguments: object) -> None: ...

    released = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, digest = f"http://127.0.0.1:{server.server_port}", hashlib.sha256(content).hexdigest()
    kill_when_half_done(FETCH, f"{url}/hangs", digest)
    assert [path.name.startswith(".m.bin-") for path in (cache / "models").iterdir()] == [True]
    assert fetch(ModelFile("m", "m.bin", f"{url}/whole", digest, 10, "none", "tests")).read_bytes() == content
    assert [path.name for path in (cache / "models").iterdir()] == ["m.bin"]
    released.set()
    server.shutdown()


def test_what_the_living_are_making_stays(tmp_path: Path) -> None:
    with scratch_beside(tmp_path / "a.bin") as ours, scratch_beside(tmp_path / "a.bin") as too:
        assert ours.parent == tmp_path
        assert ours.is_dir()
        assert too.stat().st_mode & 0o777 == 0o700
        (tmp_path / ".hidden-folder-abcd1234").mkdir()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [".hidden-folder-abcd1234"]


@pytest.mark.parametrize("name", [".venv-3.11.2.0-original", ".backup-2024.01.02.03-20240102"])
def test_a_hidden_folder_of_the_user_stays_whatever_its_age(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    age(tmp_path / name, 2 * WEEK_S)
    with scratch_beside(tmp_path / "a.bin"):
        assert (tmp_path / name).is_dir()


def test_a_new_folder_takes_the_place_of_another_only_as_a_whole(tmp_path: Path) -> None:
    target, checks = tmp_path / "reports" / "site", []

    def check() -> None:
        checks.append(target.exists())

    for content in ("first", "second"):
        with new_folder(target, check) as folder:
            (folder / "page").write_text(content)
            assert not target.exists() or (target / "page").read_text() == "first"
        assert (target / "page").read_text() == content
    assert checks == [False, False, True, True]  # before the block and after it
    with pytest.raises(KeyError), new_folder(target, check) as folder:
        (folder / "page").write_text("third")
        raise KeyError
    assert (target / "page").read_text() == "second"
    assert [path.name for path in target.parent.iterdir()] == ["site"]


def test_a_name_is_read_back() -> None:
    us = ProcessIdentity.this_process()
    for separator in ":.":
        assert ProcessIdentity.parse(us.text(separator), separator) == us
    assert us.is_checkable
    assert not us.is_gone
    for text in ("", "a", "a:b:c", "a:b:c:d", "a:b:1:d:e"):
        assert ProcessIdentity.parse(text) is None
