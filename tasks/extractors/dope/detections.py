"""The bodies, hands and faces that DOPE found in one frame, and which hands and face belong to which body.

Hands and faces are assigned by the published program's rules: by geometry alone, one frame at a time, whether a hand is
a left or a right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.extractors.dope.joints import BODY_HEAD, BODY_WRIST, HAND_WRIST, JOINT_COUNT, Part, Side

BOX_MARGIN = 0.1  # of a hand's or face's own width and height, on each side
NONE = -1

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Poses:
    """D detections of one part with J joints, best first."""

    score: Floats  # (D,); with PPI a sum of probabilities, which can exceed 1, with NMS a probability
    pose2d: Floats  # (D, J, 2), pixels of the frame
    pose3d: Floats  # (D, J, 3), units in storyframes.features
    label: Integers  # (D,), the anchor pose of the detection (PPI: of its best candidate)
    proposal: Integers  # (D,), the number of its box in the network's output (PPI: of its best candidate)
    members: Integers  # (D,), candidates averaged into the detection; 1 with NMS

    def __len__(self) -> int:
        return len(self.score)

    @classmethod
    def none(cls, part: Part) -> Poses:
        joints = JOINT_COUNT[part]
        floats = (np.zeros((0, *shape), np.float32) for shape in ((), (joints, 2), (joints, 3)))
        return cls(*floats, *(np.zeros(0, np.int64) for _ in range(3)))


@dataclass(frozen=True)
class FrameDetections:
    """Everybody in one frame; B bodies, H hands, F faces. -1 is no hand or no face."""

    parts: Mapping[Part, Poses]  # the detections of each part. The 2D wrist of a body with a hand is the hand's wrist
    hand_is_right: NDArray[np.bool_]  # (H,), as the network classifies the hand
    # (B, 2), the hand at the left and at the right wrist of each body. Chosen by distance alone: a hand can be at two
    # wrists, and ``hand_is_right`` can disagree
    hands_of_body: Integers
    face_of_body: Integers  # (B,), the face of each body


def pose_boxes(pose2d: Floats, margin: float = 0.0) -> Floats:
    """Boxes (D, 4) around the joints (D, J, 2), x1 y1 x2 y2, grown on each side by ``margin`` of their own size."""
    low, high = pose2d.min(1), pose2d.max(1)
    growth = np.float32(margin) * (high - low)
    return np.concatenate([low - growth, high + growth], 1)


def hands_of_bodies(bodies: Floats, hands: Floats) -> Integers:
    """The hand (B, 2) at each body's left and right wrist, from joints (B, 13, 2) and (H, 21, 2) in pixels.

    A hand belongs to a wrist if each is nearest to the other and they are no further apart than the hand is large.
    """
    assigned = np.full((len(bodies), len(Side)), NONE, np.int64)
    if not len(bodies) or not len(hands):
        return assigned
    boxes = pose_boxes(hands, BOX_MARGIN)
    hand_size = (boxes[:, 2:] - boxes[:, :2]).max(1)
    for side in Side:
        between = bodies[:, None, BODY_WRIST[side]] - hands[None, :, HAND_WRIST]
        distance = np.sqrt((between**2).sum(-1))
        nearest_hand, nearest_body = distance.argmin(1), distance.argmin(0)
        body = np.arange(len(bodies))
        accepted = (nearest_body[nearest_hand] == body) & (distance[body, nearest_hand] <= hand_size[nearest_hand])
        assigned[accepted, side.value] = nearest_hand[accepted]
    return assigned


def with_hand_wrists(bodies: Floats, hands: Floats, hands_of_body: Integers) -> Floats:
    """The bodies (B, 13, 2) with their wrists where their hands have them."""
    moved = bodies.copy()
    for side in Side:
        hand = hands_of_body[:, side.value]
        has_hand = hand != NONE
        moved[has_hand, BODY_WRIST[side]] = hands[hand[has_hand], HAND_WRIST]
    return moved


def faces_of_bodies(bodies: Floats, faces: Floats) -> Integers:
    """The face (B,) of each body, from joints (B, 13, 2) and (F, 84, 2) in pixels.

    A face belongs to a body if the body's head is in no other face's box and no other head is in the face's box.
    """
    if not len(faces):
        return np.full(len(bodies), NONE, np.int64)
    boxes = pose_boxes(faces, BOX_MARGIN)
    head = bodies[:, None, BODY_HEAD]
    inside = ((head >= boxes[:, :2]) & (head <= boxes[:, 2:])).all(-1)
    exclusive = inside & (inside.sum(1, keepdims=True) == 1) & (inside.sum(0, keepdims=True) == 1)
    return np.where(exclusive.any(1), exclusive.argmax(1), NONE)
