"""A study of the paper's size in which nothing changed: what planning it opens, and that nothing is due."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.unchanged_study import SETTINGS, unchanged_study
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection

SESSIONS, FEATURES = 269, 6
_watching: list[Counter[str]] = []


def _note(event: str, arguments: tuple) -> None:
    if event == "open" and _watching and isinstance(arguments[0], str | os.PathLike):
        _watching[-1][os.fspath(arguments[0])] += 1


@contextmanager
def files_opened() -> Iterator[Counter[str]]:
    """Every file that this process opens in the block, and how often; Python itself reports them."""
    if not _watching:
        sys.addaudithook(_note)
    _watching.append(Counter())
    try:
        yield _watching[-1]
    finally:
        _watching[-1] = Counter()  # an audit hook stays for ever


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return unchanged_study(tmp_path_factory.mktemp("scale"), SESSIONS)


def below(opened: Counter[str], folder: Path) -> Counter[str]:
    """How often files of each name below ``folder`` were opened."""
    names: Counter[str] = Counter()
    for path, times in opened.items():
        if Path(path).is_relative_to(folder):
            names[Path(path).name] += times
    return names


@pytest.mark.slow
def test_an_unchanged_study_of_269_sessions_is_settled_by_its_records_alone(study) -> None:
    of_study, store = study
    with files_opened() as opened:
        plan = plan_extraction(of_study, store, SETTINGS, Selection())
    assert plan.work == []
    assert len(plan.settled) == SESSIONS * FEATURES
    assert below(opened, of_study.root) == {}
    read = below(opened, store)
    assert read.pop("current.json") == SESSIONS * FEATURES
    assert read.pop("inputs.json") == 1
    assert read.pop("zarr.json") == 2  # the root's: whether there is a store, and whether it is as it has to be
    assert read.pop(".store.lock") == 1  # whether the file system has locks
    assert read == {}
    models = [path for path in opened if Path(path).name in ("model.safetensors", "glove.demo.300d.txt")]
    assert models == []


@pytest.mark.slow
def test_one_changed_input_is_read_once_and_makes_its_session_due(study) -> None:
    of_study, store = study
    changed = of_study.path(of_study.sessions["s0100"].transcript)
    changed.write_text("another transcript")
    os.utime(changed, (1_700_000_001, 1_700_000_001))
    for expected in (1, 0):  # the second time its digest is known
        with files_opened() as opened:
            plan = plan_extraction(of_study, store, SETTINGS, Selection())
        assert sorted(work.name for work in plan.work) == ["s0100/glove", "s0100/sbert"]
        assert sum(below(opened, of_study.root).values()) == expected
