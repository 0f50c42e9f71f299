"""What transcribing costs, beside faster-whisper's own batched pipeline on the same recordings; and its memory.

    python -m benchmarks.scaling.transcribing [--runs 2]

``make voices`` fetches the recordings and the models. *Ours* finds the voice, packs it, and gives the words the times
of the voice; *the pipeline* is ``BatchedInferencePipeline`` with its voice filter. Both with int8, on all processors
that the process may use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import numpy as np
from faster_whisper import BatchedInferencePipeline, WhisperModel
from storyframes_transcribe.models import find_model
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.voices import RATE, voiced_pieces
from storyframes_transcribe.whisper import Whisper
from storyframes_transcribe.words import snap
from support.voices import human
from support.voices.scenes import Scene
from support.voices.scoring import aligned, spelled

from benchmarks.extracting.transcripts import alone, conversation
from benchmarks.measure import interleave, peak_memory_gb, print_machine
from benchmarks.performance_page import record
from tasks.media.sound import AudioBlock

COLUMNS = (
    *("sound", "seconds", "words said", "right, ours", "right, the pipeline"),
    *("CPU-s per minute of sound, ours", "the pipeline", "peak memory, ours"),
)
SCENES: dict[str, Callable[[], Scene]] = {
    "single words, days and months": lambda: alone(human.days_and_months("en")),
    "12 recordings of readers": lambda: alone(human.english()),
    "one microphone of a conversation": conversation,
}


def ours(whisper: Whisper, sound: np.ndarray) -> list[str]:
    """The words by the plug-in."""
    words: list[str] = []
    for piece in voiced_pieces(
        (AudioBlock(at / RATE, sound[at : at + RATE]) for at in range(0, len(sound), RATE)), 0.5
    ):
        if piece.stretches:
            words += [word.text for word in snap(whisper.hear(piece, "en").words, piece.voice)]
    return words


def the_pipeline(pipeline: BatchedInferencePipeline, sound: np.ndarray) -> list[str]:
    """The words by faster-whisper alone."""
    segments, _ = pipeline.transcribe(sound, language="en", beam_size=5, batch_size=8, word_timestamps=True)
    return [word.word for segment in segments for word in segment.words or ()]


def right(scene: Scene, person: int, heard: Iterable[str]) -> tuple[int, int]:
    """How many words are right, and how many were said."""
    said, found = (spelled(" ".join(texts)) for texts in ([each.text for each in scene.of_person(person)], heard))
    pairs = aligned(said, found)
    return sum(None not in (one, other) and said[one] == found[other] for one, other in pairs), len(said)  # type: ignore[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--memory-of", choices=SCENES)
    asked = parser.parse_args()
    folder = str(human.whisper_model("base"))
    whisper = Whisper(find_model(folder), TranscribeSettings(model=folder))
    if asked.memory_of:
        ours(whisper, SCENES[asked.memory_of]().microphones[-1])
        status = Path("/proc/self/status").read_text().splitlines()
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
        return
    print_machine()
    pipeline = BatchedInferencePipeline(WhisperModel(folder, compute_type="int8"))
    rows = []
    for name, make in SCENES.items():
        scene = make()
        person = len(scene.microphones) - 1
        sound = scene.microphones[person]
        heard: dict[str, list[str]] = {}
        measured = interleave(
            {
                "ours": lambda: heard.update(ours=ours(whisper, sound)),  # noqa: B023 - called at once
                "pipeline": lambda: heard.update(pipeline=the_pipeline(pipeline, sound)),  # noqa: B023
            },
            asked.runs,
        )
        minutes = scene.seconds / 60
        words = [right(scene, person, heard[which]) for which in ("ours", "pipeline")]
        rows.append(
            (
                *(name, f"{scene.seconds:.0f}", str(words[0][1]), str(words[0][0]), str(words[1][0])),
                *(f"{measured[which].cpu_s / minutes:.1f}" for which in ("ours", "pipeline")),
                f"{peak_memory_gb('benchmarks.scaling.transcribing', name):.2f} GB",
            )
        )
    record("transcribing", COLUMNS, rows, ["faster-whisper", "ctranslate2"])


if __name__ == "__main__":
    main()
