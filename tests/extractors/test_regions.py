"""Tracks that are regions of another track's picture: features of them are those of files that were cut beforehand."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.media.recordings import write_wave
from support.messages import missing
from support.models.tiny_image_models import transformers_model
from support.studies import run

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.spec import of_track
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter, PublishError
from storyframes.store.records import Caveat, Status
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.extractors.base import CommonSettings, Extractor, ExtractorSettings
from tasks.extractors.regions import begin_region, region_spec
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.source import Region, Source
from tasks.inspect.quality import Quality, Rule
from tasks.inspect.study_check import check_study
from tasks.inspect.track_curves import read_curves
from tasks.media import shown_frames
from tasks.media.upright import write_lossless
from tasks.planning.forecast import forecast, measure_study
from tasks.planning.plan import expected_versions, plan_extraction
from tasks.planning.rates import Rate, measure_rates
from tasks.planning.selection import Selection
from tasks.planning.sources import input_file
from tasks.study.load import load_study

FRAMES, HEIGHT, WIDTH, FPS = 16, 60, 80, 25.0
RESNET = {"allow_untrained": True, "engine": "torch"}
LEFT, RIGHT = "0,0,0.4,1", "0.4,0.1,0.6,0.5"
CUTS = {"left": (slice(0, 60), slice(0, 32)), "right": (slice(6, 36), slice(32, 80))}
SEEN = np.array([not 7 <= number < 10 for number in range(FRAMES)])
SIZE = 24  # of the moving box, pixels
MODEL_START_S = 5.0  # of an [[embed]], which is paid once in a unit


def corner(number: int) -> tuple[int, int]:
    """Left and top of the moving box."""
    return 2 + number, 30 - number


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    """Noise, so that a shift by a pixel or a frame shows: (T, height, width, 3) BGR."""
    return np.random.default_rng(3).integers(0, 256, (FRAMES, HEIGHT, WIDTH, 3), np.uint8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transformers_model(tmp_path_factory.mktemp("models") / "vit", "vit")


def write_boxes(path: Path) -> None:
    """The moving box at every third frame, without one while nobody is seen."""
    lines = ["time_s,x,y,w,h,doubtful"]
    for number in (0, 3, 6, 7, 10, 12, 15):
        if number == 7:
            lines.append(f"{number / FPS},,,,,")
            continue
        left, top = corner(number)
        fractions = (left / WIDTH, top / HEIGHT, SIZE / WIDTH, SIZE / HEIGHT)
        lines.append(f"{number / FPS},{','.join(map(repr, fractions))},{'true' if number == 12 else ''}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, pictures: np.ndarray) -> Path:
    """Session ``whole`` with three regions; sessions ``left``, ``right`` and ``moving`` are files cut beforehand."""
    root = tmp_path_factory.mktemp("regions") / "study"
    root.mkdir()
    write_lossless(root / "whole.avi", pictures, FPS)
    for name, (rows, columns) in CUTS.items():
        write_lossless(root / f"{name}.avi", np.ascontiguousarray(pictures[:, rows, columns]), FPS)
    cut = np.zeros((FRAMES, SIZE, SIZE, 3), np.uint8)
    for number in range(FRAMES):
        left, top = corner(number)
        cut[number] = pictures[number, top : top + SIZE, left : left + SIZE]
    write_lossless(root / "moving.avi", cut, FPS)
    write_boxes(root / "boxes.csv")
    write_wave(root / "lapel.wav", np.zeros(16_000, np.int16), 16_000)
    names = ("whole", "left", "right", "moving")
    (root / "sessions.csv").write_text(
        "session_id,participant_id,video\n" + "".join(f"{name},p_{name},{name}.avi\n" for name in names)
    )
    (root / "tracks.csv").write_text(
        "session_id,track,of,region,audio\n"
        f'whole,left,,"{LEFT}",lapel.wav\nwhole,right,main,"{RIGHT}",\nwhole,moving,main,boxes.csv,\n'
    )
    return root


def settings(model: Path) -> dict[str, object]:
    return {"resnet50": RESNET, "embed": [{"name": "vit", "kind": "image", "source": f"path:{model}"}]}


FEATURES = ("resnet50", "vit")


@contextlib.contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of each frame that FFmpeg decodes in the block."""
    decoded: list[int] = []
    real = shown_frames.ShownFrames.__iter__

    def counting(self: shown_frames.ShownFrames) -> Iterator[shown_frames.ShownFrame]:
        for frame in real(self):
            decoded.append(frame.number)
            yield frame

    with monkeypatch.context() as patched:
        patched.setattr(shown_frames.ShownFrames, "__iter__", counting)
        yield decoded


@pytest.fixture(scope="module")
def store(study: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    root = tmp_path_factory.mktemp("stores") / "features"
    # Of the tiny model alone: resnet50 is a preset of the same extractor, for a tenth of a second a picture.
    outcomes = run(study, root, Selection(only=("vit",)), **settings(model))
    assert {outcome.status for outcome in outcomes.values()} == {Status.DONE}, outcomes
    return FeatureStore(root)


@pytest.mark.slow
@pytest.mark.parametrize("track", ["left", "right"])
def test_fixed_regions_have_the_values_of_files_cut_beforehand(store: FeatureStore, track: str) -> None:
    rows = store.read("whole", f"vit@{track}")
    np.testing.assert_array_equal(rows, store.read(track, "vit"))
    assert (rows != store.read("whole", "vit")).any(axis=1).all()
    assert (store.read("whole", f"vit@{track}", array="in_region") == 1).all()
    np.testing.assert_array_equal(
        store.read("whole", f"frames@{track}", array="time"), store.read("whole", "frames", array="time")
    )


@pytest.mark.slow
def test_resnet50_of_a_region_is_that_of_a_file_cut_beforehand(tmp_path: Path, pictures: np.ndarray) -> None:
    """The published preset, of two frames: a tenth of a second each."""
    rows, columns = CUTS["left"]
    write_lossless(tmp_path / "whole.avi", pictures[:2], FPS)
    write_lossless(tmp_path / "left.avi", np.ascontiguousarray(pictures[:2, rows, columns]), FPS)
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video\nwhole,a,whole.avi\nleft,b,left.avi\n")
    (tmp_path / "tracks.csv").write_text(f'session_id,track,region\nwhole,left,"{LEFT}"\n')
    for selection in (Selection(("whole",), ("resnet50",), tracks=("left",)), Selection(("left",), ("resnet50",))):
        run(tmp_path, tmp_path / "features", selection, resnet50=RESNET)
    store = FeatureStore(tmp_path / "features")
    of_region, of_file = store.read("whole", "resnet50@left"), store.read("left", "resnet50")
    assert len(of_file) == 2
    assert (of_file[0] != of_file[1]).any()
    np.testing.assert_array_equal(of_region, of_file)


def test_a_moving_region_shows_what_moves_and_has_masked_rows_where_nobody_is(store: FeatureStore) -> None:
    rows, cut = store.read("whole", "vit@moving"), store.read("moving", "vit")
    np.testing.assert_array_equal(rows[SEEN], cut[SEEN])
    assert np.isnan(rows[~SEEN]).all()
    assert store.spec("whole", "vit@moving").mask == "in_region"
    np.testing.assert_array_equal(store.read("whole", "vit@moving", array="in_region"), SEEN)


def test_a_track_that_is_a_region_in_one_session_and_a_file_in_another_is_one_input_of_clips(
    study: Path, model: Path, store: FeatureStore, tmp_path: Path
) -> None:
    """The feature has a mask in the one and none in the other, of which every frame is measured."""
    shutil.copytree(study, tmp_path / "study")
    shutil.copytree(store.storage.location, tmp_path / "features")
    tracks = "session_id,track,region,video\nwhole,moving,boxes.csv,\nleft,moving,,moving.avi\n"
    (tmp_path / "study/tracks.csv").write_text(tracks)
    run(
        tmp_path / "study", tmp_path / "features", Selection(("left",), ("vit",), tracks=("moving",)), **settings(model)
    )
    mixed = FeatureStore(tmp_path / "features")
    assert [mixed.spec(session, "vit@moving").mask for session in ("whole", "left")] == ["in_region", ""]
    windows = WindowSpec(window_s=FRAMES / FPS, stride_s=1, split_shares=(1, 0, 0))
    clips = build_clip_index(load_study(tmp_path / "study"), windows, mixed).clips
    write_clip_index(clips[clips["session_id"].isin(["whole", "left"])], mixed.storage)
    dataset = ClipDataset(FeatureStore(tmp_path / "features"), [ClipInput("vit", track="moving")])
    by_session = dict(zip(dataset.clips["session_id"], dataset, strict=True))
    np.testing.assert_array_equal(by_session["whole"]["vit@moving_mask"], SEEN)
    assert by_session["left"]["vit@moving_mask"].all()
    for session, clip in by_session.items():
        np.testing.assert_array_equal(clip["vit@moving"], mixed.read(session, "vit@moving"))


def test_the_version_says_which_region_it_is_of(store: FeatureStore) -> None:
    attributes = store.attributes("whole", "vit@right")
    assert attributes["region"]["of"] == "main"
    assert attributes["region"]["box"] == [0.4, 0.1, 0.6, 0.5]
    assert attributes["region"]["size"] == [48, 30]
    doubtful = store.attributes("whole", "vit@moving")
    assert doubtful["doubtful_s"] == [[12 / FPS, 15 / FPS]]
    assert Caveat.DOUBTFUL_REGION in doubtful["stamps"]
    assert Caveat.DOUBTFUL_REGION not in attributes["stamps"]


@pytest.mark.slow
def test_two_regions_cost_at_most_a_tenth_of_a_decoding_more(
    study: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = {}
    for tracks in (("main",), ("main", "left", "right")):
        with counted(monkeypatch) as frames:
            run(study, tmp_path / str(len(tracks)), Selection(("whole",), ("vit",), tracks=tracks), **settings(model))
        decoded[tracks] = len([number for number in frames if number])  # the first frame alone says what a header says
    whole, with_regions = decoded.values()
    assert whole == FRAMES - 1  # the clock, and the pass
    assert with_regions == 2 * (FRAMES - 1)  # the regions wait for the clock, so it comes first


def test_a_unit_of_regions_says_what_it_makes_and_what_it_waits_for(study: Path, model: Path, tmp_path: Path) -> None:
    given = load_study(study), tmp_path / "f", ExtractorsSettings(**settings(model))
    plan = plan_extraction(*given, Selection(("whole",), FEATURES))
    units = {unit.name: unit for unit in plan.units}
    parts = ["resnet50+vit", *(f"resnet50@{track}+vit@{track}" for track in ("left", "right", "moving"))]
    shared = units[f"whole/{'+'.join(parts)}"]
    assert {feature for _, feature in shared.awaits} == {"frames", "frames@left", "frames@right", "frames@moving"}
    assert units["whole/frames@left"].awaits == [("whole", "frames")]
    assert len(units) == 5
    assert plan.counts.due == 12
    (alone,) = plan_extraction(*given, Selection(("left",), FEATURES)).units
    assert shared.cost == pytest.approx(alone.cost + 3 * (alone.cost - MODEL_START_S))


def test_a_region_changes_the_fingerprints_of_what_sees_it_alone(study: Path, model: Path, store: FeatureStore) -> None:
    def fingerprints(root: Path) -> dict[str, str]:
        asked = ExtractorsSettings(features=("frames", "resnet50", "opensmile"), **settings(model))
        expected = expected_versions(load_study(root), store.storage, asked)
        return {each.feature: each.fingerprint for each in expected if each.session_id == "whole"}

    before = fingerprints(study)
    tracks, boxes = (study / "tracks.csv").read_text(), (study / "boxes.csv").read_text()
    try:
        (study / "tracks.csv").write_text(tracks.replace(LEFT, "0,0,0.5,1"))
        (study / "boxes.csv").write_text(boxes.replace("0.48,", "0.481,"))
        after = fingerprints(study)
    finally:
        (study / "tracks.csv").write_text(tracks)
        (study / "boxes.csv").write_text(boxes)
    changed = {feature for feature in before if before[feature] != after[feature]}
    assert changed == {"resnet50@left", "resnet50@moving"}
    assert before["frames"] == before["frames@left"]
    assert before["opensmile@left"]  # of its own sound
    assert "opensmile@right" not in before  # a region has no sound


def test_regions_of_one_picture_that_overlap_by_more_than_half_are_named_with_their_times(
    study: Path, tmp_path: Path
) -> None:
    """Two faces could be in either: b and c always, the moving one only until more than half of it has left a."""
    shutil.copytree(study, tmp_path / "study")
    rows = ['a,"0,0,0.5,1"', 'b,"0.6,0,0.4,1"', 'c,"0.7,0,0.2,1"', "d,d.csv"]
    (tmp_path / "study/tracks.csv").write_text("session_id,track,region\n" + "".join(f"whole,{row}\n" for row in rows))
    (tmp_path / "study/d.csv").write_text("time_s,x,y,w,h\n0,0.3,0,0.2,1\n0.2,0.45,0,0.1,1\n0.4,0.5,0,0.1,1\n0.6,,,,\n")
    checked, problems = check_study(tmp_path / "study", ExtractorsSettings())
    assert problems == []
    assert [remark for remark in checked.remarks if "overlap" in remark] == [
        "tracks: the regions a and d of whole overlap by more than half at 0.00 to 0.20 s: what finds a face by itself "
        "may take the same one in both",
        "tracks: the regions b and c of whole overlap by more than half at all times: what finds a face by itself may "
        "take the same one in both",
    ]


def test_doubtful_stretches_and_damaged_boxes_are_findings_with_their_times(
    study: Path, store: FeatureStore, tmp_path: Path
) -> None:
    (finding,) = (
        each for each in Quality.of(read_curves(store, "whole", "moving")).findings if each.rule is Rule.DOUBTFUL_REGION
    )
    assert finding.spans == ((12 / FPS, 15 / FPS),)
    assert read_curves(store, "whole", "left").doubtful == ()
    assert read_curves(store, "whole").doubtful is None
    shutil.copytree(study, tmp_path / "study")
    checked, problems = check_study(tmp_path / "study", ExtractorsSettings())
    assert problems == []
    assert missing(checked.remarks, "0.48 to", "0.60 s", "boxes.csv") == []
    (tmp_path / "study/boxes.csv").write_text("time_s,x,y,w,h\n0,0,0,0,1\n")
    (problem,) = check_study(tmp_path / "study", ExtractorsSettings())[1]
    assert missing(problem, "region = 'boxes.csv'", "w = 0", "row 4", "row 2", "above 0") == [], problem
    outcomes = run(
        tmp_path / "study", tmp_path / "f", Selection(("whole",), ("resnet50",), tracks=("moving",)), resnet50=RESNET
    )
    assert missing(outcomes["whole/resnet50@moving"].reason, "w = 0", "'main'", "row 2", "boxes.csv") == []
    (tmp_path / "study/boxes.csv").unlink()
    (problem,) = check_study(tmp_path / "study", ExtractorsSettings())[1]
    assert missing(problem, "region = 'boxes.csv'", "row 4") == []
    outcomes = run(
        tmp_path / "study", tmp_path / "f", Selection(("whole",), ("resnet50",), tracks=("moving",)), resnet50=RESNET
    )
    assert missing(outcomes["whole/resnet50@moving"].reason, "boxes.csv", "exist") == []


class Whole(Extractor[ExtractorSettings]):
    """Points in whole pixels, in the number of rows that ``rows`` says."""

    spec = FeatureSpec(
        "whole", "", {"values": ArraySpec(Axis.FRAME, "float32", "", (2,), ("xy",), columns=("x", "y"), units="pixels")}
    )
    version = 1
    inputs = ("video",)
    rows = FRAMES

    def extract(self, source: Source, out: FeatureWriter) -> None:
        out.write("values", np.full((self.rows, 2), 3))


def test_whole_pixels_of_enlarged_boxes_become_fractions_and_rows_of_no_frame_are_refused(
    study: Path, store: FeatureStore, tmp_path: Path
) -> None:
    """The box of the later frames is half as large, and enlarged: 3 pixels are 1.5 of the whole picture, and 0.25."""
    (tmp_path / "boxes.csv").write_text("time_s,x,y,w,h\n0,0.1,0.1,0.4,0.4\n0.3,0.1,0.1,0.2,0.2\n0.6,0.1,0.1,0.2,0.2\n")
    files = {"video": input_file(study / "whole.avi"), "region": input_file(tmp_path / "boxes.csv")}
    source = Source("whole", files, track="left", region=Region("main"))

    def writer() -> FeatureWriter:
        return FeatureWriter(store.storage, "whole", region_spec(Whole.spec, "main"), track="left")

    extractor = Whole(ExtractorSettings(), CommonSettings())
    with writer() as out:
        begin_region(extractor, source, out)
        extractor.extract(source, out)
        out.publish("f" * 64, {})
    stored = FeatureStore(store.storage.location).read("whole", "whole@left")
    np.testing.assert_allclose(stored[[0, -1]], [[8 + 3, 6 + 3], [8 + 1.25, 6 + 1.25]])
    extractor.rows = FRAMES + 1
    with writer() as out, pytest.raises(PublishError, match="values has 17 rows"):
        begin_region(extractor, source, out)
        extractor.extract(source, out)
        out.publish("f" * 64, {})


@pytest.mark.slow
def test_plan_measures_regions_and_a_session_with_its_region_alone_is_decoded_for_its_clock(
    study: Path, tmp_path: Path
) -> None:
    asked = ExtractorsSettings(features=("frames", "opensmile"))
    (rate, *_) = measure_rates(load_study(study), "whole", asked, 0.4, lambda *_: None, "moving")
    assert (rate.feature, rate.reason, rate.decoding_s) == ("frames@moving", "", rate.cpu_s)
    measured = measure_study(load_study(study), asked, 0.4, lambda *_: None, lambda *_: None, Selection(("whole",)))
    assert {one.track: one.is_decoded for one in measured.recordings} == {
        "main": True, "left": False, "right": False, "moving": False,
    }  # fmt: skip
    rates = [Rate("vit", cpu_s=5, decoding_s=2)] + [Rate(f"vit@{t}", cpu_s=4, decoding_s=2) for t in ("left", "right")]
    recordings = [
        replace(one, length_s=10, features=one.features | {of_track("vit", one.track)}) for one in measured.recordings
    ]
    assert [one.cpu_s for one in forecast(rates, recordings, 1).features] == [50, 20, 20]
    regions = Selection(("whole",), ("frames",), tracks=("left", "right"))
    measured = measure_study(load_study(study), asked, 0.4, lambda *_: None, lambda *_: None, regions)
    assert [one.is_decoded for one in measured.recordings] == [True, False]
    outcomes = run(study, tmp_path / "f", Selection(("whole",), ("frames",), tracks=("right",)))
    assert {name: outcome.rows for name, outcome in outcomes.items()} == {"whole/frames@right": FRAMES}
