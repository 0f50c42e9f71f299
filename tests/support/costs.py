"""What each test costs, written as one line of JSON for tests/run.py. A plug-in of pytest.

A cost is the processor seconds of this process and of the children that it waited for, from a test's set-up to its end,
without what would fall on whichever test is first: modules that are imported for the first time, and fixtures that
several tests share, which are written as lines of their own.
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
_shared = 0.0  # in fixtures that several tests share
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


def _write(line: dict[str, object]) -> None:
    if path := os.environ.get(WRITTEN_TO):
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Measure a fixture that several tests share."""
    global _shared
    began = _processor() - _imports
    result = yield
    if fixturedef.scope != "function":
        cost = _processor() - _imports - began
        _shared += cost
        _write({"fixture": f"{request.node.nodeid}: {fixturedef.argname}", "cost": round(cost, 3)})
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test and note how it ended."""
    began = _processor() - _imports - _shared
    reports = item.stash[_REPORTS] = []
    result = yield
    _write(
        {
            "test": item.nodeid,
            "outcome": next((report.outcome for report in reports if report.outcome != "passed"), "passed"),
            "reason": next((_reason(report) for report in reports if report.skipped), ""),
            "cost": round(_processor() - _imports - _shared - began, 3),
            "marks": sorted({mark.name for mark in item.iter_markers()}),
        }
    )
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_REPORTS].append(report)
    return report


def _reason(report: pytest.TestReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
