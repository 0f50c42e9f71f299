"""What the names of recordings say: whose session each is of, which camera or microphone it is from, and its date.

A pattern says it (``{participant}_{session}_{date}``). Without one a file's whole name is its session, unless names
differ in a word for a device alone (``p01_cam1``, ``p01_lapel``). Names that a pattern does not fit are reported
together, with patterns that fit them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import PurePosixPath

from storyframes.store.layout import ID_PATTERN
from tasks.study.labels import listed
from tasks.study.problems import UnusableFileError

_ID = r"[A-Za-z0-9._-]"
_DATE = r"\d{4}-\d{2}-\d{2}|\d{8}"
_FIELDS = {"session": f"{_ID}+", "participant": f"{_ID}+", "track": f"{_ID}+", "date": _DATE}
_PLACEHOLDER = re.compile(r"\{(\w+)\}|(\*)")
_SEPARATORS = "_- "
_DEVICE = re.compile(
    r"(?:web|action)?cam(?:era)?|kamera|gopro|(?:i?phone|handy|tablet|ipad|screen|zoom|teams|browser|video|audio|sound|voice)"
    r"|mic(?:rophone|ro)?|mikro(?:fon)?|lapel|lav(?:alier)?|headset|recorder|left|right|front|back|top|side|wide|close"
    r"|main",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"[-_]?(?:\d{1,2}|[a-d])?", re.IGNORECASE)
_SHOWN = 20  # misfits that a message lists


class FilesError(UnusableFileError):
    """These files give no table; the message names them and says what to do."""


@dataclass(frozen=True)
class Named:
    """What a recording's name says."""

    # session_id, participant_id: ids; without a participant in the name the session's
    session_id: str
    participant_id: str
    track: str = ""  # the camera or microphone, as an id; empty where the name has none
    recorded_at: str = ""  # a date as ISO 8601 has it; empty where the name has none


def read_names(keys: Sequence[str], pattern: str | None, remarks: list[str]) -> list[Named]:
    """What each name says, in the order of the names.

    Args:
        keys: the names without suffixes; with their folders where these count.
        pattern: with ``{session}``, ``{participant}``, ``{track}``, ``{date}`` and ``*``; None takes whole names.
        remarks: what should be checked is added here.

    Raises:
        FilesError: the pattern is none, or names do not fit it, fit it in two ways, have no date where it has one, or
            give no id. All such names are in the message.
    """
    if pattern is None:
        return _without_pattern(keys, remarks)
    compiled = [_compiled(pattern, how) for how in ("?", "")]  # with the shortest and the longest fields
    named, wrong = [], []
    for key in keys:
        fields, fault = _fields(compiled, key if "/" in pattern else PurePosixPath(key).name)
        try:
            named.append(_named(key, {} if fault else fields, [] if fault else remarks))
        except FilesError as error:
            fault = fault or str(error)
        if fault:
            wrong.append(fault)
    if wrong:
        lines = "\n".join(f"  {line}" for line in wrong[:_SHOWN])
        more = f"\n  and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        others = f"\n{fitting}" if (fitting := proposed(keys, but=pattern)) else ""
        raise FilesError(f"--names {pattern}: {len(wrong)} of {len(keys)} names:\n{lines}{more}{others}")
    return named


def as_id(text: str) -> str:
    """The text as an id; empty where nothing of it may be in one."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("._-")[:64]


def propose_patterns(keys: Sequence[str]) -> dict[str, int]:
    """Patterns that fit these names, each with the number of names that it fits, the best first."""
    names = [PurePosixPath(key).name for key in keys]
    counted: dict[str, int] = {}
    for separator in _SEPARATORS:
        split = [name.split(separator) for name in names]
        for length, _ in Counter(map(len, split)).most_common(2):
            columns = list(zip(*(parts for parts in split if len(parts) == length), strict=True))
            if length > 1 and (pattern := _pattern_of(columns, separator)):
                compiled = [_compiled(pattern, how) for how in ("?", "")]
                counted[pattern] = sum(not _fields(compiled, name)[1] for name in names)
    return {pattern: count for pattern, count in sorted(counted.items(), key=lambda item: -item[1]) if count}


def _pattern_of(columns: Sequence[Sequence[str]], separator: str) -> str:
    """A pattern of names whose parts are in these columns; empty where they have no session and no participant."""
    fields = []
    for values in columns:
        if all(re.fullmatch(_DATE, value) for value in values):
            fields.append("{date}")
        elif all(map(_is_device, values)):
            fields.append("{track}")
        else:
            fields.append("*" if len({*values}) == 1 < len(values) or not all(values) else "")
    ids = [index for index, field in enumerate(fields) if not field]
    if not ids:
        return ""
    several = _several_devices(separator.join(parts) for parts in zip(*columns, strict=True))
    if len(ids) > 1 and ids[-1] == len(columns) - 1 and several:
        fields[ids.pop()] = "{track}"
    for index in ids:
        fields[index] = "*"
    fields[ids[-1]] = "{session}"
    if len(ids) > 1 or (len({*columns[ids[0]]}) < len(columns[0]) and "{track}" not in fields):
        fields[ids[0]] = "{participant}"
    return separator.join(fields) if max(Counter(fields).get(field, 0) for field in _PLACES) == 1 else ""


_PLACES = tuple(f"{{{name}}}" for name in _FIELDS)


def proposed(keys: Sequence[str], *, but: str | None = None, field: str = "") -> str:
    """The patterns (with this field) that fit at least half of the names, for a message; perhaps empty."""
    counts = {
        name: count
        for name, count in propose_patterns(keys).items()
        if 2 * count >= len(keys) and name != but and field in name
    }
    return listed([f"--names '{name}' fits {count} of {len(keys)} names" for name, count in counts.items()], 3, "; ")


def _is_device(word: str) -> bool:
    match = _DEVICE.match(word)
    return bool(match and _NUMBERED.fullmatch(word[match.end() :]))


def _split(key: str) -> tuple[str, str]:
    """A name, and the last word of it."""
    cut = max(key.rfind(separator) for separator in _SEPARATORS)
    return (key[:cut], key[cut + 1 :]) if cut > key.rfind("/") + 1 else (key, "")


def _several_devices(keys: Iterable[str]) -> Collection[str]:
    """The beginnings of names that several recordings have in common, all of which end in a word for a device."""
    by_head: dict[str, set[str]] = {}
    for key in keys:
        head, tail = _split(key)
        by_head.setdefault(head, set()).add(tail)
    return [
        head
        for head, tails in by_head.items()
        if len(tails) > 1 and all(not tail or _is_device(tail) for tail in tails)
    ]


def _without_pattern(keys: Sequence[str], remarks: list[str]) -> list[Named]:
    shared = {*_several_devices(keys)}
    others = Counter(head for key in {*keys} if (head := _split(key)[0]) not in shared)
    depths = {sum(key.count(separator) for separator in _SEPARATORS) for key in keys}
    are_alike = bool(shared) and len(depths) == 1 and max(others.values(), default=1) == 1
    named, wrong = [], []
    for key in keys:
        head, tail = _split(key)
        in_parts = tail and (are_alike or head in shared)
        try:
            named.append(_named(head if in_parts else key, {"track": tail} if in_parts else {}, remarks))
        except FilesError as error:
            wrong.append(str(error))
    if wrong:
        raise FilesError(listed(wrong, _SHOWN, "\n"))
    if shared:
        remarks.append(
            f"several recordings of one session, by the words for cameras and microphones in their names: "
            f"{listed(sorted(shared), 5)}"
        )
    return named


def _named(key: str, fields: Mapping[str, str], remarks: list[str]) -> Named:
    session_id = fields.get("session") or as_id(key)
    if not session_id:
        raise FilesError(f"the name {key!r} has nothing that an id may have: rename the file, or say --names")
    if "session" not in fields and session_id != key:
        remarks.append(f"named {session_id}, because {key!r} is no id")
    recorded_at = ""
    if "date" in fields:
        try:
            recorded_at = date.fromisoformat(fields["date"]).isoformat()
        except ValueError:
            raise FilesError(f"{key!r}: {fields['date']} is no date as 2024-05-01 or 20240501") from None
    return Named(session_id, fields.get("participant") or session_id, as_id(fields.get("track", "")), recorded_at)


def _compiled(pattern: str, how: str) -> re.Pattern[str]:
    """A pattern as a regular expression, with ``how`` behind each quantifier.

    Raises:
        FilesError: it has an unknown field, or one twice.
    """
    expression, last = "", 0
    for placeholder in _PLACEHOLDER.finditer(pattern):
        expression += re.escape(pattern[last : placeholder.start()])
        last = placeholder.end()
        field = placeholder.group(1)
        if field and field not in _FIELDS:
            raise FilesError(f"--names {pattern}: there are {', '.join(_PLACES)} and *")
        if field == "date":
            expression += f"(?P<date>{_DATE})"
        else:
            expression += f"(?P<{field}>{_FIELDS[field]}{how})" if field else f".*{how}"
    try:
        return re.compile(expression + re.escape(pattern[last:]))
    except re.error:
        raise FilesError(f"--names {pattern}: has a field twice") from None


def _fields(compiled: Sequence[re.Pattern[str]], name: str) -> tuple[dict[str, str], str]:
    """The fields of a name, and why it has none: it does not fit, or in two ways, which differ in these fields."""
    ways = [match.groupdict() for expression in compiled if (match := expression.fullmatch(name))]
    if not ways:
        return {}, f"does not fit {name!r}"
    return (ways[0], "") if ways[0] == ways[1] else ({}, f"fits {name!r} in more than one way: say more of the name")


def continues(key: str, name: str) -> bool:
    """Whether a file has a recording's name, or one that continues it."""
    return key == name or bool(re.match(rf"{re.escape(name)}[^A-Za-z0-9]", key))


def session_in_name(pattern: str, name: str, sessions: Collection[str] = ()) -> str:
    """The session's id in a file's name.

    Args:
        pattern: with ``{session}`` in the place of the session's id, and ``*`` for any text; it is compared with the
            whole path where it has a ``/``, else with the path's last part.
        name: the path.
        sessions: of the study; where the name can be divided in several ways, the session is one of these.

    Raises:
        FilesError: the name does not match, or matches with several sessions.
    """
    if pattern.count("{session}") != 1:
        raise FilesError(f"--session-from {pattern}: write {{session}} once, in the place of the session's id")
    path = name.replace("\\", "/")
    against = path if "/" in pattern else PurePosixPath(path).name
    before, after = (re.escape(part).replace(r"\*", ".*") for part in pattern.split("{session}"))
    match = re.fullmatch(f"{before}({ID_PATTERN.pattern}){after}", against)
    if match is None:
        raise FilesError(f"--session-from {pattern}: does not fit {against!r}")
    fitting = [session for session in sessions if re.fullmatch(f"{before}{re.escape(session)}{after}", against)]
    if len(fitting) > 1:
        raise FilesError(f"--session-from {pattern}: {against!r} may be of {listed(fitting)}: say more of the name")
    return fitting[0] if fitting else match.group(1)
