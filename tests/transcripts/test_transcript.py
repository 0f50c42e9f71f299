from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import naming

from tasks.study.transcript import Transcript, TranscriptError, Utterance, Word, read_transcript

SECRET = "zebra"
OWN = {"start_s": 0, "end_s": 9, "text": ""}
ASSEMBLY = {"text": "Hi.", "start": 250, "end": 500}


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


def test_words_know_their_utterance_where_two_talk_at_once() -> None:
    said = [("robot", [0.0, 1.0, 2.0]), ("participant", [0.5, 1.5]), ("robot", []), ("participant", [1.0])]
    utterances = tuple(
        Utterance(
            speaker, min(starts, default=1.0), 3.0, "…", tuple(Word(speaker, start, start + 0.4) for start in starts)
        )
        for speaker, starts in said
    )
    transcript = Transcript(utterances)
    words, holders = transcript.words(), transcript.utterances_of_words()
    assert [word.start_s for word in words] == [0.0, 0.5, 1.0, 1.0, 1.5, 2.0]
    assert holders == [0, 1, 0, 3, 1, 0]
    assert [utterances[number].speaker for number in holders] == [word.text for word in words]


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


def timed(word: str, start: float, end: float) -> dict:
    return {"word": word, "start": start, "end": end}


def whisper(*words: dict, start: float = 1.0, end: float = 4.0) -> dict:
    return {"segments": [{"start": start, "end": end, "text": "x", "words": list(words)}]}


def test_words_and_speakers_that_are_null_are_as_if_not_there(tmp_path: Path) -> None:
    """faster-whisper writes that without word times; so does AssemblyAI without labels."""
    segment = {"start": 1.0, "end": 2.0, "text": " Hi you", "words": None, "speaker": None}
    utterance = {"start": 1000, "end": 2000, "text": "Hi you", "words": None, "speaker": None}
    own = {"start_s": 1.0, "end_s": 2.0, "text": "Hi you", "words": None, "speaker": None}
    for content in ({"segments": [segment]}, {"utterances": [utterance]}, {"utterances": [own]}):
        transcript = read_transcript(write(tmp_path, content))
        assert spans(transcript) == [("Hi", 1.0, 1.4, False), ("you", 1.4, 2.0, False)]
        assert transcript.utterances[0].speaker == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (  # a start and no end, as WhisperX writes numbers: until the next word that has a start
            [timed("In", 1.0, 1.5), {"word": "2014", "start": 2.0}, timed("we", 3.0, 4.0)],
            [("In", 1.0, 1.5, True), ("2014", 2.0, 3.0, False), ("we", 3.0, 4.0, True)],
        ),
        ([{"word": "2014", "start": 1.0}], [("2014", 1.0, 4.0, False)]),  # the only word; ends with its utterance
        ([timed("a", 1.0, 3.0), {"word": "5", "start": 4.0}], [("a", 1.0, 3.0, True), ("5", 4.0, 4.0, False)]),
        (  # two in a row; and one that shares its gap with a word without any time
            [{"word": "20", "start": 1.0}, {"word": "14", "start": 2.0}, {"word": "to"}, {"word": "15"}],
            [("20", 1, 2, False), ("14", 2, 2.667, False), ("to", 2.667, 3.333, False), ("15", 3.333, 4, False)],
        ),
        (  # a number that starts before the word before it has ended
            [timed("a", 1.0, 3.0), {"word": "7", "start": 2.5}, timed("b", 2.6, 4.0)],
            [("a", 1.0, 3.0, True), ("7", 2.5, 2.6, False), ("b", 2.6, 4.0, True)],
        ),
    ],
)  # fmt: skip
def test_a_word_with_a_start_and_no_end_keeps_its_start(tmp_path: Path, words: list[dict], expected: list) -> None:
    assert spans(read_transcript(write(tmp_path, whisper(*words)))) == expected


MALFORMED_WORDS = [
    ([{"word": SECRET, "end": 3.0}], "utterance 1, word 1: has an end, 3.0 s, but no start"),
    ([{"word": SECRET, "start": 5.0, "end": 6.0}], "word 1: runs from 5.0 s to 6.0 s, beyond its utterance from 1.0 s"),
    ([{"word": SECRET, "start": 0.5, "end": 2.0}], "word 1: runs from 0.5 s to 2.0 s, beyond its utterance"),
    ([{"word": SECRET, "start": 2.0, "end": 4.2}], "word 1: runs from 2.0 s to 4.2 s, beyond its utterance"),
    ([{"word": SECRET, "start": 9.0}], "word 1: runs from 9.0 s to 9.0 s, beyond its utterance"),
    ([{"word": SECRET, "start": 3.0, "end": 2.0}], "word 1: runs from 3.0 s to 2.0 s; a time is finite"),
    ([{"word": SECRET, "start": -3.0, "end": 2.0}], "word 1: runs from -3.0 s"),
]


@pytest.mark.parametrize(("words", "message"), MALFORMED_WORDS)
def test_a_malformed_word_fails_the_transcript_unless_allowed(tmp_path: Path, words: list[dict], message: str) -> None:
    path = write(tmp_path, whisper(*words, {"word": "b", "start": 3.0, "end": 4.05}))
    with pytest.raises(TranscriptError, match="allow_malformed_cues = true") as error:
        read_transcript(path)
    assert message in str(error.value)
    assert SECRET not in str(error.value)
    allowed = read_transcript(path, allow_malformed=True)
    assert len(allowed.malformed) == 1
    assert spans(allowed) == [(SECRET, 1.0, 3.0, False), ("b", 3.0, 4.05, True)]


def own_word(**confidence: object) -> dict:
    return {"utterances": [{"start_s": 1, "end_s": 2, "text": "a", "words": [{"word": "a", **confidence}]}]}


CONFIDENT = [
    (own_word(confidence=0.25), 0.25),
    (own_word(confidence=0), 0.0),
    (own_word(confidence=None), math.nan),
    (own_word(), math.nan),
    ({"segments": [{"start": 1, "end": 2, "text": "a", "words": [{"word": "a", "score": 0.75}]}]}, 0.75),
    ({"segments": [{"start": 1, "end": 2, "text": "a", "words": [{"word": "a", "probability": 0.5}]}]}, 0.5),
    ({"segments": [{"start": 1, "end": 2, "text": "a", "words": [{"word": "a", "score": math.nan}]}]}, math.nan),
    ({"utterances": [{"start": 0, "end": 900, "text": "a", "words": [ASSEMBLY | {"confidence": 0.125}]}]}, 0.125),
    ({"words": [ASSEMBLY | {"confidence": 1}], "confidence": 0.5}, 1.0),
    ({"words": [ASSEMBLY]}, math.nan),
]


@pytest.mark.parametrize(("content", "confidence"), CONFIDENT)
def test_words_have_the_confidence_of_every_format(tmp_path: Path, content: dict, confidence: float) -> None:
    transcript = read_transcript(write(tmp_path, content))
    (word,) = transcript.words()
    assert word.confidence == pytest.approx(confidence, nan_ok=True)
    assert not transcript.unknown_confidences


def test_a_word_whose_times_are_interpolated_keeps_its_confidence(tmp_path: Path) -> None:
    words = [timed("a", 1, 1.5) | {"score": 0.5}, {"word": "b", "score": 0.25}, timed("c", 9, 8) | {"score": 0.125}]
    read = read_transcript(write(tmp_path, whisper(*words)), allow_malformed=True).words()
    assert [(word.timed, word.confidence) for word in read] == [(True, 0.5), (False, 0.25), (False, 0.125)]


@pytest.mark.parametrize("other", [97, -0.105, "0.9", True, math.inf, [], 10**400])
def test_confidences_on_another_scale_are_nobodys(tmp_path: Path, other: object) -> None:
    """0.9 beside 97 may be 0.9 %."""
    words = [{"word": "a", "confidence": 0.9}, {"word": "b", "confidence": other}]
    content = {"utterances": [{"start_s": 1, "end_s": 2, "text": "a b", "words": words}]}
    transcript = read_transcript(write(tmp_path, content))
    assert transcript.unknown_confidences
    assert all(math.isnan(word.confidence) for word in transcript.words())


def test_captions_have_no_confidences(tmp_path: Path) -> None:
    (word,) = read_transcript(write(tmp_path, f"WEBVTT\n\n{VTT_TIMES}\nHello\n", "t.vtt")).words()
    assert math.isnan(word.confidence)


VTT_TIMES = "00:00:01.500 --> 00:00:02.000"
SRT_TIMES = "00:00:01,500 --> 00:00:02,000"
MALFORMED_TIMES = [
    "99:99:99.000 --> 99:99:99.500",
    "99:99:99 --> 99:99:99",
    "00:00:60.000 --> 00:01:00.000",
    "00:00:03.5 --> 00:00:04.5",
    "00:00:03.5001 --> 00:00:04.5001",
    "00:00:03 --> 00:00:04",
    "00:00:03.000 -> 00:00:04.000",
    "00:00:03.000 —> 00:00:04.000",
    "00:00:03.000 00:00:04.000",
    "00:00:03.000 -->",
    "--> 00:00:04.000",
    "00:00:03.000 --> zebra",
    "zebra --> 00:00:04.000",
    "00:00:04.000 --> 00:00:03.000",
    "-00:00:04.000 --> 00:00:05.000",
]


@pytest.mark.parametrize("name", ["t.vtt", "t.srt"])
@pytest.mark.parametrize("times", [*MALFORMED_TIMES, "comma or full stop"])
@pytest.mark.parametrize("last", [False, True])
def test_a_malformed_cue_is_named_and_never_vanishes(tmp_path: Path, name: str, times: str, last: bool) -> None:
    is_vtt = name == "t.vtt"
    if times == "comma or full stop":
        times = SRT_TIMES if is_vtt else VTT_TIMES.replace(".", ";")
    good = f"{VTT_TIMES if is_vtt else SRT_TIMES}\nHello\n"
    cues = [good, f"{times if is_vtt else times.replace('.', ',')}\n{SECRET}\n"]
    cues = cues if last else cues[::-1]
    text = "WEBVTT\n\n" * is_vtt + "\n".join(cue if is_vtt else f"{n}\n{cue}" for n, cue in enumerate(cues, 1))
    path = write(tmp_path, text, name)
    line = (
        text[: text.index(times[:4] if not last else cues[1][:4], text.index("Hello") if last else 0)].count("\n") + 1
    )
    with pytest.raises(TranscriptError, match="allow_malformed_cues") as error:
        read_transcript(path)
    assert f"{name}, line {line}: " in str(error.value)
    assert SECRET not in str(error.value)
    allowed = read_transcript(path, allow_malformed=True)
    assert [u.text for u in allowed.utterances] == ["Hello"]
    assert len(allowed.malformed) == 1


def test_many_malformed_cues_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    text = f"WEBVTT\n\n{VTT_TIMES}\nHello\n\n" + "99:99:99 --> 99:99:99\nx\n\n" * 40
    with pytest.raises(TranscriptError, match=naming("line 6", "line 18", "35 more")) as error:
        read_transcript(write(tmp_path, text, "t.vtt"))
    assert len(str(error.value)) < 700


def test_captions_as_they_are_found_in_the_wild(tmp_path: Path) -> None:
    vtt = (
        "\ufeffWEBVTT - made by a machine\nKind: captions\nLanguage: en\n\n"
        "NOTE\nnot a cue: 00:00:01.000 --> 00:00:02.000\n\n"
        "STYLE\n::cue { color: red }\n\nREGION\nid:fred\n\nintro\n00:01.000 --> 00:02.000 align:start position:0%\n"
        "<v.loud Anna Smith>R&amp;D <i>is</i> <00:00:01.500>fun &lt;3\n\n"
        "00:02.000 --> 00:03.000\nTwo\n00:03.000 --> 00:04.000\nthree\n\n123:00:00.000 --> 123:00:01.000\n\n"
    )
    cues = read_transcript(write(tmp_path, vtt.replace("\n", "\r\n"), "t.vtt")).utterances
    assert [(u.speaker, u.start_s, u.text) for u in cues] == [
        ("Anna Smith", 1.0, "R&D is fun <3"),
        ("", 2.0, "Two"),
        ("", 3.0, "three"),
    ]
    srt = (
        f"\n1\n{SRT_TIMES}\n{{\\an8}}<font color='red'>In 2014</font>\n2015\n\n\n"
        "2\n\n1:00:03.000-->1:00:04.000 X1:10 X2:20\n"
        "At 5:30 - 6:45\n3\n02:00:00,000 --> 02:00:01,000\n1984\n"
    )
    cues = read_transcript(write(tmp_path, srt, "t.srt")).utterances
    assert [(u.start_s, u.text) for u in cues] == [(1.5, "In 2014 2015"), (3603.0, "At 5:30 - 6:45"), (7200.0, "1984")]


def test_a_cue_straight_after_the_header_is_a_cue(tmp_path: Path) -> None:
    cues = read_transcript(write(tmp_path, f"WEBVTT\n{VTT_TIMES}\nHello\n", "t.vtt")).utterances
    assert [u.text for u in cues] == ["Hello"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("t.vtt", f"WEBVTT\n\n{VTT_TIMES}\nHello\n\nzebra\n"), ("t.srt", f"1\n{SRT_TIMES}\nHello\n\nzebra\n")],
)
def test_text_that_belongs_to_no_cue_is_named(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(TranscriptError, match=naming("text that belongs to no")) as error:
        read_transcript(write(tmp_path, text, name))
    assert SECRET not in str(error.value)


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
    with pytest.raises(TranscriptError, match=naming("t.docx", "a transcript is .json", "vtt or .srt")):
        read_transcript(write(tmp_path, "", "t.docx"))


def captions(folder: Path, cues: list[str], name: str = "t.vtt", **how: bool) -> Transcript:
    """What is read of a file with these cues, each a second long."""
    is_vtt = name.endswith(".vtt")
    point = "." if is_vtt else ","
    blocks = [
        f"{n}\n00:00:{n:02d}{point}000 --> 00:00:{n + 1:02d}{point}000\n{text}\n" for n, text in enumerate(cues, 1)
    ]
    return read_transcript(write(folder, "WEBVTT\n\n" * is_vtt + "\n".join(blocks), name), **how)


def said(transcript: Transcript) -> list[tuple[str, str]]:
    return [(one.speaker, one.text) for one in transcript.utterances]


ANNA, BEN = "Anna Kowalski", "Ben (he/him)"


@pytest.mark.parametrize("name", ["t.vtt", "t.srt"])
def test_a_speaker_before_every_cue_is_a_speaker_and_no_text(tmp_path: Path, name: str) -> None:
    """As Zoom writes it. A colon in what is said stays."""
    cues = [f"{ANNA}: The point is: no.", f"{BEN}: Why?", f"{ANNA}: At 5:30", f"{BEN}: Note: a\nlong one", f"{ANNA}:"]
    transcript = captions(tmp_path, cues, name)
    assert said(transcript) == [
        (ANNA, "The point is: no."),
        (BEN, "Why?"),
        (ANNA, "At 5:30"),
        (BEN, "Note: a long one"),
    ]
    assert transcript.uncertain_speakers == 0
    assert [word.text for word in transcript.words()][:4] == ["The", "point", "is:", "no."]


def test_a_voice_of_teams_is_a_speaker_and_so_is_a_second_one_in_the_cue(tmp_path: Path) -> None:
    cues = [f"<v {ANNA}>Hello: you</v>", "<v Ben Nowak>Yes.</v>\n<v.loud Anna Kowalski>No.</v>", "<v Ben Nowak>Ann: x"]
    transcript = captions(tmp_path, cues)
    assert said(transcript) == [
        (ANNA, "Hello: you"), ("Ben Nowak", "Yes."), (ANNA, "No."), ("Ben Nowak", "Ann: x")
    ]  # fmt: skip
    assert transcript.uncertain_speakers == 0


def test_where_names_stand_at_a_change_of_speaker_the_other_cues_are_nobodys_and_counted(tmp_path: Path) -> None:
    cues = ["Anna: One", "two.", "Ben: Three", "and: four.", "five.", "Anna: Six", "Ben: Seven\nAnna: Eight", "nine."]
    transcript = captions(tmp_path, cues, "t.srt")
    assert said(transcript) == [
        ("Anna", "One"), ("", "two."), ("Ben", "Three"), ("", "and: four."), ("", "five."), ("Anna", "Six"),
        ("Ben", "Seven"), ("Anna", "Eight"), ("", "nine."),
    ]  # fmt: skip
    assert transcript.uncertain_speakers == 4


@pytest.mark.parametrize(
    ("cues", "uncertain"),
    [
        (["The point is: no.", "I said: no.", "The point is: yes.", *"abcdef"], 0),  # no names
        (["Remember: the key.", *["one", "two"] * 8], 0),  # once in 17 cues
        (["http://a.org", "At 5:30", "10: ten"], 0),
        ([f"{ANNA}: Hello.", "Ben Nowak: Hello."], 2),  # names, but none of them twice
        ([f"{ANNA}: Hello."], 1),
        ([f"{ANNA}: Hello.", *["one", "two"] * 8], 1),
        (["Remember: the key.", *["one", "two"] * 8, "Remember: the door."], 2),
    ],
)
def test_a_colon_alone_makes_no_speaker_and_what_may_be_one_is_counted(
    tmp_path: Path, cues: list[str], uncertain: int
) -> None:
    transcript = captions(tmp_path, cues)
    assert said(transcript) == [("", cue) for cue in cues]
    assert transcript.uncertain_speakers == uncertain
    assert captions(tmp_path, cues, speaker_prefixes=False) == Transcript(transcript.utterances)


def test_the_user_may_say_whether_captions_begin_with_speakers(tmp_path: Path) -> None:
    zoom = [f"{ANNA}: Hello.", "Ben Nowak: The point is: no."]
    assert said(captions(tmp_path, zoom, speaker_prefixes=True)) == [
        (ANNA, "Hello."),
        ("Ben Nowak", "The point is: no."),
    ]
    often = [*zoom, *zoom]
    assert said(captions(tmp_path, often, speaker_prefixes=False)) == [("", cue) for cue in often]


names = st.sampled_from(
    ["Anna", "Dr. Maria von Berg", "KIM K.", "Nowak, Ben", "张伟", "anna.k", "Speaker 2", "participant"]
)
sayings = st.sampled_from(["Yes.", "The point is: no", "Note: x", "ben: what?", "5:30", "- and: so", "Anna Berg: who?"])


@given(st.lists(st.tuples(names, sayings), min_size=1, max_size=12), st.sampled_from([": ", " : ", "："]))
def test_any_speakers_before_all_cues_are_read(tmp_path_factory, spoken: list[tuple[str, str]], colon: str) -> None:
    spoken = [*spoken, *spoken]
    cues = [f"{name}{colon}{text}" for name, text in spoken]
    transcript = captions(tmp_path_factory.mktemp("t"), cues)
    assert said(transcript) == spoken
    assert transcript.uncertain_speakers == 0


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


@pytest.mark.parametrize(
    ("provenance", "pseudonyms"),
    [
        ({"made_by": "storyframes-transcribe 0.1.0"}, {"teller": "teller"}),
        ({"made_by": "somebody"}, {}),
        ("by hand", {}),
        (None, {}),
    ],
)
def test_a_speaker_with_a_person_id_is_a_pseudonym_where_the_transcript_was_made_here(
    tmp_path: Path, provenance: object, pseudonyms: dict[str, str]
) -> None:
    """A transcript that was handed in may have Anna as the speaker, and p1 as her id."""
    path = tmp_path / "t.json"
    said = [("teller", "kim"), ("Anna Kowalski", "lee"), ("ben", None), ("Ada Ng", 3)]
    utterances = [
        {"speaker": speaker, "person_id": person, "start_s": 0, "end_s": 1, "text": "yes"} for speaker, person in said
    ]
    path.write_text(json.dumps({"utterances": utterances, "provenance": provenance}))
    assert read_transcript(path).pseudonyms == pseudonyms
