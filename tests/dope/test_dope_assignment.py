"""Hands and faces to bodies: against the original code, and the rules one by one."""

from __future__ import annotations

import numpy as np
from support.dope.units import arrays

from tasks.extractors.dope.joints import BODY_HEAD, BODY_WRIST, Side
from tasks.extractors.dope.people import faces_of_bodies, hands_of_bodies, with_hand_wrists


def test_equals_the_original() -> None:
    unit = arrays()
    bodies, hands, faces = (unit[f"unit/assign/{part}"] for part in ("body", "hand", "face"))
    hands_of_body = hands_of_bodies(bodies, hands)
    np.testing.assert_array_equal(hands_of_body, unit["unit/assign/wrists_left_right"])
    np.testing.assert_array_equal(faces_of_bodies(bodies, faces), unit["unit/assign/head"])
    np.testing.assert_array_equal(with_hand_wrists(bodies, hands, hands_of_body), unit["unit/assign/body_after"])


def _hand(wrist: tuple[float, float], size: float) -> np.ndarray:
    hand = np.full((21, 2), wrist, np.float32)
    hand[1] += size
    return hand


def _body(left_wrist: tuple[float, float], right_wrist: tuple[float, float]) -> np.ndarray:
    body = np.full((13, 2), 500, np.float32)
    body[BODY_WRIST[Side.LEFT]], body[BODY_WRIST[Side.RIGHT]] = left_wrist, right_wrist
    return body


def test_nothing_to_assign() -> None:
    nobody, no_hand, no_face = (np.zeros((0, joints, 2), np.float32) for joints in (13, 21, 84))
    one = _body((0, 0), (100, 0))[None]
    assert hands_of_bodies(nobody, no_hand).shape == (0, 2)
    assert hands_of_bodies(nobody, _hand((0, 0), 5)[None]).shape == (0, 2)
    assert faces_of_bodies(nobody, no_face).shape == (0,)
    assert faces_of_bodies(nobody, np.zeros((2, 84, 2), np.float32)).shape == (0,)
    assert hands_of_bodies(one, no_hand).tolist() == [[-1, -1]]
    assert faces_of_bodies(one, no_face).tolist() == [-1]


def test_a_hand_further_away_than_it_is_large_is_not_assigned() -> None:
    body = _body(left_wrist=(0, 0), right_wrist=(100, 0))[None]
    # a hand of 10 pixels counts as 12: its box is a tenth larger on each side
    assert hands_of_bodies(body, np.stack([_hand((11.9, 0), 10)])).tolist() == [[0, -1]]
    assert hands_of_bodies(body, np.stack([_hand((12.1, 0), 10)])).tolist() == [[-1, -1]]


def test_left_wrist_comes_first_and_wrists_move_to_the_hands() -> None:
    body = _body(left_wrist=(0, 0), right_wrist=(100, 0))[None]
    hands = np.stack([_hand((101, 1), 10), _hand((1, 1), 10)])
    hands_of_body = hands_of_bodies(body, hands)
    assert hands_of_body.tolist() == [[1, 0]]
    moved = with_hand_wrists(body, hands, hands_of_body)[0]
    assert moved[BODY_WRIST[Side.LEFT]].tolist() == [1, 1]
    assert moved[BODY_WRIST[Side.RIGHT]].tolist() == [101, 1]
    assert body[0, BODY_WRIST[Side.LEFT]].tolist() == [0, 0], "the input stays as it was"


def test_a_head_in_two_faces_and_a_face_with_two_heads_stay_alone() -> None:
    face = np.zeros((84, 2), np.float32)
    face[1] = 10
    head = np.zeros((1, 13, 2), np.float32)
    head[:, BODY_HEAD] = 5
    assert faces_of_bodies(head, face[None]).tolist() == [0]
    assert faces_of_bodies(head, np.stack([face, face + 1])).tolist() == [-1]
    assert faces_of_bodies(np.concatenate([head, head]), face[None]).tolist() == [-1, -1]
