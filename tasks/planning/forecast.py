"""How long a whole study will take here and how much disk it needs, from measured rates, before anyone starts."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from storyframes.features import CLOCK
from storyframes.tracks import MAIN, of_track
from tasks.planning.rates import Rate

_TASK_S = 0.2  # of a processor: what Prefect and Dask take for each task


@dataclass(frozen=True)
class Recording:
    """One track of a session.

    Attributes:
        track: its name.
        length_s: how long it is; 0 where that is not known, which counts as the mean of all others.
        features: that can be made of it, as they are called in the store.
    """

    track: str
    length_s: float
    features: frozenset[str]

    @property
    def has_frames(self) -> bool:
        return of_track(CLOCK, self.track) in self.features


@dataclass(frozen=True)
class FeatureForecast:
    """One feature of all sessions.

    Attributes:
        feature: as it is called in the store: of another track than the sessions' own, ``<feature>@<track>``.
        cpu_s_per_minute: processor-seconds for a minute of recording.
        cpu_s: processor-seconds for all of them.
        bytes: on the disk.
        reason: why it could not be measured, so that nothing of it is in the sums.
    """

    feature: str
    cpu_s_per_minute: float
    cpu_s: float
    bytes: int
    reason: str = ""


@dataclass(frozen=True)
class Forecast:
    """A whole study.

    Attributes:
        sessions: how many.
        tracks: how many there are besides the sessions' own files.
        recorded_s: length of all recordings, those of tracks as well.
        workers: processors that extract.
        wall_s: from the first task to the last, with nothing else running.
        cpu_s: processor-seconds of all work.
        bytes: of the feature store.
        features: one by one.
    """

    sessions: int
    tracks: int
    recorded_s: float
    workers: int
    wall_s: float
    cpu_s: float
    bytes: int
    features: tuple[FeatureForecast, ...]


def forecast(rates: Sequence[Rate], recordings: Sequence[Recording], workers: int) -> Forecast:
    """What the rates come to for these recordings on so many processors.

    Args:
        rates: as measured.
        recordings: of every track of every session.
        workers: processors.
    """
    known = [one.length_s for one in recordings if one.length_s > 0]
    mean = sum(known) / len(known) if known else 0.0
    lengths = {
        rate.feature: [one.length_s or mean for one in recordings if rate.feature in one.features] for rate in rates
    }
    features = tuple(_of_feature(rate, lengths[rate.feature]) for rate in rates)
    units = [
        rate.task_s + _TASK_S + rate.cpu_s * length
        for rate in rates
        if not rate.reason
        for length in lengths[rate.feature]
    ]
    pictures = sum(one.has_frames for one in recordings)
    if pictures < workers:  # then a recording's network gets several processors (tasks/planning/spread.py)
        share = workers // max(pictures, 1)
        units = [unit / share for unit in units for _ in range(share)]
    start_s = sum(rate.start_s for rate in rates)
    sessions = sum(one.track == MAIN for one in recordings)
    return Forecast(
        sessions=sessions,
        tracks=len(recordings) - sessions,
        recorded_s=sum(one.length_s or mean for one in recordings),
        workers=workers,
        wall_s=start_s + longest_worker(units, workers),
        cpu_s=sum(units) + start_s * min(workers, max(len(units), 1)),
        bytes=sum(feature.bytes for feature in features),
        features=features,
    )


def longest_worker(units: Iterable[float], workers: int) -> float:
    """When the last of ``workers`` ends that take the longest unit left whenever they are free."""
    busy = [0.0] * workers
    for unit in sorted(units, reverse=True):
        heapq.heappush(busy, heapq.heappop(busy) + unit)
    return max(busy)


def _of_feature(rate: Rate, lengths: Sequence[float]) -> FeatureForecast:
    return FeatureForecast(
        rate.feature,
        60 * rate.cpu_s,
        sum(rate.task_s + rate.cpu_s * length for length in lengths),
        round(sum(rate.task_bytes + rate.bytes * length for length in lengths)),
        rate.reason,
    )
