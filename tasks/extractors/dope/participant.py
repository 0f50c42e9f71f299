"""One person per frame: the participant, followed from frame to frame, as arrays of fixed shape.

The rule, frame by frame:

1. The body with the highest score. Bodies that score at least ``rival_score`` of that are its rivals, and of them the
   participant is the one whose box overlaps the participant's last known box most (intersection over union); where
   none overlaps, or nobody was seen before, the score decides.
2. The hands and the face are those assigned to that body; what is not assigned is NaN.
3. Where there is no body, the same rule picks a face among the faces (compared with the last known box of the
   participant's face, else of the body), and the body and the hands are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.extractors.dope.assignment import NONE
from tasks.extractors.dope.detections import FrameDetections, Poses, pose_boxes
from tasks.extractors.dope.joints import JOINT_COUNT, Part, Side

Box = NDArray[np.float32]
Floats = NDArray[np.float32]

RIVAL_SCORE = 0.5


@dataclass(frozen=True)
class ParticipantPoses:
    """The participant in T frames; float32, NaN where a part was not found.

    Attributes:
        body_2d: (T, 13, 2) pixels of the frame; wrists where the hands have them.
        body_3d: (T, 13, 3) metres from the body's centre.
        body_score: (T,) sum of probabilities, can exceed 1.
        hands_2d: (T, 2, 21, 2) pixels of the frame, the hand at the left wrist, then the one at the right wrist.
        hands_3d: (T, 2, 21, 3) in each hand's own frame.
        hands_score: (T, 2).
        face_2d: (T, 84, 2) pixels of the frame.
        face_3d: (T, 84, 3) in the face's own frame.
        face_score: (T,).
        n_detected: (T, 3) int16, how many bodies, hands and faces there were in all, the participant's included.
    """

    body_2d: Floats
    body_3d: Floats
    body_score: Floats
    hands_2d: Floats
    hands_3d: Floats
    hands_score: Floats
    face_2d: Floats
    face_3d: Floats
    face_score: Floats
    n_detected: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.n_detected)

    @classmethod
    def absent(cls, frames: int) -> ParticipantPoses:
        """Nobody in so many frames."""
        body, hand, face = (JOINT_COUNT[part] for part in (Part.BODY, Part.HAND, Part.FACE))

        def nan(*shape: int) -> Floats:
            return np.full((frames, *shape), np.nan, np.float32)

        return cls(
            body_2d=nan(body, 2),
            body_3d=nan(body, 3),
            body_score=nan(),
            hands_2d=nan(len(Side), hand, 2),
            hands_3d=nan(len(Side), hand, 3),
            hands_score=nan(len(Side)),
            face_2d=nan(face, 2),
            face_3d=nan(face, 3),
            face_score=nan(),
            n_detected=np.zeros((frames, len(Part)), np.int16),
        )


class ParticipantTracker:
    """Follows the participant of one video. Feed it the frames in order, in batches of any size.

    Args:
        rival_score: in 0..1. 1: always the highest score, overlap only between equals; 0: always the largest overlap.

    Raises:
        ValueError: ``rival_score`` outside 0..1.
    """

    def __init__(self, rival_score: float = RIVAL_SCORE) -> None:
        if not 0 <= rival_score <= 1:
            raise ValueError(f"rival_score = {rival_score}; it must be in 0..1")
        self.rival_score = rival_score
        self._body_box: Box | None = None
        self._face_box: Box | None = None

    def follow(self, frames: Sequence[FrameDetections]) -> ParticipantPoses:
        """The participant in the next frames."""
        poses = ParticipantPoses.absent(len(frames))
        for t, found in enumerate(frames):
            poses.n_detected[t] = [len(found.parts[part]) for part in (Part.BODY, Part.HAND, Part.FACE)]
            body, face = self._choose(found)
            if body != NONE:
                _copy(found.parts[Part.BODY], body, poses.body_2d[t], poses.body_3d[t], poses.body_score[t, ...])
                _copy_hands(found, body, poses, t)
            if face != NONE:
                _copy(found.parts[Part.FACE], face, poses.face_2d[t], poses.face_3d[t], poses.face_score[t, ...])
        return poses

    def _choose(self, found: FrameDetections) -> tuple[int, int]:
        """Numbers of the participant's body and face in the frame, -1 for none."""
        bodies, faces = found.parts[Part.BODY], found.parts[Part.FACE]
        if len(bodies):
            body = self._best(bodies, self._body_box)
            face = int(found.face_of_body[body])
            self._body_box = pose_boxes(bodies.pose2d)[body]
            self._face_box = pose_boxes(faces.pose2d)[face] if face != NONE else None
            return body, face
        if len(faces):
            face = self._best(faces, self._body_box if self._face_box is None else self._face_box)
            self._face_box = pose_boxes(faces.pose2d)[face]
            return NONE, face
        return NONE, NONE

    def _best(self, poses: Poses, last_box: Box | None) -> int:
        """Poses are sorted by score, so of equal overlaps the first is the one with the highest score."""
        if last_box is None:
            return 0
        rivals = poses.score >= self.rival_score * poses.score[0]
        return int(np.where(rivals, _iou(pose_boxes(poses.pose2d), last_box), -1).argmax())


def _iou(boxes: NDArray[np.float32], box: Box) -> Floats:
    """Intersection over union of boxes (D, 4) with a box (4,)."""
    sides = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    intersection = np.maximum(sides, 0).prod(1)
    union = (boxes[:, 2:] - boxes[:, :2]).prod(1) + (box[2:] - box[:2]).prod() - intersection
    return np.divide(intersection, union, out=np.zeros_like(union), where=union > 0)


def _copy(poses: Poses, number: int, pose2d: Floats, pose3d: Floats, score: Floats) -> None:
    pose2d[...], pose3d[...], score[...] = poses.pose2d[number], poses.pose3d[number], poses.score[number]


def _copy_hands(found: FrameDetections, body: int, poses: ParticipantPoses, t: int) -> None:
    for side in Side:
        hand, at = int(found.hands_of_body[body, side.value]), (t, side.value)
        if hand != NONE:
            _copy(found.parts[Part.HAND], hand, poses.hands_2d[at], poses.hands_3d[at], poses.hands_score[(*at, ...)])
