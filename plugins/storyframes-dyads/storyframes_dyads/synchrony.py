"""Synchrony of the pairs of signals of a store's sessions, beside their nulls.

Of each session and pair: the windowed lagged correlations, their peaks, and the rank of their mean height among
circular shifts. Of each pair over all sessions: the mean, ranked among pseudo-dyads, in which the first person of one
session is set beside the second of another, where nobody is in both. p values are corrected by Holm's method over the
pairs of columns, which were all tried on the same people.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from statsmodels.stats.multitest import multipletests
from threadpoolctl import threadpool_limits

from storyframes import FeatureStore
from storyframes.store import scratch_beside
from storyframes_dyads.circular_null import RankedEstimate, circular_null, peak_synchrony, rank
from storyframes_dyads.lagged_correlation import PairedSignals, Peaks, Windows, lag_profile, lag_spread, peaks
from storyframes_dyads.other_measures import MEASURES, shifted_null
from storyframes_dyads.signals import SignalError, SignalName, SignalPair, read_pairs, usual_rate

T = TypeVar("T")
Asked = Sequence[tuple[SignalName, SignalName]]


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
        correlations: (W, lags) of :meth:`~storyframes_dyads.lagged_correlation.PairedSignals.correlations`.
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


def grid_rate(store: FeatureStore, sessions: Iterable[str], asked: Asked, settings: SynchronySettings) -> float:
    """Points per second of the grid of all signals: what was asked for, else the slowest feature's rate.

    Raises:
        SignalError: a signal cannot be read.
    """
    return settings.rate or min(
        usual_rate(store, session, name) for session in sessions for names in asked for name in names
    )


def correlated_pairs(
    store: FeatureStore, session_id: str, asked: Asked, settings: SynchronySettings
) -> Iterator[CorrelatedPair]:
    """The pairs of signals that these names mean, on one grid, and the correlations of their windows.

    Args:
        asked: the names, where a column may be a pattern.

    Raises:
        SignalError: a signal cannot be read, or the session is shorter than a window.
    """
    rate = grid_rate(store, [session_id], asked, settings)
    windows = settings.windows(rate)
    for names in asked:
        for pair, (first, second) in read_pairs(store, session_id, names, rate).items():
            if len(first) < windows.length:
                raise SignalError(
                    f"{session_id} has {len(first) / rate:.1f} s, less than a window of {settings.window_s:g} s: "
                    "give a shorter --window-s"
                )
            correlations = PairedSignals(first, second, windows).correlations()
            yield CorrelatedPair(pair, first, second, rate, windows, correlations)


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
                ranked=circular_null(first, second, windows),
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
    sessions: Sequence[str],
    asked: tuple[SignalName, SignalName],
    settings: SynchronySettings,
    participants: Mapping[str, frozenset[str]],
    progress: Callable[[str], None] = lambda _: None,
    workers: int = 1,
) -> dict[SignalPair, RankedEstimate]:
    """By pair, the mean synchrony over sessions beside its means over dealt pseudo-dyads.

    A pseudo-dyad is as long as the shorter of its two sessions. All are read at one rate, the slowest of all, and kept
    in a private temporary folder: any two may be set beside each other, and together they may not fit into memory.

    Args:
        participants: of each session; sessions that share one are never set beside each other.
        progress: is given what has been done.
        workers: sessions at once.

    Raises:
        SignalError: a signal cannot be read, or there are too few sessions of different people.
    """
    rate = grid_rate(store, sessions, [asked], settings)
    windows = settings.windows(rate)
    number = {session: position for position, session in enumerate(sessions)}
    dealings = [{session: session for session in sessions}, *_dealings(sessions, participants, settings)]
    with scratch_beside(Path(tempfile.gettempdir()) / "storyframes-dyads") as folder:
        names = []
        for session in sessions:
            signals = read_pairs(store, session, asked, rate)
            np.save(folder / f"{number[session]}.npy", np.array(list(signals.values()), np.float32))
            names.append(list(signals))
            store.let_go(session)
            progress(f"pseudo-dyads: {len(names)} of {len(sessions)} sessions read")
        pairs = [pair for pair in names[0] if all(pair in of_session for of_session in names)]
        rows = [[of_session.index(pair) for pair in pairs] for of_session in names]
        tasks = {
            session: (folder, number[session], [number[dealing[session]] for dealing in dealings], rows, windows)
            for session in sessions
        }
        done: dict[str, np.ndarray] = {}
        for session, of_session in _side_by_side(_beside_others, tasks, workers):
            done[session] = of_session
            progress(f"pseudo-dyads: {len(done)} of {len(sessions)} sessions")
    values = [done[session] for session in sessions]  # in one order, so that their sum is always the same
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        means = np.where(known, values, 0).sum(axis=0) / known.sum(axis=0)
    return {pair: rank(means[0, column], means[1:, column]) for column, pair in enumerate(pairs)}


def _beside_others(
    folder: Path, own: int, others: Sequence[int], rows: Sequence[Sequence[int]], windows: Windows
) -> np.ndarray:
    """(others, pairs) synchrony of a session's first person with the second of each of these sessions."""
    first = np.load(folder / f"{own}.npy", mmap_mode="r")  # (rows, 2, n)
    result = np.full((len(others), len(rows[own])), np.nan)
    for place, other in enumerate(others):
        second = np.load(folder / f"{other}.npy", mmap_mode="r")
        points = min(first.shape[2], second.shape[2])
        if points < windows.length:
            continue
        for pair, (row, other_row) in enumerate(zip(rows[own], rows[other], strict=True)):
            signals = PairedSignals(first[row, 0, :points], second[other_row, 1, :points], windows)
            result[place, pair] = peak_synchrony(signals.correlations())
    return result


def _dealings(
    sessions: Sequence[str], participants: Mapping[str, frozenset[str]], settings: SynchronySettings
) -> Iterator[dict[str, str]]:
    """For each dealing, whose second person each session's first person is set beside; never somebody she has met."""
    generator = np.random.default_rng(settings.seed)
    strangers = {
        session: [other for other in sessions if other != session and not participants[session] & participants[other]]
        for session in sessions
    }
    if lonely := [session for session, others in strangers.items() if not others]:
        raise SignalError(
            f"{lonely[0]} has no other session of other participants: pseudo-dyads need some; "
            "--pseudo-dyads 0 leaves them out"
        )
    for _ in range(settings.pseudo_dyads):
        yield {session: others[generator.integers(len(others))] for session, others in strangers.items()}


def synchrony_of(
    store: FeatureStore,
    sessions: Sequence[str],
    asked: Asked,
    settings: SynchronySettings,
    workers: int = 1,
) -> Iterator[tuple[str, list[SessionSynchrony] | SignalError]]:
    """The sessions' results as they come, each with its session; of a session that cannot be measured, the reason."""
    return _side_by_side(_one_session, {session: (store, session, asked, settings) for session in sessions}, workers)


def _side_by_side(
    function: Callable[..., T], tasks: Mapping[str, tuple[Any, ...]], workers: int
) -> Iterator[tuple[str, T]]:
    """The results as they come, each with its name."""
    if workers < 2 or len(tasks) < 2:
        for name, arguments in tasks.items():
            yield name, _alone(function, *arguments)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_alone, function, *arguments): name for name, arguments in tasks.items()}
        for future in as_completed(running):
            yield running[future], future.result()


def _alone(function: Callable[..., T], *arguments: Any) -> T:
    with threadpool_limits(1):  # the tasks are what runs side by side
        return function(*arguments)


def _one_session(
    store: FeatureStore, session_id: str, asked: Asked, settings: SynchronySettings
) -> list[SessionSynchrony] | SignalError:
    try:
        return [result for names in asked for result in session_synchrony(store, session_id, names, settings)]
    except SignalError as error:
        return error
    finally:
        store.let_go(session_id)
