"""How the seconds of one recording become those of another one of the same room, from their sound.

Pieces of the shorter recording are looked for in the longer one. Where pieces all along lie on one line, that is the
clock: its offset and its drift. What cannot be told beyond doubt is refused, with the reason: a clock that is wrong
would spoil everything that is made with it, and nobody would see it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.media.sound_bands import HOP_S, SoundBands, changes, coarser

SHORTEST_S = 30.0  # of sound that both must have
MOST_PPM = 500.0  # no crystal is off by as much; what seems to be was recorded at another speed
_COARSE = 5  # fine moments in a coarse one
_COARSE_S = _COARSE * HOP_S
_PIECES = 240
_PIECE_S = (5.0, 30.0)
_NEAR_S = 0.04  # a piece of the coarse search is on a line
_REACH_S = 0.1  # the fine search goes so far from where the coarse line says
_ON_LINE_S = 0.015  # a piece of the fine search is on the line
_FEWEST = 4  # pieces that two recordings must share
_SHARE = 0.5  # of the pieces that both should have
_AGAIN = 0.7  # of the best match: a second one so good means that the sound repeats itself
_CLEAR = 8.0  # how many times the usual match of places that do not belong together
_LOUD = 0.5  # how alike pieces are that are no chance
_MOST_RESIDUAL_MS = 3.0
_MOST_ERROR_MS = 3.0
_VISIBLE_DRIFT_S = 0.003  # less of it, over all that is shared, is no reason for a second row
_SHOWN_PIECES = 16


class SyncError(Exception):
    """The one's seconds cannot be told from the other's; the message is the reason, as a sentence without a subject."""


@dataclass(frozen=True)
class Match:
    """A clock that was found.

    Attributes:
        device_s, session_s: one moment (an offset) or two (a drift as well), on both clocks.
        drift_ppm: millionths by which the device's seconds are too many, as measured; 0 where none could be seen.
        shared_s: seconds that both recorded.
        pieces, agreeing: how many pieces were compared there, and how many of them lie on the line.
        score: how alike the agreeing pieces sound, 0 to 1.
        residual_ms: how far they lie from the line (root of the mean square).
        error_ms: of the line where it is known least, within what both recorded (a standard error).
    """

    device_s: tuple[float, ...]
    session_s: tuple[float, ...]
    drift_ppm: float
    shared_s: float
    pieces: int
    agreeing: int
    score: float
    residual_ms: float
    error_ms: float


@dataclass(frozen=True)
class _Line:
    """``lag = at_0 + slope * t``: what is added to the shorter recording's moment ``t`` to make it the longer one's."""

    at_0: float
    slope: float

    def lag(self, at: Any) -> Any:
        """At moments of any shape."""
        return self.at_0 + self.slope * at


def match_sound(session: SoundBands, device: SoundBands) -> Match:
    """The clock of ``device`` on that of ``session``.

    Raises:
        SyncError: it cannot be told, and why.
    """
    for name, one in (("session's", session), ("track's", device)):
        _check_sound(name, one)
    turned = device.seconds > session.seconds
    short, long = (session, device) if turned else (device, session)
    few, many = (changes(coarser(one, _COARSE), _COARSE_S) for one in (short, long))
    length = round(float(np.clip(short.seconds / 20, *_PIECE_S)) / _COARSE_S)
    search = _Search(few, many, length)
    line = search.line()
    search.check_unambiguous(line)
    fine = _refined(short, long, line, length * _COARSE)
    return _as_match(session, device, fine, turned)


def _check_sound(whose: str, bands: SoundBands) -> None:
    if bands.seconds < SHORTEST_S:
        raise SyncError(f"the {whose} sound is {bands.seconds:.0f} s long: too short, {SHORTEST_S:.0f} s are needed")
    if float(np.percentile(bands.power.sum(axis=1), 99.9)) < 1e-9:
        raise SyncError(f"the {whose} sound is silent")
    if not changes(coarser(bands, _COARSE), _COARSE_S).any():
        raise SyncError(f"nothing changes in the {whose} sound (a steady tone): there is nothing to compare")


class _Search:
    """Pieces of the shorter recording, each looked for in the whole of the longer one.

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
        found = [self._best(self.alike(start)) for start in self.starts.tolist()]
        places, self._top, self._clearness, self._second = np.array(found).reshape(-1, 4).T
        self._lags = places - self.starts

    def alike(self, start: int) -> np.ndarray:
        """How alike a piece is to the longer recording, from -1 to 1, by where it would begin there."""
        piece = self._few[start : start + self._length]
        spectrum = sum(
            whole * np.fft.rfft(band, self._size).conj() for whole, band in zip(self._spectra, piece.T, strict=True)
        )
        products = np.fft.irfft(spectrum, self._size)[: len(self._many) - self._length + 1]
        return products / self._norms / max(float(np.linalg.norm(piece)), 1e-9)

    @staticmethod
    def _best(alike: np.ndarray) -> tuple[int, float, float, float]:
        """Where it is most alike, how alike, how many times the usual that is, and what share of it is elsewhere."""
        place = int(alike.argmax())
        top = float(alike[place])
        return place, top, top / max(float(alike.std()), 1e-9), _elsewhere(alike, place) / max(top, 1e-9)

    def line(self) -> _Line:
        """The line that most of the pieces lie on.

        Raises:
            SyncError: too few do.
        """
        times, lags = self.starts * _COARSE_S, self._lags * _COARSE_S
        line, on_line = _consensus(times, lags)
        clear = self._clearness > _CLEAR
        if (clear | (self._top > _LOUD)).sum() >= len(clear) / 2 and np.median(self._second) > _AGAIN:
            raise SyncError(_REPEATS)
        inside = self._inside(line)
        if on_line.sum() < max(_FEWEST, _SHARE / 2 * inside.sum()):
            raise SyncError(_UNRELATED)
        # Sound was lost on the way, or the recording was cut: what is there lies beside the line, and is clear.
        as_alike = self._top > _AGAIN * np.median(self._top[on_line])
        for at in np.flatnonzero(~on_line & ((inside & as_alike) | (clear & (self._second < _AGAIN)))).tolist():
            if self._alike_on(line, at) < _AGAIN * self._top[at]:
                told = on_line | as_alike
                raise SyncError(_cut(times[told] + self._length * _COARSE_S / 2, lags[told]))
        return line

    def _alike_on(self, line: _Line, at: int) -> float:
        """How alike a piece is to what the line puts it to; 0 where there is nothing."""
        start = int(self.starts[at])
        place = start + round(float(line.lag(start * _COARSE_S)) / _COARSE_S)
        return float(self.alike(start)[max(0, place - 2) : max(0, place + 3)].max(initial=0.0))

    def _inside(self, line: _Line) -> np.ndarray:
        """The pieces that by this line the longer recording has too."""
        places = self.starts + np.round(line.lag(self.starts * _COARSE_S) / _COARSE_S)
        return (places >= 0) & (places <= len(self._many) - self._length)

    def check_unambiguous(self, line: _Line) -> None:
        """Refuse where another place is nearly as good as the line.

        Raises:
            SyncError: there is one, or the line itself is none of the clearest.
        """
        starts = self.starts[self._inside(line)]
        starts = starts[np.unique(np.linspace(0, len(starts) - 1, min(len(starts), _SHOWN_PIECES)).round().astype(int))]
        middle = len(self._many)
        total, count = np.zeros(2 * middle + 1), np.zeros(2 * middle + 1)
        for start in starts:
            alike = self.alike(start)
            at = middle - round(start + float(line.lag(start * _COARSE_S)) / _COARSE_S)
            total[at : at + len(alike)] += alike
            count[at : at + len(alike)] += 1
        known = count >= max(1, len(starts) / 2)
        mean = np.where(known, total / np.maximum(count, 1), 0)
        reach = round(_NEAR_S / _COARSE_S)
        place = middle - reach + int(mean[middle - reach : middle + reach + 1].argmax())
        top = float(mean[place])
        # The median, not the mean: a metronome behind the speech is alike in many places, and the speech in one.
        usual = float(np.median(np.abs(mean[known] - np.median(mean[known])))) * 1.48
        is_clear = top > _CLEAR * usual
        if _elsewhere(mean, place) > _AGAIN * top:
            raise SyncError(_REPEATS if is_clear or top > _LOUD else _UNRELATED)
        if not is_clear:
            raise SyncError(_UNRELATED)


_UNRELATED = "the two sounds have nothing in common: are they of the same session, and do they overlap in time?"
_REPEATS = "the sound repeats itself (music, an alarm), so it fits in more than one place"


def _cut(at: np.ndarray, lag: np.ndarray) -> str:
    """Where the recording was cut, by the middles of its pieces and their lags (n,), in seconds and in their order.

    Not where a piece lies beside the line that most are on: that line may lean so that it comes near pieces of both
    sides. Two parallel lines, one for what is before and one for what is after, fit best at the cut.
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
    """Where pieces of this length begin in ``count`` moments: one after the other, the last one at the end."""
    step = max(length, (count - length) // (_PIECES - 1))
    return np.unique(np.append(np.arange(0, count - length + 1, step), count - length))


def _elsewhere(alike: np.ndarray, place: int) -> float:
    """The best match more than .3 s from ``place``."""
    away = round(0.3 / _COARSE_S)
    others = [part.max() for part in (alike[: max(0, place - away)], alike[place + away + 1 :]) if len(part)]
    return float(max(others, default=0.0))


def _consensus(times: np.ndarray, lags: np.ndarray) -> tuple[_Line, np.ndarray]:
    """The line through two of these points that most of them lie on, and which do."""
    best, on_best = _Line(0.0, 0.0), np.zeros(len(times), bool)
    for one in range(len(times)):
        slopes = np.zeros(len(times))
        apart = times != times[one]
        slopes[apart] = (lags[apart] - lags[one]) / (times[apart] - times[one])
        slopes = np.unique(np.append(slopes[np.abs(slopes) <= MOST_PPM * 1e-6], 0.0))
        away = np.abs(lags[None] - lags[one] - slopes[:, None] * (times[None] - times[one])) <= _NEAR_S
        most = int(away.sum(axis=1).argmax())
        if away[most].sum() > on_best.sum():
            best, on_best = _Line(lags[one] - slopes[most] * times[one], slopes[most]), away[most]
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
    """What the fine search found, times in seconds from the first moments of the two.

    Attributes:
        times: the middle of each agreeing piece in the shorter recording.
        lags: what makes it the longer one's.
        alike: how alike each is.
        pieces: how many were compared.
    """

    times: np.ndarray
    lags: np.ndarray
    alike: np.ndarray
    pieces: int


def _refined(short: SoundBands, long: SoundBands, line: _Line, length: int) -> _Fine:
    """Pieces all along, each compared with what lies near the coarse line."""
    few, many = changes(short.power, HOP_S), changes(long.power, HOP_S)
    reach = round(_REACH_S / HOP_S)
    times, lags, alikes = [], [], []
    usual = float(np.median(np.abs(few)))
    for start in _starts(len(few), length).tolist():
        middle = start + length / 2
        first = round(start + float(line.lag(middle * HOP_S)) / HOP_S) - reach
        piece, there = few[start : start + length], many[max(0, first) : first + length + 2 * reach]
        if first < 0 or len(there) < length + 2 * reach or float(np.abs(piece).mean()) < 0.2 * usual:
            continue
        alike = _alike(piece, there, reach)
        place = int(alike.argmax())
        times.append(middle * HOP_S)
        alikes.append(float(alike[place]))
        lags.append((first + place + _vertex(alike, place) - start) * HOP_S)
    at, lag, score = np.array(times), np.array(lags), np.array(alikes)
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


def _alike(piece: np.ndarray, there: np.ndarray, reach: int) -> np.ndarray:
    size = 1 << (len(there) + len(piece) - 1).bit_length()
    spectrum = sum(np.fft.rfft(a, size) * np.fft.rfft(b, size).conj() for a, b in zip(there.T, piece.T, strict=True))
    products = np.fft.irfft(spectrum, size)[: 2 * reach + 1]
    inner = there[reach : len(there) - reach]
    return products / max(float(np.linalg.norm(piece) * np.linalg.norm(inner)), 1e-9)


def _vertex(alike: np.ndarray, place: int) -> float:
    """Where between its neighbours the highest value would be, from -.5 to .5."""
    if not 0 < place < len(alike) - 1:
        return 0.0
    before, top, after = alike[place - 1 : place + 2]
    bend = before - 2 * top + after
    return float(np.clip(0.5 * (before - after) / bend, -0.5, 0.5)) if bend < 0 else 0.0


def _theil_sen(times: np.ndarray, lags: np.ndarray) -> _Line:
    """The line of the middle slope between any two points."""
    slopes = [
        (lags[other] - lags[one]) / (times[other] - times[one])
        for one in range(len(times))
        for other in range(one + 1, len(times))
    ]
    slope = float(np.median(slopes)) if slopes else 0.0
    return _Line(float(np.median(lags - slope * times)), slope)


def _as_match(session: SoundBands, device: SoundBands, fine: _Fine, turned: bool) -> Match:
    """The clock, of the device on the session's, whichever of the two was the shorter one."""
    if len(fine.times) < _SHARE * fine.pieces:
        raise SyncError(f"{len(fine.times)} of {fine.pieces} pieces agree: too few to be sure")
    one, other = (session, device) if turned else (device, session)
    first, second = fine.times + one.start_s, fine.times + fine.lags + other.start_s
    at, to = (second, first) if turned else (first, second)
    line = _fitted(at, to - at)
    away = to - at - line.lag(at)
    residual = float(np.sqrt(np.mean(away**2)))
    if residual * 1000 > _MOST_RESIDUAL_MS:
        raise SyncError(
            f"the pieces lie {residual * 1000:.0f} ms from a line: a clock runs unevenly, or there is too much noise"
        )
    # What both recorded, on the device's clock.
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
    moments: tuple[float, ...] = (0.0,)
    there: tuple[float, ...] = (round(float(np.mean(to - at)), 4),)
    if drifts:
        moments = (float(round(begin)), float(round(end)))
        there = tuple(round(moment + line.at_0 + line.slope * moment, 4) for moment in moments)
    return Match(
        moments,
        there,
        -line.slope / (1 + line.slope) * 1e6 if drifts else 0.0,
        end - begin,
        fine.pieces,
        len(at),
        float(np.mean(fine.alike)),
        residual * 1000,
        error_ms,
    )
