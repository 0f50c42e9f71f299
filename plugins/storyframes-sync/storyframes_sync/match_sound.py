"""The clock of one recording on that of another recording of the same room, measured by their sound.

Pieces of the shorter recording are searched in the longer one. Where pieces all along agree on one line, the line is
the clock: its offset and its drift. An uncertain clock is refused, with the reason: a wrong one would spoil everything
that is made with it, and nobody would see it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.media import SoundBands

SHORTEST_S = 30.0  # that both must have recorded
MOST_PPM = 500.0  # no crystal is off by as much: such a file was recorded at another speed
_COARSE = 5  # fine moments in a coarse one
_COARSE_S = _COARSE * SoundBands.HOP_S
_PIECES = 240
_PIECE_S = (5.0, 30.0)
_NEAR_S = 0.04  # from a line, of pieces of the coarse search that are on it
_REACH_S = 0.1  # of the fine search, on both sides of the coarse line
_ON_LINE_S = 0.015  # from a line, of pieces of the fine search that are on it
_FEWEST = 4  # pieces that two recordings must share
_SHARE = 0.5  # of the pieces that both should have
_AGAIN = 0.7  # of the best match: a second match so good means that the sound repeats itself
_CLEAR = 8.0  # times the usual match of unrelated positions
_LOUD = 0.5  # likeness of pieces that is no accident
_MOST_RESIDUAL_MS = 3.0
_MOST_ERROR_MS = 3.0
_VISIBLE_DRIFT_S = 0.003  # less drift over all that is shared gives no second row
_COMPARED_PIECES = 16
_STEADY = 0.03  # of the logarithm of power, 0.13 dB: a steady tone
_EMPTY = 1e-10  # power of a band (a full-scale sine has about 1): less is a resampler's rounding


class SyncError(Exception):
    """The clock cannot be measured; the message is the reason."""


@dataclass(frozen=True)
class Match:
    """A measured clock."""

    # device_s, session_s: one moment (an offset) or two (a drift as well), on both clocks
    device_s: tuple[float, ...]
    session_s: tuple[float, ...]
    drift_ppm: float  # millionths by which the device's clock is fast; 0 where no drift is visible
    shared_s: float  # seconds that both recorded
    # pieces, agreeing: the number of compared pieces, and of those on the line
    pieces: int
    agreeing: int
    score: float  # the likeness of the agreeing pieces, 0 to 1
    residual_ms: float  # their distance from the line (root of the mean square)
    error_ms: float  # the largest standard error of the line within the shared seconds


@dataclass(frozen=True)
class _Line:
    """``lag = at_0 + slope * t``: the longer recording's time minus the shorter one's time ``t``, seconds."""

    at_0: float
    slope: float

    def lag(self, at: Any) -> Any:
        """The lag at times of any shape."""
        return self.at_0 + self.slope * at


def match_sound(session: SoundBands, device: SoundBands) -> Match:
    """The clock of ``device`` on that of ``session``.

    Raises:
        SyncError: it cannot be measured.
    """
    _check_sound("session's", session)
    _check_sound("track's", device)
    is_swapped = device.seconds > session.seconds
    short, long = (session, device) if is_swapped else (device, session)
    few, many = (_changes(_coarser(bands, _COARSE), _COARSE_S) for bands in (short, long))
    length = round(float(np.clip(short.seconds / 20, *_PIECE_S)) / _COARSE_S)
    search = _Search(few, many, length)
    line = search.line()
    search.check_unambiguous(line)
    fine = _refined(short, long, line, length * _COARSE)
    return _as_match(session, device, fine, is_swapped)


def _check_sound(owner: str, bands: SoundBands) -> None:
    if bands.seconds < SHORTEST_S:
        raise SyncError(f"the {owner} sound is {bands.seconds:.0f} s long: too short, {SHORTEST_S:.0f} s are needed")
    if float(np.percentile(bands.power.sum(axis=1), 99.9)) < 1e-9:
        raise SyncError(f"the {owner} sound is silent")
    if not _changes(_coarser(bands, _COARSE), _COARSE_S).any():
        raise SyncError(f"nothing changes in the {owner} sound (a steady tone): there is nothing to compare")


class _Search:
    """Pieces of the shorter recording, each searched in all of the longer one.

    Args:
        few, many: (n, bands) changes of the shorter and of the longer recording, coarse.
        length: of a piece, coarse moments.
    """

    def __init__(self, few: np.ndarray, many: np.ndarray, length: int) -> None:
        self._few, self._many, self._length = few, many, length
        self.starts = _starts(len(few), length)
        self._size = 1 << (len(many) + length - 1).bit_length()
        self._spectra = [np.fft.rfft(band, self._size) for band in many.T]
        energy = np.concatenate([[0.0], np.cumsum((many.astype(np.float64) ** 2).sum(axis=1))])
        norms = np.sqrt(np.maximum(energy[length:] - energy[:-length], 0))
        self._norms = np.maximum(norms, 0.2 * np.median(norms) + 1e-9)
        own = np.array([np.linalg.norm(few[start : start + length]) for start in self.starts])
        self.starts = self.starts[own > 0.2 * np.median(own) + 1e-9]
        matches = [self._best(self.likeness(start)) for start in self.starts.tolist()]
        positions, self._top, self._clearness, self._second = np.array(matches).reshape(-1, 4).T
        self._lags = positions - self.starts

    def likeness(self, start: int) -> np.ndarray:
        """The likeness of a piece and the longer recording, -1 to 1, for every position in the longer one."""
        piece = self._few[start : start + self._length]
        spectrum = sum(
            whole * np.fft.rfft(band, self._size).conj() for whole, band in zip(self._spectra, piece.T, strict=True)
        )
        products = np.fft.irfft(spectrum, self._size)[: len(self._many) - self._length + 1]
        return products / self._norms / max(float(np.linalg.norm(piece)), 1e-9)

    @staticmethod
    def _best(likeness: np.ndarray) -> tuple[int, float, float, float]:
        """The best position, its likeness, how many times the usual likeness that is, and the share of it elsewhere."""
        position = int(likeness.argmax())
        top = float(likeness[position])
        second = _elsewhere(likeness, position)
        return position, top, top / max(float(likeness.std()), 1e-9), second / max(top, 1e-9)

    def line(self) -> _Line:
        """The line of most pieces.

        Raises:
            SyncError: too few pieces are on one line.
        """
        times, lags = self.starts * _COARSE_S, self._lags * _COARSE_S
        line, on_line = _consensus(times, lags)
        clear = self._clearness > _CLEAR
        if (clear | (self._top > _LOUD)).sum() >= len(clear) / 2 and np.median(self._second) > _AGAIN:
            raise SyncError(_REPEATS)
        inside = self._inside(line)
        if on_line.sum() < max(_FEWEST, _SHARE / 2 * inside.sum()):
            raise SyncError(_UNRELATED)
        # Where sound was lost, or the recording was cut, clear pieces are beside the line.
        as_alike = self._top > _AGAIN * np.median(self._top[on_line])
        for at in np.flatnonzero(~on_line & ((inside & as_alike) | (clear & (self._second < _AGAIN)))).tolist():
            if self._likeness_on(line, at) < _AGAIN * self._top[at]:
                clear_pieces = on_line | as_alike
                raise SyncError(_cut(times[clear_pieces] + self._length * _COARSE_S / 2, lags[clear_pieces]))
        return line

    def _likeness_on(self, line: _Line, at: int) -> float:
        """The likeness of a piece at its position on the line; 0 outside the longer recording."""
        start = int(self.starts[at])
        position = start + round(float(line.lag(start * _COARSE_S)) / _COARSE_S)
        return float(self.likeness(start)[max(0, position - 2) : max(0, position + 3)].max(initial=0.0))

    def _inside(self, line: _Line) -> np.ndarray:
        """(pieces,) bool: whether by this line the longer recording has the piece."""
        positions = self.starts + np.round(line.lag(self.starts * _COARSE_S) / _COARSE_S)
        return (positions >= 0) & (positions <= len(self._many) - self._length)

    def check_unambiguous(self, line: _Line) -> None:
        """Refuse a line where another position is nearly as good.

        Raises:
            SyncError: another position is, or the line itself is not clear.
        """
        starts = self.starts[self._inside(line)]
        starts = starts[
            np.unique(np.linspace(0, len(starts) - 1, min(len(starts), _COMPARED_PIECES)).round().astype(int))
        ]
        middle = len(self._many)
        total, count = np.zeros(2 * middle + 1), np.zeros(2 * middle + 1)
        for start in starts:
            likeness = self.likeness(start)
            at = middle - round(start + float(line.lag(start * _COARSE_S)) / _COARSE_S)
            total[at : at + len(likeness)] += likeness
            count[at : at + len(likeness)] += 1
        enough = count >= max(1, len(starts) / 2)
        mean = np.where(enough, total / np.maximum(count, 1), 0)
        reach = round(_NEAR_S / _COARSE_S)
        position = middle - reach + int(mean[middle - reach : middle + reach + 1].argmax())
        top = float(mean[position])
        # The median, not the mean: a metronome behind the speech is alike in many positions, the speech in one.
        usual = float(np.median(np.abs(mean[enough] - np.median(mean[enough])))) * 1.48
        is_clear = top > _CLEAR * usual
        if _elsewhere(mean, position) > _AGAIN * top:
            raise SyncError(_REPEATS if is_clear or top > _LOUD else _UNRELATED)
        if not is_clear:
            raise SyncError(_UNRELATED)


_UNRELATED = "the two sounds have nothing in common: are they of the same session, and do they overlap in time?"
_REPEATS = "the sound repeats itself (music, an alarm), so it fits in more than one place"


def _cut(at: np.ndarray, lag: np.ndarray) -> str:
    """The message of a cut, by the middles of the pieces and their lags, (n,) seconds in their order.

    Two parallel lines, one for the pieces before and one for those after, fit best at the cut. The pieces beside the
    line of most pieces do not show it: that line may lean so that it comes near pieces of both sides.
    """
    fits = []
    for count in range(1, len(at)):
        columns = np.stack([np.ones(len(at)), at, np.arange(len(at)) >= count], axis=1)
        solution = np.linalg.lstsq(columns, lag, rcond=None)[0]
        fits.append((float(((columns @ solution - lag) ** 2).sum()), count, float(solution[2])))
    _, count, shift_s = min(fits)
    return (
        f"from about {(at[count - 1] + at[count]) / 2:.0f} s into the shorter sound on it is shifted by "
        f"{shift_s:+.2f} s: a recorder stopped, or lost some sound, so no one clock is right for all of it"
    )


def _starts(count: int, length: int) -> np.ndarray:
    """The beginnings of pieces of this length in ``count`` moments: one after the other, the last one at the end."""
    step = max(length, (count - length) // (_PIECES - 1))
    return np.unique(np.append(np.arange(0, count - length + 1, step), count - length))


def _elsewhere(likeness: np.ndarray, position: int) -> float:
    """The best likeness more than 0.3 s from ``position``."""
    away = round(0.3 / _COARSE_S)
    parts = likeness[: max(0, position - away)], likeness[position + away + 1 :]
    others = [part.max() for part in parts if len(part)]
    return float(max(others, default=0.0))


def _consensus(times: np.ndarray, lags: np.ndarray) -> tuple[_Line, np.ndarray]:
    """The line through two of these points that is near most of them, fitted to these; and which are near it."""
    best, on_best = _Line(0.0, 0.0), np.zeros(len(times), bool)
    for first in range(len(times)):
        slopes = np.zeros(len(times))
        apart = times != times[first]
        slopes[apart] = (lags[apart] - lags[first]) / (times[apart] - times[first])
        slopes = np.unique(np.append(slopes[np.abs(slopes) <= MOST_PPM * 1e-6], 0.0))
        near = np.abs(lags[None] - lags[first] - slopes[:, None] * (times[None] - times[first])) <= _NEAR_S
        most = int(near.sum(axis=1).argmax())
        if near[most].sum() > on_best.sum():
            best, on_best = _Line(lags[first] - slopes[most] * times[first], slopes[most]), near[most]
    if on_best.sum() > 1:
        best = _fitted(times[on_best], lags[on_best])
        on_best = np.abs(lags - best.lag(times)) <= _NEAR_S
    return best, on_best


def _fitted(times: np.ndarray, lags: np.ndarray) -> _Line:
    if len(times) < 2:
        return _Line(float(lags.mean()), 0.0)
    slope, at_0 = np.polyfit(times, lags, 1)
    return _Line(float(at_0), float(slope))


@dataclass(frozen=True)
class _Fine:
    """The result of the fine search, in seconds from the first moments of the two recordings."""

    times: np.ndarray  # the middle of each agreeing piece in the shorter recording
    lags: np.ndarray  # of these pieces
    likeness: np.ndarray  # of these pieces
    pieces: int  # the number of compared pieces


def _refined(short: SoundBands, long: SoundBands, line: _Line, length: int) -> _Fine:
    """Pieces all along, each compared with the longer recording near the coarse line."""
    few, many = _changes(short.power, SoundBands.HOP_S), _changes(long.power, SoundBands.HOP_S)
    reach = round(_REACH_S / SoundBands.HOP_S)
    times, lags, scores = [], [], []
    usual = float(np.median(np.abs(few)))
    for start in _starts(len(few), length).tolist():
        middle = start + length / 2
        first = round(start + float(line.lag(middle * SoundBands.HOP_S)) / SoundBands.HOP_S) - reach
        piece, part = few[start : start + length], many[max(0, first) : first + length + 2 * reach]
        if first < 0 or len(part) < length + 2 * reach or float(np.abs(piece).mean()) < 0.2 * usual:
            continue
        likeness = _likeness(piece, part, reach)
        position = int(likeness.argmax())
        times.append(middle * SoundBands.HOP_S)
        scores.append(float(likeness[position]))
        lags.append((first + position + _vertex(likeness, position) - start) * SoundBands.HOP_S)
    at, lag, score = np.array(times), np.array(lags), np.array(scores)
    if not len(at):
        raise SyncError(_UNRELATED)
    on_line = np.ones(len(at), bool)
    centre = _theil_sen(at, lag)
    for _ in range(5):
        before, on_line = on_line, np.abs(lag - centre.lag(at)) <= _ON_LINE_S
        if on_line.sum() < _FEWEST:
            raise SyncError(_UNRELATED)
        centre = _fitted(at[on_line], lag[on_line])
        if np.array_equal(before, on_line):
            break
    beside = ~on_line & (score > np.median(score[on_line]) / 2)
    if beside.any():
        raise SyncError(_cut(at[on_line | beside], lag[on_line | beside]))
    return _Fine(at[on_line], lag[on_line], score[on_line], len(at))


def _likeness(piece: np.ndarray, part: np.ndarray, reach: int) -> np.ndarray:
    size = 1 << (len(part) + len(piece) - 1).bit_length()
    spectrum = sum(np.fft.rfft(a, size) * np.fft.rfft(b, size).conj() for a, b in zip(part.T, piece.T, strict=True))
    products = np.fft.irfft(spectrum, size)[: 2 * reach + 1]
    inner = part[reach : len(part) - reach]
    return products / max(float(np.linalg.norm(piece) * np.linalg.norm(inner)), 1e-9)


def _vertex(likeness: np.ndarray, position: int) -> float:
    """The position of the maximum between its neighbours, from -0.5 to 0.5 moments."""
    if not 0 < position < len(likeness) - 1:
        return 0.0
    before, top, after = likeness[position - 1 : position + 2]
    bend = before - 2 * top + after
    return float(np.clip(0.5 * (before - after) / bend, -0.5, 0.5)) if bend < 0 else 0.0


def _theil_sen(times: np.ndarray, lags: np.ndarray) -> _Line:
    """The line with the median slope between any two points."""
    slopes = [
        (lags[other] - lags[first]) / (times[other] - times[first])
        for first in range(len(times))
        for other in range(first + 1, len(times))
    ]
    slope = float(np.median(slopes)) if slopes else 0.0
    return _Line(float(np.median(lags - slope * times)), slope)


def _as_match(session: SoundBands, device: SoundBands, fine: _Fine, is_swapped: bool) -> Match:
    """The clock of the device on the session's; ``is_swapped`` where the session has the shorter recording."""
    if len(fine.times) < _SHARE * fine.pieces:
        raise SyncError(f"{len(fine.times)} of {fine.pieces} pieces agree: too few to be sure")
    short, long = (session, device) if is_swapped else (device, session)
    of_short, of_long = fine.times + short.start_s, fine.times + fine.lags + long.start_s
    at, to = (of_long, of_short) if is_swapped else (of_short, of_long)
    line = _fitted(at, to - at)
    away = to - at - line.lag(at)
    residual = float(np.sqrt(np.mean(away**2)))
    if residual * 1000 > _MOST_RESIDUAL_MS:
        raise SyncError(
            f"the pieces lie {residual * 1000:.0f} ms from a line: a clock runs unevenly, or there is too much noise"
        )
    # The shared seconds, on the device's clock.
    begin = max(device.start_s, session.start_s - line.at_0)
    end = min(device.start_s + device.seconds, session.start_s + session.seconds - line.at_0)
    if end - begin < SHORTEST_S:
        raise SyncError(f"they share {max(0.0, end - begin):.0f} s: too little, {SHORTEST_S:.0f} s are needed")
    spread = float(np.sqrt(np.sum((at - at.mean()) ** 2)))
    scatter = max(residual, 0.0005) * np.sqrt(len(at) / (len(at) - 2))
    slope_error = scatter / spread
    furthest = max(abs(begin - at.mean()), abs(end - at.mean()))
    error_ms = 1000 * float(np.hypot(scatter / np.sqrt(len(at)), slope_error * furthest))
    if error_ms > _MOST_ERROR_MS:
        raise SyncError(f"the clock is known to {error_ms:.0f} ms alone: there is too much noise, or too little shared")
    if abs(line.slope) > MOST_PPM * 1e-6:
        raise SyncError(f"the clock is off by {abs(line.slope) * 1e6:.0f} ppm: more than any device's ({MOST_PPM:.0f})")
    drifts = abs(line.slope) > 2.5 * slope_error and abs(line.slope) * (end - begin) > _VISIBLE_DRIFT_S
    device_s: tuple[float, ...] = (0.0,)
    session_s: tuple[float, ...] = (round(float(np.mean(to - at)), 4),)
    if drifts:
        device_s = (float(round(begin)), float(round(end)))
        session_s = tuple(round(moment + line.at_0 + line.slope * moment, 4) for moment in device_s)
    return Match(
        device_s,
        session_s,
        -line.slope / (1 + line.slope) * 1e6 if drifts else 0.0,
        end - begin,
        fine.pieces,
        len(at),
        float(np.mean(fine.likeness)),
        residual * 1000,
        error_ms,
    )


def _changes(power: np.ndarray, hop_s: float) -> np.ndarray:
    """The changes of loudness at each moment, in each band: (n, bands) float32, 0 in a band that is steady.

    Slow changes and the overall loudness of each band are removed.
    """
    changed = np.zeros(power.shape, np.float32)
    width = max(1, round(0.25 / hop_s))
    for band in range(power.shape[1]):
        of_band = power[:, band]
        floor = max(_EMPTY, float(np.percentile(of_band, 20)), 1e-4 * float(of_band.mean()))
        level = np.log(of_band + floor)
        level -= _running_mean(level, width)
        spread = float(level.std())
        if spread > _STEADY:
            changed[:, band] = np.clip(level / spread, -3, 3)
    return changed


def _running_mean(values: np.ndarray, reach: int) -> np.ndarray:
    """The mean of each value and its ``reach`` neighbours on both sides, fewer at the ends."""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    centres = np.arange(len(values))
    first, stop = np.maximum(centres - reach, 0), np.minimum(centres + reach + 1, len(values))
    return ((total[stop] - total[first]) / (stop - first)).astype(np.float32)


def _coarser(bands: SoundBands, times: int) -> np.ndarray:
    """The mean powers of every ``times`` consecutive moments: (n // times, bands)."""
    whole = len(bands.power) // times
    return bands.power[: whole * times].reshape(whole, times, -1).mean(axis=1)
