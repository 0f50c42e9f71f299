"""The commands about runs: ``status`` of a feature store, ``show`` of a session, the last ``runs``, ``deploy``.

``jobs`` writes scripts that extract a study as an array of jobs of a batch system.
"""

from __future__ import annotations

import contextlib
import json as jsonlib
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from flows.cli import terminal
from flows.cli.clips import arrays_of
from flows.cli.terminal import (
    ConfigOption,
    JsonOption,
    StoreArgument,
    StudyArgument,
    console,
    error_console,
    fail,
    listed,
    usage_errors,
)
from flows.clusters.job_arrays import Job, Scheduler, limits_time, scripts
from storyframes.spec import MAIN, feature_and_track
from tasks.inspect.formatting import counted, human_time

if TYPE_CHECKING:
    from flows.part_records import ArrayProgress
    from flows.server.recent_runs import RecentRun
    from storyframes.store.record_status import FeatureStatus

MARGIN = 3.0  # times the expected CPU time: machines differ, and costs are of one of them
_MARGIN_OF_MEASURED = 2.0  # nodes differ, and so do recordings
_START_S = 600
_COMMAND = (sys.executable, "-P", "-m", "flows.cli")  # whatever lies in the folder where the job begins
_INDEX_S = 3600
_INDEX_GB = 4
_INDEX_COMMENT = "ends with 1 where parts are missing or features of them failed; --parts-may-be-missing ends with 0"
# Quotes, and what one of the batch systems replaces, or takes for the end of a machine's name or of an item of a list.
_NOT_IN_A_PATH = "'\"\\`$%:,"


def jobs(
    study: StudyArgument,
    store: StoreArgument,
    scheduler: Annotated[Scheduler, typer.Option(help="The batch system.")],
    out: Annotated[Path, typer.Option(help="The folder for the scripts and the jobs' outputs.")] = Path("jobs"),
    parts: Annotated[int, typer.Option(min=1, help="Maximum number of jobs in an array.")] = 40,
    features: Annotated[
        list[str] | None, typer.Option(help="Only these features, with commas between them; repeat for more.")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(min=1, help="Processors of a job; by default what its features need.")
    ] = None,
    memory: Annotated[
        int | None, typer.Option(min=1, help="Memory of a job in GB; by default what its features need.")
    ] = None,
    walltime: Annotated[
        int | None,
        typer.Option(min=2, help="Minutes that a job may take; by default a multiple of what is expected."),
    ] = None,
    directive: Annotated[
        list[str] | None, typer.Option(help="A further option of the array's jobs, as --partition=long; repeat.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write scripts for an array of jobs, each for a part of the study, and for a job that writes the clip index.

    Run ``submit.sh`` to submit them, and again for what is left: what is done is skipped. Nothing is submitted here.
    """
    from flows.clusters.gpu_sharing import JOB_PROCESSES, PROCESS_GB, processes_per_gpu
    from flows.part_records import Expected, check_walltime, measured_over_expected
    from flows.settings import check_labels, load_settings
    from storyframes.store.layout import open_storage
    from tasks.planning.parts import (
        costs_alone,
        deal,
        gpu_features,
        gpu_needs,
        memory_needed_gb,
        processors_needed,
        session_costs,
    )
    from tasks.planning.selection import Selection
    from tasks.planning.sources import curve_features
    from tasks.study.load import load_study

    folder = out.resolve()
    if bad := next((character for character in str(folder) if character.isspace() or character in _NOT_IN_A_PATH), ""):
        fail(f"--out {folder}: a batch system takes no path with {bad!r} for its outputs", 2)
    if any("\n" in line for line in directive or ()):
        fail("--directive: one line each", 2)
    if own := next((line for line in directive or () if limits_time(scheduler, line)), ""):
        fail(f"--directive {own}: --walltime says how long a job may take", 2)
    only = listed("--features", features)
    with usage_errors():
        settings = load_settings(config).resolved()
        loaded = load_study(study, recordings=settings.recording.root)
        check_labels(settings, loaded)
        curves = curve_features(loaded, settings.labels)
        Selection(only=only or None).check(loaded, settings, curves)
        asked = only or (*settings.features, *curves)
        on_gpu = gpu_features(settings, asked)
        groups = {"cpu": tuple(name for name in asked if name not in on_gpu), "gpu": on_gpu}
        where = store if "://" in store else str(Path(store).resolve())
        common = (str(study.resolve()), where, *(("--config", str(config.resolve())) if config else ()))
        storage, arrays = open_storage(store), []
        for name, group in groups.items():
            if not group:
                continue
            costs = session_costs(loaded, settings, Selection(only=group))
            needed, gb_each = processors_needed(settings, group), memory_needed_gb(settings, group)
            sharing = 1
            if name == "gpu":
                processors = (cpus or JOB_PROCESSES * needed) // needed
                room = memory * PROCESS_GB / gb_each * 1e9 if memory else math.inf
                sharing = processes_per_gpu(gpu_needs(settings, group), cpus=processors, memory=room)
            dealt = deal(costs, min(sharing * parts, len(costs)))
            sharing = min(sharing, len(dealt))
            longest = max(sum(costs[session] for session in part) for part in dealt)
            width = max(1, (cpus or sharing * needed) // sharing)
            ratio = measured_over_expected(storage, group, width)
            longest *= ratio or 1
            minutes = walltime or _round_up((_MARGIN_OF_MEASURED if ratio else MARGIN) * longest + _START_S)
            if width < needed:
                fail(f"--cpus {width}: a feature needs {needed} ([openface] cpus)", 2)
            if walltime:
                top = max(loaded.sessions, key=lambda session: costs[session])
                alone = costs_alone(loaded, settings, top, group)
                gpu = name == "gpu"
                each = (
                    Expected(f"{top}/{session}", frozenset([session]), cost, width, gpu)
                    for session, cost in alone.items()
                )
                check_walltime(storage, 60 * walltime, each)
            chosen = ("--features", ",".join(group)) if only or on_gpu else ()
            command = (*_COMMAND, "extract", *common, *chosen, "--workers", str(width))
            gb, job_cpus = memory or sharing * gb_each, cpus or sharing * width
            arrays.append(
                Job(name, command, len(dealt), job_cpus, gb, 60 * minutes, gpu=name == "gpu", at_once=sharing)
            )
            about = (
                f"{counted(len(costs), 'session')} in {counted(len(dealt), 'part')}, of which the longest is expected"
            )
            by = ", as the parts before took" if ratio else ""
            by += f"; {sharing} parts share a job's GPU" if sharing > 1 else ""
            console().print(escape(f"{name}: {about} to take {longest / 60:.0f} min{by}; walltime {minutes} min"))
        index = (*_COMMAND, "index", *common)
        last = Job("index", index, 0, 1, memory or _INDEX_GB, _INDEX_S, comment=_INDEX_COMMENT)
        written = scripts(scheduler, (*arrays, last), str(folder), tuple(directive or ()))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in written.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o700)
    console().print(f"bash {escape(str(folder / 'submit.sh'))}", soft_wrap=True)


def _round_up(seconds: float) -> int:
    """Minutes, in tens."""
    return 10 * -(-int(seconds) // 600)


def status(
    store: StoreArgument,
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session, repeat for more; nothing else is read.")
    ] = None,
    json: JsonOption = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between refreshes.")] = 5,
) -> None:
    """Show what a feature store has, what is missing, and why."""
    from flows.cli.status_tables import status_json, status_tables
    from storyframes.derived_status import with_outdated
    from storyframes.store.layout import open_store
    from storyframes.store.record_status import scan
    from storyframes.store.study import describe_left, read_forgotten, read_study_record, sessions_left

    with usage_errors():
        storage = open_store(store)
        stored: set[str] = set()

        def look() -> Iterator[FeatureStatus]:
            for session_id in dict.fromkeys(session or ()):
                yield from with_outdated(scan(storage, session_id), storage)
            if not session:
                for entry in with_outdated(scan(storage), storage):
                    stored.add(entry.session_id)
                    yield entry

        def left() -> dict[str, str]:
            record = None if session else read_study_record(storage)
            return sessions_left(storage, stored, record.sessions) if record else {}

        def arrays() -> Iterator[ArrayProgress]:
            return iter(()) if session else arrays_of(storage)

        def not_in_study() -> Iterator[dict[str, str | None]]:
            yield from ({"session_id": name, "same_recordings_as": twin or None} for name, twin in left().items())

        def tables() -> list[RenderableType]:
            shown = [*status_tables(look()), *(escape(str(array)) for array in arrays())]
            return [*shown, *(f"[yellow]{escape(line)}[/]" for line in describe_left(left(), read_forgotten(storage)))]

        if watch:
            _watch(lambda: Group(*tables()), every)
            return
        entries: Iterable[FeatureStatus] = look()
        if session:
            entries = list(entries)
            for session_id in sorted(set(session) - {entry.session_id for entry in entries}):
                fail(f"there is no session {session_id!r} in {store}", 2)
        if json:
            for part in status_json(entries, (array.model_dump() for array in arrays()), not_in_study()):
                print(part, end="")  # noqa: T201
            return
        shown = tables()
    console().print(*shown, sep="\n")


def show(
    store: StoreArgument,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session.")],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Only the columns of a feature or a part of one, as openface.gaze."),
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Only this track; 'main' are the session's own files. All tracks otherwise.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show one session: its features, and the curves and quality findings of each track, with times.

    Times are in seconds of the track's own recording.
    """
    from flows.cli.session_tables import columns_json, columns_table, session_json, session_tables
    from storyframes.store import record_status
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.session_curves import summarize_columns
    from tasks.inspect.track_curves import has_curves, read_curves

    with usage_errors():
        feature_store = FeatureStore(store)
        if name is not None:
            columns = summarize_columns(feature_store[session], name)
            if json:
                print(columns_json(columns))  # noqa: T201 - for a program, not the console
            else:
                console().print(columns_table(columns))
            return
        entries = list(record_status.scan(feature_store.storage, session))
        if not entries:
            feature_store.session(session)  # says which session is unknown, and of how many
        tracks = dict.fromkeys([MAIN, *sorted(feature_and_track(entry.feature)[1] for entry in entries)])
        if track is not None:
            if track not in tracks:
                fail(f"{session} has no track {track!r} in {store}; it has {', '.join(tracks)}", 2)
            tracks = {track: None}
            entries = [entry for entry in entries if feature_and_track(entry.feature)[1] == track]
        curves = {
            name: read_curves(feature_store, session, name) if has_curves(feature_store, session, name) else None
            for name in tracks
        }
    if json:
        print(session_json(session, entries, curves))  # noqa: T201 - for a program, not the console
        return
    shown = console()
    for part in session_tables(entries, curves):
        shown.print(part)


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

    Runs without a server (a small study, ``--workers 1``) are not listed; ``status`` shows their results.
    """
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


def runs_table(runs: Sequence[RecentRun]) -> Table:
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


def runs_json(runs: Sequence[RecentRun]) -> str:
    """The same for scripts."""
    return jsonlib.dumps([run.to_json() for run in runs], indent=2)


def deploy(
    folder: Annotated[Path, typer.Argument(help="The folder deploy of the sources: prefect.yaml and automations.")],
    alerts: Annotated[
        str | None,
        typer.Option(metavar="BLOCK_ID", help="Also create the alerts, sent through this notification block."),
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
