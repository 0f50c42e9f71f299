"""Synchrony of the pairs of signals of a store's sessions, beside their nulls.

Of each session and pair: the windowed lagged correlations, their peaks, and the rank of their mean height among
circular shifts. Of each pair over all sessions: the mean, ranked among pseudo-dyads, in which the first person of one
session is set beside the second of another, where nobody is in both. p values are corrected by Holm's method over the
pairs of columns, which were all tried on the same people.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from statsmodels.stats.multitest import multipletests
from threadpoolctl import threadpool_limits

from storyframes import FeatureStore
from storyframes.store import scratch_folder
from storyframes_dyads.circular_null import RankedEstimate, circular_null, peak_synchrony, rank
from storyframes_dyads.lagged_correlation import Peaks, Windows, lag_profile, lag_spread, peaks, window_correlations
from storyframes_dyads.other_measures import MEASURES, shifted_null
from storyframes_dyads.signals import SignalError, SignalName, SignalPair, read_pairs, usual_rate

T = TypeVar("T")
Asked = Sequence[tuple[SignalName, SignalName]]
Progress = Callable[[str, int, int], None]
"""Called with (session, number, how many) before each session."""


@dataclass(frozen=True)
class SynchronySettings:
    """How synchrony is measured.

    Attributes:
        window_s, stride_s, max_lag_s: of the windows, seconds.
        min_shared: the share of a window that both signals must have measured.
        rate: points per second of the grid; None takes the slower of the two features, in each session.
        pseudo_dyads: how many times the sessions' second persons are dealt anew; 0 leaves that null out.
        seed: of the dealing.
        also: other measures that each session gets, of :data:`storyframes_dyads.other_measures.MEASURES`.
    """

    window_s: float = 10.0
    stride_s: float = 1.0
    max_lag_s: float = 3.0
    min_shared: float = 0.5
    rate: float | None = None
    pseudo_dyads: int = 20
    seed: int = 0
    also: tuple[str, ...] = ()

    def windows(self, rate: float) -> Windows:
        """The windows on a grid of this rate, in whole points.

        Raises:
            SignalError: a window has fewer than three points.
        """
        if round(self.window_s * rate) < 3:
            raise SignalError(
                f"a window of {self.window_s:g} s has fewer than 3 points at {rate:g} points a second: "
                "give a longer --window-s"
            )
        return Windows(
            length=round(self.window_s * rate),
            stride=max(1, round(self.stride_s * rate)),
            max_lag=round(self.max_lag_s * rate),
            min_shared=self.min_shared,
        )


@dataclass(frozen=True)
class CorrelatedPair:
    """Two signals of a session, and the correlations of their windows.

    Attributes:
        first, second: (n,) on one grid of ``rate`` points per second, NaN where nothing was measured.
        correlations: (W, lags) of :func:`~storyframes_dyads.lagged_correlation.window_correlations`.
    """

    pair: SignalPair
    first: np.ndarray
    second: np.ndarray
    rate: float
    windows: Windows
    correlations: np.ndarray

    @property
    def start_s(self) -> np.ndarray:
        """(W,) when each window begins, seconds of the session."""
        return self.windows.starts(len(self.first)) / self.rate

    @property
    def middle_s(self) -> np.ndarray:
        """(W,) the middle of each window, seconds of the session."""
        return self.start_s + self.windows.length / 2 / self.rate

    @property
    def shared(self) -> np.ndarray:
        """(n,) bool: whether both signals were measured at each point."""
        return np.isfinite(self.first) & np.isfinite(self.second)


@dataclass(frozen=True)
class SessionSynchrony:
    """What a pair's signals have in common in one session.

    Attributes:
        rate: points per second of the grid.
        start_s: (W,) when each window begins, seconds of the session.
        shared: the share of the session's points at which both signals were measured.
        peaks: of the windows; lags in points of the grid.
        profile: (lags,) the mean correlation at each lag.
        lag_spread_s: the standard error of :attr:`lag_s` over windows; NaN with fewer than ten.
        ranked: the mean height of peaks, as Fisher's z, beside circular shifts.
        also: by name, other measures beside theirs.
    """

    session_id: str
    pair: SignalPair
    rate: float
    windows: Windows
    start_s: np.ndarray
    shared: float
    peaks: Peaks
    profile: np.ndarray
    lag_spread_s: float
    ranked: RankedEstimate
    also: Mapping[str, RankedEstimate]

    @property
    def lag_s(self) -> float:
        """The lag at which the mean correlation is highest, seconds; positive where the first person leads.

        NaN where it is highest at the largest lag, so that it may be higher beyond.
        """
        if not np.isfinite(self.profile).any():
            return np.nan
        column = int(np.nanargmax(self.profile))
        return float(self.windows.lags[column] / self.rate) if 0 < column < len(self.profile) - 1 else np.nan


def correlated_pairs(
    store: FeatureStore, session_id: str, asked: Asked, settings: SynchronySettings
) -> Iterator[CorrelatedPair]:
    """The pairs of signals that these names mean, on one grid, and the correlations of their windows.

    Args:
        asked: the names, where a column may be a pattern.

    Raises:
        SignalError: a signal cannot be read, or the session is shorter than a window.
    """
    names = [name for both in asked for name in both]
    rate = settings.rate or min(usual_rate(store, session_id, name) for name in names)
    windows = settings.windows(rate)
    for both in asked:
        for pair, (first, second) in read_pairs(store, session_id, both, rate).items():
            if len(first) < windows.length:
                raise SignalError(
                    f"{session_id} has {len(first) / rate:.1f} s, less than a window of {settings.window_s:g} s: "
                    "give a shorter --window-s"
                )
            yield CorrelatedPair(pair, first, second, rate, windows, window_correlations(first, second, windows))


def session_synchrony(
    store: FeatureStore, session_id: str, asked: tuple[SignalName, SignalName], settings: SynchronySettings
) -> list[SessionSynchrony]:
    """The synchrony of the pairs of signals that two names mean in a session.

    Raises:
        SignalError: as of :func:`correlated_pairs`.
    """
    result = []
    for of_pair in correlated_pairs(store, session_id, [asked], settings):
        first, second, rate, windows = of_pair.first, of_pair.second, of_pair.rate, of_pair.windows
        estimate = peak_synchrony(of_pair.correlations, windows, len(first))
        result.append(
            SessionSynchrony(
                session_id=session_id,
                pair=of_pair.pair,
                rate=rate,
                windows=windows,
                start_s=of_pair.start_s,
                shared=float(of_pair.shared.mean()),
                peaks=peaks(of_pair.correlations, windows),
                profile=lag_profile(of_pair.correlations),
                lag_spread_s=lag_spread(of_pair.correlations) / rate,
                ranked=circular_null(first, second, windows, estimate),
                also={
                    name: shifted_null(MEASURES[name](windows, rate), first, second, windows.reach)
                    for name in settings.also
                },
            )
        )
    return result


def holm(p: Sequence[float]) -> np.ndarray:
    """p values corrected by Holm's method; missing values stay missing and count for nothing."""
    values = np.asarray(p, np.float64)
    corrected = np.full(len(values), np.nan)
    given = np.isfinite(values)
    if given.any():
        corrected[given] = multipletests(values[given], method="holm")[1]
    return corrected


def pseudo_dyad_null(
    store: FeatureStore,
    results: Sequence[SessionSynchrony],
    settings: SynchronySettings,
    groups: Mapping[str, str],
    progress: Progress = lambda *_: None,
    workers: int = 1,
) -> dict[SignalPair, RankedEstimate]:
    """By pair, the mean synchrony over the sessions that have it beside its means over dealt pseudo-dyads.

    A pseudo-dyad is as long as the shorter of its two sessions. The signals of two features are read at one rate, the
    slowest of all sessions', and kept in a private temporary folder: any two may be set beside each other, and together
    they may not fit into memory.

    Args:
        results: of the sessions, as they are.
        groups: by session, the group of people who met, directly or by way of others; sessions of one group are never
            set beside each other. Sessions without one are left out.
        workers: sessions at once.

    Raises:
        SignalError: a signal cannot be read, or the sessions are all of one group.
    """
    ranked = {}
    of_features: dict[tuple[str, str], list[SessionSynchrony]] = defaultdict(list)
    for result in results:
        if result.session_id in groups:
            of_features[result.pair.first.feature, result.pair.second.feature].append(result)
    for own in of_features.values():
        pairs: dict[str, list[SignalPair]] = defaultdict(list)
        for result in own:
            pairs[result.session_id].append(result.pair)
        windows = settings.windows(rate := min(result.rate for result in own))
        dealings = [{session: session for session in pairs}, *_dealings(list(pairs), groups, settings)]
        with scratch_folder("dyads") as folder:
            files = {session: folder / f"{number}.npy" for number, session in enumerate(pairs)}
            reading = {session: (store, session, pairs[session], rate, files[session]) for session in pairs}
            for _ in _side_by_side(_save_signals, reading, workers, _named(progress, "reading")):
                pass
            tasks = {
                session: (
                    files[session],
                    pairs[session],
                    [(files[dealing[session]], pairs[dealing[session]]) for dealing in dealings],
                    windows,
                )
                for session in pairs
            }
            done = dict(_side_by_side(_beside_others, tasks, workers, _named(progress, "pseudo-dyads of")))
        for pair in dict.fromkeys(result.pair for result in own):
            having = [session for session in pairs if pair in pairs[session]]  # in one order, so that sums are the same
            values = np.array([done[session][:, pairs[session].index(pair)] for session in having])
            known = np.isfinite(values)
            with np.errstate(invalid="ignore"):
                means = np.where(known, values, 0).sum(axis=0) / known.sum(axis=0)
            ranked[pair] = rank(float(means[0]), means[1:])
    return ranked


def _named(progress: Progress, what: str) -> Progress:
    return lambda session, number, count: progress(f"{what} {session}", number, count)


def _save_signals(store: FeatureStore, session_id: str, pairs: Sequence[SignalPair], rate: float, file: Path) -> None:
    signals = read_pairs(store, session_id, (pairs[0].first, pairs[0].second), rate, pairs)
    np.save(file, np.array(list(signals.values()), np.float32))
    store.let_go(session_id)


def _beside_others(
    own: Path, pairs: Sequence[SignalPair], others: Sequence[tuple[Path, Sequence[SignalPair]]], windows: Windows
) -> np.ndarray:
    """(others, pairs) synchrony of a session's first person with the second of each of these sessions."""
    first = np.load(own, mmap_mode="r")  # (pairs, 2, n)
    result = np.full((len(others), len(pairs)), np.nan)
    for place, (file, available) in enumerate(others):
        second = np.load(file, mmap_mode="r")
        points = min(first.shape[2], second.shape[2])
        for row, pair in enumerate(pairs):
            if points >= windows.length and pair in available:
                signals = first[row, 0, :points], second[available.index(pair), 1, :points]
                correlations = window_correlations(*signals, windows, np.float32)
                result[place, row] = peak_synchrony(correlations, windows, points)
    return result


def _dealings(
    sessions: Sequence[str], groups: Mapping[str, str], settings: SynchronySettings
) -> Iterator[dict[str, str]]:
    """For each dealing, whose second person each session's first person is set beside; never somebody she has met."""
    generator = np.random.default_rng(settings.seed)
    strangers = {session: [other for other in sessions if groups[other] != groups[session]] for session in sessions}
    if lonely := [session for session, others in strangers.items() if not others]:
        raise SignalError(
            f"{lonely[0]} has no other session of other participants: all share somebody with it, directly or by way "
            "of others (split_group of the clip index). --pseudo-dyads 0 leaves pseudo-dyads out"
        )
    for _ in range(settings.pseudo_dyads):
        yield {session: others[generator.integers(len(others))] for session, others in strangers.items()}


def synchrony_of(
    store: FeatureStore,
    sessions: Sequence[str],
    asked: Asked,
    settings: SynchronySettings,
    workers: int = 1,
    progress: Progress = lambda *_: None,
) -> Iterator[tuple[str, list[SessionSynchrony] | SignalError]]:
    """The sessions' results as they come, each with its session; of a session that cannot be measured, the reason."""
    tasks = {session: (store, session, asked, settings) for session in sessions}
    return _side_by_side(_one_session, tasks, workers, progress)


def _side_by_side(
    function: Callable[..., T], tasks: Mapping[str, tuple[Any, ...]], workers: int, progress: Progress
) -> Iterator[tuple[str, T]]:
    """The results as they come, each with its name."""
    if workers < 2 or len(tasks) < 2:
        for number, (name, arguments) in enumerate(tasks.items(), 1):
            progress(name, number, len(tasks))
            yield name, _alone(function, *arguments)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_alone, function, *arguments): name for name, arguments in tasks.items()}
        for number, future in enumerate(as_completed(running), 1):
            progress(running[future], number, len(tasks))
            yield running[future], future.result()


def _alone(function: Callable[..., T], *arguments: Any) -> T:
    with threadpool_limits(1):  # the tasks are what runs side by side
        return function(*arguments)


def _one_session(
    store: FeatureStore, session_id: str, asked: Asked, settings: SynchronySettings
) -> list[SessionSynchrony] | SignalError:
    try:
        results = [result for names in asked for result in session_synchrony(store, session_id, names, settings)]
        return list({result.pair: result for result in results}.values())  # patterns may overlap
    except SignalError as error:
        return error
    finally:
        store.let_go(session_id)
