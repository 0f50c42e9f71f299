"""Non-maximum suppression of poses: the simpler alternative to pose proposals integration. Nothing is averaged."""

from __future__ import annotations

import numpy as np
import torch

from tasks.extractors.dope.candidates import Candidates
from tasks.extractors.dope.detections import Poses, pose_boxes
from tasks.extractors.dope.roi_ops import nms

BOX_MARGIN = 0.1  # of the pose's own width and height, on each side
IOU_THRESHOLD = 0.1


def suppress(best_of_boxes: Candidates) -> Poses:
    """The poses that no better pose overlaps by more than a tenth, best first.

    Args:
        best_of_boxes: the best pose of every box, see :func:`tasks.extractors.dope.candidates.best_of_each_box`.
    """
    # The boxes are those around the joints, not the network's, which hold any part.
    boxes = pose_boxes(best_of_boxes.pose2d, BOX_MARGIN)
    kept = best_of_boxes[nms(torch.from_numpy(boxes), torch.from_numpy(best_of_boxes.score), IOU_THRESHOLD).numpy()]
    return Poses(kept.score, kept.pose2d, kept.pose3d, kept.label, kept.proposal, members=np.ones(len(kept), np.int64))
