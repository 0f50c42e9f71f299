from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clip_indexes import ORACLE, Clips, oracles_clips
from support.messages import naming

from storyframes.clips.oversampling import OversamplingSampler
from storyframes.clips.samplers import ClipSampler, SequentialSampler, SessionBlockSampler, UniformSampler


def clips(sizes: list[int], split: str = "train", seed: int = 0, labels: int = 1) -> Clips:
    """Sessions of so many clips, rated 1 to 5, most of them 5; every window has so many clips."""
    ratings = np.random.default_rng(seed).choice([1, 2, 3, 4, 5], size=sum(sizes), p=[0.05, 0.1, 0.15, 0.2, 0.5])
    session = np.repeat([f"s{number}" for number in range(len(sizes))], sizes)
    start = 15 * (np.concatenate([np.arange(size) for size in sizes]) // labels)
    return Clips(pd.DataFrame({"session_id": session, "start_frame": start, "empathy": ratings, "split": split}))


ALL_SPLITS = Clips(pd.concat([clips([n], s, n).clips for s, n in (("train", 140), ("val", 40), ("test", 20))]))
SAMPLERS = {
    "sequential": lambda **options: SequentialSampler(clips([50, 7, 30]), **options),
    "uniform": lambda **options: UniformSampler(clips([50, 7, 30]), **options),
    "blocks": lambda **options: SessionBlockSampler(clips([50, 7, 30]), block=8, blocks=3, **options),
    "oversampling": lambda **options: OversamplingSampler(clips([50, 7, 30]), **options),
}
every_sampler = pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
every_random_sampler = pytest.mark.parametrize("make", list(SAMPLERS.values())[1:], ids=list(SAMPLERS)[1:])


def epoch(sampler: ClipSampler, number: int) -> list[int]:
    sampler.set_epoch(number)
    return list(sampler)


# --- every sampler ---------------------------------------------------------------------------------------------------


@every_random_sampler
def test_the_order_follows_from_seed_and_epoch(make) -> None:
    assert epoch(make(seed=1), 3) == epoch(make(seed=1), 3)
    assert epoch(make(seed=1), 3) != epoch(make(seed=1), 4)
    assert epoch(make(seed=1), 3) != epoch(make(seed=2), 3)


@every_sampler
@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_ranks_share_the_order_and_leave_out_less_than_one_clip_each(make, world_size: int) -> None:
    alone = epoch(make(), 1)
    parts = [epoch(make(rank=rank, world_size=world_size), 1) for rank in range(world_size)]
    assert {len(part) for part in parts} == {len(make(world_size=world_size))} == {len(alone) // world_size}
    together = [index for part in parts for index in part]
    assert together == alone[: len(together)]
    assert len(alone) - len(together) < world_size


@every_sampler
@pytest.mark.parametrize("consumed", [0, 1, 20])
def test_it_goes_on_at_exactly_the_next_sample(make, consumed: int) -> None:
    sampler = make(seed=5, rank=1, world_size=2)
    sampler.set_epoch(2)
    order = iter(sampler)
    seen = [next(order) for _ in range(consumed)]
    state = sampler.state_dict()
    left = list(order)
    resumed = make(seed=5, rank=1, world_size=2)
    resumed.load_state_dict(state)
    resumed.set_epoch(2)  # what a training loop does at the head of every epoch
    assert list(resumed) == left
    assert seen + left == epoch(make(seed=5, rank=1, world_size=2), 2)
    assert list(resumed) == seen + left  # only the resumed iteration begins in the middle
    assert epoch(resumed, 3) == epoch(make(seed=5, rank=1, world_size=2), 3)


@every_sampler
def test_an_epoch_that_was_read_to_its_end_has_nothing_left(make) -> None:
    sampler = make()
    list(sampler)
    resumed = make()
    resumed.load_state_dict(sampler.state_dict())
    assert list(resumed) == []


@every_sampler
def test_looking_at_a_sample_does_not_move_the_epoch(make) -> None:
    sampler = make()
    first = next(iter(sampler))
    assert next(iter(sampler)) == first


def test_what_was_read_ahead_is_not_consumed() -> None:
    sampler = UniformSampler(clips([40]))
    order = list(sampler)
    resumed = UniformSampler(clips([40]))
    resumed.load_state_dict(sampler.state_dict(consumed=30))
    assert list(resumed) == order[30:]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (UniformSampler(clips([40]), seed=1), "seed=0, this sampler has seed=1"),
        (UniformSampler(clips([41])), "total=40, this sampler has total=41"),
        (UniformSampler(clips([40]), world_size=2), "world_size=1, this sampler has world_size=2"),
        (SessionBlockSampler(clips([40])), "sampler='UniformSampler', this sampler has sampler='SessionBlockSampler'"),
    ],
)
def test_the_state_of_another_order_is_refused(other: ClipSampler, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        other.load_state_dict(UniformSampler(clips([40])).state_dict())


def test_other_blocks_are_another_order() -> None:
    state = SessionBlockSampler(clips([40]), block=8, blocks=2).state_dict()
    with pytest.raises(ValueError, match="block=8, this sampler has block=9"):
        SessionBlockSampler(clips([40]), block=9, blocks=2).load_state_dict(state)


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_that_cannot_be_is_refused(rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match=naming(f"rank={rank}", f"world_size={world_size}")):
        UniformSampler(clips([10]), rank=rank, world_size=world_size)


# --- blocks ----------------------------------------------------------------------------------------------------------


def places_in_order(sampler: ClipSampler) -> np.ndarray:
    """When each clip comes."""
    return np.argsort(list(sampler))


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    block=st.integers(1, 50),
    blocks=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_neighbours_come_soon_after_one_another(sizes, block: int, blocks: int, seed: int) -> None:
    dataset = clips(sizes)
    sampler = SessionBlockSampler(dataset, block=block, blocks=blocks, seed=seed)
    assert sorted(sampler) == list(range(len(dataset)))
    session = dataset.clips["session_id"].to_numpy()
    apart = np.abs(np.diff(places_in_order(sampler)))[session[1:] == session[:-1]]
    assert (apart >= block * blocks).sum() <= sum(-(-(size - 1) // block) for size in sizes)  # where blocks meet


def test_blocks_begin_elsewhere_in_every_epoch() -> None:
    sampler = SessionBlockSampler(clips([800]), block=8, blocks=1)
    offsets = set()
    for number in range(20):
        sampler.set_epoch(number)
        cuts = np.flatnonzero(np.abs(np.diff(places_in_order(sampler))) >= 8) + 1
        assert len(cuts) > 50
        (offset,) = set(cuts % 8)
        offsets.add(offset)
    assert len(offsets) > 4


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    labels=st.integers(1, 5),
    block=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_the_clips_of_a_window_follow_one_another(sizes, labels: int, block: int, seed: int) -> None:
    dataset = clips(sizes, labels=labels)
    order = list(SessionBlockSampler(dataset, block=block, blocks=2, seed=seed))
    assert sorted(order) == list(range(len(dataset)))
    window = dataset.clips.groupby(["session_id", "start_frame"]).ngroup().to_numpy()[order]
    assert np.count_nonzero(np.diff(window)) + 1 == len(set(window))  # each is one run
    alone = list(SessionBlockSampler(clips([-(-size // labels) for size in sizes]), block=block, blocks=2, seed=seed))
    assert window[np.append(True, np.diff(window) != 0)].tolist() == alone  # as if each window had one clip


def test_a_state_that_counted_clips_is_refused() -> None:
    sampler = SessionBlockSampler(clips([40], labels=2))
    state = {name: value for name, value in sampler.state_dict().items() if name != "of"}
    with pytest.raises(ValueError, match="of=None, this sampler has of='windows'"):
        sampler.load_state_dict(state)


def test_the_blocks_of_a_turn_are_permuted_together() -> None:
    order = list(SessionBlockSampler(clips([64, 64]), block=16, blocks=100))
    session = np.array(order) // 64
    assert 40 < (np.diff(session) != 0).sum() < 90  # half of the neighbours in the order, as in any permutation


@pytest.mark.parametrize("options", [{"block": 0}, {"blocks": 0}])
def test_no_blocks_are_refused(options) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SessionBlockSampler(clips([10]), **options)


# --- oversampling ----------------------------------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_every_rating_comes_equally_often_and_every_clip_at_least_once(sizes, seed: int) -> None:
    dataset = clips(sizes, seed=seed)
    ratings = dataset.clips["empathy"].to_numpy()
    order = np.array(list(OversamplingSampler(dataset, seed=seed)))
    _, counts = np.unique(ratings[order], return_counts=True)
    assert len(set(counts)) == 1
    assert set(order) == set(range(len(dataset)))
    times = np.bincount(order)
    for rating in set(ratings):  # none is favoured
        assert np.ptp(times[ratings == rating]) <= 1
    assert times[ratings == pd.Series(ratings).mode()[0]].max() == 1


@pytest.mark.parametrize("split", ["val", "test"])
def test_only_training_clips_are_oversampled(split: str) -> None:
    with pytest.raises(ValueError, match=naming(f"clips of {split}", "training")):
        OversamplingSampler(clips([20], split))
    with pytest.raises(ValueError, match="test and val"):
        OversamplingSampler(ALL_SPLITS)


def test_oversampling_the_training_clips_has_the_oracles_counts() -> None:
    study, expected = oracles_clips(), ORACLE["leak_free"]
    train = Clips(study.clips[study.clips["split"] == "train"].reset_index(drop=True))
    ratings = train.clips["empathy"].to_numpy()[list(OversamplingSampler(train, seed=4))]
    assert np.bincount(ratings)[1:].tolist() == list(expected["train_per_rating"].values())
    assert len(ratings) == expected["train_total"]
