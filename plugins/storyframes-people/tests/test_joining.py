"""Pieces are joined by a model of faces where that is clear, and stay apart where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.media.people_scenes import WIDTH, Place, Scene, pictures
from support.messages import missing
from support.models.tiny_image_models import transformers_model
from support.tools.plug_ins import write
from typer.testing import CliRunner, Result

from flows.cli.app import app
from storyframes_people.boxes import regions_of
from storyframes_people.detections import LOOK_SIZE
from storyframes_people.joining import Embeddings, frame_by_frame, joined
from storyframes_people.pieces import Piece
from tasks.media.upright import write_lossless

LIMIT = 0.3
Seen = tuple[float, float, float]  # from and to which second, and at which angle (degrees) the embedding is


def groups(*seen: Seen, looks: tuple[int, ...] = (), limit: float = LIMIT) -> tuple[list[list[int]], list[str]]:
    """Which pieces are one person's, by number; and the reasons for those that are not."""
    palette = np.random.default_rng(0).uniform(0.7, 1.3, (2, LOOK_SIZE)).astype(np.float32)
    pieces = []
    for number, (start, end, _) in enumerate(seen):
        time = np.arange(start, end, 0.1)
        look = palette[looks[number] if looks else 0]
        shown = np.tile([10.0, 10, 40, 50], (len(time), 1)), np.tile(look, (len(time), 1))
        pieces.append(Piece(time, *shown, np.zeros(len(time), bool)))
    angle = np.deg2rad([angle for _, _, angle in seen])
    embeddings = Embeddings(np.column_stack([np.cos(angle), np.sin(angle)]), [np.zeros((0, 2))] * len(seen))
    people, reasons = joined(pieces, embeddings, limit)
    assert [person.name for person in people] == [f"p{n}" for n in range(1, len(people) + 1)]
    number_of = {(piece.time[0], piece.time[-1]): number for number, piece in enumerate(pieces)}
    return [[number_of[piece.time[0], piece.time[-1]] for piece in person.pieces] for person in people], reasons


# cosine distances: 0.06 of 20 degrees, 0.18 of 35, 0.29 of 45, 0.36 of 50, 0.5 of 60, 1 of 90


def test_a_person_who_comes_back_is_one_and_the_other_stays_another() -> None:
    assert groups((0, 5, 0), (0, 9, 90), (6, 9, 20)) == ([[0, 2], [1]], [])
    assert groups((0, 2, 0), (0, 9, 90), (3, 5, 20), (6, 9, 10)) == ([[0, 2, 3], [1]], [])


def test_what_is_beyond_the_limit_stays_apart_and_needs_no_word() -> None:
    assert groups((0, 5, 0), (6, 9, 50)) == ([[0], [1]], [])
    assert groups((0, 5, 0), (6, 9, 45)) == ([[0, 1]], [])


def test_a_piece_of_less_than_a_second_is_somebody_s_whose_face_it_clearly_is_and_otherwise_left_out() -> None:
    assert groups((0, 5, 0), (0, 9, 90), (5.5, 6, 20), (6.5, 9, 10)) == ([[0, 2, 3], [1]], [])
    for short in ((5.5, 6, 45), (4, 4.5, 20), (5.5, 6, 180)):  # as near to both, while she is elsewhere, or nobody's
        assert groups((0, 5, 0), (0, 9, 90), short, (6.5, 9, 10)) == ([[0, 3], [1]], [])
    assert groups((0, 5, 0), (0, 9, 90), (5.5, 6, 20), (6.5, 9, 10), looks=(0, 0, 1, 0)) == ([[0, 3], [1]], [])


def test_a_piece_between_two_is_neither_s() -> None:
    people, reasons = groups((0, 3, 0), (4, 6, 35), (7, 9, 70))
    assert people == [[0], [1], [2]]
    assert missing(reasons[1], "4.0 to", "5.9 s") == []
    assert len(reasons) == 3


def test_another_who_is_hardly_further_away_than_the_limit_keeps_both_apart() -> None:
    """0 and 45 degrees are 0.29 apart, 0 and 50 on the other side 0.36: not clearly further."""
    assert groups((0, 3, 0), (4, 6, 45), (7, 9, -50))[0] == [[0], [1], [2]]
    assert groups((0, 3, 0), (4, 6, 45), (7, 9, -60))[0] == [[0, 1], [2]]


def test_a_model_to_which_two_who_are_seen_at_once_are_alike_joins_nothing() -> None:
    people, reasons = groups((0, 3, 0), (4, 6, 0), (0, 9, 50))
    assert people == [[0], [1], [2]]
    assert reasons == [
        "nothing is joined: two faces that are seen at the same time have a distance of 0.36, which is not 0.1 above "
        "the limit of 0.3"
    ]


def test_a_model_of_small_distances_needs_less_between_two_people() -> None:
    """0.015 of 10 degrees, 0.06 of 20, 0.13 of 30: with a margin of 0.1 dlib's network joined nothing."""
    assert groups((0, 5, 0), (0, 9, 30), (6, 9, 10), limit=0.04) == ([[0, 2], [1]], [])
    assert groups((0, 5, 0), (0, 9, 18), (6, 9, 0), limit=0.04)[0] == [[0], [1], [2]]


def test_other_colours_keep_pieces_apart() -> None:
    assert groups((0, 5, 0), (6, 9, 0), looks=(0, 0)) == ([[0, 1]], [])
    people, reasons = groups((0, 5, 0), (6, 9, 0), looks=(0, 1))
    assert (people, len(reasons)) == ([[0], [1]], 2)


def test_a_doubtful_face_is_sure_where_it_is_clearly_the_person_s() -> None:
    """Of 0, 20, 45, 50 and 90 degrees, where the person is at 0 and another at 90; and without a face."""
    palette = np.ones(LOOK_SIZE, np.float32)
    time = np.arange(0, 3, 0.1)
    shown = np.tile([10.0, 10, 40, 50], (30, 1)), np.tile(palette, (30, 1))
    doubtful = np.arange(30) >= 24
    pieces = [Piece(time, *shown, doubtful), Piece(time, *shown, np.zeros(30, bool))]
    angle = np.deg2rad([0, 20, 45, 50, 90, np.nan])
    of_rows = [np.column_stack([np.cos(angle), np.sin(angle)]), np.zeros((0, 2))]
    people, _ = joined(pieces, Embeddings(np.eye(2), of_rows), 0.7)
    (settled,) = people[0].pieces
    assert settled.doubtful[24:].tolist() == [False, False, True, True, True, True]
    assert not settled.doubtful[:24].any()
    assert pieces[0].doubtful[24:].all()


def test_frames_between_two_pieces_are_those_of_the_person_whose_face_they_show() -> None:
    """She goes right at 10 pixels a tenth of a second; rows are looked at ten times a second, frames are 40."""
    clock = np.arange(0, 5, 0.025)

    def moves(start: float, end: float, x: float, doubtful: slice = slice(0, 0)) -> Piece:
        time = np.arange(start, end, 0.1)
        flags = np.zeros(len(time), bool)
        flags[doubtful] = True
        box = np.column_stack([x + 100 * time, np.full_like(time, 10), np.full((len(time), 2), 40)])
        return Piece(time, box, np.ones((len(time), LOOK_SIZE), np.float32), flags)

    pieces = [moves(0, 1.95, 50, slice(-1, None)), moves(2.3, 4.95, 50), moves(0, 4.95, 300)]
    closely = frame_by_frame(pieces, clock)
    first, second, other = closely
    for piece in closely:
        np.testing.assert_allclose(piece.box[:, 0] - piece.box[0, 0], 100 * (piece.time - piece.time[0]), atol=1e-6)
    np.testing.assert_allclose(first.time[first.doubtful], np.arange(1.825, 2.29, 0.025))
    np.testing.assert_allclose(second.time[second.doubtful], np.arange(1.925, 2.29, 0.025))
    assert not other.doubtful.any()
    angle = [np.where(piece.time[piece.doubtful] < 2.08, 0, 90) for piece in (first, second)]  # then nobody's face
    of_rows = [np.column_stack([np.cos(np.deg2rad(a)), np.sin(np.deg2rad(a))]) for a in angle]
    of_rows[1][7] = [1, 0]  # hers at 2.1, as at 2.075
    means = np.array([[1.0, 0], [1, 0], [-1, 0]])
    ((ada, ben), reasons) = joined(closely, Embeddings(means, [*of_rows, np.zeros((0, 2))]), LIMIT)
    assert reasons == []
    before, after = ada.pieces
    assert not before.doubtful.any()
    assert before.time[-1] == pytest.approx(2.075)
    assert after.time[0] == pytest.approx(2.1)
    np.testing.assert_allclose(after.time[after.doubtful], np.arange(2.125, 2.29, 0.025))
    assert len(ben.pieces[0].time) == 50


def still(time: np.ndarray, x: float, doubtful: slice = slice(0, 0)) -> Piece:
    flags = np.zeros(len(time), bool)
    flags[doubtful] = True
    box = np.tile([x, 10.0, 40, 40], (len(time), 1))
    return Piece(time, box, np.ones((len(time), LOOK_SIZE), np.float32), flags)


def test_a_piece_within_the_doubtful_end_of_another_keeps_its_sure_faces() -> None:
    """The last doubtful faces are proven hers, after a piece of hers has ended: no row of that was left."""
    first = still(np.arange(0, 8.05, 0.1), 50, slice(50, None))
    within, later = still(np.arange(5.5, 7.45, 0.1), 60), still(np.arange(10, 11.95, 0.1), 60)
    shown = np.tile([-1.0, 0], (31, 1))
    shown[-3:] = [1, 0]
    vectors = [shown, np.zeros((0, 2)), np.zeros((0, 2))]
    (ada,), reasons = joined([first, within, later], Embeddings(np.tile([1.0, 0], (3, 1)), vectors), LIMIT)
    assert reasons == []
    boxes = regions_of([ada], (640, 480), 0.1)["p1"]
    sure = boxes.time_s[boxes.seen & ~boxes.doubtful]
    np.testing.assert_allclose(sure, np.concatenate([first.time[:50], within.time, later.time]))


def test_where_nothing_is_joined_nobody_is_beyond_her_detections() -> None:
    clock = np.arange(0, 5, 0.04)
    pieces = [still(clock[:50:2], 50), still(clock[58:120:2], 50), still(clock[:120:2], 300)]
    closely = frame_by_frame(pieces, clock)
    assert closely[0].time[-1] > pieces[0].time[-1]
    vectors = [np.full((piece.doubtful.sum(), 2), np.nan) for piece in closely]
    people, (reason,) = joined(closely, Embeddings(np.tile([1.0, 0], (3, 1)), vectors), LIMIT)
    assert reason.startswith("nothing is joined")
    for person, piece in zip(people, pieces, strict=True):
        assert person.pieces[0].time[[0, -1]].tolist() == piece.time[[0, -1]].tolist()


@pytest.mark.slow
def test_what_can_not_be_cut_out_stays_apart_and_a_reason_says_so(command, folder: Path) -> None:
    """A detector that says that faces are outside the picture: no face is left, which ended the command."""
    truth = folder / "study/v.npy"
    boxes = np.load(truth)
    try:
        np.save(truth, boxes - [2000, 0, 0, 0])
        result = command("--json", "--dry-run", "--same-face", "portrait=0.2")
    finally:
        np.save(truth, boxes)
    assert result.exit_code == 0, result.output
    (recording,) = json.loads(result.stdout)["recordings"]
    assert len(recording["tracks"]) == len(recording["apart"]) == 4
    assert all("no face of it is inside the picture" in reason for reason in recording["apart"])


# --- with a model, by the command ------------------------------------------------------------------------------------

DETECTOR = """
import numpy as np
from storyframes_people.detectors import FaceDetector

class Planted(FaceDetector):
    def faces(self, pictures, settings):
        boxes = np.load(pictures.path.with_suffix(".npy"))
        for frame in pictures.frames:
            seen = boxes[frame][np.isfinite(boxes[frame, :, 0])]
            yield np.column_stack([seen, np.ones(len(seen))])
"""
SECTION = '[[embed]]\nname = "portrait"\nkind = "image"\nsource = "path:{folder}"\n'


def moves_over() -> Scene:
    """Ada leaves the left side and comes back on the right one; Cem takes her place, Ben is in the middle."""

    def sway(x: float, t: float) -> Place:
        return Place(x + 12 * np.sin(1.3 * t), 170 + 8 * np.sin(0.9 * t + x), 70, 5 * np.sin(t))

    return Scene(
        "moves over",
        {
            "ada": lambda t: sway(160, t) if t < 2.4 else sway(480, t) if t >= 4 else None,
            "ben": lambda t: sway(320, t),
            "cem": lambda t: sway(160, t) if t >= 4 else None,
        },
        seconds=6.4,
        fps=10,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That scene as a study, with a random model of pictures as ``portrait``, and as ``frame`` of whole frames."""
    folder = tmp_path_factory.mktemp("joining")
    points = {"planted": "planted_faces:Planted"}
    write(folder / "plug-in", "planted_faces", points, "storyframes.detectors", planted_faces=DETECTOR)
    scene, study = moves_over(), folder / "study"
    study.mkdir()
    write_lossless(study / "v.avi", (np.ascontiguousarray(rgb[:, :, ::-1]) for rgb in pictures(scene)), scene.fps)
    truth = [[scene.truth(name, float(t)) for name in scene.people] for t in scene.time]
    boxes = [[np.full(4, np.nan) if box is None else box for box in each] for each in truth]
    np.save(study / "v.npy", boxes)
    (study / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,v.avi\n")
    of_face = SECTION.format(folder=transformers_model(folder / "vit", "vit"))
    (folder / "storyframes.toml").write_text(f'{of_face}crop = "face"\n{of_face.replace("portrait", "frame", 1)}')
    return folder


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``people`` of that study."""
    monkeypatch.syspath_prepend(folder / "plug-in")
    given = ["people", str(folder / "study"), "--detector", "planted", "--rate", "5"]
    given += ["--config", str(folder / "storyframes.toml")]
    return lambda *arguments: CliRunner().invoke(app, [*given, *arguments])


@pytest.mark.slow
def test_a_face_is_found_again_elsewhere_and_another_in_its_place_is_not_it(command, folder: Path) -> None:
    before = json.loads(command("--json", "--dry-run").stdout)["recordings"][0]
    assert len(before["tracks"]) == 4
    result = command("--json", "--same-face", "portrait=0.2")
    assert result.exit_code == 0, result.output
    (recording,) = json.loads(result.stdout)["recordings"]
    assert list(recording["tracks"]) == ["p1", "p2", "p3"]
    assert recording["apart"] == []
    ada, ben, cem = (pd.read_csv(folder / f"study/regions/s1@p{n}.csv").dropna(subset=["x"]) for n in (1, 2, 3))
    for boxes, places in ((ada, (160, 480)), (ben, (320, 320)), (cem, (None, 160))):
        centre = (boxes["x"] + boxes["w"] / 2) * WIDTH
        for seen, place in zip((boxes["time_s"] < 3, boxes["time_s"] > 3), places, strict=True):
            assert seen.any() == (place is not None)
            np.testing.assert_allclose(centre[seen], place or 0, atol=14)


@pytest.mark.slow
def test_with_seats_who_keeps_one_has_its_name_and_who_does_not_is_a_track_all_the_same(command) -> None:
    """Ada is on the left, then on the right, about as long; Cem takes her place; Ben stays."""
    seats = ("--seat", "left=ada", "--seat", "middle=ben", "--seat", "right=cem")
    result = command("--json", "--dry-run", "--same-face", "portrait=0.2", *seats)
    assert result.exit_code == 0, result.output
    (recording,) = json.loads(result.stdout)["recordings"]
    assert sorted(recording["tracks"]) == ["ben", "p1", "p2"]
    assert [reason.partition(", ")[0] for reason in recording["apart"]] == ["p1", "p2"]
    assert all("is not surely this person's" in reason for reason in recording["apart"])


@pytest.mark.slow
def test_a_limit_that_also_joins_who_is_there_at_once_joins_nobody_and_says_so(command) -> None:
    result = command("--same-face", "portrait=0.8", "--dry-run")
    assert result.exit_code == 0, result.output
    assert missing(" ".join(result.stdout.split()), "s1", "nothing") == []
    assert "not written: 4 tracks" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--same-face", "face"], "write NAME=DISTANCE"),
        (["--same-face", "portrait=2"], "write NAME=DISTANCE"),
        (["--same-face", "nose=0.2"], "write NAME=DISTANCE"),
        (["--same-face", "frame=0.2"], "an [[embed]] with crop = 'face'"),
        (["--same-face", "dlib=0.04"], "storyframes extractors install dlib"),
    ],
)
def test_what_joins_nothing_is_refused(command, arguments: list[str], message: str) -> None:
    result = command(*arguments)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(("gap_s", "doubtful"), [(0.14, []), (0.16, [1.9]), (0.4, [1.9])])
def test_the_face_before_a_hidden_stretch_stays_doubtful(gap_s: float, doubtful: list[float]) -> None:
    """All doubtful faces are clearly hers; the last one before rows are missing may be who is in front.

    Rows are missing where more than 1.5 usual steps are between two.
    """
    time = np.concatenate([np.arange(0, 1.95, 0.1), 1.9 + gap_s + np.arange(0, 0.65, 0.1)])
    pieces = [still(time, 50, slice(15, None)), still(np.arange(0, 2.95, 0.1), 300)]
    vectors = [np.tile([1.0, 0], (len(time) - 15, 1)), np.zeros((0, 2))]
    people, _ = joined(pieces, Embeddings(np.eye(2), vectors), 0.7)
    (settled,) = people[0].pieces
    np.testing.assert_allclose(settled.time[settled.doubtful], doubtful)
