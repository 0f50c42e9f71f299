"""Which hands and which face belong to which body.

The rules are the published program's: by geometry alone, one frame at a time, without regard to whether a hand is a
left or a right one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.extractors.dope.detections import pose_boxes
from tasks.extractors.dope.joints import BODY_HEAD, BODY_WRIST, HAND_WRIST, Side

BOX_MARGIN = 0.1  # of a hand's or face's own width and height, on each side
NONE = -1

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


def hands_of_bodies(bodies: Floats, hands: Floats) -> Indices:
    """(B, 2): the hand at each body's left and right wrist, -1 for none.

    A hand belongs to a wrist if each is nearest to the other and they are no further apart than the hand is large.

    Args:
        bodies: (B, 13, 2), pixels.
        hands: (H, 21, 2), pixels.
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


def with_hand_wrists(bodies: Floats, hands: Floats, hands_of_body: Indices) -> Floats:
    """The bodies (B, 13, 2) with their wrists where their hands have them."""
    moved = bodies.copy()
    for side in Side:
        hand = hands_of_body[:, side.value]
        has_hand = hand != NONE
        moved[has_hand, BODY_WRIST[side]] = hands[hand[has_hand], HAND_WRIST]
    return moved


def faces_of_bodies(bodies: Floats, faces: Floats) -> Indices:
    """(B,): the face of each body, -1 for none.

    A face belongs to a body if the body's head lies in no other face's box and no other head lies in the face's box.

    Args:
        bodies: (B, 13, 2), pixels.
        faces: (F, 84, 2), pixels.
    """
    if not len(faces):
        return np.full(len(bodies), NONE, np.int64)
    boxes = pose_boxes(faces, BOX_MARGIN)
    head = bodies[:, None, BODY_HEAD]
    inside = ((head >= boxes[:, :2]) & (head <= boxes[:, 2:])).all(-1)
    exclusive = inside & (inside.sum(1, keepdims=True) == 1) & (inside.sum(0, keepdims=True) == 1)
    return np.where(exclusive.any(1), exclusive.argmax(1), NONE)
