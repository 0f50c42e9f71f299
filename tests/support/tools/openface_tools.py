"""Programs that stand in for OpenFace's, and the extraction of that one feature."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from storyframes.store.feature_store import FeatureStore
from tasks.extract import Outcome
from tasks.extract import extract as do_work
from tasks.extractors.openface.extractor import OpenFaceSettings
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study


def script(folder: Path, body: str) -> Path:
    """A shell script under the name of OpenFace's program."""
    path = folder / "FeatureExtraction"
    path.write_text("#!/bin/sh\n" + textwrap.dedent(body))
    path.chmod(0o755)
    return path


def replaying_tool(folder: Path, csv: Path, *, exit_code: int = 0, keep_lines: int | None = None) -> Path:
    """A stand-in for FeatureExtraction: writes a recorded CSV under the name the real tool would use."""
    keep = f"head -n {keep_lines}" if keep_lines else "cat"
    return script(
        folder,
        f"""
        while [ $# -gt 0 ]; do
            case "$1" in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift
        done
        name=$(basename "$input"); zcat -f '{csv}' | {keep} > "$out/${{name%.*}}.csv"
        echo "Attempting to read from file: $input"
        exit {exit_code}
        """,
    )


def extract(study: Path, root: Path, session_id: str, **openface: Any) -> Outcome:
    """What became of the feature openface of a session, extracted with these settings."""
    if (tool := openface.get("binary")) and openface["backend"] == "binary":
        openface = {"loads": [tool]} | openface  # a script: what it runs is named

    sections: dict[str, Any] = {"openface": OpenFaceSettings(**openface)}
    settings = ExtractorsSettings(**sections)
    plan = plan_extraction(load_study(study), root, settings, Selection((session_id,), ("openface",)))
    outcomes = {outcome.feature: outcome for outcome in plan.settled}
    outcomes |= {outcome.feature: outcome for work in plan.units for outcome in do_work(work)}
    return outcomes["openface"]


def open_values(root: Path, session_id: str) -> np.ndarray:
    return FeatureStore(root).read(session_id, "openface")
