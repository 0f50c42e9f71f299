"""What the user says of a file's tiers or a sheet's columns, and what may be meant by their names and values.

``--map TIER=SCHEME:TYPE:MIN..MAX`` is of labels, ``--map COLUMN=@ROLE`` of columns that are something else.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, count

from storyframes.store import ID_PATTERN
from storyframes_labels.annotation_file import AnnotationFile, ImportFaultError
from tasks.study import SchemeType, as_id

_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_TARGET = re.compile(rf"([^:]+)(?::([a-z]+))?(?::({_NUMBER})\.\.({_NUMBER}))?")
_RANGE = re.compile(rf"[(\[]\s*({_NUMBER})\s*(?:-|–|\.\.|to|bis)\s*({_NUMBER})\s*[)\]]")
_PLAIN = re.compile(r"[+-]?(?:\d+(?:[.,]\d+)?|[.,]\d+)")


class Role(StrEnum):
    """What a sheet's column is, if it is no label."""

    FILE = "file"  # the recording's file, which says the session
    SESSION = "session"
    RATER = "rater"
    PERSON = "person"
    CONFIDENCE = "confidence"
    START = "start"
    END = "end"
    DURATION = "duration"
    TIME = "time"  # of a moment
    TIER = "tier"  # of a long sheet, with VALUE
    VALUE = "value"


TIMES = (Role.START, Role.END, Role.DURATION, Role.TIME)
SKIP = "skip"  # the answer that a tier or a column is left out
# of a nominal scheme, as it is proposed
_MOST_LABELS = 50
_WORDS_OF_A_LABEL = 3
_MEANT = {
    Role.FILE: "file filename video media recording clip datei",
    Role.SESSION: "session session_id sessionid sitzung",
    Role.RATER: "rater rater_id coder annotator observer judge beurteiler bewerter",
    Role.PERSON: "person person_id subject",
    Role.CONFIDENCE: "confidence",
    Role.START: "start start_s start_ms onset begin",
    Role.END: "end end_s end_ms offset stop",
    Role.DURATION: "duration",
    Role.TIME: "time time_s time_ms timestamp t zeit",
}


@dataclass(frozen=True)
class Target:
    """The scheme of a tier's values.

    Attributes:
        scheme: its name.
        type: None where the study's tables, or the file, have it.
        minimum, maximum: of the scheme's values; None where the user gives none.
    """

    scheme: str
    type: SchemeType | None = None
    minimum: float | None = None
    maximum: float | None = None


def parse_map(pairs: Sequence[str]) -> tuple[dict[str, Target], dict[str, Role]]:
    """The targets by tier, and the roles by column, of all ``--map``.

    Raises:
        ImportFaultError: an option has another form, or a tier or role is mapped twice.
    """
    targets: dict[str, Target] = {}
    roles: dict[str, Role] = {}
    for pair in pairs:
        tier, sign, text = pair.rpartition("=")
        if not sign or not tier:
            raise _no_mapping(pair)
        if tier in targets or tier in roles:
            raise ImportFaultError(f"--map {pair}: the tier {tier!r} is mapped already")
        if text.startswith("@"):
            if text[1:] not in [role.value for role in Role]:
                raise ImportFaultError(f"--map {pair}: the roles are {', '.join(f'@{role}' for role in Role)}")
            if text[1:] in roles.values():
                raise ImportFaultError(f"--map {pair}: another column is {text} already")
            roles[tier] = Role(text[1:])
        else:
            targets[tier] = parse_target(pair, text)
    return targets, roles


def parse_target(pair: str, text: str) -> Target:
    """The target of ``SCHEME``, ``SCHEME:TYPE`` or ``SCHEME:TYPE:MIN..MAX``, as ``pair`` has it.

    Raises:
        ImportFaultError: it has another form.
    """
    match = _TARGET.fullmatch(text)
    if not match or not ID_PATTERN.fullmatch(match[1]) or (match[2] and match[2] not in [*SchemeType]):
        raise _no_mapping(pair)
    low, high = (None, None) if match[3] is None else (float(match[3]), float(match[4]))
    if low is not None and high is not None and low >= high:
        raise ImportFaultError(f"--map {pair}: the range begins with its lowest value")
    return Target(match[1], SchemeType(match[2]) if match[2] else None, low, high)


def _no_mapping(pair: str) -> ImportFaultError:
    return ImportFaultError(
        f"--map {pair}: write tier=scheme, or tier=scheme:type with one of {', '.join(SchemeType)}, or "
        "tier=scheme:type:min..max; or, of a sheet, column=@role"
    )


def range_in_name(name: str) -> tuple[float, float] | None:
    """The range that a column's name has, as in ``Empathy (0-100)``."""
    match = _RANGE.search(name.replace("−", "-"))
    return (float(match[1]), float(match[2])) if match and float(match[1]) < float(match[2]) else None


def proposals(files: Sequence[AnnotationFile], names: Iterable[str], *, has_persons: bool = True) -> dict[str, str]:
    """What may be meant by these tiers, as ``--map`` has it: a role, or a scheme with its type and range.

    Args:
        has_persons: whether the study has a table of persons; without it a column of persons is left out.
    """
    values: dict[str, set[str]] = {}
    for annotation in (annotation for file in files for annotation in file.annotations):
        values.setdefault(annotation.tier, set()).add(annotation.value)
    columns = [column for file in files for column in file.columns]
    proposed: dict[str, str] = {}
    schemes: set[str] = set()
    for name in names:
        proposal = _proposal(name, values.get(name, set()), columns)
        if proposal == f"@{Role.PERSON}" and not has_persons:
            proposal = SKIP
        first, sign, kind = proposal.partition(":")
        numbered = (f"{first[:60]}-{number}" for number in count(2))
        scheme = next(
            name for name in chain([first], numbered) if name not in schemes
        )  # each column has one of its own
        schemes |= {scheme} if sign else set()
        proposed[name] = f"{scheme}{sign}{kind}"
    return proposed


def _proposal(name: str, values: set[str], columns: Sequence[str]) -> str:
    if name in columns:
        role = next((role for role, words in _MEANT.items() if _words(name) in words.split()), None)
        if role:
            return f"@{role}"
    if not values:
        return SKIP
    scheme = as_id(_RANGE.sub("", name).strip()).lower() or "label"
    if limits := range_in_name(name):
        return f"{scheme}:interval:{limits[0]:g}..{limits[1]:g}"
    if all(map(_PLAIN.fullmatch, values)):
        return f"{scheme}:{SchemeType.INTERVAL}"
    return f"{scheme}:{SchemeType.TEXT if _are_words(values) else SchemeType.NOMINAL}"


def _are_words(values: Collection[str]) -> bool:
    """Whether the values may be what somebody said or wrote, a transcript for example, which stays private."""
    return len(values) > _MOST_LABELS or any(len(value.split()) > _WORDS_OF_A_LABEL for value in values)


def _words(name: str) -> str:
    return re.sub(r"[\s-]+", "_", re.sub(r"[(\[].*", "", name).strip()).casefold()


def as_options(proposed: Mapping[str, str]) -> str:
    """The proposals as a shell would take them."""
    return " ".join(
        f"--skip {shlex.quote(name)}" if text == SKIP else f"--map {shlex.quote(f'{name}={text}')}"
        for name, text in proposed.items()
    )
