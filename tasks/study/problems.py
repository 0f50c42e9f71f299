"""Problems of a study, with all that is needed to correct them and nothing private.

Problems reach terminals, logs and the database of a server. A cell in the wrong column may be a story, so a value is
shown only where it has the form of its column: an id, a number, a date, a path.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from storyframes.store.layout import ID_PATTERN

SHOWN_OF_A_KIND = 20  # of thousands of problems of one kind
_CUT = 60
_NAMED = 5  # findings of a kind that are named beside the first
_VARYING = re.compile(r"'[^']*'|[^\s(]*(?:\d|\w\.\w{2,4}\b)[^\s),;:]*")
_ID_COLUMNS = {
    *("session_id", "story_id", "participant_id", "phase", "scale", "timepoint"),
    *("scheme", "track", "clock", "person_id", "role", "rater_id", "target", "of"),
}
_PATH_COLUMNS = {"video", "audio", "transcript", "openface", "path", "region"}
_WORD = re.compile(r"\S{1,40}")
_DATE = re.compile(r"[0-9][0-9T:+./Z -]{0,39}")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{2,5}$")


@dataclass(frozen=True)
class Problem:
    """One problem of a study."""

    table: str  # the table's name
    row: int | None  # as a spreadsheet shows it: the header is row 1; None for the table as a whole
    column: str  # the column, or empty
    value: str  # the cell, as far as it may be shown
    rule: str  # the rule that it breaks, and what to do
    line: int | None = None  # of the file, where the row begins; None in Parquet
    kind: str = ""  # the same for problems of one kind whose rules differ in a number; else empty
    is_of_file: bool = False  # the file that the row names cannot be used: the session is set aside, the others go on

    def __post_init__(self) -> None:
        """Escape what a terminal would obey: a rule may name labels, which are cells of another table."""
        rule = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in self.rule)
        object.__setattr__(self, "rule", rule)

    @property
    def place(self) -> str:
        """The row, and its line where the two differ: a text may have several lines."""
        if self.row is None:
            return ""
        return str(self.row) if self.line in (None, self.row) else f"{self.row} (line {self.line})"

    def __str__(self) -> str:
        where = self.table + (f", row {self.place}" if self.place else "")
        what = f", {self.column} = {self.value}" if self.column else ""
        return f"{where}{what}: {self.rule}"


class UnusableFileError(Exception):
    """A file of a study, or one that is to become part of it, cannot be used; the message names it and says why."""


class StudyError(Exception):
    """The study cannot be used; ``problems`` lists everything that is wrong."""

    def __init__(self, root: Path, problems: list[Problem]) -> None:
        self.root = root
        self.problems = problems
        lines = "\n".join(f"  {problem}" for problem in shortened(problems))
        super().__init__(f"{root}: {len(problems)} problem{'s' * (len(problems) != 1)}\n{lines}")


def shortened(problems: Iterable[Problem]) -> list[Problem]:
    """The problems with at most :data:`SHOWN_OF_A_KIND` of a kind, and one line for the others of each kind."""
    counts: Counter[tuple[str, str, str]] = Counter()
    shown, more = [], {}
    for problem in problems:
        kind = (problem.table, problem.column, problem.kind or problem.rule)
        counts[kind] += 1
        if counts[kind] <= SHOWN_OF_A_KIND:
            shown.append(problem)
        else:
            more[kind] = problem
    for kind, last in more.items():
        where = f"{last.column}: " if last.column else ""
        rule = (
            f"and {counts[kind] - SHOWN_OF_A_KIND} more of this kind, the last in row {last.place}: {where}{last.rule}"
        )
        shown.append(Problem(last.table, None, "", "", rule))
    return shown


def grouped_problems(problems: Iterable[Problem]) -> list[Problem]:
    """The problems with those of a kind as one: the first, with how many others there are and in which rows."""
    kinds: dict[tuple[str, str, str], list[Problem]] = {}
    for problem in problems:
        kinds.setdefault((problem.table, problem.column, problem.kind or _kind(problem.rule)), []).append(problem)
    return [
        replace(first, rule=f"{first.rule} ({_and_alike([problem.place or problem.value for problem in others])})")
        if others
        else first
        for first, *others in kinds.values()
    ]


def grouped_remarks(remarks: Iterable[str]) -> list[str]:
    """The remarks with those of a kind as one: the first, with how many others there are and what they are about."""
    kinds: dict[str, list[str]] = {}
    for remark in remarks:
        kinds.setdefault(_kind(remark), []).append(remark)
    return [
        f"{first} ({_and_alike([match[0] if (match := _VARYING.search(remark)) else '' for remark in others])})"
        if others
        else first
        for first, *others in kinds.values()
    ]


def _kind(text: str) -> str:
    """A finding without what differs among those of its kind: quoted names, files, ids with numbers, numbers."""
    return _VARYING.sub("…", text)


def _and_alike(places: Sequence[str]) -> str:
    named = ", ".join(filter(None, dict.fromkeys(places[:_NAMED])))
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return f"and {len(places)} alike{': ' if named else ''}{named}{more}"


def shown_value(table: str, column: str, value: object) -> str:
    """A cell as a problem shows it: escaped and cut, or only its length where it could be somebody's words."""
    text = str(value)
    if text and not _has_its_columns_form(table, column, text):
        return f"({len(text)} characters)"
    return repr(text if len(text) <= _CUT else f"{text[: _CUT - 1]}…")


def _has_its_columns_form(table: str, column: str, text: str) -> bool:
    if column in _ID_COLUMNS:
        return bool(ID_PATTERN.fullmatch(text))
    if table == "stories" or column == "transcript_name":
        return False
    if column in _PATH_COLUMNS:
        return " " not in text or bool(_SUFFIX.search(text))
    return bool(_WORD.fullmatch(text) or _DATE.fullmatch(text))
