"""Values that are none, as openSMILE's F0 where nobody speaks: left out of moments, and 0 after the z-score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.media.spoken_sound import extract_spoken

from storyframes import ClipDataset
from storyframes_empathy.training.inputs import open_parts, rows_of
from storyframes_empathy.training.moments import measure
from storyframes_empathy.training.settings import InputSettings, TrainSettings
from tasks.extractors.opensmile.feature_sets import FeatureSet


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["frame", "audio_frame"])
def test_training_measures_and_fills_each_column_by_itself(tmp_path: Path, axis: str) -> None:
    """The mean of F0 is that of voices, and 0 after the z-score stands where there is none."""
    store = extract_spoken(tmp_path, FeatureSet.COMPARE_2016)
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
