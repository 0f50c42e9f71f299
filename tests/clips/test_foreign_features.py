"""A store says what its features are: one that this installation does not know is read like any other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.messages import naming
from support.stores import local
from support.synthetic_features import FPS, StudySpec, SyntheticStudy, write_features

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput, ClipSource
from storyframes.clips.row_finders import windows_inside
from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import PhaseSpan, SessionSignals, windows_of
from storyframes.features import FEATURES, Axis
from storyframes.spec import ArraySpec, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.tables import MASK
from storyframes.times import SESSIONS_OWN
from tasks.clip_index.index import write_clip_index

FRAMES, SESSIONS = 60, 6
SECONDS = FRAMES / FPS
STEP_S = 0.02  # not openSMILE's


def array(axis: Axis, width: int = 0, dtype: str = "float32", **more: Any) -> ArraySpec:
    return ArraySpec(axis, dtype, "numbers", (width,) if width else (), ("column",) if width else (), **more)


def clock(axis: Axis) -> ArraySpec:
    return ArraySpec(axis, "float64", "when", units="s")


def flag(axis: Axis) -> ArraySpec:
    return ArraySpec(axis, "uint8", "1 where it is known", fill=0)


BRIGHTNESS = FeatureSpec(
    "brightness",
    "how bright the picture is, and how much moves",
    {
        "values": array(Axis.FRAME, 4, columns=("mean", "deviation", "motion", "flow")),
        "known": flag(Axis.FRAME),
        "count": ArraySpec(Axis.FRAME, "int16", "how many moved", fill=-1),
        "box": ArraySpec(Axis.FRAME, "float64", "where", (2, 2), ("corner", "xy"), columns=("x", "y")),
    },
    groups={"light": slice(0, 2), "movement": slice(2, 4)},
    mask="known",
)
BODY = FeatureSpec(
    "body_points",
    "no array called values, and nothing that says what is a measurement",
    {
        "near": ArraySpec(Axis.FRAME, "float32", "points", (3, 2), ("point", "xy")),
        "far": ArraySpec(Axis.FRAME, "float16", "points", (3, 2), ("point", "xy")),
        "seen": ArraySpec(Axis.FRAME, "int16", "how many", fill=0),
    },
)
SOUND = FeatureSpec(
    "loudness",
    "of 20 ms",
    {
        "values": array(Axis.AUDIO_FRAME, 2, columns=("low", "high")),
        "time": clock(Axis.AUDIO_FRAME),
        "voiced": ArraySpec(Axis.AUDIO_FRAME, "int8", "1 where somebody speaks", fill=-1),
        "per_frame": array(Axis.FRAME, 2, columns=("low", "high")),
    },
)
WORDS = FeatureSpec(
    "surprise",
    "of each word",
    {
        "values": array(Axis.WORD, 2, columns=("bits", "rank")),
        "start": clock(Axis.WORD),
        "known": flag(Axis.WORD),
        "letters": ArraySpec(Axis.WORD, "int16", "how many", fill=-1),
        "frame_word": ArraySpec(Axis.FRAME, "int32", "the word spoken", fill=-1),
    },
    mask="known",
)
UTTERANCES = FeatureSpec(
    "sentiment",
    "of each utterance",
    {
        "values": array(Axis.UTTERANCE),
        "start": clock(Axis.UTTERANCE),
        "end": clock(Axis.UTTERANCE),
        "frame_utterance": ArraySpec(Axis.FRAME, "int32", "the utterance spoken", fill=-1),
    },
)
PLAIN = FeatureSpec("plain", "no mask", {"values": array(Axis.FRAME, 3, columns=("a", "b", "c"))})
POINTS = FeatureSpec(
    "points",
    "no mask",
    {"values": ArraySpec(Axis.FRAME, "float32", "where", (3, 2), ("point", "xy"), columns=("x", "y"))},
)
FOREIGN = (BRIGHTNESS, BODY, SOUND, WORDS, UTTERANCES)


def random_foreign(generator: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    rows = {Axis.FRAME: FRAMES, Axis.AUDIO_FRAME: 170, Axis.WORD: int(generator.integers(4, 20)), Axis.UTTERANCE: 4}
    found = {}
    for spec in FOREIGN:
        found[spec.name] = {
            name: (100 * generator.normal(size=(rows[each.axis], *each.shape))).astype(each.dtype)
            for name, each in spec.arrays.items()
        }
    brightness, body, sound, words, utterances = (found[spec.name] for spec in FOREIGN)
    for mask in (brightness, words):
        mask["known"] = (generator.random(len(mask["known"])) < 0.7).astype(np.uint8)
    brightness["values"][brightness["known"] == 0] = np.nan
    for name in ("near", "far"):
        body[name][generator.random(FRAMES) < 0.5] = np.nan
    body["near"][3, 0] = np.nan  # not throughout
    sound["time"] = 0.31 + np.arange(170) * STEP_S  # begins inside the first clips, and ends before the last
    sound["values"][5] = np.nan
    sound["per_frame"][:7] = np.nan
    for spoken, name in ((words, "frame_word"), (utterances, "frame_utterance")):
        count = len(spoken["start"])
        spoken["start"] = generator.permutation(np.linspace(0, SECONDS, count, endpoint=False))
        spoken[name] = generator.integers(-1, count, FRAMES).astype(np.int32)
    utterances["end"] = utterances["start"] + generator.uniform(0.1, 1, 4)
    utterances["values"][2] = np.nan
    return found


def plain_rows(number: int) -> np.ndarray:
    """Rows of :data:`PLAIN`; a third of them lack one column, another one, several or all, by the session's number."""
    generator = np.random.default_rng(number)
    values = generator.normal(size=(FRAMES, 3)).astype(np.float32)
    lost = [[], [0], [2], [0, 2], [0, 1, 2], [1]][number]
    values[np.ix_(generator.random(FRAMES) < 0.3, lost)] = np.nan
    return values


def publish(root: Path, session: str, spec: FeatureSpec, values: Mapping[str, np.ndarray]) -> None:
    with FeatureWriter(local(root), session, spec) as out:
        for name, rows in values.items():
            out.write(name, rows)
        out.publish("f", {})


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> SyntheticStudy:
    study = write_features(tmp_path_factory.mktemp("study") / "features", StudySpec(sessions=SESSIONS, frames=FRAMES))
    for number, session in enumerate(FeatureStore(study.root).sessions):
        for spec in FOREIGN:
            values = random_foreign(np.random.default_rng(number))[spec.name]
            publish(study.root, session, spec, values)
            study.arrays.update({(session, spec.name, name): rows for name, rows in values.items()})
        study.arrays[session, "plain", "values"] = plain_rows(number)
        publish(study.root, session, PLAIN, {"values": plain_rows(number)})
        points = np.repeat(plain_rows(number)[..., None], 2, axis=2)
        points[::2, :, 1] = np.nan
        study.arrays[session, "points", "values"] = points
        publish(study.root, session, POINTS, {"values": points})
    catalogue.compact(local(study.root))
    return study


def of(study: SyntheticStudy, clip: pd.Series, feature: str, name: str = "values") -> np.ndarray:
    return study.arrays[clip["session_id"], feature, name]


def each_clip(study: SyntheticStudy, dataset: ClipDataset):  # type: ignore[no-untyped-def]
    return zip(dataset, (clip for _, clip in study.clips.iterrows()), strict=True)


# --- a clip's arrays, against what was written -----------------------------------------------------------------------


@pytest.mark.slow
def test_frames(study) -> None:
    dataset = ClipDataset(study.root, ["brightness", "body_points", "frames"])
    assert list(dataset.fields) == [
        *("brightness", "brightness_mask"),
        *("body_points_near", "body_points_far", "body_points_seen", "body_points_mask"),
        *("frames_time", "frames_mask", "index"),
    ]
    assert dataset.fields["brightness"].columns == ("mean", "deviation", "motion", "flow")
    for sample, clip in each_clip(study, dataset):
        rows = slice(clip["start_frame"], clip["stop_frame"])
        np.testing.assert_array_equal(sample["brightness"], of(study, clip, "brightness")[rows])
        np.testing.assert_array_equal(sample["brightness_mask"], of(study, clip, "brightness", "known")[rows] == 1)
        near, far, seen = (of(study, clip, "body_points", name)[rows] for name in ("near", "far", "seen"))
        for name, values in (("near", near), ("far", far), ("seen", seen)):
            np.testing.assert_array_equal(sample[f"body_points_{name}"], values)
            assert sample[f"body_points_{name}"].dtype == values.dtype
        nothing = np.isnan(near).all(axis=(1, 2)) & np.isnan(far).all(axis=(1, 2))
        assert 0 < nothing.sum() < len(nothing)
        np.testing.assert_array_equal(sample["body_points_mask"], ~nothing)
        np.testing.assert_array_equal(sample["frames_time"], of(study, clip, "frames", "time")[rows])


@pytest.mark.parametrize("columns", [None, ["b"], ["c", "a"]])
@pytest.mark.parametrize("rate", [None, FPS, 11.0])
def test_rows_without_a_mask_are_measured_unless_all_their_values_are_nan(study, columns, rate: float | None) -> None:
    dataset = ClipDataset(study.root, [ClipInput("plain", columns, rate=rate)])
    batch = dataset.read([*range(len(dataset)), 0])
    wholly = set()
    for place, clip in dataset.clips.iterrows():
        rows = of(study, clip, "plain")[clip["start_frame"] : clip["stop_frame"]]
        if rate == 11.0:  # no point is as near to two rows
            points = clip["start_s"] + np.arange(len(batch["plain"][place])) / rate
            rows = rows[np.abs(points[:, None] - (clip["start_s"] + np.arange(len(rows)) / FPS)).argmin(axis=1)]
        expected = ~np.isnan(rows).all(axis=1)
        np.testing.assert_array_equal(batch["plain_mask"][place], expected)
        wholly.add(bool(expected.all()))
        np.testing.assert_array_equal(dataset[place]["plain_mask"], expected)
    assert wholly == {False, True}
    np.testing.assert_array_equal(batch["plain_mask"][-1], batch["plain_mask"][0])


@pytest.mark.parametrize("columns", [None, ["y"], ["y", "x"]])
def test_rows_of_several_points_without_a_mask_are_measured_unless_all_their_values_are_nan(study, columns) -> None:
    dataset = ClipDataset(study.root, [ClipInput("points", columns)])
    batch = dataset.read(range(len(dataset)))
    for place, clip in dataset.clips.iterrows():
        rows = of(study, clip, "points")[clip["start_frame"] : clip["stop_frame"]]
        np.testing.assert_array_equal(batch["points_mask"][place], ~np.isnan(rows).all(axis=(1, 2)))
        chosen = rows if columns is None else rows[..., ["xy".index(column) for column in columns]]
        np.testing.assert_array_equal(batch["points"][place], chosen)
    assert 0 < batch["points_mask"].mean() < 1


@pytest.mark.parametrize(
    ("columns", "places", "others"),
    [
        (["light"], [0, 1], []),
        (["flow", "light"], [3, 0, 1], []),
        (["movement", "count"], [2, 3], ["count"]),
        (["box", "mean", "count"], [0], ["box", "count"]),
        (["count"], None, ["count"]),
    ],
)
def test_columns_groups_and_other_arrays(study, columns: list[str], places, others: list[str]) -> None:
    dataset = ClipDataset(study.root, [ClipInput("brightness", columns)])
    fields = [*(["brightness"] if places else []), *(f"brightness_{name}" for name in others)]
    assert list(dataset.fields) == [*fields, "brightness_mask", "index"]
    for sample, clip in each_clip(study, dataset):
        rows = slice(clip["start_frame"], clip["stop_frame"])
        if places:
            np.testing.assert_array_equal(sample["brightness"], of(study, clip, "brightness")[rows][:, places])
        for name in others:
            np.testing.assert_array_equal(sample[f"brightness_{name}"], of(study, clip, "brightness", name)[rows])


def test_steps_of_the_sound(study) -> None:
    dataset = ClipDataset(study.root, ["loudness"])
    everything = ClipDataset(study.root, [ClipInput("loudness", ["high", "voiced"])])
    assert list(everything.fields) == ["loudness", "loudness_voiced", "loudness_mask", "loudness_length", "index"]
    longest, late = 0, 0
    for (sample, clip), chosen in zip(each_clip(study, dataset), everything, strict=True):
        time = of(study, clip, "loudness", "time")
        rows = np.flatnonzero((time > clip["start_s"] - 1e-7) & (time < clip["stop_s"] - 1e-7))
        before = max(int((time[0] - clip["start_s"] + 1e-7) // STEP_S), 0) if len(rows) and rows[0] == 0 else 0
        late += before > 0
        length = before + len(rows)
        longest = max(longest, length)
        values = of(study, clip, "loudness")[rows]
        assert sample["loudness_length"] == chosen["loudness_length"] == length
        assert np.isnan(sample["loudness"][:before]).all()
        np.testing.assert_array_equal(sample["loudness"][before:length], values)
        np.testing.assert_array_equal(chosen["loudness"][before:length], values[:, 1:])
        np.testing.assert_array_equal(chosen["loudness_voiced"][:before], -1)
        np.testing.assert_array_equal(
            chosen["loudness_voiced"][before:length], of(study, clip, "loudness", "voiced")[rows]
        )
        np.testing.assert_array_equal(sample["loudness_mask"][before:length], ~np.isnan(values).all(axis=1))
        assert not sample["loudness_mask"][:before].any()
        assert not sample["loudness_mask"][length:].any()
        assert not sample["loudness"][length:].any()
    assert late
    assert dataset.fields["loudness"].shape == (longest, 2)


def test_words(study) -> None:
    dataset = ClipDataset(study.root, [ClipInput("surprise", ["rank", "letters"])])
    longest = 0
    for sample, clip in each_clip(study, dataset):
        start = of(study, clip, "surprise", "start")
        rows = [row for row in np.argsort(start) if clip["start_s"] <= start[row] < clip["stop_s"]]
        count = len(rows)
        longest = max(longest, count)
        assert sample["surprise_length"] == count
        np.testing.assert_array_equal(sample["surprise"][:count], of(study, clip, "surprise")[rows][:, 1:])
        np.testing.assert_array_equal(sample["surprise_letters"][:count], of(study, clip, "surprise", "letters")[rows])
        np.testing.assert_array_equal(sample["surprise_mask"][:count], of(study, clip, "surprise", "known")[rows] == 1)
        assert not sample["surprise"][count:].any()
        assert not sample["surprise_mask"][count:].any()
    assert dataset.fields["surprise"].shape == (longest, 1)


def test_utterances(study) -> None:
    dataset = ClipDataset(study.root, ["sentiment"])
    longest = 0
    for sample, clip in each_clip(study, dataset):
        start, end = (of(study, clip, "sentiment", name) for name in ("start", "end"))
        rows = [row for row in np.argsort(start) if start[row] < clip["stop_s"] and end[row] > clip["start_s"]]
        count = len(rows)
        longest = max(longest, count)
        assert sample["sentiment_length"] == count
        values = of(study, clip, "sentiment")[rows]
        np.testing.assert_array_equal(sample["sentiment"][:count], values)
        np.testing.assert_array_equal(sample["sentiment_mask"][:count], ~np.isnan(values))
    assert dataset.fields["sentiment"].shape == (longest,)


def test_sound_and_speech_by_frame(study) -> None:
    inputs = [
        ClipInput("loudness", ["high"], axis="frame"),
        ClipInput("surprise", ["rank", "letters"], axis="frame"),
        ClipInput("sentiment", axis="frame"),
    ]
    dataset = ClipDataset(study.root, inputs)
    assert not [name for name in dataset.fields if name.endswith("_length")]
    for sample, clip in each_clip(study, dataset):
        rows = slice(clip["start_frame"], clip["stop_frame"])
        sound = of(study, clip, "loudness", "per_frame")[rows]
        np.testing.assert_array_equal(sample["loudness"], sound[:, 1:])
        np.testing.assert_array_equal(sample["loudness_mask"], ~np.isnan(sound).all(axis=1))
        word, said = (
            of(study, clip, "surprise", "frame_word")[rows],
            of(study, clip, "sentiment", "frame_utterance")[rows],
        )
        values, letters = of(study, clip, "surprise")[word][:, 1:], of(study, clip, "surprise", "letters")[word]
        np.testing.assert_array_equal(sample["surprise"], np.where(word[:, None] >= 0, values, 0))
        np.testing.assert_array_equal(sample["surprise_letters"], np.where(word >= 0, letters, 0))
        known = of(study, clip, "surprise", "known")[word] == 1
        np.testing.assert_array_equal(sample["surprise_mask"], (word >= 0) & known)
        mood = of(study, clip, "sentiment")[said]
        np.testing.assert_array_equal(sample["sentiment"], np.where(said >= 0, mood, 0))
        np.testing.assert_array_equal(sample["sentiment_mask"], (said >= 0) & ~np.isnan(mood))


@pytest.mark.parametrize(
    ("alias", "feature"), [("audio", "opensmile"), ("words", "glove"), ("sentence", "sbert")], ids=str
)
@pytest.mark.parametrize("axis", [None, Axis.FRAME])
def test_a_named_input_is_its_feature_under_another_name(study, alias: str, feature: str, axis: Axis | None) -> None:
    """Also where the rows are found by other means: the clip index's for ``audio``, the feature's times for its own."""
    named = ClipDataset(study.root, [ClipInput(alias, axis=axis)])
    own = ClipDataset(study.root, [ClipInput(feature, axis=axis)])
    assert [name.replace(alias, feature) for name in named.fields] == list(own.fields)
    for one, other in zip(named, own, strict=True):
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name.replace(alias, feature)])


# --- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            ClipInput("brightnes"),
            "there is no input 'brightnes': is 'brightness' meant. there are vision.measured, vision",
        ),
        (ClipInput("brightness", ["contrast"]), "no column or group 'contrast'; there are light, movement"),
        (ClipInput("brightness", ["known"]), "no column or group 'known'"),
        (ClipInput("brightness", []), "columns is empty"),
        (ClipInput("brightness", axis="moment"), "axis of 'brightness' cannot be 'moment', only 'frame'"),
        (ClipInput("body_points", ["values"]), "body_points has no array 'values'; a clip can have near, far, seen"),
        (ClipInput("brightness", ["count", "mean", "count"]), "'count' is chosen twice"),
        (ClipInput("body_points", ["near", "near"]), "'near' is chosen twice"),
        (ClipInput("body_points", []), "columns is empty: name an array"),
        (ClipInput("loudness", axis="moment"), "axis of 'loudness' cannot be 'moment', only 'audio_frame'"),
        (
            ClipInput("sentiment", ["mood"]),
            "the columns of 'sentiment' have no names in the store, so there is no 'mood'",
        ),
    ],
)
def test_an_input_that_cannot_be_is_refused(study, wanted: ClipInput, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClipDataset(study.root, [wanted])


def test_two_inputs_cannot_fill_one_field(study, tmp_path: Path) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=1)).root
    spec = FeatureSpec("openface_mask", "an unlucky name", {"values": array(Axis.FRAME)})
    publish(root, "s00", spec, {"values": np.zeros(FRAMES, np.float32)})
    catalogue.compact(local(root))
    with pytest.raises(ValueError, match="'openface_mask'"):
        ClipDataset(root, ["openface", "openface_mask"])


@pytest.mark.parametrize(
    ("spec", "missing"), [(SOUND, "time"), (WORDS, "start"), (UTTERANCES, "start"), (UTTERANCES, "end")]
)
def test_rows_that_nobody_says_when_they_are_cannot_be_cut(tmp_path: Path, spec: FeatureSpec, missing: str) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=1)).root
    spec = dataclasses.replace(spec, arrays={name: each for name, each in spec.arrays.items() if name != missing})
    values = random_foreign(np.random.default_rng(0))[spec.name]
    publish(root, "s00", spec, {name: values[name] for name in spec.arrays})
    catalogue.compact(local(root))
    with pytest.raises(ValueError, match=naming(f"'{spec.name}'", f"'{missing}'")):
        ClipDataset(root, [spec.name])
    assert len(ClipDataset(root, [ClipInput(spec.name, axis="frame")])[0]) == 3


def changed(spec: FeatureSpec, name: str, **changes: Any) -> FeatureSpec:
    return dataclasses.replace(
        spec, arrays={**spec.arrays, name: dataclasses.replace(spec.arrays[name], **changes)}, groups={}
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            changed(BRIGHTNESS, "values", columns=("mean", "contrast", "motion", "flow")),
            r"the columns of the array 'values' of 'brightness' \('deviation' in s00, 'contrast' in s02\)",
        ),
        (
            changed(BRIGHTNESS, "values", columns=("deviation", "mean", "motion", "flow")),
            r"the columns of the array 'values' of 'brightness' \('mean' in s00, 'deviation' in s02\)",
        ),
        (
            changed(BRIGHTNESS, "values", shape=(2,), columns=("mean", "deviation")),
            r"the shape of the array 'values' of 'brightness' \(frame x 4 column in s00, frame x 2 column in s02\)",
        ),
        (
            changed(BRIGHTNESS, "values", dtype="float16"),
            r"the dtype of the array 'values' of 'brightness' \(float32 in s00, float16 in s02\)",
        ),
        (dataclasses.replace(BRIGHTNESS, mask=""), r"the mask of 'brightness' \(known in s00, none in s02\)"),
        (
            dataclasses.replace(BRIGHTNESS, arrays={n: a for n, a in BRIGHTNESS.arrays.items() if n != "count"}),
            r"the arrays of 'brightness' \(values, known, count, box in s00, values, known, box in s02\)",
        ),
    ],
)
def test_sessions_that_differ_are_told_apart(tmp_path: Path, other: FeatureSpec, message: str) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=3)).root
    values = random_foreign(np.random.default_rng(0))["brightness"]
    for session, spec in (("s00", BRIGHTNESS), ("s01", BRIGHTNESS), ("s02", other)):
        width = spec.arrays["values"].shape[0]
        publish(
            root, session, spec, {name: values[name] for name in spec.arrays} | {"values": values["values"][:, :width]}
        )
    catalogue.compact(local(root))
    with pytest.raises(ValueError, match=f"differ in {message}"):
        ClipDataset(root, ["brightness"])
    assert len(ClipDataset(root, ["brightness"], "session_id != 's02'")) == 48
    assert len(ClipDataset(root, ["brightness"], "session_id == 's02'")) == 24


def test_sessions_with_steps_of_other_lengths_are_told_apart(tmp_path: Path) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=2)).root
    for session, step in (("s00", 0.01), ("s01", 0.02)):
        values = random_foreign(np.random.default_rng(0))["loudness"]
        publish(root, session, SOUND, values | {"time": np.arange(170) * step})
    catalogue.compact(local(root))
    with pytest.raises(ValueError, match=naming("'loudness'", "0.01 s in s00", "0.02 s in s01")):
        ClipDataset(root, ["loudness"])


WINDOWS = FeatureSpec(
    "motion",
    "of each window of the video",
    {"values": array(Axis.WINDOW, 1)} | {name: clock(Axis.WINDOW) for name in ("time", "start", "end")},
)


def windows(start: np.ndarray, length: float) -> dict[str, np.ndarray]:
    values = np.arange(len(start), dtype=np.float32)[:, None]
    return {"values": values, "time": start + length / 2, "start": start, "end": start + length}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (windows(np.arange(3.0), 0.5), r"how long a row of 'motion' is \(0.5 s in s01, 1 s in s00\)"),
        (windows(np.arange(0, 3, 0.5), 1.0), r"how far rows of 'motion' are apart \(0.5 s in s01, 1 s in s00\)"),
    ],
)
def test_sessions_with_other_windows_are_told_apart(tmp_path: Path, other: dict[str, np.ndarray], message: str) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=2)).root
    publish(root, "s00", WINDOWS, windows(np.arange(3.0), 1.0))
    publish(root, "s01", WINDOWS, other)
    catalogue.compact(local(root))
    for asked in (ClipInput("motion"), ClipInput("motion", axis="frame"), ClipInput("motion", rate=4)):
        with pytest.raises(ValueError, match=message):
            ClipDataset(root, [asked])
    assert len(ClipDataset(root, [ClipInput("motion", rate=4)], "session_id == 's01'"))


def test_clips_in_which_no_window_lies_are_refused_unless_they_are_masked(tmp_path: Path) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=1)).root
    publish(root, "s00", WINDOWS, windows(np.array([0.0, 3.0]), 0.9))
    catalogue.compact(local(root))
    with pytest.raises(ValueError, match=r"\d+ of \d+ clips .*s00.*missing='mask'"):
        ClipDataset(root, ["motion"])
    dataset = ClipDataset(root, [ClipInput("motion", missing="mask")])
    lengths = [int(dataset[number]["motion_length"]) for number in range(len(dataset))]
    assert 0 < np.mean(lengths) < 1


@pytest.mark.parametrize(("attributes", "measured"), [({"stride_s": 1.0}, (0.5, 1.5)), ({}, (0.0, 2.0))])
def test_the_only_window_of_a_recording_is_for_as_long_as_one_of_several(
    tmp_path: Path, attributes: dict[str, Any], measured: tuple[float, float]
) -> None:
    """Within half of the stride, which the feature's attributes say, or else where the window lies."""
    root = write_features(tmp_path / "features", StudySpec(sessions=1)).root
    with FeatureWriter(local(root), "s00", WINDOWS) as out:
        for name, rows in windows(np.zeros(1), 2.0).items():
            out.write(name, rows)
        out.attributes |= attributes
        out.publish("f", {})
    catalogue.compact(local(root))
    store = FeatureStore(root)
    shown = store.view("s00", "frames", array="time")
    expected = (shown >= measured[0]) & (shown <= measured[1])
    for asked in (ClipInput("motion", axis="frame"), ClipInput("motion", rate=FPS)):
        dataset = ClipDataset(root, [asked])
        for number, clip in enumerate(dataset.clips.itertuples()):
            mask = dataset[number]["motion_mask"]
            np.testing.assert_array_equal(mask, expected[clip.start_frame : clip.stop_frame])
    on_grid = store.to_pandas("s00", "motion", rate=4)
    assert on_grid[MASK].sum() == 1 + 4 * (measured[1] - measured[0])


def test_a_clip_of_a_camera_that_is_a_per_cent_fast_has_its_own_window(tmp_path: Path) -> None:
    root = tmp_path / "features"
    create_store(root)
    shown = np.arange(600) / 30.2
    publish(root, "s", FEATURES["frames"], {"time": shown})
    publish(root, "s", WINDOWS, windows(np.arange(12.0), 8.0))
    catalogue.compact(local(root))
    spec = WindowSpec(window_s=8, stride_s=1)
    index = windows_of([(PhaseSpan("s", "p", 0, 19), SessionSignals(time=shown))], spec)
    source = ClipSource(FeatureStore(root), index, ["s"], index, window_s=8)
    assert windows_inside(source, "motion", SESSIONS_OWN).windows["s"][:, 1:3].tolist() == [
        [row, row + 1] for row in range(12)
    ]


def test_a_pause_in_a_clip_lets_no_earlier_window_into_it(tmp_path: Path) -> None:
    root = tmp_path / "features"
    create_store(root)
    step = 1 / 15
    shown = np.concatenate([np.arange(75), 900 + np.arange(75)]) * step  # a pause from 5 s to 60 s
    publish(root, "s", FEATURES["frames"], {"time": shown})
    publish(root, "s", WINDOWS, windows(np.arange(0, 64, 0.1), 1.0))
    catalogue.compact(local(root))
    frames = {"start_frame": [0, 60], "stop_frame": [30, 90]}
    index = pd.DataFrame({"session_id": "s", **frames, "start_s": shown[[0, 60]], "stop_s": shown[[30, 90]]})
    finder = windows_inside(ClipSource(FeatureStore(root), index, ["s"], index), "motion", SESSIONS_OWN)
    assert finder.windows["s"][:, :3].tolist() == [[0, 0, 11], [60, 39, 602]]  # not from 2.1 s on


def test_a_session_without_any_sound_has_clips_without_rows(tmp_path: Path) -> None:
    """Whoever finds the rows: the clip index for ``audio``, the feature's times for others."""
    root = write_features(tmp_path / "features", StudySpec(sessions=2)).root
    silent = {"values": np.zeros((0, 2), np.float32), "time": np.zeros(0), "voiced": np.zeros(0, np.int8)}
    publish(root, "s00", SOUND, silent | {"per_frame": np.full((FRAMES, 2), np.nan, np.float32)})
    publish(root, "s01", SOUND, random_foreign(np.random.default_rng(0))["loudness"])
    index = FeatureStore(root).clips()
    index.loc[index["session_id"] == "s00", ["audio_start", "audio_stop"]] = 0
    write_clip_index(index, local(root))
    with FeatureWriter(local(root), "s00", FEATURES["opensmile"]) as out:
        for name, spec in FEATURES["opensmile"].arrays.items():
            out.write(name, np.zeros((FRAMES if spec.axis is Axis.FRAME else 0, *spec.shape), spec.dtype))
        out.publish("f", {})
    catalogue.compact(local(root))
    for name in ("audio", "opensmile", "loudness"):
        dataset = ClipDataset(root, [name], "session_id == 's00'")
        assert dataset.fields[name].shape[0] > 0  # as for the other session
        for sample in dataset:
            assert sample[f"{name}_length"] == 0
            assert not sample[f"{name}_mask"].any()
            assert not sample[name].any()


def test_times_that_do_not_rise_are_told(tmp_path: Path) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=1)).root
    values = random_foreign(np.random.default_rng(0))["loudness"]
    values["time"][7] = 0
    publish(root, "s00", SOUND, values)
    catalogue.compact(local(root))
    with pytest.raises(ValueError, match=naming("s00/loudness/time", "row 7")):
        ClipDataset(root, ["loudness"])
    times = {name: clock(Axis.WINDOW) for name in ("time", "start", "end")}
    scenes = FeatureSpec("scenes", "of no one length", {"values": array(Axis.WINDOW, 2), **times})
    start, end = np.array([0, 0.1, 0.2, 0.9]), np.array([0.5, 3.0, 0.6, 3.5])  # the third lies in the second
    rows = {"values": np.zeros((4, 2), np.float32), "time": (start + end) / 2, "start": start, "end": end}
    publish(root, "s00", scenes, rows)
    catalogue.compact(local(root))
    with pytest.raises(ValueError, match=naming("s00/scenes", "row 2")):
        ClipDataset(root, ["scenes"])


# --- the store -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [*FOREIGN, *FEATURES.values()], ids=lambda spec: spec.name)
def test_the_store_says_what_a_feature_is(study, spec: FeatureSpec) -> None:
    kept = {name: each for name, each in spec.arrays.items() if not each.optional}
    found = FeatureStore(study.root).spec("s00", spec.name)
    assert list(found.arrays) == list(kept)
    assert found == dataclasses.replace(spec, arrays=kept)


def test_a_store_of_before_it_said_so_has_what_the_built_in_ones_have(tmp_path: Path) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=2)).root
    publish(root, "s00", BRIGHTNESS, random_foreign(np.random.default_rng(0))["brightness"])
    catalogue.compact(local(root))
    for path in root.glob("s00/*/*/zarr.json"):
        group = json.loads(path.read_bytes())
        for name in ("mask", "groups"):
            group["attributes"].pop(name, None)
        path.write_text(json.dumps(group))
    store = FeatureStore(root)
    for name in ("openface", "dope", "glove"):
        assert (store.spec("s00", name).mask, store.spec("s00", name).groups) == (
            FEATURES[name].mask,
            FEATURES[name].groups,
        )
        assert store.spec("s00", name) is store.spec("s01", name)
    assert (store.spec("s00", "brightness").mask, store.spec("s00", "brightness").groups) == ("", {})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "cannot be opened: was its version removed by gc"),
        (lambda path: path.write_text("{"), "is damaged: run 'storyframes verify'"),
        (lambda path: path.write_text("[]"), "has no valid description"),
        (lambda path: path.write_text('{"attributes": {"groups": 7}}'), "has no valid description"),
        (
            lambda path: path.write_text('{"attributes": {"mask": "nothing"}}'),
            "the mask 'nothing' is none of its arrays",
        ),
        (lambda path: path.write_text('{"attributes": {"groups": {"../x": [0, 1]}}}'), "a group's name cannot be"),
    ],
)
def test_a_description_that_is_damaged_is_an_error_of_the_store(tmp_path: Path, damage, message: str) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=1)).root
    publish(root, "s00", BRIGHTNESS, random_foreign(np.random.default_rng(0))["brightness"])
    catalogue.compact(local(root))
    (path,) = root.glob("s00/brightness/*/zarr.json")
    damage(path)
    with pytest.raises(StoreError, match=message):
        ClipDataset(root, ["brightness"])
