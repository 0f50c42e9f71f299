"""The commands about runs: ``status`` of a feature store, the last ``runs``, ``deploy`` on a Prefect server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape

from flows.cli import terminal
from flows.cli.terminal import JsonOption, StoreArgument, console, error_console, fail, usage_errors

if TYPE_CHECKING:
    from flows.part_records import ArrayProgress
    from storyframes.store.record_status import FeatureStatus


def status(
    store: StoreArgument,
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session, and nothing else is read; may be given again.")
    ] = None,
    json: JsonOption = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 5,
) -> None:
    """Show what a feature store has, what is missing, and why."""
    from flows.cli.tables.status import status_json, status_tables
    from storyframes.derived_status import with_outdated
    from storyframes.store.layout import PARTS, open_store
    from storyframes.store.record_status import scan

    with usage_errors():
        storage = open_store(store)

        def look() -> Iterator[FeatureStatus]:
            for session_id in dict.fromkeys(session or ()):
                yield from with_outdated(scan(storage, session_id), storage)
            if not session:
                from storyframes.store.catalogue import current_statuses  # needs Arrow, which takes half a second

                yield from with_outdated(current_statuses(storage), storage)

        def arrays() -> Iterator[ArrayProgress]:
            if not session and storage.info(PARTS):
                from flows.part_records import array_progress  # needs pydantic, which few stores need

                yield from array_progress(storage)

        def tables() -> list[RenderableType]:
            return [*status_tables(look()), *(escape(str(array)) for array in arrays())]

        if watch:
            _watch(lambda: Group(*tables()), every)
            return
        entries: Iterable[FeatureStatus] = look()
        if session:
            entries = list(entries)
            for session_id in sorted(set(session) - {entry.session_id for entry in entries}):
                fail(f"there is no session {session_id!r} in {store}", 2)
        if json:
            for part in status_json(entries, (array.model_dump() for array in arrays())):
                print(part, end="")  # noqa: T201
            return
        shown = tables()
    console().print(*shown, sep="\n")


def _watch(look: Callable[[], RenderableType], every_s: float) -> None:
    with contextlib.suppress(KeyboardInterrupt), Live(look(), console=console(), auto_refresh=False) as live:
        while True:
            time.sleep(every_s)
            live.update(look(), refresh=True)


def runs(
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
    json: JsonOption = False,
) -> None:
    """Show the last runs on the Prefect server, and how they ended.

    What was extracted without a server (a small study, ``--workers 1``) is no run there; ``status`` shows it.
    """
    from flows.cli.tables.status import runs_json, runs_table
    from flows.server.prefect_server import prefect_server
    from flows.server.recent_runs import recent_runs

    with (
        usage_errors(),
        error_console().status("") as spinner,
        prefect_server(lambda what: spinner.update(escape(what)), read_only=True),
    ):
        spinner.update("reading the runs that it knows")
        recent = recent_runs(limit)
    if json:
        print(runs_json(recent))  # noqa: T201
    else:
        console().print(runs_table(recent))
        error_console().print("[dim]extractions without a server are not listed; 'storyframes status STORE' has all")


def deploy(
    folder: Annotated[Path, typer.Argument(help="The folder deploy of the sources: prefect.yaml and automations.")],
    alerts: Annotated[
        str | None, typer.Option(metavar="BLOCK_ID", help="Also the alerts, through this notification block.")
    ] = None,
) -> None:
    """Make or change the deployments on the Prefect server, and the automation that ends dead runs."""
    from flows.server.deployments import DeployError
    from flows.server.deployments import deploy as put

    try:
        names = put(folder, alerts)
    except DeployError as error:
        terminal.fail(str(error), 2)
    terminal.error_console().print(f"the deployments are there, and: {', '.join(names)}")
