"""What each test costs, written as one line of JSON for tests/run.py. A plug-in of pytest.

A cost is the processor seconds of this process and of the children that it waited for, from a test's set-up to its end,
without what modules took to import for the first time, which would fall on whichever test is first. A fixture that
several tests share falls on the first of them.
"""

from __future__ import annotations

import builtins
import json
import os
import resource
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

WRITTEN_TO = "STORYFRAMES_TEST_COSTS"  # names the file; without it nothing is measured
_importing = 0  # how deep
_imports = 0.0
_import = builtins.__import__


def _processor() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _measured_import(*arguments: Any, **named: Any) -> Any:
    global _importing, _imports
    _importing += 1
    began = time.process_time() if _importing == 1 else 0.0
    try:
        return _import(*arguments, **named)
    finally:
        _importing -= 1
        if not _importing:
            _imports += time.process_time() - began


if os.environ.get(WRITTEN_TO):
    builtins.__import__ = _measured_import


_REPORTS = pytest.StashKey[list[pytest.TestReport]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test and note how it ended."""
    began = _processor() - _imports
    reports = item.stash[_REPORTS] = []
    result = yield
    if path := os.environ.get(WRITTEN_TO):
        line = {
            "test": item.nodeid,
            "outcome": next((report.outcome for report in reports if report.outcome != "passed"), "passed"),
            "reason": next((_reason(report) for report in reports if report.skipped), ""),
            "cost": round(_processor() - _imports - began, 3),
            "marks": sorted({mark.name for mark in item.iter_markers()}),
        }
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_REPORTS].append(report)
    return report


def _reason(report: pytest.TestReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
