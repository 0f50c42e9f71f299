"""The network's output for one frame as detections: of each part by itself, then hands and faces given to bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tasks.extractors.dope.assignment import faces_of_bodies, hands_of_bodies, with_hand_wrists
from tasks.extractors.dope.candidates import best_of_each_box, candidates_above
from tasks.extractors.dope.detections import FrameDetections, Poses
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.network import FramePoses
from tasks.extractors.dope.options import PpiOptions
from tasks.extractors.dope.pose_nms import suppress
from tasks.extractors.dope.ppi import integrate
from tasks.extractors.dope.settings import DopeSettings, PostProcessing


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
    of_part = poses.parts[options.part]
    if settings.post_processing is PostProcessing.NMS:
        return suppress(best_of_each_box(of_part, poses.boxes, settings.nms_min_score))
    return integrate(candidates_above(of_part, poses.boxes, options.score_th), options)
