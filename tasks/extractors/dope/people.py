"""The people that DOPE found: in one frame, which hands and face belong to which body; of many frames, as arrays.

Hands and faces are assigned by the published program's rules: by geometry alone, one frame at a time, whether a hand is
a left or a right one.

The arrays have the participant of each frame in a fixed shape, or everybody. The participant is followed from frame to
frame. The rule for each frame:

1. The body with the highest score. Bodies that score at least ``rival_score`` of that are its rivals, and of them the
   participant is the one whose box overlaps the participant's last known box most (intersection over union); where
   none overlaps, or nobody was seen before, the score decides.
2. The hands and the face are those assigned to that body; what is not assigned is NaN.
3. Where there is no body, the same rule picks a face among the faces (compared with the last known box of the
   participant's face, else of the body), and the body and the hands are NaN.

Everybody: one row per detection, and offsets that say where the rows of each frame start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from storyframes.features import FEATURES
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
        arrays[f"{name}_score"] = np.concatenate([np.zeros(0, np.float32), *(pose.score for pose in poses)])
        arrays[f"{name}_2d"] = np.concatenate([np.zeros((0, joints, 2), np.float32), *(pose.pose2d for pose in poses)])
        arrays[f"{name}_3d"] = np.concatenate([np.zeros((0, joints, 3), np.float32), *(pose.pose3d for pose in poses)])
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
