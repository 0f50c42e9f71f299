"""``storyframes sync``: which clocks of a study it measures, and how it writes them into the tables."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from storyframes_sync.command import app
from storyframes_sync.match_sound import Match
from storyframes_sync.propose_clocks import Outcome, Proposal, propose_clocks, read_unsynchronised
from storyframes_sync.write_clocks import MeasuredClock, write_clocks
from support.media.recordings import FPS, with_damaged_sound, write_recording, write_streams, write_wave
from support.media.speech import RATE, recorded, speech
from support.messages import missing, naming
from support.studies import make_study
from typer.testing import CliRunner

from storyframes.times import Clock
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.media.synthetic_study import Shape
from tasks.study import StudyError, TableChangeError, load_study

ROOM = speech(60, 1)
SESSIONS = "session_id,participant_id,video,audio\ns1,p1,s1.mkv,\ns2,p2,s2.mkv,s2.wav\n"


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session with a camera that began 3.2 s later and a lapel microphone that began 5 s earlier; another session."""
    folder = tmp_path_factory.mktemp("media")
    write_recording(folder / "s1.mkv", 45 * FPS, recorded(ROOM, 6, 45, 1), picture_at_s=0.5, sound_at_s=0.5)
    # Its sound begins .4 s before the first picture, which is second 0.
    write_recording(folder / "s1-b.mkv", 40 * FPS, recorded(ROOM, 8.8, 41, 2), picture_at_s=0.4)
    write_wave(folder / "s1-lapel.wav", recorded(ROOM, 1, 50, 3, rate=22_050, channels=2, ppm=-120), 22_050)
    write_wave(folder / "s1-rig.wav", recorded(ROOM, 6, 45, 4), RATE)
    write_recording(folder / "s2.mkv", 40 * FPS)
    write_wave(folder / "s2.wav", recorded(speech(60, 2), 0, 40, 5), RATE)
    return folder


@pytest.fixture
def study(tmp_path: Path, media: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    for path in media.iterdir():
        (folder / path.name).hardlink_to(path)
    (folder / "sessions.csv").write_text(SESSIONS)
    return folder


def tracks(study: Path, *rows: str, columns: str = "session_id,track,video,audio,clock") -> None:
    (study / "tracks.csv").write_text("\n".join([columns, *rows, ""]))


def sync(*arguments: object) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)))


def tables(study: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in study.glob("*.csv")}


def test_the_chosen_sound_is_heard_and_damage_is_named(tmp_path: Path) -> None:
    """The second sound of the camera is the room's; the first is silent."""
    study = make_study(tmp_path / "study", video="s.mp4")
    heard = recorded(ROOM, 6, 45, 1)
    write_recording(tmp_path / "whole.mp4", 45 * FPS, heard, codec="flac")
    with_damaged_sound(tmp_path / "whole.mp4", study / "s.mp4", [2, 3])
    later = recorded(ROOM, 8, 40, 2)
    write_streams(study / "b.mkv", {"eng": 0 * later, "fra": later}, pictures=0)
    tracks(study, "s,b,,b.mkv,")
    (tmp_path / "config.toml").write_text("[recording]\nsound_stream = 1\n")
    assert sync(study).exit_code == 1
    result = sync(study, "--config", tmp_path / "config.toml", "--json")
    (clock,) = json.loads(result.stdout)["clocks"]
    assert clock["match"]["session_s"][0] - clock["match"]["device_s"][0] == pytest.approx(2, abs=0.02)
    assert json.loads(result.stdout)["damaged_sound_packets"] == {"s.mp4": 2}
    assert missing(result.stderr, "s.mp4: 2 packets") == []


@pytest.mark.slow
def test_cameras_and_microphones_get_their_clocks(study: Path) -> None:
    """A clock that is named and has no rows yet, a track without a clock, and one that needs none."""
    tracks(study, "s1,cam_b,s1-b.mkv,,clock_b", "s1,lapel,,s1-lapel.wav,", "s1,rig,,s1-rig.wav,")
    with pytest.raises(StudyError):  # clock_b has no rows
        load_study(study)
    before = tables(study)
    done = sync(study)
    assert done.exit_code == 0, done.stderr
    assert "not written: 2 clocks; --write" in done.stdout
    assert tables(study) == before
    done = sync(study, "--write")
    assert done.exit_code == 0, done.stderr
    assert "written: 2 clocks into" in done.stdout
    loaded = load_study(study)
    assert {name: track.clock for name, track in loaded.tracks["s1"].items()} == {
        "main": None,
        "cam_b": "clock_b",
        "lapel": "lapel",
        "rig": None,
    }
    assert loaded.clock("s1", "cam_b").to_session(0.0) == pytest.approx(3.2, abs=0.01)
    at = np.linspace(0, 50, 20)
    np.testing.assert_allclose(loaded.clock("s1", "lapel").to_session(at), -5 + at / (1 - 120e-6), rtol=0, atol=0.01)
    written = tables(study)
    again = sync(study, "--write")  # what is there stays
    assert again.exit_code == 0
    assert re.search(r"cam_b.*kept", again.stdout)
    assert tables(study) == written


@pytest.mark.slow
def test_rows_that_are_there_are_replaced_on_request_only(study: Path) -> None:
    tracks(study, "s1,cam_b,s1-b.mkv,,clock_b", "s2,x,,s2.wav,y")
    (study / "clocks.csv").write_text("session_id,clock,clock_s,session_s,note\ns2,y,0,1,by hand\ns1,clock_b,0,9,\n")
    before = tables(study)
    assert sync(study, "--write").exit_code == 0
    assert tables(study) == before
    replaced = sync(study, "--replace", "--write", "--session", "s1", "--json")
    assert replaced.exit_code == 0
    content = json.loads(replaced.stdout)
    assert content["written"] == len(content["clocks"]) == 1
    assert content["clocks"][0]["session_id"] == "s1"
    header, by_hand, *rows = (study / "clocks.csv").read_text().splitlines()
    assert (header, by_hand) == ("session_id,clock,clock_s,session_s,note,error_s", "s2,y,0,1,by hand,")
    assert rows[0].endswith(f",{content['clocks'][0]['match']['error_ms'] / 1000:.6f}")
    assert load_study(study).clock("s1", "cam_b").to_session(0.0) == pytest.approx(3.2, abs=0.01)
    assert len(rows) == 1
    assert tables(study)["tracks.csv"] == before["tracks.csv"]


def test_what_is_wrong_with_one_track_costs_the_others_nothing(study: Path) -> None:
    (study / "bad.wav").write_bytes(b"RIFF")
    tracks(
        study,
        "s1,cam_b,s1-b.mkv,,clock_b",
        "s1,bad,,bad.wav,c1",
        "s1,gone,,gone.wav,c2",
        "s1,mute,s2.mkv,,c3",
        "s2,other,,s1-lapel.wav,c4",
    )
    done = sync(study, "--write")
    assert done.exit_code == 1
    assert "written: 1 clock into" in done.stdout
    assert (study / "clocks.csv").read_text().splitlines()[1:] == [
        line for line in (study / "clocks.csv").read_text().splitlines() if line.startswith("s1,clock_b,0,3.")
    ]
    reasons = {line.split(": ")[0]: line for line in done.stderr.splitlines() if line.startswith("refused")}
    assert "is no media file" in reasons["refused s1, bad"] or "bad.wav" in reasons["refused s1, bad"]
    assert "gone.wav" in reasons["refused s1, gone"]
    assert "has no audio track" in reasons["refused s1, mute"]
    assert "nothing in common" in reasons["refused s2, other"]
    with pytest.raises(StudyError, match="c4"):  # is without rows as before
        load_study(study)


def test_a_session_whose_own_sound_is_none(study: Path) -> None:
    (study / "sessions.csv").write_text("session_id,participant_id,video\ns2,p2,s2.mkv\n")
    tracks(study, "s2,x,,s2.wav,")
    (proposal,) = propose_clocks(read_unsynchronised(study), ["s2"])
    assert (proposal.outcome, proposal.clock) == (Outcome.REFUSED, "x")
    assert missing(proposal.reason, "s2.mkv", "files") == []


def test_devices_on_one_clock_are_told_by_the_first_that_has_sound(study: Path) -> None:
    tracks(study, "s1,silent,s2.mkv,,rig", "s1,cam_b,s1-b.mkv,,rig", "s1,rig,,s1-rig.wav,")
    first, second = propose_clocks(read_unsynchronised(study), ["s1"])
    assert (first.clock, first.track, first.outcome) == ("rig", "cam_b", Outcome.MEASURED)
    assert (second.clock, second.track, second.outcome) == ("rig-clock", "rig", Outcome.IN_TIME)


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        ((), (), "no other cameras or microphones"),
        (("s1,b,s1-b.mkv,,",), ("--session", "s9"), "the study has no session s9"),
        (("s1,b,s1-b.mkv,,",), ("--session", "s2"), "no other cameras or microphones"),
        (("s9,b,s1-b.mkv,,",), (), "is not a valid study"),
    ],
)
def test_bad_usage(study: Path, rows: tuple[str, ...], arguments: tuple[str, ...], message: str) -> None:
    if rows:
        tracks(study, *rows)
    done = sync(study, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("shape", [Shape.DYAD, Shape.GROUP])
def test_the_clocks_of_a_synthetic_study_are_those_of_its_sound(tmp_path: Path, shape: Shape) -> None:
    """What the table says is what ``sync`` measures, so each proves the other."""
    write_study(tmp_path / "study", SyntheticStudy(1, 70, width=64, height=48, shape=shape))
    study = load_study(tmp_path / "study")
    proposals = list(propose_clocks(study, ["s0001"], replace=True))
    assert len(proposals) == len(study.clocks["s0001"])
    for one in proposals:
        assert one.outcome is Outcome.MEASURED, one.reason
        written = study.clocks["s0001"][one.clock]
        measured = Clock(one.clock, one.match.device_s, one.match.session_s)
        np.testing.assert_allclose(measured.to_session(written.clock_s), written.session_s, rtol=0, atol=0.01)


# --- writing ---------------------------------------------------------------------------------------------------------

LAPEL = MeasuredClock("s1", "lapel", "lapel", (0.0, 50.0), (-5.0, 45.006))


def test_everything_else_in_the_tables_stays(study: Path) -> None:
    tracks(study, "s1,lapel,,s1-lapel.wav,k,1", 's1,b,,s1-rig.wav,"a, b",', columns="session_id,track,video,audio,who,")
    (study / "tracks.csv").chmod(0o640)
    write_clocks(study, [LAPEL])
    assert (study / "tracks.csv").read_text().splitlines() == [
        "session_id,track,video,audio,who,,clock",
        "s1,lapel,,s1-lapel.wav,k,1,lapel",
        's1,b,,s1-rig.wav,"a, b",,',
    ]
    assert (study / "tracks.csv").stat().st_mode & 0o777 == 0o640
    assert (
        study / "clocks.csv"
    ).read_text() == "session_id,clock,clock_s,session_s\ns1,lapel,0,-5\ns1,lapel,50,45.006\n"


def test_tables_in_parquet_get_the_clocks_too(study: Path) -> None:
    frame = pd.DataFrame({"session_id": ["s1", "s1"], "track": ["lapel", "b"], "audio": ["s1-lapel.wav", "s1-rig.wav"]})
    frame.to_parquet(study / "tracks.parquet")
    pd.DataFrame({"session_id": ["s1"], "clock": ["k"], "clock_s": [0], "session_s": [1]}).to_parquet(
        study / "clocks.parquet"
    )
    lapel = replace(LAPEL, error_s=0.002)
    write_clocks(study, [lapel, MeasuredClock("s1", "b", "k", (0.0,), (2.0,))], replace=True)
    assert load_study(study).clock("s1", "lapel").session_s == (-5.0, 45.006)
    assert load_study(study).clock("s1", "b").session_s == (2.0,)
    assert load_study(study).clock_errors == {"s1": {"lapel": 0.002}}
    assert list(pd.read_parquet(study / "tracks.parquet")["clock"]) == ["lapel", "k"]


@pytest.mark.parametrize("replace", [False, True])
def test_rows_that_are_there_stop_what_would_overwrite_them(study: Path, replace: bool) -> None:
    tracks(study, "s1,lapel,,s1-lapel.wav,lapel")
    (study / "clocks.csv").write_text("session_id,clock,clock_s,session_s\n s1 ,lapel,0,1\n")
    before = tables(study)
    if replace:
        write_clocks(study, [LAPEL], replace=True)
        assert load_study(study).clock("s1", "lapel").session_s == (-5.0, 45.006)
        return
    with pytest.raises(TableChangeError, match=naming("s1", "already")):
        write_clocks(study, [LAPEL])
    assert tables(study) == before


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda study: (study / "clocks.csv").symlink_to(study / "other.csv"), "is a link"),
        (
            lambda study: (study / "clocks.csv").write_text("session_id;clock;clock_s;session_s\n"),
            "separated by semicolons",
        ),
        (lambda study: (study / "clocks.parquet").write_text(""), "is damaged, or no Parquet"),
    ],
    ids=["link", "semicolons", "parquet"],
)
def test_tables_that_cannot_be_changed_are_left_alone(study: Path, fault, message: str) -> None:
    tracks(study, "s1,lapel,,s1-lapel.wav,")
    fault(study)
    before = tables(study) if message != "is a link" else (study / "tracks.csv").read_bytes()
    with pytest.raises(TableChangeError, match=message):
        write_clocks(study, [LAPEL])
    assert before == (tables(study) if message != "is a link" else (study / "tracks.csv").read_bytes())


def test_a_clock_that_the_study_refuses_is_not_written(study: Path) -> None:
    tracks(study, "s1,lapel,,s1-lapel.wav,")
    before = tables(study)
    with pytest.raises(TableChangeError, match="runs? .* ppm|never runs backwards"):
        write_clocks(study, [MeasuredClock("s1", "lapel", "lapel", (0.0, 50.0), (5.0, 4.0))])
    assert tables(study) == before


def test_the_error_of_a_proposed_clock_is_in_seconds() -> None:
    match = Match((1.0,), (3.5,), 0.0, shared_s=40, pieces=9, agreeing=8, score=0.9, residual_ms=2.5, error_ms=1.25)
    rows = Proposal("s1", "b", "b", Outcome.MEASURED, match).measured
    assert (rows.clock_s, rows.session_s, rows.error_s) == ((1.0,), (3.5,), 0.00125)
