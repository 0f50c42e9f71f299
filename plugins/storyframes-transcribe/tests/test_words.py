"""Words are whole in every language, and begin and end with the voice; Whisper's own times stay beside."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from storyframes_transcribe.transcript_file import utterances
from storyframes_transcribe.words import HeardWord, join_pieces, snap, text_of

# Like all tests of the plug-in, which the short tier leaves out: it cannot be imported without.
pytestmark = pytest.mark.needs("faster_whisper")

# As Whisper's tokenizer divides them, with "|" between the pieces, and the words
PIECES = {
    "en": (" It| costs| $25|.50| and| is| well|-known|,| isn|'t| it|?", "It costs $25.50 and is well-known, isn't it?"),
    "fr": (" C|'est| long| qu|'il| vienne| aujourd|'hui|.", "C'est long qu'il vienne aujourd'hui."),
    "de": (" Das| ist| ein| E|-|Mail|-|Konto|,| 3|,5| GB|.", "Das ist ein E-Mail-Konto, 3,5 GB."),
    "it": (" L|'altro| giorno| dell|'anno|.", "L'altro giorno dell'anno."),
    "es": (" ¿Qué| hora| es|?| Son| las| 10|:30|.", "¿Qué hora es? Son las 10:30."),
    "ru": (" Кто|-то| из|-за| угла|.", "Кто-то из-за угла."),
    "ko": (" 오늘| 날씨가| 좋|네요|.", "오늘 날씨가 좋네요."),
}
UNSPACED = {
    "zh": ("今|天|天|气|很|好|，|我们|去|公|园|。", "今天天气很好，我们去公园。"),
    "ja": ("今日|は|天|気|で|す|。", "今日は天気です。"),
    "th": ("ว|ั|น|น|ี|้|อ|า|ก|า|ศ|ด|ี", "วันนี้อากาศดี"),
}


def pieces(text: str) -> list[HeardWord]:
    return [HeardWord(piece, 0.1 * n, 0.1 * (n + 1), 0.5 + 0.01 * n) for n, piece in enumerate(text.split("|"))]


@pytest.mark.parametrize("language", PIECES)
def test_pieces_of_a_word_are_joined(language: str) -> None:
    divided, text = PIECES[language]
    words = [*join_pieces(pieces(divided), language)]
    assert [word.text for word in words] == text.split()
    assert text_of([word.text for word in words]) == text


@pytest.mark.needs("budoux")
@pytest.mark.parametrize("language", UNSPACED)
def test_languages_without_spaces_are_divided_into_words(language: str) -> None:
    divided, text = UNSPACED[language]
    words = [word.text for word in join_pieces(pieces(divided), language)]
    assert text_of(words) == text
    assert 1 < len(words) < len(divided.split("|"))
    if language == "th":
        assert words == ["วัน", "นี้", "อากาศ", "ดี"]


def test_a_word_lasts_from_its_first_piece_to_its_last_with_one_confidence() -> None:
    heard = [HeardWord(" $25", 1.0, 1.2, 0.9), HeardWord(".50", 1.25, 1.45, 0.6), HeardWord(" or", 2.0, 2.2, 0.8)]
    price, other = join_pieces(heard, "en")
    assert (price.text, price.start_s, price.end_s) == ("$25.50", 1.0, pytest.approx(1.45))
    assert price.confidence == pytest.approx(0.75)
    assert (other.text, other.start_s, other.end_s) == ("or", 2.0, pytest.approx(2.2))
    assert other.confidence == pytest.approx(0.8)


@pytest.mark.needs("budoux")
def test_a_piece_of_two_words_is_divided_by_their_characters() -> None:
    words = [*join_pieces([HeardWord("今天天气", 1.0, 1.8, 0.5)], "zh")]
    assert [(word.text, word.start_s, word.end_s) for word in words] == [
        ("今天", 1.0, pytest.approx(1.4)),
        ("天气", pytest.approx(1.4), pytest.approx(1.8)),
    ]


def test_spaces_are_between_words_of_scripts_that_have_them() -> None:
    assert text_of(["我", "用", "iPhone", "拍照"]) == "我用 iPhone 拍照"
    assert text_of(["I", "love", "北京", "very", "much"]) == "I love 北京 very much"
    assert text_of(["很好", "，", "3", "月"]) == "很好，3月"


def times(words: list[tuple[float, float]], voice: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times of words that Whisper puts at these times."""
    heard = [HeardWord(f"word{n}", start_s, end_s, 0.9) for n, (start_s, end_s) in enumerate(words)]
    snapped = [*snap(heard, np.array(voice).reshape(-1, 2))]
    assert [word.text for word in snapped] == [word.text for word in heard]
    return [(round(word.start_s, 3), round(word.end_s, 3)) for word in snapped]


def test_the_first_word_begins_and_the_last_one_ends_with_the_voice() -> None:
    assert times([(0.0, 0.6), (0.6, 1.0), (1.0, 1.2)], [(0.33, 1.5)]) == [(0.33, 0.6), (0.6, 1.0), (1.0, 1.5)]


def test_a_word_after_a_pause_begins_after_it() -> None:
    whisper = [(0.1, 0.5), (0.5, 0.9), (0.9, 2.6), (2.6, 2.8)]
    assert times(whisper, [(0.2, 1.0), (2.2, 3.0)]) == [(0.2, 0.5), (0.5, 1.0), (2.2, 2.6), (2.6, 3.0)]


def test_single_words_that_begin_too_early_find_their_own_stretches() -> None:
    voice = [(1.0, 1.5), (2.5, 3.0), (3.5, 4.1), (6.0, 6.6)]
    assert times([(0.6, 1.2), (1.2, 2.7), (2.7, 3.7), (5.4, 5.9)], voice) == voice


def test_single_words_that_end_too_late_stay_in_their_stretches() -> None:
    voice = [(1.0, 1.6), (2.496, 3.0), (3.5, 4.1), (5.996, 6.56)]
    assert times([(1.0, 2.5), (2.5, 3.5), (3.5, 6.0), (6.0, 15.6)], voice) == voice


def test_a_silence_within_a_word_does_not_end_it() -> None:
    assert times([(0.4, 0.9)], [(0.5, 0.7), (0.85, 1.0)]) == [(0.5, 1.0)]


def test_voice_far_from_all_words_moves_none() -> None:
    assert times([(2.0, 2.4), (2.4, 3.0)], [(0.5, 5.0)]) == [(2.0, 2.4), (2.4, 3.0)]
    assert times([(1.0, 1.5)], []) == [(1.0, 1.5)]


def test_words_that_whisper_puts_into_the_silence_keep_their_order_within_the_voice() -> None:
    found = times([(0.0, 0.1), (0.1, 0.2), (0.2, 1.2)], [(1.0, 1.6)])
    assert (found[0][0], found[-1][1]) == (1.0, 1.6)
    assert all(start_s < end_s for start_s, end_s in found)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(found))


def test_whispers_own_times_stay_beside() -> None:
    (word,) = snap([HeardWord("word", 0.0, 0.9, 0.5)], np.array([[0.3, 1.0]]))
    assert (word.start_s, word.end_s, word.whisper_s) == (0.3, 1.0, (0.0, 0.9))


def test_an_utterance_ends_where_the_voice_pauses() -> None:
    heard = [HeardWord(text, at, at + 0.5, 0.9) for text, at in (("one", 0.5), ("two", 1.0), ("three", 1.5))]
    spoken = [*utterances([*snap(heard, np.array([[0.5, 1.4], [2.5, 3.0]]))], 1.0, None, None)]
    assert [(one.text, one.start_s, one.end_s) for one in spoken] == [("one two", 0.5, 1.4), ("three", 2.5, 3.0)]


@pytest.mark.parametrize(
    ("said", "texts"),
    [
        ("And Mr. Dashwood had leisure. He was Dr. Young", ["And Mr. Dashwood had leisure.", "He was Dr. Young"]),
        ("Hold on! Is M. Dupont there? No.", ["Hold on!", "Is M. Dupont there?", "No."]),
    ],
)
def test_a_title_does_not_end_an_utterance(said: str, texts: list[str]) -> None:
    words = [HeardWord(word, 0.3 * place, 0.3 * place + 0.25, 0.9) for place, word in enumerate(said.split())]
    assert [utterance.text for utterance in utterances(words, 1.0, None, None)] == texts
