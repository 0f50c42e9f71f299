from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest
from support.messages import naming
from support.stores import local
from support.synthetic_features import StudySpec, SyntheticStudy, publish, random_features, write_features

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.clips.named_inputs import INPUTS
from storyframes.features import FEATURES, Axis
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError

WINDOW = StudySpec().window
EVERYTHING = [*INPUTS, "openface", "resnet50", "dope"]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("study") / "features")


def frames(study: SyntheticStudy, clip: pd.Series, feature: str, array: str = "values") -> np.ndarray:
    return study.arrays[clip["session_id"], feature, array][clip["start_frame"] : clip["stop_frame"]]


def spoken(study: SyntheticStudy, clip: pd.Series, feature: str, array: str) -> np.ndarray:
    return study.arrays[clip["session_id"], feature, array]


# --- what a sample holds ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_field_has_the_shape_and_dtype_it_promises(study) -> None:
    dataset = ClipDataset(study.root, EVERYTHING)
    assert len(dataset) == len(study.clips) == 240
    batch = dataset.read([0, 7, 239])
    assert list(batch) == list(dataset.fields)
    for name, field in dataset.fields.items():
        assert (batch[name].shape, batch[name].dtype) == ((3, *field.shape), field.dtype), name
        assert len(field.columns) in (0, field.shape[-1] if field.shape else 0), name
    assert dataset.fields["vision"].shape == (WINDOW, 2762)
    assert dataset.fields["resnet50"].dtype == np.float16


def test_per_frame_inputs_are_the_stored_rows(study) -> None:
    dataset = ClipDataset(study.root, ["vision", "openface", "resnet50", "dope"])
    for number in (0, 100, 239):
        sample, clip = dataset[number], study.clips.iloc[number]
        openface, embeddings = frames(study, clip, "openface"), frames(study, clip, "resnet50")
        np.testing.assert_array_equal(sample["openface"], openface)
        np.testing.assert_array_equal(sample["resnet50"], embeddings)
        np.testing.assert_array_equal(sample["vision"], np.hstack([openface, embeddings.astype(np.float32)]))
        for mask in ("openface_mask", "vision_mask"):
            np.testing.assert_array_equal(sample[mask], frames(study, clip, "openface", "valid") == 1)
        for array in ("body_2d", "hands_3d", "face_score", "n_detected"):
            np.testing.assert_array_equal(sample[f"dope_{array}"], frames(study, clip, "dope", array))
        np.testing.assert_array_equal(sample["dope_mask"], frames(study, clip, "dope", "sampled") == 1)


def test_audio_is_padded_to_the_longest_clip_of_the_study(study) -> None:
    lengths = study.clips["audio_stop"] - study.clips["audio_start"]
    assert lengths.nunique() > 1
    dataset = ClipDataset(study.root, ["audio"])
    for number in (int(lengths.argmin()), int(lengths.argmax())):
        sample, clip = dataset[number], study.clips.iloc[number]
        rows = study.arrays[clip["session_id"], "opensmile", "values"][clip["audio_start"] : clip["audio_stop"]]
        assert sample["audio"].shape == (lengths.max(), 65)
        assert sample["audio_length"] == len(rows) == sample["audio_mask"].sum()
        np.testing.assert_array_equal(sample["audio"][sample["audio_mask"]], rows)
        assert not sample["audio"][len(rows) :].any()


def test_words_are_those_that_start_in_the_clip_in_order(study) -> None:
    dataset = ClipDataset(study.root, ["words"])
    assert dataset.fields["words"].shape == (study.clips["words"].max(), 300)
    for sample, (_, clip) in zip(dataset, study.clips.iterrows(), strict=True):
        start = spoken(study, clip, "glove", "start")
        rows = [row for row in np.argsort(start) if clip["start_s"] <= start[row] < clip["stop_s"]]
        count = len(rows)
        assert sample["words_length"] == count == clip["words"]
        np.testing.assert_array_equal(sample["words"][:count], spoken(study, clip, "glove", "values")[rows])
        np.testing.assert_array_equal(sample["words_mask"][:count], spoken(study, clip, "glove", "known")[rows] == 1)
        assert not sample["words"][count:].any()
        assert not sample["words_mask"][count:].any()


def test_sentences_are_those_that_overlap_the_clip_in_order(study) -> None:
    dataset = ClipDataset(study.root, ["sentence"])
    longest = 0
    for sample, (_, clip) in zip(dataset, study.clips.iterrows(), strict=True):
        start, end = (spoken(study, clip, "sbert", name) for name in ("start", "end"))
        rows = [row for row in np.argsort(start) if start[row] < clip["stop_s"] and end[row] > clip["start_s"]]
        count = len(rows)
        longest = max(longest, count)
        assert sample["sentence_length"] == count == sample["sentence_mask"].sum()
        np.testing.assert_array_equal(sample["sentence"][:count], spoken(study, clip, "sbert", "values")[rows])
        assert not sample["sentence"][count:].any()
    assert dataset.fields["sentence"].shape == (longest, 384)


def test_sound_and_text_per_frame(study) -> None:
    inputs = [ClipInput(name, axis=Axis.FRAME) for name in ("audio", "words", "sentence")]
    dataset = ClipDataset(study.root, inputs)
    assert {name for name in dataset.fields if name.endswith("_length")} == set()
    for sample, (_, clip) in zip(dataset, study.clips.iterrows(), strict=True):
        audio = frames(study, clip, "opensmile", "per_frame")
        np.testing.assert_array_equal(sample["audio"], audio)
        np.testing.assert_array_equal(sample["audio_mask"], ~np.isnan(audio[:, 0]))
        for name, feature, frame_row in (
            ("words", "glove", "frame_word"),
            ("sentence", "sbert", "frame_utterance"),
        ):
            row = frames(study, clip, feature, frame_row)
            values = np.where(row[:, None] >= 0, spoken(study, clip, feature, "values")[row], 0)
            np.testing.assert_array_equal(sample[name], values)
            known = spoken(study, clip, "glove", "known")[row] == 1 if name == "words" else True
            np.testing.assert_array_equal(sample[f"{name}_mask"], (row >= 0) & known)


def test_story_label_and_index(study) -> None:
    dataset = ClipDataset(study.root, ["story", "label"], "position == 2")
    story_ids = list(study.clips["story_id"].unique())
    assert len(story_ids) == 5
    batch = dataset.read(range(len(dataset)))
    np.testing.assert_array_equal(batch["index"], range(len(dataset)))
    np.testing.assert_array_equal(batch["label"], dataset.clips["empathy"])
    stories = study.arrays["stories", "sbert", "values"]
    rows = [int(story_id.removeprefix("story")) for story_id in dataset.clips["story_id"]]
    np.testing.assert_array_equal(batch["story"], stories[rows])


def test_padding_does_not_depend_on_the_filter(study) -> None:
    inputs = ["audio", "words", "sentence"]
    everything = ClipDataset(study.root, inputs).fields
    for split in ("train", "val", "test"):
        assert ClipDataset(study.root, inputs, f"split == '{split}'").fields == everything


# --- columns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        ["gaze"],
        ["action_units", "pose"],
        ["AU12_r", "gaze", "AU01_c"],
        ["measurements"],
        ["bookkeeping", "landmarks_3d"],
    ],
)
@pytest.mark.parametrize("name", ["openface", "vision"])
def test_columns_by_name_and_group(study, name: str, columns: list[str]) -> None:
    dataset = ClipDataset(study.root, [ClipInput(name, columns), ClipInput("label")])
    spec = FEATURES["openface"]
    groups = {group: spec.columns[where] for group, where in spec.groups.items()} | {"measurements": spec.columns[5:]}
    expected = [column for wanted in columns for column in groups.get(wanted, (wanted,))]
    assert list(dataset.fields[name].columns) == expected
    clip = study.clips.iloc[50]
    places = [spec.columns.index(column) for column in expected]
    np.testing.assert_array_equal(dataset[50][name], frames(study, clip, "openface")[:, places])


def test_columns_of_vision_may_be_of_both_parts_in_any_order(study) -> None:
    columns = ["resnet50_0003", "gaze", "resnet50_2047", "resnet50_0000", "success"]
    dataset = ClipDataset(study.root, [ClipInput("vision", columns)])
    everything = ClipDataset(study.root, ["vision"])
    names = list(everything.fields["vision"].columns)
    places = [names.index(column) for column in dataset.fields["vision"].columns]
    assert len(places) == 12
    np.testing.assert_array_equal(dataset[7]["vision"], everything[7]["vision"][:, places])


def test_measured_vision_is_all_but_the_five_columns_of_bookkeeping(study) -> None:
    with pytest.warns(UserWarning, match="vision.measured") as warned:
        everything = ClipDataset(study.root, ["vision"])
    assert [warning.filename for warning in warned] == [__file__]  # once, where the dataset is made
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measured = ClipDataset(study.root, ["vision.measured", "label"])
        chosen = ClipDataset(study.root, [ClipInput("vision", ["openface", "resnet50"])])
        some = ClipDataset(study.root, [ClipInput("vision.measured", ["resnet50_0003", "pose"])])
    field, bookkeeping = measured.fields["vision.measured"], everything.fields["vision"].columns[:5]
    assert bookkeeping == ("frame", "face_id", "timestamp", "confidence", "success")
    assert field.columns == everything.fields["vision"].columns[5:]
    sample, vision = measured[7], everything[7]
    np.testing.assert_array_equal(sample["vision.measured"], vision["vision"][:, 5:])
    np.testing.assert_array_equal(sample["vision.measured_mask"], vision["vision_mask"])
    np.testing.assert_array_equal(chosen[7]["vision"], vision["vision"])
    assert some.fields["vision.measured"].columns[:2] == ("resnet50_0003", "pose_Tx")
    clip = study.clips.iloc[7]
    rows = measured.store.read(clip["session_id"], "vision.measured", clip["start_frame"], clip["stop_frame"])
    np.testing.assert_array_equal(rows, sample["vision.measured"])


def test_columns_of_audio_and_arrays_of_dope(study) -> None:
    chosen = ["pcm_RMSenergy_sma", "F0final_sma"]
    dataset = ClipDataset(study.root, [ClipInput("audio", chosen), ClipInput("dope", ["hands_2d", "body_3d"])])
    everything = ClipDataset(study.root, ["audio"])
    places = [everything.fields["audio"].columns.index(column) for column in chosen]
    np.testing.assert_array_equal(dataset[3]["audio"], everything[3]["audio"][:, places])
    assert [name for name in dataset.fields if name.startswith("dope")] == [
        "dope_hands_2d",
        "dope_body_3d",
        "dope_mask",
    ]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            ClipInput("vison"),
            "there is no input 'vison': is 'vision' meant. "
            "there are vision.measured, vision, audio, words, sentence, story, label, frames",
        ),
        (ClipInput("openface", ["AU12r"]), "no column or group 'AU12r': is 'AU12_r'"),
        (ClipInput("openface", ["gaze", "gaze_0_x"]), "column 'gaze_0_x' is chosen twice"),
        (ClipInput("openface", []), "columns is empty"),
        (ClipInput("openface", axis=Axis.AUDIO_FRAME), "axis of 'openface' cannot be 'audio_frame', only 'frame'"),
        (ClipInput("words", axis=Axis.UTTERANCE), "axis of 'words' cannot be 'utterance'"),
        (ClipInput("words", ["glove_300"]), "no column or group 'glove_300': is 'glove_230'"),
        (ClipInput("story", ["sbert_000"]), "columns of 'story' cannot be chosen"),
        (ClipInput("vision", axis=Axis.WORD), "axis of 'vision' cannot be 'word', only 'frame'"),
        (ClipInput("vision.measured", ["pose", "success"]), "'vision.measured' has no bookkeeping, as 'success'"),
        (
            ClipInput("dope", ["all_body_2d"]),
            "dope has no array 'all_body_2d': is 'body_2d' or .* a clip can have body_2d",
        ),
    ],
)
def test_an_input_that_cannot_be_is_refused(study, wanted: ClipInput, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClipDataset(study.root, [wanted])


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([], ValueError, "inputs is empty"),
        (["label", ClipInput("label")], ValueError, "input 'label' is named twice"),
        ("vision", TypeError, r"one string; give a sequence of inputs: \['vision'\]"),
    ],
)
def test_inputs_that_cannot_be_are_refused(study, inputs, error, message: str) -> None:
    with pytest.raises(error, match=message):
        ClipDataset(study.root, inputs)


def test_one_string_is_no_sequence_of_columns() -> None:
    with pytest.raises(TypeError, match=naming("['gaze']")):
        ClipInput("openface", "gaze")


# --- which clips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        'split == "train" and face_tracked >= .9',
        (pc.field("split") == "train") & (pc.field("face_tracked") >= 0.9),
    ],
    ids=["text", "pyarrow"],
)
def test_filters(study, where) -> None:
    dataset = ClipDataset(study.root, ["label"], where)
    expected = study.clips[(study.clips["split"] == "train") & (study.clips["face_tracked"] >= 0.9)]
    assert 0 < len(expected) < len(study.clips)
    assert list(dataset.clips["clip_id"]) == list(expected["clip_id"])
    assert dataset.digest != ClipDataset(study.root, ["label"]).digest


def test_a_filter_that_is_none_over_the_index_is_refused(study) -> None:
    with pytest.raises(ValueError, match=naming("'face'", "clip_id, session_id")):
        ClipDataset(study.root, ["label"], "face >= .9")
    with pytest.raises(ValueError, match="cannot be applied"):
        ClipDataset(study.root, ["label"], pc.field("face") > 1)
    with pytest.raises(ValueError, match=naming("no clip is left", "240", "'empathy > 5'")):
        ClipDataset(study.root, ["label"], "empathy > 5")


@pytest.fixture(scope="module")
def patchy(tmp_path_factory) -> SyntheticStudy:
    lacking = {"s01": ["opensmile", "dope"], "s03": ["resnet50", "glove"]}
    return write_features(tmp_path_factory.mktemp("patchy") / "features", StudySpec(sessions=5, lacking=lacking))


@pytest.mark.parametrize(
    ("name", "session", "filters"),
    [
        ("vision", "s03", "has_openface and has_resnet50"),
        ("audio", "s01", "has_opensmile"),
        ("words", "s03", "has_glove"),
        ("dope", "s01", "has_dope"),
    ],
)
def test_a_clip_that_lacks_an_input_is_an_error_or_left_out(patchy, name: str, session: str, filters: str) -> None:
    message = f"24 of 120 clips lack the input '{name}' .of {session}.: filter with where='{filters}', or leave"
    with pytest.raises(ValueError, match=message):
        ClipDataset(patchy.root, [name, "label"])
    dropped = ClipDataset(patchy.root, [name, "label"], drop_missing=True)
    filtered = ClipDataset(patchy.root, [name, "label"], filters)
    assert session not in set(dropped.clips["session_id"])
    assert dropped.digest == filtered.digest
    assert dropped[95][name if name != "dope" else "dope_body_2d"].shape[0] > 0


def test_all_clips_lacking_an_input_is_an_error(patchy) -> None:
    with pytest.raises(ValueError, match=naming("no clip is left", "24", "'audio'")):
        ClipDataset(patchy.root, ["audio"], "session_id == 's01'", drop_missing=True)


def test_a_clip_whose_story_has_no_vector_lacks_it(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=2))
    publish(study.root, "stories", "sbert", {"values": np.ones((1, 384), np.float32)}, {"story_ids": ["story1"]})
    catalogue.compact(local(study.root))
    with pytest.raises(ValueError, match=naming("40 of 48 clips", "'story'", "story2, story3, story4")):
        ClipDataset(study.root, ["story"])
    assert set(ClipDataset(study.root, ["story"], drop_missing=True).clips["story_id"]) == {"story1"}


def test_sessions_with_other_descriptors_are_told_apart(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=2))
    from storyframes.store.publish import FeatureWriter

    with FeatureWriter(local(study.root), "s01", FEATURES["opensmile"]) as out:
        out.write("values", np.ones((400, 2), np.float32), ["loudness", "pitch"])
        out.write("time", np.arange(400) / 100)
        out.write("per_frame", np.ones((60, 2), np.float32), ["loudness", "pitch"])
        out.publish("f", {})
    catalogue.compact(local(study.root))
    with pytest.raises(
        ValueError,
        match=naming("'values' of 'opensmile'", "x 65 descriptor in s00", "x 2 descriptor in s01"),
    ):
        ClipDataset(study.root, ["audio"])
    other = ClipDataset(study.root, [ClipInput("audio", ["pitch"])], "session_id == 's01'")
    assert other[0]["audio"].shape[1:] == (1,)


# --- as a dataset ----------------------------------------------------------------------------------------------------


def test_it_is_a_sequence(study) -> None:
    dataset = ClipDataset(study.root, ["label"], "session_id == 's03'")
    assert len(list(dataset)) == len(dataset) == 24
    assert dataset[-1]["index"] == dataset[np.int32(23)]["index"] == 23
    with pytest.raises(IndexError):
        dataset[24]


def test_batches_are_the_samples(study) -> None:
    dataset = ClipDataset(study.root, EVERYTHING)
    several = dataset.__getitems__([5, 200, 5])
    for sample, number in zip(several, [5, 200, 5], strict=True):
        for name, values in dataset[number].items():
            np.testing.assert_array_equal(sample[name], values, err_msg=name)


def test_batches_that_are_kept_stay_what_they_are(study) -> None:
    dataset = ClipDataset(study.root, ["vision", "label"])
    kept = [dataset.__getitems__([number, number + 1, number + 2][: 1 + number % 3]) for number in range(9)]
    for number, samples in enumerate(kept):
        for sample, expected in zip(samples, range(number, number + 3), strict=False):
            np.testing.assert_array_equal(sample["vision"], dataset[expected]["vision"])


def test_memory_of_batches_that_are_gone_is_used_again(study) -> None:
    dataset = ClipDataset(study.root, ["vision"])
    places = set()
    for number in range(20):
        samples = dataset.__getitems__([number, number + 1])
        places.add(samples[0]["vision"].ctypes.data)
    assert len(places) <= 2
    assert len(pickle.dumps(dataset)) < 2 * samples[0]["vision"].nbytes  # the memory stays here


def test_reading_into_used_arrays_leaves_nothing_of_what_was_there(study) -> None:
    dataset = ClipDataset(study.root, EVERYTHING)
    out = dataset.allocate(4)
    for values in out.values():
        values.view(np.uint8)[...] = 0xFF
    assert dataset.read([9, 1], out=out) is out
    for name, values in dataset.read([9, 1]).items():
        np.testing.assert_array_equal(out[name][:2], values, err_msg=name)


def test_it_can_be_pickled_and_reads_the_versions_it_had(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=2))
    dataset = ClipDataset(FeatureStore(study.root), ["openface", "label"])
    before = dataset[0]
    content = pickle.dumps(dataset)
    publish(study.root, "s00", "openface", random_features(np.random.default_rng(7), 60)["openface"])
    catalogue.compact(local(study.root))
    for name, values in pickle.loads(content)[0].items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)
    assert not np.array_equal(ClipDataset(study.root, ["openface"])[0]["openface"], before["openface"], equal_nan=True)


def test_a_store_without_a_clip_index_says_so(store_root: Path) -> None:
    with pytest.raises(StoreError, match=naming("clips.parquet", "'storyframes index STUDY")):
        ClipDataset(store_root, ["label"])


def test_features_shorter_than_the_index_says_are_an_error(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=2))
    publish(study.root, "s01", "resnet50", {"values": np.zeros((50, 2048), np.float16)})
    catalogue.compact(local(study.root))
    dataset = ClipDataset(study.root, ["resnet50"])
    with pytest.raises(StoreError, match=naming("s01/resnet50/values", "0 to 50", "40 to 53")):
        dataset.read(range(len(dataset)))
