"""NMS and RoIAlign: torchvision's compiled operators where they load, vectorised torch where they do not.

torchvision's own fallback for RoIAlign gathers every sample of every channel (tens of seconds for one default-size
frame on a processor), and it has none for NMS. The two here follow the same rules: NMS as in ``torchvision.ops.nms``,
RoIAlign as in He et al., "Mask R-CNN", ICCV 2017, in the form without the half-pixel shift (``aligned=False``).

torchvision has two rules for samples beyond the feature map, which boxes narrower than a cell have at its right and
bottom border. In its compiled version, samples more than a cell away count as 0; its Python version repeats the cell at
the border. Both rules are available here with and without the compiled operators.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tasks.extractors.dope.settings import RoiBorder
from tasks.models.libraries import has_compiled_operators

SAMPLES_PER_BIN = 2  # along each axis


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices (kept,) i8 of the boxes that no better kept box overlaps by more than ``iou_threshold``, best first.

    Args:
        boxes: (N, 4) float, x1 y1 x2 y2.
        scores: (N,) float; of two equal scores the first box is the better one.
    """
    if has_compiled_operators():
        from torchvision.ops import nms as compiled_nms

        return compiled_nms(boxes, scores, iou_threshold)
    return nms_in_torch(boxes, scores, iou_threshold)


def nms_in_torch(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """:func:`nms` without compiled operators. Memory grows with N squared (1000 boxes: about 40 MB)."""
    order = scores.sort(stable=True, descending=True).indices
    suppresses = _suppression(boxes[order], iou_threshold)
    # Greedy NMS asks box by box "does a kept, better box suppress this one?". Asking it of all boxes at once, again
    # and again, decides at least one more box per round, from the best down, so it ends at the greedy answer; real
    # chains of suppression are short, so a few rounds replace N steps.
    kept = torch.ones(len(order), dtype=torch.bool, device=boxes.device)
    while True:
        still_kept = ~(suppresses & kept[:, None]).any(0)
        if torch.equal(still_kept, kept):
            return order[kept]
        kept = still_kept


def _suppression(boxes: Tensor, iou_threshold: float) -> Tensor:
    """(N, N) bool: row i would remove column j. Boxes are sorted, best first, so only i < j can."""
    from_corner = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    to_corner = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    intersection = (to_corner - from_corner).clamp(min=0).prod(-1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    iou = intersection / (area[:, None] + area[None, :] - intersection)
    # In double precision, as the compiled operator compares with the threshold.
    return (iou.double() > iou_threshold).triu(diagonal=1)


def roi_align(
    features: Tensor, boxes: Tensor, images: Tensor, size: int, scale: float, border: RoiBorder = RoiBorder.ZERO
) -> Tensor:
    """Features of every box, resampled to ``size`` x ``size`` bins, each the mean of 2 x 2 bilinear samples.

    Args:
        features: (B, C, H, W) float.
        boxes: (N, 4) float, x1 y1 x2 y2 within the image; narrower than one cell counts as one cell.
        images: (N,) integer, which of the B maps each box belongs to.
        scale: cells per pixel of the image.
        border: the value of samples beyond the map.

    Returns:
        (N, C, size, size), dtype of ``features``.
    """
    if has_compiled_operators():
        from torchvision.ops import roi_align as compiled_roi_align

        if border is RoiBorder.REPEAT:
            # Boxes are within the image, so their samples reach at most one row and one column beyond the map.
            features = functional.pad(features, (0, 1, 0, 1), mode="replicate")
        rois = torch.cat([images[:, None].to(boxes), boxes], 1)
        return compiled_roi_align(features, rois, size, scale, SAMPLES_PER_BIN, aligned=False)
    return roi_align_in_torch(features, boxes, images, size, scale, border)


def roi_align_in_torch(
    features: Tensor, boxes: Tensor, images: Tensor, size: int, scale: float, border: RoiBorder = RoiBorder.ZERO
) -> Tensor:
    """:func:`roi_align` without compiled operators."""
    _, channels, height, width = features.shape
    y_cells, y_weights = _axis_samples(boxes[:, 1] * scale, boxes[:, 3] * scale, size, height, border)
    x_cells, x_weights = _axis_samples(boxes[:, 0] * scale, boxes[:, 2] * scale, size, width, border)
    map_starts = (images.long() * (height * width))[:, None, None, None, None]
    cells = map_starts + y_cells[:, :, None, :, None] * width + x_cells[:, None, :, None, :]
    weights = y_weights[:, :, None, :, None] * x_weights[:, None, :, None, :]
    # A bin is a weighted sum of 16 rows of a (cells, channels) table: exactly an embedding bag, and a fast one.
    table = features.permute(0, 2, 3, 1).reshape(-1, channels)
    rows_per_bin = (2 * SAMPLES_PER_BIN) ** 2
    bins = functional.embedding_bag(
        cells.reshape(-1, rows_per_bin),
        table,
        per_sample_weights=weights.reshape(-1, rows_per_bin).to(table.dtype),
        mode="sum",
    )
    return bins.view(-1, size, size, channels).permute(0, 3, 1, 2)


def _axis_samples(start: Tensor, end: Tensor, bins: int, cells: int, border: RoiBorder) -> tuple[Tensor, Tensor]:
    """Along one axis, the two cells next to each sample of a bin and their weights, each (N, bins, 4)."""
    bin_length = (end - start).clamp(min=1.0)[:, None, None] / bins
    bin_index = torch.arange(bins, device=start.device)[None, :, None]
    in_bin = (torch.arange(SAMPLES_PER_BIN, device=start.device) + 0.5)[None, None, :]
    # In torchvision's order of operations: the last bit of a coordinate matters in steep features.
    position = start[:, None, None] + bin_index * bin_length + in_bin * (bin_length / SAMPLES_PER_BIN)
    outside = (position < -1) | (position > cells)
    position = position.clamp(0, cells - 1)
    below = position.floor()
    fraction = position - below
    pair = torch.stack([below, (below + 1).clamp(max=cells - 1)], -1).long()
    weights = torch.stack([1 - fraction, fraction], -1) / SAMPLES_PER_BIN
    if border is RoiBorder.ZERO:
        weights = weights.masked_fill(outside[..., None], 0)  # it still counts in the mean
    return pair.flatten(2), weights.flatten(2)
