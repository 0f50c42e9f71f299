"""Exact images of frames: only the part of a frame that the crop needs is resized, with the bits of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tasks.extractors.image.preprocessing import ExactCropper, Interpolation, Side

SHAPES = ((16, 9), (4, 3), (3, 2), (64, 27), (1, 1), (37, 11))


def resized_whole(cropper: ExactCropper, frame: np.ndarray) -> np.ndarray:
    """The image by Pillow as torchvision and timm use it: the whole frame is resized, then cropped."""
    shorter = min(frame.shape[:2])
    height, width = (cropper.shorter_side * side // shorter for side in frame.shape[:2])
    resized = Image.fromarray(frame).resize((width, height), Image.Resampling[cropper.interpolation.upper()])
    top, left = round((height - cropper.size[0]) / 2), round((width - cropper.size[1]) / 2)
    return np.asarray(resized)[top : top + cropper.size[0], left : left + cropper.size[1]]


@given(
    shape=st.sampled_from(SHAPES),
    scale=st.integers(1, 7),
    more=st.integers(0, 3),
    upright=st.booleans(),
    shorter=st.integers(1, 48),
    cut=st.tuples(st.floats(0.05, 1), st.floats(0.05, 1)),
    interpolation=st.sampled_from(Interpolation),
)
@settings(max_examples=150)
def test_images_are_those_of_frames_that_are_resized_whole(
    shape, scale: int, more: int, upright: bool, shorter: int, cut, interpolation: Interpolation
) -> None:
    width, height = shape[0] * scale + more, shape[1] * scale
    sides = (width, height) if upright else (height, width)
    noise = np.random.default_rng(width * height).integers(0, 256, (2, *sides, 3), dtype=np.uint8)
    size = (max(int(cut[0] * shorter), 1), max(int(cut[1] * shorter), 1))
    cropper = ExactCropper(shorter, size, interpolation)
    images = cropper.crop(noise)
    for image, frame in zip(images, noise, strict=True):
        np.testing.assert_array_equal(image, resized_whole(cropper, frame))


@pytest.mark.parametrize(
    ("side", "pixels", "resized"),
    [
        (Side(1920, 455, 224), (384, 1536), (91, 364)),
        (Side(1280, 455, 224), (256, 1024), (91, 364)),
        (Side(640, 341, 224), (0, 640), (0, 341)),  # no common period
        (Side(256, 256, 224), (16, 240), (16, 240)),
    ],
)
def test_what_is_resized_is_whole_periods_around_the_middle(side: Side, pixels, resized) -> None:
    assert side.periods == (slice(*pixels), slice(*resized))


@pytest.mark.parametrize("size", [(720, 1280), (1080, 1920)])
@pytest.mark.parametrize("interpolation", Interpolation)
def test_of_common_sizes_only_the_part_around_the_middle_is_resized(size, interpolation: Interpolation) -> None:
    cropper = ExactCropper(256, (224, 224), interpolation)
    rows, columns = Side(size[0], 256, 224), Side(size[1], 455, 224)
    assert cropper.part(rows, columns) == columns.periods != (slice(0, size[1]), slice(0, 455))


@pytest.mark.parametrize("size", [(1080, 1920), (720, 1280), (1280, 720), (480, 640)])
@pytest.mark.parametrize("interpolation", Interpolation)
def test_images_of_common_sizes_are_those_of_frames_that_are_resized_whole(
    size: tuple[int, int], interpolation: Interpolation
) -> None:
    frame = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    cropper = ExactCropper(256, (224, 224), interpolation)
    np.testing.assert_array_equal(cropper.crop(frame[None])[0], resized_whole(cropper, frame))
