"""A study of many sessions with real files: all sessions share them as links."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tasks.extractors.registry import ExtractorsSettings
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.study.load import Study, load_study

LINKS = 30_000  # of one file; ext4 allows 65,000
_LONG_AGO_S = 1_700_000_000  # a file that changed this very second would be read again
_FOLDERS = {"video": "videos", "transcript": "transcripts", "openface": "openface"}
_VECTORS = Path(__file__).parents[2] / "demo/glove.demo.300d.txt"

SETTINGS = ExtractorsSettings.model_validate(
    {"resnet50": {"allow_untrained": True}, "glove": {"vectors": str(_VECTORS), "demo_vectors": True}}
)


def many_sessions(folder: Path, sessions: int) -> Study:
    """So many sessions of one second, each with a video, a transcript and OpenFace's output; nothing is extracted."""
    write_study(folder / "one", SyntheticStudy(sessions=1, seconds=1))
    study = folder / "study"
    rows = [["session_id", "participant_id", *_FOLDERS]]
    copies: dict[str, Path] = {}
    originals = {kind: next((folder / "one" / name).iterdir()) for kind, name in _FOLDERS.items()}
    for name in _FOLDERS.values():
        (study / name).mkdir(parents=True)
    for number in range(sessions):
        session_id = f"s{number:06d}"
        paths = _paths(session_id, originals)
        for kind, relative in paths.items():
            if number % LINKS == 0:
                copies[kind] = study / relative
                copies[kind].write_bytes(originals[kind].read_bytes())
                os.utime(copies[kind], (_LONG_AGO_S, _LONG_AGO_S))
            else:
                (study / relative).hardlink_to(copies[kind])
        rows.append([session_id, f"p{number % 41:02d}", *paths.values()])
    (study / "sessions.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    return load_study(study)


def _paths(session_id: str, originals: Mapping[str, Path]) -> dict[str, str]:
    return {kind: f"{_FOLDERS[kind]}/{session_id}{''.join(file.suffixes)}" for kind, file in originals.items()}
