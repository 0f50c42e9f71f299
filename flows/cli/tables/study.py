"""What a study holds, what is wrong with it, and its clips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from storyframes.clips.clip_index import SPLITS
from storyframes.spec import MAIN
from tasks.inspect.formatting import counted
from tasks.study.labels import Label
from tasks.study.load import Problem, Study
from tasks.study.problems import SHOWN_OF_A_KIND, grouped_problems, grouped_remarks, shortened
from tasks.study.rows import Curve

if TYPE_CHECKING:
    import pandas as pd


def problems_table(problems: Sequence[Problem], *, every: bool | None = None) -> Table:
    """The problems of a study: every one, or those that are alike as one (None: the first of thousands of a kind)."""
    table = Table(title=f"{len(problems)} problem{'s' * (len(problems) != 1)}", title_justify="left")
    for heading in ("table", "row", "column", "value", "rule"):
        table.add_column(heading, overflow="fold")
    for problem in shortened(problems) if every is None else problems if every else grouped_problems(problems):
        cells = (problem.table, problem.place, problem.column, problem.value, problem.rule)
        table.add_row(*(escape(text) for text in cells))
    return table


def study_table(study: Study, *, every: bool = True) -> Table:
    """What a study holds, and what should be looked at: every remark, or those that are alike as one."""
    table = Table(show_header=False)
    ratings = Counter(rating.session_id for rating in study.ratings)
    without = {
        "video": "no frames, and windows in seconds",
        "audio": "sound from the video's own track",
        "transcript": "no glove, no sbert",
        "openface": "no recorded OpenFace values",
    }
    table.add_row("sessions", str(len(study.sessions)))
    people = {session.participant_id for session in study.sessions.values()}
    people |= {person.participant_id for person in study.persons if person.participant_id}
    table.add_row("participants", str(len(people)))
    table.add_row("phases", str(len(study.phases)))
    table.add_row("stories", str(len(study.stories)))
    table.add_row("ratings", str(len(study.ratings)))
    table.add_row("survey scores", str(len(study.surveys)))
    for name, what in _labels(study):
        table.add_row(name, escape(what))
    for name, count in (("persons", len(study.persons)), ("clocks", sum(map(len, study.clocks.values())))):
        if count:
            table.add_row(name, str(count))
    if tracks := Counter(track for of_session in study.tracks.values() for track in of_session if track != MAIN):
        table.add_row("tracks", ", ".join(f"{name} of {counted(count, 'session')}" for name, count in tracks.items()))
    for column, meaning in without.items():
        having = [session for session in study.sessions.values() if session.video or column != "audio"]
        count = sum(getattr(session, column) is None for session in having)
        if count:
            table.add_row(f"without {column}", f"{count} ({meaning})")
    unrated = sum(session_id not in ratings for session_id in study.sessions)
    if unrated and study.ratings:
        table.add_row(
            "without ratings", f"{unrated} (their clips have none, and are left out where nothing labels them)"
        )
    phased = {phase.session_id for phase in study.phases}
    unphased = sum(session_id not in phased for session_id in study.sessions)
    if unphased:
        clips = "no clips: a clip lies inside a phase" if study.phases else "all of a session is one phase"
        table.add_row("without phases", f"{unphased} ({clips})")
    for name, columns in study.unread.items():
        table.add_row(f"not read of {name}", escape(", ".join(columns)))
    for remark in study.remarks if every else grouped_remarks(study.remarks):
        table.add_row("look at", escape(remark))
    if kept := sum(study.schemes[curve.scheme].private for curve in study.curves):
        table.add_row("private curves", f"{kept} (they stay out of the feature store)")
    return table


def _labels(study: Study) -> Iterator[tuple[str, str]]:
    """For each scheme with labels (the table ratings is counted separately), its type and how many labels it has."""
    labels: list[Label | Curve] = [*study.labels[len(study.ratings) :], *study.curves]
    for name in dict.fromkeys(label.scheme for label in labels):
        of_scheme = [label for label in labels if label.scheme == name]
        sessions = counted(len({label.session_id for label in of_scheme}), "session")
        raters = len({label.rater_id for label in of_scheme if label.rater_id})
        by = f", by {counted(raters, 'rater')}" if raters else ""
        yield f"labels of {name}", f"{len(of_scheme)} ({study.schemes[name].type}) of {sessions}{by}"


def not_read(study: Study, *, every: bool = True) -> list[str]:
    """A line for each table with columns that nothing reads, and for each remark about how a table was read."""
    unread = [f"[yellow]not read of {name}:[/] {escape(', '.join(columns))}" for name, columns in study.unread.items()]
    remarks = study.remarks if every else grouped_remarks(study.remarks)
    return unread + [f"[yellow]look at[/] {escape(remark)}" for remark in remarks]


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


def clips_content(clips: pd.DataFrame, schemes: Mapping[str, str]) -> dict[str, Any]:
    """The same for scripts, with the columns of the index and how many clips have each label."""
    counts = clips.groupby(["phase", "split"], observed=True).size()
    return {
        "clips": len(clips),
        "sessions": int(clips["session_id"].nunique()),
        "by_phase_and_split": [
            {"phase": str(phase), "split": str(split), "clips": int(count)} for (phase, split), count in counts.items()
        ],
        "labels": {name: {"level": level, "clips": int(clips[name].notna().sum())} for name, level in schemes.items()},
        "columns": list(map(str, clips.columns)),
    }


def without_clips(excluded: Mapping[str, str], warnings: Mapping[str, str], remarks: Sequence[str] = ()) -> list[str]:
    """A line for each session that gives no clips or odd ones, with the reason (at most a few), and the remarks."""
    lines = [f"[yellow]look at the clips:[/] {escape(remark)}" for remark in remarks]
    for sessions, begin in ((excluded, "[bold red]no clips of"), (warnings, "[yellow]look at")):
        shown = islice(sessions.items(), SHOWN_OF_A_KIND)
        lines += [f"{begin} {escape(session_id)}:[/] {escape(reason)}" for session_id, reason in shown]
        if len(sessions) > SHOWN_OF_A_KIND:
            lines.append(f"{begin} {len(sessions) - SHOWN_OF_A_KIND} more sessions[/]")
    return lines
