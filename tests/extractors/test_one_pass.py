"""One decoding makes a session's clock and the features of its pictures, where nothing else waits for the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.media.recordings import write_recording, write_two_cameras
from support.messages import missing
from support.studies import extract_session, make_study

from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Status
from tasks.extract import extract
from tasks.extractors import frame_pass, registry
from tasks.extractors.base import ExtractionError, Extractor, Source
from tasks.extractors.frame_pass import BATCH_FRAMES, FrameConsumer, FrameExtractor
from tasks.extractors.frames import FrameClock
from tasks.extractors.registry import ExtractorsSettings
from tasks.media import shown_frames
from tasks.media.container import PictureError, StreamChoice
from tasks.media.recording import FrameBatch, PictureConverter, RecordingReader, read_frame_times
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.planning.units import price_of
from tasks.study.load import load_study

FRAMES = 21


class Mean(FrameExtractor):
    spec = FeatureSpec("mean", "", {"values": ArraySpec(Axis.FRAME, "float32", "")})
    version = 1

    def rows(self, batch: FrameBatch) -> np.ndarray:
        return batch.rgb.mean(axis=(1, 2, 3))


class Fails(FrameExtractor):
    """Fails in the batch with the frame ``fails_at``."""

    spec = FeatureSpec("fails", "", {"values": ArraySpec(Axis.FRAME, "float32", "")})
    version = 1
    fails_at = 0

    def rows(self, batch: FrameBatch) -> np.ndarray:
        if batch.first + len(batch) > self.fails_at:
            raise ExtractionError("as planned")
        return batch.rgb.mean(axis=(1, 2, 3))


class AtItsEnd(FrameExtractor):
    """Needs no clock to begin, and reads it at its end."""

    spec = FeatureSpec("at_its_end", "", {"values": ArraySpec(Axis.FRAME, "float64", "")})
    version = 1
    needs_clock = False

    def open(self, source: Source, out: FeatureWriter) -> FrameConsumer:
        return _AtItsEnd(source, out)


class _AtItsEnd:
    on_gpu = True

    def __init__(self, source: Source, out: FeatureWriter) -> None:
        self._source, self._out = source, out

    def add(self, batch: FrameBatch) -> None:
        """Nothing is done with pictures."""

    def finish(self) -> None:
        self._out.write("values", FrameClock.read(self._source, self._out).time)


class Early(AtItsEnd):
    """Reads the clock when it begins."""

    spec = replace(AtItsEnd.spec, name="early")
    needs_clock = True


class Follows(Extractor):
    """Waits for the clock, and for nothing else."""

    spec = FeatureSpec("follows", "", {"values": ArraySpec(Axis.FRAME, "float64", "")})
    version = 1

    def extract(self, source: Source, out: FeatureWriter) -> None:
        out.write("values", FrameClock.read(source, out).time)


@pytest.fixture(autouse=True)
def _extractors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_plug_ins", lambda: ((Mean, Fails, AtItsEnd, Early, Follows), {}))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    study = make_study(tmp_path / "study", video="v.mkv")
    write_recording(study / "v.mkv", FRAMES)
    return study


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the frames that are decoded, without the first: a header's reader decodes that one too."""
    numbers: list[int] = []
    real = shown_frames.ShownFrames.__iter__

    def counting(self: shown_frames.ShownFrames) -> Iterator[shown_frames.ShownFrame]:
        for frame in real(self):
            numbers.extend([frame.number] if frame.number else [])
            yield frame

    monkeypatch.setattr(shown_frames.ShownFrames, "__iter__", counting)
    return numbers


def units(study: Path, root: Path, *only: str, **more: Any) -> list[str]:
    create_store(root)
    plan = plan_extraction(load_study(study), root, ExtractorsSettings(), Selection(("s",), only, **more))
    return sorted(unit.name for unit in plan.units)


def test_a_video_is_decoded_once_for_its_clock_and_its_features(
    study: Path, tmp_path: Path, decoded: list[int]
) -> None:
    store, outcomes = extract_session(study, tmp_path / "store", "frames", "mean", "at_its_end")
    assert decoded == list(range(1, FRAMES))
    assert [outcome.status for outcome in outcomes.values()] == [Status.DONE] * 3
    times = read_frame_times(study / "v.mkv").time
    for feature, array in (("frames", "time"), ("at_its_end", "values")):
        np.testing.assert_array_equal(store.read("s", feature, array=array), times)
    apart, _ = extract_session(study, tmp_path / "apart", "frames")
    apart, _ = extract_session(study, tmp_path / "apart", "mean")
    np.testing.assert_array_equal(apart.read("s", "mean"), store.read("s", "mean"))
    for feature in ("frames", "mean"):
        together, alone = (made.attributes("s", feature)["provenance"] for made in (store, apart))
        assert together == alone


@pytest.mark.parametrize("fails_at", [0, BATCH_FRAMES, FRAMES - 1])
def test_a_feature_that_fails_leaves_the_pass(
    study: Path, tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    monkeypatch.setattr(Fails, "fails_at", fails_at)
    _, outcomes = extract_session(study, tmp_path / "store", "frames", "mean", "fails")
    assert decoded == list(range(1, FRAMES))
    assert {name: (outcome.status, outcome.rows) for name, outcome in outcomes.items()} == {
        "frames": (Status.DONE, FRAMES),
        "mean": (Status.DONE, FRAMES),
        "fails": (Status.FAILED, 0),
    }
    assert outcomes["fails"].reason == "as planned"


def test_the_clock_is_published_where_no_feature_is(study: Path, tmp_path: Path, decoded: list[int]) -> None:
    store, outcomes = extract_session(study, tmp_path / "store", "frames", "fails")
    assert decoded == list(range(1, FRAMES))
    assert (outcomes["frames"].status, outcomes["fails"].status) == (Status.DONE, Status.FAILED)
    np.testing.assert_array_equal(store.read("s", "frames", array="time"), read_frame_times(study / "v.mkv").time)


@pytest.mark.parametrize("error", [PictureError("v.mkv: odd colours"), MemoryError("too large")])
def test_pictures_that_cannot_be_made_leave_the_clock(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """As where the clock is made alone: it needs no pictures."""
    converted = PictureConverter.bgr

    def fails(converter: PictureConverter, picture: Any) -> np.ndarray:
        if picture.pts > 400:
            raise error
        return converted(converter, picture)

    monkeypatch.setattr(PictureConverter, "bgr", fails)
    store, outcomes = extract_session(study, tmp_path / "store", "frames", "mean", "at_its_end")
    np.testing.assert_array_equal(store.read("s", "frames", array="time"), read_frame_times(study / "v.mkv").time)
    assert outcomes["frames"].status is Status.DONE
    for feature in ("mean", "at_its_end"):
        assert outcomes[feature].status is Status.FAILED
        assert missing(outcomes[feature].reason, str(error)) == []


def test_the_clock_of_another_picture_of_the_file_is_not_used(study: Path, tmp_path: Path) -> None:
    write_two_cameras(tmp_path)[0].replace(study / "v.mkv")
    store, _ = extract_session(study, tmp_path / "store", "frames")
    second = {"recording": {"video_stream": 1}}
    store, _ = extract_session(study, tmp_path / "store", "follows", **second)
    times = read_frame_times(study / "v.mkv", streams=StreamChoice(video=1)).time
    np.testing.assert_array_equal(store.read("s", "follows"), times)
    third = {"recording": {"video_stream": 2}}  # there is none, and the store has the clock of the second
    _, outcomes = extract_session(study, tmp_path / "store", "follows", **third)
    assert outcomes["follows"].status is Status.FAILED
    assert missing(outcomes["follows"].reason, "needs the frame times", outcomes["frames"].reason) == []


def test_where_something_waits_for_the_clock_it_comes_first(study: Path, tmp_path: Path) -> None:
    assert units(study, tmp_path / "store", "frames", "mean") == ["s/frames+mean"]
    assert units(study, tmp_path / "store", "frames", "mean", "early") == ["s/frames", "s/mean+early"]
    assert units(study, tmp_path / "store", "mean", "follows") == ["s/follows", "s/frames", "s/mean"]
    (study / "tracks.csv").write_text('session_id,track,of,region\ns,left,main,"0,0,0.5,1"\n')
    assert "s/frames" in units(study, tmp_path / "store", "frames", "mean")


def test_an_open_that_does_not_say_otherwise_needs_the_clock() -> None:
    class Opens:
        def open(self, source: Source, out: FeatureWriter) -> FrameConsumer:
            return _AtItsEnd(source, out)

    class Mixed(Opens, Mean):
        pass

    class Below(AtItsEnd):
        def open(self, source: Source, out: FeatureWriter) -> FrameConsumer:
            return super().open(source, out)

    class Inherits(Below):
        pass

    needs = {kind.__name__: kind.needs_clock for kind in (Mean, AtItsEnd, Early, Mixed, Below, Inherits)}
    assert [name for name, needed in needs.items() if needed] == ["Early", "Mixed", "Below", "Inherits"]


def test_a_clock_that_failed_is_tried_alone(study: Path, tmp_path: Path) -> None:
    """A feature that kills its process may not keep the clock from being made for ever."""
    storage = create_store(tmp_path / "store")
    (unit,) = plan_extraction(load_study(study), storage, ExtractorsSettings(), Selection(("s",), ("mean",))).units
    unit.lost("its process was killed")
    assert units(study, tmp_path / "store", "mean") == ["s/frames", "s/mean"]


def test_a_forced_feature_keeps_the_published_clock(study: Path, tmp_path: Path) -> None:
    extract_session(study, tmp_path / "store", "mean")
    assert units(study, tmp_path / "store", "mean", force=True) == ["s/mean"]
    assert units(study, tmp_path / "store", "frames", "mean", force=True) == ["s/frames+mean"]


def test_a_truncated_file_costs_no_pass_over_its_pictures(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mean, "rows", lambda *_: pytest.fail("a picture was converted"))
    (study / "v.mkv").write_bytes((study / "v.mkv").read_bytes()[:-500])
    _, outcomes = extract_session(study, tmp_path / "store", "frames", "mean")
    assert {outcome.status for outcome in outcomes.values()} == {Status.FAILED}
    assert missing(outcomes["frames"].reason, "v.mkv", "allow_truncated") == []
    assert outcomes["mean"].reason == f"needs the frame times: {outcomes['frames'].reason}"


def test_what_is_wrong_at_the_end_fails_the_clock_and_every_feature(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.extract.missing_bytes", lambda _: 0)
    (study / "v.mkv").write_bytes((study / "v.mkv").read_bytes()[:-500])
    _, outcomes = extract_session(study, tmp_path / "store", "frames", "mean", "at_its_end")
    assert {outcome.status for outcome in outcomes.values()} == {Status.FAILED}
    for feature in ("mean", "at_its_end"):
        assert outcomes[feature].reason == f"needs the frame times: {outcomes['frames'].reason}"


def test_no_more_batches_are_decoded_than_a_slow_feature_takes(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a feature on a GPU decoding runs ahead by two batches in memory, however slow the feature is."""
    write_recording(study / "v.mkv", 12 * BATCH_FRAMES)
    real, batches, ahead = RecordingReader.batches, [0], []

    def counting(self: RecordingReader) -> Iterator[FrameBatch]:
        for batch in real(self):
            batches[0] += 1
            yield batch

    def slow(_: object, batch: FrameBatch) -> None:
        time.sleep(0.02)
        ahead.append(batches[0] - batch.first // BATCH_FRAMES)

    monkeypatch.setattr(frame_pass.RecordingReader, "batches", counting)
    monkeypatch.setattr(_AtItsEnd, "add", slow)
    extract_session(study, tmp_path / "store", "at_its_end")
    assert len(ahead) == 12
    assert max(ahead) <= 4


def test_a_clock_made_beside_a_feature_asks_for_nothing_more() -> None:
    settings = ExtractorsSettings(resnet50={"device": "cuda"})
    assert price_of(("frames", "resnet50"), settings) == price_of(("resnet50",), settings)
    assert price_of(("frames",), settings).needs == {"CPU": 1}


def test_a_unit_whose_clock_is_published_meanwhile_reads_it(study: Path, tmp_path: Path) -> None:
    storage = create_store(tmp_path / "store")
    (unit,) = plan_extraction(load_study(study), storage, ExtractorsSettings(), Selection(("s",), ("mean",))).units
    extract_session(study, tmp_path / "store", "frames")
    outcomes = {outcome.feature: outcome for outcome in extract(unit)}
    assert outcomes["frames"].skipped
    assert (outcomes["mean"].status, outcomes["mean"].rows) == (Status.DONE, FRAMES)
