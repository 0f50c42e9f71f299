"""The names of MediaPipe's landmarks, in its order. Left and right are the person's own."""

from __future__ import annotations

BODY: tuple[str, ...] = tuple(
    """
    nose left_eye_inner left_eye left_eye_outer right_eye_inner right_eye right_eye_outer left_ear right_ear mouth_left
    mouth_right left_shoulder right_shoulder left_elbow right_elbow left_wrist right_wrist left_pinky right_pinky
    left_index right_index left_thumb right_thumb left_hip right_hip left_knee right_knee left_ankle right_ankle
    left_heel right_heel left_foot_index right_foot_index
    """.split()
)
"""Of the body pose: 33."""

FACE: tuple[str, ...] = (
    *(f"mesh_{number}" for number in range(468)),  # MediaPipe numbers them; its documentation has a drawing
    *(f"right_iris_{number}" for number in range(5)),  # the centre first
    *(f"left_iris_{number}" for number in range(5)),
)
"""Of the face mesh with irises: 478."""

HAND: tuple[str, ...] = (
    "wrist",
    *(f"thumb_{part}" for part in ("cmc", "mcp", "ip", "tip")),
    *(
        f"{finger}_finger_{part}" if finger != "pinky" else f"pinky_{part}"
        for finger in ("index", "middle", "ring", "pinky")
        for part in ("mcp", "pip", "dip", "tip")
    ),
)
"""Of one hand: 21."""

SIDES = ("left", "right")
"""The hands, in the order of the arrays."""

PARTS = ("body", "face", "left_hand", "right_hand")
"""What may be found in a frame."""
