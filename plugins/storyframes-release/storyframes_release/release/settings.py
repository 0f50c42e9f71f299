"""The configuration of a release: an allow-list, from a TOML file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import Any

from storyframes import ConfigFileError, read_toml
from storyframes.store import StoreError

ALL = "all"


class ReleaseError(StoreError):
    """A release cannot be made as requested; the message says what and why."""


@dataclass(frozen=True)
class ReleaseSettings:
    """What is released, and how it is described. Nothing is released that is not named here.

    Attributes:
        title, description, license, version, authors: for the data card, CITATION.cff and croissant.json; the licence
            is an SPDX identifier.
        url: the future address of the release; empty if unknown.
        date: of the release, ``2026-11-22``; empty for none.
        features: by feature (``stories/sbert`` of the story texts), columns, groups of columns and arrays; ``all`` for
            all of a built-in feature.
        labels: columns of labels of the clip index.
        phases: phases that keep their names; others get numbers.
        leave_out: sessions that are not released.
        allow_biometric: whether features by which a person can be recognised may be released.
        allow_text_vectors: whether vectors of utterances and stories, from which texts can be guessed, may be.
        allow_rater_ids: whether labels of single raters, whose names have the rater's id, may be.
    """

    title: str
    description: str
    license: str
    version: str
    authors: tuple[str, ...]
    url: str = ""
    date: str = ""
    features: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    allow_biometric: bool = False
    allow_text_vectors: bool = False
    allow_rater_ids: bool = False


_LISTS = {"authors", "labels", "phases", "leave_out"}
_MAY_BE_EMPTY = {"labels", "phases", "leave_out"}  # an empty list is the same as no key
_SWITCHES = {"allow_biometric", "allow_text_vectors", "allow_rater_ids"}
_NEEDED = ("title", "description", "license", "version", "authors", "features")


def read_settings(path: Path) -> ReleaseSettings:
    """The configuration of a release.

    Raises:
        ReleaseError: it is not valid; the message names the file, the key and the rule.
        OSError: it cannot be read.
    """
    try:
        content = read_toml(path)
    except ConfigFileError as error:
        raise ReleaseError(f"{path}: {error}") from None
    keys = [attribute.name for attribute in fields(ReleaseSettings)]
    if unknown := [key for key in content if key not in keys]:
        close = difflib.get_close_matches(unknown[0], keys, n=1)
        hint = f": is {close[0]!r} meant?" if close else f"; there are {', '.join(keys)}"
        raise ReleaseError(f"{path}: there is no key {unknown[0]!r}{hint}")
    if lacking := [key for key in _NEEDED if not content.get(key)]:
        raise ReleaseError(f"{path}: {lacking[0]!r} is missing or empty")
    return ReleaseSettings(**{key: _checked(path, key, value) for key, value in content.items()})


def _checked(path: Path, key: str, value: Any) -> Any:
    if key == "features":
        if not isinstance(value, dict):
            raise ReleaseError(f"{path}: features is a table: openface = ['action_units']")
        return {feature: _columns(path, feature, columns) for feature, columns in value.items()}
    if key in _LISTS:
        return _texts(path, key, value)
    if key in _SWITCHES:
        if not isinstance(value, bool):
            raise ReleaseError(f"{path}: {key} = {value!r} is not true or false")
        return value
    if not isinstance(value, str):
        raise ReleaseError(f"{path}: {key} = {value!r} is not a text in quotes")
    if key == "date" and value and not _is_date(value):
        raise ReleaseError(f"{path}: date = {value!r} is not like 2026-11-22")
    if key == "license" and not re.fullmatch(r"[A-Za-z0-9.+-]*", value):
        raise ReleaseError(f"{path}: license = {value!r} is not an identifier of SPDX, such as CC-BY-4.0")
    return value


def _is_date(text: str) -> bool:
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False


def _columns(path: Path, feature: str, columns: Any) -> tuple[str, ...] | None:
    if "@" in feature:
        raise ReleaseError(
            f"{path}: {feature!r} is of another camera or microphone, whose clock may tell a date: tracks are not "
            "released"
        )
    return None if columns == ALL else _texts(path, f"features.{feature}", columns)


def _texts(path: Path, key: str, value: Any) -> tuple[str, ...]:
    or_all = f" or {ALL!r}" if "." in key else ""
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise ReleaseError(f"{path}: {key} = {value!r} is not a list of texts{or_all}")
    if not value and key not in _MAY_BE_EMPTY:
        raise ReleaseError(f"{path}: {key} = [] names nothing: write a list of texts{or_all}, or take the line out")
    return tuple(value)
