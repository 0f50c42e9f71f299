"""A study of the paper's size in which nothing changed: what planning it opens, and that nothing is due."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.opened_files import below, files_opened

from benchmarks.unchanged_study import SETTINGS, unchanged_study
from storyframes.store.layout import create_store
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection

SESSIONS, FEATURES = 269, 6


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return unchanged_study(tmp_path_factory.mktemp("scale"), SESSIONS)


@pytest.mark.slow
def test_an_unchanged_study_of_269_sessions_is_settled_by_its_records_alone(study) -> None:
    of_study, store = study
    storage = create_store(store)
    with files_opened() as opened:
        plan = plan_extraction(of_study, storage, SETTINGS, Selection())
    assert plan.work == []
    assert len(plan.settled) == SESSIONS * FEATURES
    assert below(opened, of_study.root) == {}
    read = below(opened, store)
    assert read.pop("current.json") == SESSIONS * FEATURES
    assert read.pop("inputs.json") == 1
    assert read == {}  # that it is a store is known to the caller, who opened it
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
