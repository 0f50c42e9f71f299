"""Sessions with a camera and without one: of sound, of a transcript alone, of a silent video; and their extraction."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from flows.request import ExtractionRequest
from flows.run import conclude, open_run, planned
from storyframes.store import create_store
from storyframes.store.records import Status
from support.media.recordings import write_recording, write_wave
from support.studies import run
from tasks.planning.selection import Selection

RATE = 16_000
FEATURES = ("frames", "opensmile", "glove")
ROWS = {
    "camera": "camera,p1,camera.mkv,,",
    "podcast": "podcast,p2,,podcast.wav,podcast.json",
    "chat": "chat,p3,,,chat.json",
    "silent": "silent,p4,silent.mkv,,",
}
HAS = {
    "camera": {"frames", "opensmile"},
    "podcast": {"opensmile", "glove"},
    "chat": {"glove"},
    "silent": {"frames"},
}
ENDS_S = {"camera": 2.0, "podcast": 2.5, "chat": 3.3, "silent": 2.0}


def tone(seconds: float) -> np.ndarray:
    return (9000 * np.sin(2 * np.pi * 200 * np.arange(round(seconds * RATE)) / RATE)).astype(np.int16)


def write_files(folder: Path) -> Path:
    """Recordings and transcripts of these sessions, and vectors for their words."""
    write_recording(folder / "camera.mkv", 50, tone(2.0)[:, None])
    write_recording(folder / "silent.mkv", 50)
    write_wave(folder / "podcast.wav", tone(2.5), RATE)
    for name, end_s in (("podcast", 2.0), ("chat", 3.3)):
        said = [("A", 0.2, 1.0, "we sang"), ("B", 1.2, end_s, "we sang")]
        keys = ("speaker", "start_s", "end_s", "text")
        (folder / f"{name}.json").write_text(
            json.dumps({"utterances": [dict(zip(keys, one, strict=True)) for one in said]})
        )
    (folder / "glove.txt").write_text("".join(f"{word} {' '.join(['0.5'] * 300)}\n" for word in ("we", "sang")))
    return folder


def make(folder: Path, files: Path, *sessions: str) -> Path:
    """A study of these sessions, with its configuration beside it."""
    study = folder / "study"
    study.mkdir()
    for path in files.iterdir():
        (study / path.name).symlink_to(path) if path.name == "glove.txt" else (study / path.name).hardlink_to(path)
    rows = ["session_id,participant_id,video,audio,transcript", *(ROWS[session] for session in sessions)]
    (study / "sessions.csv").write_text("\n".join(rows) + "\n")
    (folder / "seconds.toml").write_text(
        f'features = {list(FEATURES)}\n[glove]\nvectors = "{files}/glove.txt"\ndemo_vectors = true\n'
        "[clips]\nwindow_s = 1.0\nstride_s = 0.5\n"
    )
    return study


def extract_mixed(folder: Path, study: Path, files: Path) -> dict[str, Status]:
    """Extract here, and write the tables as the command does; the outcomes by session/feature."""
    create_store(folder / "store")
    glove = {"vectors": files / "glove.txt", "demo_vectors": True}
    outcomes = run(study, folder / "store", Selection(only=FEATURES), glove=glove)
    request = ExtractionRequest(study=study, features=str(folder / "store"), config=folder / "seconds.toml")
    again = planned(open_run(request))
    assert not again.plan.units  # what has no input is not tried again
    result = conclude(again, ())
    assert result.good, result
    return {name: outcome.status for name, outcome in outcomes.items()}
