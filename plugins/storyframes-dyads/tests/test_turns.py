"""Turns of two people, from planted speech."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import missing
from typer.testing import CliRunner

from storyframes.features import FEATURES
from storyframes.store import FeatureWriter, catalogue, create_store, open_storage
from storyframes.times import ticks
from storyframes_dyads.commands import app
from storyframes_dyads.turns import Event, summaries, talkspurts, turns_of


def spurts(*pairs: tuple[float, float]) -> np.ndarray:
    return np.array(pairs, float).reshape(-1, 2)


def test_a_planted_conversation_has_its_turns() -> None:
    speech = {
        "a": spurts((0, 2), (2.5, 5), (9, 12)),
        "b": spurts((1, 1.4), (5.3, 8), (11.5, 14)),
    }
    turns, events = turns_of(speech)
    assert [(turn.person, turn.start_s, turn.end_s) for turn in turns] == [
        ("a", 0, 5), ("b", 5.3, 8), ("a", 9, 12), ("b", 11.5, 14),
    ]  # fmt: skip
    assert [turn.latency_s for turn in turns[1:]] == pytest.approx([0.3, 1.0, -0.5])
    assert [turn.interrupts for turn in turns] == [False, False, False, True]
    assert [(event.kind, event.person) for event in events] == [
        (Event.BACKCHANNEL, "b"), (Event.PAUSE, "a"), (Event.GAP, "b"), (Event.GAP, "a"), (Event.INTERRUPTION, "b"),
    ]  # fmt: skip
    known = {"a": spurts((-np.inf, np.inf)), "b": spurts((-1, 3), (4, 13))}
    first, second = summaries(speech, known, turns, events)
    assert (first.unknown_s, second.unknown_s) == (0, 2)
    assert (first.person, first.turns, first.backchannels, first.interruptions) == ("a", 2, 0, 0)
    assert (second.turns, second.backchannels, second.interruptions) == (2, 1, 1)
    assert first.speech_s == pytest.approx(7.5)
    assert first.speech_share == pytest.approx(7.5 / 13.1)
    assert second.latency_s_median == pytest.approx((0.3 - 0.5) / 2)


def test_a_long_overlap_within_a_turn_is_no_backchannel_and_a_short_one_between_no_interruption() -> None:
    _, events = turns_of({"a": spurts((0, 5)), "b": spurts((1, 3))})
    assert [event.kind for event in events] == [Event.OVERLAP_WITHIN]
    _, events = turns_of({"a": spurts((0, 5)), "b": spurts((4.9, 7))})
    assert [event.kind for event in events] == [Event.OVERLAP]


MICROSECONDS = st.integers(0, 100_000_000)


@given(MICROSECONDS, st.sampled_from([200_000, 199_999]))
def test_an_overlap_of_exactly_the_shortest_interruption_is_one(begins: int, overlap: int) -> None:
    speech = {
        "a": spurts((begins / 1e6, (begins + 3_000_000) / 1e6)),
        "b": spurts(((begins + 3_000_000 - overlap) / 1e6, (begins + 5_000_000) / 1e6)),
    }
    turns, events = turns_of(speech)
    assert [event.kind for event in events] == [Event.INTERRUPTION if overlap == 200_000 else Event.OVERLAP]
    assert turns[1].interrupts == (overlap == 200_000)
    assert turns[1].latency_s == -overlap / 1e6
    assert summaries(speech, speech, turns, events)[1].latency_s_median == -overlap / 1e6


@given(MICROSECONDS, st.sampled_from([1_000_000, 1_000_001]))
def test_an_overlap_within_of_exactly_the_longest_backchannel_is_one(begins: int, overlap: int) -> None:
    speech = {
        "a": spurts((begins / 1e6, (begins + 5_000_000) / 1e6)),
        "b": spurts(((begins + 1_000_000) / 1e6, (begins + 1_000_000 + overlap) / 1e6)),
    }
    turns, events = turns_of(speech)
    assert [event.kind for event in events] == [Event.BACKCHANNEL if overlap == 1_000_000 else Event.OVERLAP_WITHIN]
    assert summaries(speech, speech, turns, events)[1].speech_s == overlap / 1e6


@given(MICROSECONDS, st.sampled_from([180_000, 180_001]))
def test_a_silence_of_exactly_the_joined_length_is_joined(begins: int, silence: int) -> None:
    edges = np.array([begins, begins + 400_000, begins + 400_000 + silence, begins + 900_000]) / 1e6
    rows = talkspurts(edges[::2], edges[1::2])
    assert rows.tolist() == ([[edges[0], edges[3]]] if silence == 180_000 else edges.reshape(2, 2).tolist())


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.01, 5)), min_size=1, max_size=30))
def test_talkspurts_cover_the_words_and_are_apart(words: list[tuple[float, float]]) -> None:
    start = np.array([begin for begin, _ in words]).round(6)
    end = (start + np.array([length for _, length in words])).round(6)
    rows = talkspurts(start, end)
    assert (rows[:, 1] > rows[:, 0]).all()
    assert (ticks(rows[1:, 0]) - ticks(rows[:-1, 1]) > 180_000).all()
    assert all(((rows[:, 0] <= s) & (rows[:, 1] >= e)).any() for s, e in zip(start, end, strict=True))
    assert rows[0, 0] == start.min()
    assert rows[-1, 1] == pytest.approx(end.max())


two_people = st.lists(st.tuples(st.booleans(), st.floats(0, 60), st.floats(0.3, 6)), min_size=1, max_size=25)


@given(two_people)
def test_the_floor_is_held_by_one_person_at_a_time(words: list[tuple[bool, float, float]]) -> None:
    speech = {
        name: talkspurts(
            np.array([start for who, start, _ in words if who is own]),
            np.array([start + length for who, start, length in words if who is own]),
        )
        for name, own in (("a", True), ("b", False))
    }
    turns, events = turns_of(speech)
    assert all(one.person != other.person for one, other in zip(turns, turns[1:], strict=False))
    assert all(one.end_s < other.end_s for one, other in zip(turns, turns[1:], strict=False))
    assert len(turns) - 1 == sum(np.isfinite(turn.latency_s) for turn in turns)
    number_of_spurts = sum(map(len, speech.values()))
    within = sum(event.kind in (Event.BACKCHANNEL, Event.OVERLAP_WITHIN) for event in events)
    assert len(turns) <= number_of_spurts - within


def test_the_command_reads_words_and_their_speakers(tmp_path: Path) -> None:
    create_store(tmp_path / "s")
    storage = open_storage(tmp_path / "s")
    start = np.array([0.0, 0.5, 1.0, 2.0, 2.6])
    with FeatureWriter(storage, "s1", FEATURES["glove"], frames=False) as out:
        out.write("values", np.zeros((5, 300), np.float32))
        out.write("start", start)
        out.write("end", start + 0.4)
        out.write("known", np.array([1, 0, 1, 1, 1], np.uint8))
        out.write("speaker", np.array([0, 0, 0, 1, 1], np.int16))
        out.attributes["speakers"] = ["guest", "host"]
        out.publish("f", {})
    catalogue.compact(storage)
    result = CliRunner().invoke(app, ["turns", str(tmp_path / "s"), "--speech", "glove", "--json"])
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert [(turn["person"], turn["start_s"], turn["end_s"]) for turn in shown["turns"]] == [
        ("guest", 0.0, 1.4), ("host", 2.0, 3.0),
    ]  # fmt: skip
    assert shown["turns"][1]["latency_s"] == pytest.approx(0.6)
    assert [row["speech_s"] for row in shown["persons"]] == pytest.approx([1.4, 0.8 + 0.0])
    text = CliRunner().invoke(app, ["turns", str(tmp_path / "s"), "--speech", "glove"])
    assert "guest" in text.stdout
    with FeatureWriter(storage, "s1", FEATURES["glove"], frames=False, track="b") as out:
        out.write("values", np.zeros((1, 300), np.float32))
        out.write("start", start[:1])
        out.write("end", start[:1] + 0.4)
        out.write("known", np.ones(1, np.uint8))
        out.publish("f", {})
    catalogue.compact(storage)
    both = CliRunner().invoke(app, ["turns", str(tmp_path / "s"), "--speech", "glove,glove@b"])
    assert both.exit_code == 2
    assert not missing(both.output, "s1/glove", "2 speakers")
    nothing = CliRunner().invoke(app, ["turns", str(tmp_path / "s"), "--speech", "glove@a"])
    assert nothing.exit_code == 2
    assert not missing(nothing.output, "glove@a", "no session has all of")
