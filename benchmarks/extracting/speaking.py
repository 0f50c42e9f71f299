"""Who speaks: the model of ``speaking`` fitted on planted conversations, and its probabilities checked on others.

    python -m benchmarks.extracting.speaking [--fit] [--conversations 40]

The conversations (``tests/support/media/conversations.py``) are of two and three voices of espeak-ng, a minute each,
with crosstalk of -6 to -20 dB, noise, overlap, bangs and silence. Those that check have other voices and other seeds.

Printed beside the recorded table, on 2026-11-24: with a microphone each and the others' voices softer by 6, 10, 15 and
20 dB, the Brier score was 0.079, 0.042, 0.022 and 0.017. With speech 8, 15 and 25 dB over the noise, the calibration
error was 0.043, 0.017 and 0.020 (one microphone), 0.017, 0.006 and 0.010 (a microphone each).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # runs from a checkout, installed or not

import numpy as np  # noqa: E402
from support.media.conversations import CHECKED_VOICES, FITTED_VOICES, FPS, RATE, Conversation, plant  # noqa: E402
from support.media.recordings import write_wave  # noqa: E402

from benchmarks.measure import print_machine  # noqa: E402
from benchmarks.performance_page import record, show  # noqa: E402
from storyframes.times import SESSION_CLOCK  # noqa: E402
from tasks.media import speech  # noqa: E402
from tasks.media.sound_bands import SoundBands  # noqa: E402

EACH = "a microphone each"
NAMES = {
    "floor": "one microphone, anybody's speech",
    "floor+mouth": "one microphone and the mouth",
    "floor+others": EACH,
    "floor+others+mouth": "a microphone each, and the mouth",
}
MODELS = tuple(NAMES)
COLUMNS = (
    *("Brier score", "calibration error", "right (at 0.5)", "right at 0.9 and more", "right at 0.1 and less"),
    "in between",
)
_CROSSTALK_DB = (-6.0, -10.0, -15.0, -20.0)
_SNR_DB = (8.0, 15.0, 25.0)


def examples(talk: Conversation) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """By model, the evidence of one person's steps, and whether she speaks in them."""
    steps = talk.speaks.shape[1]
    with tempfile.TemporaryDirectory() as folder:

        def over(sound: np.ndarray) -> np.ndarray:
            path = write_wave(Path(folder) / "a.wav", sound * 32767, RATE)
            bands = SoundBands.read(path, None)
            return bands.over_floor(bands.levels(SESSION_CLOCK, SESSION_CLOCK, steps, speech.STEP_S))

        heard = [over(microphone) for microphone in talk.microphones]
        room = over(talk.room)
    for person, truth in enumerate(talk.speaks):
        opening = talk.mouths[person]
        mouth = speech.mouth_movement(np.arange(len(opening)) / FPS, opening, steps)
        others = [level for number, level in enumerate(heard) if number != person]
        yield "floor", speech.evidence(room, (), None), talk.speaks.any(axis=0)
        yield "floor+others", speech.evidence(heard[person], others, None), truth
        yield "floor+mouth", speech.evidence(room, (), mouth), truth
        yield "floor+others+mouth", speech.evidence(heard[person], others, mouth), truth


def gather(talks: Iterator[Conversation]) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    gathered: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in MODELS}
    for talk in talks:
        for name, evidence, truth in examples(talk):
            gathered[name].append((evidence, truth))
    return gathered


def planted(voices: Sequence[str], first_seed: int, count: int, **known: float) -> Iterator[Conversation]:
    """Of two and of three persons in turn; in every fifth one says nothing, in every tenth nobody says anything."""
    for seed in range(first_seed, first_seed + count):
        persons = 2 + seed % 2
        chosen = np.random.default_rng(seed).choice(voices, persons, replace=False).tolist()
        silent = range(persons) if seed % 10 == 9 else (0,) if seed % 5 == 0 else ()
        yield plant(seed, chosen, silent=silent, **known)


def fit(pairs: list[tuple[np.ndarray, np.ndarray]], kinds: np.ndarray) -> np.ndarray:
    """The coefficients of a logistic model by Newton's method, with a weight of 1 that draws them to 0."""
    rows = [speech.terms(evidence, kinds)[~np.isnan(evidence[:, kinds]).any(axis=1)] for evidence, _ in pairs]
    truths = [truth[~np.isnan(evidence[:, kinds]).any(axis=1)] for evidence, truth in pairs]
    x, y = np.concatenate(rows), np.concatenate(truths)
    weights = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ weights))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + np.eye(len(weights))
        weights += np.linalg.solve(curvature, x.T @ (y - p) - weights)
    return weights


def reliability(probability: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Brier score, expected calibration error in ten bins, and what is right where the probability is clear."""
    known = ~np.isnan(probability)
    p, y = probability[known], truth[known]
    bins = np.minimum((p * 10).astype(int), 9)
    error = sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in set(bins.tolist()))
    return {
        "steps": len(p),
        "speech": float(y.mean()),
        "brier": float(np.mean((p - y) ** 2)),
        "ece": float(error),
        "right": float(np.mean((p > 0.5) == y)),
        "right at >= .9": float(y[p >= 0.9].mean()) if (p >= 0.9).any() else float("nan"),
        "right at <= .1": float(1 - y[p <= 0.1].mean()) if (p <= 0.1).any() else float("nan"),
        "between": float(np.mean((p > 0.1) & (p < 0.9))),
    }


def table(gathered: Mapping[str, list[tuple[np.ndarray, np.ndarray]]]) -> dict[str, list[str]]:
    """By evidence: Brier score, calibration error, and the shares that are right, clear and right, and in between."""
    rows = {}
    for name, pairs in gathered.items():
        p = np.concatenate([speech.probability(evidence, of_anybody=True) for evidence, _ in pairs])
        told = reliability(p, np.concatenate([truth for _, truth in pairs]))
        shares = (told[key] for key in ("right", "right at >= .9", "right at <= .1", "between"))
        rows[NAMES[name]] = [f"{told['brier']:.3f}", f"{told['ece']:.3f}", *(f"{one:.1%}" for one in shares)]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the coefficients, and print them, before checking")
    parser.add_argument("--conversations", type=int, default=40, help="of a minute each, to fit; half as many to check")
    options = parser.parse_args()
    print_machine()
    if options.fit:
        talks = gather(planted(FITTED_VOICES, 0, options.conversations))
        speech.MODELS = {name: fit(talks[name], speech.kinds_of(name)).round(3).tolist() for name in MODELS}
        for name, weights in speech.MODELS.items():
            print(f'    "{name}": ({", ".join(map(str, weights))}),')
    half = options.conversations // 2
    rows = [[name, *cells] for name, cells in table(gather(planted(CHECKED_VOICES, 10_000, half))).items()]
    record("who-speaks", ("evidence", *COLUMNS), rows, ["scipy"])
    softer = [
        [f"{db} dB", *table(gather(planted(CHECKED_VOICES, 20_000, half // 2, crosstalk_db=db)))[EACH]]
        for db in _CROSSTALK_DB
    ]
    show(("a microphone each; the others' voices softer by", *COLUMNS), softer)
    noisy = []
    for db in _SNR_DB:
        found = table(gather(planted(CHECKED_VOICES, 30_000, half // 2, snr_db=db)))
        noisy.append([f"{db} dB", *(found[name][1] for name in found)])
    show(("calibration error where speech is over the noise by", *found), noisy)


if __name__ == "__main__":
    main()
