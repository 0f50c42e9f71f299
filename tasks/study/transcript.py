"""Transcripts: what was said, by whom and when, from the formats that speech recognisers write.

The formats are the study's own JSON, AssemblyAI JSON, WhisperX JSON, WebVTT and SRT. No error message quotes the
transcript: recordings are intimate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from storyframes.store.layout import ID_PATTERN
from tasks.study.captions import Captions, CaptionsError, read_captions
from tasks.study.rows import spoken_name

_RULE = "a time is finite, not negative, and in order"
_ROUNDING_S = 0.1  # recognisers round the times of words and of utterances separately
_NAMED = 5  # faults that an error lists
_MADE_BY = "storyframes-transcribe"  # its speakers with a person_id are roles or ids


class TranscriptError(Exception):
    """The transcript cannot be read; the message names the file, the place and the rule."""


@dataclass(frozen=True)
class Word:
    """One word; times in seconds of the recording. ``timed`` is False where they were interpolated.

    ``confidence`` is the recogniser's own, from 0 to 1; NaN where it gives none.
    """

    text: str
    start_s: float
    end_s: float
    timed: bool = True
    confidence: float = math.nan


@dataclass(frozen=True)
class Utterance:
    """What one speaker said in one go; times in seconds of the recording."""

    speaker: str
    start_s: float
    end_s: float
    text: str
    words: tuple[Word, ...]
    is_pseudonym: bool = False  # the speaker is a role or an id of the study, no name


@dataclass(frozen=True)
class Transcript:
    """The utterances of a session in the order of their start."""

    utterances: tuple[Utterance, ...]  # what was said
    # utterances left out and times interpolated because of a fault, each with its place in the file
    malformed: tuple[str, ...] = ()
    # captions that may begin with a speaker's name, or that have no speaker where others do
    uncertain_speakers: int = 0
    # a confidence is no number from 0 to 1 (a percentage, a log probability), so no word has one
    unknown_confidences: bool = False

    @property
    def end_s(self) -> float:
        """When the last utterance ends, seconds; 0 where nothing is said."""
        return max((utterance.end_s for utterance in self.utterances), default=0.0)

    @property
    def pseudonyms(self) -> dict[str, str]:
        """Speakers that are no names, by :func:`~tasks.study.rows.spoken_name`."""
        return {spoken_name(each.speaker): each.speaker for each in self.utterances if each.is_pseudonym}

    def words(self) -> list[Word]:
        """All words in the order of their start."""
        return [word for word, _ in self._in_order()]

    def utterances_of_words(self) -> list[int]:
        """For each of :meth:`words`, the number of its utterance."""
        return [number for _, number in self._in_order()]

    def _in_order(self) -> list[tuple[Word, int]]:
        words = [(word, number) for number, utterance in enumerate(self.utterances) for word in utterance.words]
        return sorted(words, key=lambda pair: pair[0].start_s)


def read_transcript(path: Path, *, allow_malformed: bool = False, speaker_prefixes: bool | None = None) -> Transcript:
    """The transcript at ``path``: ``.json``, whose keys say the format, ``.vtt`` or ``.srt``.

    Args:
        allow_malformed: read what can be read. An utterance without valid times is left out; a word's times are
            interpolated where they are invalid, outside its utterance, or an end without a start.
        speaker_prefixes: of captions, whether "Name: " at the beginning of a cue is its speaker and no text; None
            decides by the whole file (see :mod:`tasks.study.captions`).

    Raises:
        TranscriptError: the format is unknown, the file damaged, or (unless ``allow_malformed``) a part malformed.
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", ".vtt", ".srt"):
        raise TranscriptError(f"{path.name}: a transcript is .json, .vtt or .srt")
    faults: list[str] = []
    uncertain_speakers = 0
    try:
        if suffix == ".json":
            drafts = list(_read_json(path))
        else:
            captions = _read_captions(path, speaker_prefixes)
            faults += captions.faults
            uncertain_speakers = captions.uncertain_speakers
            drafts = [
                _Draft(speaker=cue.speaker, start_s=cue.start_s, end_s=cue.end_s, text=cue.text)
                for cue in captions.cues
            ]
    except OSError as error:
        raise TranscriptError(f"{path.name}: cannot be read: {error.strerror}") from None
    unknown_confidences = _drop_unknown_confidences(drafts)
    finished = [_finish(draft, number, faults) for number, draft in enumerate(drafts, start=1)]
    if faults and not allow_malformed:
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise TranscriptError(
            f"{path.name}, {'; '.join(faults[:_NAMED])}{more}: correct the file, or set [transcript] "
            "allow_malformed_cues = true to leave out what cannot be read"
        )
    utterances = sorted(filter(None, finished), key=lambda utterance: utterance.start_s)
    return Transcript(tuple(utterances), tuple(faults), uncertain_speakers, unknown_confidences)


# --- a draft: an utterance as read, before its times are checked and those of its words interpolated ------------------


def _from_0_to_1(value: Any) -> float:
    """A confidence as a number; NaN where there is none, infinite where it is anything but a number from 0 to 1."""
    if value is None or value != value:  # only NaN is not equal to itself
        return math.nan
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else math.inf


_Confidence = Annotated[float, BeforeValidator(_from_0_to_1)]


class _DraftWord(BaseModel):
    word: str
    start_s: float | None = None
    end_s: float | None = None
    confidence: _Confidence = math.nan


class _Draft(BaseModel):
    """As the study's own JSON has it."""

    speaker: str | None = None
    person_id: Any = None  # of the table of persons
    start_s: float
    end_s: float
    text: str
    words: list[_DraftWord] | None = None


def _drop_unknown_confidences(drafts: Sequence[_Draft]) -> bool:
    """Leave no word a confidence where any is on another scale: 0.9 may be 0.9 % then. Says whether that was so."""
    words = [word for draft in drafts for word in draft.words or ()]
    are_unknown = any(math.isinf(word.confidence) for word in words)
    for word in words if are_unknown else ():
        word.confidence = math.nan
    return are_unknown


def _finish(draft: _Draft, number: int, faults: list[str]) -> Utterance | None:
    """The utterance with times for all its words; None where its own are invalid. Faults are added to ``faults``."""
    where = f"utterance {number}"
    if not _are_times(draft.start_s, draft.end_s):
        faults.append(f"{where}: runs from {draft.start_s} s to {draft.end_s} s; {_RULE}")
        return None
    words = [
        _checked(word, draft, f"{where}, word {position}", faults)
        for position, word in enumerate(draft.words or (), start=1)
    ] or [_DraftWord(word=text) for text in draft.text.split()]
    speaker = draft.speaker or ""
    is_pseudonym = bool(draft.person_id and ID_PATTERN.fullmatch(speaker))
    timed = tuple(_time_words(words, draft))
    return Utterance(speaker, draft.start_s, draft.end_s, draft.text, timed, is_pseudonym)


def _are_times(start_s: float, end_s: float) -> bool:
    return math.isfinite(start_s) and math.isfinite(end_s) and 0 <= start_s <= end_s


def _checked(word: _DraftWord, utterance: _Draft, where: str, faults: list[str]) -> _DraftWord:
    """The word, without its times where they are invalid. A start alone is valid: WhisperX writes numbers so."""
    if word.start_s is None and word.end_s is None:
        return word
    if word.start_s is None:
        faults.append(f"{where}: has an end, {word.end_s} s, but no start")
        return _DraftWord(word=word.word, confidence=word.confidence)
    end_s = word.start_s if word.end_s is None else word.end_s
    if not _are_times(word.start_s, end_s):
        faults.append(f"{where}: runs from {word.start_s} s to {word.end_s} s; {_RULE}")
    elif word.start_s < utterance.start_s - _ROUNDING_S or end_s > utterance.end_s + _ROUNDING_S:
        faults.append(
            f"{where}: runs from {word.start_s} s to {end_s} s, beyond its utterance from {utterance.start_s} s to "
            f"{utterance.end_s} s"
        )
    else:
        return word
    return _DraftWord(word=word.word, confidence=word.confidence)


def _time_words(words: Sequence[_DraftWord], draft: _Draft) -> Iterator[Word]:
    """Words with times keep them; consecutive words without times share the gap between their neighbours by length.

    A word with a start alone begins such a gap, and keeps its start.
    """
    position = 0
    clock = draft.start_s
    while position < len(words):
        word = words[position]
        if word.start_s is not None and word.end_s is not None:
            yield Word(word.word, word.start_s, word.end_s, confidence=word.confidence)
            clock = word.end_s
            position += 1
            continue
        if word.start_s is not None:
            clock = word.start_s
        stop = position + 1
        while stop < len(words) and words[stop].start_s is None:
            stop += 1
        following = words[stop].start_s if stop < len(words) else None
        end_s = max(clock, draft.end_s if following is None else following)
        yield from _spread(words[position:stop], clock, end_s)
        clock, position = end_s, stop


def _spread(words: Sequence[_DraftWord], start_s: float, end_s: float) -> Iterator[Word]:
    lengths = [max(len(word.word), 1) for word in words]
    per_character = (end_s - start_s) / sum(lengths)
    for word, length in zip(words, lengths, strict=True):
        yield Word(word.word, start_s, start_s + per_character * length, timed=False, confidence=word.confidence)
        start_s += per_character * length


# --- JSON ------------------------------------------------------------------------------------------------------------


class _Own(BaseModel):
    """The study's own format: utterances with speaker, start_s, end_s, text and, optionally, words with times and
    confidences.
    """

    utterances: list[_Draft]
    provenance: Any = None

    def drafts(self) -> Iterable[_Draft]:
        is_made = isinstance(self.provenance, dict) and str(self.provenance.get("made_by")).startswith(_MADE_BY)
        for utterance in self.utterances if not is_made else ():
            utterance.person_id = None  # anybody who wrote the file may call the speaker by name
        return self.utterances


class _AssemblyWord(BaseModel):
    text: str
    start: int
    end: int
    speaker: str | None = None
    confidence: _Confidence = math.nan

    def draft(self) -> _DraftWord:
        start_s, end_s = self.start / 1000, self.end / 1000
        return _DraftWord(word=self.text, start_s=start_s, end_s=end_s, confidence=self.confidence)


class _AssemblyUtterance(BaseModel):
    speaker: str | None = None
    start: int
    end: int
    text: str
    words: list[_AssemblyWord] | None = None

    def draft(self) -> _Draft:
        words = [word.draft() for word in self.words or ()]
        start_s, end_s = self.start / 1000, self.end / 1000
        return _Draft(speaker=self.speaker, start_s=start_s, end_s=end_s, text=self.text, words=words)


class _Assembly(BaseModel):
    """AssemblyAI's transcript object: times in milliseconds; ``utterances`` is null without speaker labels."""

    utterances: list[_AssemblyUtterance] | None = None
    words: list[_AssemblyWord] | None = None

    def drafts(self) -> Iterator[_Draft]:
        utterances = self._sentences() if self.utterances is None else self.utterances
        return (utterance.draft() for utterance in utterances)

    def _sentences(self) -> Iterator[_AssemblyUtterance]:
        sentence: list[_AssemblyWord] = []
        for word in self.words or ():
            sentence.append(word)
            if word.text.endswith((".", "?", "!")):
                yield self._sentence(sentence)
                sentence = []
        if sentence:
            yield self._sentence(sentence)

    @staticmethod
    def _sentence(words: list[_AssemblyWord]) -> _AssemblyUtterance:
        text, first = " ".join(word.text for word in words), words[0]
        return _AssemblyUtterance(speaker=first.speaker, start=first.start, end=words[-1].end, text=text, words=words)


class _WhisperWord(BaseModel):
    word: str
    start: float | None = None
    end: float | None = None
    # WhisperX writes "score", Whisper itself "probability"
    confidence: _Confidence = Field(default=math.nan, validation_alias=AliasChoices("score", "probability"))

    def draft(self) -> _DraftWord:
        return _DraftWord(word=self.word.strip(), start_s=self.start, end_s=self.end, confidence=self.confidence)


class _WhisperSegment(BaseModel):
    start: float
    end: float
    text: str
    speaker: str | None = None
    words: list[_WhisperWord] | None = None


class _Whisper(BaseModel):
    """WhisperX's result: segments; words have no times where the alignment model does not know their characters."""

    segments: list[_WhisperSegment]

    def drafts(self) -> Iterator[_Draft]:
        for segment in self.segments:
            words = [word.draft() for word in segment.words or ()]
            start_s, end_s, text = segment.start, segment.end, segment.text.strip()
            yield _Draft(speaker=segment.speaker, start_s=start_s, end_s=end_s, text=text, words=words)


def _read_json(path: Path) -> Iterable[_Draft]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise TranscriptError(f"{path.name}: is not JSON") from None
    model = _json_format(content)
    if model is None:
        raise TranscriptError(
            f"{path.name}: no known transcript: it has neither 'utterances' (own, AssemblyAI) nor 'segments' (WhisperX)"
        )
    try:
        return model.model_validate(content).drafts()
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise TranscriptError(f"{path.name}, {place}: {fault['msg']}") from None


def _json_format(content: Any) -> type[_Own] | type[_Assembly] | type[_Whisper] | None:
    if not isinstance(content, dict):
        return None
    if isinstance(content.get("segments"), list):
        return _Whisper
    utterances = content.get("utterances")
    if isinstance(utterances, list) and all(isinstance(it, dict) and "start_s" in it for it in utterances[:1]):
        return _Own
    if isinstance(utterances, list) or isinstance(content.get("words"), list):
        return _Assembly
    return None


def _read_captions(path: Path, speaker_prefixes: bool | None) -> Captions:
    try:
        return read_captions(path, speaker_prefixes)
    except CaptionsError as error:
        raise TranscriptError(f"{path.name}: is not a valid {path.suffix[1:]} file: {error}") from None
