"""WebVTT and SRT, read strictly: a cue with invalid times is reported with its line, and never silently left out.

A line with ``-->`` is taken for a cue's times, and so is a line of two times with another sign between them. No message
quotes a line: captions are what somebody said.

YouTube's own captions roll: each line is repeated as the upper line of the next cue. Where most cues of a file begin
so, what is repeated is left out. Names in the text are found by :mod:`tasks.study.transcript_formats.speaker_names`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path

from tasks.study.transcript_formats.non_speech import find_non_speech, is_word, without
from tasks.study.transcript_formats.speaker_names import Prefixes, find_prefixes

__all__ = ["Captions", "CaptionsError", "Cue", "Line", "find_prefixes", "read_captions"]


class CaptionsError(Exception):
    """The file is not WebVTT, or not SRT; the message says why, without the file's name."""


@dataclass(frozen=True)
class Line:
    """A line of a cue, without tags."""

    text: str
    # for each word of the text, when it begins, seconds; None where the line does not say
    starts: tuple[float | None, ...]

    @classmethod
    def of(cls, words: Sequence[str], starts: Sequence[float | None]) -> Line:
        """The line of these words."""
        return cls(" ".join(words), tuple(starts))

    def end(self, text: str) -> Line:
        """The line's end, which has this text."""
        count = len(text.split())
        return Line(text, self.starts[len(self.starts) - count :])


@dataclass(frozen=True)
class Cue:
    """The words of one speaker in one caption; a caption of several speakers is several cues with the same times."""

    # start_s, end_s: seconds
    start_s: float
    end_s: float
    lines: tuple[Line, ...]  # none of them empty
    speaker: str  # of WebVTT's voice span or of a prefix ("Anna: …"); empty without both

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)

    @property
    def words(self) -> list[tuple[str, float | None, float | None]]:
        """Each word with its start and end where the cue says when words begin; a word ends where the next begins.

        A word without a start has neither; the end of one before it is None.
        """
        starts = [start for line in self.lines for start in line.starts]
        if all(start is None for start in starts):
            return []
        starts[0] = self.start_s if starts[0] is None else starts[0]
        ends = [*starts[1:], self.end_s]
        texts = self.text.split()
        return [
            (text, start, None if start is None else end) for text, start, end in zip(texts, starts, ends, strict=True)
        ]


@dataclass(frozen=True)
class Captions:
    """The content of a file of captions."""

    cues: tuple[Cue, ...]  # those with a text, in the file's order
    faults: tuple[str, ...]  # the parts that could not be read, each with its line
    uncertain_speakers: int = 0  # cues that may begin with a speaker's name, or that have no speaker where others do
    remarks: tuple[str, ...] = ()  # how the file was read, where that is not certain


_TIME = r"(?:(\d+):)?([0-5]\d):([0-5]\d)"
_VTT = re.compile(rf"\s*{_TIME}\.(\d{{3}})\s+-->\s+{_TIME}\.(\d{{3}})(?:\s.*)?")
_SRT = re.compile(rf"\s*{_TIME}[,.](\d{{3}})\s*-->\s*{_TIME}[,.](\d{{3}})(?:\s.*)?")
_SRT_HUNDREDTHS = re.compile(rf"\s*{_TIME}[,.](\d{{2}})\s*-->\s*{_TIME}[,.](\d{{2}})(?:\s.*)?")
_LIKE_TIME = r"\d+:\d+(?::\d+[.,]?\d*|[.,]\d+)"
_LIKE_TIMES = re.compile(rf".*-->.*|\s*{_LIKE_TIME}\s*[^\w\s]{{0,5}}\s*{_LIKE_TIME}\s*")
_TAG = re.compile(r"</?[A-Za-z0-9][^<>]*>|\{\\[^{}]*\}")  # <i>, <v Anna>, <00:01.000>, {\an8}
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_BEFORE_VOICE = re.compile(r"(?=<v[.\s])")
_NO_CUE = re.compile(r"(NOTE|STYLE|REGION)(\s.*)?")
_WORD_TIME = re.compile(rf"<{_TIME}\.(\d{{3}})>")
_OTHER_SPEAKER = re.compile(r"\s*(?:>>+|[-–‐]+|—(?=\s))\s*(?=\S)(?![\d.,]+(?:\s|$))")  # and not "-5"
_BETWEEN_SPEAKERS = re.compile(r"(?<=[.!?…\])\"”♪])\s+(?=[-–—]\s)|\s+(?=>>)")
_ROLLS = 0.5  # of the cues that follow another: from then on captions roll
_FEWEST_ROLLS = 2
_SHORT_S = 0.1  # a cue that holds its line while the next appears
_FOREIGN = 0.3  # of the letters: more that are not ASCII are another alphabet in another encoding
_FEWEST_LETTERS = 20
_NOT_IN_WORDS = re.compile(r"(?<=[^\W\d_])[¡-©«-´¶-¹»-¿×÷†‡‰‹›•˜™](?=[^\W\d_])")


def read_captions(path: Path, speaker_prefixes: bool | None = None) -> Captions:
    """The captions at ``path``; WebVTT where its name ends with ``.vtt``, else SRT.

    Args:
        speaker_prefixes: whether "Name: " at the beginning of a cue is its speaker; None decides by the whole file.

    Raises:
        CaptionsError: its encoding is not known, it has another format, or has no cue that can be read.
        OSError: it cannot be read.
    """
    is_vtt = path.suffix.lower() == ".vtt"
    text, remarks = _decoded(path.read_bytes(), is_vtt=is_vtt)
    lines = re.split(r"\r\n|\r|\n", text)
    if is_vtt and not re.fullmatch(r"WEBVTT([ \t].*)?", lines[0]):
        raise CaptionsError("its first line is not WEBVTT")
    times = _VTT if is_vtt else _SRT
    if not is_vtt and any(map(_SRT_HUNDREDTHS.fullmatch, lines)) and not any(map(_SRT.fullmatch, lines)):
        times = _SRT_HUNDREDTHS
        remarks.append("times with two digits after the comma are read as hundredths of a second")
    cues: list[Cue] = []
    faults: list[str] = []
    for number, block in _blocks(lines, is_vtt):
        if is_vtt and (_NO_CUE.fullmatch(block[0]) or _is_header(number, block)):
            continue
        for cue in _read_block(number, block, is_vtt, times):
            if isinstance(cue, str):
                faults.append(cue)
            elif cue.lines:
                cues.append(cue)
    if not cues and (faults or not is_vtt):
        raise CaptionsError("not one cue has times like " + _example(is_vtt))
    shown = len(cues)
    if _are_rolling(cues):
        cues = list(_without_repetitions(cues))
        remarks.append(f"captions roll: lines that repeat those of the caption before are left out of {shown} captions")
    spoken = [line for cue in cues if not cue.speaker for line in _beginnings(cue)]
    prefixes = find_prefixes(spoken, speaker_prefixes)
    named = tuple(part for cue in cues for part in _by_speaker(cue, prefixes))
    return Captions(named, tuple(faults), prefixes.uncertain, tuple(remarks))


def _decoded(data: bytes, *, is_vtt: bool) -> tuple[str, list[str]]:
    """The text, and a remark where its encoding was guessed."""
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    unmarked = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be" if data[:1] == b"\0" else "utf-8-sig"
    try:
        return data.decode("utf-16" if marked else unmarked), []
    except UnicodeDecodeError:
        if is_vtt or marked or unmarked != "utf-8-sig":
            raise CaptionsError("it is neither UTF-8 nor UTF-16") from None
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    letters = [character for character in text if character.isalpha()]
    foreign = sum(not character.isascii() for character in letters)
    if not text or _NOT_IN_WORDS.search(text) or foreign > max(_FOREIGN * len(letters), _FOREIGN * _FEWEST_LETTERS):
        raise CaptionsError("its encoding is not UTF-8, UTF-16 or Windows-1252: save it as UTF-8")
    return text, ["it is not UTF-8 and was read as Windows-1252: if letters with accents are wrong, save it as UTF-8"]


# --- blocks and cues ---------------------------------------------------------------------------------------------


def _blocks(lines: Sequence[str], is_vtt: bool) -> Iterator[tuple[int, list[str]]]:
    """The blocks between empty lines, each with the number of its first line.

    A line of spaces is empty where a cue follows it; else it is one of the cue's, as in YouTube's captions. In SRT an
    empty line may be between a cue's times and its text.
    """
    block: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if number == 1 and is_vtt:
            continue
        is_empty = not line.strip()
        if is_empty and not block:
            continue
        if (
            is_empty
            and number <= len(lines)
            and ((line and not _begins_cue(lines, number)) or (not is_vtt and _is_without_text(block, lines, number)))
        ):
            block.append("")
        elif is_empty:
            yield number - len(block), block
            block = []
        else:
            block.append(line)


def _begins_cue(lines: Sequence[str], at: int) -> bool:
    """Whether a cue or a note begins there, or nothing follows."""
    first, second = [*lines[at : at + 2], "", ""][:2]
    is_times = any(_LIKE_TIMES.fullmatch(line) for line in (first, second))
    return is_times or _NO_CUE.fullmatch(first) is not None or not any(line.strip() for line in islice(lines, at, None))


def _is_without_text(block: Sequence[str], lines: Sequence[str], at: int) -> bool:
    """Whether a block of SRT ends with its times, and a text follows."""
    is_text = at < len(lines) and lines[at].strip() != ""
    return is_text and _LIKE_TIMES.fullmatch(block[-1]) is not None and not _begins_cue(lines, at)


def _is_header(number: int, block: list[str]) -> bool:
    """Whether the block is WebVTT's header, which extends from the first line to the first empty line."""
    return number == 2 and not any(_LIKE_TIMES.fullmatch(line) for line in block)


def _read_block(number: int, block: list[str], is_vtt: bool, times: re.Pattern[str]) -> Iterator[Cue | str]:
    """The cues of a block, which should be one, or their faults."""
    timings = [at for at, line in enumerate(block) if _LIKE_TIMES.fullmatch(line)]
    before = block[: timings[0]] if timings else block
    if before and not _may_precede(before, is_vtt, followed=bool(timings)):
        yield f"line {number}: text that belongs to no cue"
    for at, following in pairwise([*timings, len(block)]):
        text = block[at + 1 : following]
        if not is_vtt and following < len(block) and text and text[-1].strip().isdigit():
            text = text[:-1]  # the next cue's number
        yield from _cues(block[at], text, number + at, is_vtt, times)


def _may_precede(lines: list[str], is_vtt: bool, *, followed: bool) -> bool:
    """Whether these lines are a cue's identifier; SRT's are numbers, and an empty line may follow them."""
    if is_vtt:
        return followed and len(lines) == 1
    return len(lines) == 1 and lines[0].strip().isdigit()


def _cues(timing: str, text: list[str], number: int, is_vtt: bool, times: re.Pattern[str]) -> Iterator[Cue | str]:
    """A cue for each voice of the caption, or the fault of its times."""
    match = times.fullmatch(timing)
    if match is None:
        yield f"line {number}: its times are not like {_example(is_vtt)}"
        return
    start_s, end_s = _seconds(match.groups()[:4]), _seconds(match.groups()[4:])
    if end_s < start_s:
        yield f"line {number}: ends at {end_s:g} s, before it starts at {start_s:g} s"
        return
    for part in _BEFORE_VOICE.split("\n".join(text)):
        voice = _VOICE.match(part)
        lines = [_line(line) for line in part.split("\n")]
        starts = [start for line in lines for start in line.starts if start is not None]
        if starts != sorted(starts) or any(not start_s <= start <= end_s for start in starts):
            lines = [replace(line, starts=(None,) * len(line.starts)) for line in lines]  # no times of these words
        speaker = " ".join(html.unescape(voice.group(1)).split()) if voice else ""
        yield Cue(start_s, end_s, tuple(line for line in lines if line.text), speaker)


def _line(text: str) -> Line:
    """A line without tags; a time in it (``<00:01.500>``) is when the word after it begins."""
    words: list[str] = []
    starts: list[float | None] = []
    start: float | None = None
    follows_space = True
    parts = _WORD_TIME.split(text)  # a text, then the four parts of a time and a text, ...
    for at in range(0, len(parts), 5):
        start = _seconds(parts[at - 4 : at]) if at else None
        plain = html.unescape(_TAG.sub("", parts[at]))
        for number, word in enumerate(plain.split()):
            if number or follows_space or plain[:1].isspace():
                words.append(word)
                starts.append(None if number else start)
            else:
                words[-1] += word  # the time is within a word
        follows_space = plain[-1:].isspace() if plain else follows_space
    return Line.of(words, starts)


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = (int(part or 0) for part in parts)
    unit = 10 ** len(parts[3] or "")
    return ((hours * 3600 + minutes * 60 + seconds) * unit + fraction) / unit


def _example(is_vtt: bool) -> str:
    return "00:01:02.345 --> 00:01:04.000" if is_vtt else "00:01:02,345 --> 00:01:04,000"


# --- captions that roll ------------------------------------------------------------------------------------------


def _are_rolling(cues: Sequence[Cue]) -> bool:
    """Whether most cues begin with the lines with which the cue before ends, and go on, or only hold them briefly."""
    rolls = sum(
        (repeated := _repeated(before, cue)) > 0 and (repeated < len(cue.lines) or cue.end_s - cue.start_s <= _SHORT_S)
        for before, cue in pairwise(cues)
    )
    return rolls >= max(_FEWEST_ROLLS, _ROLLS * (len(cues) - 1))


def _repeated(before: Cue, cue: Cue) -> int:
    """With how many lines of the cue before this one begins."""
    earlier, lines = [line.text for line in before.lines], [line.text for line in cue.lines]
    return next(
        (count for count in range(min(len(earlier), len(lines)), 0, -1) if earlier[-count:] == lines[:count]), 0
    )


def _without_repetitions(cues: Sequence[Cue]) -> Iterator[Cue]:
    if cues:
        yield cues[0]
    for before, cue in pairwise(cues):
        if lines := cue.lines[_repeated(before, cue) :]:
            yield replace(cue, lines=lines)


# --- speakers ----------------------------------------------------------------------------------------------------


def _beginnings(cue: Cue) -> Iterator[str]:
    """The cue's first line and those after a dash, of which a name may be the beginning; none where nothing is said."""
    if not any(map(is_word, without(cue.text, find_non_speech(cue.text)).split())):
        return
    for number, whole in enumerate(cue.lines, start=1):
        for position, line in enumerate(_between_speakers(whole)):
            if number + position == 1 or _OTHER_SPEAKER.match(line.text):
                yield line.text + ("\n" if number < len(cue.lines) else "")


def _by_speaker(cue: Cue, prefixes: Prefixes) -> Iterator[Cue]:
    """The cue's parts, each with the speaker of its prefix and without it; a dash, too, begins another's part."""
    parts: list[tuple[str, list[Line]]] = [(cue.speaker, [])]
    for number, whole in enumerate(cue.lines, start=1):
        for line in _between_speakers(whole):
            speaker, text = "", line.text
            if not cue.speaker:
                speaker, text = prefixes.split(line.text + ("\n" if number < len(cue.lines) else ""))
            mark = None if speaker else _OTHER_SPEAKER.match(text)
            text = text[mark.end() :] if mark else text
            if speaker or (mark and parts[-1][1] and not cue.speaker):
                parts.append((speaker, []))
            if text:
                parts[-1][1].append(line.end(text))
    for speaker, lines in parts:
        if lines:
            yield replace(cue, lines=tuple(lines), speaker=speaker)


def _between_speakers(line: Line) -> Iterator[Line]:
    """The parts of a line in which two people speak, each after a dash: "- Hello. - Hi."."""
    if not _OTHER_SPEAKER.match(line.text):
        yield line
        return
    first = 0
    for text in _BETWEEN_SPEAKERS.split(line.text):
        count = len(text.split())
        yield Line(text, line.starts[first : first + count])
        first += count
