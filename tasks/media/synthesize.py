"""A study of synthetic recordings: the layout of a real one, for benchmarks and for trying things.

Moving shapes for video, a tone with pauses for sound, random words, and OpenFace-shaped tables of smooth random
numbers. Nothing in it means anything. Studies of two people each are made in ``synthetic_pairs``.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from storyframes.features import OPENFACE_COLUMNS
from tasks.media.synthetic_files import SAMPLE_RATE, random_background, write_video
from tasks.media.synthetic_pairs import write_dyads, write_groups
from tasks.media.synthetic_shape import Shape

_WORDS = (
    "the a and I you we they was felt said home friend garden bread rain letter city school mother father walk quiet "
    "first last year night spring door window road bread river song laugh cry listen wait carry leave return".split()
)
_PHASES = (("warm_up", 0.0, 0.08), ("story_share", 0.08, 0.5), ("story_receive", 0.5, 0.54), ("reflection", 0.54, 0.96))


class SynthesisError(Exception):
    """The study cannot be made where it was asked for."""


@dataclass(frozen=True)
class SyntheticStudy:
    """What to make.

    Attributes:
        sessions: how many.
        seconds: length of each.
        seed: seeds everything.
        fps: frames per second.
        width, height: of the video, pixels.
        sessions_per_participant: about how many sessions a participant has.
        shape: of the study; the others than ``empathicstories`` have frame rates and participants of their own.
    """

    sessions: int
    seconds: float
    seed: int = 0
    fps: int = 15
    width: int = 320
    height: int = 240
    sessions_per_participant: float = 269 / 41
    shape: Shape = Shape.EMPATHIC_STORIES

    @property
    def frames(self) -> int:
        return round(self.seconds * self.fps)


def write_study(folder: Path, plan: SyntheticStudy, progress: Callable[[str], None] = lambda _: None) -> None:
    """Write the study into ``folder``.

    Raises:
        SynthesisError: the folder exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SynthesisError(f"{folder} exists and is not empty: give a new folder")
    if plan.shape is not Shape.EMPATHIC_STORIES:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write = write_dyads if plan.shape is Shape.DYAD else write_groups
        write(folder, plan.sessions, plan.seconds, plan.seed, (plan.width, plan.height), progress)
        return
    for name in ("videos", "transcripts", "openface"):
        (folder / name).mkdir(parents=True, mode=0o700)
    ids = [f"s{number:04d}" for number in range(1, plan.sessions + 1)]
    for number, session_id in enumerate(ids):
        progress(session_id)
        generator = np.random.default_rng([plan.seed, number])
        video = folder / "videos" / f"{session_id}.avi"
        size = plan.width, plan.height
        background = random_background(size, generator)
        write_video(video, plan.frames, plan.fps, size, background, _sound(plan, generator))
        _write_transcript(folder / "transcripts" / f"{session_id}.json", session_id, plan, generator)
        _write_openface(folder / "openface" / f"{session_id}.csv.gz", plan, generator)
    _write_tables(folder, ids, plan)


def _write_tables(folder: Path, ids: list[str], plan: SyntheticStudy) -> None:
    generator = np.random.default_rng(plan.seed)
    participants = max(1, math.ceil(plan.sessions / plan.sessions_per_participant))
    stories = [f"story{number}" for number in range(1, 7)]
    sessions = pd.DataFrame({"session_id": ids})
    sessions["participant_id"] = [f"p{number % participants + 1:03d}" for number in range(len(ids))]
    sessions["video"] = [f"videos/{session_id}.avi" for session_id in ids]
    sessions["transcript"] = [f"transcripts/{session_id}.json" for session_id in ids]
    sessions["openface"] = [f"openface/{session_id}.csv.gz" for session_id in ids]
    phases = [
        (session_id, phase, round(start * plan.seconds, 3), round(end * plan.seconds, 3))
        for session_id in ids
        for phase, start, end in _PHASES
    ]
    ratings = [
        (session_id, story, position, int(generator.integers(1, 6)))
        for session_id in ids
        for position, story in enumerate(generator.permutation(stories)[:3].tolist(), start=1)
    ]
    texts = [(story, " ".join(generator.choice(_WORDS, 40).tolist())) for story in stories]
    surveys = [
        (participant, timepoint, "social_connection", round(float(generator.uniform(1, 5)), 2))
        for participant in sorted(set(sessions["participant_id"]))
        for timepoint in ("pre", "mid", "post")
    ]
    tables = {
        "sessions": sessions,
        "phases": pd.DataFrame(phases, columns=["session_id", "phase", "start_s", "end_s"]),
        "ratings": pd.DataFrame(ratings, columns=["session_id", "story_id", "position", "empathy"]),
        "stories": pd.DataFrame(texts, columns=["story_id", "text"]),
        "surveys": pd.DataFrame(surveys, columns=["participant_id", "timepoint", "scale", "score"]),
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)


def _sound(plan: SyntheticStudy, generator: np.random.Generator) -> np.ndarray:
    time = np.arange(math.ceil(plan.frames / plan.fps * SAMPLE_RATE) + 1) / SAMPLE_RATE
    voice = sum(np.sin(2 * np.pi * 120 * harmonic * time) / harmonic for harmonic in range(1, 6))
    loud = (np.sin(2 * np.pi * time / 3) > 0) * 0.2
    noise = generator.normal(0, 0.002, len(time))
    return ((voice * loud + noise) * 20_000).clip(-32_768, 32_767).astype(np.int16)


def _write_transcript(path: Path, session_id: str, plan: SyntheticStudy, generator: np.random.Generator) -> None:
    utterances: list[dict[str, object]] = []
    clock, speakers = 0.5, ("robot", "participant")
    while clock + 1 < plan.seconds:
        count = int(generator.integers(3, 12))
        end = min(clock + 0.35 * count, plan.seconds - 0.2)
        words = generator.choice(_WORDS, count).tolist()
        edges = np.linspace(clock, end, count + 1).round(3).tolist()
        utterances.append(
            {
                "speaker": speakers[len(utterances) % 2],
                "start_s": edges[0],
                "end_s": edges[-1],
                "text": " ".join(words),
                "words": [
                    {"word": word, "start_s": start, "end_s": stop}
                    for word, start, stop in zip(words, edges, edges[1:], strict=False)
                ],
            }
        )
        clock = end + 0.5
    path.write_text(json.dumps({"session_id": session_id, "utterances": utterances}))


def _write_openface(path: Path, plan: SyntheticStudy, generator: np.random.Generator) -> None:
    frames = np.arange(1, plan.frames + 1)
    phase = generator.uniform(0, 2 * np.pi, len(OPENFACE_COLUMNS))
    values = np.sin(frames[:, None] / plan.fps + phase).round(3)
    table = pd.DataFrame(values, columns=list(OPENFACE_COLUMNS))
    table["frame"], table["face_id"], table["success"] = frames, 0, 1
    table["timestamp"] = ((frames - 1) / plan.fps).round(3)
    table["confidence"] = 0.98
    intensities = [column for column in OPENFACE_COLUMNS if column.startswith("AU") and column.endswith("_r")]
    table[intensities] = (2.5 + 2.5 * table[intensities]).round(2)  # 0 to 5
    presence = [column for column in OPENFACE_COLUMNS if column.endswith("_c")]
    table[presence] = (table[presence] > 0).astype(int)
    with gzip.open(path, "wt", compresslevel=1) as file:
        table.to_csv(file, index=False)
