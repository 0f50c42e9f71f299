"""The clip index: how many clips there are, and which sessions give none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import pandas as pd
from rich.markup import escape
from rich.table import Table

from flows.cli.tables.finite_json import finite_json
from storyframes.clips.splits import SPLITS
from tasks.study.problems import SHOWN_OF_A_KIND


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


def clips_json(clips: pd.DataFrame, schemes: Mapping[str, str]) -> str:
    """The same for scripts, with the columns of the index and how many clips have each label."""
    counts = clips.groupby(["phase", "split"], observed=True).size()
    content = {
        "clips": len(clips),
        "sessions": int(clips["session_id"].nunique()),
        "by_phase_and_split": [
            {"phase": str(phase), "split": str(split), "clips": int(count)} for (phase, split), count in counts.items()
        ],
        "labels": {name: {"level": level, "clips": int(clips[name].notna().sum())} for name, level in schemes.items()},
        "columns": list(map(str, clips.columns)),
    }
    return finite_json(content)


def without_clips(excluded: Mapping[str, str], warnings: Mapping[str, str], remarks: Sequence[str] = ()) -> list[str]:
    """A line for each session that gives no clips, or odd ones, and why (of very many the first), and the remarks."""
    lines = [f"[yellow]look at the clips:[/] {escape(remark)}" for remark in remarks]
    for sessions, begin in ((excluded, "[bold red]no clips of"), (warnings, "[yellow]look at")):
        shown = islice(sessions.items(), SHOWN_OF_A_KIND)
        lines += [f"{begin} {escape(session_id)}:[/] {escape(reason)}" for session_id, reason in shown]
        if len(sessions) > SHOWN_OF_A_KIND:
            lines.append(f"{begin} {len(sessions) - SHOWN_OF_A_KIND} more sessions[/]")
    return lines
