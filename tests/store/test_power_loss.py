"""The power fails while a version is published: the disk holds the old version or the new one, whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.faults import faulty_disk
from support.faults.faulty_disk import Found, Loss, Recording
from support.media.recordings import FPS, write_recording
from support.stores import local
from support.studies import make_study

from storyframes.features import FEATURES
from storyframes.store import catalogue, maintenance
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Current, Status

PUBLISH = """
import os, sys
from pathlib import Path
import numpy as np
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.storage.local_folder import LocalStorage
from storyframes.store.publish import FeatureWriter
{mutant}
storage = LocalStorage(Path(sys.argv[1]))
with FeatureWriter(storage, "a", FEATURES["frames"]) as out:
    out.write("time", np.arange(70.0))
    out.publish("new", {{}})
catalogue.compact(storage)
"""

CYCLE = """
import sys
from typer.testing import CliRunner
from flows.cli.app import app
study, root, config = sys.argv[1:]
extract = ["extract", study, root, "--config", config, "--features", "frames", "--workers", "1", "--replace-study"]
for command in (extract, ["gc", root, "--grace-hours", "0"]):
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
"""

pytestmark = [pytest.mark.slow, pytest.mark.needs("cc")]

MUTANTS = {
    "a version's files are not flushed": "import storyframes.store.storage.local_folder as f; "
    "f.flush_tree = lambda folder: None",
    "current.json is not flushed": "import storyframes.store.storage.files as d; d.os = type('os', (), "
    "{**vars(os), 'fsync': staticmethod(lambda fd: None)})",
    "folders are not flushed": "from storyframes.store.storage import files as d, local_folder as f; "
    "d.flush_folder = f.flush_folder = lambda folder: True",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faulty_disk.build(tmp_path_factory.mktemp("library"))


def recorded_publication(root: Path, library: Path, mutant: str = "") -> Recording:
    with FeatureWriter(local(root), "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(60.0))
        out.publish("old", {})
    record_attempt(local(root), "a", "frames", Status.FAILED, "an earlier failure", "")
    catalogue.compact(local(root))
    recording = faulty_disk.recorded(library, root, PUBLISH.format(mutant=mutant), str(root))
    assert recording.is_complete()
    return recording


def problems(recording: Recording, steps: int, loss: Loss, disk: Path, seed: int = 0) -> list[str]:
    """What is wrong with the disk that is found."""
    case = (recording.found_after(steps, loss, seed), steps == len(recording.steps))
    if case not in recording.judged:
        recording.judged[case] = judge(*case, disk)
    return recording.judged[case]


def judge(content: Found, is_over: bool, disk: Path) -> list[str]:
    faulty_disk.lay(content, disk)
    try:
        found = Current.parse((disk / "a/frames/current.json").read_bytes(), "current.json")
        wrong = [] if found else ["no version is current"]
        wrong += [f"{finding.path}: {finding.problem}" for finding in maintenance.verify(local(disk))]
        if found and not wrong:
            (disk / "catalogue.parquet").unlink()  # as 'index' and the next extraction make it anew
            (disk / "checksums.json").unlink()
            rows = {"old": 60, "new": 70}[found.fingerprint]
            read = FeatureStore(disk).read("a", "frames", array="time")
            wrong += [] if np.array_equal(read, np.arange(float(rows))) else ["other values"]
            if is_over and found.fingerprint != "new":
                wrong.append("what was published is lost")
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    else:
        return wrong
    finally:
        shutil.rmtree(disk)


def test_whatever_the_power_loss_leaves_is_the_old_or_the_new_version(
    store_root: Path, library: Path, tmp_path: Path
) -> None:
    recording = recorded_publication(store_root, library)
    assert len(recording.steps) > 30
    cases = [(steps, loss, seed) for steps in range(len(recording.steps) + 1) for loss, seed in (
        (Loss.ALL, 0), (Loss.CONTENTS, 0), (Loss.SOME, 1), (Loss.SOME, 2))]  # fmt: skip
    for steps, loss, seed in cases:
        assert not problems(recording, steps, loss, tmp_path / "disk", seed), (loss, recording.steps[:steps][-3:])


def test_a_power_loss_while_garbage_is_removed_takes_no_current_version(
    store_root: Path, library: Path, tmp_path: Path
) -> None:
    # gc itself compacts with the catalogue's own function, which it must have imported before another takes its place.
    collect = "from storyframes.store.maintenance import collect; removed = []; catalogue_compact = catalogue.compact; "
    collect += "catalogue.compact = lambda s: (catalogue_compact(s), removed.extend(collect(s, -1)))"
    recording = recorded_publication(store_root, library, collect)
    assert any(step[0] == "unlink" and "/c/0" in step[1] for step in recording.steps)  # the version before it is gone
    for steps in range(len(recording.steps) + 1):
        for loss in (Loss.ALL, Loss.CONTENTS, Loss.SOME):
            assert not problems(recording, steps, loss, tmp_path / "disk", 1), (loss, recording.steps[:steps][-3:])


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_flush_that_is_left_out_is_noticed(store_root: Path, library: Path, tmp_path: Path, mutant: str) -> None:
    recording = recorded_publication(store_root, library, mutant)
    after = range(len(recording.steps) + 1)
    assert any(problems(recording, steps, loss, tmp_path / "disk") for steps in after for loss in Loss)


def test_a_power_loss_anywhere_from_the_extraction_to_gc_leaves_no_half_of_anything(
    tmp_path: Path, library: Path
) -> None:
    """Features, catalogue and clip index are each as before or as after; at the end they are as after."""
    root, config = tmp_path / "features", tmp_path / "c.toml"
    study = make_study(tmp_path / "study", video="v.avi")
    (study / "phases.csv").write_text("session_id,phase,start_s,end_s\ns,talk,0,2\n")
    config.write_text("[clips]\nwindow = 10\nstride = 5\n")
    write_recording(study / "v.avi", 40)
    command = [str(study), str(root), str(config)]
    result = faulty_disk.run(library, CYCLE, *command)
    assert result.returncode == 0, result.stderr
    write_recording(study / "v.avi", 60)
    recording = faulty_disk.recorded(library, root, CYCLE, *command)
    assert recording.is_complete()
    was, becomes = whole(recording.before), whole(root)
    assert was == ([], 40, 7)
    assert becomes == ([], 60, 9)
    found: dict[Found, tuple[list[str], int, int]] = {}
    for steps in range(len(recording.steps) + 1):
        loss = [*Loss][steps % 3]
        content = recording.found_after(steps, loss, seed=steps)
        if content not in found:
            faulty_disk.lay(content, disk := tmp_path / f"disk-{steps}")
            found[content] = whole(disk)
        for each, before, after in zip(found[content], was, becomes, strict=True):
            assert each in (before, after), (loss, recording.steps[:steps][-3:])
    assert found[content] == becomes


def whole(root: Path) -> tuple[list[str], int, int]:
    """What verify finds; how many frames and how many clips whoever opens the store reads."""
    findings = [f"{finding.path}: {finding.problem}" for finding in maintenance.verify(local(root))]
    store = FeatureStore(root)
    times = store.read("s", "frames", array="time")
    np.testing.assert_allclose(times, np.arange(len(times)) / FPS)
    return findings, len(times), len(store.clips())
