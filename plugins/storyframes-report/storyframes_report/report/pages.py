"""Rendering pages from templates in which everything is escaped, and the folder of a site, replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import plotly
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from rich import filesize

import storyframes
from storyframes.store import new_folder
from storyframes_report.report.chart import embed_json
from storyframes_report.report.matrix import CellState
from tasks.inspect import counted

# The state of a cell, beside its colour.
_SIGNS = {
    CellState.DONE: "✓",
    CellState.NO_INPUT: "○",
    CellState.FAILED: "✗",
    CellState.STALE: "↻",
    CellState.NOT_EXTRACTED: "…",
    CellState.NOT_ASKED: "–",
}


_TEMPLATES = "storyframes_report.report"


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, _TEMPLATES))]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": filesize.decimal, "clock": clock_time, "json": embed_json}
    environment.filters |= {"count": _count, "plural": _plural}
    environment.globals |= {"version": storyframes.__version__, "signs": _SIGNS}
    return environment


def render(template: str, package: str = _TEMPLATES, **values: Any) -> str:
    """A page from a template and its values; every string is escaped.

    Args:
        package: with the template in its folder ``templates``; a plug-in's templates may extend those of the report.
    """
    made_at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return _environment(package).get_template(template).render({"made_at": made_at, "library": _PLOTLY} | values)


def clock_time(seconds: float) -> str:
    """Seconds as ``m:ss.ss``."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}:{rest:05.2f}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {_plural(number, noun)}"


def _plural(count: int, noun: str) -> str:
    """The noun beside a count: ``clip`` for 1, else ``clips``."""
    return counted(count, noun).partition(" ")[2]


MARKER = ".storyframes-report"
# plotly.js is its bundle of the traces that the pages draw, unchanged from npm's plotly.js-cartesian-dist-min 4.1.1
# (MIT; SHA-256 79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a; a newer one: npm pack). It is loaded
# in a third of the time of the whole, which is what the Python package brings.
_PLOTLY = "plotly-cartesian.min.js"
_WHOLE_PLOTLY = "plotly.min.js"
_ASSETS = ("report.css", "report.js", "timeline.js", "player.js", "study.js", _PLOTLY, "plotly-cartesian.LICENSE.txt")


class ReportError(Exception):
    """The report cannot be written; the message says why and what to do."""


def check_target(out: Path) -> None:
    """Check that a folder is new, empty or an older report.

    Raises:
        ReportError: it holds something else.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARKER).is_file())):
        raise ReportError(f"{out} exists and is not a report: give a new or an empty folder")


def check_proxy_folder(folder: Path, out: Path) -> None:
    """Make the private folder of small copies of recordings, where it is not there.

    Raises:
        ReportError: it is in the report, which is replaced as a whole.
        OSError: it cannot be made.
    """
    if folder.resolve().is_relative_to(out.resolve()):
        raise ReportError(f"{folder} is in the report, which is replaced as a whole: give a folder beside {out}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def new_site(out: Path) -> Iterator[Path]:
    """A private folder for a site, which replaces ``out`` when the block ends without an error.

    Until then an older report stays unchanged; a build that fails or is killed leaves no incomplete report.

    Raises:
        ReportError: ``out`` holds something else.
        OSError: it cannot be written.
    """
    before_umask = os.umask(0o077)
    try:
        with new_folder(out, partial(check_target, out)) as building:
            _write_assets(building)
            yield building
            (building / MARKER).write_text("A report of storyframes; 'storyframes report' replaces this folder.\n")
    finally:
        os.umask(before_umask)


def _write_assets(site: Path) -> None:
    folder = site / "assets"
    folder.mkdir(mode=0o700)
    for name in _ASSETS:
        (folder / name).write_bytes((files("storyframes_report.report") / "assets" / name).read_bytes())


def add_whole_plotly(site: Path) -> str:
    """Put the whole plotly.js into a site, for a page with a map, say; gives its name for ``render``'s ``library``."""
    whole = files(plotly) / "package_data" / _WHOLE_PLOTLY
    (site / "assets" / _WHOLE_PLOTLY).write_bytes(whole.read_bytes())
    return _WHOLE_PLOTLY
