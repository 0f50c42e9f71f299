"""All sessions of a study as short columns: the study page's map and table, and what the next report compares.

The study page carries them in the element ``sessions``. Of each feature a character for its state, the share of its
rows that are measurements in thousandths, and the beginning of a digest of its version.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storyframes import FeatureName
from storyframes_report.report.facts import StudyFacts
from storyframes_report.report.matrix import Cell, CellState
from storyframes_report.report.study_page.summary import SessionSummary

FORMAT = 1
STATES = {
    CellState.DONE: "d",
    CellState.STALE: "o",
    CellState.NO_INPUT: "s",
    CellState.FAILED: "f",
    CellState.NOT_EXTRACTED: "a",
    CellState.NOT_ASKED: "n",
}


@dataclass(frozen=True)
class StudyPage:
    """What the study page is made of."""

    facts: StudyFacts
    participants: Mapping[str, str]  # by session
    excluded: Mapping[str, str]  # by session, why it gives no clips
    clips: Mapping[str, int] | None  # by session, their number; None without a clip index
    summaries: Mapping[str, SessionSummary]  # of the sessions that have a page

    def obstacle(self, session_id: str) -> str:
        """Why a session cannot be trained on; empty where it can, with the features that it has."""
        if session_id in self.excluded:
            return self.excluded[session_id]
        if self.clips is None:
            return "there is no clip index"
        return "" if self.clips.get(session_id) else "it has no clip in the clip index"


def session_columns(page: StudyPage) -> dict[str, Any]:
    """The columns as JSON has them, each as long as the list of sessions."""
    matrix = page.facts.matrix
    notes: dict[str, int] = {"": 0}
    features = []
    for stored in matrix.features:
        cells = [matrix.cells[session, stored] for session in matrix.sessions]
        name, track = FeatureName(stored).feature, FeatureName(stored).track
        features.append(
            {
                "name": name,
                "track": track,
                "states": "".join(STATES[cell.state] for cell in cells),
                "measured": [None if cell.measured is None else round(1000 * cell.measured) for cell in cells],
                "notes": [notes.setdefault(_note(cell), len(notes)) for cell in cells],
                "versions": [hashlib.sha256(cell.version.encode()).hexdigest()[:6] for cell in cells],
            }
        )
    summaries = [page.summaries.get(session, SessionSummary()) for session in matrix.sessions]
    return {
        "format": FORMAT,
        "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "sessions": matrix.sessions,
        "pages": [int(session in page.summaries) for session in matrix.sessions],
        "participants": [page.participants.get(session, "") for session in matrix.sessions],
        "obstacles": [page.obstacle(session) if session in page.participants else "" for session in matrix.sessions],
        "clips": [(page.clips or {}).get(session, 0) for session in matrix.sessions],
        "seconds": [round(page.facts.lengths_s.get(session, 0.0), 1) for session in matrix.sessions],
        "findings": [dict(Counter(str(finding.rule) for finding in summary.findings)) for summary in summaries],
        "features": features,
        "notes": list(notes),
    }


def _note(cell: Cell) -> str:
    """What the table says of a cell beside its state and share."""
    rows = f"{cell.about_rows} rows" if cell.rows else ""
    kept = "an older version is kept" if cell.kept else ""
    return "; ".join(part for part in (cell.reason, kept, rows, *cell.caveats) if part)


def read_columns(report: Path) -> dict[str, Any] | None:
    """The columns of a report that is there; None where there is none, or one of another format."""
    try:
        page = (report / "index.html").read_text(encoding="utf-8")
        match = re.search(r'<script type="application/json" id="sessions">(.*?)</script>', page, re.DOTALL)
        deflated = json.loads(match[1])["deflated"] if match else ""
        content = json.loads(zlib.decompress(base64.b64decode(deflated)))
        return content if content["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, zlib.error, binascii.Error):
        return None
