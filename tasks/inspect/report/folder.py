"""The folder of a site: written beside its place and moved there when it is whole."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import plotly

from storyframes.store.storage.files import TEMPORARY_SUFFIX, flush_folder, flush_tree

MARKER = ".storyframes-report"
_OWN_ASSETS = ("report.css", "report.js")


class ReportError(Exception):
    """The report cannot be made; the message says why and what to do."""


def check_target(out: Path) -> None:
    """Refuse a folder that holds something else.

    Raises:
        ReportError: it does.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARKER).is_file())):
        raise ReportError(f"{out} exists and is not a report: give a new or an empty folder")


@contextmanager
def new_site(out: Path) -> Iterator[Path]:
    """A private folder to write a site into, which takes the place of ``out`` when the block ends well.

    Until then an older report stays as it is; a build that fails or is killed never looks like a whole one.

    Raises:
        ReportError: ``out`` holds something else.
        OSError: it cannot be written.
    """
    check_target(out)
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    building = out.with_name(f".{out.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    before = building.with_name(f"{building.name}.old")
    before_umask = os.umask(0o077)
    try:
        building.mkdir(mode=0o700)
        _write_assets(building)
        yield building
        (building / MARKER).write_text("A report of storyframes; 'storyframes report' replaces this folder.\n")
        flush_tree(building)
        if out.exists():
            out.rename(before)
        building.rename(out)
        flush_folder(out.parent)
    finally:
        os.umask(before_umask)
        if before.exists() and not out.exists():
            before.rename(out)
        for leftover in (building, before):
            shutil.rmtree(leftover, ignore_errors=True)


def _write_assets(site: Path) -> None:
    folder = site / "assets"
    folder.mkdir(mode=0o700)
    for name in _OWN_ASSETS:
        (folder / name).write_bytes((files("tasks.inspect.report") / "assets" / name).read_bytes())
    # The library itself, once for the whole site, so that no page needs a network.
    (folder / "plotly.min.js").write_bytes((files(plotly) / "package_data" / "plotly.min.js").read_bytes())
