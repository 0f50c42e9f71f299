"""The poses of the network's output that score high enough to be looked at, as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tasks.extractors.dope.network import PartPoses

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """M poses of one part with J joints.

    Attributes:
        score: (M,) f4, probability.
        box: (M, 4) f4, the box of the network in which the pose was found, x1 y1 x2 y2 in pixels of the frame.
        pose2d: (M, J, 2) f4, pixels of the frame.
        pose3d: (M, J, 3) f4.
        label: (M,) i8, the pose's anchor pose.
        proposal: (M,) i8, the number of the box.
    """

    score: Floats
    box: Floats
    pose2d: Floats
    pose3d: Floats
    label: Integers
    proposal: Integers

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, chosen: Any) -> Candidates:
        return Candidates(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def candidates_above(poses: PartPoses, boxes: Tensor, score_th: float) -> Candidates:
    """All poses with a score of at least ``score_th``, ordered by box, then by anchor pose.

    Args:
        poses: of one part in N boxes.
        boxes: (N, 4).
        score_th: smallest score.
    """
    return _gathered(poses, boxes, *torch.nonzero(poses.scores[:, 1:] >= score_th, as_tuple=True))


def best_of_each_box(poses: PartPoses, boxes: Tensor, score_th: float) -> Candidates:
    """The best pose of every box in which that has a score of at least ``score_th``, ordered by box."""
    score, label = poses.scores[:, 1:].max(1)
    proposal = torch.nonzero(score >= score_th)[:, 0]
    return _gathered(poses, boxes, proposal, label[proposal])


def _gathered(poses: PartPoses, boxes: Tensor, proposal: Tensor, label: Tensor) -> Candidates:
    chosen = (
        poses.scores[proposal, label + 1],
        boxes[proposal],
        poses.pose2d[proposal, label],
        poses.pose3d[proposal, label],
        label,
        proposal,
    )
    return Candidates(*(of_candidate.cpu().numpy() for of_candidate in chosen))
