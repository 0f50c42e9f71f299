"""Rows of frames and sound over the times of words, compared with a loop of CMU-MultimodalSDK's definition."""

from __future__ import annotations

import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from support.messages import naming
from support.stores import local, publish_arrays
from support.synthetic_features import FPS, StudySpec, SyntheticStudy, write_features
from support.track_features import SPEAKERS, WINDOWS, seconds_of_the_session, study_of, write_tracks

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.pooling import pool, rows_during
from storyframes.times import ticks
from tasks.clip_index.index import build_clip_index, write_clip_index

EPSILON = 10e-6  # the SDK's


def intersecting(words: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    """Of each word, the rows that ``mmdataset.align`` takes: those that share more than epsilon with it."""
    taken = []
    for start, end in words:
        shared = np.minimum(rows[:, 1], end) - np.maximum(rows[:, 0], start)
        taken.append(np.flatnonzero(shared > EPSILON))
    return taken


def collapsed(values: np.ndarray, mask: np.ndarray, taken: list[np.ndarray], function: str) -> np.ndarray:
    """The SDK's collapse function of the rows that are measurements, column by column where one has a value."""
    result = np.full((len(taken), values.shape[1]), np.nan)
    for place, rows in enumerate(taken):
        chosen = values[rows[mask[rows]]].astype(np.float64)
        for column in range(values.shape[1]):
            those = chosen[:, column][~np.isnan(chosen[:, column])]
            if len(those):
                result[place, column] = getattr(np, function)(those)
    return result


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("study") / "features", StudySpec(sessions=3))


def of_clip(study: SyntheticStudy, number: int, feature: str, array: str = "values") -> np.ndarray:
    return study.arrays[study.clips["session_id"].iloc[number], feature, array]


def words_of(study: SyntheticStudy, number: int) -> np.ndarray:
    """(n,) the words that start in a clip, by their starts."""
    clip, start = study.clips.iloc[number], ticks(of_clip(study, number, "glove", "start"))
    rows = np.flatnonzero((start >= ticks(clip["start_s"])) & (start < ticks(clip["stop_s"])))
    return rows[np.argsort(start[rows], kind="stable")]


@pytest.mark.parametrize("feature", ["openface", "opensmile"])
def test_values_of_a_word_are_the_sdk_s_of_its_rows(study: SyntheticStudy, feature: str) -> None:
    names = ("mean", "std", "max")
    dataset = ClipDataset(study.root, [ClipInput("words"), ClipInput(feature, axis="word", functionals=names)])
    width = len(FeatureStore(study.root).columns("s00", feature))
    counted = 0
    for number in range(0, len(dataset), 7):
        clip, rows = dataset[number], words_of(study, number)
        count = int(clip[f"{feature}_length"])
        assert count == clip["words_length"] == len(rows)
        words = np.stack([of_clip(study, number, "glove", name)[rows] for name in ("start", "end")], 1)
        values = of_clip(study, number, feature)
        if feature == "openface":
            begins, mask = np.arange(len(values)) / FPS, of_clip(study, number, feature, "valid") == 1
            step = 1 / FPS
        else:
            begins, mask, step = of_clip(study, number, feature, "time"), np.ones(len(values), bool), 0.01
        taken = intersecting(words, np.stack([begins, begins + step], 1))
        has_rows = np.array([mask[those].any() for those in taken], bool)
        np.testing.assert_array_equal(clip[f"{feature}_mask"][:count], has_rows)
        for place, name in enumerate(names):
            got = clip[feature][:count, place * width : (place + 1) * width]
            np.testing.assert_allclose(got, collapsed(values, mask, taken, name), rtol=1e-6, atol=1e-6)
        assert not clip[feature][count:].any()
        assert not clip[f"{feature}_mask"][count:].any()
        counted += count
    assert counted > 20
    columns = dataset.fields[feature].columns
    assert columns[width - 1].endswith(".mean")
    assert columns[width].endswith(".std")


def test_means_keep_the_names_and_the_chosen_columns(study: SyntheticStudy) -> None:
    asked = ["AU12_r", "gaze_0_x"]
    whole = ClipDataset(study.root, [ClipInput("openface", axis="word")])
    chosen = ClipDataset(study.root, [ClipInput("openface", asked, axis="word")])
    assert chosen.fields["openface"].columns == tuple(asked)
    places = [whole.fields["openface"].columns.index(name) for name in asked]
    batch, expected = pickle.loads(pickle.dumps(chosen)).read(range(9)), whole.read(range(9))
    np.testing.assert_array_equal(batch["openface"], expected["openface"][..., places])
    np.testing.assert_array_equal(batch["openface_mask"], expected["openface_mask"])


def test_a_half_float_is_averaged_in_double_precision(study: SyntheticStudy) -> None:
    dataset = ClipDataset(study.root, [ClipInput("resnet50", axis="utterance")])
    assert dataset.fields["resnet50"].dtype == np.float32
    clip, session = dataset[5], study.clips["session_id"].iloc[5]
    start, end = (study.arrays[session, "sbert", name] for name in ("start", "end"))
    first, stop = study.clips.iloc[5][["start_s", "stop_s"]]
    rows = np.flatnonzero((ticks(end) > ticks(first)) & (ticks(start) < ticks(stop)))
    rows = rows[np.argsort(start[rows], kind="stable")]
    values = study.arrays[session, "resnet50", "values"]
    begins = np.arange(len(values)) / FPS
    taken = intersecting(np.stack([start[rows], end[rows]], 1), np.stack([begins, begins + 1 / FPS], 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an utterance without frames
        expected = np.stack([values[those].astype(np.float64).mean(axis=0) for those in taken])
    assert clip["resnet50_length"] == len(rows) > 0
    np.testing.assert_allclose(clip["resnet50"][: len(rows)], expected, rtol=1e-6)


@pytest.fixture(scope="module")
def tracks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, str, str], np.ndarray]]:
    root = tmp_path_factory.mktemp("tracks") / "features"
    arrays = write_tracks(root, ("s15",))
    index = build_clip_index(study_of(sessions=("s15",)), WINDOWS, FeatureStore(root)).clips
    write_clip_index(index, local(root))
    return root, arrays


def test_words_of_a_microphone_and_frames_of_a_camera_meet_by_their_clocks(tracks) -> None:
    root, arrays = tracks
    asked = ClipInput("openface", ["AU12_r"], axis="word", aligned_to="glove@lapel", speakers=["participant"])
    dataset = ClipDataset(root, [asked, ClipInput("words@lapel", speakers=["participant"])])
    own = [arrays["s15", "glove@lapel", name] for name in ("start", "end")]
    words = seconds_of_the_session(np.stack(own, 1))
    values, valid = (arrays["s15", "openface", name] for name in ("values", "valid"))
    values = values[:, FeatureStore(root).columns("s15", "openface").index("AU12_r")][:, None]
    begins = np.arange(len(values)) / 15
    taken = intersecting(words, np.stack([begins, begins + 1 / 15], 1))
    means = collapsed(values, valid == 1, taken, "mean")
    is_theirs = arrays["s15", "glove@lapel", "speaker"] == SPEAKERS.index("participant")
    counted = 0
    for number in range(len(dataset)):
        clip, row = dataset[number], dataset.clips.iloc[number]
        inside = (words[:, 0] >= row["start_s"]) & (words[:, 0] < row["stop_s"]) & is_theirs
        count = int(clip["openface_length"])
        assert count == inside.sum() == clip["words@lapel_length"]
        np.testing.assert_allclose(clip["openface"][:count], means[inside], rtol=1e-6)
        counted += count
    assert counted > 10


def test_a_lost_stretch_of_frames_lends_no_value_to_the_words_in_it() -> None:
    time = ticks([0.0, 0.1, 0.2, 5.0, 5.1])
    words = np.array([[0.05, 0.15], [0.2, 0.4], [2.0, 3.0], [4.9, 5.05], [5.15, 9.0], [0.1, 0.1]])
    spans = rows_during(time, ticks(words[:, 0]), ticks(words[:, 1]), "s/f")
    assert [list(range(*span)) for span in spans] == [[0, 1], [2], [], [3], [4], []]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"axis": "word", "rate": 10}, "its rows are pooled over words: leave out rate="),
        ({"axis": "word", "functionals": ("median",)}, "functionals=.* 'median': there are mean, std, max"),
        ({"axis": "word", "functionals": "mean"}, "is one string"),
        ({"functionals": ("std",)}, "only with axis='word' or 'utterance'"),
        ({"aligned_to": "glove"}, "only with axis='word' or 'utterance'"),
        ({"axis": "word", "aligned_to": "resnet50"}, "'resnet50' has no row for each word"),
        ({"axis": "word", "aligned_to": "subtitles"}, "no session has the feature 'subtitles'"),
        ({"axis": "word", "columns": ["AU99_r"]}, "no column or group 'AU99_r'"),
    ],
)
def test_what_cannot_be_pooled_is_refused(study: SyntheticStudy, options: dict, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        ClipDataset(study.root, [ClipInput("openface", **options)])


@pytest.mark.parametrize("options", [{"functionals": ["std"]}, {"aligned_to": "glove"}])
def test_words_have_rows_of_their_own_that_nothing_is_computed_of(study: SyntheticStudy, options: dict) -> None:
    with pytest.raises(ValueError, match=naming("'words'", "not pooled")):
        ClipDataset(study.root, [ClipInput("words", axis="word", **options)])


def test_a_feature_of_no_session_is_lacking_when_it_is_pooled_too(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=1, lacking={"s00": ("opensmile",)}))
    with pytest.raises(ValueError, match=naming("'audio'", "s00")):
        ClipDataset(study.root, [ClipInput("audio", axis="word")])


def test_a_session_without_words_lacks_the_input(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=3, lacking={"s01": ("glove",)}))
    with pytest.raises(ValueError, match=naming("'openface'", "s01")):
        ClipDataset(study.root, [ClipInput("openface", axis="word")])
    dataset = ClipDataset(study.root, [ClipInput("openface", axis="word", missing="mask")])
    without = np.flatnonzero(dataset.clips["session_id"] == "s01")[0]
    clip = dataset[int(without)]
    assert clip["openface_length"] == 0
    assert not clip["openface_mask"].any()


def test_the_last_row_lasts_as_long_as_a_row_usually_does() -> None:
    time = np.array([0, 1_000_000, 2_000_000])
    start = np.array([2_600_000, 2_999_980, 2_999_995, 3_200_000])
    spans = rows_during(time, start, start + 100_000, "a feature")
    assert spans.tolist() == [[2, 3], [2, 3], [3, 3], [3, 3]]


def test_a_row_before_lost_ones_lasts_one_and_a_half_steps() -> None:
    time = np.array([0, 1_000_000, 2_000_000, 6_000_000, 7_000_000])
    start = np.array([2_900_000, 3_499_000, 3_500_980, 3_501_000, 5_000_000])
    spans = rows_during(time, start, start + 100_000, "a feature")
    assert spans.tolist() == [[2, 3], [2, 3], [2, 3], [3, 3], [3, 3]]


def test_a_word_without_a_measured_row_is_masked(study: SyntheticStudy, tmp_path: Path) -> None:
    root = tmp_path / "features"
    shutil.copytree(study.root, root)
    arrays = {name: study.arrays["s00", "openface", name] for name in ("values", "valid", "confidence")}
    frames = len(arrays["valid"])
    arrays["valid"] = (np.arange(frames) % 64 < 32).astype(np.uint8)
    publish_arrays(root, "s00", "openface", arrays)
    dataset = ClipDataset(root, [ClipInput("openface", axis="word")], 'session_id == "s00"')
    masks = []
    for clip, span in zip(dataset.read(range(len(dataset)))["openface_mask"], dataset.clips.itertuples(), strict=True):
        start, end = (ticks(study.arrays["s00", "glove", name]) for name in ("start", "end"))
        rows = np.flatnonzero((start >= ticks(span.start_s)) & (start < ticks(span.stop_s)))
        words = np.stack([start, end], 1)[rows[np.argsort(start[rows], kind="stable")]] / 1e6
        taken = intersecting(words, np.stack([np.arange(frames), np.arange(frames) + 1], 1) / FPS)
        masks.append([bool(arrays["valid"][those].any()) for those in taken])
        assert clip[: len(rows)].tolist() == masks[-1]
    assert {value for mask in masks for value in mask} == {True, False}


def test_rows_that_are_no_measurement_count_nowhere() -> None:
    rows, measured = np.array([[1.0], [3.0], [100.0], [5.0]]), np.array([True, True, False, True])
    pooled = pool(rows, measured, np.array([[0, 3], [2, 3], [3, 4], [1, 1]]), ("mean", "std", "max"))
    nothing = [np.nan] * 3
    np.testing.assert_array_equal(pooled, [[2, 1, 3], nothing, [5, 0, 5], nothing])
