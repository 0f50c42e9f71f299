"""Planning a study of very many sessions: one of which nothing is extracted yet, and one in which nothing changed."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.scaling import unchanged_study
from benchmarks.scaling.scale import Measure
from benchmarks.scaling.scale_study import SETTINGS, many_sessions
from storyframes.store.layout import create_store
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

_UNCHANGED = (269, 2_000, 10_000)  # sessions: a store has 60 files for each


def _new(folder: Path, sessions: int) -> tuple[Path, Path, ExtractorsSettings]:
    study = many_sessions(folder, sessions)
    create_store(folder / "features")
    return study.root, folder / "features", SETTINGS


def _unchanged(folder: Path, sessions: int) -> tuple[Path, Path, ExtractorsSettings]:
    study, store = unchanged_study.unchanged_study(folder, sessions)
    return study.root, store, unchanged_study.SETTINGS


def _plan(made: tuple[Path, Path, ExtractorsSettings]) -> str:
    root, store, settings = made
    study = load_study(root)
    plan = plan_extraction(study, store, settings, Selection(), cpus=len(os.sched_getaffinity(0)))
    return f"{plan.counts.due:,} features due, {plan.counts.idle:,} up to date"


PLANNING = Measure("planning a new study", _new, _plan)
PLANNING_UNCHANGED = Measure("planning an unchanged one", _unchanged, _plan, _UNCHANGED)
