"""What in a transcript is not speech: sounds in brackets, music signs, marks of recognisers, and punctuation alone.

Square brackets never hold what somebody said: they hold sounds, notes and names. Parentheses may, so they do not where
a whole utterance is in them, where they hold a known sound or a pause, or are doubled; all others stay text. What is
between two music signs is sung, not said.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

MUSIC = "♪♫♬♩🎵🎶"
_SPOKEN_MARKS = "%&@#§°"  # punctuation that is read aloud
_BRACKETS = re.compile(r"\[[^\[\]]*\]|［[^［］]*］|【[^【】]*】|\{[^{}]*\}|\(\([^()]*\)\)|<\|[^<>|]*\|>|<unk>")
_PARENTHESES = re.compile(r"[(（]([^()（）]*)[)）]")
_ASTERISKS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]{1,60})(?<=[^\s*])\*(?![\w*])")
_PAUSE = re.compile(r"\s*(?:[.,\s]*|\d{0,2}(?:[.,]\d*)?)\s*s?\s*")  # (.), (0.5), (2 s), but not (2012) or (555)
_SAID = re.compile(  # although a sound is named: (so to speak), (strictly speaking), (we took a ride), (foreign policy)
    r"\b(?:(?-i:I)|you|we|my|our|your)\b|\bspeak\b|ly\s+speaking\b|\bforeign\s+(?!lang|speech)\w", re.IGNORECASE
)
_MUSIC_SIGNS = re.compile(rf"[{MUSIC}]+(?:\s+[{MUSIC}]+)*")
_MOST_WORDS = 5  # of a sound within what is said
_SOUNDS = re.compile(
    r"\b(?:(?:laugh|chuckl|giggl|sigh|cough|cr(?:y|i)|sob|sniff|gasp|groan|moan|grunt|scream|whisper|mumbl|murmur|"
    r"inhal|exhal|breath|paus|applau|clap|cheer|ring|knock|hum|whistl|yawn|snor|sneez|beep|sing|speak|overlap)"
    r"(?:e|s|es|d|ed|ing|bing|ping|ming|ter|se|sing|ling)?|clear\w* (?:\w+ )?throat|silence|silent|music|noise|"
    r"inaudible|unintelligible|indistinct|unclear|cross-?talk|footsteps|static|foreign|blank[_ ]audio|"
    r"lacht|lachen|lachend|gelächter|seufzt|seufzen|hustet|husten|musik|applaus|unverständlich|schweigen|weint|"  # de
    r"rires?|rit|rient|soupirs?|soupire|tousse|musique|applaudissements|pleure|"  # fr
    r"risas?|ríen?|suspiros?|suspira|tose|música|aplausos|ininteligible|llora|"  # es
    r"risate|ride|ridono|sospira|tossisce|musica|applausi|incomprensibile|"  # it
    r"risos|ri|tosse|gelach|zucht|muziek|hoest|"  # pt, nl
    r"смех|смеется|смеётся|музыка|аплодисменты|вздох|вздыхает|кашель)\b|笑|音楽|拍手|音乐|掌声|音樂|웃음|음악|박수",
    re.IGNORECASE,
)


def is_sound(text: str) -> bool:
    """Whether the text in brackets names a known sound.

    Example:
        >>> is_sound("Laughter"), is_sound("clears her throat"), is_sound("Anna")
        (True, True, False)
    """
    return _SOUNDS.search(text) is not None


def find_non_speech(text: str) -> list[tuple[int, int]]:
    """The stretches of an utterance that are not speech, in order and apart.

    Example:
        >>> text = "Well (sighs) I [laughter] do (you know)"
        >>> [text[start:end] for start, end in find_non_speech(text)]
        ['(sighs)', '[laughter]']
    """
    spans = [match.span() for match in _BRACKETS.finditer(text)]
    spans += [match.span() for match in _PARENTHESES.finditer(text) if _is_no_speech(text, match)]
    spans += [match.span() for match in _ASTERISKS.finditer(text) if is_sound(match.group(1))]
    merged: list[tuple[int, int]] = []
    for start, end in sorted([*spans, *_music(text)]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def count_doubtful(text: str) -> int:
    """How many parentheses stay text although they may hold something else."""
    return sum(not _is_no_speech(text, match) for match in _PARENTHESES.finditer(text))


def _is_no_speech(text: str, parentheses: re.Match[str]) -> bool:
    """Whether these parentheses hold no speech."""
    within = parentheses.group(1)
    if not any(map(is_word, (text[: parentheses.start()] + text[parentheses.end() :]).split())):
        return True
    is_short_sound = is_sound(within) and len(within.split()) <= _MOST_WORDS and not _SAID.search(within)
    return is_short_sound or bool(_PAUSE.fullmatch(within))


def _music(text: str) -> Iterator[tuple[int, int]]:
    """What is sung: from a sign to the next; from a first sign to the end, and from the beginning to a last sign."""
    signs = [match.span() for match in _MUSIC_SIGNS.finditer(text)]
    while signs:
        start, end = signs.pop(0)
        if signs:
            end = signs.pop(0)[1]
        elif not any(map(is_word, text[:start].split())):
            end = len(text)
        elif not any(map(is_word, text[end:].split())):
            start = 0
        yield start, end


def without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text without these stretches; unchanged without any."""
    if not spans:
        return text
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    return " ".join(" ".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)).split())


def words_and_sounds(text: str) -> list[str]:
    """The words of a text, and apart from them the words of what is not speech; punctuation between them is left out.

    Example:
        >>> words_and_sounds("Well - [laughs out loud]. yes")
        ['Well', '[laughs', 'out', 'loud]', 'yes']
    """
    tokens: list[str] = []
    end = 0
    for first, last in [*find_non_speech(text), (len(text), len(text))]:
        tokens += [token for token in text[end:first].split() if is_word(token)]
        tokens += text[first:last].split()
        end = last
    return tokens


def is_word(token: str) -> bool:
    """Whether a token is more than punctuation and music signs; signs that are read aloud are words.

    Example:
        >>> [token for token in ("yes", "-", "…", "%", "♪", "?!") if is_word(token)]
        ['yes', '%']
    """
    return any(
        character in _SPOKEN_MARKS
        or not (character in MUSIC or character.isspace() or unicodedata.category(character)[0] in "PC")
        for character in token
    )
