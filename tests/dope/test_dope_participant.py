"""One person per frame, and everybody as flat arrays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.stores import local

from storyframes import FeatureStore
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.publish import FeatureWriter
from tasks.extractors.dope.extractor import EverybodyWriter
from tasks.extractors.dope.joints import JOINT_COUNT, Part
from tasks.extractors.dope.people import FrameDetections, ParticipantTracker, Poses, everybody
from tasks.media.recording import FrameBatch

Found = tuple[float, float]  # score, and x of the upper left corner


def poses(part: Part, found: list[Found], size: float) -> Poses:
    """Detections with joints on the diagonal of a square, at y = 0."""
    joints, count = JOINT_COUNT[part], len(found)
    pose2d = np.zeros((count, joints, 2), np.float32) + np.linspace(0, size, joints)[:, None]
    pose2d[..., 0] += np.array([x for _, x in found], np.float32).reshape(-1, 1)
    number = np.arange(count)
    pose3d = np.zeros((count, joints, 3), np.float32) + number[:, None, None]
    score = np.array([score for score, _ in found], np.float32)
    return Poses(score, pose2d.astype(np.float32), pose3d.astype(np.float32), number, number, number)


def frame(
    bodies: list[Found] | None = None,
    hands: list[Found] | None = None,
    faces: list[Found] | None = None,
    hands_of_body: list[tuple[int, int]] | None = None,
    face_of_body: list[int] | None = None,
) -> FrameDetections:
    bodies, hands, faces = bodies or [], hands or [], faces or []
    return FrameDetections(
        {
            Part.BODY: poses(Part.BODY, bodies, 100),
            Part.HAND: poses(Part.HAND, hands, 10),
            Part.FACE: poses(Part.FACE, faces, 20),
        },
        hand_is_right=np.zeros(len(hands), bool),
        hands_of_body=np.array(hands_of_body or [(-1, -1)] * len(bodies), np.int64).reshape(-1, 2),
        face_of_body=np.array(face_of_body or [-1] * len(bodies), np.int64),
    )


def chosen_x(frames: list[FrameDetections], **rule: float) -> list[float]:
    return ParticipantTracker(**rule).follow(frames).body_2d[:, 0, 0].tolist()


def test_shapes_and_types() -> None:
    p = ParticipantTracker().follow([frame(), frame([(1, 0)])])
    assert p.body_2d.shape == (2, 13, 2)
    assert p.body_3d.shape == (2, 13, 3)
    assert p.hands_2d.shape == (2, 2, 21, 2)
    assert p.hands_3d.shape == (2, 2, 21, 3)
    assert p.face_2d.shape == (2, 84, 2)
    assert p.face_3d.shape == (2, 84, 3)
    assert (p.body_score.shape, p.hands_score.shape, p.face_score.shape) == ((2,), (2, 2), (2,))
    assert p.n_detected.shape == (2, 3)
    assert p.n_detected.dtype == np.int16
    assert {getattr(p, name).dtype for name in p.__dataclass_fields__ if name != "n_detected"} == {np.dtype(np.float32)}


def test_the_highest_score_comes_first() -> None:
    assert chosen_x([frame([(3, 500), (2, 0)])]) == [500]


def test_of_similar_scores_the_person_stays_the_same() -> None:
    assert chosen_x([frame([(3, 500), (2, 0)]), frame([(3, 10), (2, 510)]), frame([(3, 10), (2, 520)])]) == [
        500,
        510,
        520,
    ]


def test_a_much_higher_score_wins_over_overlap() -> None:
    assert chosen_x([frame([(3, 500)]), frame([(9, 0), (2, 500)])]) == [500, 0]
    assert chosen_x([frame([(3, 500)]), frame([(9, 0), (2, 500)])], rival_score=0) == [500, 500]
    assert chosen_x([frame([(3, 500)]), frame([(3, 0), (2.9, 500)])], rival_score=1) == [500, 0]


def test_where_nobody_overlaps_the_score_decides() -> None:
    assert chosen_x([frame([(3, 500)]), frame([(3, 0), (2, 200)])]) == [500, 0]


def test_the_person_is_remembered_over_frames_without_anybody() -> None:
    assert chosen_x([frame([(3, 500)]), frame(), frame([(3, 0), (2, 490)])])[2] == 490


def test_batches_do_not_matter() -> None:
    frames = [frame([(3, 500), (2, 0)]), frame(), frame([(3, 10), (2, 510)]), frame([(3, 10), (2, 520)])]
    tracker = ParticipantTracker()
    one_by_one = np.concatenate([tracker.follow([found]).body_2d for found in frames])
    np.testing.assert_array_equal(one_by_one, ParticipantTracker().follow(frames).body_2d)


def test_hands_and_face_are_those_of_the_body() -> None:
    p = ParticipantTracker().follow(
        [
            frame(
                [(3, 0), (2, 500)],
                hands=[(0.9, 1), (0.8, 2), (0.7, 3)],
                faces=[(0.6, 4), (0.5, 5)],
                hands_of_body=[(2, 1), (0, -1)],
                face_of_body=[1, 0],
            )
        ]
    )
    assert p.n_detected.tolist() == [[2, 3, 2]]
    np.testing.assert_allclose(p.hands_score, [[0.7, 0.8]])
    assert p.hands_2d[0, :, 0, 0].tolist() == [3, 2]
    assert p.hands_3d[0, :, 0, 0].tolist() == [2, 1]
    assert p.face_score[0] == 0.5
    assert p.face_3d[0, 0, 0] == 1


def test_a_body_without_hands_and_face_does_not_borrow_others() -> None:
    p = ParticipantTracker().follow([frame([(3, 0)], hands=[(0.9, 1)], faces=[(0.6, 4)])])
    assert p.body_score.tolist() == [3]
    assert np.isnan(p.hands_2d).all()
    assert np.isnan(p.hands_score).all()
    assert np.isnan(p.face_2d).all()
    assert np.isnan(p.face_score).all()


def test_a_face_alone() -> None:
    with_body = frame([(3, 500)], faces=[(1, 540)], face_of_body=[0])
    p = ParticipantTracker().follow([with_body, frame(hands=[(9, 0)], faces=[(0.9, 505), (0.8, 545)])])
    assert np.isnan(p.body_2d[1]).all()
    assert np.isnan(p.hands_2d[1]).all()
    assert p.face_2d[1, 0, 0] == 545, "where his face was, though another within his body scores higher"
    assert p.n_detected[1].tolist() == [0, 1, 2]
    alone = ParticipantTracker().follow([frame(faces=[(0.9, 0), (0.8, 545)])])
    assert alone.face_2d[0, 0, 0] == 0


def test_a_face_alone_is_compared_with_the_body_where_no_face_was_seen() -> None:
    p = ParticipantTracker().follow([frame([(3, 500)]), frame(faces=[(0.9, 0), (0.8, 545)])])
    assert p.face_2d[1, 0, 0] == 545


@pytest.mark.parametrize("rival_score", [-0.1, 1.1, float("nan")])
def test_wrong_rule(rival_score: float) -> None:
    with pytest.raises(ValueError, match=r"it must be in 0\.\.1"):
        ParticipantTracker(rival_score)


def test_everybody() -> None:
    first = frame([(3, 0)], hands=[(0.9, 1), (0.8, 2)], faces=[(1, 4)], hands_of_body=[(1, -1)], face_of_body=[0])
    last = frame([(3, 0), (2, 9)], [(0.7, 3)], [(1, 5)], hands_of_body=[(0, 0), (-1, 0)], face_of_body=[-1, 0])
    all_of = everybody([first, frame(), last])
    assert all_of["body_offsets"].tolist() == [0, 1, 1, 3]
    assert all_of["hand_offsets"].tolist() == [0, 2, 2, 3]
    assert all_of["hand_2d"][:, 0, 0].tolist() == [1, 2, 3]
    assert all_of["face_3d"].shape == (2, 84, 3)
    assert all_of["hands_of_body"].tolist() == [[1, -1], [2, 2], [-1, 2]]
    assert all_of["face_of_body"].tolist() == [0, -1, 1]
    assert all_of["hand_is_right"].shape == (3,)


def test_nobody_at_all() -> None:
    none = everybody([])
    assert none["body_offsets"].tolist() == [0]
    assert none["body_2d"].shape == (0, 13, 2)
    assert none["hands_of_body"].shape == (0, 2)


def test_hands_and_faces_of_bodies_are_rows_of_the_whole_recording(store_root: Path) -> None:
    """Batches of three frames, of which two are looked at, and of one; the first has no hand."""
    arrays = {name: spec for name, spec in FEATURES["dope"].arrays.items() if name.startswith("all_")}
    spec = replace(FEATURES["dope"], arrays=arrays, mask="", face="", groups={})
    first = frame([(1, 0)], faces=[(1, 0), (0.5, 0)], face_of_body=[1])
    second = frame([(1, 0), (0.5, 0)], [(1, 0)], [(1, 0)], [(-1, -1), (-1, 0)], [0, -1])
    with FeatureWriter(local(store_root), "s", spec) as out:
        writer = EverybodyWriter(out, None)
        for number, chosen, found in ((0, [0, 2], [first, frame()]), (3, [0], [second])):
            pictures = np.zeros((3 if number == 0 else 1, 1, 1, 3), np.uint8)
            writer.add(np.array(chosen), found, FrameBatch(number, np.arange(len(pictures)) / 25, pictures))
        out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(store_root))
    store = FeatureStore(store_root)

    def stored(name: str) -> list[object]:
        return store.read("s", "dope", array=f"all_{name}").tolist()

    assert stored("body_offsets") == [0, 1, 1, 1, 3]
    assert stored("face_offsets") == [0, 2, 2, 2, 3]
    assert stored("hand_offsets") == [0, 0, 0, 0, 1]
    assert stored("face_of_body") == [1, 2, -1]
    assert stored("hands_of_body") == [[-1, -1], [-1, -1], [-1, 0]]
