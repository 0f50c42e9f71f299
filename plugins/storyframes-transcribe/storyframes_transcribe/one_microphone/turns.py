"""When each of several voices speaks on one microphone: vectors of short windows, grouped into voices, and smoothed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from storyframes_transcribe.voices import RATE, Piece

VOICE_RULES = 2
"""Number of the rules by which windows become speakers. Raise it where they change."""

STEP_S = 0.25
WINDOW_S = 1.6
_LEAST_S = 0.8  # of a window at the begin or the end of voice
_WHOLE_S = 1.2  # windows from this length on show which voices there are
_SHARPNESS = 40.0  # of two voices whose cosines with a window differ by 0.1, one is e**4 times as likely
_CHANGE = 0.1  # the probability that another voice goes on after a step
_ROUNDS = 15  # at most
_SURE = 0.9  # windows of which a voice is learned
_DISTINCT = 0.2  # the silhouette coefficient below which groups are probably no voices
_BETWEEN = 0.4  # of the usual difference of two voices: less is doubtful
_NEGLIGIBLE = 1e-6  # no pause is as short, and no difference of probabilities counts
_NEAR_S = 0.3  # a word so far from voice is attributed as the voice is
Embed = Callable[[Sequence[np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class Windows:
    """The voice of a recording in short windows.

    Attributes:
        start_s, end_s: (n,) of the step in the middle of each window, seconds of the recording.
        seconds: (n,) how long each window is.
        vectors: (n, d) of length 1.
    """

    start_s: np.ndarray
    end_s: np.ndarray
    seconds: np.ndarray
    vectors: np.ndarray

    @staticmethod
    def read(pieces: Iterable[Piece], embed: Embed) -> Windows:
        """The windows of all voice; one piece of sound is in memory at a time."""
        steps, seconds = [np.zeros((0, 2))], [np.zeros(0)]
        vectors: list[np.ndarray] = []
        for piece in pieces:
            sounds: list[np.ndarray] = []
            for start_s, end_s in piece.voice.tolist():
                edges = np.linspace(start_s, end_s, max(round((end_s - start_s) / STEP_S), 1) + 1)
                steps.append(np.stack([edges[:-1], edges[1:]], axis=1))
                sounds += [_window(piece, middle, start_s, end_s) for middle in (edges[:-1] + edges[1:]) / 2]
            if sounds:
                seconds.append(np.array([len(sound) / RATE for sound in sounds]))
                vectors.append(embed(sounds))
        spans = np.concatenate(steps)
        stacked = np.concatenate(vectors) if vectors else np.zeros((0, 1))
        return Windows(spans[:, 0], spans[:, 1], np.concatenate(seconds), stacked)


def _window(piece: Piece, middle: float, start_s: float, end_s: float) -> np.ndarray:
    """The sound around a time of a stretch of voice, as far as the stretch goes, in tenths of a second."""
    first = min(max(middle - WINDOW_S / 2, start_s), max(end_s - _LEAST_S, start_s))
    stop = max(min(middle + WINDOW_S / 2, end_s), min(start_s + _LEAST_S, end_s))
    count = max(round((stop - first) * 10), 1) * RATE // 10  # few lengths, so that many windows are computed together
    at = max(round((first - piece.start_s) * RATE), 0)
    sound = piece.samples[at : at + count]
    return np.pad(sound, (0, count - len(sound)))


@dataclass(frozen=True)
class Turns:
    """Who speaks when.

    Attributes:
        start_s, end_s: (n,) steps with voice, seconds of the recording.
        probability: (n, voices) of each voice; somebody speaks.
        centres: (voices, d) what each voice is like.
        is_doubtful: (n,) bool, whether it is nearly as much like another voice, as where two speak.
        is_distinct: whether the groups look like different voices.
    """

    start_s: np.ndarray
    end_s: np.ndarray
    probability: np.ndarray
    centres: np.ndarray
    is_doubtful: np.ndarray
    is_distinct: bool

    def of_spans(self, spans: Sequence[tuple[float, float]], least: float) -> list[int | None]:
        """The voice of each word, from its start to its end; None where none is as probable as ``least``."""
        means = [share @ self.probability for share in self._shares(spans)]
        most = [mean.max(initial=0.0) for mean in means]
        return [
            int(mean.argmax()) if share >= least and share > 0.5 else None  # of two at once neither
            for mean, share in zip(means, most, strict=True)
        ]

    def are_doubtful(self, spans: Sequence[tuple[float, float]]) -> list[bool]:
        """Whether each word may be of several voices: most of it is like none, or like two."""
        return [bool(share @ self.is_doubtful > 0.5) for share in self._shares(spans)]

    def share_inside(self, spans: Sequence[tuple[float, float]]) -> float:
        """The share of all words' time in which somebody speaks; 1 without words."""
        inside = [(np.minimum(self.end_s, end) - np.maximum(self.start_s, start)).clip(0).sum() for start, end in spans]
        return float(np.sum(inside) / max(sum(end - start for start, end in spans), 1e-9)) if spans else 1.0

    def runs(self, least: float) -> list[tuple[float, float, int, float]]:
        """Start, end, voice and mean probability of each turn: consecutive steps of one most probable voice.

        A turn ends where its probability rises to ``least`` or falls below it. Where several voices are as probable,
        each has a turn, as where turns of another program overlap.
        """
        most = self.probability.max(axis=1, initial=0.0)[:, None]
        is_best = (self.probability >= most - _NEGLIGIBLE) & (most > 0)
        sure = np.minimum(most[:, 0] * is_best.sum(axis=1), 1.0)
        is_later = np.append(True, ~np.isclose(self.start_s[1:], self.end_s[:-1], rtol=0, atol=_NEGLIGIBLE))
        found = []
        for voice, of_voice in enumerate(is_best.T):
            steps = np.flatnonzero(of_voice)
            begins = (np.diff(steps) > 1) | is_later[steps[1:]] | (np.diff(sure[steps] >= least) != 0)
            for turn in filter(len, np.split(steps, np.flatnonzero(begins) + 1)):
                start_s, end_s = float(self.start_s[turn[0]]), float(self.end_s[turn[-1]])
                found.append((round(start_s, 3), round(end_s, 3), voice, round(float(sure[turn].mean()), 4)))
        return sorted(found)

    def _shares(self, spans: Sequence[tuple[float, float]]) -> Iterator[np.ndarray]:
        """(n,) the share of each word that is in each step; between two stretches of voice the nearest."""
        for start_s, end_s in spans:
            share = np.maximum(np.minimum(self.end_s, end_s) - np.maximum(self.start_s, start_s), 0.0)
            if not share.any():
                away = np.maximum(self.start_s - end_s, start_s - self.end_s)
                share = ((away == away.min(initial=np.inf)) & (away <= _NEAR_S)).astype(np.float64)
            yield share / max(float(share.sum()), 1e-9)


def find_turns(windows: Windows, count: int, enrolled: Sequence[np.ndarray] = ()) -> Turns:
    """Which of ``count`` voices speaks in each window.

    Args:
        enrolled: vectors of all voices, in whose order they are found: the recording's own windows then say more
            of each voice. Without these, voices are grouped, and are in the order in which they are first heard.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    vectors = windows.vectors
    if len(vectors) <= count:
        nobody = np.zeros((len(vectors), count))
        centres, doubtful = np.zeros((count, vectors.shape[1])), np.ones(len(vectors), bool)
        return Turns(windows.start_s, windows.end_s, nobody, centres, doubtful, is_distinct=False)
    is_whole = windows.seconds >= min(_WHOLE_S, float(np.median(windows.seconds)))
    is_whole = is_whole if is_whole.sum() > count else np.ones(len(vectors), bool)
    is_known = len(enrolled) == count
    if is_known:
        centres = np.stack(enrolled)
    else:
        labels = KMeans(count, n_init=10, random_state=0).fit_predict(vectors[is_whole])
        centres = _unit(np.stack([vectors[is_whole][labels == voice].mean(axis=0) for voice in range(count)]))
    for _ in range(_ROUNDS):
        probability = _smoothed(windows, centres)
        weights = np.where(probability >= _SURE, probability, 0.0) * windows.seconds[:, None]
        if not weights.any(axis=0).all():
            break
        before, centres = centres, _unit(weights.T @ vectors)
        if np.allclose(before, centres):
            break
    probability = _smoothed(windows, centres)
    most = probability.argmax(axis=1)
    is_distinct = count == 1 or (
        len({*most[is_whole].tolist()}) == count
        and silhouette_score(vectors[is_whole], most[is_whole], metric="cosine", sample_size=2000, random_state=0)
        >= _DISTINCT
    )
    order = (
        np.arange(count)
        if is_known
        else np.argsort(
            [np.append(np.flatnonzero(most == voice), len(most))[0] for voice in range(count)], kind="stable"
        )
    )
    doubtful = _are_between(vectors @ centres.T)
    return Turns(windows.start_s, windows.end_s, probability[:, order], centres[order], doubtful, is_distinct)


def _are_between(cosines: np.ndarray) -> np.ndarray:
    """(n,) bool: the difference to the next voice, over three windows, is small for this recording."""
    if cosines.shape[1] == 1:
        return np.zeros(len(cosines), bool)
    margin = np.ptp(np.sort(cosines, axis=1)[:, -2:], axis=1)
    mean = np.lib.stride_tricks.sliding_window_view(np.pad(margin, 1, mode="edge"), 3).mean(axis=1)
    return np.asarray(mean < _BETWEEN * np.median(mean))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))


def _smoothed(windows: Windows, centres: np.ndarray) -> np.ndarray:
    """(n, voices) the probability of each voice, given all windows (a Markov chain, forwards and backwards)."""
    weight = np.sqrt(np.minimum(windows.seconds / WINDOW_S, 1.0))[:, None]
    odds = _SHARPNESS * weight * (windows.vectors @ centres.T)
    likely = np.exp(odds - odds.max(axis=1, keepdims=True))
    count, voices = likely.shape
    pause_s = np.append(0.0, np.maximum(windows.start_s[1:] - windows.end_s[:-1], 0.0))
    change = np.minimum(_CHANGE * (1 + 2 * pause_s / STEP_S), 1 - 1 / voices)

    def moved(before: np.ndarray, step: int) -> np.ndarray:
        return np.asarray(before * (1 - change[step]) + (before.sum() - before) * change[step] / max(voices - 1, 1))

    forward, backward = np.empty((count, voices)), np.ones((count, voices))
    for step in range(count):
        forward[step] = likely[step] * (moved(forward[step - 1], step) if step else 1.0)
        forward[step] /= forward[step].sum()
    for step in range(count - 2, -1, -1):
        backward[step] = moved(backward[step + 1] * likely[step + 1], step + 1)
        backward[step] /= backward[step].sum()
    return np.asarray(_normalised(forward * backward))


def _normalised(weights: np.ndarray) -> np.ndarray:
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def match_voices(
    centres: np.ndarray, enrolled: Sequence[tuple[str, np.ndarray]], persons: Sequence[str]
) -> dict[int, str]:
    """By voice, whose it is; only what is clear.

    Args:
        centres: (voices, d).
        enrolled: persons and the vectors of their recordings.
        persons: all who may speak; if all others are found, the last one is the voice that is left.
    """
    from scipy.optimize import linear_sum_assignment

    owners = {}
    if enrolled:
        cosines = np.stack([vector for _, vector in enrolled]) @ centres.T
        for row, voice in zip(*linear_sum_assignment(-cosines), strict=True):
            others = np.delete(cosines[row], voice)
            if cosines[row, voice] - others.max(initial=-1.0) >= np.log(_SURE / (1 - _SURE)) / _SHARPNESS:
                owners[int(voice)] = enrolled[row][0]
    unknown, left = [*{*range(len(centres))} - {*owners}], [*{*persons} - {*owners.values()}]
    if len(unknown) == len(left) == 1 and left[0] not in dict(enrolled):
        owners[unknown[0]] = left[0]
    return owners
