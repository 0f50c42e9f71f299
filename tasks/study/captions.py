"""WebVTT and SRT, read strictly: a cue whose times are no times is named with its line, and never vanishes.

What holds ``-->`` is taken for a cue's times, and so is a line of two times with another sign between them. No message
quotes a line: captions are what somebody said.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


class CaptionsError(Exception):
    """The file is not WebVTT, or not SRT; the message says why, without the file's name."""


@dataclass(frozen=True)
class Cue:
    """One caption. ``speaker`` is that of WebVTT's first voice span, else empty."""

    start_s: float
    end_s: float
    text: str
    speaker: str


@dataclass(frozen=True)
class Captions:
    """The cues that have a text, in the file's order, and what could not be read, each with its line."""

    cues: tuple[Cue, ...]
    faults: tuple[str, ...]


_TIME = r"(?:(\d+):)?([0-5]\d):([0-5]\d)"
_VTT = re.compile(rf"\s*{_TIME}\.(\d{{3}})\s+-->\s+{_TIME}\.(\d{{3}})(?:\s.*)?")
_SRT = re.compile(rf"\s*{_TIME}[,.](\d{{3}})\s*-->\s*{_TIME}[,.](\d{{3}})(?:\s.*)?")
_LIKE_TIME = r"\d+:\d+(?::\d+[.,]?\d*|[.,]\d+)"
_LIKE_TIMES = re.compile(rf".*-->.*|\s*{_LIKE_TIME}\s*[^\w\s]{{0,5}}\s*{_LIKE_TIME}\s*")
_TAG = re.compile(r"</?[A-Za-z0-9][^<>]*>|\{\\[^{}]*\}")  # <i>, <v Anna>, <00:01.000>, {\an8}
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_NO_CUE = re.compile(r"(NOTE|STYLE|REGION)(\s.*)?")


def read_captions(path: Path) -> Captions:
    """The captions at ``path``; WebVTT where its name ends with ``.vtt``, else SRT.

    Raises:
        CaptionsError: it is not UTF-8, not of that format, or has not one cue that can be read.
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
        for found in _read_block(number, block, is_vtt):
            if isinstance(found, str):
                faults.append(found)
            elif found.text:
                cues.append(found)
    if not cues and (faults or not is_vtt):
        raise CaptionsError("not one cue has times like " + _example(is_vtt))
    return Captions(tuple(cues), tuple(faults))


def _blocks(lines: Sequence[str], first: int) -> Iterator[tuple[int, list[str]]]:
    """Lines without an empty one between them, and the number of the first of them."""
    block: list[str] = []
    for number, line in enumerate([*lines[first:], ""], start=first + 1):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []


def _is_header(number: int, block: list[str]) -> bool:
    """WebVTT's header goes on from the first line to the first empty one."""
    return number == 2 and not any(_LIKE_TIMES.fullmatch(line) for line in block)


def _read_block(number: int, block: list[str], is_vtt: bool) -> Iterator[Cue | str]:
    """The cues of a block, which should be one, or what is wrong with them."""
    timings = [at for at, line in enumerate(block) if _LIKE_TIMES.fullmatch(line)]
    before = block[: timings[0]] if timings else block
    if before and not _may_precede(before, is_vtt, followed=bool(timings)):
        yield f"line {number}: text that belongs to no cue"
    for at, following in pairwise([*timings, len(block)]):
        text = block[at + 1 : following]
        if not is_vtt and following < len(block) and text and text[-1].strip().isdigit():
            text = text[:-1]  # the next cue's number
        yield _cue(block[at], text, number + at, is_vtt)


def _may_precede(lines: list[str], is_vtt: bool, *, followed: bool) -> bool:
    """Whether these lines are a cue's identifier; SRT's are numbers, and an empty line may stand behind them."""
    if is_vtt:
        return followed and len(lines) == 1
    return len(lines) == 1 and lines[0].strip().isdigit()


def _cue(timing: str, text: list[str], number: int, is_vtt: bool) -> Cue | str:
    match = (_VTT if is_vtt else _SRT).fullmatch(timing)
    if match is None:
        return f"line {number}: its times are not like {_example(is_vtt)}"
    start_s, end_s = _seconds(match.groups()[:4]), _seconds(match.groups()[4:])
    if end_s < start_s:
        return f"line {number}: ends at {end_s:g} s, before it starts at {start_s:g} s"
    joined = " ".join(text)
    voice = _VOICE.search(joined)
    plain = " ".join(html.unescape(_TAG.sub("", joined)).split())
    return Cue(start_s, end_s, plain, html.unescape(voice.group(1)).strip() if voice else "")


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, thousandths = (int(part or 0) for part in parts)
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


def _example(is_vtt: bool) -> str:
    return "00:01:02.345 --> 00:01:04.000" if is_vtt else "00:01:02,345 --> 00:01:04,000"
