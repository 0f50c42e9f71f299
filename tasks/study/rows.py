"""The rows of a study's tables: what each column holds, checked cell by cell.

Ids and paths come from people's spreadsheets and end up in file names and command lines, so they are not trusted.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from storyframes.store.layout import ID_PATTERN, why_no_session
from tasks.study.labels import RaterKind, SchemeType

_DECIMAL_COMMA = re.compile(r"\s*([+-]?\d+),(\d+)\s*")
_ISO_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}(?:[T ].*)?", re.DOTALL)
_DAY_NUMBER = re.compile(r"\s*(\d{5})(?:[.,]\d*)?\s*")
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
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _plain_number(value: object) -> object:
    # Python's own notations, which pydantic takes as well: 1_5 would be 15, and True 1.
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise ValueError("must be a number in digits")
    if isinstance(value, str) and (comma := _DECIMAL_COMMA.fullmatch(value)):
        whole, decimals = comma.groups()
        raise ValueError(f"must be a number with a decimal point: is {whole}.{decimals} meant?")
    return value


def _calendar_time(value: object) -> object:
    # pydantic takes a number for seconds since 1970, also 20240501, and 45413.5 of a spreadsheet.
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


def as_words(value: object) -> object:
    """A label as text, whatever type its column has in Parquet."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(int(value)) if float(value).is_integer() else repr(value)
    return value


def _label_list(value: object) -> object:
    if not isinstance(value, str):
        return value
    labels = tuple(label.strip() for label in value.split("|"))
    if "" in labels or len(set(labels)) < len(labels):
        raise ValueError("the labels are separated by '|', and none is empty or there twice: low|medium|high")
    return labels


def _track_name(value: str) -> str:
    if reason := why_no_session(f"feature-{value}"):
        raise ValueError(reason)
    return value


Id = Annotated[str, AfterValidator(_safe_id)]
SessionId = Annotated[str, AfterValidator(_session_id)]
StudyPath = Annotated[str, AfterValidator(_relative_path)]
Seconds = Annotated[float, BeforeValidator(_plain_number), Field(ge=0), AfterValidator(_finite)]
Whole = Annotated[int, BeforeValidator(_plain_number)]
Number = Annotated[float, BeforeValidator(_plain_number), AfterValidator(_finite)]
TrackName = Annotated[Id, AfterValidator(_track_name)]


class Row(BaseModel):
    """Base of every table's rows; columns that the table does not specify are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True, str_strip_whitespace=True)


class Timepoint(StrEnum):
    """When a survey is usually taken; a study may have others."""

    PRE = "pre"
    MID = "mid"
    POST = "post"


class Session(Row):
    """One recorded conversation; paths are relative to the study."""

    session_id: SessionId
    participant_id: Id
    video: StudyPath
    audio: StudyPath | None = None
    transcript: StudyPath | None = None
    openface: StudyPath | None = None
    recorded_at: Annotated[datetime | None, BeforeValidator(_calendar_time)] = None


class Phase(Row):
    """One part of a session, in seconds of the recording: start_s <= t < end_s."""

    session_id: SessionId
    phase: Id
    start_s: Seconds
    end_s: Seconds


class Rating(Row):
    """How much empathy the participant felt for one of the session's stories, and whether it was reflected on."""

    session_id: SessionId
    story_id: Id
    position: Whole = Field(ge=1, le=3)
    empathy: Whole = Field(ge=1, le=5)
    reflected: bool | None = None


class Story(Row):
    """One story that sessions tell."""

    story_id: Id
    text: str = Field(min_length=1)


class Survey(Row):
    """One score of one participant."""

    participant_id: Id
    timepoint: Id
    scale: Id
    score: Number


class Participant(Row):
    """One participant, with whatever else the study knows."""

    model_config = ConfigDict(extra="allow", frozen=True, str_strip_whitespace=True)

    participant_id: Id
    consent_external: bool | None = None


class SchemeRow(Row):
    """What the labels of one name are, and which there may be."""

    scheme: Id
    type: SchemeType
    min: Number | None = None
    max: Number | None = None
    labels: Annotated[tuple[str, ...], BeforeValidator(_label_list)] = ()
    private: bool | None = None


class RaterRow(Row):
    """Who, or what, gives labels."""

    rater_id: Id
    kind: RaterKind | None = None


class PersonRow(Row):
    """Somebody in a session; without a participant_id no participant of the study (a robot, an experimenter)."""

    session_id: SessionId
    person_id: Id
    participant_id: Id | None = None
    role: Id | None = None
    transcript_name: Annotated[str, BeforeValidator(as_words), Field(min_length=1)] | None = None


class TrackRow(Row):
    """Files of one more device of a session."""

    session_id: SessionId
    track: TrackName
    video: StudyPath | None = None
    audio: StudyPath | None = None
    transcript: StudyPath | None = None
    openface: StudyPath | None = None
    person_id: Id | None = None
    clock: Id | None = None


class ClockRow(Row):
    """One moment as a device's clock has it, and as the session has it."""

    session_id: SessionId
    clock: Id
    clock_s: Number
    session_s: Number


class LabelRow(Row):
    """One label; its value is read as its scheme wants it."""

    session_id: SessionId
    scheme: Id
    value: Annotated[str, BeforeValidator(as_words), Field(min_length=1)]
    start_s: Seconds | None = None
    end_s: Seconds | None = None
    track: Id | None = None
    person_id: Id | None = None
    target: Id | None = None
    rater_id: Id | None = None
    confidence: Number | None = Field(default=None, ge=0, le=1)


class CurveRow(Row):
    """A file with a label that changes all the time."""

    session_id: SessionId
    scheme: Id
    path: StudyPath
    rater_id: Id | None = None
    track: Id | None = None


TABLES: dict[str, type[Row]] = {
    "sessions": Session,
    "phases": Phase,
    "ratings": Rating,
    "stories": Story,
    "surveys": Survey,
    "participants": Participant,
    "schemes": SchemeRow,
    "raters": RaterRow,
    "persons": PersonRow,
    "tracks": TrackRow,
    "clocks": ClockRow,
    "labels": LabelRow,
    "curves": CurveRow,
}
PATH_COLUMNS = ("video", "audio", "transcript", "openface", "path")
NUMBER_COLUMNS = frozenset(
    {"start_s", "end_s", "position", "empathy", "score", "min", "max", "clock_s", "session_s", "confidence"}
)
