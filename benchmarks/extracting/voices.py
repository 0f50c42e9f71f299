"""Who speaks on one microphone, by voice: two recorded voices, and the weights of Resemblyzer and of CAM++.

    python -m benchmarks.extracting.voices [--choose] [--model NAME|FILE]

``make voices`` fetches them. Each pair of the four voices that were not used to choose anything has a
conversation of 40 turns, which one microphone hears: clean, in an office by telephone, and from far away by telephone.
Whisper is not needed: the words are the 0.3 s pieces of what one person says alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2] / "plugins/storyframes-transcribe"))

import numpy as np
from scipy import signal
from storyframes_transcribe.one_microphone.enrolment import match_enrolled
from storyframes_transcribe.one_microphone.turns import Turns, Windows, find_turns
from storyframes_transcribe.one_microphone.voice_models import VoiceModel, load_voice_model
from storyframes_transcribe.voices import voiced_pieces
from support.voices.human import prompts, voice_weights
from support.voices.scenes import RATE, Scene, Spoken, compose, in_room, voiced

from benchmarks.extracting import speaking
from benchmarks.measure import print_machine
from benchmarks.performance_page import read_tables, record, show
from storyframes.times import SESSION_CLOCK
from tasks.extractors.speaking import of_person
from tasks.media import AudioBlock, speech
from tasks.media.sound_bands import SoundBands
from tasks.study.transcript_formats.json_formats import Turn

CHOSEN_BY = ("en", "fr", "es-2", "it")
"""The voices on which the settings were chosen."""
CHECKED = ("es", "ru", "it-2", "fr-2")
MODELS = ("Resemblyzer", "CAM++")
CONDITIONS = ("clean", "office, telephone", "far away, telephone")
_TURNS = 40
_ENROLLED_S = 20.0
_STEP = RATE // 100
_COLLAR = 25  # steps on both sides of a change that are not counted
_WORD = 30  # steps
_THRESHOLD = 0.5  # of voice
LEAST = 0.9
Steps = list[tuple[speaking.Example, np.ndarray]]
"""Of each person of a conversation, the steps of ``speaking``, and their probabilities."""


@dataclass(frozen=True)
class Judged:
    """One conversation in one condition, in steps of 10 ms of which one person or both speak.

    Attributes:
        alone, confused: steps in which one person speaks and a voice was found, and in which it was the wrong one.
        said, missed, invented, mistaken: the parts of the diarisation error, without the collar.
        words, named, right: of the words that are said alone.
        overlapped, marked: words that both say, and how many of these are marked as doubtful.
        marked_alone: words said alone that are marked.
        persons_right: whether enrolment named both voices, and rightly.
        doubted: whether the voices seem not to be distinct.
    """

    alone: int
    confused: int
    said: int
    missed: int
    invented: int
    mistaken: int
    words: int
    named: int
    right: int
    overlapped: int
    marked: int
    marked_alone: int
    persons_right: int
    doubted: int


def conversation(voices: tuple[str, str], seed: int) -> tuple[Scene, list[np.ndarray]]:
    """A conversation, and 20 s of each voice saying something else."""
    generator = np.random.default_rng(seed)
    persons: list[list[Spoken]] = []
    enrolled = []
    for voice in voices:
        lines = [line for line in prompts(voice, 0.6, 8.0) if "beep" not in line.text and len(voiced(line.samples))]
        shuffled = [lines[number] for number in generator.permutation(len(lines))]
        persons.append(shuffled[: _TURNS // 2])
        others = np.concatenate([voiced(line.samples) for line in shuffled[_TURNS // 2 :]])
        enrolled.append(others[: round(_ENROLLED_S * RATE)])
    return compose(persons, _TURNS, seed, gap_s=(-0.5, 0.9)), enrolled


def heard(said: np.ndarray, condition: str, seed: int) -> np.ndarray:
    """What the microphone records."""
    if condition == "clean":
        return said
    generator = np.random.default_rng(seed)
    echo_db, snr_db = (0.0, 18.0) if condition.startswith("far") else (-12.0, 22.0)
    sound = in_room(said, 0.35, generator, echo_db)
    sound = sound + generator.standard_normal(len(sound)) * 10 ** ((-26 - snr_db) / 20)
    band = signal.butter(4, (300, 3400), "bandpass", fs=RATE, output="sos")
    return np.asarray(signal.sosfilt(band, sound), np.float32)


def _windows(sound: np.ndarray, model: VoiceModel) -> Windows:
    blocks = (AudioBlock(at / RATE, sound[at : at + 10 * RATE]) for at in range(0, len(sound), 10 * RATE))
    return Windows.read(voiced_pieces(blocks, _THRESHOLD), model.embed)


def true_steps(scene: Scene) -> np.ndarray:
    """(2, steps) bool, when each person speaks."""
    true = np.zeros((2, round(scene.seconds * 100)), bool)
    for planted in scene.planted:
        true[planted.person, round(planted.start_s * 100) : round(planted.end_s * 100)] = True
    return true


def speaking_by_voice(scene: Scene, sound: np.ndarray, turns: Turns, talk: int) -> Steps:
    """``speaking`` of both persons, with each voice named rightly."""
    count = round(scene.seconds * 100) // 10
    speaks = true_steps(scene)[:, : count * 10].reshape(2, count, 10).mean(axis=2) >= 0.5
    over = SoundBands.over_floor(
        speaking.bands_of(sound, RATE).levels(SESSION_CLOCK, SESSION_CLOCK, count, speech.STEP_S)
    )
    is_heard = speech.probability(speech.evidence(over, (), None), of_anybody=True)
    time_s = (np.arange(count) + 0.5) * speech.STEP_S
    runs = list(turns.runs(LEAST))
    fits = []
    for voices in permutations("01"):
        heard_ = [
            Turn(start_s=start_s, end_s=end_s, speaker=voices[voice], person_id=voices[voice], probability=probability)
            for start_s, end_s, voice, probability in runs
        ]
        fits.append([is_heard * of_person(heard_, person, time_s) for person in "01"])
    best = min(fits, key=lambda fit: float(np.square(np.array(fit) - speaks).sum()))
    both, anybody = speaks.all(axis=0), speaks.any(axis=0)
    return [
        (speaking.Example(talk, "", "", (), {}, speaks[person], both, anybody, leads=speaks[person], varies=False), p)
        for person, p in enumerate(best)
    ]


def judge(scene: Scene, windows: Windows, turns: Turns, enrolled: list[np.ndarray]) -> Judged:
    """Compare what was found with what is true."""
    steps = round(scene.seconds * 100)
    true, found = true_steps(scene), np.zeros((2, steps), bool)
    for start_s, end_s, probability in zip(turns.start_s, turns.end_s, turns.probability, strict=True):
        found[probability.argmax(), round(start_s * 100) : round(end_s * 100)] = True
    order = max(permutations(range(2)), key=lambda voices: int((found[[*voices]] & true).sum()))
    found = found[[*order]]
    is_counted = np.ones(steps, bool)
    for edge in np.flatnonzero(np.diff(true, axis=1).any(axis=0)):
        is_counted[max(edge - _COLLAR + 1, 0) : edge + _COLLAR + 1] = False
    said, heard_, both = (part[:, is_counted].sum(axis=0) for part in (true, found, true & found))
    is_alone = true.sum(axis=0) == 1
    alone = is_alone & found.any(axis=0)
    words = named = right = marked_alone = 0
    for person in range(2):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], true[person], [False]]))).reshape(-1, 2)
        firsts = [n for first, stop in edges for n in range(first, stop - _WORD + 1, _WORD)]
        spans = [(n / 100, (n + _WORD) / 100) for n in firsts if is_alone[n : n + _WORD].all()]
        voices, marked_alone = turns.of_spans(spans, LEAST), marked_alone + sum(turns.are_doubtful(spans))
        words, named = words + len(voices), named + sum(voice is not None for voice in voices)
        right += sum(voice == order[person] for voice in voices)
    both_say = [(n / 100, (n + _WORD) / 100) for n in range(0, steps, _WORD) if true[:, n : n + _WORD].all()]
    owners = match_enrolled(turns, windows, [(str(n), vector) for n, vector in enumerate(enrolled)])
    return Judged(
        alone=int(alone.sum()),
        confused=int((alone & (found != true).any(axis=0)).sum()),
        said=int(said.sum()),
        missed=int(np.maximum(said - heard_, 0).sum()),
        invented=int(np.maximum(heard_ - said, 0).sum()),
        mistaken=int((np.minimum(said, heard_) - both).sum()),
        words=words,
        named=named,
        right=right,
        overlapped=len(both_say),
        marked=sum(turns.are_doubtful(both_say)),
        marked_alone=marked_alone,
        persons_right=int(owners == {order[0]: "0", order[1]: "1"}),
        doubted=int(not turns.is_distinct),
    )


def judged(model: VoiceModel, voices: tuple[str, ...], seed: int = 0) -> Iterator[tuple[str, Judged, Steps]]:
    """By condition, every pair of the voices, without and with enrolment by 20 s in the same condition."""
    for talk, pair in enumerate(combinations(voices, 2)):
        scene, others = conversation((pair[0], pair[1]), seed)
        for condition in CONDITIONS:
            sound = heard(scene.room, condition, seed)
            windows = _windows(sound, model)
            sums = [_windows(heard(sound, condition, seed + 1), model).vectors.sum(axis=0) for sound in others]
            enrolled = [vector / np.linalg.norm(vector) for vector in sums]
            for name, known in ((condition, []), (f"{condition}, all enrolled", enrolled)):
                turns = find_turns(windows, 2, known)
                one = judge(scene, windows, turns, enrolled)
                print(*pair, name, one, flush=True)
                yield name, one, speaking_by_voice(scene, sound, turns, talk)


def speaking_by_condition(condition: str, every: Iterable[tuple[str, Judged, Steps]]) -> speaking.Judged:
    """``speaking`` of all persons in one condition."""
    pairs = [pair for name, _, of_one in every if name == condition for pair in of_one]
    return speaking.Judged([example for example, _ in pairs], [p for _, p in pairs])


def kept(table: str, measured: Sequence[str]) -> list[list[str]]:
    """The rows of other models."""
    return [
        row for row in read_tables()[table]["rows"] if not row[0].startswith(tuple(f"{name}, " for name in measured))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help=f"only {' or '.join(MODELS)}, or other weights, which are only shown")
    parser.add_argument("--choose", action="store_true", help="use the voices on which the settings were chosen")
    options = parser.parse_args()
    print_machine()
    names = [options.model] if options.model else MODELS
    models = {name: voice_weights(name) if name in MODELS else Path(name) for name in names}
    voices = CHOSEN_BY if options.choose else CHECKED
    every = [
        (f"{model}, {condition}", one, steps)
        for model, path in models.items()
        for condition, one, steps in judged(load_voice_model(path), voices)
    ]
    rows = []
    for condition in dict.fromkeys(name for name, _, _ in every):
        of_one = [one for name, one, _ in every if name == condition]
        total = {name: sum(getattr(one, name) for one in of_one) for name in Judged.__annotations__}
        collar = total["missed"] + total["invented"] + total["mistaken"]
        rows.append(
            [
                condition,
                f"{total['mistaken'] / total['said']:.1%}",
                f"{collar / total['said']:.1%}",
                f"{total['confused'] / total['alone']:.1%}",
                f"{total['named'] / total['words']:.1%} of {total['words']:,}",
                f"{total['right'] / total['named']:.1%}",
                f"{total['marked'] / max(total['overlapped'], 1):.0%}, {total['marked_alone'] / total['words']:.0%}",
                f"{total['persons_right']} of {len(of_one)}",
                f"{total['doubted']} of {len(of_one)}",
            ]
        )
        print(*rows[-1], sep=" | ", flush=True)
    columns = (
        "model and microphone",
        "confused, collar of 0.25 s",
        "diarisation error, collar of 0.25 s",
        "confused, each step said alone",
        "words named at 0.9",
        "named words that are right",
        "words marked as doubtful: said by both, said alone",
        "conversations with both persons named by enrolment",
        "conversations with the warning",
    )
    by_voice = [
        [name, *speaking_by_condition(name, every).cells()[:3]]
        for name in (f"{model}, {condition}" for model in models for condition in CONDITIONS)
    ]
    columns_by_voice = ("model and microphone", "steps right", "Brier score", "calibration error")
    if not options.choose and {*names} <= {*MODELS}:
        for table, cells, measured in (("voices", columns, rows), ("speaking-by-voice", columns_by_voice, by_voice)):
            record(table, cells, [*kept(table, names), *measured], command="python -m benchmarks.extracting.voices")
    else:
        show(columns_by_voice, by_voice)


if __name__ == "__main__":
    main()
