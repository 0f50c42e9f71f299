"""The tables of docs/performance.md and of pages of features, made from docs/performance.json, where benchmarks record
what they measured.

``python -m benchmarks --tables`` writes each table of the JSON between its two markers on its page; a test compares
them. A table that was measured before the JSON existed has ``recorded_before``, with the machine and date that the page
states. ``left_off`` lists rows that stay in the JSON, each by its first cells; measuring again keeps the list.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import machine

DOCS = Path(__file__).parents[1] / "docs"
PAGE, RESULTS = DOCS / "performance.md", DOCS / "performance.json"
PAGES = (
    PAGE,
    DOCS / "transcripts.md",
    DOCS / "two-people.md",
    DOCS / "speaking.md",
)  # what a model gets right stands on the page of its feature
_BETWEEN = "\f"
_MARKED = re.compile(r"(?<=<!-- table: )([a-z0-9-]+) -->\n.*?(?=<!-- end of table -->)", re.DOTALL)


def record(
    name: str, columns: Sequence[str], rows: Iterable[Sequence[str]], libraries: Sequence[str] = (), command: str = ""
) -> None:
    """Print a table and write it into the JSON, in the place of an older one of its name.

    Args:
        rows: of as many cells as ``columns``.
        libraries: distributions whose versions are recorded.
        command: what measures it again, where that is not how this process was started.

    Raises:
        ValueError: a row has more or fewer cells.
    """
    cells = [[*row] for row in rows]
    if wrong := [row for row in cells if len(row) != len(columns)]:
        raise ValueError(f"table {name}: {wrong[0]} has {len(wrong[0])} cells, but there are {len(columns)} columns")
    versions = {library: version(library) for library in ("numpy", *libraries)}
    spec = sys.modules["__main__"].__spec__
    command = command or shlex.join(["python", "-m", spec.name if spec else "", *sys.argv[1:]])
    table = {"command": command, **machine(), "versions": versions, "columns": [*columns], "rows": cells}
    print(_as_text(table), end="")
    tables = read_tables()
    kept = {key: value for key, value in tables.get(name, {}).items() if key == "left_off"}
    write_tables(tables | {name: kept | table})
    print(f"recorded as {name} in {RESULTS.name}; python -m benchmarks --tables writes it on the page")


def show(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table that is not recorded."""
    print(_as_text({"columns": columns, "rows": [*rows], "recorded_before": True}), end="")


def read_tables() -> dict[str, dict[str, Any]]:
    """The tables by name."""
    tables: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text())
    return tables


def write_tables(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the JSON, a row of a table in a line."""
    text = []
    for name, table in tables.items():
        about = {key: value for key, value in table.items() if key not in ("columns", "rows")}
        lines = [json.dumps(row, ensure_ascii=False) for row in (table["columns"], *table["rows"])]
        rows = ",\n  ".join(lines[1:])
        head = json.dumps(about, ensure_ascii=False)[:-1]
        text.append(f'{json.dumps(name)}: {head},\n "columns": {lines[0]},\n "rows": [\n  {rows}\n ]}}')
    RESULTS.write_text("{\n" + ",\n".join(text) + "\n}\n")


def rendered(page: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with every table as the JSON has it.

    Raises:
        ValueError: a table of one is not in the other.
    """
    names = [match[1] for match in _MARKED.finditer(page)]
    if sorted(names) != sorted(tables):
        differing = sorted({*names} ^ {*tables}) or sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"not once on the page and in {RESULTS.name}: {', '.join(differing)}")
    return _MARKED.sub(lambda match: f"{match[1]} -->\n{_as_text(tables[match[1]])}", page)


def _as_text(table: Mapping[str, Any]) -> str:
    left_off = tuple(f"{cells}, " for cells in table.get("left_off", ()))
    shown = [row for row in table["rows"] if not left_off or not ", ".join(row).startswith(left_off)]
    rows = [table["columns"], *shown]
    lines = ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in rows]
    lines.insert(1, "|" + "---|" * len(table["columns"]))
    if not table.get("recorded_before"):
        versions = ", ".join(f"{name} {number}" for name, number in table["versions"].items())
        lines += ["", f"`{table['command']}`, {table['date']}, {table['machine']}, load {table['load']}; {versions}."]
    if len(shown) < len(table["rows"]):
        lines[-1] += f" {len(table['rows']) - len(shown)} more rows are in performance.json."
    return "\n".join(lines) + "\n"


def read_pages() -> str:
    """The pages with tables, one after the other."""
    return _BETWEEN.join(page.read_text() for page in PAGES)


def write_page() -> None:
    """Bring the pages' tables up to date."""
    for page, text in zip(PAGES, rendered(read_pages(), read_tables()).split(_BETWEEN), strict=True):
        page.write_text(text)
