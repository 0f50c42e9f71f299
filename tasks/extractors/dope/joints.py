"""The parts that DOPE detects: their joints by number, and the bones between them. Pure Python, no torch.

The names of the joints, with their sources, are in :mod:`storyframes.features`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import pairwise

from storyframes.features import BODY_JOINTS, FACE_LANDMARKS, FINGERS, HAND_JOINTS


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


def _between(*names: str) -> tuple[tuple[int, int], ...]:
    joints = [BODY_JOINTS.index(name) for name in names]
    return tuple(pairwise(joints))


# Without the spine and the neck, which run between midpoints of joints.
_BODY_BONES = (
    *_between("right_ankle", "right_knee", "right_hip"),
    *_between("left_ankle", "left_knee", "left_hip"),
    *_between("right_hip", "left_hip"),
    *_between("right_shoulder", "left_shoulder"),
    *_between("right_wrist", "right_elbow", "right_shoulder"),
    *_between("left_wrist", "left_elbow", "left_shoulder"),
)
_HAND_BONES = tuple(
    (HAND_JOINTS.index(start), HAND_JOINTS.index(end))
    for finger in FINGERS
    for start, end in (
        ("wrist", f"{finger}_mcp"),
        (f"{finger}_mcp", f"{finger}_pip"),
        (f"{finger}_pip", f"{finger}_dip"),
        (f"{finger}_dip", f"{finger}_tip"),
    )
)
BONES: dict[tuple[str, ...], tuple[tuple[int, int], ...]] = {BODY_JOINTS: _BODY_BONES, HAND_JOINTS: _HAND_BONES}
"""By joints, the pairs of their numbers that a line connects."""
