"""``storyframes people``: from recordings to regions of a study, with a detector that a plug-in brings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from support.dope.blank_model import blank_content, expect_everywhere, saved
from support.media.recordings import write_two_cameras
from support.messages import missing, naming
from support.studies import extract_session
from support.tools.plug_ins import PLUG_INS, write
from typer.main import get_command
from typer.testing import CliRunner, Result

from flows.cli.app import app
from flows.settings import Settings
from storyframes.store.records import Status
from storyframes_people.command import app as command
from storyframes_people.detections import detect_faces
from storyframes_people.detectors import (
    DetectorError,
    DopeFaces,
    FaceDetector,
    Pictures,
    choose_detector,
    choose_pictures,
)
from storyframes_people.proposal import find_outdated
from storyframes_report import build_report
from tasks.extractors.base import ExtractionError
from tasks.extractors.dope.detector import DopeDetector
from tasks.extractors.dope.extractor import Dope
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.settings import DopeSettings
from tasks.extractors.settings import CommonSettings, EngineName
from tasks.media.container import StreamChoice
from tasks.media.recording import read_frames
from tasks.media.region import RegionView
from tasks.media.upright import write_lossless
from tasks.study.boxes import Boxes
from tasks.study.load import load_study

FPS, SECONDS = 25, 4
DETECTOR = '''
import cv2
import numpy as np
from storyframes_people.detectors import FaceDetector

class Heads(FaceDetector):
    """What is bright is a head."""

    def faces(self, pictures, settings):
        for rgb in pictures:
            bright = (rgb.max(axis=2) > 120).astype(np.uint8)
            count, _, stats, _ = cv2.connectedComponentsWithStats(bright)
            yield np.column_stack([stats[1:, :4], np.ones(count - 1)])
'''


def picture(t: float, *, has_left: bool) -> np.ndarray:
    """(120, 200, 3) BGR: an orange head on the left, which moves, and a blue one on the right."""
    image = np.full((120, 200, 3), 20, np.uint8)
    if has_left:
        x = 40 + 5 * t
        cv2.rectangle(image, (round(x) - 12, 48), (round(x) + 11, 75), (40, 140, 240), -1)
    cv2.rectangle(image, (140, 40), (163, 67), (240, 120, 60), -1)
    return image


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session with two people, of whom the left one is away from second 1.4 to 2.6."""
    points = {"heads": "heads:Heads"}
    monkeypatch.syspath_prepend(write(tmp_path / "plug-in", "heads", points, "storyframes.detectors", heads=DETECTOR))
    root = tmp_path / "study"
    (root / "videos").mkdir(parents=True)
    times = np.arange(SECONDS * FPS) / FPS
    pictures = (picture(float(t), has_left=not 1.4 <= t < 2.6) for t in times)
    write_lossless(root / "videos/s1.avi", pictures, FPS)
    (root / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,videos/s1.avi\n")
    return root


def people(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["people", *map(str, arguments)])


SEATS = ("--seat", "left=participant", "--seat", "right=interviewer", "--detector", "heads")


def test_seats_become_tracks_with_private_files_of_boxes(study: Path) -> None:
    result = people(study, *SEATS)
    assert result.exit_code == 0, result.output
    tracks = pd.read_csv(study / "tracks.csv")
    assert tracks.to_dict("list") == {
        "session_id": ["s1", "s1"],
        "track": ["participant", "interviewer"],
        "region": ["regions/s1@participant.csv", "regions/s1@interviewer.csv"],
    }
    for name in tracks["region"]:
        assert (study / name).stat().st_mode & 0o777 == 0o600
    boxes = pd.read_csv(study / "regions/s1@participant.csv")
    seen = boxes.dropna(subset=["x"])
    # the face's centre is at 40 + 5 t of 200, from 48 to 75 of 120; margins of 0.4 on each side
    np.testing.assert_allclose(seen["x"] + seen["w"] / 2, (40 + 5 * seen["time_s"]) / 200, atol=0.005)
    np.testing.assert_allclose(seen["y"] + seen["h"] / 2, 62 / 120, atol=0.005)
    np.testing.assert_allclose(seen["w"] * 200, 1.8 * 24, atol=0.5)
    assert boxes["doubtful"][boxes["x"].notna()].all()  # only the seat says that who comes back is who was there
    assert not pd.read_csv(study / "regions/s1@interviewer.csv")["doubtful"].any()
    assert missing(" ".join(result.stdout.split()), "doubtful", "since") == []
    away, end = boxes["time_s"][boxes["x"].isna()]
    assert 1.28 < away < 1.4
    assert end == pytest.approx(4, abs=0.05)
    assert seen["time_s"][seen["time_s"] > 1.4].iloc[0] == pytest.approx(2.64, abs=0.05)


def test_without_seats_each_stretch_is_a_track(study: Path) -> None:
    result = people(study, "--detector", "heads", "--json")
    assert result.exit_code == 0, result.output
    (recording,) = json.loads(result.stdout)["recordings"]
    assert {track: round(found["seen_s"], 1) for track, found in recording["tracks"].items()} == {
        "p1": 1.4,
        "p2": 4.0,
        "p3": 1.3,
    }


def test_a_dry_run_writes_nothing_but_the_preview_that_was_asked_for(study: Path, tmp_path: Path) -> None:
    before = sorted(study.rglob("*"))
    result = people(study, *SEATS, "--dry-run", "--preview", tmp_path / "looks")
    assert result.exit_code == 0, result.output
    assert sorted(study.rglob("*")) == before
    assert "not written: 2 tracks" in result.stdout
    path = tmp_path / "looks/s1.png"
    assert path.stat().st_mode & 0o777 == 0o600
    drawn = cv2.imread(str(path))
    assert (drawn.astype(int) - picture(0, has_left=True)).any()
    assert drawn.shape == (120, 200, 3)


@pytest.mark.slow
def test_boxes_of_older_rules_are_named_until_they_are_made_again(study: Path) -> None:
    """Boxes by hand, wherever they are, and those of now are none of them."""
    assert people(study, *SEATS).exit_code == 0
    path = study / "regions/s1@participant.csv"
    assert [*find_outdated(load_study(study))] == []
    old = pd.read_csv(path).drop(columns="rules")
    old.to_csv(path, index=False)
    old.to_csv(study / "mine.csv", index=False)
    with (study / "tracks.csv").open("a") as table:
        table.write("s1,someone,mine.csv\n")
    (remark,) = find_outdated(load_study(study))
    assert missing(remark, "regions/s1@participant.csv", "storyframes people", "--session s1", "--replace") == []
    assert people(study, *SEATS, "--replace").exit_code == 0
    assert [*find_outdated(load_study(study))] == []


@pytest.mark.slow
def test_features_of_regions_that_were_made_again_are_due_by_themselves(study: Path, tmp_path: Path) -> None:
    """Boxes of older rules were held for longer after the last face; those of the interviewer are the same."""
    assert people(study, *SEATS).exit_code == 0
    path = study / "regions/s1@participant.csv"
    pd.read_csv(path).drop(columns="rules").iloc[:-1].to_csv(path, index=False)

    def extracted() -> set[str]:
        outcomes = extract_session(study, tmp_path / "features", "brightness", session_id="s1")[1]
        assert {outcome.status for outcome in outcomes.values()} == {Status.DONE}
        return {name for name, outcome in outcomes.items() if "brightness@" in name and not outcome.skipped}

    assert extracted() == {"brightness@participant", "brightness@interviewer"}
    assert extracted() == set()
    assert people(study, *SEATS, "--replace").exit_code == 0
    assert extracted() == {"brightness@participant"}


@pytest.mark.slow
def test_rows_by_hand_are_kept_and_own_ones_are_replaced_when_asked(study: Path) -> None:
    (study / "tracks.csv").write_text('session_id,track,region,note\ns1,someone,"0.5,0,0.5,1",mine\n')
    assert people(study, *SEATS).exit_code == 0
    tracks = pd.read_csv(study / "tracks.csv")
    assert tracks["track"].tolist() == ["someone", "participant", "interviewer"]
    assert tracks["note"][0] == "mine"
    content = (study / "tracks.csv").read_bytes()
    again = people(study, *SEATS)
    assert again.exit_code == 2
    assert missing(again.stderr, "s1", "--replace") == []
    (study / "regions/s1@participant.csv").write_text("time_s,x,y,w,h\n")
    assert people(study, *SEATS, "--replace").exit_code == 0
    assert len(pd.read_csv(study / "regions/s1@participant.csv")) > 10
    assert (study / "tracks.csv").read_bytes() == content
    mine = people(study, "--seat", "left=someone", "--detector", "heads", "--replace")
    assert mine.exit_code == 2
    assert missing(mine.stderr, "someone", "command") == []
    assert (study / "tracks.csv").read_bytes() == content


@pytest.mark.slow
def test_boxes_of_one_picture_never_become_those_of_another_track_or_picture(study: Path) -> None:
    """A track that was renamed by hand keeps its boxes, and --replace is of the same recording."""
    (study / "tracks.csv").write_text("session_id,track,video\ns1,cam2,videos/s1.avi\n")
    assert people(study, "--detector", "heads").exit_code == 0
    by_command = (study / "tracks.csv").read_text()
    (study / "tracks.csv").write_text(by_command.replace("s1,p1,", "s1,anna,"))
    content = {path.name: path.read_bytes() for path in (study / "regions").iterdir()}
    for how in ((), ("--replace",)):
        renamed = people(study, "--detector", "heads", *how)
        assert renamed.exit_code == 2
        assert missing(" ".join(renamed.stderr.split()), "regions/s1@p1.csv", "already") == []
    (study / "tracks.csv").write_text(by_command)
    other = people(study, "--detector", "heads", "--track", "cam2", "--replace")
    assert other.exit_code == 2
    assert missing(" ".join(other.stderr.split()), "p1", "recording") == []
    assert {path.name: path.read_bytes() for path in (study / "regions").iterdir()} == content
    assert people(study, "--detector", "heads", "--replace").exit_code == 0


@pytest.mark.slow
def test_boxes_of_somebody_who_is_not_found_any_more_are_not_left_in_silence(study: Path) -> None:
    assert people(study, *SEATS).exit_code == 0
    nowhere = ("--seat", "0,0,0.1,0.1=participant", "--seat", "right=interviewer", "--detector", "heads", "--replace")
    result = people(study, *nowhere)
    assert result.exit_code == 2
    assert missing(" ".join(result.stderr.split()), "participant", "earlier") == []
    assert people(study, "--seat", "right=interviewer", "--detector", "heads", "--replace").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--session", "s9"], "the study has no session s9"),
        (["--track", "cam2"], "has a video of the track cam2"),
        (["--seat", "left"], "write SEAT=NAME"),
        (["--detector", "eyes"], "there is no detector 'eyes'; there are"),
        (["--detector", "dope"], "the detector dope cannot be used"),
        (["--seat", "left=no/track", "--detector", "heads"], "the study would not be valid; nothing is written"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(study: Path, arguments: list[str], message: str) -> None:
    result = people(study, *arguments)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.stderr.split())
    assert not (study / "tracks.csv").exists()
    assert not (study / "regions").exists()


def test_a_recording_that_fails_ends_with_1_and_the_others_are_written(study: Path) -> None:
    (study / "videos/s2.avi").write_bytes(b"no video")
    (study / "sessions.csv").open("a").write("s2,p2,videos/s2.avi\n")
    result = people(study, *SEATS)
    assert result.exit_code == 1
    assert "failed s2" in result.stderr
    assert len(pd.read_csv(study / "tracks.csv")) == 2


@pytest.mark.slow
def test_a_region_s_pictures_are_of_its_person_and_the_report_shows_who_is_seen_when(
    study: Path, tmp_path: Path
) -> None:
    assert people(study, *SEATS).exit_code == 0
    file = study / "regions/s1@interviewer.csv"
    lines = file.read_text().splitlines()
    lines[3] = lines[3].replace("false", "true")  # as where two came near each other
    file.write_text("\n".join(lines) + "\n")
    (batch,) = read_frames(study / "videos/s1.avi", SECONDS * FPS)
    colours = {"participant": (240, 140, 40), "interviewer": (60, 120, 240)}
    for track, colour in colours.items():
        boxes = Boxes.read(study / f"regions/s1@{track}.csv")
        view = RegionView(boxes.at(batch.time, 1 / FPS), 200, 120)
        shown = view.cut(batch).rgb
        middle = shown[view.seen, shown.shape[1] // 2, shown.shape[2] // 2]
        np.testing.assert_array_equal(middle, np.tile(colour, (len(middle), 1)))
        assert len(middle) == {"participant": 69, "interviewer": 100}[track]  # of 70; pictures are every second frame
    store, _ = extract_session(study, tmp_path / "features", "frames", session_id="s1")
    build_report(load_study(study), store, Settings(), tmp_path / "site")
    page = (tmp_path / "site/sessions/s1.html").read_text()
    assert "Who is seen when" in page
    assert missing(page, "3.9 s", "0.1 s") == []


# --- detectors -------------------------------------------------------------------------------------------------------


def test_a_plug_in_that_is_no_detector_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(write(tmp_path, "wrong", {"wrong": "builtins:dict"}, "storyframes.detectors"))
    with pytest.raises(DetectorError, match=naming("methods", "wrong")):
        choose_detector(Settings(), "wrong")


def test_pictures_are_evenly_chosen_frames_of_the_recording(study: Path) -> None:
    pictures = choose_pictures(study / "videos/s1.avi", 10)
    assert pictures.frames.tolist() == [*range(0, 100, 2), 99]
    assert (pictures.width, pictures.height, pictures.frame_s) == (200, 120, pytest.approx(0.04))
    assert [int(rgb[60, 40, 0]) for rgb in pictures][:3] == [240] * 3
    assert len(list(pictures)) == len(pictures) == 51


def test_faces_are_looked_for_in_the_chosen_picture(tmp_path: Path) -> None:
    both, second = write_two_cameras(tmp_path)
    pictures = choose_pictures(both, 240, StreamChoice(video=1))
    assert (pictures.width, pictures.height, len(pictures)) == (80, 32, 9)
    expected = np.concatenate([batch.rgb for batch in read_frames(second, 9)])
    np.testing.assert_array_equal(np.stack([*pictures]), expected)


class Fixed(FaceDetector):
    def __init__(self, faces: list[list[float]]) -> None:
        self.found = np.array(faces, float)

    def faces(self, pictures: Pictures, settings: object) -> Iterator[np.ndarray]:
        return (self.found for _ in pictures)


def test_a_face_that_is_found_twice_is_one_and_the_unsure_are_left_out(study: Path) -> None:
    pictures = choose_pictures(study / "videos/s1.avi", 1)
    faces = [[10, 10, 20, 20, 0.6], [12, 11, 20, 20, 0.9], [28, 10, 20, 20, 0.7], [90, 90, 20, 20, 0.3]]
    found = detect_faces(pictures, Fixed(faces), None, 0.5)
    assert [box.tolist() for box in found.boxes] == [[[12, 11, 20, 20], [28, 10, 20, 20]]] * 5
    with pytest.raises(ExtractionError, match=naming("frame 0", "Fixed")):
        detect_faces(pictures, Fixed([[1, 2, 0, 4, 1]]), None, 0.5)


TORSO = """
            yield np.vstack([rows, [60, 52, 24, 28, 0.6]])
"""


def test_a_detector_declares_how_sure_it_has_to_be_and_what_is_less_sure_has_no_name_and_ends_no_piece(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torso comes as near to the left head as another face would, and is always a little less sure."""
    source = DETECTOR.replace("class Heads(FaceDetector):", "class Torsos(FaceDetector):\n    min_confidence = 0.75")
    source = source.replace("            yield ", "            rows = ") + TORSO
    points = {"torsos": "torsos:Torsos"}
    monkeypatch.syspath_prepend(write(tmp_path / "more", "torsos", points, "storyframes.detectors", torsos=source))
    seen = {}
    for name, more in (("sure", []), ("all", ["--min-confidence", "0.5"])):
        result = people(study, *SEATS[:-1], "torsos", "--json", "--dry-run", *more)
        assert result.exit_code == 0, result.output
        tracks = json.loads(result.stdout)["recordings"][0]["tracks"]
        seen[name] = {track: round(times["seen_s"], 1) for track, times in tracks.items()}
    assert seen["sure"] == {"participant": 2.7, "interviewer": 4.0}
    assert seen["all"].pop("p1") >= 1
    assert {name: seen["all"].get(name) for name in seen["sure"]} == seen["sure"]


def test_the_seconds_of_faces_that_are_left_out_as_too_short_are_said(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = DETECTOR.replace("Heads", "Blinking").replace(
        "            yield ", "            number = getattr(self, 'number', 0)\n            rows = "
    )
    source += "            self.number = number + 1\n            yield rows[:1] if 5 <= number < 14 else rows[:0]\n"
    points = {"blinking": "blinking:Blinking"}
    monkeypatch.syspath_prepend(write(tmp_path / "more", "blinking", points, "storyframes.detectors", blinking=source))
    result = people(study, "--detector", "blinking", "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    (recording,) = json.loads(result.stdout)["recordings"]
    assert recording["tracks"] == {}
    assert recording["too_short_s"] == pytest.approx(0.64)
    shown = people(study, "--detector", "blinking", "--dry-run").stdout
    assert missing(" ".join(shown.split()), "left out", "0.6 s", "1 s") == []


class Planned(FaceDetector):
    def __init__(self, answers: Callable[[Pictures], Iterable[np.ndarray]]) -> None:
        self.answers = answers

    def faces(self, pictures: Pictures, settings: object) -> Iterator[np.ndarray]:
        return iter(self.answers(pictures))


def failing(pictures: Pictures) -> Iterator[np.ndarray]:
    yield np.empty((0, 5))
    raise KeyError("said in confidence")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (failing, "Planned ended with KeyError after 1 pictures$"),
        (lambda _: [np.empty((0, 5))] * 4, "Planned gave faces of other than 5 pictures"),
        (lambda _: [np.empty((0, 5))] * 6, "Planned gave faces of other than 5 pictures"),
    ],
)
def test_a_detector_that_breaks_its_promise_ends_one_recording(
    study: Path, answers: Callable[[Pictures], Iterable[np.ndarray]], said: str
) -> None:
    with pytest.raises(ExtractionError, match=said):
        detect_faces(choose_pictures(study / "videos/s1.avi", 1), Planned(answers), None, 0.5)


@pytest.mark.slow
def test_dope_gives_the_faces_of_its_own_detector(study: Path, tmp_path: Path) -> None:
    content = blank_content()
    content["dope_kwargs"] |= {
        "min_size": 64,
        "max_size": 120,
        "rpn_pre_nms_top_n_test": 20,
        "rpn_post_nms_top_n_test": 20,
    }
    expect_everywhere(content, Part.FACE, 0)
    settings = DopeSettings(model=saved(content, tmp_path / "dope.pth.tgz"), engine=EngineName.TORCH)
    pictures = choose_pictures(study / "videos/s1.avi", 0.5)
    first = next(DopeFaces().faces(pictures, settings))
    detector = Dope(settings, CommonSettings()).load_detector()
    assert isinstance(detector, DopeDetector)
    (frame,) = detector.detect([next(iter(pictures))])
    points = frame.parts[Part.FACE].pose2d
    assert len(points)
    np.testing.assert_array_equal(first[:, :2], points.min(1))
    np.testing.assert_allclose(first[:, :2] + first[:, 2:4], points.max(1), rtol=1e-6)


def test_every_documented_command_has_its_options() -> None:
    pages = [PLUG_INS.parent / "docs/two-people.md", PLUG_INS / "storyframes-people/README.md"]
    text = "".join(page.read_text() for page in pages)
    commands = re.findall(r"^storyframes people (.+)$", text, re.MULTILINE)
    options = {name for each in get_command(command).params for name in each.opts}
    assert len(commands) == 5
    assert {word for line in commands for word in line.split() if word.startswith("--")} <= options
