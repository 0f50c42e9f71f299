"""What names a voice: sound in which its person speaks alone, or a word by hand."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from storyframes_transcribe.one_microphone.turns import Embed, Turns, Windows, match_voices
from storyframes_transcribe.recordings import digest_of
from storyframes_transcribe.voices import RATE, voiced_pieces
from tasks.media import AudioBlock, RecordingError, read_audio, read_header, read_streams

_VOICE = re.compile(r"(?P<person>[^=]+)=(?P<file>.+?)(?:,(?P<start>\d+(?:\.\d+)?),(?P<end>\d+(?:\.\d+)?))?")
_LEAST_S = 3.0
_ALIKE = 0.97  # halves of one voice: 0.98 and more; two voices: up to 0.91 (CAM++)
_AS_LIKE = 0.6  # CAM++, eight voices: 0.65 and more; of others up to 0.55, but for two voices that are alike (0.92)


class VoiceError(Exception):
    """Speakers cannot be found as asked; the message says why, and what to type."""


@dataclass(frozen=True)
class Enrolment:
    """Sound in which a person speaks alone, or the voice that is hers.

    Attributes:
        person: a person's id, role or participant.
        path: of the file; of a voice, what it is called.
        start_s, end_s: seconds of the recording: of a video, from its first frame.
    """

    person: str
    path: Path
    start_s: float = 0.0
    end_s: float = float("inf")

    @staticmethod
    def parse(text: str) -> Enrolment:
        """``PERSON=FILE``, ``PERSON=FILE,FROM,TO``, or ``PERSON=SPEAKER``.

        Raises:
            VoiceError: it is none of these.
        """
        matched = _VOICE.fullmatch(text)
        if not matched:
            raise VoiceError(
                f"--voice {text}: must be PERSON=FILE or PERSON=FILE,FROM,TO, with seconds of the recording, or "
                "PERSON=SPEAKER"
            )
        start_s, end_s = float(matched["start"] or 0), float(matched["end"] or "inf")
        return Enrolment(matched["person"], Path(matched["file"]), start_s, end_s)

    @property
    def speaker(self) -> str | None:
        """What the voice is called; None where there is such a file."""
        return None if self.path.is_file() else str(self.path)

    @property
    def digest(self) -> str:
        """SHA-256 of what is heard."""
        return hashlib.sha256(f"{digest_of(self.path)} {self.start_s} {self.end_s}".encode()).hexdigest()

    def vector(self, embed: Embed, threshold: float) -> np.ndarray:
        """What the voice is like.

        Raises:
            VoiceError: there is not enough voice.
        """
        try:
            pieces = voiced_pieces(self._blocks(), threshold)
            windows = Windows.read(pieces, embed)
        except RecordingError as error:
            raise VoiceError(f"--voice {self.person}={self.path}: {error}") from None
        seconds = float((windows.end_s - windows.start_s).sum())
        if seconds < _LEAST_S:
            raise VoiceError(
                f"--voice {self.person}={self.path}: has {seconds:.1f} s of voice; {_LEAST_S:.0f} are needed"
            )
        total = (windows.vectors * windows.seconds[:, None]).sum(axis=0)
        return np.asarray(total / np.linalg.norm(total))

    def _blocks(self) -> Iterator[AudioBlock]:
        zero_s = read_header(self.path).start_s if read_streams(self.path).has_video else None
        for block in read_audio(self.path, RATE, zero_s):
            first = max(round((self.start_s - block.time) * RATE), 0)
            stop = round(min((self.end_s - block.time) * RATE, len(block.samples)))
            if first < stop:
                yield replace(block, time=block.time + first / RATE, samples=block.samples[first:stop])


def match_enrolled(turns: Turns, windows: Windows, enrolled: Sequence[tuple[str, np.ndarray]]) -> dict[int, str]:
    """By voice, whose it is; only what is clear, and not where the person is nobody in the recording.

    Sound of anybody is more like one voice than like another one. A person's is nearly as like it as windows of the
    recording are: by :data:`_AS_LIKE` of the way there from how like it is to another voice.
    """
    owners = match_voices(turns.centres, enrolled, ())
    if turns.centres.shape[0] == 1 or not len(windows.vectors):
        return owners
    within = float(np.median((windows.vectors @ turns.centres.T).max(axis=1)))
    vectors, clear = dict(enrolled), {}
    for voice, person in owners.items():
        cosines = turns.centres @ vectors[person]
        other = float(np.delete(cosines, voice).max())
        if cosines[voice] - other >= _AS_LIKE * (within - other):
            clear[voice] = person
    return clear


def alike_voices(turns: Turns, windows: Windows) -> set[int]:
    """Voices that may be halves of one: all that are not distinct; of three those as like as windows are to their own.

    So it is where somebody of those who may speak is silent: another person's voice is split.
    """
    if not turns.is_distinct:
        return {*range(len(turns.centres))}
    if turns.centres.shape[0] < 3 or not len(windows.vectors):
        return set()
    within = float(np.median((windows.vectors @ turns.centres.T).max(axis=1)))
    between = turns.centres @ turns.centres.T
    np.fill_diagonal(between, -1.0)
    return {*np.flatnonzero(between.max(axis=1) >= _ALIKE * within).tolist()}
