"""The joints of DOPE's body, hand and face, in the order of its arrays.

Source: Weinzaepfel et al., "DOPE: Distillation Of Part Experts for whole-body 3D pose estimation in the wild",
ECCV 2020. The order of the body joints is confirmed by its authors (naver/dope, issue 5). The names of the fingers
and the sides of brows and eyes follow the layouts DOPE was trained on (HANDS'19, iBUG-68) and were not checked
against the published weights. Left and right are the person's.
"""

BODY_JOINTS = (
    "right_ankle",
    "left_ankle",
    "right_knee",
    "left_knee",
    "right_hip",
    "left_hip",
    "right_wrist",
    "left_wrist",
    "right_elbow",
    "left_elbow",
    "right_shoulder",
    "left_shoulder",
    "head",
)

FINGERS = ("thumb", "index", "middle", "ring", "little")
HAND_JOINTS = (
    "wrist",
    *(f"{finger}_mcp" for finger in FINGERS),
    *(f"{finger}_{joint}" for finger in FINGERS for joint in ("pip", "dip", "tip")),
)


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}_{i}" for i in range(count))


FACE_LANDMARKS = (
    *_numbered("jaw", 33),
    *_numbered("right_brow", 5),
    *_numbered("left_brow", 5),
    *_numbered("nose_ridge", 4),
    *_numbered("nostrils", 5),
    *_numbered("right_eye", 6),
    *_numbered("left_eye", 6),
    *_numbered("outer_lip", 12),
    *_numbered("inner_lip", 8),
)
