"""Who speaks: the model of ``speaking``, fitted and checked on conversations composed of recorded voices.

    python -m benchmarks.extracting.speaking [--fit] [--conversations 16]

``make voices`` fetches the voices, eight professional speakers of five languages. The conversations
(``tests/support/voices/talks.py``) are a minute long, of two to four of them in five rooms. The probabilities of a
person in a room come from a model that was fitted without all conversations in this room or with this voice.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import numpy as np
from support.media.conversations import FPS, RATE
from support.media.recordings import write_wave
from support.voices.human import VOICES
from support.voices.talks import ROOMS, compose_talk

from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from storyframes.speaking import Speech, attribute
from storyframes.times import SESSION_CLOCK
from tasks.media import speech
from tasks.media.sound_bands import SoundBands

EACH = "floor+others"
NAMES = {
    EACH: "a microphone each",
    "floor": "one microphone, anybody's speech",
    "floor+others+mouth": "a microphone each, and the mouth",
    "floor+mouth": "one microphone and the mouth",
}
_KINDS = ("talk", "talk", "slow", "talk", "nonstop", "talk", "lecture", "monologue")
_WORD_STEPS = 3
_LEAST = 0.9  # of a word's speaker


@dataclass(frozen=True)
class Example:
    """One person in one conversation.

    Attributes:
        talk, room, kind: the number of the conversation, its room and its style.
        voices: of the conversation, the person's own first.
        evidence: by model.
        speaks, overlaps, anybody: (steps,) bool: whether the person does, and another one as well, and anybody does.
        leads: (steps,) bool: whether nobody's voice is louder.
        varies: whether the noise of a microphone of the conversation varies.
    """

    talk: int
    room: str
    kind: str
    voices: tuple[str, ...]
    evidence: dict[str, np.ndarray]
    speaks: np.ndarray
    overlaps: np.ndarray
    anybody: np.ndarray
    leads: np.ndarray
    varies: bool

    def truth(self, model: str) -> np.ndarray:
        """What the model should find."""
        return self.anybody if model == "floor" else self.speaks


def examples(count: int, only: str = "", *, has_gain: bool = False) -> Iterable[Example]:
    """The persons of so many conversations in each room, of several styles or only of one."""
    for seed in range(count * len(ROOMS)):
        name, number = list(ROOMS)[seed % len(ROOMS)], seed // len(ROOMS)
        generator = np.random.default_rng(seed)
        voices = generator.choice([*VOICES], (2, 2, 3, 2, 4)[number % 5], replace=False).tolist()
        room, kind = ROOMS[name], only or _KINDS[number % len(_KINDS)]
        crosstalk, snr = room.crosstalk_db + generator.uniform(-2, 2), room.snr_db + generator.uniform(-3, 3)
        talk = compose_talk(
            seed, voices, replace(room, crosstalk_db=crosstalk, snr_db=snr, has_gain=has_gain), style=kind
        )
        steps = talk.speaks.shape[1]
        bands = [bands_of(sound) for sound in (*talk.microphones, talk.room)]
        levels = [of_one.levels(SESSION_CLOCK, SESSION_CLOCK, steps, speech.STEP_S) for of_one in bands]
        *heard, middle = [SoundBands.over_floor(level) for level in levels]
        for person, speaks in enumerate(talk.speaks):
            opening = talk.mouths[person]
            mouth = speech.mouth_movement(np.arange(len(opening)) / FPS, opening, steps)
            others = [level for other, level in enumerate(heard) if other != person]
            evidence = {
                EACH: speech.evidence(heard[person], others, None),
                "floor": speech.evidence(middle, (), None),
                "floor+others+mouth": speech.evidence(heard[person], others, mouth),
                "floor+mouth": speech.evidence(middle, (), mouth),
            }
            yield Example(
                talk=seed + len(only) * 10_000,
                room=name,
                kind=kind,
                voices=(voices[person], *voices[:person], *voices[person + 1 :]),
                evidence=evidence,
                speaks=speaks,
                overlaps=speaks & np.delete(talk.speaks, person, axis=0).any(axis=0),
                anybody=talk.speaks.any(axis=0),
                leads=talk.loudness[person] >= talk.loudness.max(axis=0),
                varies=any(of_one.has_varying_noise for of_one in bands[:-1]),
            )


def bands_of(sound: np.ndarray, rate: int = RATE) -> SoundBands:
    """What ``speaking`` reads of a sound."""
    with tempfile.TemporaryDirectory() as folder:
        return SoundBands.read(write_wave(Path(folder) / "a.wav", sound * 32767, rate), None)


def fit(pairs: Sequence[tuple[np.ndarray, np.ndarray]], start: np.ndarray | None = None) -> np.ndarray:
    """The coefficients of a logistic model by Newton's method, with a weight of 1 that draws them to 0.

    Args:
        pairs: terms and truth.
        start: coefficients that are nearly right.
    """
    x, y = (np.concatenate(part) for part in zip(*pairs, strict=True))
    is_known = ~np.isnan(x).any(axis=1)
    x, y = x[is_known], y[is_known]
    weights = np.zeros(x.shape[1]) if start is None else start
    for _ in range(12):
        p = 1 / (1 + np.exp(-x @ weights))
        curvature = (x.T * (p * (1 - p))) @ x + np.eye(len(weights))
        step = np.linalg.solve(curvature, x.T @ (y - p) - weights)
        weights = weights + step
        if np.abs(step).max() < 1e-3:
            break
    return weights


def _terms(example: Example, model: str) -> np.ndarray:
    return speech.terms(example.evidence[model], speech.kinds_of(model))


def cross_checked(found: Sequence[Example], model: str) -> list[np.ndarray]:
    """Of each example the probabilities by a model that was fitted without its room and without its voice."""
    terms = [_terms(example, model) for example in found]
    everything = fit([(of_one, example.truth(model)) for of_one, example in zip(terms, found, strict=True)])
    fitted: dict[tuple[str, str], np.ndarray] = {}
    probabilities = []
    for number, example in enumerate(found):
        left_out = (example.room, example.voices[0])
        if left_out not in fitted:
            fitted[left_out] = fit(
                [
                    (of_other, other.truth(model))
                    for of_other, other in zip(terms, found, strict=True)
                    if other.room != left_out[0] and left_out[1] not in other.voices
                ],
                everything,
            )
        probabilities.append(1 / (1 + np.exp(-terms[number] @ fitted[left_out])))
    return probabilities


@dataclass(frozen=True)
class Judged:
    """Some examples with what was said of them, of which measures are made."""

    examples: Sequence[Example]
    probabilities: Sequence[np.ndarray]
    model: str = EACH

    def where(self, column: str, value: object) -> Judged:
        """Those examples in which a field has this value."""
        numbers = [n for n, example in enumerate(self.examples) if getattr(example, column) == value]
        return self.drawn(numbers)

    def drawn(self, numbers: Sequence[int]) -> Judged:
        """The examples with these numbers."""
        return Judged([self.examples[n] for n in numbers], [self.probabilities[n] for n in numbers], self.model)

    def measures(self) -> tuple[float, ...]:
        """Steps right, Brier score, calibration error, steps of overlap found."""
        p = np.concatenate(self.probabilities)
        y = np.concatenate([example.truth(self.model) for example in self.examples])
        overlaps = np.concatenate([example.overlaps for example in self.examples])
        bins = np.minimum((p * 10).astype(int), 9)
        error = sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in set(bins.tolist()))
        both = np.mean(p[overlaps] > 0.5) if overlaps.any() else np.nan
        return float(np.mean((p > 0.5) == y)), float(np.mean((p - y) ** 2)), float(error), float(both)

    def cells(self) -> list[str]:
        """The measures, each with the interval in which it is in 95 of 100 draws of the conversations."""
        talks = sorted({example.talk for example in self.examples})
        numbers = {talk: [n for n, example in enumerate(self.examples) if example.talk == talk] for talk in talks}
        generator = np.random.default_rng(0)
        draws = []
        for _ in range(200):
            chosen = [n for talk in generator.choice(talks, len(talks)) for n in numbers[talk]]
            draws.append(self.drawn(chosen).measures())
        low, high = np.nanpercentile(np.array(draws), [2.5, 97.5], axis=0)
        right, brier, error, both = zip(self.measures(), low, high, strict=True)
        as_number = "{:.3f} ({:.3f} to {:.3f})".format
        as_share = "{:.1%} ({:.1%} to {:.1%})".format
        return [as_share(*right), as_number(*brier), as_number(*error), "" if np.isnan(both[0]) else as_share(*both)]


def words(judged: Judged) -> dict[str, str]:
    """Of the words of a kind, 0.3 s that a person says: how many, named, and wrong."""
    counts = {kind: np.zeros(3, int) for kind in ("words said alone", "words of the loudest speaker", "all words")}
    for talk in sorted({example.talk for example in judged.examples}):
        persons = judged.where("talk", talk)
        time_s = (np.arange(len(persons.probabilities[0])) + 0.5) * speech.STEP_S
        by_person = {str(number): Speech(time_s, p) for number, p in enumerate(persons.probabilities)}
        for number, example in enumerate(persons.examples):
            edges = np.flatnonzero(np.diff(np.concatenate([[False], example.speaks, [False]]))).reshape(-1, 2)
            firsts = [n for first, stop in edges for n in range(first, stop - _WORD_STEPS + 1, _WORD_STEPS)]
            starts = np.array(firsts) * speech.STEP_S
            said = attribute(starts, starts + _WORD_STEPS * speech.STEP_S, by_person, least=_LEAST)
            for first, word in zip(firsts, said, strict=True):
                steps = slice(first, first + _WORD_STEPS)
                is_of = (not example.overlaps[steps].any(), bool(example.leads[steps].all()), True)
                for kind in compress(counts, is_of):
                    counts[kind] += (1, word.track is not None, word.track not in (None, str(number)))
    return {
        kind: f"{total:,} words, {named / total:.1%} named, {wrong} wrong"
        for kind, (total, named, wrong) in counts.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the model on all of them, and write it")
    parser.add_argument("--conversations", type=int, default=16, help="of a minute each, in each of the rooms")
    options = parser.parse_args()
    print_machine()
    found = [*examples(options.conversations), *examples(options.conversations // 4, "silence")]
    judged = {model: Judged(found, cross_checked(found, model), model) for model in NAMES}
    if options.fit:
        for model in NAMES:
            weights = fit([(_terms(one, model), one.truth(model)) for one in found])
            speech.MODELS = {**speech.MODELS, model: weights.round(3).tolist()}
        lines = [f"  {json.dumps(model)}: {json.dumps(weights)}" for model, weights in speech.MODELS.items()]
        Path(speech.__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    each = judged[EACH]
    rows = [[NAMES[model], *of_model.cells()] for model, of_model in judged.items()]
    for parts, column in ((ROOMS, "room"), (dict.fromkeys((*_KINDS, "silence")), "kind")):
        rows += [[f"  {part}", *each.where(column, part).cells()] for part in parts]
    gain = list(examples(options.conversations // 4, "talk", has_gain=True))
    p = [speech.probability(one.evidence[EACH], of_anybody=False) for one in gain]
    rows.append(["  automatic gain", *Judged(gain, p).cells()])
    columns = ("evidence", "steps right", "Brier score", "calibration error", "found where another one speaks")
    record("who-speaks", columns, rows)
    silent = [p for one, p in zip(found, each.probabilities, strict=True) if not one.speaks.any()]
    rows = [
        *([f"{kind}, named at 0.9", told] for kind, told in words(each).items()),
        ["most steps in which a silent person speaks", f"{max(np.mean(p > 0.5) for p in silent):.1%} of {len(silent)}"],
        ["conversations with the caveat, no automatic gain", f"{np.mean([one.varies for one in found]):.1%}"],
        ["conversations with the caveat, automatic gain", f"{np.mean([one.varies for one in gain]):.1%}"],
    ]
    record("who-speaks-2", ("", "a microphone each"), rows)


if __name__ == "__main__":
    main()
