"""The end of a run: its tables are written, and what it did is counted.

Nothing here imports Prefect: a command that finds nothing due comes here without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pandas as pd

from flows.preparation import Preparation
from flows.runs.result import RunResult
from storyframes.store import catalogue
from storyframes.store.clip_table import ClipFormatError
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import open_store
from storyframes.store.storage import StorageError
from tasks.extract import Outcome
from tasks.index import ClipIndex, update_clip_index


def conclude(
    preparation: Preparation, attempted: Sequence[Outcome], warn: Callable[[str], None] = lambda _: None
) -> RunResult:
    """Write the tables of what is published by now, and say what the run did.

    Args:
        preparation: what the run went by.
        attempted: the outcomes of what was due.
        warn: told of everything that is odd about the clips.
    """
    index, problem = write_tables(preparation)
    for session_id, reason in index.excluded.items():
        warn(f"{session_id} gives no clips: {reason}")
    for session_id, reason in index.warnings.items():
        warn(f"{session_id}: {reason}")
    for remark in index.remarks:
        warn(remark)
    asked = preparation.request.session_ids or tuple(preparation.study.sessions)
    excluded = {session_id: reason for session_id, reason in index.excluded.items() if session_id in asked}
    plan, seconds = preparation.plan, time.monotonic() - preparation.began
    return RunResult(
        (*plan.settled, *attempted),
        len(plan.work),
        len(index.clips),
        seconds,
        problem,
        excluded,
        index.warnings,
        index.remarks,
    )


def write_tables(preparation: Preparation) -> tuple[ClipIndex, str]:
    """Write the catalogue and the clip index; gives the index, and why they could not be written."""
    features = preparation.request.features
    try:
        storage = open_store(features)  # still there, after days perhaps?
        catalogue.compact(storage, (made for work in preparation.plan.work for made in work.makes))
        settings = preparation.settings
        index = update_clip_index(preparation.study, settings.clips, FeatureStore(features), settings.labels)
    except ClipFormatError as error:
        return ClipIndex(pd.DataFrame(), {}, {}), str(error)
    except (OSError, StorageError) as error:  # a full disk; what was published stays, readers keep the older tables
        problem = f"the catalogue and the clip index could not be written ({error}): extract again"
        return ClipIndex(pd.DataFrame(), {}, {}), problem
    return index, ""
