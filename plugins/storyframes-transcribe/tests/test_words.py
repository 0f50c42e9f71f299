"""Words are whole in every language, before anything is stored."""

from __future__ import annotations

import pytest
from storyframes_transcribe.words import HeardWord, join_pieces, text_of

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
