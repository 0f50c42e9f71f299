"""Networks in threads of one process: one is made at a time, on a GPU they are kept, and memory is let go."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tasks.extractors import torch_compute
from tasks.extractors.base import ExtractionError
from tasks.extractors.image import backbones
from tasks.extractors.image.encoder import Encoder, Library, image_shape
from tasks.extractors.image.engines import open_engine
from tasks.extractors.image.settings import Pool
from tasks.extractors.settings import EngineName, NetworkSettings, Precision
from tasks.extractors.torch_compute import computing, fitting_batch_size, forward_in_batches, network_on
from tasks.models import libraries

torch.set_num_threads(1)  # as in a worker


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_compute, "_kept", {})


def another_thread_may() -> bool:
    """Whether it could make a network, or start kernels, at this moment."""
    lock = libraries._process_lock
    with ThreadPoolExecutor(1) as thread:
        is_free = thread.submit(lock.acquire, blocking=False).result()
        if is_free:
            thread.submit(lock.release).result()
    return is_free


@pytest.mark.parametrize("way", ["openvino", "torch", "tried"])
def test_a_model_of_pictures_is_made_while_no_other_thread_makes_a_network(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of transformers in float16 beside it would make it in float16, and round its weights."""
    real, seen = backbones.load_torchvision, []

    def load(*arguments, **options):
        seen.append(another_thread_may())
        return real(*arguments, **options)

    monkeypatch.setattr(backbones, "load_torchvision", load)
    encoder = Encoder(f"{way}:", Library.TORCHVISION, "squeezenet1_1", None, published="IMAGENET1K_V1", pool=Pool.MEAN)
    if way == "tried":
        image_shape(encoder)
    else:
        open_engine(encoder.prepared(Precision.FLOAT32), NetworkSettings(engine=EngineName(way)))
    assert seen == [False]
    assert another_thread_may()


@pytest.mark.parametrize("engine", [EngineName.TORCH, pytest.param(EngineName.OPENVINO, marks=pytest.mark.slow)])
def test_another_thread_computes_while_a_network_is_made(engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each pass of the network that is made: torch.fx, which follows one, would fail the other thread's pass."""
    real, computing_beside, rows = backbones.TorchvisionBackbone.pooled, torch.nn.Sequential(torch.nn.Identity()), []

    def pooled(backbone: backbones.TorchvisionBackbone, pixels: torch.Tensor) -> torch.Tensor:
        with ThreadPoolExecutor(1) as thread:
            rows.append(thread.submit(computing_beside, torch.ones(1)).result().item())
        return real(backbone, pixels)

    monkeypatch.setattr(backbones.TorchvisionBackbone, "pooled", pooled)
    encoder = Encoder(f"{engine}:", Library.TORCHVISION, "resnet18", None, published="IMAGENET1K_V1")
    open_engine(encoder.prepared(Precision.FLOAT32), NetworkSettings(engine=engine))
    assert len(rows) > 2  # more than the two that try it
    assert set(rows) == {1}


def test_on_a_gpu_a_network_is_kept_for_the_next_session_and_the_oldest_goes() -> None:
    made = []

    def network(device: str, key: int) -> object:
        return network_on(device, key, lambda: made.append(key) or object())

    assert network("cuda", 0) is network("cuda", 0)
    assert network("cpu", 0) is not network("cpu", 0)
    first = network("cuda", 0)
    for key in range(1, torch_compute._KEPT):
        network("cuda", key)
    assert network("cuda", 0) is first
    network("cuda", 100)  # in the place of number 1, which was used the longest ago
    made.clear()
    for key in (0, 2, 100, 1):
        network("cuda", key)
    assert made == [1]


@pytest.mark.slow
def test_kept_networks_make_room_for_one_that_does_not_fit_beside_them() -> None:
    class Network:
        pass

    def large() -> Network:
        if any(type(each) is Network for each in gc.get_objects()):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return Network()

    network_on("cuda", "small", Network)
    assert isinstance(network_on("cuda", "large", large), Network)
    in_use = network_on("cuda", "large", large)
    with pytest.raises(torch.OutOfMemoryError):
        network_on("cuda", "other", large)
    del in_use


@pytest.mark.slow
def test_a_batch_of_one_is_tried_again_once_kept_networks_have_gone() -> None:
    network_on("cuda", "idle", object)

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        if torch_compute._kept or len(inputs) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 2 * inputs

    rows, size = forward_in_batches(forward, torch.ones(1, 3), 8, "no")
    assert (rows.tolist(), size) == ([[2.0] * 3], 1)
    rows, size = forward_in_batches(forward, torch.ones(5, 3), 8, "no")
    assert (rows.tolist(), size) == ([[2.0] * 3] * 5, 1)

    def never(inputs: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    network_on("cuda", "idle", object)
    with pytest.raises(ExtractionError, match="no memory for one"):
        forward_in_batches(never, torch.ones(5, 3), 8, "no memory for one")


def test_what_a_batch_needs_is_measured_while_no_other_session_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "reset_peak_memory_stats": None,
        "memory_allocated": 0,
        "max_memory_allocated": 8 << 20,
        "mem_get_info": (1 << 30, 1 << 31),
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    seen = []
    assert fitting_batch_size(lambda: seen.append(another_thread_may()), 8) == 64
    assert seen == [False]


@pytest.mark.parametrize("tf32", [True, False])
def test_tf32_is_what_was_asked_for_and_afterwards_what_it_was(tf32: bool) -> None:
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    with computing("cuda", tf32=tf32):
        assert (products.allow_tf32, convolutions.allow_tf32) == (tf32, tf32)
        assert not another_thread_may()
    assert (products.allow_tf32, convolutions.allow_tf32) == before
    assert another_thread_may()
