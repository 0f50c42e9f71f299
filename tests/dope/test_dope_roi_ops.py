"""NMS and RoIAlign in plain torch: against brute force and against torchvision's Python version."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tasks.extractors.dope import roi_ops
from tasks.extractors.dope.roi_ops import nms, nms_in_torch, roi_align_in_torch
from tasks.extractors.dope.settings import RoiBorder
from tasks.models.libraries import import_torchvision


def torchvisions_roi_align(features: Tensor, boxes: Tensor, images: Tensor, size: int, scale: float) -> Tensor:
    """The Python version as it is written; torchvision itself first compiles it where there is a C++ compiler."""
    import_torchvision()
    from torchvision.ops.roi_align import _roi_align

    rois = torch.cat([images[:, None].to(boxes), boxes], 1)
    return _roi_align.__wrapped__(features, rois, scale, size, size, 2, False)


def random_boxes(count: int, width: float, height: float) -> Tensor:
    """Of all sizes, down to nothing and up to the image, some beyond its border."""
    corners = torch.rand(count, 2, 2).sort(1).values * torch.tensor([width, height])
    corners[: count // 4, 1] = corners[: count // 4, 0] + torch.rand(count // 4, 2) * 12
    return corners.flatten(1)


def greedy_nms(boxes: list[list[float]], scores: list[float], iou_threshold: float) -> list[int]:
    """NMS as it is defined, box by box."""
    kept: list[int] = []
    for i in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        if all(_iou(boxes[i], boxes[j]) <= iou_threshold for j in kept):
            kept.append(i)
    return kept


def _iou(a: list[float], b: list[float]) -> float:
    width = max(min(a[2], b[2]) - max(a[0], b[0]), 0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return width * height / union if union else 0.0


# Small integers, so that equal boxes, equal scores and thresholds hit exactly come up.
boxes_with_scores = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.integers(0, 4)),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(boxes_with_scores, st.sampled_from([0.0, 0.25, 0.5, 0.7, 1.0]))
def test_nms_is_greedy_nms(numbers: list[tuple[int, ...]], iou_threshold: float) -> None:
    boxes = [[float(x), float(y), float(x + w), float(y + h)] for x, y, w, h, _ in numbers]
    scores = [float(score) for *_, score in numbers]
    kept = nms_in_torch(torch.tensor(boxes).reshape(-1, 4), torch.tensor(scores), iou_threshold)
    assert kept.tolist() == greedy_nms(boxes, scores, iou_threshold)


def test_nms_of_a_long_chain() -> None:
    """Each box suppresses the next one only, the case that takes the most rounds."""
    start = torch.arange(300.0)
    boxes = torch.stack([start, torch.zeros(300), start + 3, torch.ones(300)], 1)
    kept = nms_in_torch(boxes, torch.linspace(1, 0, 300), 0.4)
    assert kept.tolist() == list(range(0, 300, 2))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("size", [7, 3])
def test_roi_align_equals_torchvisions_python_version(size: int, layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    features = torch.randn(3, 16, 20, 26).to(memory_format=layout)
    boxes, images = random_boxes(200, width=26 * 16 + 20, height=20 * 16 + 20), torch.arange(200) % 3
    ours = roi_align_in_torch(features, boxes, images, size, 1 / 16, RoiBorder.REPEAT)
    theirs = torchvisions_roi_align(features, boxes, images, size, 1 / 16)
    assert ours.shape == (200, 16, size, size)
    assert float((ours - theirs).abs().max()) <= 1e-5


def compiled_rule(features: Tensor, box: list[float], size: int, scale: float) -> Tensor:
    """RoIAlign of one box by the rule of the compiled operator, sample by sample."""
    _, height, width = features.shape
    x1, y1, x2, y2 = (scale * edge for edge in box)
    bin_width, bin_height = max(x2 - x1, 1) / size, max(y2 - y1, 1) / size

    def sample(y: float, x: float) -> Tensor:
        if not (-1 <= y <= height and -1 <= x <= width):
            return torch.zeros(len(features), dtype=features.dtype)
        y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
        above, left = int(y), int(x)
        below, right = min(above + 1, height - 1), min(left + 1, width - 1)
        upper = features[:, above, left] * (1 - x + left) + features[:, above, right] * (x - left)
        lower = features[:, below, left] * (1 - x + left) + features[:, below, right] * (x - left)
        return upper * (1 - y + above) + lower * (y - above)

    bins = torch.empty(len(features), size, size, dtype=features.dtype)
    for row in range(size):
        for column in range(size):
            samples = [
                sample(y1 + (row + dy) * bin_height, x1 + (column + dx) * bin_width)
                for dy in (0.25, 0.75)
                for dx in (0.25, 0.75)
            ]
            bins[:, row, column] = torch.stack(samples).mean(0)
    return bins


# In cells of a map of 6 x 5: around the border and far beyond it, narrower than a cell, exactly a cell beyond it.
BEYOND = [
    [5.9, 1.0, 6.0, 3.0], [1.0, 4.95, 3.0, 5.0], [5.9, 4.9, 6.0, 5.0], [5.5, 4.5, 7.5, 6.5], [9.0, 9.0, 12.0, 11.0],
    [-1.4, -1.2, -0.9, -0.7], [-3.0, -3.0, 8.0, 8.0], [-1.25, 0.0, 1.25, 2.0], [5.75, 0.0, 6.25, 2.0], [0, 0, 6, 5],
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 7])
def test_samples_beyond_the_map_count_0(size: int) -> None:
    torch.manual_seed(0)
    features = torch.randn(1, 3, 5, 6)
    boxes = torch.tensor(BEYOND) * 16
    ours = roi_align_in_torch(features, boxes, torch.zeros(len(boxes)), size, 1 / 16)
    expected = [compiled_rule(features[0].double(), box, size, 1 / 16) for box in boxes.tolist()]
    assert float((ours - torch.stack(expected)).abs().max()) <= 1e-5
    repeated = roi_align_in_torch(features, boxes, torch.zeros(len(boxes)), size, 1 / 16, RoiBorder.REPEAT)
    assert not torch.allclose(ours, repeated)
    within = roi_align_in_torch(features, boxes[-1:], torch.zeros(1), size, 1 / 16, RoiBorder.REPEAT)
    assert torch.equal(ours[-1:], within)


def test_roi_align_of_a_ramp_is_its_value_at_the_bins_centres() -> None:
    ramp = (torch.arange(20.0)[:, None] * 100 + torch.arange(30.0)[None, :])[None, None]
    box = torch.tensor([[32.0, 16.0, 32.0 + 7 * 16, 16.0 + 14 * 16]])
    bins = roi_align_in_torch(ramp, box, torch.zeros(1), 7, 1 / 16)[0, 0]
    rows, columns = 1 + 2 * (torch.arange(7) + 0.5), 2 + torch.arange(7) + 0.5
    torch.testing.assert_close(bins, rows[:, None] * 100 + columns[None, :])


def test_roi_align_of_no_boxes() -> None:
    assert roi_align_in_torch(torch.zeros(1, 5, 4, 4), torch.zeros(0, 4), torch.zeros(0), 7, 1 / 16).shape == (
        0,
        5,
        7,
        7,
    )


@pytest.mark.needs("compiled operators")
@pytest.mark.parametrize("border", RoiBorder)
def test_compiled_operators_equal_ours(border: RoiBorder) -> None:
    torch.manual_seed(0)
    features, boxes = torch.randn(2, 16, 20, 26), random_boxes(2000, width=26 * 16, height=20 * 16)
    images = torch.arange(2000) % 2
    compiled = roi_ops.roi_align(features, boxes, images, 7, 1 / 16, border)
    assert float((compiled - roi_align_in_torch(features, boxes, images, 7, 1 / 16, border)).abs().max()) <= 1e-5
    scores = torch.rand(2000)
    assert nms(boxes, scores, 0.7).tolist() == nms_in_torch(boxes, scores, 0.7).tolist()
