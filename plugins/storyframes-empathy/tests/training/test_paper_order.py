"""The paper's order of oversampling, beside counts that were computed from its definition."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support.clip_indexes import ORACLE, Clips, oracles_clips
from support.messages import naming

from storyframes import SplitSpec
from storyframes.clips import SPLITS
from storyframes_empathy.training.paper_order import PaperOrderOversamplingSampler


def test_the_papers_order_has_the_copies_that_the_oracle_counts() -> None:
    study, expected = oracles_clips(), ORACLE["paper_order"]
    rating = study.clips["empathy"].to_numpy()
    for seed in range(20):
        parts = {name: list(PaperOrderOversamplingSampler(study, name, seed=seed)) for name in SPLITS}
        for name, part in parts.items():
            assert set(study.clips["split"].iloc[part]) == {name}  # no copy of a clip is in two splits
        copies = np.bincount([place for part in parts.values() for place in part], minlength=len(study))
        assert copies.sum() == expected["total"]
        for number in range(1, 6):
            of_rating, least = copies[rating == number], expected["copies_at_least"][str(number)]
            assert set(of_rating) <= {least, least + 1}
            assert (of_rating == least + 1).sum() == expected["once_more"][str(number)]


def test_the_papers_order_gives_each_split_what_it_can_expect() -> None:
    study, expected = oracles_clips(), ORACLE["paper_order"]
    rating = study.clips["empathy"].to_numpy()
    test = [list(PaperOrderOversamplingSampler(study, "test", seed=seed)) for seed in range(400)]
    assert np.mean([len(part) for part in test]) == pytest.approx(expected["expected_rows"]["test"], abs=0.15)
    prevalence = np.mean(rating[np.concatenate(test)] > 3)
    assert prevalence == pytest.approx(expected["expected_test_prevalence_above_3"], abs=0.01)
    once_each = rating[study.clips["split"].to_numpy() == "test"]
    assert np.mean(once_each > 3) == ORACLE["raw_test_prevalence_above_3"]  # what is measured on clips counted once


def test_all_splits_are_needed() -> None:
    study = oracles_clips()
    with pytest.raises(ValueError, match="test and val"):
        PaperOrderOversamplingSampler(Clips(study.clips[study.clips["split"] == "train"]), "train")
    with pytest.raises(ValueError, match=naming("'dev'", "train, val, test")):
        PaperOrderOversamplingSampler(study, "dev")


def test_it_continues_at_the_next_clip_but_not_with_other_splits() -> None:
    study = oracles_clips()
    sampler = PaperOrderOversamplingSampler(study, "train", seed=5, rank=1, world_size=2)
    order = list(sampler)
    state = sampler.state_dict(consumed=3)
    resumed = PaperOrderOversamplingSampler(study, "train", seed=5, rank=1, world_size=2)
    resumed.load_state_dict(state)
    assert list(resumed) == order[3:]
    redrawn = Clips(SplitSpec(7, (0.4, 0.3, 0.3)).applied(study.clips))
    other = PaperOrderOversamplingSampler(redrawn, "train", seed=5, rank=1, world_size=2)
    with pytest.raises(ValueError, match="another order"):
        other.load_state_dict({**state, "total": other.total})


def test_the_copies_of_one_split_leave_nothing_to_remember_of_another() -> None:
    """Participants whose columns identify them are rated at random, so only a leak lets neighbours predict ratings."""
    generator = np.random.default_rng(0)
    person = np.repeat(np.arange(400), 5)
    ratings = generator.integers(1, 6, 400)[person]
    clips = pd.DataFrame({"participant_id": [f"p{one}" for one in person], "empathy": ratings, "split": "train"})
    study = Clips(SplitSpec(0, (0.5, 0.25, 0.25)).applied(clips))
    columns = generator.normal(size=(400, 5))[person] + 0.01 * generator.normal(size=(2000, 5))

    def of_nearest(train: np.ndarray, test: np.ndarray) -> float:
        distances = ((columns[test][:, None] - columns[train][None]) ** 2).sum(axis=2)
        return float(np.corrcoef(ratings[train[distances.argmin(axis=1)]], ratings[test])[0, 1])

    train, test = (np.unique(list(PaperOrderOversamplingSampler(study, name, seed=1))) for name in ("train", "test"))
    assert abs(of_nearest(train, test)) < 0.3
    shuffled = generator.permutation(2000)  # clips of one participant in both
    assert of_nearest(shuffled[:1000], shuffled[1000:]) > 0.9
