"""Words, and frames, of which a recogniser was not sure are masked where a clip asks for a least confidence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.messages import naming
from support.stores import local
from support.synthetic_features import StudySpec, SyntheticStudy, publish, write_features

from storyframes import ClipDataset, ClipInput
from storyframes.store import catalogue

LEAST = 0.5


@pytest.fixture
def study(tmp_path: Path) -> SyntheticStudy:
    """Three sessions, of which the last was extracted before words had a confidence."""
    study = write_features(tmp_path / "features", StudySpec(sessions=3))
    for session in ("s00", "s01"):
        arrays = {name: rows for (s, f, name), rows in study.arrays.items() if (s, f) == (session, "glove")}
        generator = np.random.default_rng(len(arrays["start"]) + int(session[1:]))
        confidence = generator.uniform(0, 1, len(arrays["start"])).astype(np.float32)
        confidence[::5] = np.nan
        confidence[1] = np.float32(LEAST)  # is not below it
        study.arrays[session, "glove", "confidence"] = arrays["confidence"] = confidence
        publish(study.root, session, "glove", arrays)
    catalogue.compact(local(study.root))
    return study


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["word", "frame"])
def test_words_of_low_confidence_are_masked_and_others_are_as_before(study: SyntheticStudy, axis: str) -> None:
    where = 'session_id != "s02"'
    plain = ClipDataset(study.root, [ClipInput("words", axis=axis)], where=where)
    sure = ClipDataset(
        study.root, [ClipInput("words", ["values", "confidence"], axis=axis, min_confidence=LEAST)], where=where
    )
    masked = unsaid = 0
    for before, after in zip(plain, sure, strict=True):
        np.testing.assert_array_equal(before["words"], after["words"])
        confidence = after["words_confidence"]
        kept = before["words_mask"] & ~(confidence < LEAST)
        np.testing.assert_array_equal(after["words_mask"], kept)
        masked += int((before["words_mask"] & ~kept).sum())
        unsaid += int((np.isnan(confidence) & after["words_mask"]).sum())
    assert masked
    assert unsaid  # nothing says that these are wrong


@pytest.mark.parametrize("name", ["openface", "vision"])
def test_frames_of_low_confidence_are_masked(study: SyntheticStudy, name: str) -> None:
    dataset = ClipDataset(study.root, [ClipInput(name, min_confidence=LEAST)])
    masked = 0
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        rows = slice(clip["start_frame"], clip["stop_frame"])
        session = clip["session_id"]
        valid, confidence = (study.arrays[session, "openface", array][rows] for array in ("valid", "confidence"))
        np.testing.assert_array_equal(sample[f"{name}_mask"], (valid == 1) & (confidence >= LEAST))
        masked += int((confidence < LEAST).sum())
    assert masked


def test_sessions_without_confidences_are_read_with_others_unless_one_is_asked_for(study: SyntheticStudy) -> None:
    assert len(ClipDataset(study.root, ["words"]).clips["session_id"].unique()) == 3
    for asked in (ClipInput("words", min_confidence=LEAST), ClipInput("words", ["confidence"])):
        with pytest.raises(ValueError, match=naming("'glove'", "in s00", "in s02")):
            ClipDataset(study.root, [asked])


@pytest.mark.parametrize(
    ("name", "how", "message"),
    [
        ("words", {"min_confidence": 1.5}, "has to be from 0 to 1"),
        ("words", {"min_confidence": float("nan")}, "has to be from 0 to 1"),
        ("label", {"min_confidence": 0.5}, "no min_confidence"),
        ("audio", {"min_confidence": 0.5}, "'opensmile' has no array 'confidence' with a row for each audio_frame"),
        ("audio", {"min_confidence": 0.5, "axis": "frame"}, "'opensmile' has no array 'confidence'"),
    ],
)
def test_a_least_confidence_that_nothing_has_is_refused(study, name: str, how: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClipDataset(study.root, [ClipInput(name, **how)])


def test_it_is_shown() -> None:
    assert repr(ClipInput("words", min_confidence=0.25)) == "ClipInput('words', min_confidence=0.25)"
