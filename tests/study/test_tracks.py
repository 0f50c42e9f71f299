"""Features of other tracks than the session's own: what is extracted of which, where it lies, what never changes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from support.media.recordings import write_recording, write_wave
from support.messages import missing, naming
from support.stores import local
from support.studies import run

from flows.cli.start import forecast_table, summary
from flows.cli.status_tables import status_tables
from flows.cli.upkeep import repair_advice
from flows.gather import Bundle, Executor, Gather
from flows.request import ExtractionRequest
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES, OPENFACE_COLUMNS, in_order
from storyframes.store import maintenance, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, create_store, feature_path
from storyframes.store.maintenance import Finding
from storyframes.store.maintenance.archive import archive
from storyframes.store.publish import FeatureWriter, PublishError
from storyframes.store.records import Status
from tasks.clip_index.index import build_clip_index
from tasks.extract import Outcome
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.planning.forecast import forecast, measure_study
from tasks.planning.plan import Plan, expected_versions, plan_extraction
from tasks.planning.selection import Selection, SelectionError
from tasks.study.load import load_study

FEATURES_HERE = ("frames", "openface", "opensmile", "glove")
RATE = 16_000


def tone(seconds: float, hertz: float = 200.0, channels: int = 0) -> np.ndarray:
    samples = (9000 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE)).astype(np.int16)
    return np.tile(samples[:, None], channels) if channels else samples


def write_openface(path: Path, frames: int, number: float) -> None:
    """OpenFace's output, with one number in every column that it does not check."""
    fixed = {"face_id": 0, "confidence": 0.9, "success": 1}
    lines = [",".join(OPENFACE_COLUMNS)]
    for frame in range(frames):
        row = {
            **dict.fromkeys(OPENFACE_COLUMNS, number),
            **fixed,
            "frame": frame + 1,
            "timestamp": round(frame / 25, 3),
        }
        lines.append(",".join(str(row[column]) for column in OPENFACE_COLUMNS))
    path.write_text("\n".join(lines) + "\n")


def write_words(path: Path, words: str) -> None:
    path.write_text(json.dumps({"utterances": [{"speaker": "A", "start_s": 0.2, "end_s": 1.0, "text": words}]}))


TRACKS = {
    "dyad": "dyad,child_b,b.mkv,,,b.csv,\ndyad,lapel_a,,a.wav,,,\ndyad,lapel_b,,b.wav,,,\n",
    "robot": "robot,robot_eye,late.mkv,,,,eye\n",
    "voices": "voices,anna,,anna.wav,anna.json,,\nvoices,ben,,ben.wav,,,\n",
}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path)


def write_study(folder: Path) -> Path:
    """A dyad with two cameras and two lapels, a robot whose camera begins later, a video with a WAV per speaker."""
    root = folder / "study"
    root.mkdir()
    write_recording(root / "a.mkv", 50, tone(2.0, channels=1))
    write_openface(root / "a.csv", 50, 0.25)
    write_recording(root / "b.mkv", 30, tone(1.2, 400, channels=1))
    write_openface(root / "b.csv", 30, 0.5)
    write_recording(root / "late.mkv", 20)
    write_recording(root / "voices.mkv", 40)
    for name, seconds in (("a", 1.9), ("b", 1.5), ("anna", 1.6), ("ben", 1.0)):
        write_wave(root / f"{name}.wav", tone(seconds, 300), RATE)
    write_words(root / "anna.json", "we sang")
    sessions = "session_id,participant_id,video,openface\ndyad,p1,a.mkv,a.csv\nrobot,p2,a.mkv,\nvoices,p3,voices.mkv,\n"
    (root / "sessions.csv").write_text(sessions)
    (root / "tracks.csv").write_text(
        "session_id,track,video,audio,transcript,openface,clock\n" + "".join(TRACKS.values())
    )
    (root / "clocks.csv").write_text("session_id,clock,clock_s,session_s\nrobot,eye,0,3.2\nrobot,eye,3600.144,3603.2\n")
    return root


@pytest.fixture
def glove(tmp_path: Path) -> dict[str, object]:
    return write_vectors(tmp_path)


def write_vectors(folder: Path) -> dict[str, object]:
    vectors = folder / "glove.txt"
    vectors.write_text("".join(f"{word} {' '.join(['0.5'] * 300)}\n" for word in ("we", "sang")))
    return {"vectors": vectors, "demo_vectors": True}


def extracted(study: Path, root: Path, glove: dict[str, object], **selection: object) -> dict[str, Outcome]:
    chosen = Selection(**{"only": FEATURES_HERE, **selection})  # type: ignore[arg-type]
    return run(study, root, chosen, glove=glove)


@dataclass(frozen=True)
class Whole:
    """A study that is extracted; its tests read it alone."""

    study: Path
    root: Path
    glove: dict[str, object]
    outcomes: dict[str, Outcome]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    study, vectors = write_study(folder), write_vectors(folder)
    create_store(folder / "features")
    return Whole(study, folder / "features", vectors, extracted(study, folder / "features", vectors))


def planned(study: Path, root: Path, **selection: object) -> Plan:
    settings = ExtractorsSettings(features=("frames", "openface", "opensmile"))
    return plan_extraction(load_study(study), root, settings, Selection(**selection))  # type: ignore[arg-type]


def keys(plan: Plan) -> set[str]:
    """By session, the features as the store calls them: of the work, and of what needs none."""
    due = {f"{work.session_id}/{work.stored(feature)}" for work in plan.units for feature in work.features}
    return due | {f"{outcome.session_id}/{outcome.feature}" for outcome in plan.settled}


@pytest.mark.slow
def test_every_track_has_the_features_that_it_has_the_files_for(whole: Whole) -> None:
    store_root, outcomes = whole.root, whole.outcomes
    done = {name for name, outcome in outcomes.items() if outcome.status is Status.DONE}
    of_tracks = {name for name in outcomes if "@" in name}
    assert of_tracks == {
        *("dyad/frames@child_b", "dyad/openface@child_b", "dyad/opensmile@child_b"),
        *("dyad/opensmile@lapel_a", "dyad/opensmile@lapel_b"),
        *("robot/frames@robot_eye", "robot/opensmile@robot_eye"),
        *("voices/opensmile@anna", "voices/glove@anna", "voices/opensmile@ben"),
    }
    assert of_tracks - done == {"robot/opensmile@robot_eye"}
    assert outcomes["robot/opensmile@robot_eye"].status is Status.MISSING
    store = FeatureStore(store_root)
    assert store.tracks("dyad") == ["main", "child_b", "lapel_a", "lapel_b"]
    assert store.features("dyad") == ["frames", "openface", "opensmile"]
    assert store.features("dyad", "child_b") == ["frames", "openface", "opensmile"]
    assert store.features("voices", "anna") == ["glove", "opensmile"]
    assert store.tracks("robot") == ["main", "robot_eye"]
    assert not list(maintenance.verify(local(store_root)))


@pytest.mark.slow
def test_values_are_those_of_the_tracks_own_files(study: Path, store_root: Path, glove: dict) -> None:
    extracted(study, store_root, glove, session_ids=("dyad", "robot"))
    store = FeatureStore(store_root)
    assert store.read("dyad", "openface").shape == (50, 714)
    assert store.read("dyad", "openface@child_b").shape == (30, 714)
    smile = OPENFACE_COLUMNS.index("AU12_r")
    assert store.read("dyad", "openface")[0, smile] == np.float32(0.25)
    assert store.read("dyad", "openface@child_b")[0, smile] == np.float32(0.5)
    assert store.read("dyad", "opensmile@child_b", array="per_frame").shape == (30, 65)
    assert store.spec("dyad", "openface@child_b").name == "openface"
    assert store.columns("dyad", "openface@child_b") == OPENFACE_COLUMNS
    attributes = store.attributes("dyad", "openface@child_b")
    assert (attributes["feature"], attributes["track"]) == ("openface", "child_b")
    assert "track" not in store.attributes("dyad", "openface")
    inputs = attributes["provenance"]["inputs"]
    assert {kind: one["path"] for kind, one in inputs.items()} == {"openface": "b.csv", "video": "b.mkv"}


def test_times_are_the_devices_own_and_a_corrected_clock_extracts_nothing(
    study: Path, store_root: Path, glove: dict
) -> None:
    extracted(study, store_root, glove, session_ids=("robot",))
    time = FeatureStore(store_root).read("robot", "frames@robot_eye", array="time")
    np.testing.assert_allclose(time, np.arange(20) / 25, atol=1e-3)
    clocks = study / "clocks.csv"
    clocks.write_text("session_id,clock,clock_s,session_s\nrobot,eye,0,7.75\n")
    again = extracted(study, store_root, glove, session_ids=("robot",))
    assert all(outcome.skipped for name, outcome in again.items() if "@" in name)


def test_sound_and_words_without_a_video_have_times_and_no_rows_for_frames(
    study: Path, store_root: Path, glove: dict
) -> None:
    extracted(study, store_root, glove, session_ids=("voices",))
    store = FeatureStore(store_root)
    assert set(store.spec("voices", "opensmile@anna").arrays) == {"values", "time"}
    assert len(store.read("voices", "opensmile@anna")) > len(store.read("voices", "opensmile@ben")) > 90
    assert store.read("voices", "opensmile@anna", array="time")[0] == 0
    words = {"values", "start", "end", "known", "speaker", "confidence"}
    assert set(store.spec("voices", "glove@anna").arrays) == words
    assert store.read("voices", "glove@anna", array="known").tolist() == [1, 1]
    inputs = store.attributes("voices", "glove@anna")["provenance"]["inputs"]
    assert {kind: one["path"] for kind, one in inputs.items()} == {"transcript": "anna.json", "audio": "anna.wav"}


def test_words_of_a_track_without_a_video_are_held_against_its_sound(
    study: Path, store_root: Path, glove: dict
) -> None:
    """Also where no other feature reads the sound; the right sound is enough to make it good."""
    spoken = {"speaker": "A", "start_s": 0.2, "end_s": 2.4, "text": "we sang"}
    (study / "anna.json").write_text(json.dumps({"utterances": [spoken]}))
    voices = {"session_ids": ("voices",), "tracks": ("anna",), "only": ("glove",)}
    assert extracted(study, store_root, glove, **voices)["voices/glove@anna"].status is Status.DONE  # recognisers round
    write_wave(study / "anna.wav", tone(1.3, 300), RATE)
    outcome = extracted(study, store_root, glove, **voices)["voices/glove@anna"]
    assert outcome.status is Status.FAILED
    assert not missing(outcome.reason, "ends at 2.40 s", "1.30 s")
    write_wave(study / "anna.wav", tone(2.5, 300), RATE)
    assert extracted(study, store_root, glove, **voices)["voices/glove@anna"].status is Status.DONE


def test_words_of_a_track_that_is_a_transcript_alone_are_held_against_nothing(
    study: Path, store_root: Path, glove: dict
) -> None:
    (study / "tracks.csv").write_text("session_id,track,transcript\nvoices,anna,anna.json\n")
    (study / "clocks.csv").unlink()
    (study / "anna.json").write_text(json.dumps({"utterances": [{"start_s": 9.2, "end_s": 10.4, "text": "we sang"}]}))
    outcome = extracted(study, store_root, glove, session_ids=("voices",), only=("glove",))["voices/glove@anna"]
    assert outcome.status is Status.DONE


@pytest.mark.slow
def test_what_a_session_has_already_is_not_extracted_again_when_tracks_come(
    study: Path, store_root: Path, glove: dict
) -> None:
    """The same study without its tracks, then with them: nothing of the sessions' own files is due."""
    tracks, clocks = study / "tracks.csv", study / "clocks.csv"
    rows, moments = tracks.read_text(), clocks.read_text()
    tracks.unlink()
    clocks.unlink()
    before = extracted(study, store_root, glove)
    fingerprints = FeatureStore(store_root).catalogue.set_index(["session_id", "feature"])["fingerprint"].to_dict()
    assert not any("@" in name for name in before)
    tracks.write_text(rows)
    clocks.write_text(moments)
    after = extracted(study, store_root, glove)
    assert all(outcome.skipped for name, outcome in after.items() if "@" not in name and outcome.status is Status.DONE)
    now = FeatureStore(store_root).catalogue.set_index(["session_id", "feature"])["fingerprint"].to_dict()
    assert {key: now[key] for key in fingerprints} == fingerprints
    assert len(now) > len(fingerprints)


@pytest.mark.slow
def test_the_whole_study_again_is_no_work_and_nothing_is_stale(whole: Whole) -> None:
    study, store_root = whole.study, whole.root
    settings = ExtractorsSettings(features=FEATURES_HERE, glove=whole.glove)
    assert not plan_extraction(load_study(study), store_root, settings, Selection()).units
    entries = {(entry.session_id, entry.feature): entry for entry in record_status.scan(local(store_root))}
    wanted = {
        (one.session_id, one.feature): one for one in expected_versions(load_study(study), local(store_root), settings)
    }
    assert wanted.keys() == entries.keys()
    for key, entry in entries.items():
        if entry.record:
            assert wanted[key].fingerprint == entry.record.fingerprint


def test_tracks_can_be_chosen(study: Path, store_root: Path) -> None:
    assert keys(planned(study, store_root, tracks=("lapel_a",))) == {"dyad/opensmile@lapel_a"}
    assert not any("@" in key for key in keys(planned(study, store_root, tracks=("main",))))
    only = planned(study, store_root, tracks=("child_b", "main"), only=("openface",), session_ids=("dyad",))
    assert keys(only) == {"dyad/frames", "dyad/openface", "dyad/frames@child_b", "dyad/openface@child_b"}


def test_what_a_named_track_cannot_have_is_said(study: Path, store_root: Path) -> None:
    plan = planned(study, store_root, tracks=("lapel_a",), only=("openface",))
    (outcome,) = plan.settled
    assert (plan.units, outcome.feature, outcome.status) == ([], "openface@lapel_a", Status.MISSING)
    assert "for this track" in outcome.reason


@pytest.mark.parametrize(("track", "hint"), [("child_a", "is 'child_b' meant"), ("../x", "there is no track '../x'")])
def test_an_unknown_track_is_refused(study: Path, store_root: Path, track: str, hint: str) -> None:
    with pytest.raises(SelectionError, match=hint):
        planned(study, store_root, tracks=(track,))
    with pytest.raises(SelectionError, match="there is no track 'child_b'"):
        planned(study, store_root, tracks=("child_b",), session_ids=("robot",))


def test_a_request_carries_the_tracks(tmp_path: Path) -> None:
    request = ExtractionRequest(study=tmp_path, features="f", tracks=("lapel_a",))
    assert request.selection == Selection(tracks=("lapel_a",))
    assert ExtractionRequest(study=tmp_path, features="f").selection.tracks is None


def test_a_track_waits_for_its_own_frames_only(study: Path, store_root: Path) -> None:
    """Its frames begin first, whatever the other track is at; sound without frames waits for nothing."""
    begun: list[str] = []
    work = planned(study, store_root, session_ids=("dyad",)).units
    recorder = _AtOnce(begun)
    Gather(recorder).run([unit for unit in work if unit.name != "dyad/frames"])
    assert begun.index("dyad/frames@child_b") < begun.index("dyad/openface@child_b")
    assert recorder.together[0] >= {"dyad/opensmile@lapel_a", "dyad/frames@child_b"}
    assert "dyad/openface@child_b" not in recorder.together[0]


class _AtOnce(Executor[Outcome]):
    """An executor that notes which units begin before any has ended, and does nothing."""

    def __init__(self, begun: list[str]) -> None:
        self.begun = begun
        self.together: list[set[str]] = []

    def capacity(self, needs: Mapping[str, float]) -> int:
        return 1_000  # so each unit is a task of its own

    def submit(self, bundle: Bundle[Outcome], rank: int) -> _Ended:
        self.begun.append(bundle.name)
        return _Ended()

    def read(self, future: object, bundle: Bundle[Outcome]) -> tuple[tuple[()]]:
        self.together.append(set(self.begun))
        return ((),)


class _Ended:
    def add_done_callback(self, function) -> None:  # type: ignore[no-untyped-def]
        function(self)


def test_a_track_that_fails_leaves_the_others_alone(study: Path, store_root: Path, glove: dict) -> None:
    (study / "b.mkv").write_bytes(b"no video")
    outcomes = extracted(study, store_root, glove, session_ids=("dyad",))
    failed = {name: outcome.reason for name, outcome in outcomes.items() if outcome.status is Status.FAILED}
    assert set(failed) == {"dyad/frames@child_b", "dyad/openface@child_b", "dyad/opensmile@child_b"}
    assert failed["dyad/frames@child_b"].startswith("b.mkv: ")
    assert FeatureStore(store_root).features("dyad") == ["frames", "openface", "opensmile"]


@pytest.mark.slow
def test_an_archive_holds_tracks_and_gc_keeps_them(whole: Whole, tmp_path: Path) -> None:
    store_root = whole.root
    assert not list(maintenance.collect(local(store_root), 0))
    target = create_store(tmp_path / "archive")
    list(archive(local(store_root), target))
    ours, theirs = FeatureStore(store_root), FeatureStore(tmp_path / "archive")
    for session_id in ("dyad", "voices"):
        assert theirs.tracks(session_id) == ours.tracks(session_id)
    for name in ("openface@child_b", "opensmile@lapel_b"):
        np.testing.assert_array_equal(theirs.read("dyad", name), ours.read("dyad", name))
    assert theirs.attributes("dyad", "openface@child_b")["track"] == "child_b"


def test_clips_and_inputs_are_of_the_sessions_own_files(study: Path, store_root: Path, glove: dict) -> None:
    """A track's rows are of other frames: under the session's frame numbers they would be wrong."""
    extracted(study, store_root, glove, session_ids=("dyad",))
    store = FeatureStore(store_root)
    assert store.all_features == ["frames", "openface", "opensmile"]
    clips = build_clip_index(load_study(study), WindowSpec(), store).clips
    assert not [column for column in clips.columns if "@" in column]


def test_a_session_in_a_notebook_has_its_tracks(study: Path, store_root: Path, glove: dict) -> None:
    extracted(study, store_root, glove, session_ids=("dyad",))
    tree = FeatureStore(store_root).session("dyad").to_xarray()
    assert tree["openface@child_b"].sizes["frame"] == 30
    np.testing.assert_allclose(tree["openface@child_b"]["frame_time"][-1], 29 / 25, atol=1e-3)


@pytest.mark.slow
def test_a_plan_measures_every_track_and_counts_its_recordings(study: Path, glove: dict) -> None:
    (study / "sessions.csv").write_text((study / "sessions.csv").read_text() + "more,p4,a.mkv,a.csv\n")
    with (study / "tracks.csv").open("a") as tracks:
        tracks.write("more,child_b,b.mkv,,,absent.csv,\nmore,lapel_a,,absent.wav,,,\n")
    faults: list[tuple[str, str]] = []
    settings = ExtractorsSettings(features=FEATURES_HERE, glove=glove)
    measured = measure_study(load_study(study), settings, 1.0, lambda *_: None, lambda *fault: faults.append(fault))
    assert faults == [
        ("more, track child_b", "absent.csv: the file does not exist"),
        ("more, track lapel_a", "absent.wav: the file does not exist"),
    ]
    reasons = {rate.feature: rate.reason for rate in measured.rates}
    assert set(reasons) == {
        *FEATURES_HERE,
        *("frames@child_b", "openface@child_b", "opensmile@child_b", "opensmile@lapel_a", "opensmile@lapel_b"),
        *("frames@robot_eye", "opensmile@robot_eye", "opensmile@anna", "glove@anna", "opensmile@ben"),
    }
    why_not = {name: reason for name, reason in reasons.items() if reason}
    assert set(why_not) == {"glove", "opensmile@robot_eye"}
    assert not missing(why_not["glove"], "names no transcript for this")
    assert "has no audio track" in why_not["opensmile@robot_eye"]
    result = forecast(measured.rates, measured.recordings, workers=1)
    assert (result.sessions, result.tracks) == (4, 7)  # of the eight one's sound is not there
    assert result.recorded_s == pytest.approx(2 + 2 + 1.6 + 2 + 1.2 + 1.9 + 1.5 + 0.8 + 1.6 + 1.0 + 1.2, abs=0.2)
    of_feature = {one.feature: one for one in result.features}
    assert of_feature["opensmile@lapel_a"].bytes > 0 < of_feature["opensmile@lapel_a"].cpu_s
    assert of_feature["frames@child_b"].bytes == pytest.approx(2 * of_feature["frames@robot_eye"].bytes, rel=0.6)
    text = "\n".join([summary(result), *(str(cell) for cell in forecast_table(result).columns[0].cells)])
    assert not missing(text, "4 sessions", "7 tracks", "17 s of recordings")
    assert "opensmile@lapel_b" in text


@pytest.mark.slow
def test_a_track_that_cannot_be_measured_costs_the_forecast_nothing_else(study: Path, glove: dict) -> None:
    (study / "b.wav").write_bytes(b"no sound")
    (study / "ben.wav").unlink()
    settings = ExtractorsSettings(features=("frames", "opensmile"), glove=glove)
    measured = measure_study(load_study(study), settings, 1.0, lambda *_: None, lambda *_: None)
    reasons = {rate.feature: rate.reason for rate in measured.rates}
    assert "b.wav" in reasons["opensmile@lapel_b"]
    assert not missing(reasons["opensmile@ben"], "no session has all its")
    assert not reasons["opensmile@lapel_a"]


@pytest.mark.slow
def test_a_person_sees_the_tracks_of_a_session_below_its_own_files(whole: Whole) -> None:
    store_root = whole.root
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(*status_tables(list(record_status.scan(local(store_root)))), sep="\n")
    text = console.export_text()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert [line[:2] for line in cells] == [
        *(["dyad", ""], ["", "@child_b"], ["", "@lapel_a"], ["", "@lapel_b"]),
        *(["robot", ""], ["", "@robot_eye"], ["voices", ""], ["", "@anna"], ["", "@ben"]),
    ]
    assert (cells[0][2:4], cells[0][5]) == (["50", "50"], "missing")
    assert cells[1][2:4] == ["30", "30"]
    assert cells[2][2:4] == ["-", "-"]
    assert cells[2][4].isdigit()
    header = next(line for line in text.splitlines() if "session" in line)
    assert [name.strip() for name in header.split("┃")[1:-1]] == ["session", "track", *FEATURES_HERE]
    assert "missing robot opensmile@robot_eye: " in text


def test_the_repair_of_a_track_is_a_command_that_there_is(study: Path, store_root: Path, glove: dict) -> None:
    extracted(study, store_root, glove, session_ids=("dyad",))
    findings = [Finding("dyad", "openface@child_b", "x", "damaged")]
    (line,) = repair_advice(local(store_root), findings)
    assert not missing(line, "--session dyad", "--track child_b", "--features openface", "--force")


NAMES = ["x@main", "x@MAIN", "x@", "@b", "x@../b", "x@a/b", "x@a@b", "x@.b", f"x@{'b' * 65}", "x@b\n", "x@b "]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_a_track_leaves_its_folder(name: str) -> None:
    with pytest.raises(StoreError):
        feature_path("s", name)


@pytest.mark.parametrize("track", ["../b", "a/b", "a@b", "", "b\n"])
def test_nothing_is_written_under_a_bad_name(store_root: Path, track: str) -> None:
    before = sorted(store_root.parent.rglob("*"))
    with pytest.raises(StoreError):
        FeatureWriter(local(store_root), "s", FEATURES["frames"], track=track)
    assert sorted(store_root.parent.rglob("*")) == before


def test_a_track_without_frames_takes_no_rows_of_frames(store_root: Path) -> None:
    with (
        FeatureWriter(local(store_root), "s", FEATURES["frames"], track="lapel", frames=False) as out,
        pytest.raises(PublishError, match=naming("frames@lapel", "time has a row for")),
    ):
        out.write("time", np.arange(3.0))
        out.publish("f", {})


def test_tracks_are_shown_behind_the_sessions_own() -> None:
    names = ["sbert@b", "aura", "openface@b", "openface", "frames@a", "frames"]
    assert in_order(names) == ["frames", "openface", "aura", "frames@a", "openface@b", "sbert@b"]


def test_only_sound_and_words_do_without_frames() -> None:
    extractors = build_extractors(ExtractorsSettings(), "")
    assert {name for name, one in extractors.items() if not one.needs_frames} >= {"opensmile", "glove", "sbert"}
    assert all(extractors[name].needs_frames for name in ("frames", "openface", "resnet50", "dope"))
