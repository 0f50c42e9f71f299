"""The rows of a study's tables: the columns of each table and their types, checked cell by cell.

Ids and paths come from people's spreadsheets and end up in file names and command lines, so they are not trusted.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from storyframes.spec import MAIN
from storyframes.store.layout import ID_PATTERN, why_no_session
from tasks.media.container import check_joined_names
from tasks.study.labels import RaterKind, SchemeType
from tasks.study.strict_tables import as_words, with_decimal_point

_ISO_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}(?:[T ].*)?", re.DOTALL)
_DAY_NUMBER = re.compile(r"\s*(\d{5})(?:[.,]\d*)?\s*")
_ROUNDING = 1e-6  # by which fractions that were rounded, such as three thirds, may exceed the picture
_FIRST_DAY = date(1899, 12, 30)  # of a spreadsheet that counts days from 1900; one that counts from 1904 is 1462 ahead


def _safe_id(value: str) -> str:
    if not ID_PATTERN.fullmatch(value):
        raise ValueError("an id has letters, digits, '.', '_' and '-', at most 64, first a letter or a digit")
    return value


def _session_id(value: str) -> str:
    if reason := why_no_session(_safe_id(value)):
        raise ValueError(reason)
    return value


def _relative_path(value: str) -> str:
    path = PurePosixPath(value)
    rule = "a path is relative to the study folder and never leaves it"
    if "\\" in value:
        raise ValueError(f"{rule}: write / between its folders, and the file has to be there")
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(rule)
    if any(ord(character) < 32 for character in value):
        raise ValueError("a path has no control characters")
    check_joined_names(value)
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _plain_number(value: object) -> object:
    # pydantic also takes Python's notations: 1_5 would be 15, and True 1.
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise ValueError("must be a number in digits")
    if (meant := with_decimal_point(value)) is not value:
        raise ValueError(f"must be a number with a decimal point: is {str(meant).strip()} meant?")
    return value


def _calendar_time(value: object) -> object:
    # pydantic takes any number for seconds since 1970, also 20240501 and a spreadsheet's 45413.5.
    if value is None or isinstance(value, (datetime, date)):
        return value
    if isinstance(value, str) and _ISO_DATE.fullmatch(value):
        return value
    rule = "must be a date or a time as ISO 8601 writes it: 2024-05-01T10:30"
    if day := _DAY_NUMBER.fullmatch(str(value)):
        meant = _FIRST_DAY + timedelta(days=int(day.group(1)))
        rule += (
            f"; a spreadsheet's number of a day may be {meant} (or {meant + timedelta(days=1462)}, counted from 1904): "
            "format the column as text, or as yyyy-mm-dd, before it is saved"
        )
    raise ValueError(rule)


def _label_list(value: object) -> object:
    if not isinstance(value, str):
        return value
    labels = tuple(label.strip() for label in value.split("|"))
    if "" in labels or len(set(labels)) < len(labels):
        raise ValueError("the labels are separated by '|', and none is empty or there twice: low|medium|high")
    return labels


def _cell_list(value: object) -> object:
    return _label_list(str(as_words(value)) if isinstance(value, (int, float)) else value)


def _language(value: object) -> object:
    """The code of a language without its country."""
    code = re.split("[-_]", str(value).strip().lower())[0]
    if not re.fullmatch("[a-z]{2,3}", code):
        raise ValueError("must be the code of a language, as ISO 639 has it: en, fr, zh")
    return code


def _region(value: str) -> str:
    if is_box_file(value):
        return _relative_path(value)
    fixed_box(value)
    return value


def is_box_file(region: str) -> bool:
    """Whether a region is a table of boxes over time; it is a fixed box otherwise."""
    return region.endswith((".csv", ".parquet"))


def fixed_box(region: str) -> tuple[float, float, float, float]:
    """Left, top, width and height of a fixed region, as fractions of the upright picture.

    Raises:
        ValueError: it is none.
    """
    try:
        x, y, w, h = map(float, region.replace("_", "?").split(","))
    except ValueError:
        raise ValueError(
            "a region is x,y,w,h, fractions of the upright picture (0.5,0,0.5,1 is its right half), or the path of a "
            "table of boxes, .csv or .parquet"
        ) from None
    is_inside = all(map(math.isfinite, (x, y, w, h))) and min(x, y) >= 0 and max(x + w, y + h) <= 1 + _ROUNDING
    if not is_inside or min(w, h) <= 0:
        raise ValueError("x,y,w,h are fractions of the picture, 0 to 1: w and h above 0, x + w and y + h at most 1")
    return x, y, w, h


def _track_name(value: str) -> str:
    if reason := why_no_session(f"feature-{value}"):
        raise ValueError(reason)
    return value


def _no_main(track: str | None) -> str | None:
    """The track that a label is of; the session's own files (``main``) are no track of the table ``tracks``."""
    return None if track == MAIN else track


Id = Annotated[str, AfterValidator(_safe_id)]
SessionId = Annotated[str, AfterValidator(_session_id)]
StudyPath = Annotated[str, AfterValidator(_relative_path)]
Seconds = Annotated[float, BeforeValidator(_plain_number), Field(ge=0), AfterValidator(_finite)]
Whole = Annotated[int, BeforeValidator(_plain_number)]
Number = Annotated[float, BeforeValidator(_plain_number), AfterValidator(_finite)]
TrackName = Annotated[Id, AfterValidator(_track_name)]
Language = Annotated[str, BeforeValidator(_language)]
LabelledTrack = Annotated[Id | None, AfterValidator(_no_main)]


class Row(BaseModel):
    """Base of every table's rows; columns that the table does not specify are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, str_strip_whitespace=True)


class Timepoint(StrEnum):
    """When a survey is usually taken; a study may have others."""

    PRE = "pre"
    MID = "mid"
    POST = "post"


class Session(Row):
    """One conversation; paths are relative to the study. It has at least one of :data:`TIMED_FILES`."""

    session_id: SessionId
    participant_id: Id
    video: StudyPath | None = None
    audio: StudyPath | None = None
    transcript: StudyPath | None = None
    openface: StudyPath | None = None
    recorded_at: Annotated[datetime | None, BeforeValidator(_calendar_time)] = None
    language: Language | None = None  # that is spoken


class Phase(Row):
    """One part of a session, in seconds of the recording: start_s <= t < end_s."""

    session_id: SessionId
    phase: Id
    start_s: Seconds
    end_s: Seconds


class Rating(Row):
    """The participant's empathy for one of the session's stories, and whether it was reflected on."""

    session_id: SessionId
    story_id: Id
    position: Whole = Field(ge=1, le=3)
    empathy: Whole = Field(ge=1, le=5)
    reflected: bool | None = None


class Story(Row):
    """The text of one story."""

    story_id: Id
    text: str = Field(min_length=1)


class Survey(Row):
    """One score of one participant."""

    participant_id: Id
    timepoint: Id
    scale: Id
    score: Number


class Participant(Row):
    """One participant, with all other columns of the table."""

    model_config = ConfigDict(extra="allow", frozen=True, str_strip_whitespace=True)

    participant_id: Id
    consent_external: bool | None = None


class SchemeRow(Row):
    """A scheme of labels: the type of its values, and which are allowed."""

    scheme: Id
    type: SchemeType
    min: Number | None = None
    max: Number | None = None
    labels: Annotated[tuple[str, ...], BeforeValidator(_label_list)] = ()
    private: bool | None = None
    missing: Annotated[tuple[str, ...], BeforeValidator(_cell_list)] = ()
    not_missing: Annotated[tuple[str, ...], BeforeValidator(_cell_list)] = ()


class Rater(Row):
    """A person or a program that gives labels."""

    rater_id: Id
    kind: RaterKind | None = None


class Person(Row):
    """A person in a session."""

    session_id: SessionId
    person_id: Id
    participant_id: Id | None = None  # None for somebody who is no participant of the study (a robot, an experimenter)
    role: Id | None = None  # of the person in the session
    # the person's name in the session's transcripts, often a real name, so it is never shown or stored
    transcript_name: Annotated[str, BeforeValidator(as_words), Field(min_length=1)] | None = Field(None, repr=False)


_ROLES = {*"participant robot interviewer interviewee experimenter agent assistant user therapist".split()}
_NUMBERED = re.compile(r"(speaker|spk)?[ _-]?([A-Z]|\d{1,3})", re.IGNORECASE)


def is_no_name(speaker: str) -> bool:
    """Whether the speaker is a role (``participant``) or a recogniser's label (``A``, ``SPEAKER_01``): not private."""
    return speaker.lower() in _ROLES or _NUMBERED.fullmatch(speaker) is not None


def spoken_name(name: str) -> str:
    """A speaker's name in the form in which names are compared, without differences of case and spaces."""
    return " ".join(name.split()).casefold()


class TrackRow(Row):
    """The files of another device of a session."""

    session_id: SessionId
    track: TrackName
    video: StudyPath | None = None
    audio: StudyPath | None = None
    transcript: StudyPath | None = None
    openface: StudyPath | None = None
    person_id: Id | None = None
    clock: Id | None = None
    of: Id | None = None
    region: Annotated[str, AfterValidator(_region)] | None = None
    language: Language | None = None  # that is spoken, where it is not the session's


@dataclass(frozen=True)
class Track:
    """The files of one device, or a region of its picture; those of the table of sessions are the track ``main``."""

    # session_id, name: which
    session_id: str
    name: str
    # video, audio, transcript, openface: paths in the study; None where it has no such file
    video: str | None = None
    audio: str | None = None
    transcript: str | None = None
    openface: str | None = None
    person_id: str | None = None  # the person who is recorded; None where nobody is named
    clock: str | None = None  # the name of its clock; None where its seconds are the session's
    # of: the track whose picture it is a region of, whose video and clock it has; None where it is no region
    of: str | None = None
    region: str | None = None  # as the table has it: x,y,w,h, or the path of a table of boxes
    language: str | None = (
        None  # the code of the language that is spoken; of another track than main None: the session's
    )

    @property
    def box_file(self) -> str | None:
        """The path in the study of its table of boxes, if it has one."""
        return self.region if self.region and is_box_file(self.region) else None

    @property
    def box(self) -> tuple[float, float, float, float] | None:
        """Left, top, width and height of its fixed region, fractions of the upright picture, if it has one."""
        return fixed_box(self.region) if self.region and not self.box_file else None


class ClockRow(Row):
    """One moment on a device's clock and on the session's."""

    session_id: SessionId
    clock: Id
    clock_s: Number
    session_s: Number
    error_s: Number | None = Field(default=None, ge=0)  # the standard error of session_s


class LabelRow(Row):
    """One label; its scheme says how its value is read."""

    session_id: SessionId
    scheme: Id
    value: Annotated[str, BeforeValidator(as_words), Field(min_length=1)]
    start_s: Seconds | None = None
    end_s: Seconds | None = None
    track: LabelledTrack = None
    person_id: Id | None = None
    target: Id | None = None
    rater_id: Id | None = None
    confidence: Number | None = Field(default=None, ge=0, le=1)


class Curve(Row):
    """A file with a scheme's value at many moments; ``curves`` reads it."""

    session_id: SessionId
    scheme: Id
    path: StudyPath  # CSV or Parquet with time_s and value, in the study
    rater_id: Id | None = None  # who drew it; None where nobody is named
    track: LabelledTrack = None  # its times are seconds of this track's recording; None: of the session


TABLES: dict[str, type[Row]] = {
    "sessions": Session,
    "phases": Phase,
    "ratings": Rating,
    "stories": Story,
    "surveys": Survey,
    "participants": Participant,
    "schemes": SchemeRow,
    "raters": Rater,
    "persons": Person,
    "tracks": TrackRow,
    "clocks": ClockRow,
    "labels": LabelRow,
    "curves": Curve,
}
TIMED_FILES = ("video", "audio", "transcript")
"""The files that can give a session its time: the first frame, the first sample, or the transcript's second 0."""
NO_FILE = f"a session has at least one file of {', '.join(TIMED_FILES)}"
PATH_COLUMNS = ("video", "audio", "transcript", "openface", "path", "region")
NUMBER_COLUMNS = frozenset(
    {"start_s", "end_s", "position", "empathy", "score", "min", "max", "clock_s", "session_s", "error_s", "confidence"}
)
