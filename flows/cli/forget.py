"""The command ``forget``: remove everything that storyframes made of a session or a person."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import filesize
from rich.markup import escape

from flows.cli.terminal import (
    JsonOption,
    StudyArgument,
    console,
    error_console,
    fail,
    refused_if,
    show_json,
    usage_errors,
)
from tasks.inspect.formatting import counted

if TYPE_CHECKING:
    from storyframes.store.storage import Storage
    from tasks.forgetting.forget import Forgetting
    from tasks.forgetting.scope import Scope

_MOST_SHOWN = 20


def forget(
    study: StudyArgument,
    stores_and_sessions: Annotated[
        list[str],
        typer.Argument(
            metavar="STORE… [SESSION…]",
            help="Every feature store, archive and restored copy; then the sessions. Without a session, everybody in "
            "the study's list of the forgotten, again.",
        ),
    ],
    participant: Annotated[
        str,
        typer.Option("--participant", help="Every session and track of this participant, and the participant's id."),
    ] = "",
    whole_sessions: Annotated[
        bool, typer.Option("--whole-sessions", help="Remove sessions with other people entirely.")
    ] = False,
    only_tracks: Annotated[
        bool, typer.Option("--only-tracks", help="In sessions with other people, only the participant's own tracks.")
    ] = False,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="A folder of runs, tables or reports to search; repeat for more."),
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="Also take their rows out of the study's tables. Recordings are kept.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and change nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove everything that was made of a session or a participant, and refuse it from now on.

    Removed are versions, rows of the stores' tables, other commands' files, caches and archives below the stores.
    Recordings and tables are the owner's: they are named. A receipt without names is written into the study's folder. A
    call that was interrupted is finished by the next one. Ends with 1 where a bucket keeps earlier versions of objects
    that this user may not list or remove.
    """
    from storyframes.plug_ins import PlugInError
    from tasks.forgetting.forget import forget as forget_them
    from tasks.forgetting.scope import ForgetError
    from tasks.study.changed_tables import TableChangeError

    if whole_sessions and only_tracks:
        fail("--whole-sessions and --only-tracks exclude each other", 2)
    if (whole_sessions or only_tracks) and not participant:
        fail("--whole-sessions and --only-tracks are about sessions of a --participant", 2)
    folders = also or []
    for folder in folders:
        if not folder.is_dir():
            fail(f"--also {folder}: there is no such folder", 2)
    with usage_errors(), refused_if(ForgetError, PlugInError, TableChangeError):
        storages, sessions = _told_apart(stores_and_sessions)
        scope = _scope(study, storages, sessions, participant, whole=whole_sessions, only_tracks=only_tracks)
        if not scope.ids:
            fail("nobody is in the study's list of the forgotten: name a session, or a --participant", 2)
        with error_console().status("forgetting") as spinner:
            done = forget_them(
                study,
                storages,
                scope,
                folders=folders,
                tables=tables,
                dry_run=dry_run,
                progress=lambda where: spinner.update(f"removing {escape(where)}"),
            )
    if json:
        show_json(_content(done, scope, dry_run=dry_run))
    else:
        store = next(argument for argument in stores_and_sessions if argument not in sessions)
        _show(study, store, done, scope, dry_run=dry_run, tables=tables)
    if done.kept:
        raise typer.Exit(1)


def _told_apart(arguments: list[str]) -> tuple[list[Storage], list[str]]:
    """The stores and the sessions among the arguments: what is a feature store, and what can be a session's name."""
    from storyframes.store.layout import ID_PATTERN, is_store, open_storage

    storages, sessions = [], []
    for argument in arguments:
        is_place = "://" in argument or Path(argument).is_dir()
        if is_place and is_store(storage := open_storage(argument)):
            storages.append(storage)
        elif ID_PATTERN.fullmatch(argument) and not Path(argument).is_dir():
            sessions.append(argument)
        else:
            fail(f"{argument} is not a feature store, and cannot be a session's name", 2)
    if not storages:
        fail("name every feature store of the study: STUDY STORE… SESSION", 2)
    return storages, sessions


def _scope(
    study: Path, storages: list[Storage], sessions: list[str], participant: str, *, whole: bool, only_tracks: bool
) -> Scope:
    from storyframes.store.record_status import scan
    from storyframes.store.study import read_study_record
    from tasks.forgetting.scope import resolve
    from tasks.study.forgotten_ids import read_forgotten_ids
    from tasks.study.load import read_study

    reading = read_study(study, with_forgotten=True)
    if participant and not (whole or only_tracks):  # a row that cannot be read may name somebody else of a session
        for problem in reading.problems:
            if problem.table in ("sessions", "persons", "tracks"):
                fail(f"who is in a session is not known: {problem}. Correct it, or add --whole-sessions", 2)
    return resolve(
        reading.study,
        [read_study_record(storage) for storage in storages],
        {status.session_id for storage in storages for status in scan(storage)},
        read_forgotten_ids(study),
        sessions=sessions,
        participant=participant,
        whole_sessions=whole,
        only_tracks=only_tracks,
    )


def _content(done: Forgetting, scope: Scope, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "removed": [{"what": trace.what, "where": trace.where, "bytes": trace.bytes} for trace in done.removed],
        "rows": done.remaining.rows,
        "files": [str(path) for path in done.remaining.files],
        "remarks": list(scope.remarks),
        "unreachable": done.unreachable,
        "kept": done.kept,
        "receipt": str(done.receipt) if done.receipt else None,
    }


def _show(study: Path, store: str, done: Forgetting, scope: Scope, *, dry_run: bool, tables: bool) -> None:
    from tasks.study.load import SETTINGS_FILE

    shown = console()
    for trace in done.removed[:_MOST_SHOWN] if dry_run else ():
        shown.print(f"would remove {escape(trace.where)} ({escape(trace.what)})", soft_wrap=True)
    if dry_run and len(done.removed) > _MOST_SHOWN:
        shown.print(f"… and {len(done.removed) - _MOST_SHOWN} more, which --json lists")
    verb = "would remove" if dry_run else "removed"
    shown.print(f"{verb} {counted(len(done.removed), 'trace')}, {filesize.decimal(done.bytes)}")
    for line in scope.remarks:
        shown.print(f"[yellow]remains[/] {escape(line)}", soft_wrap=True)
    for table, rows in done.remaining.rows.items():
        listed = ", ".join(map(str, rows[:_MOST_SHOWN])) + (" …" if len(rows) > _MOST_SHOWN else "")
        what = "taken out" if tables and not dry_run else "[yellow]yours to remove[/], or with --tables"
        shown.print(f"{what}: {escape(table)}, row {listed}")
    for path in done.remaining.files:
        shown.print(f"[yellow]yours to remove[/]: {escape(str(path))}", soft_wrap=True)
    for line in done.unreachable:
        shown.print(f"[yellow]not reached[/] {escape(line)}", soft_wrap=True)
    for line in done.kept:
        shown.print(f"[bold red]not removed[/] {escape(line)}", soft_wrap=True)
    if done.receipt:
        shown.print(f"receipt: {escape(str(done.receipt))}", soft_wrap=True)
        settings = study / SETTINGS_FILE  # without the settings that cut them, the windows would get the defaults
        configured = ["--config", str(settings)] if settings.is_file() else []
        following = shlex.join(["storyframes", "index", str(study), store, *configured])
        shown.print(f"next: {escape(following)} (writes the clip index of those who remain)", soft_wrap=True)
