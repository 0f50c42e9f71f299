"""The language of recordings that neither the tables nor the settings name: what the model takes their voices for.

The microphones of a session hear one conversation, so they are listened to together and have one language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from storyframes_transcribe.languages import Language
from storyframes_transcribe.voices import RATE, Piece

_MOST_WINDOWS = 3  # of each recording
_WINDOW_S = 30.0  # as much sound as Whisper reads at once

Listen = Callable[[np.ndarray], Mapping[str, float]]
"""The probability of each language, by its code, in at most 30 s of voice at 16 kHz."""


def detect_language(recordings: Sequence[Iterable[Piece]], listen: Listen) -> Language | None:
    """The language of recordings of one conversation; None where nobody speaks.

    Each is listened to for up to three times 30 s of voice, until the mean of the probabilities is certain.
    """
    windows = [islice(voice_windows(pieces), _MOST_WINDOWS) for pieces in recordings]
    heard: list[Mapping[str, float]] = []
    best = None
    for _ in range(_MOST_WINDOWS):
        heard += [listen(samples) for one in windows if (samples := next(one, None)) is not None]
        codes = {code for probabilities in heard for code in probabilities}
        if not codes:
            return None
        means = {code: sum(each.get(code, 0.0) for each in heard) / len(heard) for code in codes}
        code = max(sorted(means), key=means.__getitem__)
        best = Language(code, round(means[code], 4))
        if not best.is_guess:
            return best
    return best


def voice_windows(pieces: Iterable[Piece]) -> Iterator[np.ndarray]:
    """The voices of a recording without its pauses, in windows of 30 s; the last one is shorter."""
    size = round(_WINDOW_S * RATE)
    waiting = np.empty(0, np.float32)
    for piece in pieces:
        for first, stop in piece.stretches:
            waiting = np.concatenate([waiting, piece.samples[first:stop]])
            while len(waiting) >= size:
                yield waiting[:size]
                waiting = waiting[size:]
    if len(waiting):
        yield waiting
