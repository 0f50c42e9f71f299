"""The feature turns: who speaks and who has the floor each 0.1 s, from planted speech, and clips of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from dyad_store import write_dyads
from support.messages import naming
from typer.testing import CliRunner

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.derivation import Derivation
from storyframes.features import FEATURES, ArraySpec, Axis, FeatureSpec
from storyframes.store import FeatureWriter, compact
from storyframes_dyads.commands import app
from storyframes_dyads.signals import SignalError, read_frame
from storyframes_dyads.speech import SessionSpeech, SpeechOptions, speech_of
from storyframes_dyads.turn_feature import SPEC, turn_rows
from tasks.extractors.speaking import SPEC as SPEAKING

VAD = FeatureSpec(
    "vad",
    "of a test, as storyframes-transcribe has it",
    {
        "values": ArraySpec(Axis.AUDIO_FRAME, "float32", "probability", (1,), ("column",), columns=("speech",)),
        "time": ArraySpec(Axis.AUDIO_FRAME, "float64", "middle", units="s"),
    },
)
EVER = np.array([[-np.inf, np.inf]])
OFFSET_S, DRIFT = 4.2, 80e-6  # of the second person's microphone, as dyad_store plants them
FIRST = [(5.0, 8.0), (10.0, 12.0), (14.0, 17.0)]
SECOND = [(6.0, 6.5), (8.5, 9.5), (11.5, 13.0)]  # within the first turn; after a gap; an interruption


def spans_at(time: np.ndarray, spans: list[tuple[float, float]]) -> np.ndarray:
    return np.any([(time >= start) & (time < end) for start, end in spans], axis=0)


def test_each_column_is_what_it_is_called() -> None:
    speech = SessionSpeech({"a": np.array(FIRST), "b": np.array(SECOND)}, {"a": EVER, "b": EVER})
    rows = turn_rows(speech, 20.0)
    time, values = rows["time"], rows["values"]
    np.testing.assert_allclose(time, np.arange(200) / 10)
    expected = [
        FIRST,
        SECOND,
        [(6.0, 6.5), (11.5, 12.0)],  # both speak
        [(8.0, 8.5), (9.5, 10.0), (13.0, 14.0)],  # nobody, between turns
        [(5.0, 8.0), (10.0, 11.5), (14.0, 17.0)],
        [(8.5, 9.5), (11.5, 13.0)],
    ]
    np.testing.assert_array_equal(values, np.stack([spans_at(time, spans) for spans in expected], axis=1))
    assert rows["valid"].all()


def test_what_is_not_known_of_one_person_is_missing() -> None:
    known = {"a": EVER, "b": np.array([[0.0, 7.0], [9.0, 20.0]])}
    rows = turn_rows(SessionSpeech({"a": np.array(FIRST), "b": np.array(SECOND)}, known), 20.0)
    is_known = ~spans_at(rows["time"], [(7.0, 9.0)])
    assert rows["valid"].tolist() == is_known.astype(int).tolist()
    np.testing.assert_array_equal(np.isfinite(rows["values"][:, 1:]), np.repeat(is_known[:, None], 5, axis=1))
    assert np.isfinite(rows["values"][:, 0]).all()


def publish_speaking(store: FeatureStore, track: str, spans: list[tuple[float, float]], seconds: float) -> None:
    """A probability for each 0.1 s of the track's own clock; unknown in its tenth second."""
    time = (np.arange(round(seconds * 10)) + 0.5) * 0.1
    in_session = time / (1 + DRIFT) + OFFSET_S if track == "b" else time
    valid = (~spans_at(time, [(10.0, 11.0)])).astype(np.uint8)
    rows = {
        "values": np.where(valid, 0.1 + 0.8 * spans_at(in_session, spans), np.nan).astype(np.float32),
        "time": time,
        "valid": valid,
        "evidence": np.zeros((len(time), 4), np.float32),
    }
    with FeatureWriter(store.storage, "s1", SPEAKING, track=track, frames=False) as out:
        for name, array in rows.items():
            out.write(name, array)
        out.publish(f"{spans}", {})
    compact(store.storage)


def turns(root: Path, *more: str) -> str | None:
    options = ["--speech", "speaking,speaking@b", "--column", "values", "--as-feature", *more]
    result = CliRunner().invoke(app, ["turns", str(root), *options])
    assert result.exit_code == 0, result.output
    return FeatureStore(root).version("s1", "turns")


@pytest.mark.slow
def test_clips_have_it_on_the_sessions_clock_and_other_speech_makes_it_anew(tmp_path: Path) -> None:
    store = write_dyads(tmp_path / "s", lag_s=0.0, seconds=20.0, offset_s=OFFSET_S, drift=DRIFT)
    publish_speaking(store, "main", FIRST, 20.0)
    publish_speaking(store, "b", SECOND, 15.8)
    version = turns(tmp_path / "s")
    store = FeatureStore(tmp_path / "s")
    time, values = store.read("s1", "turns", array="time"), store.read("s1", "turns")
    assert len(time) == 200
    for column, spans, unknown in ((0, FIRST, [(10.0, 11.0)]), (1, SECOND, [(0.0, 4.2), (14.2, 15.2)])):
        expected = np.where(spans_at(time, unknown), np.nan, spans_at(time, spans))
        edges = np.array([*np.ravel(spans), *np.ravel(unknown)])
        inside = np.abs(time[:, None] - edges).min(axis=1) > 0.051  # the steps of one clock are cut by the other's
        np.testing.assert_array_equal(values[inside, column], expected[inside])
    dataset = ClipDataset(store, [ClipInput("turns", ["first_speaks", "second_floor"], rate=10)])
    clip = dataset[1]["turns"]  # from 4 s to 8 s
    assert clip.shape == (40, 2)
    assert clip[:, 0].tolist() == [0.0] * 10 + [1.0] * 30
    assert store.attributes("s1", "turns")["provenance"]["features"].keys() == {"speaking", "speaking@b"}
    assert turns(tmp_path / "s") == version
    assert turns(tmp_path / "s", "--threshold", "0.95") != version
    newer = turns(tmp_path / "s")
    publish_speaking(store, "b", SECOND[:2], 15.8)
    assert turns(tmp_path / "s") != newer


def test_words_without_a_speaker_are_nobodys_silence(tmp_path: Path) -> None:
    store = write_dyads(tmp_path / "s", lag_s=0.0, seconds=8.0)
    start = np.array([1.0, 3.0, 5.0])
    with FeatureWriter(store.storage, "s1", FEATURES["glove"], frames=False) as out:
        out.write("values", np.zeros((3, 300), np.float32))
        out.write("start", start)
        out.write("end", start + 1)
        out.write("known", np.ones(3, np.uint8))
        out.write("speaker", np.array([1, -1, 0], np.int16))
        out.attributes["speakers"] = ["alpha", "beta"]
        out.publish("f", {})
    compact(store.storage)
    result = CliRunner().invoke(app, ["turns", str(tmp_path / "s"), "--speech", "glove", "--as-feature"])
    assert result.exit_code == 0, result.output
    store = FeatureStore(tmp_path / "s")
    time, values = store.read("s1", "turns", array="time"), store.read("s1", "turns")
    known = ~spans_at(time, [(3.0, 4.0)])
    np.testing.assert_array_equal(np.isfinite(values), np.repeat(known[:, None], 6, axis=1))
    np.testing.assert_array_equal(values[known, 0] == 1, spans_at(time[known], [(5.0, 6.0)]))  # alpha is the first
    np.testing.assert_array_equal(values[known, 1] == 1, spans_at(time[known], [(1.0, 2.0)]))
    assert "alpha" in str(store.attributes("s1", "glove"))
    assert "alpha" not in str(store.attributes("s1", "turns"))


def test_a_probability_alone_needs_no_name_of_a_column(tmp_path: Path) -> None:
    store = write_dyads(tmp_path / "s", lag_s=0.0, seconds=20.0, offset_s=0.0, drift=0.0)
    time = (np.arange(200) + 0.5) * 0.1
    for track, spans in (("main", FIRST), ("b", SECOND)):
        with FeatureWriter(store.storage, "s1", VAD, track=track, frames=False) as out:
            out.write("values", spans_at(time, spans).astype(np.float32)[:, None])
            out.write("time", time)
            out.publish("f", {})
    compact(store.storage)
    result = CliRunner().invoke(app, ["turns", str(tmp_path / "s"), "--speech", "vad,vad@b", "--json"])
    assert result.exit_code == 0, result.output
    assert [row["speech_s"] for row in json.loads(result.stdout)["persons"]] == pytest.approx([8.0, 3.0])


@pytest.mark.parametrize("step_ms", [[33, 33, 34], [40]])
def test_steps_that_follow_each_other_are_one_talkspurt_whatever_their_times_are_rounded_to(
    tmp_path: Path, step_ms: list[int]
) -> None:
    store = write_dyads(tmp_path / "s", lag_s=0.0, seconds=8.0)
    time = np.append(0, np.cumsum(np.resize(step_ms, 90))) / 1000
    speaks = np.zeros(len(time), bool)
    speaks[10:40], speaks[41:60] = True, True  # a silence of one step is one
    for track in ("main", "b"):
        with FeatureWriter(store.storage, "s1", VAD, track=track, frames=False) as out:
            out.write("values", speaks.astype(np.float32)[:, None])
            out.write("time", time)
            out.publish("f", {})
    compact(store.storage)
    spoken = speech_of(FeatureStore(tmp_path / "s"), "s1", ["vad", "vad@b"], SpeechOptions(join_s=0.0))
    spurts = spoken.talkspurts["vad"]
    assert len(spurts) == 2


def test_a_feature_that_earlier_rules_made_is_named_and_made_again(tmp_path: Path) -> None:
    store = write_dyads(tmp_path / "s", lag_s=0.0, seconds=20.0, offset_s=OFFSET_S, drift=DRIFT)
    publish_speaking(store, "main", FIRST, 20.0)
    publish_speaking(store, "b", SECOND, 15.8)
    old = Derivation(SPEC, ("speaking", "speaking@b"), {}, "storyframes-dyads: turn_feature 1")
    old.publish(
        FeatureStore(tmp_path / "s"),
        "s1",
        turn_rows(SessionSpeech({"a": EVER[:0], "b": EVER[:0]}, {"a": EVER, "b": EVER}), 20.0),
    )
    compact(store.storage)
    with pytest.raises(SignalError, match=naming("s1/turns", "dyads turns STORE", "--as-feature")):
        read_frame(FeatureStore(tmp_path / "s"), "s1", "turns")
    turns(tmp_path / "s")
    assert read_frame(FeatureStore(tmp_path / "s"), "s1", "turns")["first_speaks"].sum() > 0
