from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storyframes.transcript import Transcript, TranscriptError, read_transcript

SECRET = "zebra"
OWN = {"start_s": 0, "end_s": 9, "text": ""}


def write(folder: Path, content: object, name: str = "t.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def spans(transcript: Transcript) -> list[tuple[str, float, float, bool]]:
    return [(word.text, round(word.start_s, 3), round(word.end_s, 3), word.timed) for word in transcript.words()]


def test_the_studys_own_json(demo_study: Path) -> None:
    transcript = read_transcript(demo_study / "transcripts/p01-s01.json")
    assert [u.speaker for u in transcript.utterances] == ["robot", "participant", "robot", "participant", "robot"]
    assert len(transcript.words()) == 47
    assert all(word.timed for word in transcript.words())


def test_words_without_times_share_the_utterance_by_their_length(tmp_path: Path) -> None:
    own = {"utterances": [{"speaker": "a", "start_s": 1.0, "end_s": 2.0, "text": "I see cats"}]}
    assert spans(read_transcript(write(tmp_path, own))) == [
        ("I", 1.0, 1.125, False),
        ("see", 1.125, 1.5, False),
        ("cats", 1.5, 2.0, False),
    ]


def test_assemblyai(tmp_path: Path) -> None:
    words = [{"text": "Hi", "start": 250, "end": 500, "speaker": "A"}, {"text": "you.", "start": 500, "end": 900}]
    utterances = [{"speaker": "A", "start": 250, "end": 900, "text": "Hi you.", "words": words, "confidence": 0.9}]
    content = {"id": "x", "utterances": utterances, "words": words}
    assert spans(read_transcript(write(tmp_path, content))) == [("Hi", 0.25, 0.5, True), ("you.", 0.5, 0.9, True)]


def test_assemblyai_without_speakers_is_cut_into_sentences(tmp_path: Path) -> None:
    words = [
        {"text": text, "start": 1000 * i, "end": 1000 * i + 500}
        for i, text in enumerate(["One.", "Two", "three?", "four"])
    ]
    transcript = read_transcript(write(tmp_path, {"utterances": None, "words": words}))
    assert [(u.text, u.start_s, u.end_s) for u in transcript.utterances] == [
        ("One.", 0.0, 0.5),
        ("Two three?", 1.0, 2.5),
        ("four", 3.0, 3.5),
    ]


def test_whisperx_words_without_times_lie_between_their_neighbours(tmp_path: Path) -> None:
    segment = {
        "start": 1.0,
        "end": 4.0,
        "text": " In 2014 we",
        "speaker": "SPEAKER_00",
        "words": [{"word": "In", "start": 1.0, "end": 1.5}, {"word": "2014"}, {"word": "we", "start": 3.0, "end": 4.0}],
    }
    transcript = read_transcript(write(tmp_path, {"segments": [segment], "language": "en"}))
    assert transcript.utterances[0].speaker == "SPEAKER_00"
    assert spans(transcript) == [("In", 1.0, 1.5, True), ("2014", 1.5, 3.0, False), ("we", 3.0, 4.0, True)]


def test_webvtt_and_srt_keep_milliseconds(tmp_path: Path) -> None:
    vtt = "WEBVTT\n\n00:00:01.500 --> 00:00:03.250\n<v Robot>Hello\nthere\n\n00:04.125 --> 00:05.000\nBye\n"
    transcript = read_transcript(write(tmp_path, vtt, "t.vtt"))
    assert [(u.speaker, u.start_s, u.end_s, u.text) for u in transcript.utterances] == [
        ("Robot", 1.5, 3.25, "Hello there"),
        ("", 4.125, 5.0, "Bye"),
    ]
    srt = "1\n00:00:01,500 --> 00:00:03,250\nHello\nthere\n\n2\n01:00:04,125 --> 01:00:05,000\nBye\n"
    transcript = read_transcript(write(tmp_path, srt, "t.srt"))
    assert [(u.start_s, u.end_s, u.text) for u in transcript.utterances] == [
        (1.5, 3.25, "Hello there"),
        (3604.125, 3605.0, "Bye"),
    ]


def test_utterances_come_in_the_order_of_their_start(tmp_path: Path) -> None:
    own = {
        "utterances": [{"start_s": 5, "end_s": 6, "text": "later"}, {"start_s": 1, "end_s": 7, "text": "sooner"}],
    }
    assert [u.text for u in read_transcript(write(tmp_path, own)).utterances] == ["sooner", "later"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{{{SECRET}", "is not JSON"),
        ([SECRET], "no known transcript"),
        ({"text": SECRET}, "no known transcript"),
        ({"utterances": [{"start_s": 0, "end_s": SECRET, "text": SECRET}]}, r"utterances\.0\.end_s"),
        ({"utterances": [{"start_s": 2, "end_s": 1, "text": SECRET}]}, "utterance 1: runs from 2.0 s to 1.0 s"),
        ({"utterances": [{"start_s": -1, "end_s": 1, "text": SECRET}]}, "runs from -1.0 s"),
        ({"utterances": [SECRET]}, "no known transcript|utterances"),
        ({"utterances": [5]}, "utterances"),
        (
            {"utterances": [OWN | {"words": [{"word": SECRET, "start_s": 3, "end_s": 2}]}]},
            "utterance 1, word 1: runs from 3.0 s to 2.0 s",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_that_quotes_nothing(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(TranscriptError, match=message) as error:
        read_transcript(write(tmp_path, content))
    assert SECRET not in str(error.value)
    assert "t.json" in str(error.value)


@pytest.mark.parametrize("name", ["t.vtt", "t.srt"])
def test_damaged_captions_are_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(TranscriptError, match=f"{name}: is not a valid"):
        read_transcript(write(tmp_path, f"{SECRET} --> {SECRET}", name))


def test_another_kind_of_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match=r"t\.docx: a transcript is \.json, \.vtt or \.srt"):
        read_transcript(write(tmp_path, "", "t.docx"))


times = st.floats(0, 1000, allow_nan=False)


@given(
    words=st.lists(st.tuples(st.text("ab", min_size=1, max_size=5), st.booleans()), min_size=1, max_size=12),
    start=times,
    length=st.floats(0, 50),
)
def test_interpolated_times_are_in_order_and_inside_the_utterance(tmp_path_factory, words, start, length) -> None:
    step = length / len(words)
    listed = []
    for i, (text, timed) in enumerate(words):
        listed.append(
            {"word": text} | ({"start_s": start + i * step, "end_s": start + (i + 1) * step} if timed else {})
        )
    own = {"utterances": [{"start_s": start, "end_s": start + length, "text": "x", "words": listed}]}
    transcript = read_transcript(write(tmp_path_factory.mktemp("t"), own))
    result = transcript.utterances[0].words
    assert [word.text for word in result] == [text for text, _ in words]
    assert [word.timed for word in result] == [timed for _, timed in words]
    edges = [edge for word in result for edge in (word.start_s, word.end_s)]
    assert all(a <= b + 1e-9 for a, b in zip(edges, edges[1:], strict=False))
    assert edges[0] >= start - 1e-9
    assert edges[-1] <= start + length + 1e-6
