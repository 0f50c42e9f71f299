"""Small studies, and their extraction without Prefect and Dask."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from tasks.extract import Outcome
from tasks.extract import extract as do_work
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import Plan, plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study


def make_study(folder: Path, **files: str) -> Path:
    """A study of the session ``s``; ``files`` name what lies in its folder: video, audio, transcript."""
    folder.mkdir(exist_ok=True)
    names = ["session_id", "participant_id", *files]
    (folder / "sessions.csv").write_text(f"{','.join(names)}\ns,p,{','.join(files.values())}\n")
    return folder


def extract_session(
    study: Path, root: Path, *only: str, session_id: str = "s", **settings: Any
) -> tuple[FeatureStore, dict[str, Outcome]]:
    """Extract these features; the store as it is then, and what came of each."""
    if not root.exists():
        create_store(root)
    plan = plan_extraction(load_study(study), root, ExtractorsSettings(**settings), Selection((session_id,), only))
    outcomes = {outcome.feature: outcome for outcome in plan.settled}
    outcomes |= {outcome.feature: outcome for work in plan.units for outcome in do_work(work)}
    return FeatureStore(root), outcomes


def run(study: Path, root: Path, selection: Selection | None = None, **settings: Any) -> dict[str, Outcome]:
    """All the work that is due, done here; the outcomes by session/feature."""
    selection = selection or Selection(only=("openface", "opensmile"))
    plan = plan_extraction(load_study(study), root, ExtractorsSettings(**settings), selection)
    outcomes = [*plan.settled, *(outcome for work in plan.units for outcome in do_work(work))]
    return {f"{outcome.session_id}/{outcome.feature}": outcome for outcome in outcomes}


def one_session_study(folder: Path, video: Path, csv: Path | None = None, transcript: str = "") -> Path:
    """A study of one recorded file."""
    folder.mkdir(parents=True)
    shutil.copy(video, folder / video.name)
    row = {"session_id": "s1", "participant_id": "p1", "video": video.name}
    if csv is not None:
        shutil.copy(csv, folder / csv.name)
        row["openface"] = csv.name
    if transcript:
        (folder / "t.json").write_text(transcript)
        row["transcript"] = "t.json"
    pd.DataFrame([row]).to_csv(folder / "sessions.csv", index=False)
    return folder


def plan_of(study: Path, root: Path, session_id: str, feature: str, **settings: Any) -> Plan:
    """What is due of one feature of one session, with these settings of it."""
    sections: dict[str, Any] = {feature: settings}
    asked = ExtractorsSettings(**sections)
    return plan_extraction(load_study(study), root, asked, Selection((session_id,), (feature,)))
