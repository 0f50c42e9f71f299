"""``storyframes prosody``: how much and how each person speaks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import (
    LOOK,
    JsonOption,
    StoreArgument,
    cannot_write,
    console,
    error_console,
    fail,
    listed,
    show_json,
    usage_errors,
)

if TYPE_CHECKING:
    from tasks.forgetting import Asked, Trace

TABLE = "persons_prosody.csv"
_SHOWN = "session_id person talk_share turns words_per_s articulation_rate pause_share f0_median_hz".split()

app = typer.Typer(
    help="How people speak: rates, pauses, pitch.", rich_help_panel="Analyse", no_args_is_help=True, **LOOK
)


@app.callback()
def prosody() -> None:
    """Typer runs a single command without its name; this callback prevents it."""


@app.command(epilog="Next: storyframes import labels --help")
def persons(
    store: StoreArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only these: a comma list, or repeat.")] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Only their utterances, 'main' for the sessions' own: a comma list, or repeat."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help=f"A new folder for {TABLE} (mode 0600).")] = None,
    json: JsonOption = False,
) -> None:
    """Show for each person and session: talk time, turns, rates, pauses, pitch, overlaps."""
    import pandas as pd

    from storyframes import FeatureStore
    from storyframes.store import StoreError
    from storyframes_prosody.persons import FEATURE, features_of, person_table

    if out is not None and out.exists():
        fail(f"{out} exists: name a folder that does not", 2)
    tables, refused = [], {}
    with usage_errors():
        opened = FeatureStore(store)
        having = [name for name in opened.sessions if features_of(opened, name)]
        tracks = listed("--track", track)
        for session_id in listed("--session", session) or having:
            try:
                tables.append(person_table(opened, session_id, tracks))
            except StoreError as error:
                refused[session_id] = str(error)
    if not tables:
        reasons = "; ".join(refused.values()) or f"{store}: no session has {FEATURE!r}: extract it first"
        fail(reasons, 2)
    table = pd.concat(tables, ignore_index=True)
    if out is not None:
        try:
            out.mkdir(mode=0o700, parents=True)
            with open(out / TABLE, "x", opener=partial(os.open, mode=0o600), newline="") as file:
                table.to_csv(file, index=False, lineterminator="\n")
        except OSError as error:
            cannot_write(out, error)
    if json:
        show_json({"persons": table.to_dict("records"), "refused": refused})
    else:
        console().print(table[_SHOWN].to_string(index=False, float_format="%.3g"), markup=False)
    for caveats, of_caveats in table[table["caveats"] != ""].groupby("caveats"):
        sessions = ", ".join(of_caveats["session_id"].unique())
        error_console().print(f"caveats of {FEATURE}: {caveats} ({sessions})", markup=False)
    for name, reason in refused.items():
        error_console().print(f"{name} is left out: {reason}", markup=False)
    if refused:
        raise typer.Exit(1)


def find_forgotten(asked: Asked) -> Iterator[Trace]:
    """The rows of forgotten sessions in tables of persons."""
    yield from asked.table_traces((TABLE,), "tables of how people speak")
