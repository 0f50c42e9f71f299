"""A recording's sound as a stream of pieces that are cut in silences, with the stretches in which somebody speaks.

One piece is in memory at a time, so memory does not grow with the recording. Voice is found by the Silero VAD that
faster-whisper brings (its weights are in the wheel).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from storyframes_transcribe.vad import RATE, ROW, speech_probability, speech_spans
from tasks.media import AudioBlock

__all__ = ["RATE", "Damage", "Piece", "pack", "voiced_pieces"]

PIECE_S = 240.0  # of sound in memory; a batch of eight packs fits
PACK_S = 30.0  # as much sound as Whisper reads at once
_PAUSE_S = 0.1  # a shorter one is part of the voice
_JOINED_S = 0.16  # stretches with a shorter pause are one, unless it would be too long
_MARGIN_S = 0.4  # of sound before and after a stretch, as far as there is silence
_LONGEST_S = PACK_S - 2 * _MARGIN_S
_EARLIER_S, _LATER_S = 0.06, 0.03  # by so much voice may begin before or after the 32 ms that have it first
_STEP = RATE // 100  # samples whose level is measured
_OVER_SILENCE_DB, _BELOW_VOICE_DB = (
    12.0,
    25.0,
)  # voice is louder than the silence before it, and not much softer than later
_MAY_GO_ON_S = 1.0  # a stretch that ends so near to the end of a piece may go on in the next


@dataclass
class Damage:
    """How much of a recording's sound does not decode; ``packets`` are those so far."""

    packets: int = 0

    def count(self, blocks: Iterable[AudioBlock]) -> Iterator[AudioBlock]:
        """The same blocks, counted as they pass."""
        for block in blocks:
            self.packets += block.damaged
            yield block


@dataclass(frozen=True)
class Piece:
    """Consecutive sound of a recording.

    Attributes:
        start_s: of the first sample, seconds of the recording.
        samples: (n,) float32 at :data:`RATE`.
        stretches: (first, stop) samples in which somebody speaks, in order, with some silence around them, each of at
            most 30 s.
        voice: (k, 2) seconds of the recording, when somebody speaks, without that silence.
    """

    start_s: float
    samples: np.ndarray
    stretches: tuple[tuple[int, int], ...]
    voice: np.ndarray

    @property
    def end_s(self) -> float:
        return self.start_s + len(self.samples) / RATE

    def level_db(self, start_s: float, end_s: float) -> float:
        """The level between two times of the recording, dB of full scale (RMS); at least -120."""
        first, stop = (round((time - self.start_s) * RATE) for time in (start_s, end_s))
        part = self.samples[max(first, 0) : max(stop, first + 1)]
        power = float(np.mean(np.square(part, dtype=np.float64))) if len(part) else 0.0
        return 10 * float(np.log10(max(power, 1e-12)))


def voiced_pieces(blocks: Iterable[AudioBlock], threshold: float, piece_s: float = PIECE_S) -> Iterator[Piece]:
    """The sound in pieces of about ``piece_s`` seconds.

    Args:
        blocks: at :data:`RATE`, each beginning where the one before it ends.
        threshold: probability from which on sound counts as voice.
    """
    held: list[np.ndarray] = []
    times: list[float] = []

    def keep() -> Iterator[np.ndarray]:
        for block in blocks:
            times.append(block.time)
            held.append(block.samples)
            yield block.samples

    rows, done = np.zeros(0, np.float32), 0
    for more in speech_probability(keep()):
        rows = np.concatenate([rows, more])
        if len(rows) * ROW < piece_s * RATE:
            continue
        samples = np.concatenate(held)
        voice = _voice(rows, threshold)
        stretches = _stretches(voice, len(samples))
        whole = [one for one in stretches if one[1] <= len(rows) * ROW - _MAY_GO_ON_S * RATE]
        cut = stretches[len(whole)][0] // ROW if len(whole) < len(stretches) else len(rows)
        if cut == 0:
            continue
        yield _piece(times[0] + done * ROW / RATE, samples[: cut * ROW], whole, voice)
        held[:] = [samples[cut * ROW :].copy()]
        rows, done = rows[cut:], done + cut
    samples = np.concatenate([np.zeros(0, np.float32), *held])
    if len(samples):
        voice = _voice(rows, threshold)
        yield _piece(times[0] + done * ROW / RATE, samples, _stretches(voice, len(samples)), voice)


def _piece(start_s: float, samples: np.ndarray, stretches: Sequence[tuple[int, int]], voice: np.ndarray) -> Piece:
    inside = tuple((first, min(stop, len(samples))) for first, stop in stretches)
    last = inside[-1][1] if inside else 0
    exact = _with_onsets(samples, np.minimum(voice[voice[:, 0] < last], len(samples)))
    return Piece(start_s, samples, inside, start_s + exact / RATE)


def _with_onsets(samples: np.ndarray, voice: np.ndarray) -> np.ndarray:
    """The same voice, beginning where the level rises: the network notices unvoiced sounds late."""
    exact = voice.copy()
    for number, (first, stop) in enumerate(voice.tolist()):
        silence = _levels_db(samples[max(first - RATE // 2, 0) : max(first - RATE // 10, 0)])
        loud = _levels_db(samples[first : min(first + RATE * 3 // 10, stop)])
        earliest = max(first - round(_EARLIER_S * RATE), int(voice[number - 1, 1]) if number else 0)
        before = _levels_db(samples[earliest + (first - earliest) % _STEP : first])
        if not (len(silence) and len(loud)):
            continue
        least_db = max(np.median(silence) + _OVER_SILENCE_DB, np.percentile(loud, 90) - _BELOW_VOICE_DB)
        if loud[0] >= least_db:
            exact[number, 0] -= _STEP * sum(1 for _ in itertools.takewhile(least_db.__le__, before[::-1]))
        else:
            rises = np.flatnonzero(loud[: round(_LATER_S * RATE) // _STEP] >= least_db)
            exact[number, 0] += _STEP * int(rises[0]) if len(rises) else 0
    return exact


def _levels_db(samples: np.ndarray) -> np.ndarray:
    """The level of each 10 ms, dB of full scale."""
    steps = samples[: len(samples) // _STEP * _STEP].reshape(-1, _STEP)
    return np.asarray(10 * np.log10(np.maximum(np.mean(np.square(steps, dtype=np.float64), axis=1), 1e-12)))


def _voice(probability: np.ndarray, threshold: float) -> np.ndarray:
    """(k, 2) int: the samples in which somebody speaks."""
    middles = (np.arange(len(probability)) + 0.5) * (ROW / RATE)
    spans = speech_spans(probability, middles, threshold=threshold, pause_s=_PAUSE_S)
    return np.round(spans * RATE).astype(np.int64)


def _stretches(voice: np.ndarray, length: int) -> list[tuple[int, int]]:
    """Voice with its margins, joined where the pauses are short."""
    longest, margin = round(_LONGEST_S * RATE), round(_MARGIN_S * RATE)
    joined: list[tuple[int, int]] = []
    for first, stop in voice.tolist():
        if joined and first - joined[-1][1] < _JOINED_S * RATE and stop - joined[-1][0] <= longest:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined += [(at, min(at + longest, stop)) for at in range(first, stop, longest)]
    if not joined:
        return []
    middles = [(stop + first) // 2 for (_, stop), (first, _) in itertools.pairwise(joined)]
    return [
        (max(first - margin, earliest), min(stop + margin, latest))
        for (first, stop), earliest, latest in zip(joined, [0, *middles], [*middles, length], strict=True)
    ]


def pack(stretches: Iterable[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Consecutive stretches that together are at most 30 s: what Whisper reads at once."""
    packs: list[list[tuple[int, int]]] = []
    room = 0
    for first, stop in stretches:
        if not packs or stop - first > room:
            packs.append([])
            room = round(PACK_S * RATE)
        packs[-1].append((first, stop))
        room -= stop - first
    return packs
