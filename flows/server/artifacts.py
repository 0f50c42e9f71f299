"""What a run leaves on the Prefect server: its progress while it runs, a summary and a table when it has ended.

Counts, ids, statuses and reasons; never a transcript's or story's text, nor a frame.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from itertools import islice
from typing import cast
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.run import RunResult
from storyframes.spec import MAIN, feature_and_track
from storyframes.store.records import Status
from tasks.inspect.formatting import counted, human_time, markdown_table, plain_markdown

_FAILURES_SHOWN = 50
_ROWS = 10_000
_UPDATE_EVERY_S = 10.0


class ProgressArtifact:
    """How far a run is and how long it may still take, brought up to date every few seconds and at the end.

    Made in the flow that it is to belong to.
    """

    def __init__(self, due: int, unit: str = "feature") -> None:
        self._due = due
        self._unit = unit
        self._started = self._last = time.monotonic()
        self._finished = self._failed = 0
        made = create_progress_artifact(0, key="progress", description=f"0 of {counted(due, unit)}")
        self._id = cast(UUID, made)  # a coroutine only where an event loop runs

    def finished(self, *, failed: bool) -> None:
        """Count an outcome."""
        self._finished += 1
        self._failed += failed
        now = time.monotonic()
        if now - self._last < _UPDATE_EVERY_S and self._finished < self._due:
            return
        self._last = now
        update_progress_artifact(self._id, 100 * self._finished / self._due, description=self._description(now))

    def _description(self, now: float) -> str:
        """In words; the time left is the time so far scaled by the features left."""
        left = (now - self._started) / self._finished * (self._due - self._finished)
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._finished} of {counted(self._due, self._unit)}{failed}; about {human_time(left)} left"


def publish_result(result: RunResult) -> None:
    """Leave the summary and the table of a run on the server."""
    create_markdown_artifact(summary(result), key="summary", description=str(result))
    create_table_artifact(table(result), key="extraction", description=str(result))


def publish_key_tables(tables: str) -> None:
    """Leave the key tables of the study on the server (Markdown, see tasks.inspect.key_tables)."""
    create_markdown_artifact(tables, key="study", description="The study and its features after this run")


def summary(result: RunResult) -> str:
    """A run in Markdown: how many sessions and features, how fast, what failed and why, what users must know."""
    parts = {
        "extracted": result.extracted,
        "up to date": result.up_to_date,
        "without input": result.without_input,
        "failed": result.failed,
    }
    counts = [
        (name, len({outcome.session_id for outcome in outcomes}), len(outcomes)) for name, outcomes in parts.items()
    ]
    blocks = [
        "# Extraction",
        markdown_table(("", "sessions", "features"), counts),
        *_tracks(result),
        f"It took {human_time(result.seconds)}; {_index(result)}.",
        *_rates(result),
        *_failures(result),
        *_without_clips(result),
        *_caveats(result),
    ]
    return "\n\n".join(blocks)


def _tracks(result: RunResult) -> list[str]:
    others = [track for outcome in result.outcomes if (track := feature_and_track(outcome.feature)[1]) != MAIN]
    if not others:
        return []
    named = f"of other cameras and microphones: {plain_markdown(', '.join(sorted(set(others))))}"
    return [f"{counted(len(others), 'feature')} of these {'is' if len(others) == 1 else 'are'} {named}."]


def _index(result: RunResult) -> str:
    return plain_markdown(result.problem) if result.problem else f"the clip index has {result.clips} clips"


def _rates(result: RunResult) -> list[str]:
    if not result.extracted:
        return []
    rows: Counter[str] = Counter()
    seconds: dict[str, float] = defaultdict(float)
    for outcome in result.extracted:
        feature, _ = feature_and_track(outcome.feature)  # a feature costs the same, whatever track it is of
        rows[feature] += outcome.rows
        seconds[feature] += outcome.seconds
    rates = {feature: rows[feature] / seconds[feature] if seconds[feature] else 0 for feature in rows}
    lines = [(feature, rows[feature], f"{seconds[feature]:.1f}", f"{rates[feature]:.1f}") for feature in rows]
    shown = markdown_table(("feature", "rows", "seconds of work", "rows per second"), lines)
    return [shown, "Features that share a pass over the frames share its seconds."]


def _failures(result: RunResult) -> list[str]:
    if not result.failed:
        return []
    lines = [(outcome.session_id, outcome.feature, outcome.reason) for outcome in result.failed[:_FAILURES_SHOWN]]
    more = len(result.failed) - _FAILURES_SHOWN
    lines += [("…", "", f"and {more} more: see the table of this run")] if more > 0 else []
    return ["## Failed", markdown_table(("session", "feature", "why"), lines)]


def _without_clips(result: RunResult) -> list[str]:
    blocks: list[str] = []
    if result.remarks:
        blocks += ["## About the clips", "\n".join(f"- {plain_markdown(remark)}" for remark in result.remarks)]
    for heading, sessions in (("Sessions without clips", result.excluded), ("Look at these", result.warnings)):
        if sessions:
            lines = list(islice(sessions.items(), _FAILURES_SHOWN))
            more = len(sessions) - _FAILURES_SHOWN
            lines += [("…", f"and {more} more")] if more > 0 else []
            blocks += [f"## {heading}", markdown_table(("session", "why"), lines)]
    return blocks


def _caveats(result: RunResult) -> list[str]:
    having: dict[str, set[str]] = {}
    for outcome in result.outcomes:
        for caveat in outcome.caveats:
            having.setdefault(caveat, set()).add(outcome.feature)
    if not having:
        return []
    lines = [f"- {plain_markdown(f'{caveat}: ' + ', '.join(sorted(of)))}" for caveat, of in sorted(having.items())]
    return ["## Caveats: what users of these values must know", "\n".join(lines)]


def table(result: RunResult) -> list[dict[str, object]]:
    """Every session and feature of a run; of very many, those with a failure or a reason first, then as many others.

    The server keeps the table in one field of its database, and a browser shows it at once.
    """
    shown = sorted(result.outcomes, key=lambda outcome: (outcome.session_id, outcome.feature))
    if left_out := max(len(shown) - _ROWS, 0):
        shown = sorted(shown, key=lambda outcome: (not outcome.failed, outcome.status is Status.DONE))[:_ROWS]
    rows = [
        {
            "session": outcome.session_id,
            "feature": outcome.feature,
            "status": "up to date" if outcome.skipped and outcome.status is Status.DONE else str(outcome.status),
            "rows": outcome.rows,
            "seconds": round(outcome.seconds, 1),
            "reason": outcome.reason,
            "caveats": ", ".join(outcome.caveats),
        }
        for outcome in shown
    ]
    return [*rows, _more(left_out)] if left_out else rows


def _more(count: int) -> dict[str, object]:
    reason = f"and {count} more, which 'storyframes status' shows"
    return {"session": "…", "feature": "", "status": "", "rows": "", "seconds": "", "reason": reason, "caveats": ""}
