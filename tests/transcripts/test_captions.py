"""Captions as programs write them: rolling ones, names and sounds in their text, encodings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import naming

from tasks.study.transcript import Transcript, TranscriptError, read_transcript

SECRET = "zebra"


def read(folder: Path, text: str | bytes, name: str = "t.vtt", **how: bool) -> Transcript:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_transcript(path, **how)


def captions(folder: Path, cues: list[str], name: str = "t.vtt", **how: bool) -> Transcript:
    """What is read of a file with these cues, each 0.9 s long, at seconds 1, 2, ..."""
    is_vtt = name.endswith(".vtt")
    point = "." if is_vtt else ","
    times = [f"00:{n // 60:02d}:{n % 60:02d}{point}" for n in range(1, len(cues) + 1)]
    blocks = [f"{n}\n{at}000 --> {at}900\n{cue}\n" for n, (at, cue) in enumerate(zip(times, cues, strict=True), 1)]
    return read(folder, "WEBVTT\n\n" * is_vtt + "\n".join(blocks), name, **how)


def words(transcript: Transcript) -> list[tuple[str, float, float]]:
    return [(word.text, round(word.start_s, 3), round(word.end_s, 3)) for word in transcript.words()]


def said(transcript: Transcript) -> list[tuple[str, str]]:
    return [(each.speaker, each.text) for each in transcript.utterances]


def events(transcript: Transcript) -> list[tuple[str, float, float]]:
    return [(event.text, round(event.start_s, 3), round(event.end_s, 3)) for event in transcript.events]


# --- captions that roll ----------------------------------------------------------------------------------------------

YOUTUBE_VTT = """WEBVTT
Kind: captions
Language: en

00:00:00.160 --> 00:00:02.389 align:start position:0%
~
so<00:00:00.480><c> this</c><00:00:00.640><c> is</c>

00:00:02.389 --> 00:00:02.399 align:start position:0%
so this is
~

00:00:02.399 --> 00:00:04.870 align:start position:0%
so this is
a<00:00:02.560><c> garden</c><00:00:03.360><c> gate</c>

00:00:04.870 --> 00:00:04.880 align:start position:0%
a garden gate
~

00:00:04.880 --> 00:00:06.000 align:start position:0%
a garden gate
[Music]

00:00:06.000 --> 00:00:06.010 align:start position:0%
[Music]
~

00:00:06.010 --> 00:00:07.000 align:start position:0%
[Music]
of<00:00:06.500><c> ours</c>
""".replace("~", " ")
SPOKEN = [
    ("so", 0.16, 0.48), ("this", 0.48, 0.64), ("is", 0.64, 2.389), ("a", 2.399, 2.56), ("garden", 2.56, 3.36),
    ("gate", 3.36, 4.87), ("of", 6.01, 6.5), ("ours", 6.5, 7.0),
]  # fmt: skip
CONVERTED_SRT = """1
00:00:00,160 --> 00:00:02,389
~
so this is

2
00:00:02,389 --> 00:00:02,399
so this is
~
3
00:00:02,399 --> 00:00:04,870
so this is
a garden gate

4
00:00:04,870 --> 00:00:04,880
a garden gate
~
5
00:00:04,880 --> 00:00:06,000
a garden gate
[Music]

6
00:00:06,000 --> 00:00:06,010
[Music]
~
7
00:00:06,010 --> 00:00:07,000
[Music]
of ours
""".replace("~", " ")


def test_youtubes_captions_have_each_word_once_with_its_time(tmp_path: Path) -> None:
    transcript = read(tmp_path, YOUTUBE_VTT)
    assert words(transcript) == SPOKEN
    assert all(word.timed for word in transcript.words())
    assert [(each.start_s, each.end_s, each.text) for each in transcript.utterances] == [
        (0.16, 2.389, "so this is"), (2.399, 4.87, "a garden gate"), (6.01, 7.0, "of ours")
    ]  # fmt: skip
    assert events(transcript) == [("[Music]", 4.88, 6.0)]
    assert any("roll" in remark for remark in transcript.remarks)


@pytest.mark.parametrize("empty", [" \n", "\n", ""], ids=["space", "empty", "none"])
def test_rolling_captions_that_were_converted_to_srt_have_each_word_once(tmp_path: Path, empty: str) -> None:
    text = CONVERTED_SRT.replace(",389\n \n", f",389\n{empty}")
    transcript = read(tmp_path, text, "t.srt")
    assert [word for word, _, _ in words(transcript)] == [word for word, _, _ in SPOKEN]
    assert [each.start_s for each in transcript.utterances] == [0.16, 2.399, 6.01]
    assert transcript.malformed == ()


LINES = st.lists(st.sampled_from(["yes", "no no", "a b c", "so"]), min_size=2, max_size=12)


@given(LINES, st.booleans())
def test_any_lines_that_roll_are_read_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], holds: bool
) -> None:
    cues, time = [], 0
    for number, line in enumerate(lines):
        shown = [*lines[max(number - 1, 0) : number], line]
        cues.append((time, time + 990, shown))
        if holds:
            cues.append((time + 990, time + 1000, [line]))
        time += 1000
    blocks = [
        f"{n}\n00:00:{start // 1000:02d},{start % 1000:03d} --> 00:00:{end // 1000:02d},{end % 1000:03d}\n"
        + "\n".join(shown)
        for n, (start, end, shown) in enumerate(cues, 1)
    ]
    transcript = read(tmp_path_factory.getbasetemp(), "\n\n".join(blocks), "t.srt")
    repeats = any(one == other for one, other in zip(lines, lines[1:], strict=False))
    if len(cues) > 2 and not repeats:
        assert [text for _, text in said(transcript)] == lines


@pytest.mark.parametrize(
    "cues",
    [
        ["No.", "No.", "No.", "Yes."],
        ["Yes?\nNo.", "No.\nWhy?", "Well.", "So.", "I see."],
        ["Hm.", "Hm.\nSo.", "I see.", "Yes."],
    ],
)
def test_words_that_are_said_again_are_no_rolling_captions(tmp_path: Path, cues: list[str]) -> None:
    assert [text for _, text in said(captions(tmp_path, cues))] == [cue.replace("\n", " ") for cue in cues]


def test_words_have_times_only_where_they_are_in_order_and_within_the_caption(tmp_path: Path) -> None:
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n"
    for text in ("a <00:01.800>b <00:01.200>c", "a <00:09.000>b c", "a b c"):
        transcript = read(tmp_path, vtt.format(text))
        assert [word.text for word in transcript.words()] == ["a", "b", "c"]
        assert not any(word.timed for word in transcript.words())
    transcript = read(tmp_path, vtt.format("un<00:01.250>do it <00:01.500>now"))
    assert words(transcript) == [("undo", 1.0, 1.333), ("it", 1.333, 1.5), ("now", 1.5, 2.0)]
    assert [word.timed for word in transcript.words()] == [False, False, True]


def test_a_line_of_spaces_ends_a_caption_where_the_next_one_begins(tmp_path: Path) -> None:
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\none\n \n00:03.000 --> 00:04.000\ntwo\n\t\n"
    vtt += "id\n00:05.000 --> 00:06.000\nthree\n"
    assert [(each.start_s, each.text) for each in read(tmp_path, vtt).utterances] == [
        (1.0, "one"), (3.0, "two"), (5.0, "three")
    ]  # fmt: skip


# --- encodings, and times with two digits ----------------------------------------------------------------------------

ACCENTS = "1\n00:00:01,500 --> 00:00:02,000\nÇa va, “Zoé” ? – L’œuvre coûte 5 €.\n"


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "cp1252"])
def test_srt_is_read_in_the_encodings_that_programs_write(tmp_path: Path, encoding: str, mark: str) -> None:
    text = ACCENTS if encoding == "cp1252" else mark + ACCENTS
    transcript = read(tmp_path, text.encode(encoding), "t.srt")
    assert said(transcript) == [("", "Ça va, “Zoé” ? – L’œuvre coûte 5 €.")]
    assert any("Windows-1252" in remark for remark in transcript.remarks) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Привет, как дела? Хорошо, спасибо.", "cp1251"),
        ("Γειά σου, τι κάνεις; Καλά, ευχαριστώ.", "cp1253"),
        ("Tak, już idę. Dziękuję bardzo, łąka i źdźbło.", "cp1250"),
        ("今日は、お元気ですか。はい、元気です。", "shift_jis"),
    ],
)
def test_an_encoding_that_is_not_known_is_refused_and_never_guessed(tmp_path: Path, text: str, encoding: str) -> None:
    srt = f"1\n00:00:01,500 --> 00:00:02,000\n{text}\n".encode(encoding)
    with pytest.raises(TranscriptError, match=naming("t.srt")):
        read(tmp_path, srt, "t.srt")


def test_two_digits_after_the_comma_are_hundredths_where_all_times_have_two(tmp_path: Path) -> None:
    srt = "1\n00:00:01,50 --> 00:00:02,05\nOne\n\n2\n00:00:02,99 --> 00:01:02,00\nTwo\n"
    transcript = read(tmp_path, srt, "t.srt")
    assert [(each.start_s, each.end_s) for each in transcript.utterances] == [(1.5, 2.05), (2.99, 62.0)]
    assert any("hundredths" in remark for remark in transcript.remarks)
    with pytest.raises(TranscriptError, match="line 6"):  # 99 may be 0.099 s
        read(tmp_path, srt.replace("01,50 --> 00:00:02,05", "01,500 --> 00:00:02,050"), "t.srt")


# --- names -----------------------------------------------------------------------------------------------------------

FORMS = [
    "[{}] {}",
    "({}) {}",
    "{} - {}",
    "{}\n{}",
    "[{}]\n{}",
    "[{}]: {}",
    "- [{}] {}",
    ">> {}: {}",
    "{} – {}",
    "【{}】{}",
]
DIALOGUE = [("Anna", "hello"), ("Ben Nowak", "well - yes"), ("Anna", "so (sighs) it is"), ("Ben Nowak", "true")]


@pytest.mark.parametrize("name", ["t.vtt", "t.srt"])
@pytest.mark.parametrize("form", FORMS)
def test_names_before_most_captions_are_speakers_in_whatever_form(tmp_path: Path, form: str, name: str) -> None:
    transcript = captions(tmp_path, [form.format(*each) for each in DIALOGUE], name)
    assert said(transcript) == [(speaker, text.replace("(sighs) ", "")) for speaker, text in DIALOGUE]
    assert transcript.uncertain_speakers == 0
    assert [event.text for event in transcript.events] == ["(sighs)"]
    assert "Anna" not in {word.text for word in transcript.words()}


PEOPLE = st.sampled_from(["Anna", "Dr. Maria von Berg", "KIM K.", "张伟", "Speaker 2", "participant"])
SAYINGS = st.sampled_from(
    ["Yes.", "Well - no", "Note: x", "ben: what?", "5:30", "so it - is", "Of (course)", "No\nit is"]
)


@given(st.lists(st.tuples(PEOPLE, SAYINGS), min_size=1, max_size=10), st.sampled_from(FORMS[:5]))
def test_any_speakers_before_all_captions_are_read_in_whatever_form(
    tmp_path_factory: pytest.TempPathFactory, spoken: list[tuple[str, str]], form: str
) -> None:
    spoken = [*spoken, *spoken]
    transcript = captions(tmp_path_factory.getbasetemp(), [form.format(*each) for each in spoken])
    assert said(transcript) == [(speaker, text.replace("\n", " ")) for speaker, text in spoken]
    assert transcript.uncertain_speakers == 0


def test_names_after_the_dashes_of_two_speakers_count_as_those_of_two_captions(tmp_path: Path) -> None:
    cues = ["- Anna: hello\n- Ben: yes", "- Anna: so - Ben: it is", "- Anna: (laughs)\n- Ben: why?"]
    transcript = captions(tmp_path, cues)
    assert said(transcript) == [
        ("Anna", "hello"), ("Ben", "yes"), ("Anna", "so - Ben: it is"), ("Ben", "why?")
    ]  # fmt: skip
    cues[1] = "- Anna: so. - Ben: it is"
    assert said(captions(tmp_path, cues))[2:4] == [("Anna", "so."), ("Ben", "it is")]


@pytest.mark.parametrize("form", FORMS[:3])
def test_names_that_are_not_certain_are_counted(tmp_path: Path, form: str) -> None:
    transcript = captions(tmp_path, [form.format("Anna", "hello"), form.format("Ben", "yes"), "it is", "so"])
    assert transcript.uncertain_speakers == 2
    assert {each.speaker for each in transcript.utterances} == {""}
    is_word = form.startswith("{}")  # names in brackets are no words in any case
    assert ("Anna" in {word.text for word in transcript.words()}) == is_word
    sure = captions(
        tmp_path, [form.format("Anna", "hello"), form.format("Anna", "yes"), "it is"], speaker_prefixes=True
    )
    assert [each.speaker for each in sure.utterances] == ["Anna", "Anna", ""]


@pytest.mark.parametrize(
    "cues",
    [
        ["[Music] hello", "[Music] yes", "[Applause] no", "[Applause] so", "[Musik] ja", "[Musik] nein"],
        ["Well - I think so.", *["one", "two"] * 10, "So - what?"],
        ["In 2014\nwe went", "On Monday\nwe came", "The Garden\nof ours", "Over There\nit is"],
        ["5 - 3 is two", "10 - 3 is seven", "5 - 3 is two", "10 - 3 is seven"],
    ],
)
def test_sounds_and_what_people_say_are_no_names(tmp_path: Path, cues: list[str]) -> None:
    transcript = captions(tmp_path, cues)
    assert {each.speaker for each in transcript.utterances} == {""}
    assert transcript.uncertain_speakers == 0


@pytest.mark.parametrize(
    "cues",
    [
        ["I - I think", "Well - so", "I - no", "Well - yes", "plain text", "more text"],
        ["Yeah\nI know", "No\nhe left", "Yeah\nso what", "No\nyou did", "one", "two"],
    ],
)
def test_sentences_that_break_off_are_no_names_and_are_counted(tmp_path: Path, cues: list[str]) -> None:
    transcript = captions(tmp_path, cues)
    assert said(transcript) == [("", " ".join(cue.split())) for cue in cues]
    assert transcript.uncertain_speakers == 4


def test_an_interviewer_who_is_called_i_is_a_speaker(tmp_path: Path) -> None:
    interview = ["I - Where were you", "P - At home", "I - When", "P - On Monday"]
    assert {speaker for speaker, _ in said(captions(tmp_path, interview))} == {"I", "P"}


# --- what is not speech ----------------------------------------------------------------------------------------------

NO_SPEECH = [
    "[laughter]", "[LAUGHTER]", "[ Music ]", "(sighs)", "(clears her throat)", "♪", "♪♪", "[♪♪♪]", "♪ la la la ♪",
    "♪ la la", "(0.5)", "(.)", "((door opens))", "*laughs*", "[BLANK_AUDIO]", "【拍手】", "(笑)", "{noise}",
    "<|endoftext|>", "(Bats Screeching)",
]  # fmt: skip


@pytest.mark.parametrize("sound", NO_SPEECH)
@pytest.mark.parametrize("form", ["{}", "- {}", "{}."])
def test_what_is_not_speech_is_an_event_with_the_time_of_its_caption(tmp_path: Path, sound: str, form: str) -> None:
    transcript = captions(tmp_path, ["Hello.", form.format(sound), "Yes."], "t.srt")
    assert [word.text for word in transcript.words()] == ["Hello.", "Yes."]
    assert [text for _, text in said(transcript)] == ["Hello.", "Yes."]
    assert [(start, end) for _, start, end in events(transcript)] == [(2.0, 2.9)]


@pytest.mark.parametrize("sound", [each for each in NO_SPEECH if each not in ("(Bats Screeching)", "♪ la la")])
def test_a_sound_within_a_caption_lies_between_its_words(tmp_path: Path, sound: str) -> None:
    transcript = captions(tmp_path, [f"Well, {sound} I do."])
    assert [word.text for word in transcript.words()] == ["Well,", "I", "do."]
    assert said(transcript) == [("", "Well, I do.")]
    ((text, start, end),) = events(transcript)
    assert text == sound
    well, i, _ = words(transcript)
    assert well[2] == start < end == i[1]


def test_singing_that_goes_over_lines_is_one_event(tmp_path: Path) -> None:
    transcript = captions(tmp_path, ["♪ la la la\nla la ♪", "She said: ♪ la ♪ and left"])
    assert [text for text, _, _ in events(transcript)] == ["♪ la la la la la ♪", "♪ la ♪"]
    assert said(transcript) == [("", "She said: and left")]


def test_parentheses_that_may_be_speech_stay_and_are_counted(tmp_path: Path) -> None:
    transcript = captions(tmp_path, ["I went (you know) home", "f(x) is (of course) fine", "*really* f***"])
    assert len(transcript.words()) == 5 + 5 + 2
    assert transcript.events == ()
    (remark,) = transcript.remarks
    assert remark.startswith("3 parentheses")
    assert "know" not in remark


@pytest.mark.parametrize(
    "said_in_it",
    [
        "so to speak", "strictly speaking", "we took a ride", "I love music", "foreign policy", "do you sing", "2012",
        "555", "1990s",
    ],
)  # fmt: skip
def test_parentheses_with_speech_are_words_although_a_sound_is_named_in_it(tmp_path: Path, said_in_it: str) -> None:
    transcript = captions(tmp_path, [f"It was ({said_in_it}) fine"])
    assert said(transcript) == [("", f"It was ({said_in_it}) fine")]
    assert transcript.events == ()
    assert [remark.split()[0] for remark in transcript.remarks] == ["1"]


@pytest.mark.parametrize("sound", ["speaks French", "speaking foreign language", "he laughs", "foreign speech", "2 s"])
def test_parentheses_with_a_sound_or_a_pause_are_events(tmp_path: Path, sound: str) -> None:
    transcript = captions(tmp_path, [f"It was ({sound}) fine"])
    assert [event.text for event in transcript.events] == [f"({sound})"]
    assert said(transcript) == [("", "It was fine")]


@pytest.mark.parametrize(
    ("cue", "parts"),
    [
        ("- Hello.\n- Hi you.", ["Hello.", "Hi you."]),
        ("-Hello.\n-Hi you.", ["Hello.", "Hi you."]),
        ("– Hello.\n– Hi you.", ["Hello.", "Hi you."]),
        (">> Hello.\n>> Hi you.", ["Hello.", "Hi you."]),
        ("- Hello. - Hi you.", ["Hello.", "Hi you."]),
        ("Hello.\n- Hi you.", ["Hello.", "Hi you."]),
        ("- Hello, it\nis me.\n- Hi you.", ["Hello, it is me.", "Hi you."]),
        ("- Hello\nyou.", ["Hello you."]),
        ("well - you know -\nit is", ["well - you know - it is"]),
        ("-5 degrees", ["-5 degrees"]),
    ],
)
def test_a_dash_before_each_of_two_speakers_is_no_word_and_parts_them(
    tmp_path: Path, cue: str, parts: list[str]
) -> None:
    transcript = captions(tmp_path, [cue, "so", "it", "is"], "t.srt")
    assert [text for _, text in said(transcript)][: len(parts)] == parts
    assert not {"-", "–", ">>"} & {word.text for word in transcript.words()}


@pytest.mark.parametrize("mark", ["-", "…", "?", "«", "–", "♪", "..."])
def test_punctuation_alone_is_no_word(tmp_path: Path, mark: str) -> None:
    transcript = captions(tmp_path, [f"Quoi {mark} non"])
    assert [word.text for word in transcript.words()] == ["Quoi", "non"]
    assert [word.text for word in captions(tmp_path, ["50 % & more"]).words()] == ["50", "%", "&", "more"]


def test_sounds_among_words_with_times_are_events_with_these_times(tmp_path: Path) -> None:
    listed = [("So,", 0, 1), ("(clears", 1, 2), ("throat)", 2, 3), ("yes", 3, 4), ("[laughs].", 4, 5), ("-", 5, 6)]
    spoken = [{"word": word, "start_s": start, "end_s": end} for word, start, end in listed]
    own = {"start_s": 0, "end_s": 6, "text": "So, (clears throat) yes [laughs]. -", "words": spoken}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"utterances": [own]}))
    transcript = read_transcript(path)
    assert words(transcript) == [("So,", 0, 1), ("yes", 3, 4)]
    assert events(transcript) == [("(clears throat)", 1, 3), ("[laughs]", 4, 5)]
    assert all(word.timed for word in transcript.words())


TEXT = st.text(st.sampled_from("ab (){}[]♪-*.,\n<>:0é笑"), max_size=30)


@given(st.lists(TEXT, min_size=1, max_size=5), st.sampled_from(["t.vtt", "t.srt"]))
def test_no_text_ends_in_another_error_and_no_word_is_only_marks(
    tmp_path_factory: pytest.TempPathFactory, cues: list[str], name: str
) -> None:
    try:
        transcript = captions(tmp_path_factory.getbasetemp(), cues, name, allow_malformed=True)
    except TranscriptError:
        return
    assert all(set(word.text) - set("(){}[]♪-*.,:") for word in transcript.words())
    assert all(0 <= event.start_s <= event.end_s for event in transcript.events)
