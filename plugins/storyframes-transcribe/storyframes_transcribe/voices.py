"""A recording's sound as a stream of pieces that are cut in silences, with the stretches in which somebody speaks.

One piece is in memory at a time, so memory does not grow with the recording. Voice is found by the Silero VAD that
faster-whisper brings (its weights are in the wheel).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from faster_whisper.vad import VadOptions, get_speech_timestamps

from tasks.media.sound import AudioBlock

RATE = 16_000
PIECE_S = 240.0  # of sound in memory; a batch of eight stretches fits
STRETCH_S = 30.0  # as much sound as Whisper reads at once
_JOINED_S = 1.0  # stretches less far apart are one: the model understands more of a longer one
_MAY_GO_ON_S = 1.0  # a stretch that ends so near to the end of a piece may go on in the next


@dataclass(frozen=True)
class Piece:
    """Consecutive sound of a recording.

    Attributes:
        start_s: of the first sample, seconds of the recording.
        samples: (n,) float32 at :data:`RATE`.
        stretches: (first, stop) samples in which somebody speaks, in order, each of at most 30 s.
    """

    start_s: float
    samples: np.ndarray
    stretches: tuple[tuple[int, int], ...]

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
    options = VadOptions(threshold=threshold, min_silence_duration_ms=160, max_speech_duration_s=STRETCH_S)
    held: list[np.ndarray] = []
    start_s, count = None, 0
    for block in blocks:
        start_s = block.time if start_s is None else start_s
        held.append(block.samples)
        count += len(block.samples)
        if count < piece_s * RATE:
            continue
        samples = np.concatenate(held)
        voiced = get_speech_timestamps(samples, options)
        whole = [one for one in voiced if one["end"] <= len(samples) - _MAY_GO_ON_S * RATE]
        cut = voiced[len(whole)]["start"] if len(whole) < len(voiced) else len(samples)
        yield Piece(start_s, samples[:cut], _joined(whole))
        held, count = [samples[cut:].copy()], len(samples) - cut
        start_s += cut / RATE
    if start_s is not None and count:
        samples = np.concatenate(held)
        yield Piece(start_s, samples, _joined(get_speech_timestamps(samples, options)))


def _joined(voiced: Iterable[dict[str, int]]) -> tuple[tuple[int, int], ...]:
    stretches: list[tuple[int, int]] = []
    for one in voiced:
        first, stop = one["start"], one["end"]
        if stretches and first - stretches[-1][1] < _JOINED_S * RATE and stop - stretches[-1][0] <= STRETCH_S * RATE:
            stretches[-1] = (stretches[-1][0], stop)
        else:
            stretches.append((first, stop))
    return tuple(stretches)
