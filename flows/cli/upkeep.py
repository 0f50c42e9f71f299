"""The commands that keep a feature store: ``verify``, ``gc``, ``archive``, ``share``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import filesize
from rich.markup import escape
from rich.table import Table

from flows import interruption
from flows.cli.terminal import JsonOption, StoreArgument, console, error_console, fail, show_json, usage_errors
from storyframes.spec import MAIN, feature_and_track
from tasks.inspect.formatting import counted

if TYPE_CHECKING:
    from storyframes.store.maintenance import Finding, Removal
    from storyframes.store.storage import Storage

_MOST_SHOWN = 20


def verify(
    store: StoreArgument,
    session: Annotated[
        str, typer.Option(help="Only this session: nothing else is listed or read; of the tables, only the catalogue.")
    ] = "",
    study: Annotated[
        Path | None,
        typer.Option(help="The study: its sessions without features are lost, and sessions that it lacks are named."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write damaged Zarr groups again; their content is always the same.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Read every byte of every current version, compare it with what was published, and name what is lost.

    A version is lost if the catalogue, the clip index or --study names it and its files are missing. The exit code is 0
    if there are versions, and all of them are whole and none is lost.
    """
    from storyframes.store import maintenance
    from storyframes.store.layout import ID_PATTERN, open_store
    from storyframes.store.study import describe_left, read_forgotten, sessions_left

    errors = error_console()
    with usage_errors(), errors.status("verifying") as spinner:
        looked_at = maintenance.LookedAt()

        def progress(session_id: str, feature: str) -> None:
            spinner.update(f"verifying {session_id}/{feature}")

        storage = open_store(store, damaged=True)
        if session and not ID_PATTERN.fullmatch(session):
            fail(f"no session can be called {session!r}", 2)
        repaired = maintenance.repair(storage, session) if repair else []
        sessions: tuple[str, ...] = ()
        if study:
            from tasks.study.load import load_study  # reading a store needs no study

            sessions = tuple(load_study(study).sessions)
        findings = list(maintenance.verify(storage, progress, session, looked_at=looked_at, study_sessions=sessions))
        stored = {name for name, _ in (*looked_at.published, *looked_at.unpublished)}
        left = sessions_left(storage, stored, sessions) if study else {}
    checked = len(looked_at.published)
    if session and not checked and not looked_at.unpublished and not findings:
        fail(f"there is no session {session!r} in {store}", 2)
    if json:
        content = {
            "sound": bool(checked) and not findings and looked_at.is_complete,
            "versions": checked,
            "findings": [asdict(finding) for finding in findings],
            "without_version": [
                {"session_id": session_id, "feature": feature, "reason": reason}
                for (session_id, feature), reason in looked_at.unpublished.items()
            ],
            "not_compared": list(looked_at.remarks),
            "not_in_study": left,
            "repaired": list(repaired),
            "advice": repair_advice(storage, findings),
        }
        show_json(content)
        raise typer.Exit(0 if content["sound"] else 1)
    shown = console()
    for path in repaired:
        shown.print(f"[yellow]repaired[/] {escape(path)}")
    for (session_id, feature), why in list(looked_at.unpublished.items())[:_MOST_SHOWN]:
        shown.print(f"[yellow]no version[/] {escape(f'{session_id}/{feature}: {why}')}")
    if len(looked_at.unpublished) > _MOST_SHOWN:
        shown.print(f"[yellow]no version[/] of {len(looked_at.unpublished) - _MOST_SHOWN} others")
    for remark in looked_at.remarks:
        shown.print(f"[yellow]not compared[/] {escape(remark)}")
    for line in describe_left(left, read_forgotten(storage)):
        shown.print(f"[yellow]not in the study[/] {escape(line)}")
    if findings:
        shown.print(findings_table(findings))
        for line in repair_advice(storage, findings):
            shown.print(escape(line))
        if unread := sum(finding.unreadable for finding in findings):
            shown.print(f"Whether {unread} of them are sound is not known: they cannot be read.")
        raise typer.Exit(1)
    if not checked:
        shown.print("nothing was verified: no feature has a version")
        raise typer.Exit(1)
    if not looked_at.is_complete:
        shown.print(f"{counted(checked, 'feature')} as published, but whether others are lost is not known")
        raise typer.Exit(1)
    without = f"; {counted(len(looked_at.unpublished), 'feature')} without a version" if looked_at.unpublished else ""
    shown.print(f"[green]sound[/] {counted(checked, 'feature')}: every file is as it was published{without}")


def findings_table(findings: Sequence[Finding]) -> Table:
    """What ``verify`` found."""
    kinds = "damaged, lost or unreadable" if any(finding.lost for finding in findings) else "damaged or unreadable"
    table = Table(title=f"{len(findings)} {kinds}", title_justify="left")
    for heading in ("session", "feature", "file", "problem"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(*(escape(text) for text in (finding.session_id, finding.feature, finding.path, finding.problem)))
    return table


def repair_advice(storage: Storage, findings: Sequence[Finding]) -> list[str]:
    """Which commands to run, as sentences: without --force, an extraction skips files that look untouched."""
    lost = [finding for finding in findings if finding.lost]
    forbidden = any(finding.forbidden for finding in findings)
    findings = [finding for finding in findings if not finding.lost and not finding.forbidden]
    readable = [finding for finding in findings if finding.feature and not finding.unreadable]
    damaged = sorted({(finding.session_id, finding.feature) for finding in readable})
    untouched = [name for name in damaged if _looks_sound(storage, *name)]
    lines = []
    if lost:
        lines.append(
            "What is lost comes back from a backup, or the next 'storyframes extract' makes it again; what was removed "
            "on purpose is forgotten by 'storyframes index', and not before."
        )
    if len(untouched) < len(damaged):
        lines.append("The next 'storyframes extract' makes again what is missing or was changed.")
    for session_id, feature in untouched:
        kind, track = feature_and_track(feature)
        only = f"--features {kind} --force" if track == MAIN else f"--track {track} --features {kind} --force"
        lines.append(
            f"Sizes and times of {session_id}/{feature} are as they were published, so only force makes it again: "
            f"'storyframes extract' with {only if session_id == 'stories' else f'--session {session_id} {only}'}."
        )
    if forbidden:
        lines.append("What the group cannot use, its owner gives to it: 'storyframes share' with the same options.")
    if any(not finding.feature for finding in findings):
        lines.append("'storyframes index' writes the tables again, 'storyframes verify --repair' the Zarr groups.")
    return lines


def _looks_sound(storage: Storage, session_id: str, feature: str) -> bool:
    from storyframes.store.maintenance import is_intact
    from storyframes.store.record_status import read_status

    entry = read_status(storage, session_id, feature)
    return entry is not None and entry.record is not None and is_intact(storage, entry.record)


def gc(
    store: StoreArgument,
    grace_hours: Annotated[
        float, typer.Option(min=0, help="Keep what was current or changed within so many hours.")
    ] = 168,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove superseded versions and what killed runs left behind, in the store and in the temporary folder here."""
    from storyframes.store import maintenance
    from storyframes.store.layout import open_store
    from storyframes.store.storage import scratch

    unread: dict[str, str] = {}
    with usage_errors():
        garbage = maintenance.collect(
            open_store(store), grace_hours * 3600, dry_run=dry_run, unreadable=unread.__setitem__
        )
        removals = list(garbage)
    leftovers = scratch.sweep(dry_run=dry_run)
    if json:
        paths = [asdict(removal) for removal in removals]
        temporary = {"folders": len(leftovers), "bytes": sum(leftover.bytes for leftover in leftovers)}
        show_json({"dry_run": dry_run, "removed": paths, "temporary": temporary, "unreadable": list(unread.values())})
        raise typer.Exit(1 if unread else 0)
    shown = console()
    if removals:
        shown.print(removals_table(removals))
    size = filesize.decimal(sum(removal.bytes for removal in removals))
    shown.print(f"{'would remove' if dry_run else 'removed'} {counted(len(removals), 'path')}, {size}")
    if leftovers:
        size = filesize.decimal(sum(leftover.bytes for leftover in leftovers))
        done = "to be removed" if dry_run else "removed"
        shown.print(f"temporary folders of killed processes on this machine: {len(leftovers)} {done}, {size}")
    if unread:
        for reason in unread.values():
            error_console().print(f"[bold red]not looked at[/] {escape(reason)}")
        raise typer.Exit(1)


def removals_table(removals: Sequence[Removal]) -> Table:
    """What ``gc`` removed."""
    table = Table()
    table.add_column("path", overflow="fold")
    table.add_column("kind")
    table.add_column("size", justify="right")
    for removal in removals:
        table.add_row(escape(removal.path), str(removal.kind), filesize.decimal(removal.bytes))
    return table


def archive(
    store: StoreArgument,
    out: Annotated[str, typer.Option(help="A new feature store, or one to bring up to date.")],
) -> None:
    """Copy the current versions into a compressed store (zstd): smaller, plain Zarr, slower to read."""
    from storyframes.store.layout import create_store, open_store
    from storyframes.store.maintenance.archive import archive as copy_compressed

    interruption.promise(interruption.GOES_ON)
    with usage_errors(), error_console().status("archiving") as spinner:
        source, target = open_store(store), create_store(out)
        before = after = count = 0
        sizes = {path: info.bytes for path, info in source.files().items()}
        for current in copy_compressed(source, target):
            spinner.update(f"archiving {current.session_id}/{current.feature}")
            count += 1
            after += current.nbytes
            folder = f"{current.session_id}/{current.feature}/"
            before += sum(size for path, size in sizes.items() if path.startswith(folder))
    change = f"{filesize.decimal(before)} -> {filesize.decimal(after)}"
    console().print(f"{counted(count, 'feature')}, {change} in {escape(out)}")


def share(
    store: StoreArgument,
    group: Annotated[str, typer.Option(help="The group of users, as 'id' names it.")] = "",
    write: Annotated[bool, typer.Option("--write", help="The group may also extract and index.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Remove access for the group again.")] = False,
) -> None:
    """Share a store in a folder with a group of users, with everything that is written into it later.

    Without an option, show who may use the store. The exit code is 1 if files of other users could not be changed.
    """
    from storyframes.store.layout import open_store
    from storyframes.store.maintenance import sharing

    if (private and (group or write)) or (write and not group):
        fail("give --group GROUP, with --write where its members may write, or --private", 2)
    with usage_errors():
        storage = open_store(store)
        unchanged: dict[str, str] = {}
        if group:
            unchanged = sharing.share(storage, group, write=write)
        elif private:
            unchanged = sharing.make_private(storage)
        now = sharing.current_group(storage)
        why = sharing.why_unreachable(storage) if now else ""
    may = "only its owner may use it"
    if now:
        may = f"the group {now.name} may {'read and write' if now.write else 'read'}"
    console().print(escape(f"{store}: {may}"))
    for path, reason in unchanged.items():
        error_console().print(f"[yellow]not changed[/] {escape(f'{path}: {reason}')}")
    if why:
        error_console().print(escape(why))
    if unchanged or why:
        raise typer.Exit(1)
