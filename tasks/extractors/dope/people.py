"""Detections of many frames as arrays: the participant of each frame in a fixed shape, or everybody in flat arrays.

The participant is followed from frame to frame. The rule for each frame:

1. The body with the highest score. Bodies that score at least ``rival_score`` of that are its rivals, and of them the
   participant is the one whose box overlaps the participant's last known box most (intersection over union); where
   none overlaps, or nobody was seen before, the score decides.
2. The hands and the face are those assigned to that body; what is not assigned is NaN.
3. Where there is no body, the same rule picks a face among the faces (compared with the last known box of the
   participant's face, else of the body), and the body and the hands are NaN.

Everybody: one row per detection, and offsets that say where the rows of each frame start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from storyframes.features import FEATURES
from tasks.extractors.dope.detections import NONE, Floats, FrameDetections, Integers, Poses, pose_boxes
from tasks.extractors.dope.joints import JOINT_COUNT, Part, Side


@dataclass(frozen=True)
class ParticipantPoses:
    """The participant in T frames, NaN where a part was not found: arrays of the feature ``dope``."""

    body_2d: Floats  # (T, 13, 2), pixels of the frame; wrists where the hands have them
    body_3d: Floats  # (T, 13, 3), metres from the body's centre
    body_score: Floats  # (T,), sum of probabilities, can exceed 1
    hands_2d: Floats  # (T, 2, 21, 2), pixels of the frame, the hand at the left wrist, then at the right wrist
    hands_3d: Floats  # (T, 2, 21, 3), in each hand's own frame
    hands_score: Floats  # (T, 2)
    face_2d: Floats  # (T, 84, 2), pixels of the frame
    face_3d: Floats  # (T, 84, 3), in the face's own frame
    face_score: Floats  # (T,)
    n_detected: NDArray[np.int16]  # (T, 3), how many bodies, hands and faces in all, the participant's included

    @classmethod
    def absent(cls, frames: int) -> ParticipantPoses:
        """Arrays without any pose."""
        specs = [FEATURES["dope"].arrays[field.name] for field in fields(cls)]
        return cls(*(np.full((frames, *spec.shape), spec.fill, spec.dtype) for spec in specs))


class ParticipantTracker:
    """Follows the participant of one video, whose frames are given in order, in batches of any size.

    Args:
        rival_score: in 0..1. 1: always the highest score, overlap only between equals; 0: always the largest overlap.

    Raises:
        ValueError: ``rival_score`` outside 0..1.
    """

    def __init__(self, rival_score: float = 0.5) -> None:
        if not 0 <= rival_score <= 1:
            raise ValueError(f"rival_score = {rival_score}; it must be in 0..1")
        self.rival_score = rival_score
        self._body_box: Floats | None = None
        self._face_box: Floats | None = None

    def follow(self, frames: Sequence[FrameDetections]) -> ParticipantPoses:
        """The participant in the next frames."""
        poses = ParticipantPoses.absent(len(frames))
        for t, frame in enumerate(frames):
            poses.n_detected[t] = [len(frame.parts[part]) for part in (Part.BODY, Part.HAND, Part.FACE)]
            body, face = self._choose(frame)
            if body != NONE:
                _copy(frame.parts[Part.BODY], body, poses.body_2d[t], poses.body_3d[t], poses.body_score[t, ...])
                _copy_hands(frame, body, poses, t)
            if face != NONE:
                _copy(frame.parts[Part.FACE], face, poses.face_2d[t], poses.face_3d[t], poses.face_score[t, ...])
        return poses

    def _choose(self, frame: FrameDetections) -> tuple[int, int]:
        """Numbers of the participant's body and face in the frame, -1 for none."""
        bodies, faces = frame.parts[Part.BODY], frame.parts[Part.FACE]
        if len(bodies):
            body = self._best(bodies, self._body_box)
            face = int(frame.face_of_body[body])
            self._body_box = pose_boxes(bodies.pose2d)[body]
            self._face_box = pose_boxes(faces.pose2d)[face] if face != NONE else None
            return body, face
        if len(faces):
            face = self._best(faces, self._body_box if self._face_box is None else self._face_box)
            self._face_box = pose_boxes(faces.pose2d)[face]
            return NONE, face
        return NONE, NONE

    def _best(self, poses: Poses, last_box: Floats | None) -> int:
        """Poses are sorted by score, so of equal overlaps the first is the one with the highest score."""
        if last_box is None:
            return 0
        rivals = poses.score >= self.rival_score * poses.score[0]
        return int(np.where(rivals, _iou(pose_boxes(poses.pose2d), last_box), -1).argmax())


def _iou(boxes: Floats, box: Floats) -> Floats:
    """Intersection over union of boxes (D, 4) with a box (4,)."""
    sides = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    intersection = np.maximum(sides, 0).prod(1)
    union = (boxes[:, 2:] - boxes[:, :2]).prod(1) + (box[2:] - box[:2]).prod() - intersection
    return np.divide(intersection, union, out=np.zeros_like(union), where=union > 0)


def _copy(poses: Poses, number: int, pose2d: Floats, pose3d: Floats, score: Floats) -> None:
    pose2d[...], pose3d[...], score[...] = poses.pose2d[number], poses.pose3d[number], poses.score[number]


def _copy_hands(frame: FrameDetections, body: int, poses: ParticipantPoses, t: int) -> None:
    for side in Side:
        hand, at = int(frame.hands_of_body[body, side.value]), (t, side.value)
        if hand != NONE:
            _copy(frame.parts[Part.HAND], hand, poses.hands_2d[at], poses.hands_3d[at], poses.hands_score[(*at, ...)])


def everybody(frames: Sequence[FrameDetections]) -> dict[str, np.ndarray]:
    """All B bodies, H hands and F faces of T frames in order, named as the arrays ``all_…`` of the feature ``dope``.

    Returns:
        For each part, with D detections of J joints: ``…_offsets`` (T + 1,), the rows of frame t are
        ``offsets[t]:offsets[t + 1]``, best first; ``…_score`` (D,); ``…_2d`` (D, J, 2) pixels; ``…_3d`` (D, J, 3).
        ``hand_is_right`` (H,); ``hands_of_body`` (B, 2), rows of the hands at the left and right wrist, and
        ``face_of_body`` (B,), -1 for none.
    """
    arrays = {}
    for part in Part:
        name, joints, poses = part.value, JOINT_COUNT[part], [frame.parts[part] for frame in frames]
        arrays[f"{name}_offsets"] = np.cumsum([0, *map(len, poses)], dtype=np.int64)
        arrays[f"{name}_score"] = np.concatenate([np.zeros(0, np.float32), *(each.score for each in poses)])
        arrays[f"{name}_2d"] = np.concatenate([np.zeros((0, joints, 2), np.float32), *(each.pose2d for each in poses)])
        arrays[f"{name}_3d"] = np.concatenate([np.zeros((0, joints, 3), np.float32), *(each.pose3d for each in poses)])
    hands, faces = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.int64)]
    starts = zip(frames, arrays["hand_offsets"][:-1], arrays["face_offsets"][:-1], strict=True)
    for frame, first_hand, first_face in starts:
        hands.append(shifted_rows(frame.hands_of_body, first_hand))
        faces.append(shifted_rows(frame.face_of_body, first_face))
    arrays["hand_is_right"] = np.concatenate([np.zeros(0, bool), *(frame.hand_is_right for frame in frames)])
    return arrays | {"hands_of_body": np.concatenate(hands), "face_of_body": np.concatenate(faces)}


def shifted_rows(rows: Integers, start: int | np.int64) -> Integers:
    """Rows counted from the start of a frame or batch, as rows of the whole arrays; -1 stays."""
    return np.where(rows == NONE, NONE, rows + start)
