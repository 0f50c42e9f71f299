"""openSMILE's numbers that are no values: what is stored, averaged, given to clips, exported, shown and trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import opensmile
import pandas as pd
import pytest
from support.media.recordings import FPS
from support.media.spoken_sound import RATE, extract_spoken, spoken

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.features import COMPARE_2016_COLUMNS
from storyframes.store.tables import tables_of
from tasks.extractors.opensmile.feature_sets import UNDEFINED, FeatureSet
from tasks.inspect.track_curves import read_curves

FORMANTS = (1, 2, 3)


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
    store = extract_spoken(tmp_path_factory.mktemp("sound"), request.param)
    return Extracted(store, librarys(spoken(), request.param), len(spoken()) * FPS // RATE)


of_compare_2016 = pytest.mark.parametrize("extracted", [FeatureSet.COMPARE_2016], indirect=True)


@pytest.mark.slow
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
def test_clips_tables_curves_and_training_agree(extracted: Extracted) -> None:
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
    for table, rows in zip(tables_of(store, "s", "opensmile"), (values, per_frame), strict=True):
        written = pd.DataFrame(table.named(table.read(0, table.rows)))
        np.testing.assert_array_equal(written["F0final_sma"], rows[:, f0])
        assert written.loc[written["mask"], "pcm_RMSenergy_sma"].notna().all()
        measured = ~np.isnan(rows[:, loudness])
        np.testing.assert_array_equal(written["mask"], measured)
    np.testing.assert_array_equal(written["voiced_share"], share)
    np.testing.assert_array_equal(store.to_pandas("s", "opensmile")["F0final_sma"], values[:, f0])
    np.testing.assert_array_equal(read_curves(store, "s").f0, values[:, f0])
