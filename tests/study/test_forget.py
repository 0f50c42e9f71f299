"""Forgetting a session or a participant leaves nothing of them that storyframes made, and lets nothing come back."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from support.stores import catalogue_rows, local
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FeatureStore
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.layout import StoreError, create_store
from storyframes.store.publish import FeatureWriter, PublishError
from storyframes.store.records import unseal
from storyframes.store.study import note_given, read_forgotten
from tasks.forgetting import traces as forgetting_traces
from tasks.media.container import recording_digest
from tasks.models.digests import DigestCache, sha256_file, user_cache
from tasks.study.forgotten_ids import read_forgotten_ids
from tasks.study.load import StudyError, load_study
from tasks.study.study_identity import remember_study

ROOT = Path(__file__).parents[2]
SESSIONS = ("p01-s01", "p01-s02", "p02-s01")


def publish_frames(store: Path, session: str, *, video: str = "", track: str = "main", rows: int = 400) -> None:
    path = Path(f"demo/study/videos/{video or session}.avi")
    with FeatureWriter(local(store), session, FEATURES["frames"], track=track) as out:
        out.write("time", np.arange(rows) / 15)
        inputs = {"video": {"path": f"videos/{path.name}", "sha256": sha256_file(path)}}
        out.publish("f" * 64, {"inputs": inputs})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo study and its indexed store: ``study`` and ``features``."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree("demo/study", folder / "study")
    create_store(folder / "features")
    (folder / "study/schemes.csv").write_text("scheme,type\nwarmth,interval\n")
    labels = [f"{session},warmth,{value},{rater}" for session in SESSIONS for value, rater in ((1, "ann"), (2, "ben"))]
    (folder / "study/labels.csv").write_text("\n".join(["session_id,scheme,value,rater_id", *labels, ""]))
    for session in SESSIONS:
        publish_frames(folder / "features", session)
    digests = DigestCache(local(folder / "features"), "inputs.json", folder / "study")
    for path in sorted((folder / "study/videos").iterdir()):
        os.utime(path, (1e9, 1e9))
        digests.sha256(path)
    digests.save()
    assert run("index", folder / "study", folder / "features").exit_code == 0
    return folder


@pytest.fixture
def lab(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "lab")
    return tmp_path / "lab"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def forget(lab: Path, *arguments: object) -> Result:
    return run("forget", lab / "study", lab / "features", *arguments)


def holding(folder: Path, *names: str) -> list[str]:
    """The files below a folder that have one of these names in their path or their bytes."""
    found = []
    for path in sorted(folder.rglob("*")):
        where = path.relative_to(folder).as_posix()
        content = path.read_bytes() if path.is_file() else b""
        if any(name in where or name.encode() in content for name in names):
            found.append(where)
    return found


def sessions_of(lab: Path) -> list[str]:
    return FeatureStore(lab / "features").sessions


@pytest.mark.parametrize(
    ("asked", "names", "left"),
    [
        (("p01-s01",), ("p01-s01",), ["p01-s02", "p02-s01"]),
        (("--participant", "p02"), ("p02-s01", "p02"), ["p01-s01", "p01-s02"]),
        (("--participant", "p01"), ("p01-s01", "p01-s02", "p01"), ["p02-s01"]),
    ],
)
def test_nothing_in_the_store_names_them(lab: Path, asked: tuple[str, ...], names: tuple[str, ...], left: list) -> None:
    store = lab / "features"
    assert holding(store, *names)
    done = forget(lab, *asked, "--tables")
    assert done.exit_code == 0, done.stderr
    assert holding(store, *names) == []
    assert sorted({row["session_id"] for row in catalogue_rows(store)}) == left == sessions_of(lab)
    assert sorted(set(FeatureStore(store).clips()["session_id"])) == left
    inputs = (unseal((store / "inputs.json").read_bytes(), "") or {})["files"]
    assert sorted(inputs) == [f"videos/{session}.avi" for session in left]
    indexed = run("index", lab / "study", store)
    assert indexed.exit_code == 0, indexed.stderr
    assert sorted(set(FeatureStore(store).clips()["session_id"])) == left
    assert run("verify", store, "--study", lab / "study").exit_code == 0
    assert holding(store, *names) == []
    assert [finding for finding in holding(lab / "study", *names) if finding.endswith(".csv")] == []


def test_a_dry_run_names_everything_and_changes_nothing(lab: Path) -> None:
    before = {path: path.read_bytes() for path in lab.rglob("*") if path.is_file()}
    dry = json.loads(forget(lab, "p02-s01", "--dry-run", "--json").stdout)
    assert {path: path.read_bytes() for path in lab.rglob("*") if path.is_file()} == before
    assert dry["receipt"] is None
    assert dry["rows"]["sessions"] == [4]
    assert any(path.endswith("videos/p02-s01.avi") for path in dry["files"])
    done = json.loads(forget(lab, "p02-s01", "--json").stdout)
    assert [trace["where"] for trace in done["removed"]] == [trace["where"] for trace in dry["removed"]]


@pytest.mark.parametrize("configured", [True, False])
def test_the_next_command_keeps_the_study_s_windows(lab: Path, configured: bool) -> None:
    config = lab / "study/storyframes.toml"
    config.unlink(missing_ok=True)
    if configured:
        config.write_text("[clips]\nwindow_frames = 60\n")
    said = forget(lab, "p02-s01").stdout.splitlines()[-1]
    expected = ["storyframes", "index", str(lab / "study"), str(lab / "features")]
    assert shlex.join([*expected, *(["--config", str(config)] if configured else [])]) in said
    assert ("--config" in said) == configured


def test_recordings_and_tables_are_the_owner_s(lab: Path) -> None:
    before = {path: path.read_bytes() for path in (lab / "study").rglob("*") if path.is_file()}
    done = forget(lab, "p02-s01")
    assert done.exit_code == 0
    assert all(path.read_bytes() == content for path, content in before.items())
    assert "sessions, row 4" in done.stdout
    assert "videos/p02-s01.avi" in done.stdout
    with pytest.raises(StudyError, match="sessions, row 4, session_id = 'p02-s01'"):
        load_study(lab / "study")
    refused = forget(lab, "--tables")  # their surveys would be of nobody
    assert refused.exit_code == 2
    assert "surveys, row" in refused.stderr
    assert forget(lab, "--participant", "p02", "--tables").exit_code == 0
    assert list(load_study(lab / "study").sessions) == ["p01-s01", "p01-s02"]
    assert (lab / "study/videos/p02-s01.avi").exists()


def test_the_receipt_has_digests_and_no_names(lab: Path) -> None:
    record = (lab / "features/p02-s01/frames/current.json").read_bytes()
    done = json.loads(forget(lab, "--participant", "p02", "--json").stdout)
    receipt = Path(done["receipt"])
    lines = [json.loads(line) for line in receipt.read_text().splitlines()]
    assert "p02" not in receipt.read_text()
    assert receipt.stat().st_mode & 0o777 == 0o600
    assert hashlib.sha256(record).hexdigest() in {line.get("sha256") for line in lines}
    assert lines[-1]["traces"] == len(done["removed"]) == len(lines) - 1
    listed = lab / "study/forgotten.json"
    assert json.loads(listed.read_text())["sessions"] == ["p02-s01"]
    of_files = read_forgotten_ids(lab / "study")  # by which init --update knows them, whatever their ids would be
    assert of_files.has_file("videos/p02-s01.avi")
    assert not of_files.has_file("videos/p01-s01.avi")
    assert listed.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("after", [0, 1, 3, 6, 9])
def test_a_killed_forget_is_finished_by_the_next(lab: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    removed: list[object] = []
    kept = forgetting_traces.Trace.__init__

    def init(self: object, what: str, where: str, size: int, sha256: object, remove: object) -> None:
        def counted() -> None:
            if len(removed) == after:
                raise KeyboardInterrupt
            removed.append(where)
            remove()

        kept(self, what, where, size, sha256, counted)

    with monkeypatch.context() as patch:
        patch.setattr(forgetting_traces.Trace, "__init__", init)
        assert forget(lab, "p02-s01").exit_code != 0
    assert len(removed) == after
    assert read_forgotten(local(lab / "features")).has_session("p02-s01")
    assert forget(lab).exit_code == 0
    assert holding(lab / "features", "p02-s01") == []
    inputs = (unseal((lab / "features/inputs.json").read_bytes(), "") or {})["files"]
    assert sorted(inputs) == ["videos/p01-s01.avi", "videos/p01-s02.avi"]


# A process that imports once and forks one that forgets for each line of a folder and the number of the deadly step. It
# says how each ended: with the number of steps, or by the signal.
FORGETTERS = """
import os, signal, sys
from flows.cli.app import app

def run(lab, deadly):
    steps = 0

    def counted(function):
        def step(*args, **kwargs):
            nonlocal steps
            steps += function is not opened or bool(args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if steps == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)
        return step

    opened = os.open
    for name in ("open", "replace", "rename", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    app(["forget", f"{lab}/study", f"{lab}/features", "--participant", "p02"], standalone_mode=False)
    return steps

for line in sys.stdin:
    lab, deadly = line.split()
    child = os.fork()
    if not child:
        sys.stdout = open(os.devnull, "w")
        os._exit(run(lab, int(deadly)))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.end_to_end
def test_killed_at_any_step_the_next_one_leaves_nothing(made: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORGETTERS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as forgetters:

        def forget_until(lab: Path, step: int) -> int:
            shutil.copytree(made, lab)
            print(lab, step, file=forgetters.stdin, flush=True)
            return int(forgetters.stdout.readline())

        steps = forget_until(tmp_path / "whole", -1)
        assert 20 < steps < 256, steps  # an exit code says no more
        assert holding(tmp_path / "whole/features", "p02") == []
        begun = 0
        for step in range(2, steps, steps // 4):
            lab = tmp_path / str(step)
            assert forget_until(lab, step) == -signal.SIGKILL
            begun += bool(holding(lab / "features", "p02-s01")) and (lab / "study/forgotten.json").exists()
            done = forget(lab, *([] if (lab / "study/forgotten.json").exists() else ["--participant", "p02"]))
            assert done.exit_code == 0, done.stderr
            assert holding(lab / "features", "p02") == []
            assert sessions_of(lab) == ["p01-s01", "p01-s02"]
        assert begun > 2  # killed between the list of the forgotten and the last trace
        forgetters.stdin.close()


def test_a_restored_backup_is_refused_and_cleaned(lab: Path) -> None:
    backup = Path(shutil.copytree(lab / "features", lab / "backup"))
    assert forget(lab, "--participant", "p02", "--tables").exit_code == 0
    shutil.copytree(backup / "p02-s01", lab / "features/p02-s01")  # one folder of it
    catalogue.compact(local(lab / "features"))
    assert "p02-s01" not in sessions_of(lab)
    assert run("index", lab / "study", backup).exit_code == 0  # all of it, in a place of its own
    assert "p02-s01" not in set(FeatureStore(backup).clips()["session_id"])
    assert run("forget", lab / "study", lab / "features", backup).exit_code == 0
    assert holding(lab / "features", "p02-s01") == holding(backup, "p02-s01") == []


def test_a_backup_of_which_most_sessions_are_forgotten_is_of_the_same_study(lab: Path) -> None:
    backup = Path(shutil.copytree(lab / "features", lab / "backup"))
    assert forget(lab, "--participant", "p01", "--tables").exit_code == 0
    indexed = run("index", lab / "study", backup)
    assert indexed.exit_code == 0, indexed.stderr
    for said in (indexed.stderr, run("status", backup).stdout):
        assert "2 sessions not in the study, which the store was told to forget" in said
    assert read_forgotten(local(backup)).has_session("p01-s01")
    assert FeatureStore(backup).sessions == ["p02-s01"]


def test_what_is_forgotten_is_not_published_again(lab: Path) -> None:
    assert forget(lab, "p02-s01").exit_code == 0
    with pytest.raises(PublishError, match="p02-s01/frames: the store was told to forget it"):
        publish_frames(lab / "features", "p02-s01")
    study = load_study(Path("demo/study"))  # tables from before, without the list
    with pytest.raises(StoreError, match="was told to forget p02-s01"):
        remember_study(local(lab / "features"), study)
    assert run("extract", "demo/study", lab / "features", "--features", "frames").exit_code == 2


def test_archives_below_the_store_and_beside_it_forget_too(lab: Path) -> None:
    inner, outer = lab / "features/archive", lab / "archive"
    for place in (outer, inner):
        assert run("archive", lab / "features", "--out", place).exit_code == 0
        assert holding(place, "p02-s01")
    assert run("forget", lab / "study", lab / "features", outer, "p02-s01").exit_code == 0
    assert holding(inner, "p02-s01") == holding(outer, "p02-s01") == []
    assert run("archive", lab / "features", "--out", lab / "again").exit_code == 0
    assert read_forgotten(local(lab / "again")).has_session("p02-s01")


def test_caches_of_the_same_recording_are_removed(lab: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, video in (("aa", "p02-s01"), ("bb", "p01-s01")):
        create_store(user_cache() / "extracted" / name)
        publish_frames(user_cache() / "extracted" / name, "recording", video=video)
    assert forget(lab, "p02-s01").exit_code == 0
    assert [path.name for path in (user_cache() / "extracted").iterdir() if path.is_dir()] == ["bb"]


def test_digests_of_the_files_of_a_recording_in_several_are_removed(
    lab: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    videos, names = lab / "study/videos", ("GX010001.avi", "GX020001.avi")
    (videos / "p02-s01.avi").rename(videos / names[0])
    (videos / names[1]).write_bytes(b"another part")
    joined = "videos/" + "+".join(names)
    table = lab / "study/sessions.csv"
    table.write_text(table.read_text().replace("videos/p02-s01.avi", joined))
    (root := user_cache() / "extracted").mkdir(parents=True)
    store = local(lab / "features")
    for kept, folder in ((store, lab / "study"), (local(root), Path("/"))):
        digests = DigestCache(kept, "inputs.json", folder)
        for name in names:
            os.utime(videos / name, (1e9, 1e9))
            digests.sha256(videos / name)
        digests.save()
    with FeatureWriter(store, "p02-s01", FEATURES["frames"]) as out:
        out.write("time", np.arange(400) / 15)
        made_of = {"path": joined, "sha256": recording_digest(lab / "study" / joined, sha256_file)}
        out.publish("e" * 64, {"inputs": {"video": made_of}})
    assert "inputs.json" in holding(lab / "features", *names)
    assert holding(root, *names) == ["inputs.json"]
    done = forget(lab, "p02-s01")
    assert done.exit_code == 0, done.output
    assert holding(lab / "features", *names) == holding(root, *names) == []


def test_a_renamed_session_is_forgotten_without_its_recording(lab: Path, tmp_path: Path) -> None:
    for path in (lab / "study").glob("*.csv"):
        path.write_text(path.read_text().replace("\np01-s02,", "\np01-s07,"))
    publish_frames(lab / "features", "p01-s07", video="p01-s02")
    assert run("index", lab / "study", lab / "features").exit_code == 0
    assert forget(lab, "p01-s02").exit_code == 0
    assert sessions_of(lab) == ["p01-s01", "p01-s07", "p02-s01"]
    assert list(load_study(lab / "study").sessions) == ["p01-s01", "p01-s07", "p02-s01"]


def test_reports_lose_the_pages_of_the_forgotten(lab: Path) -> None:
    site = lab / "site"
    (site / "sessions").mkdir(parents=True)
    (site / ".storyframes-report").write_text("")
    for name in SESSIONS:
        (site / f"sessions/{name}.html").write_text(f"about {name}")
    (site / "index.html").write_text("links to p02-s01")
    (site / "library.js").write_text("nobody")
    assert forget(lab, "p02-s01", "--also", site).exit_code == 0
    left = {path.relative_to(site).as_posix() for path in site.rglob("*.*") if path.is_file()}
    assert left == {".storyframes-report", "library.js", "sessions/p01-s01.html", "sessions/p01-s02.html"}


def test_where_they_were_given_is_said_and_then_nameless(lab: Path) -> None:
    note_given(local(lab / "features"), "release", "given-2026", ["p01-s01", "p02-s01"])
    note_given(local(lab / "features"), "export", "of-others", ["p01-s01"])
    said = json.loads(forget(lab, "p02-s01", "--json").stdout)["unreachable"]
    assert [line for line in said if "given-2026" in line]
    assert not [line for line in said if "of-others" in line]
    entries = (unseal((lab / "features/given.json").read_bytes(), "") or {})["given"]
    assert [(entry["sessions"], entry.get("forgotten")) for entry in entries] == [(["p01-s01"], 1), (["p01-s01"], None)]


@pytest.fixture
def two(lab: Path) -> Path:
    """A session of p01 and p02 with a camera of each."""
    study = lab / "study"
    pd.DataFrame(
        [("p01-s01", "p01", "p01", "listener"), ("p01-s01", "p02", "p02", "speaker")],
        columns=["session_id", "person_id", "participant_id", "role"],
    ).to_csv(study / "persons.csv", index=False)
    pd.DataFrame(
        [("p01-s01", "cam-a", "videos/p01-s01.avi", "p01"), ("p01-s01", "cam-b", "videos/p01-s02.avi", "p02")],
        columns=["session_id", "track", "video", "person_id"],
    ).to_csv(study / "tracks.csv", index=False)
    publish_frames(lab / "features", "p01-s01", track="cam-a")
    publish_frames(lab / "features", "p01-s01", video="p01-s02", track="cam-b")
    assert run("index", study, lab / "features").exit_code == 0
    return lab


def test_a_session_of_two_people_is_forgotten_as_a_whole_or_by_its_tracks(two: Path) -> None:
    before = holding(two, "")
    refused = forget(two, "--participant", "p02")
    assert refused.exit_code == 2
    assert "p01-s01" in refused.stderr
    assert "--only-tracks" in refused.stderr
    assert holding(two, "") == before
    done = forget(two, "--participant", "p02", "--only-tracks", "--tables")
    assert done.exit_code == 0, done.stderr
    assert "main, cam-a remain" in done.stdout
    features = {(row["session_id"], row["feature"]) for row in catalogue_rows(two / "features")}
    assert features == {("p01-s01", "frames"), ("p01-s01", "frames@cam-a"), ("p01-s02", "frames")}
    assert not (two / "features/p01-s01/frames@cam-b").exists()
    with pytest.raises(PublishError):
        publish_frames(two / "features", "p01-s01", track="cam-b")
    assert list(load_study(two / "study").tracks["p01-s01"]) == ["main", "cam-a"]
    assert run("index", two / "study", two / "features").exit_code == 0
    assert forget(two, "p01-s01").exit_code == 0
    assert not (two / "features/p01-s01").exists()


def test_a_session_of_two_people_as_a_whole(two: Path) -> None:
    assert forget(two, "--participant", "p02", "--whole-sessions").exit_code == 0
    assert sessions_of(two) == ["p01-s02"]


@pytest.mark.parametrize(
    "asked", [("p09-s01",), ("--participant", "p09"), (), ("p02-s01", "--only-tracks"), ("p02-s01", "--also", "/none")]
)
def test_what_nobody_has_is_refused(lab: Path, asked: tuple[str, ...]) -> None:
    assert forget(lab, *asked).exit_code == 2
    assert not (lab / "study/forgotten.json").exists()


def test_plug_ins_say_what_they_have(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "installed/example_notes-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: example-notes\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[storyframes.forget]\nnotes = example_notes:find\n")
    (installed.parent / "example_notes.py").write_text(
        "from tasks.forgetting import Trace\n"
        "def find(asked):\n"
        "    for path in sorted((asked.study / 'notes').glob('*.txt')):\n"
        "        if asked.scope.has_session(path.stem):\n"
        "            yield Trace.of_file(path, 'notes about a session')\n"
    )
    monkeypatch.syspath_prepend(str(installed.parent))
    (lab / "study/notes").mkdir()
    for session in SESSIONS:
        (lab / f"study/notes/{session}.txt").write_text("laughs a lot")
    assert forget(lab, "p02-s01").exit_code == 0
    assert sorted(path.stem for path in (lab / "study/notes").iterdir()) == ["p01-s01", "p01-s02"]
    (installed.parent / "example_notes.py").write_text("def find(asked):\n    yield 1 / 0\n")
    monkeypatch.delitem(sys.modules, "example_notes")
    refused = forget(lab, "p01-s01")
    assert refused.exit_code == 2
    assert "example-notes 1.0" in refused.stderr
    assert (lab / "features/p01-s01").exists()
