"""openSMILE's numbers that are no values: what is stored, averaged, given to clips, exported, shown and trained on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import opensmile
import pandas as pd
import pytest
from support.recordings import FPS, write_recording
from support.stores import local
from support.studies import extract_session, make_study

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.clips.window_spec import WindowSpec
from storyframes.export.formats import Format
from storyframes.export.run import export
from storyframes.features import COMPARE_2016_COLUMNS
from storyframes.store import catalogue
from tasks.empathy.inputs import open_parts, rows_of
from tasks.empathy.moments import measure
from tasks.empathy.settings import InputSettings, TrainSettings
from tasks.extractors.opensmile.settings import FeatureSet
from tasks.extractors.opensmile.undefined import UNDEFINED
from tasks.index import build_clip_index, write_clip_index
from tasks.inspect.read_curves import read_curves
from tasks.study.load import load_study

RATE = 16_000
FORMANTS = (1, 2, 3)


def spoken() -> np.ndarray:
    """(n,) int16: silence, a low voice, hiss, a high voice, silence, faint hiss, a short voice: 4.4 s."""
    noise = np.random.default_rng(1)

    def voice(seconds: float, pitch_hz: float) -> np.ndarray:
        time = np.arange(round(seconds * RATE)) / RATE
        phase = 2 * np.pi * np.cumsum(pitch_hz * (1 + 0.03 * np.sin(2 * np.pi * 3 * time))) / RATE
        sound = sum(np.sin(k * phase + k) / k for k in range(1, 15)) * (1 + 0.05 * noise.standard_normal(len(time)))
        return 0.2 * sound / np.abs(sound).max()

    silence, hiss = np.zeros(round(0.7 * RATE)), 0.05 * noise.standard_normal(round(0.7 * RATE))
    faint = 1e-4 * noise.standard_normal(RATE // 2)
    parts = [silence, voice(0.8, 120), hiss, voice(0.5, 230), silence, faint, voice(0.5, 180)]
    return (np.concatenate(parts) * 32767).astype(np.int16)


def librarys(sound: np.ndarray, feature_set: FeatureSet) -> pd.DataFrame:
    """What the library says of the whole sound, the names of its columns without how it smooths."""
    smile = opensmile.Smile(
        feature_set=opensmile.FeatureSet[feature_set], feature_level=opensmile.FeatureLevel.LowLevelDescriptors
    )
    found = smile.process_signal(sound.astype(np.float32) / 32768, RATE).reset_index(drop=True)
    return found.rename(columns=lambda name: name.removesuffix("_sma3nz").removesuffix("_sma3").removesuffix("_sma"))


def with_values_only(rows: pd.DataFrame) -> pd.DataFrame:
    """The library's rows with NaN where it has no value, one by one."""
    found = rows.copy()
    pitch = "F0final" if "F0final" in rows else "F0semitoneFrom27.5Hz"
    voiced = [row[pitch] > 0 for _, row in rows.iterrows()]
    for number, row in rows.iterrows():
        near = range(max(number - 1, 0), min(number + 2, len(rows)))
        for name in (pitch, "jitterLocal", "jitterDDP", "shimmerLocal", "shimmerLocaldB", "HNRdBACF", "logRelF0-H1-H2"):
            if name in rows and row[name] == 0:
                found.loc[number, name] = np.nan
        if "logHNR" in rows and (row["logHNR"] == 0 or not all(voiced[other] for other in near)):
            found.loc[number, "logHNR"] = np.nan
        if pitch == "F0final":
            continue
        beside_no_formant = any(voiced[other] and rows.loc[other, "F3frequency"] == 0 for other in near)
        if row["logRelF0-H1-A3"] == 0 or beside_no_formant:
            found.loc[number, "logRelF0-H1-A3"] = np.nan
        for formant in FORMANTS:
            is_none = row[f"F{formant}frequency"] == 0
            for name in (f"F{formant}frequency", f"F{formant}bandwidth"):
                found.loc[number, name] = np.nan if is_none else row[name]
            if is_none or not all(voiced[other] for other in near):
                found.loc[number, f"F{formant}amplitudeLogRelF0"] = np.nan
    return found


@pytest.mark.parametrize("feature_set", list(FeatureSet))
@pytest.mark.parametrize("sizes", [[1], [2, 1, 5], [1000]])
def test_numbers_that_are_no_values_are_nan_and_all_others_the_librarys(feature_set: FeatureSet, sizes) -> None:
    library = librarys(spoken(), feature_set)
    undefined = UNDEFINED[feature_set]
    names = list(opensmile.Smile(opensmile.FeatureSet[feature_set], "lld").feature_names)
    edges = np.cumsum(np.tile(sizes, len(library) // sum(sizes) + 1))
    blocks = np.split(library.to_numpy(np.float32), edges[edges < len(library)])
    rows = pd.DataFrame(np.concatenate(list(undefined.blank(blocks, names))), columns=library.columns)
    pd.testing.assert_frame_equal(rows, with_values_only(library).astype(np.float32), check_exact=True)
    # No floor is left, which the library has taken for a value at the edges of voices.
    for name, floor in {"logHNR": -20, "logRelF0-H1-A3": -20, "F1amplitudeLogRelF0": -60}.items():
        if name in rows:
            assert library[name].min() <= -100 < floor < rows[name].min()
    everywhere = {"voicingFinalUnclipped", "pcm_RMSenergy", "Loudness", "mfcc1", "mfcc[1]"} & set(rows)
    assert len(everywhere) >= 2
    assert rows[list(everywhere)].notna().all(axis=None)


def test_nothing_is_made_of_no_rows() -> None:
    assert list(UNDEFINED[FeatureSet.COMPARE_2016].blank([], COMPARE_2016_COLUMNS)) == []


@dataclass(frozen=True)
class Extracted:
    store: FeatureStore
    library: pd.DataFrame
    frames: int


@pytest.fixture(scope="module", params=list(FeatureSet))
def extracted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Extracted:
    folder, sound = tmp_path_factory.mktemp("sound"), spoken()
    frames = len(sound) * FPS // RATE
    study = make_study(folder, video="v.mkv")
    (study / "phases.csv").write_text(f"session_id,phase,start_s,end_s\ns,talk,0,{frames / FPS}\n")
    write_recording(folder / "v.mkv", frames, sound[:, None])
    extract_session(study, folder / "features", "frames", "opensmile", opensmile={"feature_set": request.param})
    catalogue.compact(local(folder / "features"))
    index = build_clip_index(load_study(study), WindowSpec(window=25, stride=10), FeatureStore(folder / "features"))
    write_clip_index(index.clips, local(folder / "features"))
    return Extracted(FeatureStore(folder / "features"), librarys(sound, request.param), frames)


of_compare_2016 = pytest.mark.parametrize("extracted", [FeatureSet.COMPARE_2016], indirect=True)


def test_a_frames_mean_is_of_the_rows_that_have_a_value(extracted: Extracted) -> None:
    """Never below what the library gives of a voice: a 0 that means "none" was averaged with Hz."""
    store, library = extracted.store, extracted.library
    expected = with_values_only(library).to_numpy(np.float32)
    np.testing.assert_array_equal(store.read("s", "opensmile"), expected)
    pitch = library["F0final" if "F0final" in library else "F0semitoneFrom27.5Hz"]
    per_frame = store.read("s", "opensmile", array="per_frame")
    voiced_share = store.read("s", "opensmile", array="voiced_share")
    assert per_frame.shape == (extracted.frames, library.shape[1])
    assert voiced_share.shape == (extracted.frames,)
    for frame in range(extracted.frames):  # 4 rows each
        rows = slice(4 * frame, 4 * frame + 4)
        of_frame = pd.DataFrame(expected[rows], dtype=float)
        np.testing.assert_allclose(per_frame[frame], of_frame.mean(skipna=True), rtol=1e-5, atol=1e-6)
        share = (pitch[rows] > 0).mean()  # NaN of the last frame, which has no rows
        np.testing.assert_allclose(voiced_share[frame], share, rtol=1e-6)
    mixed = (voiced_share > 0) & (voiced_share < 1)
    assert mixed.sum() >= 3  # else the test shows nothing
    place = list(library.columns).index(pitch.name)
    assert np.nanmin(per_frame[:, place]) >= pitch[pitch > 0].min()
    np.testing.assert_array_equal(np.isnan(per_frame[:, place]), ~(voiced_share > 0))


@of_compare_2016
def test_clips_tables_exports_curves_and_training_agree(extracted: Extracted, tmp_path: Path) -> None:
    store = extracted.store
    values, per_frame, share = (
        store.read("s", "opensmile", array=name) for name in ("values", "per_frame", "voiced_share")
    )
    f0, loudness = (COMPARE_2016_COLUMNS.index(name) for name in ("F0final_sma", "pcm_RMSenergy_sma"))
    clip_inputs = [ClipInput("audio"), ClipInput("opensmile", ["F0final_sma", "voiced_share"], axis="frame")]
    for clip in ClipDataset(store, clip_inputs):
        start = 10 * int(clip["index"])
        np.testing.assert_array_equal(clip["opensmile"][:, 0], per_frame[start : start + 25, f0])
        np.testing.assert_array_equal(clip["opensmile_voiced_share"], share[start : start + 25])
        length = int(clip["audio_length"])
        np.testing.assert_array_equal(clip["audio"][:length], values[4 * start : 4 * start + length])
        assert clip["audio_mask"][:length].all()  # a row without an F0 is a row of the sound all the same
    export(store, tmp_path / "out", Format.PARQUET)
    assert "the F0 of sound that is not voiced" in (tmp_path / "out/README.md").read_text()
    for table, rows in (("opensmile", values), ("opensmile.frame", per_frame)):
        written = pd.read_parquet(tmp_path / f"out/s/{table}.parquet")
        np.testing.assert_array_equal(written["F0final_sma"], rows[:, f0])
        assert written.loc[written["mask"], "pcm_RMSenergy_sma"].notna().all()
        measured = ~np.isnan(rows[:, loudness])
        np.testing.assert_array_equal(written["mask"], measured)
    np.testing.assert_array_equal(written["voiced_share"], share)
    np.testing.assert_array_equal(store.to_pandas("s", "opensmile")["F0final_sma"], values[:, f0])
    np.testing.assert_array_equal(read_curves(store, "s").f0, values[:, f0])


@of_compare_2016
@pytest.mark.parametrize("axis", ["frame", "audio_frame"])
def test_training_measures_and_fills_each_column_by_itself(extracted: Extracted, axis: str) -> None:
    """The mean of F0 is that of voices, and 0 after the z-score stands where there is none."""
    store = extracted.store
    settings = TrainSettings(a=(InputSettings(input="audio", axis=axis),))
    dataset = ClipDataset(store, [part.clip_input() for part in settings.a])
    (part,) = open_parts(dataset, settings, ["a"])["a"]
    moments = measure(dataset, {part.name: lambda batch: rows_of(batch, part)})[part.name]
    stored = store.read("s", "opensmile", array="per_frame" if axis == "frame" else "values")
    last = int(dataset.clips["stop_frame"].max()) * (1 if axis == "frame" else 4)
    seen = stored[:last].astype(np.float64)
    np.testing.assert_array_equal(moments.count, (~np.isnan(seen)).sum(axis=0))
    np.testing.assert_allclose(moments.mean, np.nanmean(seen, axis=0), rtol=1e-6, atol=1e-9)
    assert 110 < moments.mean[0] < 240
    assert moments.count[0] < moments.count[8]
