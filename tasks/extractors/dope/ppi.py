"""Pose proposals integration: many overlapping candidate poses become one averaged pose per body, hand or face.

Rogez, Weinzaepfel and Schmid, "LCR-Net++", TPAMI 2019: candidates that overlap the best one form a group (one person);
within a group, candidates with similar 3D poses form modes; the mode with the highest sum of scores wins, and its
candidates' poses are averaged, weighted by score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tasks.extractors.dope.candidates import Candidates
from tasks.extractors.dope.detections import Poses
from tasks.extractors.dope.joints import LOWER_LIMBS, Part
from tasks.extractors.dope.options import GroupingRule, PpiOptions

UPPER_BODY_LIMB_WEIGHT = np.float32(0.1)

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]


def integrate(candidates: Candidates, options: PpiOptions) -> Poses:
    """Detections, best first.

    Args:
        candidates: poses of ``options.part`` with at least ``options.score_th``; finite.
        options: of the part.
    """
    modes = []
    for group in _groups(candidates, options):
        best = max(_modes(candidates, group, options), key=lambda mode: mode.score)  # the first of equals
        if best.score > options.th_persondetect:
            modes.append(best)
    modes.sort(key=lambda mode: -mode.score)
    return _averaged(candidates, modes, options)


def _groups(candidates: Candidates, options: PpiOptions) -> Iterator[Indices]:
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
    members: Indices


def _modes(candidates: Candidates, group: Indices, options: PpiOptions) -> Iterator[_Mode]:
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
    poses = Poses.none(options.part)
    if not modes:
        return poses
    means = [_mean_pose(candidates[mode.members], options) for mode in modes]
    centres = candidates[[mode.centre for mode in modes]]
    return replace(
        poses,
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
        # Labels count from 0, so ">=" would be the sensible comparison. The published program has ">", which takes the
        # first upper-body anchor pose for a full body; ours gives the same numbers.
        upper_body = members.label > options.first_kind
        weight[:, LOWER_LIMBS] *= np.where(upper_body, UPPER_BODY_LIMB_WEIGHT, np.float32(1))[:, None]
    weight = (weight / weight.sum(0))[:, :, None]
    return (weight * members.pose2d).sum(0), (weight * members.pose3d).sum(0)
