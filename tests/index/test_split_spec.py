"""Splits that are drawn when a dataset is opened."""

from __future__ import annotations

import pickle

import pytest
from support.synthetic_features import StudySpec, SyntheticStudy, write_features

from storyframes import ClipDataset, OversamplingSampler, SplitSpec
from storyframes.clips.clip_index import assign_splits, components
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES

SPLITS = ("train", "val", "test")
WITHOUT = [name for name in FEATURES if name != "frames"]  # labels need none
OTHER = SplitSpec(seed=5, shares=(0.4, 0.3, 0.3))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(
        tmp_path_factory.mktemp("study") / "features",
        StudySpec(sessions=12, lacking={f"s{number:02d}": WITHOUT for number in range(12)}),
    )


def drawn(study: SyntheticStudy, spec: SplitSpec) -> dict[str, str]:
    """Each participant's split by the rule of the clip index."""
    of_index = WindowSpec(split_seed=spec.seed, split_shares=spec.shares)
    return assign_splits(study.clips["participant_id"].tolist(), of_index)


def test_the_seed_and_shares_of_the_index_give_its_own_splits(study) -> None:
    again = ClipDataset(study.root, ["label"], split=SplitSpec())
    assert again.clips.equals(ClipDataset(study.root, ["label"]).clips)


@pytest.mark.parametrize("spec", [OTHER, SplitSpec(9), SplitSpec(5, (0.0, 0.0, 1.0))], ids=repr)
def test_splits_are_drawn_anew_by_participant(study, spec: SplitSpec) -> None:
    dataset = ClipDataset(study.root, ["label"], split=spec)
    expected = study.clips["participant_id"].map(drawn(study, spec))
    assert dataset.clips["split"].tolist() == expected.tolist()
    indexed = ClipDataset(study.root, ["label"]).clips
    assert dataset.clips.drop(columns="split").equals(indexed.drop(columns="split"))
    assert expected.tolist() != study.clips["split"].tolist()


def test_filters_choose_by_the_new_splits_and_do_not_change_them(study) -> None:
    participants = drawn(study, OTHER)
    for where in ("split == '{}'", "empathy >= 3 and split == '{}'", "split == '{}' and phase == 'reflection'"):
        for split in SPLITS:
            clips = ClipDataset(study.root, ["label"], where.format(split), split=OTHER).clips
            assert set(clips["participant_id"]) <= {who for who, where in participants.items() if where == split}
            assert set(clips["split"]) == {split}


def test_oversampling_takes_the_training_clips_of_the_new_splits(study) -> None:
    train = ClipDataset(study.root, ["label"], "split == 'train'", split=OTHER)
    assert set(OversamplingSampler(train)) == set(range(len(train)))
    indexed = ClipDataset(study.root, ["label"], study_filter(study), split=OTHER)  # the index's own training clips
    with pytest.raises(ValueError, match="only training clips are oversampled"):
        OversamplingSampler(indexed)


def study_filter(study: SyntheticStudy) -> str:
    sessions = study.clips.loc[study.clips["split"] == "train", "session_id"].unique().tolist()
    return f"session_id in {sessions}"


def test_a_pickled_dataset_has_its_splits(study) -> None:
    dataset = ClipDataset(study.root, ["label"], "split == 'val'", split=OTHER)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.split_spec == OTHER
    assert again.clips.equals(dataset.clips)
    assert again[0]["label"] == dataset[0]["label"]


def test_splits_that_cannot_be_are_refused(study) -> None:
    with pytest.raises(ValueError, match="three shares"):
        SplitSpec(shares=(0.5, 0.5))
    with pytest.raises(TypeError, match="split='train' is no SplitSpec"):
        ClipDataset(study.root, ["label"], split="train")
    assert SplitSpec(1, [0.5, 0.25, 0.25]) == SplitSpec(1, (0.5, 0.25, 0.25))
    with pytest.raises(ValueError, match="no clip is left"):
        ClipDataset(study.root, ["label"], "split == 'val'", split=SplitSpec(shares=(1, 0, 0)))


@pytest.mark.parametrize("last", [("b", "d"), ("d", "b"), ("c", "a")])
def test_people_who_met_through_others_are_one_group(last: tuple[str, str]) -> None:
    assert components("abcdef", [("a", "b"), ("c", "d"), last, ("f",)]) == [["a", "b", "c", "d"], ["e"], ["f"]]
