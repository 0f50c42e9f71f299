"""Transcripts of human speech by real models of Whisper: word errors, onsets, crosstalk, languages.

    python -m benchmarks.extracting.transcripts [--models tiny.en,base]

``make voices`` fetches the recordings and the models. Conversations are composed of the recordings, so that it is known
who says what, and when (``tests/support/voices/scenes.py``); the product's own ``transcribe`` does the rest.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import numpy as np
from storyframes_transcribe.models import find_model
from storyframes_transcribe.recordings import plan_sessions, transcript_path
from storyframes_transcribe.session import Outcome, Transcriber
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.transcript_file import TranscriptFile, read_made
from storyframes_transcribe.whisper import Whisper
from storyframes_transcribe.words import HeardWord
from support.media.recordings import write_wave
from support.voices import human
from support.voices.scenes import RATE, Planted, Scene, Spoken, compose, voiced
from support.voices.scoring import HeardAt, aligned, ghosts, is_within, spelled

from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from tasks.media.sound import read_audio
from tasks.study import load_study

TURNS = 36
_PLANTED = "harmonica velvet marmalade lantern yesterday elephants morning window garden seven butter mountain".split()
COLUMNS = (
    *("what", "Whisper", "words said", "wrong, missed or invented"),
    *("onset of the first word, median and 95 %", "by Whisper alone", "end of the last word, median and 95 %"),
    *("ghost words, kept of heard", "own words lost", "utterances"),
)


@dataclass(frozen=True)
class Heard:
    """What ``transcribe`` made of a scene: by person, its words with and without what was removed as crosstalk."""

    scene: Scene
    files: Sequence[TranscriptFile]
    utterances: int
    outcomes: Sequence[Outcome]

    def words(self, person: int, *, with_removed: bool = False) -> list[HeardAt]:
        """The words of one person's microphone in their order."""
        return [
            HeardAt(word.text, word.start_s, word.end_s)
            for word in self.files[person].words
            if with_removed or not word.is_crosstalk
        ]

    def ghosts(self, *, with_removed: bool = False) -> int:
        """How many words are in the transcript of somebody who is silent then."""
        return sum(
            len(ghosts(self.words(person, with_removed=with_removed), person, self.scene.planted))
            for person in range(len(self.files))
        )

    def right(self, person: int, *, with_removed: bool = False) -> int:
        """How many words of what a person says are heard as such."""
        said, heard = self._spelled(person, with_removed=with_removed)
        pairs = aligned(said, heard)
        return sum(None not in (one, other) and said[one] == heard[other] for one, other in pairs)  # type: ignore[index]

    def errors(self, person: int) -> tuple[int, int]:
        """How many words are wrong, missed or invented, and how many are said."""
        said, heard = self._spelled(person)
        return len(aligned(said, heard)) - self.right(person), len(said)

    def times_s(self) -> Iterator[tuple[Planted, HeardWord, HeardWord]]:
        """Each utterance with its first and its last heard word; those without one are left out."""
        words = [[word for word in file.words if not word.is_crosstalk] for file in self.files]
        for each in self.scene.planted:
            heard = [
                word for word in words[each.person] if is_within(HeardAt(word.text, word.start_s, word.end_s), [each])
            ]
            if heard:
                yield each, heard[0], heard[-1]

    def _spelled(self, person: int, *, with_removed: bool = False) -> tuple[list[str], list[str]]:
        said = " ".join(each.text for each in self.scene.of_person(person))
        return spelled(said), spelled(" ".join(word.text for word in self.words(person, with_removed=with_removed)))


def transcribed(scene: Scene, model: str, language: str | None = None) -> Heard:
    """The scene as a study, transcribed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tracks = [f"m{person}" for person in range(len(scene.microphones))]
        write_study(root, scene, tracks)
        settings = TranscribeSettings(model=str(human.whisper_model(model)), language=language)
        found = find_model(settings.model)
        whisper = Whisper(found, settings)
        study = load_study(root)
        transcriber = Transcriber(study, settings, found, whisper.hear, whisper.listen)
        outcomes = [outcome for plan in plan_sessions(study) for outcome in transcriber.transcribe(plan)]
        if failed := [outcome.reason for outcome in outcomes if outcome.failed]:
            sys.exit("; ".join(failed))
        names = tracks if len(tracks) > 1 else ["main"]
        files = [read_made(root / transcript_path("s", track)) for track in names]
        whole = read_made(root / transcript_path("s", "main"))
        return Heard(scene, [file for file in files if file], len(whole.utterances) if whole else 0, outcomes)


def write_study(root: Path, scene: Scene, tracks: Sequence[str]) -> None:
    """A session with a microphone for each person, or with one sound of one person."""
    (root / "sessions.csv").write_text("session_id,participant_id,audio\ns,p,room.wav\n")
    sounds = {"room": scene.microphones[0] if len(tracks) == 1 else scene.room}
    if len(tracks) > 1:
        (root / "persons.csv").write_text("session_id,person_id\n" + "".join(f"s,{track}\n" for track in tracks))
        rows = "".join(f"s,{track},{track}.wav,{track}\n" for track in tracks)
        (root / "tracks.csv").write_text(f"session_id,track,audio,person_id\n{rows}")
        sounds |= dict(zip(tracks, scene.microphones, strict=True))
    for name, sound in sounds.items():
        write_wave(root / f"{name}.wav", np.clip(sound * 32767, -32768, 32767).astype(np.int16), RATE)


def conversation(**planted: object) -> Scene:
    """A woman who says prompts and a woman who reads, with a microphone each; of the second all words are known."""
    said = human.prompts("en", 2.0, 8.0)
    chosen = np.random.default_rng(3).permutation(len(said))[: TURNS // 2]
    read = [each for each in human.english() if each.seconds > 2.5]
    return compose([[said[number] for number in chosen], read], TURNS, seed=7, **planted)  # type: ignore[arg-type]


def planted_words() -> Scene:
    """Utterances of one to six words that espeak-ng says, which begin at once."""
    random = np.random.default_rng(1)
    utterances = []
    for _ in range(24):
        chosen = random.choice(_PLANTED, random.integers(1, 7))
        gaps = [np.zeros(round(gap * RATE), np.float32) for gap in random.uniform(0.02, 0.12, len(chosen))]
        sounds = [part for word, gap in zip(chosen, gaps, strict=True) for part in (said_by_machine(word), gap)]
        utterances.append(Spoken(" ".join(chosen), np.pad(np.concatenate(sounds[:-1]), RATE // 4)))
    return compose([utterances], len(utterances), seed=7, gap_s=(0.8, 2.0))


@cache
def said_by_machine(word: str) -> np.ndarray:
    """(n,) float32: the word as espeak-ng says it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "word.wav"
        subprocess.run(["espeak-ng", "-w", str(path), word], check=True, capture_output=True)
        return voiced(np.concatenate([block.samples for block in read_audio(path, RATE, None)]))


def alone(spoken: Sequence[Spoken]) -> Scene:
    """One person who says these, with pauses."""
    return compose([spoken], len(spoken), seed=7, gap_s=(0.4, 1.2))


def row(what: str, model: str, heard: Heard, *, are_words_known: bool = True) -> tuple[str, ...]:
    """A line of the table."""
    of_two = len(heard.files) > 1
    person = len(heard.files) - 1
    wrong, said = heard.errors(person)
    times = [*heard.times_s()]
    onsets = [first.start_s - each.start_s for each, first, _ in times]
    by_whisper = [(first.whisper_s or (first.start_s,))[0] - each.start_s for each, first, _ in times]
    ends = [last.end_s - each.end_s for each, _, last in times]
    kept, ghost = heard.ghosts(), heard.ghosts(with_removed=True)
    lost = heard.right(person, with_removed=True) - heard.right(person)
    turns = len({each.turn for each in heard.scene.planted})
    return (
        *(what, model, *((str(said), f"{wrong} ({wrong / said:.1%})") if are_words_known else ("", ""))),
        *(f"{np.median(late):+.3f} s, {np.percentile(np.abs(late), 95):.3f} s" for late in (onsets, by_whisper, ends)),
        f"{kept} of {ghost}" if of_two else "",
        f"{max(lost, 0)} of {said}" if of_two else "",  # with ghosts between them, words may be aligned worse
        f"{heard.utterances} for {turns} turns" if of_two else "",
    )


def rows(models: Sequence[str]) -> list[tuple[str, ...]]:
    """All lines of the table."""
    made = []
    for model in models:
        made.append(row("12 recordings of readers, English", model, transcribed(alone(human.english()), model)))
        made.append(row("conversation, crosstalk -12 dB", model, transcribed(conversation(), model)))
    if "base" in models:
        echo = conversation(echo_s=0.4)
        made.append(row("the same, half of the crosstalk an echo of 0.4 s", "base", transcribed(echo, "base", "en")))
        gains = conversation(gains_db=(0.0, -8.0))
        made.append(row("the same, one microphone 8 dB softer", "base", transcribed(gains, "base", "en")))
        loud = conversation(crosstalk_db=-8.0, gap_s=(-0.3, 0.6))
        made.append(row("the same, -8 dB, overlaps of up to 0.3 s", "base", transcribed(loud, "base", "en")))
        both = conversation(gap_s=(-1.2, 0.4))
        made.append(row("the same, -12 dB, overlaps of up to 1.2 s", "base", transcribed(both, "base", "en")))
        made.append(row("24 utterances of espeak-ng", "base", transcribed(planted_words(), "base", "en")))
        prompts = alone(human.prompts("en", 1.5, 6.0)[:60])
        made.append(row("60 prompts, English", "base", transcribed(prompts, "base", "en"), are_words_known=False))
        for language in human.LANGUAGES:
            heard = transcribed(alone(human.days_and_months(language)), "base")
            told = next(outcome.language for outcome in heard.outcomes if outcome.language)
            what = f"days and months, {language}; detected: {told.code}, {told.probability:.2f}"
            made.append(row(what, "base", heard))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="tiny.en,base", help="of tiny.en and base")
    asked = parser.parse_args()
    print_machine()
    record("transcripts", COLUMNS, rows(asked.models.split(",")), ["faster-whisper", "ctranslate2"])


if __name__ == "__main__":
    main()
