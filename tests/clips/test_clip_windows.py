"""A window that several clips are of: told by the dataset, and read once a batch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.synthetic_features import StudySpec, SyntheticStudy, write_features

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.clips.named_inputs import INPUTS
from storyframes.features import Axis

PER_FRAME = [ClipInput(name, axis=Axis.FRAME) for name in ("opensmile", "glove", "sbert")]
ALL = [*INPUTS, "openface", "resnet50", "dope", *PER_FRAME]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("study") / "features", StudySpec(sessions=4))


@pytest.fixture(scope="module")
def dataset(study) -> ClipDataset:
    return ClipDataset(study.root, ALL)


@pytest.mark.parametrize("where", [None, "empathy > 2 and session_id != 's01'"])
def test_windows_are_the_distinct_ones_with_all_their_clips(study, where: str | None) -> None:
    dataset = ClipDataset(study.root, ["label"], where)
    windows = dataset.windows()
    expected: dict[tuple[str, int], list[int]] = {}
    for place, clip in dataset.clips.iterrows():
        expected.setdefault((clip["session_id"], clip["start_frame"]), []).append(place)
    assert [*zip(windows["session_id"], windows["start_frame"], strict=True)] == list(expected)
    assert [clips.tolist() for clips in windows["clips"]] == list(expected.values())
    for window in windows.itertuples():
        for place in window.clips:
            clip = dataset.clips.loc[place]
            for column in ("stop_frame", "start_s", "stop_s"):
                assert clip[column] == getattr(window, column)
    if where is None:
        assert len(dataset) == 3 * len(windows)


@settings(max_examples=40, deadline=None)
@given(indices=st.lists(st.integers(0, 95), max_size=12))
def test_a_batch_is_bit_for_bit_its_clips_read_alone(dataset: ClipDataset, indices: list[int]) -> None:
    batch = dataset.read(indices)
    for place, index in enumerate(indices):
        for name, values in dataset.read([index]).items():
            assert batch[name][place].tobytes() == values[0].tobytes(), name


def test_the_clips_of_a_window_have_each_their_own_label_and_story(dataset: ClipDataset) -> None:
    for clips in dataset.windows()["clips"]:
        batch, rows = dataset.read(clips), dataset.clips.iloc[clips]
        assert batch["label"].tolist() == rows["empathy"].tolist()
        assert batch["index"].tolist() == clips.tolist()
        assert len(np.unique(batch["story"], axis=0)) == rows["story_id"].nunique() > 1


def test_a_windows_rows_are_read_once_a_batch(study, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ClipDataset(study.root, ["resnet50", "dope", "label"])
    read: Counter[tuple[str, str, int]] = Counter()
    view = FeatureStore.view

    def counted(store, session_id, feature, start=0, stop=None, *, array="values"):
        if array in ("values", "body_2d"):
            read[session_id, feature, start] += 1
        return view(store, session_id, feature, start, stop, array=array)

    monkeypatch.setattr(FeatureStore, "view", counted)
    alone = ClipDataset(study.root, ["resnet50"])
    alone.read([0])
    once = read.pop(("s00", "resnet50", int(alone.clips["start_frame"][0])))
    read.clear()
    order = np.random.default_rng(1).permutation(len(dataset))
    dataset.read(order)
    windows = dataset.windows()
    of_values = {key: count for key, count in read.items() if key[1] == "resnet50"}
    assert len(of_values) == len(windows)
    assert set(of_values.values()) == {once}
