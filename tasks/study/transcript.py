"""Transcripts: what was said, by whom and when, from the formats that speech recognisers write.

The formats are the study's own JSON, that of many programs (:mod:`tasks.study.transcript_formats`), WebVTT and SRT.
What is not speech ("[laughter]") is no word: it is an event of the transcript. No error message quotes the transcript:
recordings are intimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from storyframes.store.layout import ID_PATTERN
from tasks.study.captions import Captions, CaptionsError, Cue, read_captions
from tasks.study.problems import UnusableFileError
from tasks.study.rows import spoken_name
from tasks.study.transcript_formats.drafts import Draft, DraftWord, FormatError
from tasks.study.transcript_formats.json_formats import read_json
from tasks.study.transcript_formats.non_speech import (
    count_doubtful,
    find_non_speech,
    is_word,
    without,
    words_and_sounds,
)

_RULE = "a time is finite, not negative, and in order"
_ROUNDING_S = 0.1  # recognisers round the times of words and of utterances separately
_NAMED = 5  # faults that an error lists


class TranscriptError(UnusableFileError):
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
class Event:
    """What is heard or written and is not speech ("[laughter]"); times in seconds of the recording."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Transcript:
    """The utterances of a session in the order of their start."""

    utterances: tuple[Utterance, ...]  # what was said
    # utterances left out and times interpolated because of a fault, each with its place in the file
    malformed: tuple[str, ...] = ()
    # captions that may begin with a speaker's name, or that have no speaker where others do
    uncertain_speakers: int = 0
    # a confidence is not a number from 0 to 1 (a percentage, a log probability), so no word has one
    unknown_confidences: bool = False
    # laughter, music and the like, in the order of their start
    events: tuple[Event, ...] = ()
    # how the file was read, where that is not certain; they quote nothing
    remarks: tuple[str, ...] = ()
    # the recogniser was not sure in which language it was said
    guessed_language: bool = False
    # the speakers were told apart by voice, and it is doubtful which voice is whose
    doubtful_voices: bool = False

    @property
    def end_s(self) -> float:
        """When the last utterance ends, seconds; 0 where nothing is said."""
        return max((utterance.end_s for utterance in self.utterances), default=0.0)

    @property
    def pseudonyms(self) -> dict[str, str]:
        """Speakers that are no names, by :func:`~tasks.study.rows.spoken_name`."""
        return {
            spoken_name(utterance.speaker): utterance.speaker for utterance in self.utterances if utterance.is_pseudonym
        }

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
    captions = Captions((), ())
    try:
        if suffix == ".json":
            drafts = read_json(path)
        else:
            captions = read_captions(path, speaker_prefixes)
            drafts = [_draft_of_cue(cue) for cue in captions.cues]
    except OSError as error:
        raise TranscriptError(f"{path.name}: cannot be read: {error.strerror}") from None
    except FormatError as error:
        raise TranscriptError(f"{path.name}: {error}") from None
    except CaptionsError as error:
        raise TranscriptError(f"{path.name}: is not a valid {path.suffix[1:]} file: {error}") from None
    faults = list(captions.faults)
    events: list[Event] = []
    unknown_confidences = _drop_unknown_confidences(drafts)
    finished = [_finish(draft, number, faults, events) for number, draft in enumerate(drafts, start=1)]
    if faults and not allow_malformed:
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise TranscriptError(
            f"{path.name}, {'; '.join(faults[:_NAMED])}{more}: correct the file, or set [transcript] "
            "allow_malformed_cues = true to leave out what cannot be read"
        )
    return Transcript(
        tuple(sorted(filter(None, finished), key=lambda utterance: utterance.start_s)),
        tuple(faults),
        captions.uncertain_speakers,
        unknown_confidences,
        tuple(sorted(events, key=lambda event: event.start_s)),
        (*captions.remarks, *_remarks(drafts)),
        any(draft.in_guessed_language for draft in drafts),
        any(draft.has_doubtful_voice for draft in drafts),
    )


def _draft_of_cue(cue: Cue) -> Draft:
    words = [DraftWord(word=text, start_s=start_s, end_s=end_s) for text, start_s, end_s in cue.words]
    return Draft(speaker=cue.speaker, start_s=cue.start_s, end_s=cue.end_s, text=cue.text, words=words)


def _remarks(drafts: Sequence[Draft]) -> Iterator[str]:
    if doubtful := sum(count_doubtful(draft.text) for draft in drafts):
        yield (
            f"{doubtful} parentheses are read as what was said: put what is no speech, as a sound or a note, into "
            "square brackets"
        )


# --- from drafts to utterances: times are checked, and those of words interpolated ----------------------------------


def _drop_unknown_confidences(drafts: Sequence[Draft]) -> bool:
    """Leave no word a confidence where any is on another scale: 0.9 may be 0.9 % then. Says whether that was so."""
    words = [word for draft in drafts for word in draft.words or ()]
    are_unknown = any(math.isinf(word.confidence) for word in words)
    for word in words if are_unknown else ():
        word.confidence = math.nan
    return are_unknown


def _finish(draft: Draft, number: int, faults: list[str], events: list[Event]) -> Utterance | None:
    """The utterance with times for all its words; None where its own are invalid, or nothing in it is speech.

    Faults are added to ``faults``, and what is not speech to ``events``.
    """
    where = f"utterance {number}"
    if not _are_times(draft.start_s, draft.end_s):
        faults.append(f"{where}: runs from {draft.start_s} s to {draft.end_s} s; {_RULE}")
        return None
    written = [
        _checked(word, draft, f"{where}, word {position}", faults)
        for position, word in enumerate(draft.words or (), start=1)
    ] or [DraftWord(word=text) for text in words_and_sounds(draft.text)]
    words, sounds = _without_non_speech(list(_time_words(written, draft)))
    spans = find_non_speech(draft.text)
    if spans and not sounds:
        sounds = [Event(draft.text[start:end], draft.start_s, draft.end_s) for start, end in spans]
    events += sounds
    text = without(draft.text, spans)
    if sounds and not words and not any(map(is_word, text.split())):
        return None
    speaker = draft.speaker or ""
    is_pseudonym = bool(draft.person_id and ID_PATTERN.fullmatch(speaker))
    return Utterance(speaker, draft.start_s, draft.end_s, text, tuple(words), is_pseudonym)


def _without_non_speech(words: Sequence[Word]) -> tuple[list[Word], list[Event]]:
    """The words that are speech, and what is not, with its time; a sound may be as many words as its name has."""
    spoken: list[Word] = []
    text = " ".join(word.text for word in words)
    spans = find_non_speech(text)
    of_spans: list[list[Word]] = [[] for _ in spans]
    first = 0
    for word in words:
        last = first + len(word.text)
        within = [number for number, (start, end) in enumerate(spans) if start < last and first < end]
        for number in within:
            of_spans[number].append(word)
        cuts = [(max(spans[number][0], first) - first, min(spans[number][1], last) - first) for number in within]
        rest = without(word.text, cuts)
        if is_word(rest):
            spoken.append(replace(word, text=rest))
        first = last + 1
    events = [
        Event(text[start:end], words_of[0].start_s, max(word.end_s for word in words_of))
        for (start, end), words_of in zip(spans, of_spans, strict=True)
    ]
    return spoken, events


def _are_times(start_s: float, end_s: float) -> bool:
    return math.isfinite(start_s) and math.isfinite(end_s) and 0 <= start_s <= end_s


def _checked(word: DraftWord, utterance: Draft, where: str, faults: list[str]) -> DraftWord:
    """The word, without its times where they are invalid. A start alone is valid: WhisperX writes numbers so."""
    if word.start_s is None and word.end_s is None:
        return word
    if word.start_s is None:
        faults.append(f"{where}: has an end, {word.end_s} s, but no start")
        return DraftWord(word=word.word, confidence=word.confidence)
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
    return DraftWord(word=word.word, confidence=word.confidence)


def _time_words(words: Sequence[DraftWord], draft: Draft) -> Iterator[Word]:
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


def _spread(words: Sequence[DraftWord], start_s: float, end_s: float) -> Iterator[Word]:
    lengths = [max(len(word.word), 1) for word in words]
    per_character = (end_s - start_s) / sum(lengths)
    for word, length in zip(words, lengths, strict=True):
        yield Word(word.word, start_s, start_s + per_character * length, timed=False, confidence=word.confidence)
        start_s += per_character * length
