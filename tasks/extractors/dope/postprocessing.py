"""From the network's output for one frame to detections: first each part, then which hands and face a body has.

Pose proposals integration (PPI; Rogez, Weinzaepfel and Schmid, "LCR-Net++", TPAMI 2019) averages many overlapping
candidate poses to one pose per body, hand or face. Candidates that overlap the best one form a group (one person);
within a group, candidates with similar 3D poses form modes; the mode with the highest sum of scores wins, and its
candidates' poses are averaged, weighted by score. The simpler alternative is non-maximum suppression, without averages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tasks.extractors.dope.joints import LOWER_LIMBS, Part
from tasks.extractors.dope.network import FramePoses, PartPoses
from tasks.extractors.dope.options import GroupingRule, PpiOptions
from tasks.extractors.dope.people import (
    Floats,
    FrameDetections,
    Integers,
    Poses,
    faces_of_bodies,
    hands_of_bodies,
    pose_boxes,
    with_hand_wrists,
)
from tasks.extractors.dope.roi_ops import nms
from tasks.extractors.dope.settings import DopeSettings, PostProcessing

UPPER_BODY_LIMB_WEIGHT = np.float32(0.1)
NMS_BOX_MARGIN = 0.1  # of the pose's own width and height, on each side
NMS_IOU_THRESHOLD = 0.1

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """M poses of one part with J joints that score high enough, as numpy arrays."""

    score: Floats  # (M,), probability
    box: Floats  # (M, 4), the network's box of the pose, x1 y1 x2 y2 in pixels of the frame
    pose2d: Floats  # (M, J, 2), pixels of the frame
    pose3d: Floats  # (M, J, 3)
    label: Integers  # (M,), the pose's anchor pose
    proposal: Integers  # (M,), the number of the box

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, rows: Any) -> Candidates:
        return Candidates(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def candidates_above(poses: PartPoses, boxes: Tensor, score_th: float) -> Candidates:
    """All poses in N boxes (N, 4) with a score of at least ``score_th``, ordered by box, then by anchor pose."""
    return _gathered(poses, boxes, *torch.nonzero(poses.scores[:, 1:] >= score_th, as_tuple=True))


def best_of_each_box(poses: PartPoses, boxes: Tensor, score_th: float) -> Candidates:
    """The best pose of every box in which that has a score of at least ``score_th``, ordered by box."""
    score, label = poses.scores[:, 1:].max(1)
    proposal = torch.nonzero(score >= score_th)[:, 0]
    return _gathered(poses, boxes, proposal, label[proposal])


def _gathered(poses: PartPoses, boxes: Tensor, proposal: Tensor, label: Tensor) -> Candidates:
    columns = (
        poses.scores[proposal, label + 1],
        boxes[proposal],
        poses.pose2d[proposal, label],
        poses.pose3d[proposal, label],
        label,
        proposal,
    )
    return Candidates(*(column.cpu().numpy() for column in columns))


def integrate(candidates: Candidates, options: PpiOptions) -> Poses:
    """Detections by PPI, best first, from finite candidates of ``options.part``."""
    modes = []
    for group in _groups(candidates, options):
        best = max(_modes(candidates, group, options), key=lambda mode: mode.score)  # the first of equals
        if best.score > options.th_persondetect:
            modes.append(best)
    modes.sort(key=lambda mode: -mode.score)
    return _averaged(candidates, modes, options)


def _groups(candidates: Candidates, options: PpiOptions) -> Iterator[Integers]:
    """Candidates around the best one, then around the best of the rest, ..."""
    ungrouped = np.arange(len(candidates))
    while len(ungrouped):
        rest = candidates[ungrouped]
        best = int(rest.score.argmax())
        grouped = _overlapping(rest, best, options)
        grouped[best] = True  # also where it is not comparable with itself, so that the loop ends
        yield ungrouped[grouped]
        ungrouped = ungrouped[~grouped]


def _overlapping(candidates: Candidates, best: int, options: PpiOptions) -> Mask:
    if options.rule.compares_boxes:
        return _pixel_iou(candidates.box, candidates.box[best]) > options.th_iou
    return _joint_distance(candidates, best, options.rule) < options.th_iou


def _pixel_iou(boxes: Floats, box: Floats) -> Floats:
    """Intersection over union where a box includes its last pixel, (M,)."""
    corner, size = boxes[:, :2], boxes[:, 2:] - boxes[:, :2] + 1
    sides = np.minimum(boxes[:, 2:] + 1, box[2:] + 1) - np.maximum(corner, box[:2])
    intersection = np.maximum(sides, 0).prod(1)
    area = size.prod(1)
    return intersection / (area + (box[2:] - box[:2] + 1).prod() - intersection)


def _joint_distance(candidates: Candidates, best: int, rule: GroupingRule) -> Floats:
    """Mean 2D distance of joints to those of the best, relative to twice the size of its box, (M,)."""
    joints = slice(None) if rule.joints is None else list(rule.joints)
    to_best = candidates.pose2d[best, joints]
    distance = _mean_distance(candidates.pose2d[:, joints], to_best)
    if rule.mirrored_joints is not None:
        mirrored = _mean_distance(candidates.pose2d[:, list(rule.mirrored_joints)], to_best)
        distance = np.minimum(distance, mirrored)
    box = candidates.box[best]
    return distance / (2 * (box[2:] - box[:2] + 1).max())


def _mean_distance(poses: Floats, pose: Floats) -> Floats:
    """Euclidean distance of joints, mean over joints, (M,)."""
    return np.sqrt(((poses - pose) ** 2).sum(-1)).mean(-1)


@dataclass(frozen=True)
class _Mode:
    """Candidates with similar 3D poses; ``centre`` is the best of them when the mode was started."""

    score: float
    centre: int
    members: Integers


def _modes(candidates: Candidates, group: Integers, options: PpiOptions) -> Iterator[_Mode]:
    score, pose3d = candidates.score[group], candidates.pose3d[group]
    remaining = np.ones(len(group), bool)
    first = True
    while remaining.any():
        centre = int(np.where(remaining, score, -np.inf).argmax())
        if not first and score[centre] < options.min_mode_score:
            return
        # A candidate can be in several modes, but it starts none once it is in one.
        similar = _mean_distance(pose3d, pose3d[centre]) < options.th_pose3d
        yield _Mode(float(score[similar].sum()), int(group[centre]), group[similar])
        remaining &= ~similar
        remaining[centre] = False
        first = False


def _averaged(candidates: Candidates, modes: list[_Mode], options: PpiOptions) -> Poses:
    if not modes:
        return Poses.none(options.part)
    means = [_mean_pose(candidates[mode.members], options) for mode in modes]
    centres = candidates[[mode.centre for mode in modes]]
    return Poses(
        score=np.array([mode.score for mode in modes], np.float32),
        pose2d=np.stack([pose2d for pose2d, _ in means]),
        pose3d=np.stack([pose3d for _, pose3d in means]),
        label=centres.label,
        proposal=centres.proposal,
        members=np.array([len(mode.members) for mode in modes]),
    )


def _mean_pose(members: Candidates, options: PpiOptions) -> tuple[Floats, Floats]:
    weight = np.repeat(members.score[:, None], members.pose2d.shape[1], axis=1)
    if options.part is Part.BODY:
        # Labels count from 0, so ">=" would be right. The published program has ">", which takes the first upper-body
        # anchor pose for a full body; this one gives the same numbers.
        upper_body = members.label > options.first_kind
        weight[:, LOWER_LIMBS] *= np.where(upper_body, UPPER_BODY_LIMB_WEIGHT, np.float32(1))[:, None]
    weight = (weight / weight.sum(0))[:, :, None]
    return (weight * members.pose2d).sum(0), (weight * members.pose3d).sum(0)


def suppress(best: Candidates) -> Poses:
    """Detections by non-maximum suppression, best first, from the best pose of every box."""
    # The boxes are those around the joints, not the network's, which hold any part.
    boxes = pose_boxes(best.pose2d, NMS_BOX_MARGIN)
    kept = best[nms(torch.from_numpy(boxes), torch.from_numpy(best.score), NMS_IOU_THRESHOLD).numpy()]
    return Poses(kept.score, kept.pose2d, kept.pose3d, kept.label, kept.proposal, members=np.ones(len(kept), np.int64))


def frame_detections(poses: FramePoses, ppi: Mapping[Part, PpiOptions], settings: DopeSettings) -> FrameDetections:
    """Everybody in a frame."""
    parts = {part: part_detections(poses, ppi[part], settings) for part in Part}
    bodies, hands, faces = (parts[part].pose2d for part in (Part.BODY, Part.HAND, Part.FACE))
    hands_of_body = hands_of_bodies(bodies, hands)
    parts[Part.BODY] = replace(parts[Part.BODY], pose2d=with_hand_wrists(bodies, hands, hands_of_body))
    return FrameDetections(
        parts,
        # Upstream reads the label from the wrong list and prints the handedness of an unrelated candidate.
        hand_is_right=parts[Part.HAND].label < ppi[Part.HAND].first_kind,
        hands_of_body=hands_of_body,
        face_of_body=faces_of_bodies(bodies, faces),
    )


def part_detections(poses: FramePoses, options: PpiOptions, settings: DopeSettings) -> Poses:
    """The detections of one part, ``options.part``, best first."""
    part_poses = poses.parts[options.part]
    if settings.post_processing is PostProcessing.NMS:
        return suppress(best_of_each_box(part_poses, poses.boxes, settings.nms_min_score))
    return integrate(candidates_above(part_poses, poses.boxes, options.score_th), options)
