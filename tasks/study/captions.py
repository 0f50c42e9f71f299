"""WebVTT and SRT, read strictly: a cue with invalid times is reported with its line, and never silently left out.

A line with ``-->`` is taken for a cue's times, and so is a line of two times with another sign between them. No message
quotes a line: captions are what somebody said.

Zoom, Otter and many editors write the speaker into the text: "Anna Kowalski: …". A colon is also part of what people
say ("The point is: …"), so the whole file decides: the beginning of a cue is its speaker where the same few names begin
most cues, or take turns. A beginning that may be a name but is not certain stays text, and is counted.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path


class CaptionsError(Exception):
    """The file is not WebVTT, or not SRT; the message says why, without the file's name."""


@dataclass(frozen=True)
class Cue:
    """The words of one speaker in one caption; a caption of several speakers is several cues with the same times."""

    # start_s, end_s: seconds
    start_s: float
    end_s: float
    lines: tuple[str, ...]  # the text, without tags, none of them empty
    speaker: str  # of WebVTT's voice span or of a prefix ("Anna: …"); empty without both

    @property
    def text(self) -> str:
        return " ".join(self.lines)


@dataclass(frozen=True)
class Captions:
    """The content of a file of captions."""

    cues: tuple[Cue, ...]  # those with a text, in the file's order
    faults: tuple[str, ...]  # the parts that could not be read, each with its line
    uncertain_speakers: int = 0  # cues that may begin with a speaker's name, or that have no speaker where others do


_TIME = r"(?:(\d+):)?([0-5]\d):([0-5]\d)"
_VTT = re.compile(rf"\s*{_TIME}\.(\d{{3}})\s+-->\s+{_TIME}\.(\d{{3}})(?:\s.*)?")
_SRT = re.compile(rf"\s*{_TIME}[,.](\d{{3}})\s*-->\s*{_TIME}[,.](\d{{3}})(?:\s.*)?")
_LIKE_TIME = r"\d+:\d+(?::\d+[.,]?\d*|[.,]\d+)"
_LIKE_TIMES = re.compile(rf".*-->.*|\s*{_LIKE_TIME}\s*[^\w\s]{{0,5}}\s*{_LIKE_TIME}\s*")
_TAG = re.compile(r"</?[A-Za-z0-9][^<>]*>|\{\\[^{}]*\}")  # <i>, <v Anna>, <00:01.000>, {\an8}
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_BEFORE_VOICE = re.compile(r"(?=<v[.\s])")
_NO_CUE = re.compile(r"(NOTE|STYLE|REGION)(\s.*)?")


def read_captions(path: Path, speaker_prefixes: bool | None = None) -> Captions:
    """The captions at ``path``; WebVTT where its name ends with ``.vtt``, else SRT.

    Args:
        speaker_prefixes: whether "Name: " at the beginning of a cue is its speaker; None decides by the whole file.

    Raises:
        CaptionsError: it is not UTF-8, has another format, or has no cue that can be read.
        OSError: it cannot be read.
    """
    is_vtt = path.suffix.lower() == ".vtt"
    try:
        lines = re.split(r"\r\n|\r|\n", path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise CaptionsError("it is not UTF-8") from None
    if is_vtt and not re.fullmatch(r"WEBVTT([ \t].*)?", lines[0]):
        raise CaptionsError("its first line is not WEBVTT")
    cues: list[Cue] = []
    faults: list[str] = []
    for number, block in _blocks(lines, 1 if is_vtt else 0):
        if is_vtt and (_NO_CUE.fullmatch(block[0]) or _is_header(number, block)):
            continue
        for cue in _read_block(number, block, is_vtt):
            if isinstance(cue, str):
                faults.append(cue)
            elif cue.lines:
                cues.append(cue)
    if not cues and (faults or not is_vtt):
        raise CaptionsError("not one cue has times like " + _example(is_vtt))
    prefixes = find_prefixes([cue.lines[0] for cue in cues if not cue.speaker], speaker_prefixes)
    named = tuple(part for cue in cues for part in _by_prefix(cue, prefixes))
    return Captions(named, tuple(faults), prefixes.uncertain)


def _by_prefix(cue: Cue, prefixes: Prefixes) -> Iterator[Cue]:
    """The cue's parts, each with the speaker of its prefix, without the prefix; the cue unchanged without prefixes."""
    if cue.speaker:
        yield cue
        return
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in cue.lines:
        speaker, text = prefixes.split(line)
        if speaker:
            parts.append((speaker, []))
        parts[-1][1].append(text)
    for speaker, lines in parts:
        if any(lines):
            yield replace(cue, lines=tuple(line for line in lines if line), speaker=speaker)


def _blocks(lines: Sequence[str], first: int) -> Iterator[tuple[int, list[str]]]:
    """The blocks between empty lines, each with the number of its first line."""
    block: list[str] = []
    for number, line in enumerate([*lines[first:], ""], start=first + 1):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []


def _is_header(number: int, block: list[str]) -> bool:
    """Whether the block is WebVTT's header, which extends from the first line to the first empty line."""
    return number == 2 and not any(_LIKE_TIMES.fullmatch(line) for line in block)


def _read_block(number: int, block: list[str], is_vtt: bool) -> Iterator[Cue | str]:
    """The cues of a block, which should be one, or their faults."""
    timings = [at for at, line in enumerate(block) if _LIKE_TIMES.fullmatch(line)]
    before = block[: timings[0]] if timings else block
    if before and not _may_precede(before, is_vtt, followed=bool(timings)):
        yield f"line {number}: text that belongs to no cue"
    for at, following in pairwise([*timings, len(block)]):
        text = block[at + 1 : following]
        if not is_vtt and following < len(block) and text and text[-1].strip().isdigit():
            text = text[:-1]  # the next cue's number
        yield from _cues(block[at], text, number + at, is_vtt)


def _may_precede(lines: list[str], is_vtt: bool, *, followed: bool) -> bool:
    """Whether these lines are a cue's identifier; SRT's are numbers, and an empty line may follow them."""
    if is_vtt:
        return followed and len(lines) == 1
    return len(lines) == 1 and lines[0].strip().isdigit()


def _cues(timing: str, text: list[str], number: int, is_vtt: bool) -> Iterator[Cue | str]:
    """A cue for each voice of the caption, or the fault of its times."""
    match = (_VTT if is_vtt else _SRT).fullmatch(timing)
    if match is None:
        yield f"line {number}: its times are not like {_example(is_vtt)}"
        return
    start_s, end_s = _seconds(match.groups()[:4]), _seconds(match.groups()[4:])
    if end_s < start_s:
        yield f"line {number}: ends at {end_s:g} s, before it starts at {start_s:g} s"
        return
    for said in _BEFORE_VOICE.split("\n".join(text)):
        voice = _VOICE.match(said)
        plain = (" ".join(html.unescape(line).split()) for line in _TAG.sub("", said).split("\n"))
        speaker = " ".join(html.unescape(voice.group(1)).split()) if voice else ""
        yield Cue(start_s, end_s, tuple(line for line in plain if line), speaker)


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, thousandths = (int(part or 0) for part in parts)
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


def _example(is_vtt: bool) -> str:
    return "00:01:02.345 --> 00:01:04.000" if is_vtt else "00:01:02,345 --> 00:01:04,000"


# --- speakers whose names are written in the text -----------------------------------------------------------------

_PREFIX = re.compile(r"(?:>>+\s*|[-–—]\s+)?([^:：!?;…\"“”<>|]{1,60}?)\s?(?::(?=\s|$)|：)\s*(.*)")
_MOST_WORDS = 8
_MOST_CUES = 0.8  # of the file's cues begin with a name: then each prefix is one
_SOME_CUES = 0.25  # where names are written only at a change of speaker
_CUES_PER_NAME = 1.5  # at least, on average
_UNUSUAL = 0.1  # of the cues: more prefixes that look like names are no accident
_IN_PARENTHESES = re.compile(r"\([^()]*\)")  # (she/her)
_SMALL_WORDS = {*"af al av bin da de del della den der di do dos du e el ibn la le ten ter und van von y zu".split()}
_ROLES = {*"participant robot interviewer interviewee experimenter agent assistant user therapist".split()}
_NUMBERED = re.compile(r"(speaker|spk)?[ _-]?([A-Z]|\d{1,3})", re.IGNORECASE)


def is_no_name(speaker: str) -> bool:
    """Whether the speaker is a role (``participant``) or a recogniser's label (``A``, ``SPEAKER_01``): not private."""
    return speaker.lower() in _ROLES or _NUMBERED.fullmatch(speaker) is not None


@dataclass(frozen=True)
class Prefixes:
    """The prefixes of a file's cues."""

    speakers: frozenset[str] = frozenset()  # the prefixes that are speakers
    uncertain: int = 0  # cues that may begin with a speaker's name, or that have no speaker where others do

    def split(self, line: str) -> tuple[str, str]:
        """The line's speaker, empty where it has none, and the text without the speaker."""
        if self.speakers and (match := _match(line)) and match.group(1) in self.speakers:
            return match.group(1), match.group(2)
        return "", line


def find_prefixes(beginnings: Sequence[str], are_speakers: bool | None = None) -> Prefixes:
    """Which prefixes of a file's cues are speakers.

    Args:
        beginnings: the first line of each cue that has no voice span.
        are_speakers: True where prefixes are known to be speakers, False where none is; None decides by the file.

    Example:
        >>> zoom = find_prefixes(["Anna Kowalski: The point is: no.", "Ben: Why?", "Anna Kowalski: Because."])
        >>> sorted(zoom.speakers), zoom.uncertain
        (['Anna Kowalski', 'Ben'], 0)
        >>> zoom.split("Anna Kowalski: The point is: no.")
        ('Anna Kowalski', 'The point is: no.')
    """
    if are_speakers is False:
        return Prefixes()
    counts = Counter(match.group(1) for line in beginnings if (match := _match(line)))
    names = {prefix for prefix in counts if _looks_like_a_name(prefix)}
    repeated = {prefix for prefix, count in counts.items() if count > 1}
    named = sum(counts[prefix] for prefix in names)
    if are_speakers:
        return Prefixes(frozenset(names | repeated))
    total = len(beginnings)
    turns = names & repeated
    for speakers, share, fewest in ((names | repeated, _MOST_CUES, 1), (turns, _SOME_CUES, 2)):
        covered = sum(counts[prefix] for prefix in speakers)
        if len(speakers) >= fewest and covered >= max(_CUES_PER_NAME * len(speakers), share * total):
            return Prefixes(frozenset(speakers), total - covered)
    is_likely = turns or named > _UNUSUAL * total or any(" " in name or is_no_name(name) for name in names)
    return Prefixes(uncertain=named if is_likely else 0)


def _match(line: str) -> re.Match[str] | None:
    """The prefix and the rest of the line; None where the line has no prefix that could be a speaker."""
    match = _PREFIX.fullmatch(line)
    has_form = match and len(match.group(1).split()) <= _MOST_WORDS and any(map(str.isalpha, match.group(1)))
    return match if has_form else None


def _looks_like_a_name(prefix: str) -> bool:
    """Whether each of its words begins like a name's; in scripts without capitals every word does."""
    if is_no_name(prefix):
        return True
    words = [word.strip(".,'’") for word in _IN_PARENTHESES.sub(" ", prefix).split()]
    first, *others = [word for word in words if word] or [""]
    return first[:1].isalpha() and not first[0].islower() and all(map(_may_be_of_a_name, others))


def _may_be_of_a_name(word: str) -> bool:
    return not word[0].islower() or word in _SMALL_WORDS
