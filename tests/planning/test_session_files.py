"""Which files of a session are opened: those that the extractors asked for read, and no others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection, selected_extractors
from tasks.planning.sources import named_files
from tasks.study.load import Session, load_study

SESSION = Session(
    session_id="a", participant_id="p", video="a.avi", audio="a.wav", transcript="a.vtt", openface="a.csv"
)
TOOL = {"backend": "binary", "binary": "/opt/FeatureExtraction"}


def kinds(session: Session, *features: str, **sections: dict) -> list[str]:
    extractors = selected_extractors(build_extractors(ExtractorsSettings(**sections), "a"), features)
    return [kind for kind, _ in named_files(session, extractors.values())]


@pytest.mark.parametrize(
    ("features", "sections", "expected"),
    [
        (["frames"], {}, ["video"]),
        (["opensmile"], {}, ["video", "audio"]),
        (["glove", "sbert"], {}, ["video", "transcript"]),
        (["openface"], {}, ["video", "openface"]),
        (["openface"], {"openface": TOOL}, ["video"]),
        (["glove", "opensmile", "openface"], {}, ["video", "audio", "transcript", "openface"]),
    ],
)
def test_the_files_are_those_that_the_extractors_declare(
    features: list[str], sections: dict[str, dict], expected: list[str]
) -> None:
    assert kinds(SESSION, *features, **sections) == expected


def test_without_a_sound_file_it_is_the_videos_own_sound() -> None:
    assert kinds(SESSION.model_copy(update={"audio": None}), "opensmile") == ["video"]
    only_sound = SimpleNamespace(inputs=("audio",))
    silent = SESSION.model_copy(update={"audio": None})
    assert named_files(silent, [only_sound]) == [("video", "a.avi")]  # type: ignore[list-item]
    assert named_files(SESSION, [only_sound]) == [("audio", "a.wav")]  # type: ignore[list-item]


@pytest.mark.parametrize("only", [("frames",), ("glove",), None])
def test_planning_opens_no_file_that_nobody_reads(tmp_path: Path, only: tuple[str, ...] | None) -> None:
    """Nor does one that is broken matter to features that do not read it."""
    root = tmp_path / "study"
    write_study(root, SyntheticStudy(sessions=1, seconds=1))
    study = load_study(root)
    session = study.sessions["s0001"]
    assert session.transcript
    study.path(session.transcript).unlink()
    settings = ExtractorsSettings(features=("frames", "opensmile"))
    plan = plan_extraction(study, tmp_path / "features", settings, Selection(("s0001",), only))
    asked = "glove" in (only or ())
    for work in plan.units:
        assert ("transcript" in work.source.unusable) is asked
        assert "transcript" not in work.source.files
    assert bool(plan.settled) is asked
