"""Turns that a diarisation program of one's own wrote, such as pyannote.audio, in the format RTTM.

A line is a turn: ``SPEAKER file channel start duration <NA> <NA> speaker confidence lookahead``, in seconds of the
sound; the last field may be missing. Lines of other types, and comments (``;;``), say nothing about turns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from storyframes_transcribe.one_microphone.turns import Turns
from storyframes_transcribe.one_microphone.voice_models import VoiceModelError

_OTHERS = frozenset(
    "SEGMENT NOSCORE NO_RT_METADATA LEXEME NON-LEX NON-SPEECH FILLER EDIT IP SU CB A/P SPKR-INFO".split()
)
_ABSENT = "<NA>"
_MOST_BYTES, _MOST_SPEAKERS = 16 << 20, 50
_LATER_S = 1.0  # programs work in windows, so the last turn may end so much after the sound


class RttmError(VoiceModelError):
    """The file is not here, is not RTTM, or is of another recording; the message says which line."""


@dataclass(frozen=True)
class Rttm:
    """The turns of one recording.

    Attributes:
        path, sha256: of the file.
        recording: what the file calls it.
        speakers: their names in the order in which they are first heard.
        start_s, end_s: (n,) of each turn, seconds from the first sample of the sound.
        speaker: (n,) number of its speaker.
        confidence: (n,) of it, 0 to 1; 1 where the file does not say it.
        line: (n,) where it is in the file.
    """

    path: Path
    sha256: str
    recording: str
    speakers: tuple[str, ...]
    start_s: np.ndarray
    end_s: np.ndarray
    speaker: np.ndarray
    confidence: np.ndarray
    line: np.ndarray

    @staticmethod
    def read(path: Path) -> Rttm:
        """
        Raises:
            RttmError: a line is wrong, or there are no turns or several recordings.
        """
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise RttmError(f"{path}: has more than {_MOST_BYTES >> 20} MB; RTTM has a line for each turn")
            content = path.read_bytes()
            lines = content.decode("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RttmError(f"{path}: cannot be read as RTTM, text in UTF-8: {error}") from None
        rows = [(number, *row) for number, line in enumerate(lines, start=1) if (row := _turn(path, number, line))]
        if not rows:
            raise RttmError(f"{path}: has no turns, lines that begin with SPEAKER")
        if len(recordings := sorted({row[1] for row in rows})) > 1:
            raise RttmError(f"{path}: has the turns of {', '.join(recordings)}; give each recording a file of its own")
        names = tuple(dict.fromkeys(row[4] for row in sorted(rows, key=lambda row: row[2])))
        if len(names) > _MOST_SPEAKERS:
            raise RttmError(f"{path}: has {len(names)} speakers; {_MOST_SPEAKERS} are the most")
        numbers = np.array([names.index(row[4]) for row in rows])
        line, start_s, end_s, confidence = (np.array([row[at] for row in rows]) for at in (0, 2, 3, 5))
        digest = hashlib.sha256(content).hexdigest()
        return Rttm(path, digest, recordings[0], names, start_s, end_s, numbers, confidence, line)

    def turns(self, sound_start_s: float, sound_end_s: float) -> Turns:
        """Who speaks when, in seconds of the recording. Where several do, each is as likely, and it is doubtful.

        Raises:
            RttmError: a turn is after the end of the sound.
        """
        last = int(self.end_s.argmax())
        if (length_s := sound_end_s - sound_start_s) + _LATER_S < self.end_s[last]:
            raise RttmError(
                f"{self.path}, line {self.line[last]}: ends at {self.end_s[last]:.3f} s, but the sound is "
                f"{length_s:.3f} s long: is it of another recording?"
            )
        edges = np.unique([self.start_s, self.end_s])
        likely = np.zeros((len(edges) - 1, len(self.speakers)))
        for first, stop, speaker, confidence in zip(
            *np.searchsorted(edges, [self.start_s, self.end_s]), self.speaker, self.confidence, strict=True
        ):
            likely[first:stop, speaker] = np.maximum(likely[first:stop, speaker], confidence)
        count = (likely > 0).sum(axis=1)
        is_heard, likely = count > 0, likely / np.maximum(count, 1)[:, None]
        return Turns(
            start_s=sound_start_s + edges[:-1][is_heard],
            end_s=sound_start_s + edges[1:][is_heard],
            probability=likely[is_heard],
            centres=np.zeros((len(self.speakers), 0)),
            is_doubtful=count[is_heard] > 1,
            is_distinct=True,
        )


def _turn(path: Path, number: int, line: str) -> tuple[str, float, float, str, float] | None:
    """The recording, start, end, speaker and confidence of a line; None without a turn."""
    fields = line.split()
    if not fields or fields[0].startswith(";") or fields[0] in _OTHERS:
        return None
    where = f"{path}, line {number}"
    if fields[0] != "SPEAKER":
        raise RttmError(f"{where}: {fields[0][:40]!r} is not a type of RTTM: a turn begins with SPEAKER")
    if len(fields) not in (9, 10):
        raise RttmError(f"{where}: has {len(fields)} fields; RTTM has 10, and names have no spaces in it")
    start_s, length_s = (_number(where, name, fields[at]) for name, at in (("start", 3), ("duration", 4)))
    confidence = 1.0 if fields[8] == _ABSENT else _number(where, "confidence", fields[8])
    if confidence > 1:
        raise RttmError(f"{where}: the confidence is {fields[8][:40]!r}; must be {_ABSENT} or a number from 0 to 1")
    if fields[7] == _ABSENT:
        raise RttmError(f"{where}: the speaker, the eighth field, is {_ABSENT}")
    return fields[1], round(start_s, 6), round(start_s + length_s, 6), fields[7], confidence


def _number(where: str, name: str, text: str) -> float:
    try:
        value = math.nan if "_" in text else float(text)  # Python reads 1_0 as 10
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise RttmError(f"{where}: the {name} is {text[:40]!r}; must be a number from 0 on")
    return value


def find_rttm(path: Path, recordings: Sequence[str]) -> dict[str, Rttm] | None:
    """By recording, its turns; None where ``path`` is not of RTTM files, but of a model.

    Args:
        path: the file of the only recording, or a folder with a file ``<recording>.rttm`` for each.
        recordings: their names, ``SESSION`` or ``SESSION@TRACK``.

    Raises:
        RttmError: a file is missing or wrong.
    """
    if path.is_dir() and any(path.glob("*.rttm")):
        files = {name: path / f"{name}.rttm" for name in recordings}
        if missing := [file.name for file in files.values() if not file.is_file()]:
            raise RttmError(
                f"{path}: has no {missing[0]}" + (f", and {len(missing) - 1} more are missing" * (len(missing) > 1))
                + ": each recording of several people needs its file; --session selects"
            )  # fmt: skip
    elif path.suffix == ".rttm":
        if len(recordings) > 1:
            raise RttmError(
                f"{path}: is one recording's, and {', '.join(recordings)} are asked for: give a folder with "
                f"{recordings[0]}.rttm and so on, or select with --session and --track"
            )
        files = dict.fromkeys(recordings, path)
    else:
        return None
    return {name: Rttm.read(file) for name, file in files.items()}
