"""``storyframes sync``: the clocks of cameras and microphones, told from their sound."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import StudyArgument, console, error_console, fail, usage_errors
from tasks.inspect.formatting import counted


def sync(
    study: StudyArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only this session. Repeatable.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Add the clocks to the study's tables.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Measure clocks again that the tables have; --write then replaces them.")
    ] = False,
) -> None:
    """Measure by their sound when a session's other cameras and microphones began, and how their clocks drift."""
    from flows.cli.tables.clocks import clocks_table
    from tasks.study.changed_tables import TableChangeError, write_clocks
    from tasks.synchronise import Outcome, clocks_to_write, propose_clocks, read_unsynchronised

    with usage_errors():
        loaded = read_unsynchronised(study)
        if unknown := [one for one in session or [] if one not in loaded.sessions]:
            fail(f"the study has no session {', '.join(unknown)}", 2)
        chosen = [one for one in session or loaded.sessions if len(loaded.tracks.get(one, {})) > 1]
        if not chosen:
            fail("no other cameras or microphones: name them in the table 'tracks' (docs/study.md)", 2)
        with error_console().status("listening") as spinner:
            proposals = list(
                propose_clocks(
                    loaded,
                    chosen,
                    replace=replace,
                    progress=lambda name: spinner.update(f"listening to {escape(name)}"),
                )
            )
        console().print(clocks_table(proposals))
        clocks = clocks_to_write(proposals)
        if clocks and write:
            try:
                write_clocks(study, clocks, replace=replace)
            except TableChangeError as error:
                fail(str(error), 2)
            console().print(f"written: {counted(len(clocks), 'clock')} into {escape(str(study / 'clocks.csv'))}")
            console().print("'storyframes index STUDY STORE' has clips read by them; nothing is extracted again")
        elif clocks:
            console().print(f"not written: {counted(len(clocks), 'clock')}; --write adds them to the study's tables")
    if refused := [one for one in proposals if one.outcome is Outcome.REFUSED]:
        for one in refused:
            error_console().print(f"[bold red]refused[/] {escape(f'{one.session_id}, {one.track}: {one.reason}')}")
        raise typer.Exit(1)
