"""JSON as programs write it: utterances, words with their own times, speakers, and answers that have no words yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import naming

from tasks.study.transcript import Transcript, TranscriptError, read_transcript
from tasks.study.transcript_formats.drafts import DraftWord, joined_pieces, words_of_texts

SECRET = "zebra"


def read(folder: Path, content: object, **how: bool) -> Transcript:
    path = folder / "t.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return read_transcript(path, **how)


def words(transcript: Transcript) -> list[tuple[str, float, float]]:
    return [(word.text, word.start_s, word.end_s) for word in transcript.words()]


def said(transcript: Transcript) -> list[tuple[str, float, float, str]]:
    return [(each.speaker, each.start_s, each.end_s, each.text) for each in transcript.utterances]


# --- OpenAI and servers like it --------------------------------------------------------------------------------------


def openai(*words: tuple[str, float, float], **more: object) -> dict[str, Any]:
    """``response_format=verbose_json`` with ``timestamp_granularities=["word"]``."""
    listed = [{"word": word, "start": start, "end": end} for word, start, end in words]
    text = more.pop("text", "Hello there. Dr. Who?")
    return {"task": "transcribe", "language": "english", "duration": 9.0, "text": text, "words": listed, **more}


SPOKEN = (("Hello", 0.5, 0.9), ("there", 1.0, 1.4), ("Dr", 3.0, 3.25), ("Who", 3.5, 4.0))


@pytest.mark.parametrize("more", [{}, {"segments": []}, {"segments": None}], ids=["words", "empty", "null"])
def test_words_beside_no_segments_are_utterances_by_the_sentences_of_the_text(tmp_path: Path, more: dict) -> None:
    transcript = read(tmp_path, openai(*SPOKEN, **more))
    assert words(transcript) == list(SPOKEN)
    assert said(transcript) == [("", 0.5, 1.4, "Hello there."), ("", 3.0, 3.25, "Dr."), ("", 3.5, 4.0, "Who?")]


def test_words_whose_letters_are_not_those_of_the_text_are_utterances_by_pauses(tmp_path: Path) -> None:
    transcript = read(tmp_path, openai(*SPOKEN, text="Hello, twenty-five."))
    assert said(transcript) == [("", 0.5, 1.4, "Hello there"), ("", 3.0, 4.0, "Dr Who")]


def test_with_both_granularities_words_have_their_own_times_and_utterances_those_of_their_words(tmp_path: Path) -> None:
    segments = [
        {"id": 0, "seek": 0, "start": 0.0, "end": 2.4, "text": " Hello there.", "tokens": [1], "avg_logprob": -0.2},
        {"id": 1, "seek": 0, "start": 2.4, "end": 9.0, "text": " Dr. Who?", "tokens": [2], "avg_logprob": -0.2},
    ]
    transcript = read(tmp_path, openai(*SPOKEN, segments=segments))
    assert words(transcript) == list(SPOKEN)
    assert all(word.timed for word in transcript.words())
    assert said(transcript) == [("", 0.5, 1.4, "Hello there."), ("", 3.0, 4.0, "Dr. Who?")]
    other = [segment | {"text": f"{segment['text']} uh"} for segment in segments]  # the letters do not agree
    assert words(read(tmp_path, openai(*SPOKEN, segments=other))) == list(SPOKEN)


def test_a_segment_without_words_beside_it_keeps_its_text_and_times(tmp_path: Path) -> None:
    segments = [
        {"start": 0.0, "end": 2.4, "text": "Hello there."},
        {"start": 2.4, "end": 3.0, "text": "..."},
        {"start": 3.0, "end": 5.0, "text": "Dr. Who?"},
    ]
    transcript = read(tmp_path, openai(*SPOKEN, segments=segments))
    assert [each.start_s for each in transcript.utterances] == [0.5, 2.4, 3.0]
    assert words(transcript) == list(SPOKEN)


def test_speakers_of_openais_diarisation(tmp_path: Path) -> None:
    segments = [
        {"type": "transcript.text.segment", "id": "s0", "start": 0.0, "end": 1.0, "text": "Hi.", "speaker": "A"},
        {"type": "transcript.text.segment", "id": "s1", "start": 1.0, "end": 2.0, "text": "Yes.", "speaker": "B"},
    ]
    transcript = read(tmp_path, {"text": "Hi. Yes.", "segments": segments, "usage": {}})
    assert said(transcript) == [("A", 0.0, 1.0, "Hi."), ("B", 1.0, 2.0, "Yes.")]


@pytest.mark.parametrize(
    "content",
    [
        {"text": SECRET, "segments": []},
        {"text": SECRET, "segments": None, "words": []},
        {"status": "completed", "id": "x", "text": SECRET, "words": [], "utterances": None},
    ],
)
def test_a_text_without_times_is_refused_and_not_taken_for_silence(tmp_path: Path, content: dict) -> None:
    with pytest.raises(TranscriptError, match=naming("t.json", "has a text", "with times")) as error:
        read(tmp_path, content)
    assert SECRET not in str(error.value)


# --- Whisper's pieces of words ---------------------------------------------------------------------------------------


def piece(word: str, start: float, end: float, probability: float = 0.5) -> dict[str, Any]:
    return {"word": word, "start": start, "end": end, "probability": probability}


PIECES = [piece(" $25", 0, 1, 0.5), piece(".50", 1, 2, 1.0), piece(" well", 2, 3), piece("-known.", 3, 4)]
FASTER = {"id": 1, "seek": 0, "start": 0.0, "end": 4.0, "text": " $25.50 well-known.", "tokens": [1], "words": PIECES}


@pytest.mark.parametrize("content", [{"segments": [FASTER], "language": "en"}, [FASTER]], ids=["Whisper", "a list"])
def test_pieces_of_words_are_joined_where_spaces_say_so(tmp_path: Path, content: object) -> None:
    """A list is what faster-whisper's segments become, each as a dictionary."""
    transcript = read(tmp_path, content)
    assert words(transcript) == [("$25.50", 0.0, 2.0), ("well-known.", 2.0, 4.0)]
    assert [word.confidence for word in transcript.words()] == [0.75, 0.5]
    assert transcript.utterances[0].text == "$25.50 well-known."


def test_a_segment_never_continues_a_word_of_the_one_before(tmp_path: Path) -> None:
    segments = [FASTER, {"start": 4.0, "end": 5.0, "text": "uh", "words": [piece("uh", 4, 5)]}]
    assert [word for word, _, _ in words(read(tmp_path, segments))] == ["$25.50", "well-known.", "uh"]


def test_words_without_leading_spaces_are_words(tmp_path: Path) -> None:
    segment = {"start": 0.0, "end": 2.0, "text": "Hi you", "words": [piece("Hi", 0, 1), piece("you", 1, 2)]}
    assert [word for word, _, _ in words(read(tmp_path, [segment]))] == ["Hi", "you"]


def test_pieces_of_chinese_are_words_although_a_foreign_word_has_a_space(tmp_path: Path) -> None:
    first = [piece("我", 0, 1), piece("用", 1, 2), piece(" Py", 2, 3), piece("thon", 3, 4), piece("写", 4, 5)]
    second = [piece("很", 6, 7), piece("好", 7, 8)]
    segments = [
        {"start": 0.0, "end": 5.0, "text": "我用 Python写", "words": first},
        {"start": 6.0, "end": 8.0, "text": "很好", "words": second},
    ]
    expected = [("我", 0.0, 1.0), ("用", 1.0, 2.0), ("Python", 2.0, 4.0), ("写", 4.0, 5.0), ("很", 6.0, 7.0)]
    assert words(read(tmp_path, {"segments": segments, "language": "zh"})) == [*expected, ("好", 7.0, 8.0)]


@given(st.lists(st.lists(st.text("abé9-'", min_size=1, max_size=4), min_size=1, max_size=4), min_size=1, max_size=8))
def test_joined_pieces_are_the_words_that_were_cut(cut: list[list[str]]) -> None:
    pieces = [
        DraftWord(word=f"{' ' * (number == 0)}{text}", start_s=0.0, end_s=1.0)
        for word in cut
        for number, text in enumerate(word)
    ]
    assert [word.word for word in joined_pieces(pieces)] == ["".join(word) for word in cut]


@given(st.lists(st.lists(st.text("aßé9", min_size=1, max_size=4), max_size=4), min_size=1, max_size=6))
def test_words_find_the_text_that_they_are_of(texts: list[list[str]]) -> None:
    listed = [[DraftWord(word=word) for word in text] for text in texts]
    written = [", ".join(word.upper() for word in text) + "!" for text in texts]
    assert words_of_texts([word for text in listed for word in text], written) == listed


# --- whisper.cpp -----------------------------------------------------------------------------------------------------


def offsets(start: int, end: int) -> dict[str, Any]:
    stamps = [f"00:00:{time // 1000:02d},{time % 1000:03d}" for time in (start, end)]
    return {"timestamps": dict(zip(("from", "to"), stamps, strict=True)), "offsets": {"from": start, "to": end}}


def cpp(*segments: dict[str, Any]) -> dict[str, Any]:
    model = {"type": "base", "multilingual": False, "vocab": 51864}
    return {
        "systeminfo": "AVX = 1",
        "model": model,
        "params": {},
        "result": {"language": "en"},
        "transcription": segments,
    }


def token(text: str, start: int, end: int, p: float = 0.5) -> dict[str, Any]:
    return {"text": text, **offsets(start, end), "id": 50363, "p": p, "t_dtw": -1}


def test_whisper_cpp_has_segments(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        cpp(
            {**offsets(250, 2000), "text": " And so on.", "speaker": "0"},
            {**offsets(2000, 3500), "text": " Yes, yes.", "speaker": "?"},
        ),
    )
    assert said(transcript) == [("0", 0.25, 2.0, "And so on."), ("", 2.0, 3.5, "Yes, yes.")]


def test_whisper_cpp_in_full_has_words_of_tokens(tmp_path: Path) -> None:
    tokens = [
        token("[_BEG_]", 0, 0), token(" And", 250, 500, 0.25), token(" unbe", 500, 900), token("lievable", 900, 1400),
        token(".", 1400, 1500), token("[_TT_75]", 1500, 1500),
    ]  # fmt: skip
    transcript = read(tmp_path, cpp({**offsets(0, 1500), "text": " And unbelievable.", "tokens": tokens}))
    assert words(transcript) == [("And", 0.25, 0.5), ("unbelievable.", 0.5, 1.5)]
    assert transcript.words()[0].confidence == 0.25


def test_whisper_cpp_that_cut_a_character_into_two_tokens_is_read(tmp_path: Path) -> None:
    tokens = [token(" caf", 0, 500), token("FIRST", 500, 700), token("SECOND", 700, 900), token(" noir", 900, 1500)]
    document = json.dumps(cpp({**offsets(0, 1500), "text": " café noir", "tokens": tokens}), ensure_ascii=False)
    data = document.encode().replace(b"FIRST", b"\xc3").replace(b"SECOND", b"\xa9")
    transcript = read(tmp_path, data)
    assert words(transcript) == [("café", 0.0, 0.9), ("noir", 0.9, 1.5)]
    with pytest.raises(TranscriptError, match=naming("t.json", "UTF-8")):
        read(tmp_path, b'{"segments": [], "text": "\xe9"}')


SENTENCES = [(0, 2000, "今天天气很好"), (2000, 4000, "我们去公园吧"), (4000, 5000, "好")]
CHARACTERS = [(0, 200, "今天"), (200, 400, "天气"), (400, 600, "很"), (600, 800, "好")]


@pytest.mark.parametrize(
    ("stretches", "texts"),
    [(SENTENCES, [text for _, _, text in SENTENCES]), (CHARACTERS, ["今天 天气 很 好"])],
    ids=["sentences", "words"],
)
def test_sentences_without_spaces_are_utterances_and_no_words(
    tmp_path: Path, stretches: list[tuple[int, int, str]], texts: list[str]
) -> None:
    segments = [{**offsets(start, end), "text": text} for start, end, text in stretches]
    chunks = [{"text": text, "timestamp": [start / 1000, end / 1000]} for start, end, text in stretches]
    for content in (cpp(*segments), {"text": "", "chunks": chunks}):
        transcript = read(tmp_path, content)
        assert [utterance.text for utterance in transcript.utterances] == texts
        assert {word.timed for word in transcript.words()} == {stretches is CHARACTERS}


def test_whisper_cpp_that_cut_a_chinese_character_keeps_it(tmp_path: Path) -> None:
    tokens = [token("我", 0, 500), token("FIRST", 500, 700), token("SECOND", 700, 900), token("你", 900, 1500)]
    document = json.dumps(cpp({**offsets(0, 1500), "text": "我鱷你", "tokens": tokens}), ensure_ascii=False)
    character = "鱷".encode()
    data = document.encode().replace(b"FIRST", character[:2]).replace(b"SECOND", character[2:])
    assert words(read(tmp_path, data)) == [("我", 0.0, 0.5), ("鱷", 0.5, 0.9), ("你", 0.9, 1.5)]


def test_whisper_cpp_with_a_word_a_segment_has_words(tmp_path: Path) -> None:
    """``--max-len 1``."""
    pieces = [(" And", 0, 250), (" unbe", 250, 500), ("lievable", 500, 900), (".", 900, 1000), (" Yes", 3000, 3500)]
    transcript = read(tmp_path, cpp(*({**offsets(start, end), "text": text} for text, start, end in pieces)))
    assert said(transcript) == [("", 0.0, 1.0, "And unbelievable."), ("", 3.0, 3.5, "Yes")]
    assert words(transcript)[1] == ("unbelievable.", 0.25, 1.0)


# --- Hugging Face ----------------------------------------------------------------------------------------------------


def pipeline(*chunks: tuple[str, float | None, float | None], **more: object) -> dict[str, Any]:
    listed = [{"text": text, "timestamp": [start, end]} for text, start, end in chunks]
    return {"text": "".join(text for text, _, _ in chunks), "chunks": listed, **more}


def test_chunks_of_stretches_are_utterances(tmp_path: Path) -> None:
    transcript = read(tmp_path, pipeline((" Hello there.", 0.0, 2.5), (" Yes, I do.", 2.5, 4.0)))
    assert said(transcript) == [("", 0.0, 2.5, "Hello there."), ("", 2.5, 4.0, "Yes, I do.")]
    assert not any(word.timed for word in transcript.words())


def test_chunks_of_words_are_words(tmp_path: Path) -> None:
    transcript = read(
        tmp_path, pipeline((" Hello", 0.5, 1.0), (" there.", 1.0, 1.5), (" I", 2.0, 2.25), (" do", 2.5, None))
    )
    assert said(transcript) == [("", 0.5, 1.5, "Hello there."), ("", 2.0, 2.5, "I do")]
    assert words(transcript)[:3] == [("Hello", 0.5, 1.0), ("there.", 1.0, 1.5), ("I", 2.0, 2.25)]
    assert not transcript.words()[3].timed


def test_chunks_of_speakers_are_utterances_of_them(tmp_path: Path) -> None:
    speakers = [
        {"speaker": "SPEAKER_00", "timestamp": [0.0, 1.0], "text": " Hi you."},
        {"speaker": "SPEAKER_01", "timestamp": [1.0, 2.0], "text": " Yes, I."},
    ]
    transcript = read(tmp_path, pipeline((" Hi you. Yes, I.", 0.0, 2.0), speakers=speakers))
    assert said(transcript) == [("SPEAKER_00", 0.0, 1.0, "Hi you."), ("SPEAKER_01", 1.0, 2.0, "Yes, I.")]


@pytest.mark.parametrize(
    ("chunks", "named"),
    [
        ([(f" {SECRET} one", 0.0, 2.0), (" two three", 2.0, None)], "chunk 2"),
        ([(f" {SECRET} one", None, 2.0)], "chunk 1"),
        ([(f" {SECRET} one", 0.0, 29.0), (" two three", 0.0, 3.0)], "chunk 2"),
    ],
)
def test_chunks_without_an_end_or_that_go_back_in_time_are_named(tmp_path: Path, chunks: list, named: str) -> None:
    with pytest.raises(TranscriptError, match=naming("t.json", named)) as error:
        read(tmp_path, pipeline(*chunks))
    assert SECRET not in str(error.value)


# --- services --------------------------------------------------------------------------------------------------------


def deepgram_word(word: str, start: float, end: float, speaker: int | None = None) -> dict[str, Any]:
    own = {} if speaker is None else {"speaker": speaker, "speaker_confidence": 0.5}
    bare = word.strip(".?").lower()
    return {"word": bare, "start": start, "end": end, "confidence": 0.75, "punctuated_word": word, **own}


def deepgram(*channels: list[dict[str, Any]], utterances: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    heard = [{"alternatives": [{"transcript": "…", "confidence": 0.9, "words": words}]} for words in channels]
    results = {"channels": heard} | ({"utterances": utterances} if utterances else {})
    return {"metadata": {"request_id": "x", "channels": len(channels), "duration": 9.0}, "results": results}


DIALOGUE = [
    deepgram_word("Hello.", 0.5, 1.0, 0), deepgram_word("Are", 1.5, 2.0, 0), deepgram_word("you", 2.0, 2.5, 1),
]  # fmt: skip


def test_deepgram_has_words_with_speakers(tmp_path: Path) -> None:
    transcript = read(tmp_path, deepgram(DIALOGUE))
    assert said(transcript) == [
        ("speaker_0", 0.5, 1.0, "Hello."), ("speaker_0", 1.5, 2.0, "Are"), ("speaker_1", 2.0, 2.5, "you")
    ]  # fmt: skip
    assert transcript.words()[0].confidence == 0.75


def test_deepgrams_utterances_come_before_its_channels(tmp_path: Path) -> None:
    utterance = {
        "start": 0.5, "end": 2.5, "confidence": 0.9, "channel": 0, "transcript": "Hello. Are you", "words": DIALOGUE,
        "id": "x", "speaker": 1,
    }  # fmt: skip
    transcript = read(tmp_path, deepgram(DIALOGUE, utterances=[utterance]))
    assert said(transcript) == [("speaker_1", 0.5, 2.5, "Hello. Are you")]
    assert len(transcript.words()) == 3


def test_each_channel_of_deepgram_is_a_speaker(tmp_path: Path) -> None:
    transcript = read(tmp_path, deepgram([deepgram_word("Yes.", 2.0, 2.5)], [deepgram_word("No.", 1.0, 1.5)]))
    assert said(transcript) == [("channel 1", 1.0, 1.5, "No."), ("channel 0", 2.0, 2.5, "Yes.")]


def aws_item(content: str, start: str, end: str, **more: str) -> dict[str, Any]:
    times = {"start_time": start, "end_time": end}
    return {
        "id": 0,
        "type": "pronunciation",
        "alternatives": [{"confidence": "0.875", "content": content}],
        **times,
        **more,
    }


def aws_mark(content: str) -> dict[str, Any]:
    return {"id": 0, "type": "punctuation", "alternatives": [{"confidence": "0.0", "content": content}]}


def aws(items: list[dict[str, Any]], **results: object) -> dict[str, Any]:
    content = {"transcripts": [{"transcript": "…"}], "items": items, **results}
    return {"jobName": "x", "accountId": "1", "status": "COMPLETED", "results": content}


def test_aws_transcribe_has_words_with_punctuation_and_speakers(tmp_path: Path) -> None:
    items = [
        aws_item("Hello", "0.5", "1.0", speaker_label="spk_0"), aws_mark("."),
        aws_item("Are", "1.5", "2.0", speaker_label="spk_0"), aws_item("you", "2.0", "2.5", speaker_label="spk_1"),
        aws_mark("?"),
    ]  # fmt: skip
    transcript = read(tmp_path, aws(items))
    assert said(transcript) == [("spk_0", 0.5, 1.0, "Hello."), ("spk_0", 1.5, 2.0, "Are"), ("spk_1", 2.0, 2.5, "you?")]
    assert [word.confidence for word in transcript.words()] == [0.875] * 3
    assert all(word.timed for word in transcript.words())


def test_speakers_of_aws_transcribe_may_be_in_segments_or_channels(tmp_path: Path) -> None:
    items = [aws_item("Hello", "0.5", "1.0"), aws_item("you", "2.0", "2.5")]
    segments = [
        {"start_time": "0.4", "end_time": "1.0", "speaker_label": "spk_0", "items": []},
        {"start_time": "1.9", "end_time": "2.5", "speaker_label": "spk_1", "items": []},
    ]
    transcript = read(tmp_path, aws(items, speaker_labels={"segments": segments, "speakers": 2}))
    assert said(transcript) == [("spk_0", 0.5, 1.0, "Hello"), ("spk_1", 2.0, 2.5, "you")]
    channels = [{"channel_label": f"ch_{number}", "items": [item]} for number, item in enumerate(items)]
    transcript = read(tmp_path, aws(items, channel_labels={"channels": channels, "number_of_channels": 2}))
    assert said(transcript) == [("ch_0", 0.5, 1.0, "Hello"), ("ch_1", 2.0, 2.5, "you")]


def test_words_beside_an_empty_list_of_utterances_are_read(tmp_path: Path) -> None:
    spoken = [{"text": "Yes.", "start": 500, "end": 900}]
    transcript = read(tmp_path, {"id": "x", "status": "completed", "utterances": [], "words": spoken})
    assert words(transcript) == [("Yes.", 0.5, 0.9)]


UNFINISHED = [
    {"id": "x", "status": "processing", "audio_url": "u", "text": None, "words": None, "utterances": None},
    {"id": "x", "status": "processing", "words": [], "utterances": []},
    {"id": "x", "status": "queued"},
    {"id": "x", "status": "error", "error": SECRET, "words": None, "utterances": None},
    aws([]) | {"status": "IN_PROGRESS"},
    {"TranscriptionJob": {"TranscriptionJobName": "x", "TranscriptionJobStatus": "IN_PROGRESS"}},
    {"TranscriptionJob": {"TranscriptionJobName": "x", "TranscriptionJobStatus": "FAILED", "FailureReason": SECRET}},
    {"TranscriptionJob": {"TranscriptionJobStatus": "COMPLETED", "Transcript": {"TranscriptFileUri": SECRET}}},
]


@pytest.mark.parametrize("content", UNFINISHED)
def test_an_answer_without_the_transcript_is_refused_and_never_silence(tmp_path: Path, content: dict) -> None:
    with pytest.raises(TranscriptError, match=naming("t.json", "job")) as error:
        read(tmp_path, content, allow_malformed=True)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("content", [{"results": {"score": 1}}, [SECRET], [{"text": SECRET}], {"error": {}}, 5, "x"])
def test_what_no_program_wrote_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(TranscriptError, match=naming("t.json", "no known transcript")) as error:
        read(tmp_path, content)
    assert SECRET not in str(error.value)


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1, 9) | st.sampled_from(["", "a", " b", SECRET]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "segments words utterances text word start end start_s end_s status id chunks timestamp results "
                "channels alternatives items type transcription offsets from to tokens speakers speaker_labels".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(anything)
def test_no_document_ends_in_another_error(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    try:
        transcript = read(tmp_path_factory.getbasetemp(), content, allow_malformed=True)
    except TranscriptError as error:
        message = str(error)
    else:
        message = ""
        assert all(0 <= each.start_s <= each.end_s for each in transcript.utterances)
    assert SECRET not in message
