"""The pages' HTML, from templates in which everything is escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

import storyframes
from storyframes.store.records import now
from tasks.inspect.formatting import human_bytes
from tasks.inspect.report.chart import embed_json
from tasks.inspect.report.matrix import CellState

# What a cell says without its colour.
_SIGNS = {
    CellState.DONE: "✓",
    CellState.SKIPPED: "○",
    CellState.FAILED: "✗",
    CellState.STALE: "↻",
    CellState.ABSENT: "…",
    CellState.NOT_ASKED: "–",
}


_TEMPLATES = "tasks.inspect.report"


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, _TEMPLATES))]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": human_bytes, "clock": clock_time, "count": _count, "json": embed_json}
    environment.globals |= {"version": storyframes.__version__, "signs": _SIGNS}
    return environment


def render(template: str, package: str = _TEMPLATES, **values: Any) -> str:
    """A page.

    Args:
        template: its file.
        package: whose folder ``templates`` has it; a plug-in's templates may extend those of the report.
        values: what it shows; every string is escaped.
    """
    return _environment(package).get_template(template).render(made_at=now()[:16].replace("T", " ") + " UTC", **values)


def clock_time(seconds: float) -> str:
    """Seconds as ``m:ss.ss``."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}:{rest:05.2f}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
