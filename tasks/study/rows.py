"""The rows of a study's tables: what each column holds, checked cell by cell.

Ids and paths come from people's spreadsheets and end up in file names and command lines, so they are not trusted.
"""

from __future__ import annotations

import math
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from storyframes.store.layout import ID_PATTERN, why_no_session


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
    if path.is_absolute() or ".." in path.parts or "\\" in value:
        raise ValueError("a path is relative to the study folder and never leaves it")
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
    return value


def _calendar_time(value: object) -> object:
    # pydantic takes a number for seconds since 1970, also 20240501.
    if isinstance(value, (int, float)) or (isinstance(value, str) and value.strip().lstrip("+-").isdigit()):
        raise ValueError("must be a date or a time as ISO 8601 writes it: 2024-05-01T10:30")
    return value


Id = Annotated[str, AfterValidator(_safe_id)]
SessionId = Annotated[str, AfterValidator(_session_id)]
StudyPath = Annotated[str, AfterValidator(_relative_path)]
Seconds = Annotated[float, BeforeValidator(_plain_number), Field(ge=0), AfterValidator(_finite)]
Whole = Annotated[int, BeforeValidator(_plain_number)]


class Row(BaseModel):
    """Base of every table's rows; columns that the table does not specify are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True, str_strip_whitespace=True)


class Timepoint(StrEnum):
    """When a survey was taken."""

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
    """How much empathy the participant felt for one of the session's stories."""

    session_id: SessionId
    story_id: Id
    position: Whole = Field(ge=1, le=3)
    empathy: Whole = Field(ge=1, le=5)


class Story(Row):
    """One story that sessions tell."""

    story_id: Id
    text: str = Field(min_length=1)


class Survey(Row):
    """One score of one participant."""

    participant_id: Id
    timepoint: Timepoint
    scale: Id
    score: Annotated[float, BeforeValidator(_plain_number), AfterValidator(_finite)]


class Participant(Row):
    """One participant, with whatever else the study knows."""

    model_config = ConfigDict(extra="allow", frozen=True, str_strip_whitespace=True)

    participant_id: Id


TABLES: dict[str, type[Row]] = {
    "sessions": Session,
    "phases": Phase,
    "ratings": Rating,
    "stories": Story,
    "surveys": Survey,
    "participants": Participant,
}
PATH_COLUMNS = ("video", "audio", "transcript", "openface")
