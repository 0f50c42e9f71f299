"""What an extractor is given: the files of one session, or of the stories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from storyframes.label_curves import NEAREST, CurveRule
from storyframes.spec import MAIN
from storyframes.times import SESSION_CLOCK, Clock
from tasks.study.labels import Scheme


class MissingInputError(Exception):
    """The session lacks what this feature is made of: a status, not a failure. The message says what."""


class ExtractionError(Exception):
    """The input cannot become this feature; trying again will not help. The message says why and what to do."""


class Input(StrEnum):
    """The kinds of input that an extractor can declare."""

    VIDEO = "video"
    AUDIO = "audio"  # the sidecar sound file where the study names one, else the video's own sound
    TRANSCRIPT = "transcript"
    OPENFACE = "openface"  # OpenFace's output, recorded before
    STORIES = "stories"  # the table of the story texts
    CURVE = "curve"  # the files of a label's curve, one for each rater
    MICROPHONES = "microphones"  # in place of a track's sound: its person's microphone, and those of the others
    TURNS = "turns"  # of a microphone of several people, the transcript that says whose voice speaks when
    REGION = "region"  # the table of boxes of a region of a picture

    @property
    def holds_words(self) -> bool:
        """Whether somebody's words can be read in it."""
        return self in (Input.TRANSCRIPT, Input.STORIES)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input of a session."""

    path: Path  # on this machine
    relative: str  # its path in the study, which is all that is ever recorded
    sha256: str  # of its content when the work was planned
    # bytes, mtime_ns: as it was then
    bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class CurveFiles:
    """The files that a label's curve is made of."""

    scheme: Scheme  # with the minimum and maximum that its values have to keep to
    kinds: tuple[str, ...]  # by which :attr:`Source.files` has them, in the order of their raters
    rule: CurveRule = NEAREST  # what the curve has between its moments


@dataclass(frozen=True)
class Microphone:
    """One person's microphone in a session."""

    kind: str  # by which :attr:`Source.files` has its file
    is_sound_file: bool  # whose first sample is second 0; else the sound of a video
    clock: Clock  # of its device


@dataclass(frozen=True)
class Microphones:
    """The microphones of a session, for one of its tracks."""

    own: Microphone  # of the person of the track
    others: tuple[Microphone, ...] = ()  # of the session's other persons
    is_shared: bool = False  # the own one is another person's as well
    clock: Clock = SESSION_CLOCK  # of the track
    person: str = ""  # the id of the track's person, if known; decides values only where voices are told apart


@dataclass(frozen=True, slots=True)
class Region:
    """The part of another track's picture that a track is."""

    of: str  # that track
    # x, y, w, h as fractions of the upright picture; None where a table has boxes over time (Input.REGION)
    box: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One session, or the stories, as an extractor sees it: an id and files; no text, no table.

    Attributes:
        session_id: the session, or ``stories``.
        files: by kind of input, see :class:`Input`.
        unusable: by kind, why a file that the study names cannot be used.
        track: which of the session's tracks the files are of.
        frameless: the track has no video, so there are no frames, and no clock of frames.
        curves: by feature, the files of the curve of a label.
        microphones: where the study has other persons' sound of this session; None: the track's own sound is all.
        speakers: what speakers of its transcripts are called in the store, by the names in the transcripts (see
            :func:`tasks.study.spoken_name`): real names, so they are never shown.
        region: of the video's picture, which is another track's, that this track is; None: all of its own.
    """

    session_id: str
    files: Mapping[str, InputFile]
    unusable: Mapping[str, str] = field(default_factory=dict)
    track: str = MAIN
    frameless: bool = False
    curves: Mapping[str, CurveFiles] = field(default_factory=dict)
    speakers: Mapping[str, str] = field(default_factory=dict, repr=False)
    microphones: Microphones | None = None
    region: Region | None = None

    def names(self, kind: str) -> bool:
        """Whether the study names an input of this kind, be it there or not."""
        return kind in self.files or kind in self.unusable

    def file(self, kind: str) -> InputFile:
        """The input of this kind.

        Raises:
            MissingInputError: the study names none for this session, or this track of it.
            ExtractionError: the study names one that cannot be used.
        """
        if kind == Input.AUDIO and not self.names(kind) and not self.frameless and not self.region:
            kind = Input.VIDEO
        if kind in self.unusable:
            raise ExtractionError(self.unusable[kind])
        if kind not in self.files:
            raise MissingInputError(
                f"the study names no {kind} for this {'session' if self.track == MAIN else 'track'}"
            )
        return self.files[kind]
