"""The command ``storyframes sync``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from flows.cli import (
    LOOK,
    ConfigOption,
    JsonOption,
    StudyArgument,
    console,
    error_console,
    fail,
    show_json,
    usage_errors,
)

if TYPE_CHECKING:
    from storyframes_sync.propose_clocks import Proposal

app = typer.Typer(**LOOK)


@app.command(rich_help_panel="Study", epilog="Next: storyframes check STUDY")
def sync(
    study: StudyArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only this session. Repeatable.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Add the clocks to the study's tables.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also measure clocks that the tables have; with --write, replace them.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Measure by their sound when a session's other cameras and microphones began, and how their clocks drift."""
    # numpy and the rest here: storyframes --help imports this module
    from flows import load_settings
    from storyframes_sync.propose_clocks import Outcome, clocks_to_write, propose_clocks, read_unsynchronised
    from storyframes_sync.write_clocks import write_clocks
    from tasks.inspect import counted
    from tasks.study import TableChangeError

    damaged: dict[str, int] = {}
    with usage_errors():
        streams = load_settings(config).recording.streams
        loaded = read_unsynchronised(study)
        if unknown := [name for name in session or [] if name not in loaded.sessions]:
            fail(f"the study has no session {', '.join(unknown)}", 2)
        chosen = [name for name in session or loaded.sessions if len(loaded.tracks.get(name, {})) > 1]
        if not chosen:
            fail("no other cameras or microphones: name them in the table 'tracks' (docs/study.md)", 2)
        with error_console().status("listening") as spinner:
            proposals = list(
                propose_clocks(
                    loaded,
                    chosen,
                    replace=replace,
                    streams=streams,
                    damaged=damaged.__setitem__,
                    progress=lambda name: spinner.update(f"listening to {escape(name)}"),
                )
            )
        clocks = clocks_to_write(proposals)
        if not json:
            console().print(_clocks_table(proposals))
        if clocks and write:
            try:
                write_clocks(study, clocks, replace=replace)
            except TableChangeError as error:
                fail(str(error), 2)
    for path, packets in damaged.items():
        error_console().print(
            f"[yellow]look at[/] {escape(path)}: {counted(packets, 'packet')} of its sound cannot be decoded and "
            "counted as silence"
        )
    if json:
        measured = [asdict(proposal) for proposal in proposals]
        show_json({"clocks": measured, "written": len(clocks) if write else 0, "damaged_sound_packets": damaged})
    elif clocks and write:
        console().print(f"written: {counted(len(clocks), 'clock')} into {escape(str(study / 'clocks.csv'))}")
        console().print(
            "'storyframes index STUDY STORE --config FILE' lets clips use them; nothing is extracted again",
            soft_wrap=True,
        )
    elif clocks:
        console().print(f"not written: {counted(len(clocks), 'clock')}; --write adds them to the study's tables")
    if refused := [proposal for proposal in proposals if proposal.outcome is Outcome.REFUSED]:
        for proposal in refused:
            where = escape(f"{proposal.session_id}, {proposal.track}")
            error_console().print(f"[bold red]refused[/] {where}: {escape(proposal.reason)}")
        raise typer.Exit(1)


def _clocks_table(proposals: Sequence[Proposal]) -> Table:
    """One row a clock: the moments that it would be written as, and how sure they are."""
    from tasks.inspect import human_time

    table = Table()
    for heading in ("session", "track", "clock", "", "clock_s = session_s", "drift"):
        table.add_column(heading, overflow="fold")
    for heading in ("shared", "pieces", "score", "residual"):
        table.add_column(heading, justify="right")
    for proposal in proposals:
        cells = [escape(proposal.session_id), escape(proposal.track), escape(proposal.clock), proposal.outcome.value]
        if match := proposal.match:
            moments = zip(match.device_s, match.session_s, strict=True)
            cells += [", ".join(f"{here:.10g} = {there:.10g}" for here, there in moments)]
            cells += [f"{match.drift_ppm:+.1f} ppm" if match.drift_ppm else "none seen"]
            cells += [human_time(match.shared_s), f"{match.agreeing} of {match.pieces}", f"{match.score:.2f}"]
            cells += [f"{match.residual_ms:.1f} ms"]
        table.add_row(*cells)
    return table
