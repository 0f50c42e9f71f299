"""The tables that a run leaves on the Prefect server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from support.stores import local, publish_openface

from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import record_attempt
from storyframes.store.records import Status
from tasks.inspect.key_tables import key_tables, leaked_participants
from tasks.study.load import Study, load_study
from tasks.study.rows import Person


class Clips(FeatureStore):
    """A store with another clip index."""

    rows = pd.DataFrame()

    def clips(self) -> pd.DataFrame:
        return self.rows


@pytest.fixture
def store(store_root: Path) -> Clips:
    for session in ("p01-s01", "p02-s01"):
        publish_openface(store_root, session, 3)
    record_attempt(local(store_root), "p01-s02", "openface@child_b", Status.FAILED, "<b>| why", "")
    catalogue.compact(local(store_root))
    return Clips(store_root)


@pytest.fixture
def study(demo_study: Path) -> Study:
    return load_study(demo_study)


def test_totals_states_and_splits(store: Clips, study: Study) -> None:
    store.rows = pd.DataFrame(
        {"session_id": ["p01-s01", "p01-s01", "p02-s01"], "participant_id": ["p01", "p01", "p02"],
         "split": ["val", "val", "train"]}
    )  # fmt: skip
    lines = key_tables(study, store).splitlines()
    assert "| 3 | 2 | 3 |" in "\n".join(lines)
    assert "| openface | main | 2 | 0 | 0 |" in lines
    assert "| openface | child\\_b | 0 | 0 | 1 |" in lines
    assert lines[-2:] == ["| train | 1 | 1 | 1 |", "| val | 1 | 1 | 2 |"]
    assert "why" not in "".join(lines)


def test_whoever_is_in_two_splits_is_named_also_as_another_person(store: Clips, study: Study) -> None:
    study = replace(study, persons=(Person(session_id="p02-s01", person_id="child", participant_id="p01"),))
    store.rows = pd.DataFrame(
        {"session_id": ["p01-s01", "p02-s01"], "participant_id": ["p01", "p02"], "split": ["train", "test"]}
    )
    assert key_tables(study, store).startswith("**✗ p01 is in test and in train: leaked**")


def test_a_store_without_a_clip_index_has_no_splits(store_root: Path, study: Study) -> None:
    lines = key_tables(study, FeatureStore(store_root)).splitlines()
    assert "| 3 | 2 | 0 | 0 bytes |" in lines
    assert not any("split" in line for line in lines)
    assert leaked_participants(None, {}) == {}
