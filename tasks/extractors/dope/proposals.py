"""Which boxes of a frame may hold something: the region proposal network.

Ren et al., "Faster R-CNN", NeurIPS 2015, on a single feature map; anchors and box arithmetic are torchvision's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from tasks.extractors.dope.options import NetworkOptions
from tasks.extractors.dope.roi_ops import nms
from tasks.models.libraries import import_torchvision

if TYPE_CHECKING:
    from torchvision.models.detection.image_list import ImageList

ANCHOR_SIZES = (32, 64, 128, 256, 512)  # pixels of the resized frame, side of the square of the same area
ANCHOR_RATIOS = (0.5, 1.0, 2.0)  # height / width
SMALLEST_SIDE = 1e-3  # pixels


class RegionProposals(nn.Module):
    """Boxes worth a closer look, best first."""

    def __init__(self, options: NetworkOptions) -> None:
        super().__init__()
        import_torchvision()
        from torchvision.models.detection._utils import BoxCoder
        from torchvision.models.detection.rpn import AnchorGenerator

        self.anchor_generator = AnchorGenerator((ANCHOR_SIZES,), (ANCHOR_RATIOS,))
        self.box_coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
        self.options = options

    def forward(self, images: ImageList, objectness: Tensor, deltas: Tensor) -> list[Tensor]:
        """Of every image its boxes (N, 4) float32, x1 y1 x2 y2 in pixels of the resized frame, best first.

        ``objectness`` and ``deltas`` are those of :class:`tasks.extractors.dope.layers.FrameMaps`.
        """
        anchors = self.anchor_generator(images, [objectness])[0]
        # (B, anchors of a cell [* 4], H, W) -> (B, cells and their anchors[, 4]), the order of the anchors
        scores = objectness.permute(0, 2, 3, 1).flatten(1)
        deltas = deltas.permute(0, 2, 3, 1).reshape(len(scores), -1, 4)
        return [self._best_boxes(scores[i], deltas[i], anchors, size) for i, size in enumerate(images.image_sizes)]

    def _best_boxes(self, scores: Tensor, deltas: Tensor, anchors: Tensor, size: tuple[int, int]) -> Tensor:
        from torchvision.ops import clip_boxes_to_image, remove_small_boxes

        scores, best = scores.topk(min(self.options.rpn_pre_nms_top_n, len(scores)))
        boxes = self.box_coder.decode_single(deltas[best], anchors[best])
        boxes = clip_boxes_to_image(boxes, size)
        large = remove_small_boxes(boxes, SMALLEST_SIDE)
        boxes, scores = boxes[large], scores[large].sigmoid()
        return boxes[nms(boxes, scores, self.options.rpn_nms_thresh)[: self.options.rpn_post_nms_top_n]]
