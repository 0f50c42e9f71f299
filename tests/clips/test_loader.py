from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from support.messages import naming
from support.stores import local
from support.synthetic_features import StudySpec, SyntheticStudy, publish, write_features

from storyframes.clips.batch_buffers import BatchBuffers
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput, Field
from storyframes.clips.loader import ClipLoader
from storyframes.clips.named_inputs import INPUTS
from storyframes.clips.samplers import UniformSampler
from storyframes.features import Axis
from storyframes.store import catalogue
from storyframes.store.layout import StoreError

EVERYTHING = [*INPUTS, "openface", "resnet50", "dope"]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("study") / "features", StudySpec(sessions=4))


@pytest.fixture(scope="module")
def dataset(study) -> ClipDataset:
    return ClipDataset(study.root, EVERYTHING)


def assert_is(batch, dataset: ClipDataset, indices: list[int]) -> None:
    """The batch is exactly these clips."""
    expected = dataset.read(indices)
    assert set(batch) == set(expected)
    for name, values in expected.items():
        assert batch[name].dtype == torch.from_numpy(values).dtype, name
        np.testing.assert_array_equal(batch[name].numpy(), values, err_msg=name)


def indices_of(batches) -> list[int]:
    return [index for batch in batches for index in batch["index"].tolist()]


# --- ClipLoader ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_are_the_clips_in_the_samplers_order(dataset, threads: int) -> None:
    order = list(UniformSampler(dataset, seed=4))
    loader = ClipLoader(dataset, 7, UniformSampler(dataset, seed=4), threads=threads)
    count = 0
    for number, batch in enumerate(loader):
        assert_is(batch, dataset, order[7 * number : 7 * number + 7])
        count += len(batch["index"])
    assert count == len(dataset) == 96
    assert number + 1 == len(loader) == 14
    assert batch["resnet50"].dtype == torch.float16


def test_the_smaller_last_batch_can_be_left_out(dataset) -> None:
    loader = ClipLoader(dataset, 7, drop_last=True)
    assert [len(batch["index"]) for batch in loader] == [7] * 13 == [7] * len(loader)
    assert indices_of(loader) == list(range(91))


def test_batches_that_are_kept_stay_what_they_are(dataset) -> None:
    order = list(UniformSampler(dataset))
    batches = list(ClipLoader(dataset, 5, UniformSampler(dataset), prefetch=2))
    for number, batch in enumerate(batches):
        assert_is(batch, dataset, order[5 * number : 5 * number + 5])


def test_a_part_of_a_batch_that_is_kept_stays_what_it_is(dataset) -> None:
    kept = [batch["vision"][2] for batch in ClipLoader(dataset, 6, prefetch=1, threads=1)]
    for number, clip in enumerate(kept):
        np.testing.assert_array_equal(clip.numpy(), dataset[6 * number + 2]["vision"])


def test_memory_of_batches_that_are_gone_is_used_again(dataset) -> None:
    loader = ClipLoader(dataset, 4, prefetch=2, threads=2)
    places = {batch["vision"].data_ptr() for _ in range(3) for batch in loader}
    assert len(places) <= 2 + 2 + 1  # prefetched, being read, in use; of 72 batches


@pytest.mark.parametrize("handed_out", [0, 1, 5, 13, 14])
def test_it_goes_on_with_exactly_the_next_batch(dataset, handed_out: int) -> None:
    def make() -> ClipLoader:
        return ClipLoader(dataset, 7, UniformSampler(dataset, seed=2), threads=2, prefetch=4)

    uninterrupted, loader = make(), make()
    uninterrupted.set_epoch(3)
    whole = indices_of(uninterrupted)
    loader.set_epoch(3)
    batches = iter(loader)
    seen = indices_of(next(batches) for _ in range(handed_out))
    state = json.loads(json.dumps(loader.state_dict()))  # plain enough for any checkpoint
    resumed = make()
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    resumed.set_epoch(3)
    assert seen + indices_of(resumed) == whole
    resumed.set_epoch(4)
    assert resumed.state_dict()["consumed"] == 0
    assert sorted(indices_of(resumed)) == sorted(whole)


def test_the_state_of_other_clips_is_refused(study, dataset) -> None:
    state = ClipLoader(dataset, 7).state_dict()
    other = ClipDataset(study.root, EVERYTHING, "session_id != 's01'")
    with pytest.raises(ValueError, match=naming("other clips", "72")):
        ClipLoader(other, 7).load_state_dict(state)


def test_leaving_in_the_middle_leaves_no_threads(dataset) -> None:
    before = threading.active_count()
    for _ in ClipLoader(dataset, 4, threads=3):
        break
    batches = iter(ClipLoader(dataset, 4, threads=3))
    next(batches)
    batches.close()
    assert threading.active_count() == before


def test_an_error_while_reading_ahead_reaches_the_loop(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=2))
    publish(study.root, "s01", "resnet50", {"values": np.zeros((50, 2048), np.float16)})
    catalogue.compact(local(study.root))
    loader = ClipLoader(ClipDataset(study.root, ["resnet50"]), 4)
    with pytest.raises(StoreError, match=naming("s01/resnet50/values", "0 to 50")):
        list(loader)


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"threads": 0}, {"prefetch": 0}])
def test_numbers_that_are_too_small_are_refused(dataset, options) -> None:
    with pytest.raises(ValueError, match=naming("=0", "at least 1")):
        ClipLoader(dataset, **{"batch_size": 4} | options)


def test_a_device_is_fed(dataset) -> None:
    loader = ClipLoader(dataset, 4, device="meta")  # the one other device that every machine has
    assert {tensor.device.type for batch in loader for tensor in batch.values()} == {"meta"}


@pytest.mark.needs("gpu")
def test_a_gpu_is_fed_from_pinned_memory(dataset) -> None:
    order = list(UniformSampler(dataset))
    for number, batch in enumerate(ClipLoader(dataset, 5, UniformSampler(dataset), prefetch=1, device="cuda")):
        assert {tensor.device.type for tensor in batch.values()} == {"cuda"}
        torch.cuda._sleep(10_000_000)  # the copy of the next batch waits behind this
        assert_is({name: t.cpu() for name, t in batch.items()}, dataset, order[5 * number : 5 * number + 5])


# --- buffers ---------------------------------------------------------------------------------------------------------


def buffers(keep: int, made: list[int]) -> BatchBuffers:
    def allocate(nbytes: int) -> np.ndarray:
        made.append(nbytes)
        return np.empty(nbytes, np.uint8)

    fields = {"a": Field((3,), np.dtype(np.int16)), "b": Field((), np.dtype(np.float64))}
    return BatchBuffers(fields, 5, keep, allocate)


def test_memory_comes_back_when_the_last_array_on_it_is_gone() -> None:
    made: list[int] = []
    pool = buffers(2, made)
    first = pool.take(5)
    part = first["a"][1:2]
    place = first["a"].ctypes.data
    del first
    assert pool.take(5)["a"].ctypes.data != place  # a part of it is still there
    del part
    taken = [pool.take(5) for _ in range(2)]
    assert place in [arrays["a"].ctypes.data for arrays in taken]
    assert len(made) == 2


def test_no_more_unused_memory_is_kept_than_asked_for() -> None:
    made: list[int] = []
    pool = buffers(2, made)
    for _ in range(2):
        batches = [pool.take(5) for _ in range(10)]
        del batches
    assert len(made) == 10 + 8


def test_arrays_do_not_overlap_and_are_aligned() -> None:
    arrays = buffers(2, []).take(4)
    assert (arrays["a"].shape, arrays["b"].shape) == ((4, 3), (4,))
    assert not np.shares_memory(arrays["a"], arrays["b"])
    assert all(values.flags.aligned for values in arrays.values())


# --- torch's own DataLoader ------------------------------------------------------------------------------------------

SLOW = [pytest.param(method, marks=pytest.mark.slow) for method in ("spawn", "forkserver")]  # each imports torch
INPUT_CHOICE = ["vision", "dope", ClipInput("words", axis=Axis.FRAME), "words", "audio", "story", "label"]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", [None, "fork", *SLOW])
def test_a_plain_data_loader_reads_the_same(dataset, method: str | None) -> None:
    dataset[0]  # the parent has used it before it forks
    order = list(UniformSampler(dataset, seed=1))
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_size=16,
        sampler=UniformSampler(dataset, seed=1),
        # A process that is not forked imports torch: one of those is enough.
        num_workers={None: 0, "fork": 2}.get(method, 1),
        multiprocessing_context=method,
    )
    batches = list(loader)
    assert len(batches) == 6
    for number, batch in enumerate(batches):
        assert_is(batch, dataset, order[16 * number : 16 * number + 16])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_data_loader_with_workers_resumes_from_what_was_trained_on(dataset) -> None:
    def make():
        sampler = UniformSampler(dataset, seed=1)
        return sampler, torch.utils.data.DataLoader(
            dataset, batch_size=16, sampler=sampler, num_workers=2, multiprocessing_context="fork"
        )

    sampler, loader = make()
    whole = indices_of(loader)
    batches = iter(loader)
    seen = indices_of(next(batches) for _ in range(2))
    state = sampler.state_dict(consumed=len(seen))
    sampler, loader = make()
    sampler.load_state_dict(state)
    assert seen + indices_of(loader) == whole


RANK = """
import sys
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.loader import ClipLoader
from storyframes.clips.samplers import UniformSampler

root, rank = sys.argv[1], int(sys.argv[2])
dataset = ClipDataset(root, ["label"])
for batch in ClipLoader(dataset, 5, UniformSampler(dataset, seed=1, rank=rank, world_size=3)):
    print(*batch["index"].tolist())
"""


@pytest.mark.slow
def test_ranks_of_a_distributed_job_read_different_clips_equally_often(study, dataset) -> None:
    """Those of this process and of another, which hashes otherwise; each process imports torch, so there is one."""
    command = [sys.executable, "-c", RANK, study.root, "0"]
    there = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split()
    labels = ClipDataset(study.root, ["label"])
    here = [
        indices_of(ClipLoader(labels, 5, UniformSampler(labels, seed=1, rank=rank, world_size=3))) for rank in (1, 2)
    ]
    read = [[int(number) for number in there], *here]
    assert [len(part) for part in read] == [32, 32, 32]
    assert sorted(index for part in read for index in part) == list(range(96))
