"""The parts that DOPE detects, and their joints by number. Pure Python, no torch.

The names of the joints, with their sources, are in :mod:`storyframes.features`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from storyframes.features import BODY_JOINTS, FACE_LANDMARKS, HAND_JOINTS


class Part(Enum):
    """A part of the human body; the value is its name in model files."""

    BODY = "body"
    HAND = "hand"
    FACE = "face"


class Side(Enum):
    """The person's own left or right; the value is the index on the ``2`` axis of the hand arrays."""

    LEFT = 0
    RIGHT = 1


JOINT_NAMES: Mapping[Part, tuple[str, ...]] = {
    Part.BODY: BODY_JOINTS,
    Part.HAND: HAND_JOINTS,
    Part.FACE: FACE_LANDMARKS,
}
JOINT_COUNT: Mapping[Part, int] = {part: len(names) for part, names in JOINT_NAMES.items()}

HAND_WRIST = HAND_JOINTS.index("wrist")
BODY_HEAD = BODY_JOINTS.index("head")
BODY_WRIST: Mapping[Side, int] = {
    Side.LEFT: BODY_JOINTS.index("left_wrist"),
    Side.RIGHT: BODY_JOINTS.index("right_wrist"),
}
# Ankles and knees: an upper-body anchor pose only guesses them, so its weight is small for them.
LOWER_LIMBS = tuple(BODY_JOINTS.index(f"{side}_{joint}") for joint in ("ankle", "knee") for side in ("right", "left"))


def _mirrored(name: str) -> str:
    if name.startswith("right_"):
        return "left_" + name.removeprefix("right_")
    return "right_" + name.removeprefix("left_") if name.startswith("left_") else name


# BODY_MIRROR[j] is the joint on the other side of the body.
BODY_MIRROR = tuple(BODY_JOINTS.index(_mirrored(name)) for name in BODY_JOINTS)
