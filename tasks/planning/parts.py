"""Dealing a study's sessions to parts that run apart: on other machines, at other times, knowing nothing of each other.

Each part deals all sessions anew, and all come to the same: what decides is the study, the configuration and what is
asked for, never what the store has by then. A session is in one part with all its tracks, so nothing waits for another
part; the stories are one session more.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storyframes.features import STORIES
from storyframes.spec import MAIN
from tasks.extractors.base import Extractor
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.planning.selection import Selection, all_sessions, selected_extractors, selected_tracks, track_extractors
from tasks.planning.sources import track_length_s
from tasks.planning.units import Price, price_of
from tasks.study.load import Study, StudyFileError

_PROCESS_GB = 4  # several networks, one after the other, and a batch of frames
_UNKNOWN_S = 1.0  # CPU-seconds of a session whose length nothing says


def session_costs(study: Study, settings: ExtractorsSettings, selection: Selection) -> dict[str, float]:
    """CPU-seconds that each session asked for is expected to take, done or not, by the headers of its recordings.

    The stories are among them where a feature is made of them.
    """
    only = settings.features if selection.only is None else selection.only
    extractors = selected_extractors(build_extractors(settings, "", may_download=False), only)
    prices: dict[tuple[str, ...], Price] = {}
    streams = settings.recording.streams

    def cost(session_id: str, track: str) -> float:
        features = tuple(track_extractors(extractors, study, session_id, track, selection))
        if features not in prices:
            prices[features] = price_of(features, settings)
        try:
            return prices[features].cost(track_length_s(study, study.tracks[session_id][track], streams))
        except (StudyFileError, OSError):
            return 0.0

    of_stories = selected_extractors(build_extractors(settings, STORIES, may_download=False), only)
    costs = {}
    for session_id in dict.fromkeys(selection.session_ids or all_sessions(study)):
        if session_id == STORIES and not of_stories:
            continue
        tracks = [] if session_id == STORIES else selected_tracks(study, session_id, selection)
        costs[session_id] = sum(cost(session_id, track) for track in tracks) or _UNKNOWN_S
    return costs


def costs_alone(study: Study, settings: ExtractorsSettings, session_id: str, only: Sequence[str]) -> dict[str, float]:
    """CPU-seconds that each of these features of the session's own files takes, without those that it waits for."""
    extractors = build_extractors(settings, "", may_download=False)
    try:
        length_s = track_length_s(study, study.tracks[session_id][MAIN], settings.recording.streams)
    except (StudyFileError, OSError):
        return {}
    return {feature: price_of((feature,), settings).cost(length_s) for feature in only if feature in extractors}


def gpu_features(settings: ExtractorsSettings, features: Sequence[str]) -> tuple[str, ...]:
    """Those of the features that need a GPU, or wait for one that does."""
    extractors = build_extractors(settings, "", may_download=False)

    def needs_gpu(feature: str) -> bool:
        needed = selected_extractors(extractors, (feature,)) if feature in extractors else {}
        return any("GPU" in extractor.needs for extractor in needed.values())

    return tuple(feature for feature in features if needs_gpu(feature))


def gpu_needs(settings: ExtractorsSettings, features: Sequence[str]) -> list[Mapping[str, float]]:
    """What those of the features ask for that compute on a GPU, and those that they wait for."""
    return [extractor.needs for extractor in _needed(settings, features) if "GPU" in extractor.needs]


def processors_needed(settings: ExtractorsSettings, features: Sequence[str]) -> int:
    """The most processors that one of the features takes, or one that they wait for."""
    return int(max([1, *(extractor.needs.get("CPU", 1) for extractor in _needed(settings, features))]))


def memory_needed_gb(settings: ExtractorsSettings, features: Sequence[str]) -> int:
    """GB of memory of a process that extracts these features, and of the largest program that it runs beside it."""
    largest_gib = max([0.0, *(extractor.tool_memory_gib for extractor in _needed(settings, features))])
    return _PROCESS_GB + math.ceil(largest_gib * 2**30 / 1e9)


def _needed(settings: ExtractorsSettings, features: Sequence[str]) -> Iterable[Extractor[Any]]:
    """The extractors of the features, and of those that they wait for."""
    return selected_extractors(build_extractors(settings, "", may_download=False), tuple(features)).values()


def deal(costs: Mapping[str, float], parts: int) -> list[list[str]]:
    """The sessions of each part: the most expensive first, each to the part that has least so far.

    Example:
        >>> deal({"a": 5, "b": 3, "c": 2, "d": 2}, 2)
        [['a', 'd'], ['b', 'c']]
    """
    dealt: list[list[str]] = [[] for _ in range(parts)]
    least = [(0.0, part) for part in range(parts)]
    for session_id in sorted(costs, key=lambda session_id: (-costs[session_id], session_id)):
        load, part = heapq.heappop(least)
        dealt[part].append(session_id)
        heapq.heappush(least, (load + costs[session_id], part))
    return dealt
