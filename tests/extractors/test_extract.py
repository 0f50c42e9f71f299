"""Planning and doing single units of work, without Prefect and Dask."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from pathlib import Path

import pytest
from support.media.video_variants import ffmpeg
from support.messages import missing
from support.stores import local
from support.studies import extract_session, one_session_study, run

from storyframes.store import catalogue, maintenance, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from tasks.extract import extract as do_work
from tasks.extractors.base import ExtractionError
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.failures import explain
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.models.digests import DigestCache
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection, SelectionError
from tasks.study.load import load_study

ROOT = Path(__file__).parents[2]
FAST = ("openface", "opensmile")


@pytest.mark.slow
def test_a_real_recording_with_its_real_csv(shared: Path, tmp_path: Path, store_root: Path) -> None:
    data = shared / "data/openface"
    study = one_session_study(tmp_path / "study", data / "face15fps_480p_audio.avi", data / "face15fps_480p_audio.csv")
    outcomes = run(study, store_root)
    assert {name: (str(o.status), o.rows) for name, o in outcomes.items()} == {
        "s1/frames": ("done", 180),
        "s1/openface": ("done", 180),
        "s1/opensmile": ("done", 1196),
    }
    store = FeatureStore(store_root)
    assert store.read("s1", "openface", array="valid").all()
    assert store.read("s1", "opensmile", array="per_frame").shape == (180, 65)


@pytest.mark.needs("ffmpeg")
@pytest.mark.slow
def test_the_beginning_of_a_real_recording_has_every_feature(shared: Path, tmp_path: Path, store_root: Path) -> None:
    data = shared / "data/openface"
    # Its first second: a network takes a tenth of a second for each of the 180 frames.
    video, table = tmp_path / "face.avi", tmp_path / "face.csv"
    ffmpeg("-i", data / "face15fps_480p_audio.avi", "-c", "copy", "-t", "1", video)
    table.write_text("".join((data / "face15fps_480p_audio.csv").read_text().splitlines(keepends=True)[:16]))
    transcript = '{"utterances": [{"speaker": "participant", "start_s": 0.4, "end_s": 0.9, "text": "the garden"}]}'
    study = one_session_study(tmp_path / "study", video, table, transcript)
    settings = {
        "resnet50": {"allow_untrained": True, "engine": "torch"},  # OpenVINO converts longer than 15 frames take
        "glove": {"vectors": ROOT / "demo/glove.demo.300d.txt", "demo_vectors": True},
    }
    features = ("openface", "resnet50", "opensmile", "glove")
    store, outcomes = extract_session(study, store_root, *features, session_id="s1", **settings)
    rows = {feature: outcome.rows for feature, outcome in outcomes.items()}
    assert rows == {"frames": 15, "openface": 15, "resnet50": 15, "opensmile": 98, "glove": 2}
    assert store.read("s1", "vision", 5, 15).shape == (10, 2762)


@pytest.mark.parametrize(
    ("video", "csv", "reason"),
    [
        ("zero.avi", None, "zero.avi: the file is empty"),
        ("garbage.avi", None, "garbage.avi: is not a media file"),
        ("header_only.avi", None, "header_only.avi: is not a media file"),
        ("audio_only.avi", None, "audio_only.avi: has no video stream"),
        ("trunc.avi", "trunc.csv", "trunc.avi: the header promises 842 frames, 448 decode"),
        ("corrupt_mid.avi", "corrupt_mid.csv", "corrupt_mid.avi: the header promises 702 frames, 659 decode"),
    ],
)
def test_every_damaged_video_fails_clearly_and_publishes_nothing(
    shared: Path, tmp_path: Path, store_root: Path, video: str, csv: str | None, reason: str
) -> None:
    faults = shared / "data/openface/faults"
    study = one_session_study(tmp_path / "study", faults / video, faults / (csv or "black.csv"))
    outcomes = run(study, store_root)
    assert {str(outcome.status) for outcome in outcomes.values()} == {"failed"}
    for outcome in outcomes.values():
        assert reason in outcome.reason
    assert outcomes["s1/openface"].reason.startswith("needs the frame times: ")
    assert not FeatureStore(store_root).sessions
    assert not list(maintenance.verify(local(store_root)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("trunc", 448), ("corrupt_mid", 659)])
def test_a_truncated_video_is_used_if_allowed_with_a_caveat(
    shared: Path, tmp_path: Path, store_root: Path, name: str, rows: int
) -> None:
    faults = shared / "data/openface/faults"
    study = one_session_study(tmp_path / "study", faults / f"{name}.avi", faults / f"{name}.csv")
    outcomes = run(study, store_root, recording={"allow_truncated": True})
    assert (outcomes["s1/openface"].rows, outcomes["s1/openface"].caveats) == (rows, ("truncated video",))
    provenance = FeatureStore(store_root).attributes("s1", "openface")["provenance"]
    assert provenance["settings"]["allow_truncated"] is True


@pytest.mark.parametrize(
    ("video", "csv", "reason"),
    [
        ("noface.avi", "default.enospc_truncated.csv", "line 106 has 409 fields"),
        ("face_gap_face.avi", "killed_midrun.partial.csv", "row 2 has AU06_r = -0.32"),
        ("black.avi", "noface.csv", "has more than 30 rows, but 30 frames"),
    ],
)
def test_a_bad_csv_fails_alone(shared, tmp_path, store_root, video: str, csv: str, reason: str) -> None:
    faults = shared / "data/openface/faults"
    study = one_session_study(tmp_path / "study", faults / video, faults / csv)
    outcomes = run(study, store_root, Selection(only=("openface",)))
    assert outcomes["s1/frames"].status is Status.DONE
    assert outcomes["s1/openface"].status is Status.FAILED
    assert reason in outcomes["s1/openface"].reason
    assert FeatureStore(store_root).features("s1") == ["frames"]


@pytest.mark.parametrize(("name", "rows"), [("black", 30), ("noface", 45), ("face_gap_face", 120)])
def test_videos_without_a_face_are_masked_not_failed(shared, tmp_path, store_root, name: str, rows: int) -> None:
    faults = shared / "data/openface/faults"
    study = one_session_study(tmp_path / "study", faults / f"{name}.avi", faults / f"{name}.csv")
    outcomes = run(study, store_root, Selection(only=("openface",)))
    assert outcomes["s1/openface"].rows == rows
    store = FeatureStore(store_root)
    assert store.read("s1", "openface", array="valid").sum() == {"face_gap_face": 90}.get(name, 0)
    (row,) = store.catalogue[store.catalogue["feature"] == "openface"].itertuples()
    assert '"face_tracked": 0.75' in row.quality if name == "face_gap_face" else '"face_tracked": 0.0' in row.quality


# --- skip or redo ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def extracted_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small study of three sessions and the store of its fast features: leave it as it is."""
    folder = tmp_path_factory.mktemp("extracted")
    study = folder / "study"
    write_study(study, SyntheticStudy(sessions=3, seconds=1, width=64, height=48))
    create_store(folder / "features")
    run(study, folder / "features")
    return folder


@pytest.fixture
def extracted(extracted_once: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A study and its store, copied with the times of their files, to change."""
    return tuple(Path(shutil.copytree(extracted_once / name, tmp_path / name)) for name in ("study", "features"))


def work_due(study: Path, root: Path, selection: Selection | None = None, **settings) -> list[str]:
    plan = plan_extraction(load_study(study), root, ExtractorsSettings(**settings), selection or Selection(only=FAST))
    return [work.name for work in plan.units]


def test_an_unchanged_study_has_no_work_due(extracted: tuple[Path, Path], tmp_path: Path) -> None:
    study_copy, store_root = extracted
    create_store(tmp_path / "another")
    assert len(work_due(study_copy, tmp_path / "another")) == 9
    assert work_due(study_copy, store_root) == []


def test_only_what_depends_on_a_changed_input_is_due(extracted: tuple[Path, Path]) -> None:
    study_copy, store_root = extracted
    shutil.copy(study_copy / "openface/s0002.csv.gz", study_copy / "openface/s0001.csv.gz")
    assert work_due(study_copy, store_root) == ["s0001/openface"]
    shutil.copy(study_copy / "videos/s0002.avi", study_copy / "videos/s0001.avi")
    assert work_due(study_copy, store_root) == ["s0001/frames", "s0001/opensmile", "s0001/openface"]


def test_a_touched_but_unchanged_input_is_not_due(extracted: tuple[Path, Path]) -> None:
    study_copy, store_root = extracted
    os.utime(study_copy / "videos/s0001.avi")
    assert work_due(study_copy, store_root) == []


def test_a_setting_that_decides_values_makes_its_feature_due(extracted: tuple[Path, Path]) -> None:
    study_copy, store_root = extracted
    due = work_due(study_copy, store_root, opensmile={"feature_set": "eGeMAPSv02"})
    assert due == ["s0001/opensmile", "s0002/opensmile", "s0003/opensmile"]


def test_a_damaged_version_is_due_again(extracted: tuple[Path, Path]) -> None:
    study_copy, store_root = extracted
    (shard,) = (store_root / "s0001/openface").glob("*/values/c/0/0")
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    assert work_due(study_copy, store_root) == ["s0001/openface"]
    run(study_copy, store_root)
    assert not list(maintenance.verify(local(store_root)))


def test_force_redoes_what_was_asked_for_and_not_its_clock(extracted: tuple[Path, Path]) -> None:
    study_copy, store_root = extracted
    selection = Selection(("s0001",), ("openface",), force=True)
    assert work_due(study_copy, store_root, selection) == ["s0001/openface"]
    before = FeatureStore(store_root)
    outcome = run(study_copy, store_root, selection)["s0001/openface"]
    assert not outcome.skipped
    catalogue.compact(local(store_root))
    assert FeatureStore(store_root)._versions != before._versions


def test_a_feature_done_meanwhile_by_somebody_else_is_not_done_again(study_copy: Path, store_root: Path) -> None:
    selection = Selection(("p01-s01",), ("openface",), force=True)
    plan = plan_extraction(load_study(study_copy), store_root, ExtractorsSettings(), selection)
    first = [outcome for work in plan.units for outcome in do_work(work)]
    again = [outcome for work in plan.units for outcome in do_work(work)]
    assert [outcome.skipped for outcome in first] == [False, False]
    assert [outcome.skipped for outcome in again] == [True, True]


def test_another_machine_skips_as_well(extracted_once: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(extracted_once / "study", tmp_path / "elsewhere/mounted")
    store = shutil.copytree(
        extracted_once / "features", tmp_path / "elsewhere/features", copy_function=shutil.copyfile
    )  # new mtimes
    assert work_due(moved, store) == []


def test_inputs_are_read_once(study_copy: Path, store_root: Path, monkeypatch) -> None:
    import tasks.models.digests as digests

    for path in study_copy.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    work_due(study_copy, store_root)
    read = []
    monkeypatch.setattr(digests, "sha256_file", lambda path: read.append(path) or "0" * 64)
    work_due(study_copy, store_root)
    assert read == []
    os.utime(study_copy / "videos/p01-s01.avi", (1_700_000_001, 1_700_000_001))
    work_due(study_copy, store_root)
    assert [path.name for path in read] == ["p01-s01.avi"]


@pytest.mark.parametrize("when", ["after planning", "as soon as its digest is known"])
def test_an_input_that_changes_while_it_is_read_is_refused(
    study_copy: Path, store_root: Path, monkeypatch, when: str
) -> None:
    sha256 = DigestCache.sha256

    def replace() -> None:
        shutil.copy(study_copy / "openface/p01-s02.csv.gz", study_copy / "openface/p01-s01.csv.gz")

    def and_then_replaced(cache: DigestCache, path: Path) -> str:
        digest = sha256(cache, path)
        if path.name == "p01-s01.csv.gz":
            replace()
        return digest

    with monkeypatch.context() as planning:
        if when != "after planning":
            planning.setattr(DigestCache, "sha256", and_then_replaced)
        plan = plan_extraction(
            load_study(study_copy), store_root, ExtractorsSettings(), Selection(("p01-s01",), ("openface",))
        )
    if when == "after planning":
        replace()
    outcomes = {outcome.feature: outcome for work in plan.units for outcome in do_work(work)}
    assert outcomes["frames"].status is Status.DONE
    assert missing(outcomes["openface"].reason, "openface/p01-s01.csv.gz", "changed") == []


def test_an_input_that_vanishes_fails_its_feature_only(extracted: tuple[Path, Path], tmp_path: Path) -> None:
    study, _ = extracted
    create_store(root := tmp_path / "another")
    plan = plan_extraction(load_study(study), root, ExtractorsSettings(), Selection(("s0001",), FAST))
    (study / "openface/s0001.csv.gz").unlink()
    outcomes = {outcome.feature: outcome for work in plan.units for outcome in do_work(work)}
    assert "s0001.csv.gz" in outcomes["openface"].reason
    assert outcomes["opensmile"].status is Status.DONE


def test_a_failed_feature_is_tried_again_and_its_note_goes(extracted: tuple[Path, Path], tmp_path: Path) -> None:
    study, _ = extracted
    create_store(root := tmp_path / "another")
    one, table = Selection(("s0001",), FAST), study / "openface/s0001.csv.gz"
    good = table.read_bytes()
    table.write_bytes(b"nonsense")
    assert run(study, root, one)["s0001/openface"].status is Status.FAILED
    assert work_due(study, root, one) == ["s0001/openface"]
    table.write_bytes(good)
    assert run(study, root, one)["s0001/openface"].status is Status.DONE
    assert all(entry.status is Status.DONE for entry in record_status.scan(local(root)))


# --- errors nobody expected ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("zebra"), r"unexpected ValueError at test_extract.py:\d+: zebra"),
        (OSError(28, "No space left on device"), "the disk of the feature store is full"),
        (PermissionError(13, "Permission denied", "/some/where/secret.avi"), "^secret.avi: Permission denied$"),
        (ExtractionError("clear"), "^clear$"),
    ],
)
def test_every_error_becomes_an_outcome(study_copy, store_root, monkeypatch, error: Exception, reason: str) -> None:
    import re

    from tasks.extractors.openface.extractor import OpenFace

    def fail(self, source, out):
        out.array("values")
        raise error

    monkeypatch.setattr(OpenFace, "extract", fail)
    outcome = run(study_copy, store_root, Selection(("p01-s01",), ("openface",)))["p01-s01/openface"]
    assert outcome.status is Status.FAILED
    assert re.search(reason, outcome.reason), outcome.reason
    (entry,) = [entry for entry in record_status.scan(local(store_root)) if entry.feature == "openface"]
    assert entry.reason == outcome.reason


def test_an_unexpected_error_in_a_text_feature_does_not_quote_its_message(study_copy, store_root, monkeypatch) -> None:
    from tasks.extractors.sbert import Sbert

    def fail(self, source, out):
        raise KeyError("zebra")

    monkeypatch.setattr(Sbert, "extract", fail)
    outcome = run(study_copy, store_root, Selection(("p01-s01",), ("sbert",)))["p01-s01/sbert"]
    assert outcome.reason.startswith("unexpected KeyError at test_extract.py:")
    assert "zebra" not in outcome.reason


@pytest.mark.slow
def test_a_disk_that_fills_while_publishing(study_copy: Path, small_disk: Path) -> None:
    root = small_disk / "features"
    outcomes = run(study_copy, root)  # 1 MB holds one session's features, not three
    assert {str(outcome.status) for outcome in outcomes.values()} == {"done", "failed"}
    for outcome in outcomes.values():
        if outcome.status is Status.FAILED:
            assert missing(outcome.reason, "feature store", "full") == []
    done = {name for name, outcome in outcomes.items() if outcome.status is Status.DONE}
    store = FeatureStore(root)
    assert {f"{s}/{f}" for s in store.sessions for f in store.features(s)} == done


# --- selections and settings -----------------------------------------------------------------------------------------


def test_unknown_names_are_refused_with_a_hint(demo_study: Path, store_root: Path) -> None:
    for selection, message in (
        (Selection(("p01-s1",)), "there is no session 'p01-s1': is 'p01-s01' meant"),
        (Selection(only=("opensmil",)), "there is no feature 'opensmil': is 'opensmile' meant"),
        (Selection(only=("xyz",)), "there are frames, openface"),
    ):
        with pytest.raises(SelectionError, match=message):
            plan_extraction(load_study(demo_study), store_root, ExtractorsSettings(), selection)


def test_every_extractor_keeps_the_protocol() -> None:
    for session_id in ("s1", "stories"):
        for name, extractor in build_extractors(ExtractorsSettings(), session_id).items():
            assert extractor.name == name
            assert dict(extractor.needs) == {} or all(value > 0 for value in extractor.needs.values())
            assert extractor.libraries


def test_provenance_names_no_host_and_no_path(extracted_once: Path) -> None:
    import json
    import socket

    study_copy, store_root = extracted_once / "study", extracted_once / "features"
    for entry in record_status.scan(local(store_root)):
        text = json.dumps(dataclasses.asdict(entry.record))
        assert str(study_copy) not in text
        assert str(store_root) not in text
        assert f'"{socket.gethostname()}"' not in text
        provenance = entry.record.provenance
        assert provenance["inputs"]["video"]["path"].startswith("videos/")
        assert len(provenance["inputs"]["video"]["sha256"]) == 64
        assert set(provenance) == {"extractor", "inputs", "settings", "models", "tools", "libraries", "code", "private"}
        assert provenance["private"] == (entry.feature in ("glove", "sbert"))


@pytest.mark.slow
def test_no_word_of_a_transcript_or_story_is_in_the_store(demo_study: Path, store_root: Path) -> None:
    from flows.settings import load_settings

    settings = load_settings(Path(__file__).parents[2] / "demo/storyframes.toml")
    study = load_study(demo_study)
    plan = plan_extraction(study, store_root, settings, Selection(only=("glove", "sbert")))
    assert all(outcome.status is Status.DONE for work in plan.units for outcome in do_work(work))
    catalogue.compact(local(store_root))
    content = b"".join(path.read_bytes() for path in store_root.rglob("*") if path.is_file()).lower()
    for word in ("grandfather", "bakery every week", "walked home", "neighbour", "alone"):
        assert word.encode() not in content


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (OSError(5, "Input/output error"), True),
        (OSError(116, "Stale file handle"), True),
        (OSError(28, "No space left on device"), False),
        (FileNotFoundError(2, "No such file or directory"), False),
        (ExtractionError("bad input"), False),
        (ValueError("a mistake of ours"), False),
    ],
)
def test_only_what_may_pass_is_worth_another_try(study_copy, store_root, monkeypatch, error, transient) -> None:
    from tasks.extractors.openface.extractor import OpenFace

    def fail(self, source, out):
        raise error

    monkeypatch.setattr(OpenFace, "extract", fail)
    assert (
        run(study_copy, store_root, Selection(("p01-s01",), ("openface",)))["p01-s01/openface"].transient is transient
    )


def test_a_library_that_is_not_installed_is_named_with_what_installs_it(
    study_copy: Path, store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tasks.extractors.opensmile.stream", raising=False)
    monkeypatch.setitem(sys.modules, "opensmile", None)
    outcome = run(study_copy, store_root, Selection(("p01-s01",), ("opensmile",)))["p01-s01/opensmile"]
    assert outcome.status is Status.FAILED
    assert missing(outcome.reason, "'opensmile'", "pip install", "pipeline") == []


@pytest.mark.parametrize("error", [ExtractionError("zebra"), OSError(5, "zebra", "/tmp/zebra.wav"), KeyError("zebra")])
def test_of_a_feature_of_words_no_text_of_other_code_is_told(store_root: Path, error: Exception) -> None:
    extractors = build_extractors(ExtractorsSettings(), "")
    try:
        raise error  # here, which is not the program's code
    except Exception as raised:
        told = {name: explain(local(store_root), extractors[name], raised) for name in ("glove", "frames")}
    assert "zebra" not in told["glove"]
    assert "zebra" in told["frames"]
