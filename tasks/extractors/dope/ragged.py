"""Everybody in every frame: flat arrays, one row per detection, and where each frame's rows start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.extractors.dope.assignment import NONE
from tasks.extractors.dope.detections import FrameDetections
from tasks.extractors.dope.joints import JOINT_COUNT, Part

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class RaggedPoses:
    """Detections of one part in T frames, D in all, J joints each; best first within a frame.

    Attributes:
        offsets: (T + 1,) i8; the rows of frame t are ``offsets[t]:offsets[t + 1]``.
        score: (D,) f4.
        pose2d: (D, J, 2) f4, pixels of the frame.
        pose3d: (D, J, 3) f4.
    """

    offsets: Integers
    score: NDArray[np.float32]
    pose2d: NDArray[np.float32]
    pose3d: NDArray[np.float32]


@dataclass(frozen=True)
class Everybody:
    """All detections in T frames: B bodies, H hands and F faces in all.

    Attributes:
        parts: the detections of each part.
        hand_is_right: (H,) bool.
        hands_of_body: (B, 2) i8, rows of the hands at the left and right wrist of each body, -1 for none.
        face_of_body: (B,) i8, rows of the faces, -1 for none.
    """

    parts: Mapping[Part, RaggedPoses]
    hand_is_right: NDArray[np.bool_]
    hands_of_body: Integers
    face_of_body: Integers


def everybody(frames: Sequence[FrameDetections]) -> Everybody:
    """All detections of the frames, in order."""
    parts = {part: _ragged(frames, part) for part in Part}
    hands = [
        _shifted(frame.hands_of_body, start) for frame, start in zip(frames, parts[Part.HAND].offsets[:-1], strict=True)
    ]
    faces = [
        _shifted(frame.face_of_body, start) for frame, start in zip(frames, parts[Part.FACE].offsets[:-1], strict=True)
    ]
    return Everybody(
        parts,
        hand_is_right=np.concatenate([np.zeros(0, bool), *(frame.hand_is_right for frame in frames)]),
        hands_of_body=np.concatenate([np.zeros((0, 2), np.int64), *hands]),
        face_of_body=np.concatenate([np.zeros(0, np.int64), *faces]),
    )


def _ragged(frames: Sequence[FrameDetections], part: Part) -> RaggedPoses:
    joints, poses = JOINT_COUNT[part], [frame.parts[part] for frame in frames]
    return RaggedPoses(
        offsets=np.cumsum([0, *(len(of_frame) for of_frame in poses)], dtype=np.int64),
        score=np.concatenate([np.zeros(0, np.float32), *(of_frame.score for of_frame in poses)]),
        pose2d=np.concatenate([np.zeros((0, joints, 2), np.float32), *(of_frame.pose2d for of_frame in poses)]),
        pose3d=np.concatenate([np.zeros((0, joints, 3), np.float32), *(of_frame.pose3d for of_frame in poses)]),
    )


def _shifted(numbers: Integers, start: np.int64) -> Integers:
    """Numbers within a frame as rows of the flat arrays."""
    return np.where(numbers == NONE, NONE, numbers + start)
