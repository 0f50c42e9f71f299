"""From due features to units: what shares a pass over the frames, what a unit needs and costs, and their order.

The figures of costs are of one processor, measured with ``make bench``; only their order matters here. What a whole
study takes on this machine is measured, not looked up: see ``tasks/planning/forecast.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from storyframes.features import CLOCK, STORIES
from tasks.extract import ExtractionUnit
from tasks.extractors.base import Extractor, Input, Source
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.registry import ExtractorsSettings, build_extractor
from tasks.extractors.settings import ExtractorSettings
from tasks.media.container import RecordingError, StreamChoice
from tasks.media.sound import sound_length_s
from tasks.media.video_header import promised_length_s

_MOST_CPUS = 8  # beyond them decoding and resizing, which take one processor, are what the network waits for


@dataclass(frozen=True)
class Price:
    """What extracting features in one go takes of a worker."""

    needs: Mapping[str, float]  # Dask's resources: the most that any of the features needs, as they share the worker
    cpu_s_per_s: float  # CPU-seconds for each second of a recording
    start_s: float  # CPU-seconds for a recording of any length

    def cost(self, length_s: float) -> float:
        """CPU-seconds for a recording of this length; 0 where the length is not known."""
        return self.start_s + length_s * self.cpu_s_per_s if length_s else 0.0


def price_of(features: Iterable[str], settings: ExtractorsSettings, session_id: str = "") -> Price:
    """What extracting these features of a session (or of the stories) in one go takes."""
    named = list(features)
    # The clock that a pass over the frames makes besides costs next to nothing, and may not keep the pass off a GPU.
    priced = [feature for feature in named if feature != CLOCK] or named
    extractors = [build_extractor(settings, session_id, feature) for feature in priced]
    needs: dict[str, float] = {}
    for extractor in extractors:
        for resource, amount in extractor.needs.items():
            needs[resource] = max(amount, needs.get(resource, 0))
    costs = [extractor.cost for extractor in extractors]
    return Price(needs, sum(cost.cpu_s_per_s for cost in costs), max(cost.start_s for cost in costs))


def sharing_a_pass(due: list[ExtractionUnit], extractors: Mapping[str, Extractor[Any]]) -> list[ExtractionUnit]:
    """The units of a track with those made one that want the same decoded frames and may begin at the same time.

    Those on a GPU and those on processors stay apart: no worker has both.
    """
    passes: dict[tuple[tuple[str, ...], bool, frozenset[str]], list[ExtractionUnit]] = {}
    for unit in due:
        if isinstance(extractor := extractors[unit.features[0]], FrameExtractor):
            passes.setdefault((unit.after, bool(unit.since), frozenset(extractor.needs)), []).append(unit)
    for sharing in passes.values():
        since = {feature: count for unit in sharing for feature, count in unit.since.items()}
        together = replace(sharing[0], features=tuple(unit.features[0] for unit in sharing), since=since)
        due = [together if unit is sharing[0] else unit for unit in due if unit not in sharing[1:]]
    return due


def sharing_a_video(due: list[ExtractionUnit], extractors: Mapping[str, Extractor[Any]]) -> list[ExtractionUnit]:
    """The units of a session with those made one that want the frames of one video, all of them or regions of them."""
    cameras: dict[tuple[str, tuple[str, ...], bool, frozenset[str]], list[ExtractionUnit]] = {}
    for unit in due:
        if isinstance(extractor := extractors[unit.features[0]], FrameExtractor):
            camera = unit.source.region.of if unit.source.region else unit.track
            cameras.setdefault((camera, unit.after, bool(unit.since), frozenset(extractor.needs)), []).append(unit)
    for first, *others in cameras.values():
        together = replace(first, beside=tuple(others))
        due = [together if unit is first else unit for unit in due if unit not in others]
    return due


def joined_with_clocks(
    due: list[ExtractionUnit],
    extractors: Mapping[str, Extractor[Any]],
    alone: Callable[[ExtractionUnit], bool] = lambda _: False,
) -> list[ExtractionUnit]:
    """The units of a session with a video's clock made by the pass that makes features of its pictures.

    So the video is decoded once. The clock is published at the end of the pass, so it stays a unit of its own where
    another unit would wait for it longer, or the pass itself needs it to begin.

    Args:
        alone: whether the unit of a clock is to stay alone: after a pass that failed or killed its process, the clock
            comes first.
    """
    for clock in [unit for unit in due if unit.features == (CLOCK,) and not unit.source.region and not alone(unit)]:
        (name,) = clock.makes
        waiting = [unit for unit in due if name in unit.awaits]
        frame_pass = next((unit for unit in waiting if _can_make_clock(unit, clock, extractors)), None)
        if frame_pass is None:
            continue
        made = set(frame_pass.makes)
        if all(unit is frame_pass or made.intersection(unit.awaits) for unit in waiting):
            features, since = (CLOCK, *frame_pass.features), {**clock.since, **frame_pass.since}
            together = replace(frame_pass, features=features, since=since, after=())
            due = [together if unit is frame_pass else unit for unit in due if unit is not clock]
    return due


def _can_make_clock(unit: ExtractionUnit, clock: ExtractionUnit, extractors: Mapping[str, Extractor[Any]]) -> bool:
    if (unit.track, unit.after, bool(unit.since)) != (clock.track, clock.features, bool(clock.since)) or unit.beside:
        return False
    made = [extractors[feature] for feature in unit.features]
    return all(isinstance(extractor, FrameExtractor) and not extractor.needs_clock for extractor in made)


def spread_over_processors(units: list[ExtractionUnit], cpus: int) -> list[ExtractionUnit]:
    """The units, with several processors for a feature that can use them where sessions are fewer than processors.

    A unit that shares a pass over the frames gets one: further processors would wait for the other features.
    """
    sessions = 0
    for unit in units:
        sessions += any(_widened(unit.settings, feature, 2) for tracked in unit.tracks for feature in tracked.features)
        if 2 * sessions > cpus:
            return units
    return on_all_processors(units, cpus // sessions) if sessions else units


def on_all_processors(units: list[ExtractionUnit], cpus: int) -> list[ExtractionUnit]:
    """The units, each with all of these processors where its only feature can use them."""
    share = min(cpus, _MOST_CPUS)
    if share < 2:
        return units

    def widened(unit: ExtractionUnit) -> ExtractionUnit:
        features = [feature for feature in unit.features if feature != CLOCK]
        section = _widened(unit.settings, features[0], share) if len(features) == 1 and not unit.beside else None
        return replace(unit, settings=unit.settings.with_section(features[0], section)) if section else unit

    return [widened(unit) for unit in units]


def _widened(settings: ExtractorsSettings, feature: str, cpus: int) -> ExtractorSettings | None:
    """The feature's section for so many processors; None where that changes nothing."""
    section = settings.section(feature)
    widened = section.with_cpus(cpus)
    return widened if widened != section else None


def most_expensive_first(units: Iterable[ExtractionUnit]) -> list[ExtractionUnit]:
    """The units in the order in which they should begin, with what they need and cost.

    The clocks come first, as others wait for them. Then the most expensive features, so those of the longest sessions;
    the cheap ones fill what is left at the end. So no worker is left alone with a long unit.
    """
    lengths: dict[tuple[str, str], float] = {}
    prices: dict[tuple[int, tuple[str, ...], bool], tuple[ExtractorsSettings, Price]] = {}

    def priced(unit: ExtractionUnit) -> ExtractionUnit:
        recording = unit.session_id, unit.track
        if recording not in lengths:
            lengths[recording] = recording_s(unit.source, unit.settings.recording.streams)
        # A hundred thousand sessions have a few prices; the settings are kept, so that no others get their id.
        features = tuple(feature for track in unit.tracks for feature in track.features)
        key = id(unit.settings), features, unit.session_id == STORIES
        if key not in prices:
            prices[key] = unit.settings, price_of(features, unit.settings, unit.session_id)
        _, price = prices[key]
        return replace(unit, needs=price.needs, cost=price.cost(lengths[recording]))

    clocks: list[ExtractionUnit] = []
    others: list[ExtractionUnit] = []
    waiting: dict[tuple[str, str], float] = defaultdict(float)
    for unit in map(priced, units):
        (clocks if unit.features == (CLOCK,) else others).append(unit)
        waiting[unit.session_id, unit.track] += unit.cost
    clocks.sort(key=lambda unit: -waiting[unit.session_id, unit.track])
    others.sort(key=lambda unit: -unit.cost)
    return clocks + others


def recording_s(source: Source, streams: StreamChoice) -> float:
    """How long the recording should be by its video's header, else its sound's, seconds; 0 where that does not say."""
    try:
        if Input.VIDEO in source.files:
            return promised_length_s(source.files[Input.VIDEO].path, streams)
        if Input.AUDIO in source.files:
            return sound_length_s(source.files[Input.AUDIO].path)
    except (RecordingError, OSError):  # the extractor will say so
        pass
    return 0.0
