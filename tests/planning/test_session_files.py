"""Which files of a session are opened: those that the extractors asked for read, and no others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.stores import local

from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.models.digests import DigestCache
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection, selected_extractors
from tasks.planning.sources import named_files, session_microphones, session_source
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


PERSONS = ("session_id,person_id,participant_id", "s,anna,p", "s,ben,", "s,cat,")


def chosen_microphones(folder: Path, track: str, session: str, *tracks: str) -> tuple[str, list[str], bool]:
    """The file of the own microphone, those of the others, and whether the own one is shared."""
    rows = {
        "sessions": ("session_id,participant_id,video,audio", f"s,p,{session}"),
        "persons": PERSONS,
        "tracks": ("session_id,track,of,region,video,audio,person_id", *(f"s,{row}" for row in tracks)),
    }
    for name, lines in rows.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    for name in {cell for row in (session, *tracks) for cell in row.split(",") if "." in cell and '"' not in cell}:
        (folder / name).touch()
    paths, microphones = session_microphones(load_study(folder), "s", track)
    assert microphones is not None
    return paths[microphones.own.kind], [paths[other.kind] for other in microphones.others], microphones.is_shared


LAPELS = ("anna,,,,anna.wav,anna", "ben,,,,ben.wav,ben")


@pytest.mark.parametrize("track", ["main", "anna", "anna-cam"])
def test_a_lapel_is_its_persons_microphone_before_the_sessions_own_sound(tmp_path: Path, track: str) -> None:
    tracks = (*LAPELS, "anna-cam,,,anna.mkv,,anna")
    assert chosen_microphones(tmp_path, track, "room.mkv,room.wav", *tracks) == ("anna.wav", ["ben.wav"], False)
    assert chosen_microphones(tmp_path, "ben", "room.mkv,room.wav", *tracks) == ("ben.wav", ["anna.wav"], False)


def test_a_lapel_is_its_persons_microphone_before_the_sound_of_her_region(tmp_path: Path) -> None:
    regions = ('left,main,"0;0;0.5;1",,,anna', 'right,main,"0.5;0;0.5;1",,,ben')
    regions = tuple(row.replace(";", ",") for row in regions)
    for track in ("left", "anna", "main"):
        found = chosen_microphones(tmp_path, track, "room.mkv,room.wav", *regions, *LAPELS)
        assert found == ("anna.wav", ["ben.wav"], False), track


def test_a_lapel_that_is_the_sessions_sound_is_not_shared_with_a_region_whose_person_has_another(
    tmp_path: Path,
) -> None:
    regions = ('left,main,"0,0,0.5,1",,,anna', 'right,main,"0.5,0,0.5,1",,,ben')
    tracks = (*regions, LAPELS[1])
    for track in ("left", "main"):
        assert chosen_microphones(tmp_path, track, "room.mkv,anna.wav", *tracks) == ("anna.wav", ["ben.wav"], False)
    assert chosen_microphones(tmp_path, "right", "room.mkv,anna.wav", *tracks) == ("ben.wav", ["anna.wav"], False)


@pytest.mark.parametrize("order", [1, -1])
def test_a_microphone_of_two_persons_is_shared_though_one_has_another(tmp_path: Path, order: int) -> None:
    tracks = ("desk,,,,desk.wav,anna", "other,,,,desk.wav,ben", "lapel,,,,ben.wav,ben")[::order]
    assert chosen_microphones(tmp_path, "desk", "room.mkv,", *tracks) == ("desk.wav", ["ben.wav"], True)
    for track in ("lapel", "other"):  # his own is better
        assert chosen_microphones(tmp_path, track, "room.mkv,", *tracks) == ("ben.wav", ["desk.wav"], False)


@pytest.mark.parametrize("link", [False, True])
def test_a_copy_of_another_person_s_recording_is_shared(tmp_path: Path, link: bool) -> None:
    chosen_microphones(tmp_path, "ben", "room.mkv,", *LAPELS, "cat,,,,cat.wav,cat")
    for name in ("room.mkv", "anna.wav", "cat.wav"):
        (tmp_path / name).write_text(name)
    (tmp_path / "ben.wav").unlink()
    (tmp_path / "ben.wav").symlink_to("anna.wav") if link else (tmp_path / "ben.wav").write_text("anna.wav")
    extractors = build_extractors(ExtractorsSettings(), "s")
    digests = DigestCache(local(tmp_path), "digests.json")
    shared, others = {}, {}
    for track in ("anna", "ben", "cat"):
        source = session_source(load_study(tmp_path), "s", [extractors["speaking"]], digests, track)
        assert source.microphones is not None
        shared[track] = source.microphones.is_shared
        others[track] = [source.files[other.kind].relative for other in source.microphones.others]
    assert shared == {"anna": True, "ben": True, "cat": False}
    assert others == {"anna": ["cat.wav"], "ben": ["cat.wav"], "cat": ["anna.wav", "ben.wav"]}


def test_a_person_without_a_lapel_has_the_sessions_own_sound(tmp_path: Path) -> None:
    assert chosen_microphones(tmp_path, "main", "room.mkv,room.wav", LAPELS[1]) == ("room.wav", ["ben.wav"], False)
    headset = (*LAPELS, "headset,,,,headset.wav,anna")
    assert chosen_microphones(tmp_path, "headset", "room.mkv,room.wav", *headset)[0] == "headset.wav"
