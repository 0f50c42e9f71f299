"""``storyframes import labels``: annotations of other programs become rows of the study's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import LOOK, console, error_console, fail, usage_errors
from tasks.inspect.formatting import counted

import_app = typer.Typer(help="Bring what other programs wrote into a study's tables.", no_args_is_help=True, **LOOK)


@import_app.callback()
def _root() -> None:
    """Keeps ``labels`` a command of its own name while it is the only one."""


@import_app.command("labels")
def import_labels(
    file: Annotated[
        Path, typer.Argument(help="ELAN's .eaf, Praat's .TextGrid, or a .csv (audformat's, wide or long).")
    ],
    to: Annotated[Path, typer.Option("--to", help="The study whose tables labels and schemes are added to.")],
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="TIER=SCHEME", help="Also TIER=SCHEME:TYPE, where the scheme is new. Repeatable."
        ),
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(help="A tier to leave out; '*': all that are not mapped.")] = None,
    session: Annotated[str | None, typer.Option(help="The session that the file is of.")] = None,
    session_from: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Where the name says it: '{session}_annotated.eaf'.")
    ] = None,
    rater: Annotated[str | None, typer.Option(help="Who labelled: a rater_id.")] = None,
    person: Annotated[str | None, typer.Option(help="Whom the labels are about: a person_id.")] = None,
    track: Annotated[
        str | None, typer.Option(help="The recording that was labelled, if not the session's own.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Where a CSV's labels begin, if the column is not called start_s."),
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="COLUMN", help="Where they end.")] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="How long they are, in place of --end.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Of a CSV's times: s or ms, where the columns' names do not say it.")
    ] = None,
    no_times: Annotated[
        bool, typer.Option("--no-times", help="The labels are of whole sessions, although columns look like times.")
    ] = False,
    offset: Annotated[float | None, typer.Option(help="Seconds to add to every time.")] = None,
) -> None:
    """Add labels to a study from a file of annotations; nothing is written unless all of it can be."""
    from tasks.study.importers.annotation_file import ImportFaultError
    from tasks.study.importers.import_labels import Import, import_labels, parse_map, read_annotations
    from tasks.study.importers.label_table import TimeColumns

    if session and session_from:
        fail("give either --session or --session-from", 2)
    with usage_errors():
        try:
            how = Import(
                parse_map(map_ or []), skip or [], session, session_from, rater, person, track, offset, no_times
            )
            columns = TimeColumns(start or "", end or "", duration or "")
            read = read_annotations(file, unit, columns if columns.names else None)
            imported = import_labels(read, how, to)
        except ImportFaultError as error:
            fail(str(error), 2)
    for remark in read.remarks:
        error_console().print(f"[yellow]look at[/] {escape(f'{read.name}: {remark}')}")
    shown = console()
    for scheme in imported.schemes:
        labels = f", with {counted(len(scheme.labels), 'label')}" if scheme.labels else ""
        shown.print(f"new scheme {escape(scheme.name)}: {scheme.type}{labels}")
    total = counted(sum(imported.labels.values()), "label")
    schemes = ", ".join(f"{name} {count}" for name, count in imported.labels.items())
    sessions = counted(len(imported.sessions), "session")
    shown.print(f"{total} ({escape(schemes)}) of {sessions}; times read as {read.unit}")
