"""Frames into the network's input: sizes, groups, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.messages import naming

from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.network import Size, frame_size, groups_of_one_input_size, network_input, resized_size
from tasks.extractors.dope.options import NetworkOptions

OPTIONS = NetworkOptions(dict.fromkeys(Part, 1))
SMALL = NetworkOptions(dict.fromkeys(Part, 1), min_size=64, max_size=100)
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("size", "resized", "padded"),
    [
        ((720, 1280), (749, 1333), (768, 1344)),
        ((480, 640), (800, 1066), (800, 1088)),
        ((8, 8), (800, 800), (800, 800)),
        ((161, 200), (799, 993), (800, 1024)),  # 161 * (800 / 161) is below 800 in floating point
    ],
)
def test_sizes(size: tuple[int, int], resized: tuple[int, int], padded: tuple[int, int]) -> None:
    assert resized_size(Size(*size), OPTIONS) == resized
    assert resized_size(Size(*size), OPTIONS).padded == padded


@settings(max_examples=60, deadline=None)
@given(height=st.integers(4, 300), width=st.integers(4, 300))
def test_sizes_are_torchvisions(height: int, width: int) -> None:
    images = network_input([np.zeros((height, width, 3), np.uint8)], SMALL, CPU)
    resized = resized_size(Size(height, width), SMALL)
    assert tuple(images.image_sizes[0]) == resized
    assert tuple(images.tensors.shape[2:]) == resized.padded


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(20, 60), st.integers(20, 60)), max_size=12), st.integers(1, 5))
def test_groups_hold_every_frame_once_and_pad_none_further(sizes: list[tuple[int, int]], largest: int) -> None:
    groups = groups_of_one_input_size([Size(*size) for size in sizes], SMALL, largest)
    assert sorted(index for group in groups for index in group) == list(range(len(sizes)))
    assert all(1 <= len(group) <= largest for group in groups)
    for group in groups:
        assert len({resized_size(Size(*sizes[index]), SMALL).padded for index in group}) == 1


def test_pixels_are_normalised_in_rgb_order_and_padded_with_zeros() -> None:
    frame = np.zeros((64, 90, 3), np.uint8)
    frame[..., 0] = 255
    pixels = network_input([frame], SMALL, CPU).tensors[0]
    expected = (torch.tensor([1.0, 0.0, 0.0]) - torch.tensor(SMALL.image_mean)) / torch.tensor(SMALL.image_std)
    torch.testing.assert_close(pixels[:, 10, 10], expected)
    assert (pixels[:, :, 90:] == 0).all()


def test_flipped_and_read_only_frames_are_welcome() -> None:
    bgr = np.arange(64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 3)
    bgr.flags.writeable = False
    rgb = bgr[:, :, ::-1]
    expected = network_input([rgb.copy()], SMALL, CPU).tensors
    assert torch.equal(network_input([rgb], SMALL, CPU).tensors, expected)


@pytest.mark.parametrize(
    "frame",
    [
        np.zeros((40, 50), np.uint8),
        np.zeros((40, 50, 1), np.uint8),
        np.zeros((40, 50, 4), np.uint8),
        np.zeros((2, 40, 50, 3), np.uint8),
        np.zeros((0, 50, 3), np.uint8),
        np.zeros((40, 50, 3), np.float32),
        [[[0, 0, 0]]],
    ],
    ids=["grey", "grey with channel", "RGBA", "batch", "empty", "float", "list"],
)
def test_what_is_not_an_rgb_frame(frame: np.ndarray) -> None:
    with pytest.raises(ValueError, match=naming("RGB", "uint8")):
        frame_size(frame)


def test_a_frame_too_narrow_to_resize() -> None:
    with pytest.raises(ValueError, match=naming("1 x", "2000 pixels", "0 x", "1333")):
        resized_size(Size(1, 2000), OPTIONS)
