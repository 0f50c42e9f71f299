"""Words and utterances of some of the speakers only."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.messages import naming
from support.stores import local
from support.synthetic_features import StudySpec, SyntheticStudy, publish, random_features, write_features

from storyframes import ClipDataset, ClipInput
from storyframes.features import Axis
from storyframes.store import catalogue

FRAMES = StudySpec().frames
LABELS = {"s00": ["robot", "participant"], "s01": ["participant", "robot", "speaker_3"], "s02": ["participant"]}
SPOKEN = [("words", "glove", "frame_word"), ("sentence", "sbert", "frame_utterance")]
every_feature = pytest.mark.parametrize(("name", "feature", "frame_row"), SPOKEN)
every_choice = pytest.mark.parametrize(
    "speakers", [["participant"], ["robot", "participant"], ["speaker_3", "participant"]]
)


def republish(study: SyntheticStudy, session: str, feature: str, labels: list[str] | None) -> None:
    """The feature again, its rows shared out among the speakers, or without any."""
    generator = np.random.default_rng([len(session), len(feature)])
    arrays = {name: rows for (s, f, name), rows in study.arrays.items() if (s, f) == (session, feature)}
    if labels is None:
        publish(study.root, session, feature, {k: v for k, v in arrays.items() if k != "speaker"})
        return
    rows = len(arrays["start"])
    arrays["speaker"] = study.arrays[session, feature, "speaker"] = generator.permutation(
        np.arange(rows) % len(labels)
    ).astype(np.int16)
    publish(study.root, session, feature, arrays, {"speakers": labels})


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> SyntheticStudy:
    study = write_features(tmp_path_factory.mktemp("study") / "features", StudySpec(sessions=len(LABELS)))
    for session, labels in LABELS.items():
        for _, feature, _ in SPOKEN:
            republish(study, session, feature, labels)
    catalogue.compact(local(study.root))
    return study


@pytest.fixture
def study_to_change(study: SyntheticStudy, tmp_path: Path) -> SyntheticStudy:
    root = Path(shutil.copytree(study.root, tmp_path / "features"))
    return replace(study, root=root, arrays=dict(study.arrays))


def of(study: SyntheticStudy, clip, feature: str, array: str) -> np.ndarray:
    return study.arrays[clip["session_id"], feature, array]


def theirs(study: SyntheticStudy, clip, feature: str, speakers: list[str]) -> np.ndarray:
    labels = LABELS[clip["session_id"]]
    return np.array([labels[number] in speakers for number in of(study, clip, feature, "speaker")], bool)


@every_feature
@every_choice
def test_only_rows_of_the_speakers_in_order(study, name: str, feature: str, frame_row: str, speakers) -> None:
    everybody = ClipDataset(study.root, [name])
    dataset = ClipDataset(study.root, [ClipInput(name, speakers=speakers)])
    assert dataset.fields == everybody.fields
    left_out = 0
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        start = of(study, clip, feature, "start")
        end = of(study, clip, feature, "end") if name == "sentence" else start + 1e-6
        own = theirs(study, clip, feature, speakers)
        here = [row for row in np.argsort(start) if start[row] < clip["stop_s"] and end[row] > clip["start_s"]]
        rows = [row for row in here if own[row]]
        assert sample[f"{name}_length"] == len(rows)
        np.testing.assert_array_equal(sample[name][: len(rows)], of(study, clip, feature, "values")[rows])
        assert not sample[name][len(rows) :].any()
        assert not sample[f"{name}_mask"][len(rows) :].any()
        left_out += len(here) - len(rows)
    assert left_out


@every_feature
@every_choice
def test_frames_at_which_another_speaks_are_masked(study, name: str, feature: str, frame_row: str, speakers) -> None:
    everybody = ClipDataset(study.root, [ClipInput(name, axis=Axis.FRAME)])
    dataset = ClipDataset(study.root, [ClipInput(name, axis=Axis.FRAME, speakers=speakers)])
    masked = 0
    for place, clip in dataset.clips.iterrows():
        sample, whole = dataset[place], everybody[place]
        row = of(study, clip, feature, frame_row)[clip["start_frame"] : clip["stop_frame"]]
        heard = (row >= 0) & theirs(study, clip, feature, speakers)[row]
        np.testing.assert_array_equal(sample[f"{name}_mask"], whole[f"{name}_mask"] & heard)
        np.testing.assert_array_equal(sample[name][heard], whole[name][heard])
        assert not sample[name][~heard].any()
        masked += ((row >= 0) & ~heard).sum()
    assert masked


@every_feature
def test_all_speakers_are_the_same_as_none_named(study, name: str, feature: str, frame_row: str) -> None:
    for axis in (None, Axis.FRAME):
        speakers = ["participant", "robot", "speaker_3"]
        named = ClipDataset(study.root, [ClipInput(name, axis=axis, speakers=speakers)])
        unset = ClipDataset(study.root, [ClipInput(name, axis=axis)])
        for one, other in zip(named, unset, strict=True):
            for field in unset.fields:
                np.testing.assert_array_equal(one[field], other[field])


def test_a_pickled_dataset_and_its_repr_have_the_speakers(study) -> None:
    dataset = ClipDataset(study.root, [ClipInput("words", speakers=("participant",))])
    assert "ClipInput('words', speakers=['participant'])" in repr(dataset)
    again = pickle.loads(pickle.dumps(dataset))
    for one, other in zip(dataset, again, strict=True):
        np.testing.assert_array_equal(one["words"], other["words"])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"speakers": ["partcipant"]}, "no session has a speaker 'partcipant' in 'glove'; there are 'robot', 'part"),
        ({"speakers": ["Participant"]}, "no session has a speaker 'Participant'"),
        (
            {"speakers": ["robot"]},
            r"1 of 3 sessions have speech, but none of 'robot' \(s02: 'participant'\): name their speakers",
        ),
        ({"name": "resnet50", "speakers": ["robot"]}, "speakers of 'resnet50' cannot be chosen: only words and utt"),
        ({"name": "audio", "speakers": ["robot"]}, "speakers of 'audio' cannot be chosen"),
        ({"name": "vision", "speakers": ["robot"]}, "speakers of 'vision' cannot be chosen"),
        ({"name": "story", "speakers": ["robot"]}, "speakers of 'story' cannot be chosen"),
        ({"name": "label", "speakers": ["robot"]}, "speakers of 'label' cannot be chosen"),
        ({"speakers": []}, "speakers is empty"),
    ],
)
def test_speakers_that_cannot_be_chosen_are_an_error(study, wanted, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClipDataset(study.root, [ClipInput(**{"name": "words", **wanted})])


def test_one_string_is_refused() -> None:
    with pytest.raises(TypeError, match=naming("speakers='robot'", "['robot']")):
        ClipInput("words", speakers="robot")


def test_a_store_without_speakers_reads_as_it_did_and_says_so_when_they_are_asked_for(
    study_to_change: SyntheticStudy,
) -> None:
    for session in ("s01", "s02"):
        republish(study_to_change, session, "glove", None)
    catalogue.compact(local(study_to_change.root))
    for axis in (None, Axis.FRAME):
        mixed = ClipDataset(study_to_change.root, [ClipInput("words", axis=axis)])  # some sessions made anew, some not
        for sample, (_, clip) in zip(mixed, mixed.clips.iterrows(), strict=True):
            rows = of(study_to_change, clip, "glove", "values")
            assert np.isin(sample["words"][sample["words_mask"]][:, 0], rows[:, 0]).all()
    with pytest.raises(ValueError, match=naming("'glove'", "extract them")):
        ClipDataset(study_to_change.root, [ClipInput("words", speakers=["participant"])])
    with pytest.raises(ValueError, match=naming("'glove'", "extract it again")):
        ClipDataset(study_to_change.root, [ClipInput("words", speakers=["participant"])], "session_id != 's00'")


def test_a_session_without_any_speech_has_no_rows(study_to_change: SyntheticStudy) -> None:
    silent = random_features(np.random.default_rng(3), FRAMES)["glove"]
    silent = {
        name: rows[:0] if name != "frame_word" else np.full(FRAMES, -1, np.int32) for name, rows in silent.items()
    }
    publish(study_to_change.root, "s01", "glove", {**silent, "speaker": np.empty(0, np.int16)}, {"speakers": []})
    catalogue.compact(local(study_to_change.root))
    dataset = ClipDataset(study_to_change.root, [ClipInput("words", speakers=["participant"])])
    for sample, session in zip(dataset, dataset.clips["session_id"], strict=True):
        assert (sample["words_length"] == 0) or session != "s01"
