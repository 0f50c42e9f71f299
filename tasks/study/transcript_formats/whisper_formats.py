"""JSON of programs around Whisper: OpenAI and servers like it, WhisperX, faster-whisper, whisper.cpp, Hugging Face."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from pydantic import AliasChoices, BaseModel, Field

from tasks.study.transcript_formats.drafts import (
    Confidence,
    Draft,
    DraftWord,
    FormatError,
    draft_of_words,
    joined_pieces,
    sentences_of,
    utterances_of,
    words_of_texts,
)

_SPECIAL_TOKEN = re.compile(r"\[_[A-Z]+_(?:\d+\])?\]?|<\|.*\|>")  # [_BEG_], [_TT_250]
_OVERLAP_S = 1.0  # parts of a recording overlap, and so may their chunks
_FEWEST_WORDS = 3  # of one text each, before texts are taken for words
_LONGEST_WORDS = 3.0  # letters on average, in scripts that have no spaces: longer texts are utterances
_UNSPACED = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff]")


class WhisperWord(BaseModel):
    """A word, or a piece of one."""

    word: str
    start: float | None = None
    end: float | None = None
    # WhisperX writes "score", Whisper itself "probability"
    confidence: Confidence = Field(default=math.nan, validation_alias=AliasChoices("score", "probability"))

    def draft(self) -> DraftWord:
        return DraftWord(word=self.word, start_s=self.start, end_s=self.end, confidence=self.confidence)


class WhisperSegment(BaseModel):
    """A segment."""

    start: float
    end: float
    text: str
    speaker: str | None = None
    words: list[WhisperWord] | None = None


class Whisper(BaseModel):
    """The result of Whisper, WhisperX, OpenAI's API and servers like it: segments, words beside them, or both.

    WhisperX's words have no times where the alignment model does not know their characters.
    """

    segments: list[WhisperSegment] | None = None
    words: list[WhisperWord] | None = None
    text: str | None = None

    def drafts(self) -> Iterator[Draft]:
        segments = self.segments or []
        if self.words and not any(segment.words for segment in segments):
            yield from _of_words(joined_pieces([word.draft() for word in self.words]), segments, self.text or "")
            return
        if not segments and (self.text or "").strip():
            raise FormatError("has a text, but neither segments nor words with times")
        pieces = [[word.draft() for word in segment.words or ()] for segment in segments]
        for segment, words in zip(segments, _joined_by_segment(pieces), strict=True):
            yield _of_segment(segment, words)


def _of_segment(segment: WhisperSegment, words: list[DraftWord]) -> Draft:
    start_s, end_s, text = segment.start, segment.end, segment.text.strip()
    return Draft(speaker=segment.speaker, start_s=start_s, end_s=end_s, text=text, words=words)


def _joined_by_segment(pieces: Sequence[Sequence[DraftWord]]) -> Iterator[list[DraftWord]]:
    """The joined pieces of each segment; whether pieces have leading spaces is seen of all of them."""
    if any(piece.word[:1].isspace() for of_segment in pieces for piece in of_segment):
        for of_segment in pieces:
            first = [of_segment[0].model_copy(update={"word": f" {of_segment[0].word}"})] if of_segment else []
            yield joined_pieces([*first, *of_segment[1:]])
    else:
        yield from map(joined_pieces, pieces)


def _of_words(words: list[DraftWord], segments: Sequence[WhisperSegment], text: str) -> Iterator[Draft]:
    """Utterances of words that are listed beside the segments, or without any: segments, else sentences of the text.

    Their times are those of the words, which are more exact.
    """
    if not segments:
        sentences = sentences_of(text)
        groups = words_of_texts(words, sentences)
        if groups is None:
            yield from utterances_of(words)
            return
        for sentence, group in zip(sentences, groups, strict=True):
            if group:
                yield draft_of_words(group, sentence)
        return
    of_segments = words_of_texts(words, [segment.text for segment in segments]) or _by_time(words, segments)
    for segment, group in zip(segments, of_segments, strict=True):
        if group:
            yield draft_of_words(group, segment.text.strip(), segment.speaker)
        else:
            yield _of_segment(segment, [])


def _by_time(words: Sequence[DraftWord], segments: Sequence[WhisperSegment]) -> list[list[DraftWord]]:
    """For each segment the words whose middle is in it, or nearest to it."""
    groups: list[list[DraftWord]] = [[] for _ in segments]
    for word in words:
        if word.start_s is None and word.end_s is None:
            raise FormatError("a word beside the segments has no times, and its letters are not those of the segments")
        middle = ((word.start_s or word.end_s or 0.0) + (word.end_s or word.start_s or 0.0)) / 2
        distance = [max(segment.start - middle, middle - segment.end) for segment in segments]
        groups[distance.index(min(distance))].append(word)
    return groups


# --- whisper.cpp -----------------------------------------------------------------------------------------------------


class _Offsets(BaseModel):
    """Milliseconds."""

    start: int = Field(validation_alias="from")
    end: int = Field(validation_alias="to")


class CppToken(BaseModel):
    """A token of ``--output-json-full``."""

    text: str
    offsets: _Offsets | None = None
    p: Confidence = math.nan

    def draft(self) -> DraftWord:
        start_s, end_s = (self.offsets.start / 1000, self.offsets.end / 1000) if self.offsets else (None, None)
        return DraftWord(word=self.text, start_s=start_s, end_s=end_s, confidence=self.p)


class CppSegment(BaseModel):
    """A segment; with ``--max-len 1`` a single word, or a piece of one."""

    text: str
    offsets: _Offsets
    speaker: str | None = None
    tokens: list[CppToken] | None = None


class WhisperCpp(BaseModel):
    """whisper.cpp's ``--output-json`` and ``--output-json-full``."""

    transcription: list[CppSegment]

    def drafts(self) -> Iterator[Draft]:
        if are_words([segment.text for segment in self.transcription]):
            pieces = [CppToken(text=piece.text, offsets=piece.offsets).draft() for piece in self.transcription]
            yield from utterances_of([_repaired(word) for word in joined_pieces(pieces)])
            return
        for segment in self.transcription:
            tokens = [token for token in segment.tokens or () if not _SPECIAL_TOKEN.fullmatch(token.text.strip())]
            words = [_repaired(word) for word in joined_pieces([token.draft() for token in tokens])]
            start_s, end_s = segment.offsets.start / 1000, segment.offsets.end / 1000
            speaker = segment.speaker if segment.speaker != "?" else None
            text = _whole_characters(segment.text).strip()
            yield Draft(speaker=speaker, start_s=start_s, end_s=end_s, text=text, words=words)


def _repaired(word: DraftWord) -> DraftWord:
    return word.model_copy(update={"word": _whole_characters(word.word)})


def _whole_characters(text: str) -> str:
    """The text of tokens that may have ended within a character, whose bytes were read as surrogates."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "ignore")


def are_words(texts: Sequence[str]) -> bool:
    """Whether each text is one word or a piece of one, so that they are words and no utterances."""
    if len(texts) < _FEWEST_WORDS or any(len(text.split()) > 1 for text in texts):
        return False
    lengths = [length for text in texts if (length := len(_UNSPACED.findall(text)))]
    return not lengths or sum(lengths) / len(lengths) <= _LONGEST_WORDS


# --- Hugging Face ----------------------------------------------------------------------------------------------------


class HuggingFaceChunk(BaseModel):
    """A chunk; the last one may have no end."""

    text: str
    timestamp: tuple[float | None, float | None]
    speaker: str | None = None


class HuggingFace(BaseModel):
    """A pipeline of Hugging Face: chunks that are words or stretches; insanely-fast-whisper adds those of speakers."""

    chunks: list[HuggingFaceChunk]
    speakers: list[HuggingFaceChunk] | None = None

    def drafts(self) -> Iterator[Draft]:
        chunks = self.speakers or self.chunks
        back = next(
            (
                number
                for number, (before, after) in enumerate(pairwise(chunk.timestamp for chunk in chunks), start=2)
                if after[0] is not None and before[1] is not None and after[0] < before[1] - _OVERLAP_S
            ),
            None,
        )
        if back and not self.speakers:
            raise FormatError(
                f"chunk {back} begins before the chunk before it ends: this pipeline counted time anew in each part of "
                "the recording. Transcribe it again with a newer version of transformers"
            )
        if not self.speakers and are_words([chunk.text for chunk in chunks]):
            pieces = [_chunk_word(chunk) for chunk in chunks]
            yield from utterances_of(joined_pieces(pieces))
            return
        for number, chunk in enumerate(chunks, start=1):
            start_s, end_s = chunk.timestamp
            if start_s is None or end_s is None:
                raise FormatError(
                    f"chunk {number} has no {'start' if start_s is None else 'end'}: write the second at which it "
                    f"{'starts' if start_s is None else 'ends'} into its 'timestamp'"
                )
            yield Draft(speaker=chunk.speaker, start_s=start_s, end_s=end_s, text=chunk.text.strip())


def _chunk_word(chunk: HuggingFaceChunk) -> DraftWord:
    start_s, end_s = chunk.timestamp
    return DraftWord(word=chunk.text, start_s=start_s, end_s=end_s)


def is_segment(item: Any) -> bool:
    """Whether it is a segment of faster-whisper, which has no document around its list of segments."""
    return isinstance(item, dict) and {"start", "end", "text"} <= item.keys()
