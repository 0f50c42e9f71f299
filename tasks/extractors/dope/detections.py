"""The bodies, hands and faces that DOPE found in one frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.extractors.dope.joints import JOINT_COUNT, Part


@dataclass(frozen=True)
class Poses:
    """D detections of one part with J joints, best first.

    Attributes:
        score: (D,) f4. With PPI a sum of probabilities, so it can exceed 1; with NMS a probability.
        pose2d: (D, J, 2) f4, pixels of the frame.
        pose3d: (D, J, 3) f4, units in :mod:`storyframes.features`.
        label: (D,) i8, the anchor pose of the detection (PPI: of its best candidate).
        proposal: (D,) i8, the number of the network's box it was found in (PPI: of its best candidate).
        members: (D,) i8, candidates averaged into the detection; 1 with NMS.
    """

    score: NDArray[np.float32]
    pose2d: NDArray[np.float32]
    pose3d: NDArray[np.float32]
    label: NDArray[np.int64]
    proposal: NDArray[np.int64]
    members: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.score)

    @classmethod
    def none(cls, part: Part) -> Poses:
        """No detection of a part."""
        joints = JOINT_COUNT[part]
        floats = (np.zeros((0, *shape), np.float32) for shape in ((), (joints, 2), (joints, 3)))
        return cls(*floats, *(np.zeros(0, np.int64) for _ in range(3)))


@dataclass(frozen=True)
class FrameDetections:
    """Everybody in one frame; B bodies, H hands, F faces.

    Attributes:
        parts: the detections of each part. The 2D wrists of bodies that were given a hand are the hand's wrist.
        hand_is_right: (H,) bool, what the network takes the hand for.
        hands_of_body: (B, 2) i8, the hand at the left and at the right wrist of each body, -1 for none. Chosen by
            distance alone: a hand can be at two wrists, and ``hand_is_right`` can disagree.
        face_of_body: (B,) i8, the face of each body, -1 for none.
    """

    parts: Mapping[Part, Poses]
    hand_is_right: NDArray[np.bool_]
    hands_of_body: NDArray[np.int64]
    face_of_body: NDArray[np.int64]


def pose_boxes(pose2d: NDArray[np.float32], margin: float = 0.0) -> NDArray[np.float32]:
    """Boxes (D, 4) around the joints (D, J, 2), x1 y1 x2 y2, grown on each side by ``margin`` of their own size."""
    low, high = pose2d.min(1), pose2d.max(1)
    growth = np.float32(margin) * (high - low)
    return np.concatenate([low - growth, high + growth], 1)
