from __future__ import annotations

from pathlib import Path

import numpy as np
import opensmile
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import missing

from storyframes.features import COMPARE_2016_COLUMNS
from storyframes.times import ticks
from tasks.extractors.audio.sound import FrameMeans
from tasks.extractors.opensmile.feature_sets import FeatureSet
from tasks.extractors.opensmile.stream import DescriptorStream
from tasks.media.container import RecordingError
from tasks.media.sound import read_audio


@pytest.fixture(scope="session")
def speech(demo_study: Path) -> np.ndarray:
    return np.concatenate([block.samples for block in read_audio(demo_study / "videos/p01-s01.avi", 16_000)])


def librarys(samples: np.ndarray, feature_set: FeatureSet) -> pd.DataFrame:
    """One call of the library on the whole signal."""
    smile = opensmile.Smile(
        feature_set=opensmile.FeatureSet[feature_set], feature_level=opensmile.FeatureLevel.LowLevelDescriptors
    )
    return smile.process_signal(samples, 16_000)


def ours(samples: np.ndarray, feature_set: FeatureSet, sizes: list[int]) -> tuple[np.ndarray, list[str]]:
    """The rows of a signal that arrives in blocks of these sizes, over and over."""
    edges = np.cumsum(np.tile(sizes, len(samples) // sum(sizes) + 1))
    stream = DescriptorStream(feature_set)
    rows = list(stream.describe(np.split(samples, edges[edges < len(samples)])))
    assert stream.samples == len(samples)
    return np.concatenate(rows) if rows else np.empty((0, len(stream.columns))), stream.columns


@pytest.mark.parametrize(("feature_set", "columns"), [(FeatureSet.COMPARE_2016, 65), (FeatureSet.EGEMAPS_V02, 25)])
@pytest.mark.parametrize("sizes", [[1024], [1, 159, 160, 161, 4000], [384_000]])
def test_descriptors_equal_the_librarys(speech: np.ndarray, feature_set, columns: int, sizes: list[int]) -> None:
    """Every value, F0, jitter and shimmer with their long memory as well, however the signal is cut into blocks."""
    beginning = speech[:48_000]  # longer signals are below
    expected = librarys(beginning, feature_set)
    values, names = ours(beginning, feature_set, sizes)
    assert values.shape == (296, columns)
    assert names == list(expected.columns)
    np.testing.assert_array_equal(values, expected.to_numpy(np.float32))
    # One row per 10 ms, as the library's own index says but for its last row (cut at the end of the signal).
    starts = expected.index.get_level_values("start").total_seconds()
    np.testing.assert_allclose(starts[:-1], np.arange(295) / 100, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("feature_set", list(FeatureSet))
def test_a_signal_many_times_longer_than_what_is_held_of_it(speech: np.ndarray, feature_set: FeatureSet) -> None:
    noise = np.random.default_rng(0).normal(0, 1e-3, 3 * len(speech))
    long = (np.concatenate([speech, speech[::-1], speech * 0.1]) + noise).astype(np.float32).clip(-1, 0.9999)
    values, _ = ours(long, feature_set, [1024])
    np.testing.assert_array_equal(values, librarys(long, feature_set).to_numpy(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("feature_set", list(FeatureSet))
def test_memory_does_not_grow_with_the_signal(speech: np.ndarray, feature_set: FeatureSet) -> None:
    """The library's own configuration would keep 10 MB of every 24 seconds, and its interface the whole signal."""
    after: list[int] = []

    def blocks():
        for _ in range(6):
            yield from np.split(speech, range(1024, len(speech), 1024))
            after.append(resident_kb())

    rows = sum(len(block) for block in DescriptorStream(feature_set).describe(blocks()))
    assert rows == 6 * 2400 - 4
    assert after[-1] - after[1] < 4_000


def resident_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


@pytest.mark.parametrize("samples", [960, 1000, 1600, 16_000, 160_000, 160_001])
def test_short_signals_and_the_edge_of_what_is_held(speech: np.ndarray, samples: int) -> None:
    values, _ = ours(speech[:samples], FeatureSet.COMPARE_2016, [333])
    np.testing.assert_array_equal(values, librarys(speech[:samples], FeatureSet.COMPARE_2016).to_numpy(np.float32))


def test_what_is_too_loud_is_clipped_not_wrapped_round(speech: np.ndarray) -> None:
    beginning = speech[:64_000]
    loud = beginning / np.abs(beginning).max() * 1.5
    values, _ = ours(loud, FeatureSet.COMPARE_2016, [1024])
    clipped = librarys(loud.clip(-1, 32767 / 32768), FeatureSet.COMPARE_2016)
    np.testing.assert_array_equal(values, clipped.to_numpy(np.float32))


def test_sound_that_breaks_off_ends_the_engine() -> None:
    import threading

    def blocks():
        yield np.zeros(16_000, np.float32)
        raise RecordingError("the sound cannot be decoded")

    before = threading.active_count()
    with pytest.raises(RecordingError, match="the sound cannot be decoded"):
        list(DescriptorStream(FeatureSet.COMPARE_2016).describe(blocks()))
    assert threading.active_count() == before


def test_a_signal_shorter_than_a_window_has_no_rows() -> None:
    values, _ = ours(np.zeros(800, np.float32), FeatureSet.COMPARE_2016, [800])
    assert values.shape == (0, 65)


@given(
    gaps=st.lists(st.floats(0.01, 0.2), min_size=1, max_size=20),
    rows=st.integers(0, 80),
    start=st.floats(-0.5, 0.5),
    blocks=st.integers(1, 9),
    seed=st.integers(0, 5),
)
def test_per_frame_means_equal_a_plain_loop(gaps: list[float], rows: int, start: float, blocks: int, seed: int) -> None:
    frame_time = np.concatenate([[0.0], np.cumsum(gaps)])
    end_s = frame_time[-1] + 0.1
    time = start + np.arange(rows) / 100
    values = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
    values[np.random.default_rng(seed + 1).random(values.shape) < 0.3] = np.nan  # no value: left out of the mean
    means = FrameMeans(frame_time, end_s, 3)
    given = [means.add(time[block], values[block]) for block in np.array_split(np.arange(rows), blocks)]
    got = np.concatenate([*given, means.rest()])
    assert got.shape == (len(frame_time), 3)
    for frame, begin in enumerate(frame_time):
        end = frame_time[frame + 1] if frame + 1 < len(frame_time) else end_s
        inside = values[(ticks(time) >= ticks(begin)) & (ticks(time) < ticks(end))].astype(np.float64)
        expected = pd.DataFrame(inside).mean(skipna=True)  # NaN where no row has a value
        np.testing.assert_allclose(got[frame], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fps", [10, 12.5, 20, 25, 50])
@pytest.mark.parametrize("offset", [0.0, 0.023, -0.08])
def test_a_row_that_begins_with_a_frame_is_the_frames(fps: float, offset: float) -> None:
    """Whatever binary fractions make of either time; 35 * 0.01 is more than 0.35."""
    each = round(100 / fps)
    frames = np.arange(500)
    frame_time = offset + frames * (1 / fps)
    row_time = offset + np.arange(500 * each) * 0.01
    means = FrameMeans(frame_time, frame_time[-1] + 1 / fps, 1)
    given = means.add(row_time, np.repeat(frames, each)[:, None].astype(np.float32))
    np.testing.assert_array_equal(np.concatenate([given, means.rest()])[:, 0], frames)


def extract(study: Path, root: Path, **settings):
    from tasks.extract import extract as do_work
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.planning.plan import plan_extraction
    from tasks.planning.selection import Selection
    from tasks.study.load import load_study

    loaded, configured = load_study(study), ExtractorsSettings(**settings)
    plan = plan_extraction(loaded, root, configured, Selection(("p01-s01",), ("opensmile",)))
    outcomes = {outcome.feature: outcome for outcome in plan.settled}
    outcomes |= {outcome.feature: outcome for work in plan.units for outcome in do_work(work)}
    return outcomes["opensmile"]


@pytest.mark.slow
@pytest.mark.end_to_end
def test_the_published_feature_is_the_librarys_to_the_bit(
    demo_study: Path, store_root: Path, speech: np.ndarray
) -> None:
    from storyframes.store.feature_store import FeatureStore

    outcome = extract(demo_study, store_root)
    assert (outcome.status, outcome.rows) == ("done", 2396)
    store = FeatureStore(store_root)
    expected = librarys(speech, FeatureSet.COMPARE_2016).to_numpy(np.float32)
    stored = store.read("p01-s01", "opensmile")
    undefined = np.isnan(stored)  # which ones: test_undefined_sound.py
    np.testing.assert_array_equal(stored[~undefined], expected[~undefined])
    assert 0.9 < (~undefined).mean() < 1
    time = store.read("p01-s01", "opensmile", array="time")
    np.testing.assert_allclose(time, np.arange(2396) / 100)
    per_frame = store.read("p01-s01", "opensmile", array="per_frame")
    assert per_frame.shape == (360, 65)
    first = pd.DataFrame(store.read("p01-s01", "opensmile", 0, 7)).mean(skipna=True)
    np.testing.assert_allclose(per_frame[0], first, rtol=1e-5)
    loudness = COMPARE_2016_COLUMNS.index("pcm_RMSenergy_sma")
    spoken, silent = per_frame[40:160, loudness].mean(), per_frame[-8:, loudness].mean()
    assert spoken > 5 * silent


@pytest.mark.slow
def test_another_feature_set_names_its_own_columns(demo_study: Path, store_root: Path) -> None:
    import zarr

    from storyframes.store.feature_store import FeatureStore

    extract(demo_study, store_root, opensmile={"feature_set": "eGeMAPSv02"})
    store = FeatureStore(store_root)
    assert store.read("p01-s01", "opensmile").shape == (2396, 25)
    path = store.catalogue.set_index("feature").loc["opensmile", "path"]
    columns = zarr.open_array(store_root / path / "values", mode="r").attrs["columns"]
    assert columns[0] == "Loudness_sma3"
    assert store.attributes("p01-s01", "opensmile")["feature_set"] == "eGeMAPSv02"


def test_no_sound_is_missing_not_failed_and_is_not_tried_again(
    study_copy: Path, shared: Path, store_root: Path
) -> None:
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.planning.plan import plan_extraction
    from tasks.planning.selection import Selection
    from tasks.study.load import load_study

    (study_copy / "videos/p01-s01.avi").write_bytes((shared / "data/openface/faults/black.avi").read_bytes())
    outcome = extract(study_copy, store_root)
    assert (outcome.status, outcome.reason) == ("missing", "p01-s01.avi: has no audio track")
    again = plan_extraction(
        load_study(study_copy), store_root, ExtractorsSettings(), Selection(("p01-s01",), ("opensmile",))
    )
    assert not again.units
    assert {(o.feature, str(o.status), o.skipped) for o in again.settled} == {
        ("frames", "done", True),
        ("opensmile", "missing", True),
    }


def test_a_sidecar_takes_the_place_of_the_track(study_copy: Path, store_root: Path, speech: np.ndarray) -> None:
    from support.media.recordings import write_wave

    write_wave(study_copy / "videos/p01-s01.wav", (speech[:160_000] * 32767), 16_000)
    sessions = pd.read_csv(study_copy / "sessions.csv")
    sessions.loc[0, "audio"] = "videos/p01-s01.wav"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    outcome = extract(study_copy, store_root)
    assert (outcome.status, outcome.rows) == ("done", 996)


def test_a_sidecar_too_short_for_a_single_row_is_a_failure(study_copy: Path, store_root: Path) -> None:
    from support.media.recordings import write_wave

    write_wave(study_copy / "videos/p01-s01.wav", np.zeros(800), 16_000)
    sessions = pd.read_csv(study_copy / "sessions.csv")
    sessions.loc[0, "audio"] = "videos/p01-s01.wav"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    outcome = extract(study_copy, store_root)
    assert outcome.status == "failed"
    assert missing(outcome.reason, "0.050 s", "0.06 s", "openSMILE's") == []


def test_a_damaged_sidecar_is_a_failure(study_copy: Path, store_root: Path) -> None:
    (study_copy / "videos/p01-s01.wav").write_bytes(b"RIFF not really")
    sessions = pd.read_csv(study_copy / "sessions.csv")
    sessions.loc[0, "audio"] = "videos/p01-s01.wav"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    outcome = extract(study_copy, store_root)
    assert outcome.status == "failed"
    assert missing(outcome.reason, "p01-s01.wav", "media") == []
