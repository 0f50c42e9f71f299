"""Made-up studies: every shape is valid, and is what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.study_check import check_study
from tasks.media.recording import read_frame_times
from tasks.media.synthesize import SynthesisError, SyntheticStudy, write_study
from tasks.media.synthetic_study import Shape
from tasks.study.load import Study, load_study


def made(folder: Path, shape: Shape, sessions: int = 2, seconds: float = 2, seed: int = 0) -> Study:
    write_study(folder, SyntheticStudy(sessions, seconds, seed, width=64, height=48, shape=shape))
    return load_study(folder)


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("seconds", [1, 2.5])
def test_every_shape_passes_check(tmp_path: Path, shape: Shape, seconds: float) -> None:
    study = made(tmp_path / "study", shape, sessions=3, seconds=seconds)
    assert check_study(tmp_path / "study", ExtractorsSettings())[1] == []
    assert len(study.sessions) == 3
    assert study.remarks == ()
    assert study.unread == {}


def test_the_same_seed_makes_the_same_study(tmp_path: Path) -> None:
    for shape in Shape:
        contents = []
        for place, seed in enumerate([1, 1, 2]):
            made(tmp_path / f"{shape}{place}", shape, sessions=1, seconds=1, seed=seed)
            files = sorted(
                path for path in (tmp_path / f"{shape}{place}").rglob("*") if path.suffix in (".csv", ".avi")
            )
            contents.append([path.read_bytes() for path in files])
        assert contents[0] == contents[1] != contents[2]


def test_a_dyad_has_two_people_cameras_and_microphones_and_a_curve(tmp_path: Path) -> None:
    study = made(tmp_path / "study", Shape.DYAD, sessions=3)
    assert {name: (bool(track.video), bool(track.audio)) for name, track in study.tracks["s0001"].items()} == {
        "main": (True, False),
        "speaker_camera": (True, False),
        "listener_mic": (False, True),
        "speaker_mic": (False, True),
    }
    assert {(one.person_id, one.role) for one in study.persons} == {("listener", "listener"), ("speaker", "speaker")}
    assert len(study.clocks["s0001"]) == 3
    assert [curve.scheme for curve in study.curves] == ["valence"] * 3
    times = read_frame_times(study.path(study.sessions["s0001"].video)).time
    assert np.median(np.diff(times)) == pytest.approx(1 / 25)


def test_a_group_has_pairs_of_children_and_labels_on_half_of_the_sessions(tmp_path: Path) -> None:
    study = made(tmp_path / "study", Shape.GROUP, sessions=4)
    assert {label.session_id for label in study.labels} == {"s0001", "s0003"}
    assert {label.rater_id for label in study.labels} == {"rater-1", "rater-2"}
    assert all(session.transcript is None for session in study.sessions.values())
    pairs = {}
    for one in study.persons:
        pairs.setdefault(one.session_id, set()).add(one.participant_id)
    assert all(len(pair) == 2 for pair in pairs.values())
    assert {name for name, track in study.tracks["s0001"].items() if track.video} == {"main", "child_a", "child_b"}


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(SynthesisError, match="not empty"):
        made(tmp_path, Shape.DYAD)
