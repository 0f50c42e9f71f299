"""Features that share a pass over the frames: the video is decoded once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tasks.extract import Work
from tasks.extractors.base import Extractor
from tasks.extractors.frame_pass import FrameExtractor


def sharing_a_pass(due: list[Work], extractors: Mapping[str, Extractor]) -> list[Work]:
    """The work with the features made one that want the same decoded frames and may begin at the same time."""
    passes: dict[tuple[tuple[str, ...], bool], list[Work]] = {}
    for work in due:
        if isinstance(extractors[work.features[0]], FrameExtractor):
            passes.setdefault((work.after, bool(work.since)), []).append(work)
    for sharing in passes.values():
        since = {feature: count for work in sharing for feature, count in work.since.items()}
        together = replace(sharing[0], features=tuple(work.features[0] for work in sharing), since=since)
        due = [together if work is sharing[0] else work for work in due if work not in sharing[1:]]
    return due
