"""The feature prosody: Praat's own numbers, pitch that is neither halved nor doubled, why numbers are missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import parselmouth
import pytest
from parselmouth.praat import call
from planted_voices import RATE, place, syllables, tone, transcript, write_study, write_wav
from storyframes_prosody.extractor import COLUMNS, Prosody, Reason, heard_spans, overlaps_s
from support.media.recordings import with_damaged_sound, write_recording
from support.messages import missing
from support.studies import extract_session, make_study

from storyframes import FeatureStore
from storyframes.store import Caveat
from storyframes.testing import check_extractor

pytestmark = pytest.mark.needs("parselmouth")


def extracted(folder: Path, sound: np.ndarray, words: str, **settings: object) -> FeatureStore:
    study = write_study(folder / "study", sound, words)
    store, outcomes = extract_session(study, folder / "store", "prosody", prosody=settings)
    assert str(outcomes["prosody"].status) == "done", outcomes
    return store


def column(store: FeatureStore, name: str) -> np.ndarray:
    return store.read("s", "prosody")[:, COLUMNS.index(name)]


def reasons(store: FeatureStore) -> list[int]:
    return store.read("s", "prosody", array="reason").tolist()


def glide(seconds: float) -> np.ndarray:
    """A voice from 100 to 200 Hz in even semitones, louder and softer."""
    time = np.arange(round(seconds * RATE)) / RATE
    return tone(100 * 2 ** (time / seconds), seconds) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * time))


def test_values_are_those_of_parselmouth_called_plainly(tmp_path: Path) -> None:
    noise = np.random.default_rng(5).normal(0, 0.004, 6 * RATE)
    sound = place([(0.5, glide(2)), (3.0, tone(140, 1.5))], 6) + noise
    words = transcript(("A", 0.5, 2.5, "one two three"), ("A", 3.0, 4.5, "four"))
    store = extracted(tmp_path, sound, words, by_speaker=False, floor_hz=75, ceiling_hz=600)
    whole = parselmouth.Sound(str(tmp_path / "study/s.wav"))
    for row, (start, end) in enumerate([(0.5, 2.5), (3.0, 4.5)]):
        part = parselmouth.Sound(whole.values[:, round(start * RATE) : round(end * RATE)], RATE)
        pitch = part.to_pitch(pitch_floor=75, pitch_ceiling=600)
        points = call(part, "To PointProcess (periodic, cc)", 75, 600)
        plain = {
            "f0_median_hz": call(pitch, "Get quantile", 0, 0, 0.5, "Hertz"),
            "intensity_db": call(part.to_intensity(75), "Get mean", 0, 0, "energy"),
            "jitter_local": call(points, "Get jitter (local)", 0, 0, 0.0001, 0.02, 1.3),
            "shimmer_local": call([part, points], "Get shimmer (local)", 0, 0, 0.0001, 0.02, 1.3, 1.6),
            "hnr_db": call(call(part, "To Harmonicity (cc)", 0.01, 75, 0.1, 1.0), "Get mean", 0, 0),
            "voiced_share": call(pitch, "Count voiced frames") / call(pitch, "Get number of frames"),
        }
        assert {name: column(store, name)[row] for name in plain} == {
            name: np.float32(value) for name, value in plain.items()
        }
    assert column(store, "words_per_s").tolist() == pytest.approx([1.5, 1 / 1.5])
    assert column(store, "f0_slope_st_s")[0] == pytest.approx(6, abs=0.1)
    assert column(store, "f0_range_st")[0] == pytest.approx(10.8, abs=0.3)  # 90 % of an octave
    median = np.median(np.concatenate([np.full(150, 140), 100 * 2 ** np.linspace(0, 1, 200)]))
    assert column(store, "f0_relative_st")[1] == pytest.approx(12 * np.log2(140 / median), abs=0.2)


def test_a_person_s_own_range_cures_halved_and_doubled_pitch(tmp_path: Path) -> None:
    low, high = tone(120, 1), tone(200, 1)
    doubled, halved = tone(120, 0.6, odd=0.02), tone(200, 0.6, softer=0.3)
    sound = place([(0, low), (1.5, low), (3, doubled), (4, high), (5.5, high), (7, halved)], 8)
    spans = [("A", 0, 1), ("A", 1.5, 2.5), ("A", 3, 3.6), ("B", 4, 5), ("B", 5.5, 6.5), ("B", 7, 7.6)]
    words = transcript(*((who, start, end, "ah") for who, start, end in spans))
    wide = extracted(tmp_path / "wide", sound, words, by_speaker=False)
    assert column(wide, "f0_median_hz")[[2, 5]].tolist() == pytest.approx([240, 100], rel=0.01)  # the fault is planted
    own = extracted(tmp_path / "own", sound, words)
    assert column(own, "f0_median_hz").tolist() == pytest.approx([120, 120, 120, 200, 200, 200], rel=0.01)
    assert own.attributes("s", "prosody")["pitch_hz"]["B"] == pytest.approx([150, 300, 200], rel=0.02)


def test_syllables_and_pauses_that_were_planted(tmp_path: Path) -> None:
    sound = place([(0.2, syllables(4, 5)), (1.8, syllables(6, 5)), (4.0, syllables(5, 5))], 6)
    words = transcript(("A", 0.2, 3.0, "a b c d"), ("A", 4.0, 5.0, "e"), ("B", 5.2, 5.6, "f"), ("A", 5.8, 5.9, "g"))
    store = extracted(tmp_path, sound, words)
    assert column(store, "syllables_per_s")[:2].tolist() == pytest.approx([10 / 2.8, 5])
    assert column(store, "pauses")[:2].tolist() == [1, 0]
    pause_s = column(store, "pause_s")[0]
    assert pause_s == pytest.approx(0.8, abs=0.1)  # from 1.0 to 1.8
    assert column(store, "longest_pause_s")[0] == pause_s
    assert column(store, "pause_share")[0] == pytest.approx(pause_s / 2.8)
    assert column(store, "articulation_rate")[0] == pytest.approx(10 / (2.8 - pause_s), rel=0.05)
    # B speaks before A's last utterance, so it follows no pause of A.
    assert np.nan_to_num(column(store, "pause_before_s"), nan=-1).tolist() == pytest.approx([-1, 1.0, -1, -1])


def test_what_cannot_be_measured_is_missing_and_says_why(tmp_path: Path) -> None:
    whisper = np.random.default_rng(2).normal(0, 0.02, RATE)
    sound = place([(0.0, tone(120, 6.0)), (6.0, whisper)], 7.5)
    said = [
        ("A", 0.0, 1.0), ("A", 1.1, 1.2), ("A", 2.0, 3.0), ("B", 2.5, 2.8), ("A", 4.0, 5.0),
        ("B", 4.95, 5.5), ("B", 6.0, 7.0), ("A", 7.2, 8.0),
    ]  # fmt: skip
    store = extracted(tmp_path, sound, transcript(*((*each, "ah oh") for each in said)))
    assert reasons(store) == [
        0, Reason.SHORT, Reason.CROSSTALK, Reason.CROSSTALK, 0, 0, Reason.UNVOICED, Reason.OUTSIDE
    ]  # fmt: skip
    values = store.read("s", "prosody")
    sounding = [position for position, name in enumerate(COLUMNS) if name not in ("words_per_s", "pause_before_s")]
    assert np.isnan(values[np.ix_([1, 2, 3, 7], sounding)]).all()
    assert np.isfinite(values[np.ix_([0, 4, 5], sounding)]).all()
    assert np.isfinite(column(store, "words_per_s")).all()
    assert np.isnan(column(store, "hnr_db")[6])
    assert np.isfinite(column(store, "intensity_db")[6])
    assert column(store, "voiced_share")[6] < 0.1
    (quality,) = [status.current.quality for status in store.statuses("s") if status.feature == "prosody"]
    assert [quality[f"utterances_{name}"] for name in ("short", "crosstalk", "outside", "unvoiced")] == [1, 2, 1, 1]


def test_an_utterance_over_a_hole_in_the_sound_is_not_all_recorded(tmp_path: Path) -> None:
    sound = (tone(120, 6) * 32767).astype(np.int16)[:, None]
    whole = write_recording(tmp_path / "whole.mp4", 150, sound, codec="flac")
    study = make_study(tmp_path / "study", video="v.mp4", transcript="t.json")
    lengths = with_damaged_sound(whole, study / "v.mp4", [30])
    begins, ends = sum(lengths[:30]) / RATE, sum(lengths[:31]) / RATE
    said = [(begins - 1, begins - 0.1), (begins - 0.05, ends + 0.5), (ends + 0.6, ends + 1.2)]
    (study / "t.json").write_text(transcript(*(("A", *span, "ah") for span in said)))
    store, outcomes = extract_session(study, tmp_path / "store", "prosody")
    assert str(outcomes["prosody"].status) == "done", outcomes
    assert reasons(store) == [0, Reason.OUTSIDE, 0]


def test_words_of_others_that_transcribe_left_out_are_crosstalk(tmp_path: Path) -> None:
    words = json.loads(transcript(("A", 0, 1, "ah"), ("A", 2, 3, "oh")))
    words["crosstalk"] = [{"word": "you", "start_s": 2.2, "end_s": 2.5}]
    store = extracted(tmp_path, tone(120, 3.2), json.dumps(words))
    assert reasons(store) == [0, Reason.CROSSTALK]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "broken"])
def test_a_transcript_in_any_encoding_that_is_read_has_rows(tmp_path: Path, encoding: str) -> None:
    study = write_study(tmp_path / "study", tone(120, 3.2), "")
    words = transcript(("A", 0, 1, "ah"))
    of_whisper_cpp = b'{"transcription": [{"offsets": {"from": 0, "to": 1000}, "text": " a\xc3"}]}'
    (study / "s.json").write_bytes(of_whisper_cpp if encoding == "broken" else words.encode(encoding))
    store, outcomes = extract_session(study, tmp_path / "store", "prosody")
    assert str(outcomes["prosody"].status) == "done", outcomes
    assert reasons(store) == [0]


@pytest.mark.parametrize(
    ("speaking", "bens_sound", "late_s", "expected", "unheard"),
    [
        (True, "b.wav", 0, [0, Reason.CROSSTALK], None),
        (False, "b.wav", 0, [0, 0], None),
        (True, "b.wav", 5, [0, Reason.CROSSTALK], 1),  # the recorder of the other person begins late
        (True, "", 0, [0, 0], 2),  # one microphone
    ],
)
def test_speech_in_other_microphones_is_crosstalk(
    tmp_path: Path, speaking: bool, bens_sound: str, late_s: int, expected: list[int], unheard: int | None
) -> None:
    noise = np.random.default_rng(7).normal(0, 0.003, (2, 12 * RATE))
    anna = place([(1.0, tone(120, 2)), (6.0, tone(120, 2))], 12)
    ben = place([(6.5, tone(200, 1)), (9.0, tone(200, 1))], 12)
    write_wav(tmp_path / "a.wav", anna + 0.2 * ben + noise[0])
    write_wav(tmp_path / "b.wav", (ben + 0.2 * anna + noise[1])[late_s * RATE :])
    (tmp_path / "a.json").write_text(transcript(("", 1, 3, "one"), ("", 6, 8, "two")))
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,transcript\ns,p,a.json\n")
    (tmp_path / "persons.csv").write_text("session_id,person_id\ns,a\ns,b\n")
    (tmp_path / "clocks.csv").write_text(f"session_id,clock,clock_s,session_s\ns,late,0,{late_s}\n")
    (tmp_path / "tracks.csv").write_text(
        "session_id,track,audio,transcript,person_id,clock\ns,a,a.wav,a.json,a,\n"
        f"s,{'b' if bens_sound else 'other'},{bens_sound},{'' if bens_sound else 'a.json'},b,late\n"
    )
    extract_session(tmp_path, tmp_path / "store", "speaking")
    store, outcomes = extract_session(tmp_path, tmp_path / "store", "prosody", prosody={"speaking": speaking})
    assert str(outcomes["prosody@a"].status) == "done", outcomes
    assert store.read("s", "prosody@a", array="reason").tolist() == expected
    (current,) = [status.current for status in store.statuses("s") if status.feature == "prosody@a"]
    assert current.quality.get("utterances_unheard") == unheard
    assert current.caveats == ([Caveat.ANYBODYS_SPEECH] if unheard else [])


def test_where_speaking_is_missing_its_reason_is_given(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", tone(120, 2))
    (tmp_path / "a.json").write_text(transcript(("", 0, 1, "one")))
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,transcript\ns,p,a.json\n")
    (tmp_path / "persons.csv").write_text("session_id,person_id\ns,a\ns,b\n")
    tracks = "session_id,track,audio,transcript,person_id\ns,a,a.wav,a.json,a\ns,b,a.wav,,b\n"
    (tmp_path / "tracks.csv").write_text(tracks)
    extract_session(tmp_path, tmp_path / "store", "speaking")
    _, outcomes = extract_session(tmp_path, tmp_path / "store", "prosody", prosody={"speaking": True})
    assert str(outcomes["prosody@a"].status) == "missing"
    assert not missing(outcomes["prosody@a"].reason, "speaking@a", "another person's")


def test_on_a_shared_microphone_others_are_never_known_to_be_silent() -> None:
    time = np.array([0.05, 0.15, 0.25])
    evidence = np.array([[20.0, 12.0], [20.0, 2.0], [20.0, np.nan]])  # dB over the noise, and over the others
    heard, unknown = heard_spans(time, evidence)
    assert (heard.tolist(), unknown.tolist()) == ([pytest.approx([0.1, 0.2])], [pytest.approx([0.2, 0.3])])
    heard, unknown = heard_spans(time, evidence, is_shared=True)
    assert (len(heard), len(unknown)) == (1, 3)


def test_an_utterance_without_length_has_no_rate(tmp_path: Path) -> None:
    store = extracted(tmp_path, tone(120, 2), transcript(("A", 0, 1, "one"), ("A", 1.5, 1.5, "two")))
    assert column(store, "words_per_s")[0] == 1
    assert np.isnan(column(store, "words_per_s")[1])


def test_a_pause_in_which_another_person_was_heard_is_none(tmp_path: Path) -> None:
    words = json.loads(transcript(("A", 0, 1, "ah"), ("A", 2, 3, "oh"), ("A", 3.5, 4, "eh")))
    words["crosstalk"] = [{"word": "you", "start_s": 1.2, "end_s": 1.5}]
    store = extracted(tmp_path, tone(120, 4.2), json.dumps(words))
    assert np.nan_to_num(column(store, "pause_before_s"), nan=-1).tolist() == [-1, -1, 0.5]


def test_nothing_that_is_said_is_no_rows(tmp_path: Path) -> None:
    words = {"utterances": [], "crosstalk": [{"word": "you", "start_s": 0.2, "end_s": 0.5}]}
    store = extracted(tmp_path, tone(120, 1), json.dumps(words))
    assert store.read("s", "prosody").shape == (0, len(COLUMNS))


def test_speech_of_several_others_counts_once() -> None:
    start, end = np.array([0.0, 1.0, 2.0, 3.5]), np.array([4.0, 2.5, 3.0, 6.0])
    assert overlaps_s(start, end, [0, 1, 2, 1], np.array([[3.2, 3.6]])).tolist() == pytest.approx([2.8, 1.5, 1.0, 0.5])


def test_another_session_s_transcript_is_refused(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", tone(120, 2), transcript(("A", 0, 1, "ah"), ("A", 5, 6, "oh")))
    _, outcomes = extract_session(study, tmp_path / "store", "prosody")
    assert str(outcomes["prosody"].status) == "failed"
    assert not missing(outcomes["prosody"].reason, "ExtractionError", "withheld")  # as of all plug-ins that read words


@pytest.mark.slow
def test_it_keeps_the_contract_of_extractors(tmp_path: Path) -> None:
    sound = (tone(120, 1) * 32767).astype(np.int16)[:, None]
    words = tmp_path / "t.json"
    words.write_text(transcript(("A", 0.1, 0.9, "one two")))
    files = {"video": write_recording(tmp_path / "talk.avi", 25, sound), "transcript": words}
    check_extractor(Prosody, files, decides_nothing=["speaking"])  # which has no feature to read here
