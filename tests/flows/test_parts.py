"""A study extracted in parts that know nothing of each other: each alone, together the whole, and nothing twice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import ROOT, storyframes_here
from support.messages import missing
from support.processes import HANG_S, wait_for
from support.servers.prefect_runs import request
from support.stores import local
from typer.testing import CliRunner

from flows.cli.app import app
from flows.noted_part import NotedPart
from flows.part_records import PartArray, PartState, array_progress, measured_over_expected, note_part
from flows.run import open_run, planned, selection_of
from storyframes.store import maintenance, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from storyframes.store.storage import Storage
from storyframes.store.storage.files import sha256_file
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.parts import deal, gpu_features, memory_needed_gb, processors_needed

_LISTENED = """
import atexit, os, socket, sys
sys.path.insert(0, "tests")
from support.processes import ports_of
listened = set()
socket.socket.listen = lambda *arguments: listened.add("listen")  # also one that is closed again
atexit.register(lambda: print(ports_of([os.getpid()]) | listened, *sys.modules))
from flows.cli.entry import main
main()
"""
ASKED = ("--features", "frames,opensmile,glove")


def part_lines(storage: Storage) -> list[str]:
    return [str(array) for array in array_progress(storage)]


def versions(root: Path) -> dict[str, str]:
    """By feature, its current version; and that there is no other."""
    found = {f"{e.session_id}/{e.feature}": e.record.version for e in record_status.scan(local(root)) if e.record}
    for name in found:
        assert len(list((root / name).glob("*/zarr.json"))) == 1, name
    return found


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(0.1, 1000), max_size=30), st.integers(1, 12))
def test_each_session_is_in_one_part_and_none_has_much_more_than_another(costs: dict[str, float], parts: int) -> None:
    dealt = deal(costs, parts)
    assert sorted(session for part in dealt for session in part) == sorted(costs)
    assert dealt == deal(dict(reversed(costs.items())), parts)  # the order of a table does not matter
    loads = [sum(costs[session] for session in part) for part in dealt]
    assert max(loads) <= min(loads) + max(costs.values(), default=0) + 1e-6


@pytest.mark.slow
def test_parts_together_are_one_run(small_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the second part is done before the first, one of them twice, and there are more than sessions."""
    config = request(small_study, tmp_path / "features").config
    root, whole = tmp_path / "features", tmp_path / "whole"
    before: dict[str, str] = {}
    lines: list[str] = []
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")  # nobody is asked there
    for part in ("2/4", "1/4", "2/4", "4/4", "3/4"):
        asked = ("extract", small_study, root, "--part", part, *ASKED, "--config", config)
        if part == "1/4":  # what it imports and listens on
            command = [sys.executable, "-c", _LISTENED, *map(str, asked)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            said, modules = done.stdout.splitlines()
            assert modules.startswith("set() ")
            foreign = {"prefect", "dask", "distributed"}
            assert {module.partition(".")[0] for module in modules.split()} & foreign == set()
        else:
            done = storyframes_here(*asked)
            said = done.stdout.strip()
        assert done.returncode == 0, done.stderr
        assert said.endswith(f": storyframes index {small_study} {root} --config {config}")
        after = versions(root)
        assert before.items() <= after.items()  # nothing is done again
        before = after
        lines += part_lines(local(root))
    ended = [("1 of 4", ": 1, 3, 4"), ("2 of 4", ": 3, 4"), ("2 of 4", ": 3, 4"), ("3 of 4", ": 3"), ("4 of 4", "")]
    assert [missing(line, "frames, opensmile, glove", *of) for line, of in zip(lines, ended, strict=True)] == [[]] * 5
    assert lines[-1] in storyframes_here("status", root).stdout
    assert not (root / "catalogue.parquet").exists()
    indexed = storyframes_here("index", small_study, root, "--config", config)
    assert indexed.returncode == 0, indexed.stderr
    monkeypatch.delenv("PREFECT_API_URL")  # a whole run asks the server that it names
    assert storyframes_here("extract", small_study, whole, *ASKED, "--config", config, "--workers", 1).returncode == 0
    parts, one = FeatureStore(root), FeatureStore(whole)
    columns = ["session_id", "feature", "status", "fingerprint", "rows", "bytes", "caveats", "quality"]
    there = [name for name in columns if name in one.catalogue]
    assert len(there) > 4
    assert parts.catalogue[there].astype(str).equals(one.catalogue[there].astype(str))
    assert parts.clips().astype(str).equals(one.clips().astype(str))
    digests = [
        sorted(sha256_file(path) for path in folder.rglob("c/**/*") if path.is_file()) for folder in (root, whole)
    ]
    assert digests[0] == digests[1] != []
    assert not list(maintenance.verify(local(root)))


def test_what_parts_leave_says_what_is_left_and_what_their_units_took(tmp_path: Path) -> None:
    storage = create_store(tmp_path / "features")
    array = PartArray(parts=14, features=["frames", "dope"])
    costs = {"frames": (2.0, 1.0), "dope,resnet50": (100.0, 300.0)}
    note_part(storage, "a", array, 2, PartState(due=9, done=4))
    note_part(storage, "a", array, 2, PartState(due=9, done=7, failed=1, costs=costs, cpus=1))  # it is killed here
    ended = PartState(due=5, done=4, failed=1, ended=True, costs={"frames": (2.0, 3.0)}, cpus=1)
    note_part(storage, "a", array, 1, ended)
    (line,) = part_lines(storage)
    said = (
        "frames, dope: 1 of 14",
        "failed features: 1 (1)",
        "left: 2 (2)",
        ": 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more",
    )
    assert missing(line, *said) == []
    said = CliRunner().invoke(app, ["status", str(tmp_path / "features"), "--json"])
    assert json.loads(said.output)["arrays"] == [
        {
            "features": ["frames", "dope"],
            "parts": 14,
            "ended": [1],
            "failed_features": {"1": 1},
            "left_features": {"2": 2},
            "not_begun": list(range(3, 15)),
            "dealt_alike": True,
            "mixed": [],
        }
    ]
    note_part(storage, "a", array, 2, PartState(due=2, done=2, ended=True))  # begun again, and nothing was measured
    assert measured_over_expected(storage, ["frames"], 1) == 1.0
    assert measured_over_expected(storage, ["frames", "dope", "resnet50"], 1) == pytest.approx(304 / 104)
    assert measured_over_expected(storage, ["frames", "dope"], 1) is None  # of dope alone nothing is known
    note_part(storage, "old", array, 1, PartState(costs={"frames": (1.0, 90.0)}))  # with who knows how many
    assert measured_over_expected(storage, ["frames"], 8) == 1.0
    many = PartState(costs={"frames": (1.0, 0.1), "glove": (1.0, 0.1)}, cpus=4)
    note_part(storage, "b", array, 1, many)
    note_part(storage, "b", array, 1, PartState(ended=True, cpus=1))  # its processors are those of what is measured
    assert measured_over_expected(storage, ["glove"], 4) == pytest.approx(0.1)
    assert [measured_over_expected(storage, [name], 3) for name in ("glove", "frames")] == [None, 1.0]
    (tmp_path / "features/parts.json").write_text("{}")
    assert part_lines(storage) == []


@pytest.mark.slow
def test_a_part_that_runs_twice_at_once_does_nothing_twice(small_study: Path, tmp_path: Path) -> None:
    """The second does the rest first, then waits for what the first is at."""
    recorded, root = small_study / "openface", tmp_path / "features"
    tool = tmp_path / "FeatureExtraction"
    tool.write_text(
        f"""#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift; done
name=${{input##*/}}; stem=${{name%.*}}
echo $stem >> {tmp_path}/runs
if mkdir {tmp_path}/first 2>/dev/null; then until [ -e {tmp_path}/go ]; do sleep .1; done; fi
gunzip -c {recorded}/$stem.csv.gz > $out/$stem.csv
"""
    )
    tool.chmod(0o755)
    sections = {"openface": {"backend": "binary", "binary": str(tool), "loads": [str(tool)]}}
    config = request(small_study, root, sections).config
    command = [sys.executable, "-m", "flows.cli", "extract", str(small_study), str(root), "--part", "1/1"]
    command += ["--features", "openface", "--config", str(config), "--workers", "2"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    first = start()
    wait_for(lambda: (tmp_path / "first").exists() or first.poll() is not None)
    second = start()
    said = ""
    for line in second.stderr:
        said += line
        if "waiting for at most" in line:
            break
    assert f"another process ({first.pid} of " in said
    assert "done s0002/openface" in said  # before it waits
    (tmp_path / "go").touch()
    said += second.stderr.read()
    errors = first.stderr.read()
    assert (first.wait(HANG_S), second.wait(HANG_S)) == (0, 0), (errors, said)
    assert sorted((tmp_path / "runs").read_text().split()) == ["s0001", "s0002"]
    assert len(versions(root)) == 4
    assert all(entry.status is Status.DONE for entry in record_status.scan(local(root)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--part", "0/4"), "is not NUMBER/COUNT, as 3/40"),
        (("--part", "5/4"), "--part 5/4: there are 4 parts, the last is 4/4"),
        (("--part", "1/2", "--server"), "--part 1/2 is done in this process alone: leave out --cluster and --server"),
    ],
)
def test_what_is_no_part(small_study: Path, tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    refused = storyframes_here("extract", small_study, tmp_path / "features", "--features", "frames", *options)
    assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


def test_what_is_done_does_not_change_what_a_part_is(small_study: Path, tmp_path: Path) -> None:
    asked = request(small_study, tmp_path / "features", only=["frames"], part="1/2")
    before = selection_of(open_run(asked))[0].session_ids
    done = storyframes_here("extract", small_study, tmp_path / "features", "--features", "frames", "--part", "2/2")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"Next: storyframes index {small_study} {tmp_path / 'features'}"
    assert selection_of(open_run(asked))[0].session_ids == before
    assert before is not None
    assert len(before) in (1, 2)  # a session, and perhaps the stories


def test_parts_that_deal_the_sessions_differently_are_noticed(small_study: Path, tmp_path: Path) -> None:
    """A recording is away for a moment, so both parts take the same session, and none the other."""
    study, root = Path(shutil.copytree(small_study, tmp_path / "study")), tmp_path / "features"

    def begin(part: str) -> tuple[str, ...] | None:
        run = planned(open_run(request(study, root, only=["frames"], part=part)))
        with NotedPart(run):
            return selection_of(run)[0].session_ids

    first = begin("1/2")
    assert [line for line in part_lines(local(root)) if "differently" in line] == []
    _, video = sorted((study / "videos").iterdir())
    away = video.rename(tmp_path / "away")
    assert begin("2/2") == first
    (line,) = part_lines(local(root))
    assert missing(line, "frames: 2 of 2", "dealt the sessions differently") == []
    away.rename(video)
    assert begin("2/2") != first
    assert part_lines(local(root)) == ["frames: 2 of 2 parts ended"]


def test_a_part_of_very_many_is_noted(small_study: Path, tmp_path: Path) -> None:
    root = tmp_path / "features"
    with NotedPart(planned(open_run(request(small_study, root, only=["frames"], part="1/100001")))):
        pass
    (line,) = part_lines(local(root))
    assert missing(line, "frames: 1 of 100001", ": 2, 3") == []


def test_a_part_has_the_processors_of_what_its_features_wait_for(tmp_path: Path) -> None:
    faces = {"name": "faces", "kind": "image", "source": f"path:{tmp_path}", "crop": "face", "device": "cuda"}
    openface = {"backend": "binary", "binary": "/usr/bin/true", "cpus": 4}
    settings = ExtractorsSettings.model_validate({"embed": [faces], "openface": openface})
    assert gpu_features(settings, ["faces", "openface", "frames"]) == ("faces",)
    assert processors_needed(settings, ["faces"]) == 4
    assert processors_needed(settings, ["frames"]) == 1
    assert memory_needed_gb(settings, ["faces"]) == 9  # 4 GB, and 4 GiB of the tool that it waits for
    assert memory_needed_gb(settings, ["frames"]) == memory_needed_gb(ExtractorsSettings(), ["openface"]) == 4
