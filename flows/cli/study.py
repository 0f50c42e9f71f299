"""The commands about a study's tables: ``init``, ``check``, ``import labels``, ``sync``, ``synthesize``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from glob import glob
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import (
    LOOK,
    ConfigOption,
    JsonOption,
    StudyArgument,
    console,
    error_console,
    fail,
    fail_with_problems,
    is_terminal,
    show_json,
    usage_errors,
)
from flows.progress_bar import progress_bar
from tasks.inspect.formatting import counted
from tasks.media.synthetic_study import Shape


def check(
    study: StudyArgument,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Open no other file: for a first, fast look.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every single finding; else those that are alike are one line.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Validate a study's tables and open every file that they name; report every problem at once.

    Findings that differ only in names and numbers are shown as one, with how many there are; --json has every one.
    """
    from flows.cli.tables.study import not_read, study_table
    from flows.settings import load_settings
    from tasks.inspect.study_check import check_study, label_problems
    from tasks.study.load import StudyError, in_order, read_study

    with usage_errors(), progress_bar("checking") as progress:
        settings = load_settings(config)
        if tables_only:
            reading = read_study(study)
            loaded, problems = reading.study, in_order([*reading.problems, *reading.session_problems])
        else:
            loaded, problems = check_study(study, settings, progress, settings.labels)
        if problems := [*problems, *label_problems(loaded, settings.labels, problems)]:
            if json:
                show_json({"valid": False, "problems": [asdict(problem) for problem in problems]})
                raise typer.Exit(2)
            for line in not_read(loaded, every=every):  # the column that was meant, perhaps
                error_console().print(line)
            fail_with_problems(StudyError(study, problems), every=every)
    if json:
        content = {"sessions": len(loaded.sessions), "excluded": loaded.excluded, "remarks": loaded.remarks}
        show_json({"valid": True, **content, "not_read": loaded.unread})
        return
    shown = console()
    shown.print(f"[green]valid[/] {escape(str(study))}{' (its tables; no file was opened)' if tables_only else ''}")
    shown.print(study_table(loaded, every=every))


def synthesize(
    folder: Annotated[Path, typer.Argument(help="A new folder for the study.")],
    sessions: Annotated[int, typer.Option(min=1, help="How many sessions.")] = 4,
    seconds: Annotated[float, typer.Option(min=1, help="Length of each.")] = 30,
    seed: Annotated[int, typer.Option(help="Seeds everything that is drawn.")] = 0,
    shape: Annotated[
        Shape, typer.Option(help="A robot and its visitor; or two people, with cameras and microphones on own clocks.")
    ] = Shape.EMPATHIC_STORIES,
) -> None:
    """Make a study of synthetic recordings, for benchmarks and for trying things."""
    from tasks.media.synthesize import SynthesisError, SyntheticStudy, write_study

    errors = error_console()
    plan = SyntheticStudy(sessions=sessions, seconds=seconds, seed=seed, shape=shape)
    with errors.status("synthesizing") as spinner:
        try:
            write_study(folder, plan, lambda name: spinner.update(f"synthesizing {name}"))
        except SynthesisError as error:
            fail(str(error), 2)
    console().print(f"{counted(sessions, 'session')} of {seconds:g} s in {escape(str(folder))}")


def init(
    folder: Annotated[Path, typer.Argument(help="The study's folder, in which the files lie; made if there is none.")],
    recordings: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Videos, sounds and transcripts alike, as 'media/*'.")
    ] = None,
    videos: Annotated[str | None, typer.Option(metavar="GLOB", help="Videos alone, as 'videos/*.mp4'.")] = None,
    audio: Annotated[str | None, typer.Option(metavar="GLOB", help="Sound files with the videos' names.")] = None,
    transcripts: Annotated[str | None, typer.Option(metavar="GLOB", help="Transcripts with the videos' names.")] = None,
    openface: Annotated[str | None, typer.Option(metavar="GLOB", help="OpenFace's output for the videos.")] = None,
    names: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="How recordings are named: '{participant}_{session}_{date}', {track} for a camera or microphone, "
            "* for anything.",
        ),
    ] = None,
) -> None:
    """Write a study's table of sessions, and a configuration that fits them, from a folder of recordings."""
    from tasks.study.recording_names import FilesError
    from tasks.study.sessions_from_files import SETTINGS_FILE, make_sessions

    given = {"recording": recordings, "video": videos, "audio": audio, "transcript": transcripts, "openface": openface}
    globs = {column: glob for column, glob in given.items() if glob is not None}
    if recordings and videos:
        fail("give either --recordings or --videos", 2)
    if not globs or next(iter(globs)) == "openface":
        globs = {"recording": "media/*"} | globs
    first = next(iter(globs.values()))
    errors = error_console()
    with usage_errors():
        if not folder.exists():
            media = folder / next(iter(Path(first).parts[:-1]), "")
            media.mkdir(parents=True)
            console().print(f"made {escape(str(media))}: put the recordings there")
            console().print(f"next: storyframes init {escape(str(folder))} --recordings '{escape(first)}'")
            return
        if not folder.is_dir():
            fail(f"{folder} is not a folder", 2)
        try:
            made = make_sessions(folder, globs, names)
        except FilesError as error:
            fail(str(error), 2)
    for remark in made.remarks:
        errors.print(f"[yellow]look at[/] {escape(remark)}")
    sessions, people = counted(made.sessions, "session"), counted(made.participants, "participant")
    shown, where = console(), escape(str(folder))
    shown.print(f"{escape(str(folder / 'sessions.csv'))}: {sessions} of {people}")
    if made.tracks:
        tracks = f"{counted(made.tracks, 'track')} of other cameras and microphones"
        shown.print(f"{escape(str(folder / 'tracks.csv'))}: {tracks}; 'storyframes sync {where}' measures their clocks")
    settings = escape(str(folder / SETTINGS_FILE))
    if made.has_settings:
        shown.print(f"{settings}: a configuration that fits them; read it before extraction")
    shown.print(f"next: storyframes check {where} --config {settings}")


import_app = typer.Typer(help="Bring what other programs wrote into a study's tables.", no_args_is_help=True, **LOOK)


@import_app.callback()
def _root() -> None:
    """Keeps ``labels`` a command of its own name while it is the only one."""


@import_app.command("labels")
def import_labels(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="ELAN's .eaf, Praat's .TextGrid, NOVA's .annotation, a sheet (.xlsx, .csv), also BORIS's and "
            "Datavyu's; or a pattern, as '*.eaf'.",
        ),
    ],
    to: Annotated[Path, typer.Option("--to", help="The study whose tables labels and schemes are added to.")],
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="TIER=SCHEME",
            help="Also TIER=SCHEME:TYPE or TIER=SCHEME:TYPE:MIN..MAX, where the scheme is new; of a sheet's other "
            "columns COLUMN=@file (whose name says the session), @session, @rater, @person, @confidence, @start, @end, "
            "@duration, @time, @tier, @value. Repeatable.",
        ),
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(help="A tier to leave out; '*': all that are not mapped.")] = None,
    session: Annotated[str | None, typer.Option(help="The session that all labels are of.")] = None,
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
        typer.Option(metavar="COLUMN", help="Where a sheet's labels begin, if the column is not called start_s."),
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="COLUMN", help="Where they end.")] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="How long they are, in place of --end.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The moments of a sheet's labels or curves.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Rows per second of a sheet of curves without times.")
    ] = None,
    sheet: Annotated[str | None, typer.Option(help="Of a workbook with several.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="Of a sheet's times: s or ms, where the columns' names do not say it.")
    ] = None,
    no_times: Annotated[
        bool, typer.Option("--no-times", help="The labels are of whole sessions, although columns look like times.")
    ] = False,
    offset: Annotated[float | None, typer.Option(help="Seconds to add to every time.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the rows that would be written, and write nothing.")
    ] = False,
) -> None:
    """Add labels to a study from files of annotations; nothing is written unless all of it can be."""
    from tasks.study.csv_text import csv_bytes
    from tasks.study.importers.annotation_file import NO_TIMES, ImportFaultError
    from tasks.study.importers.import_labels import Import, import_labels, unmapped_tiers
    from tasks.study.importers.mapping import Role, proposals
    from tasks.study.importers.read_annotations import read_all

    if session and session_from:
        fail("give either --session or --session-from", 2)
    with usage_errors():
        try:
            paths, pairs, skipped = matching(files), map_ or [], skip or []
            said = {Role.START: start, Role.END: end, Role.DURATION: duration, Role.TIME: time}
            read, targets = read_all(paths, pairs, said, unit=unit, rate=rate, sheet=sheet)
            unmapped = dict.fromkeys(name for file in read for name in unmapped_tiers(file, targets, skipped))
            if unmapped and sys.stdin.isatty() and is_terminal():
                asked = {name: _ask(name, text) for name, text in proposals(read, unmapped).items()}
                pairs = [*pairs, *(f"{name}={answer}" for name, answer in asked.items() if answer != _SKIP)]
                skipped = [*skipped, *(name for name, answer in asked.items() if answer == _SKIP)]
                read, targets = read_all(paths, pairs, said, unit=unit, rate=rate, sheet=sheet)
            how = Import(
                targets=targets,
                skip=skipped,
                session_id=session,
                session_from=session_from,
                rater_id=rater,
                person_id=person,
                track=track,
                offset_s=offset,
                no_times=no_times,
            )
            imported = import_labels(read, how, to, is_dry=dry_run)
        except ImportFaultError as error:
            fail(str(error), 2)
    remarks = [f"{file.name}: {remark}" for file in read for remark in file.remarks]
    for remark in [*remarks, *imported.remarks]:
        error_console().print(f"[yellow]look at[/] {escape(remark)}")
    shown = console()
    if dry_run:
        for table, rows in imported.rows.items():
            columns = list(dict.fromkeys(name for row in rows for name in row))
            if rows:
                content = csv_bytes(columns, ([row.get(name, "") for name in columns] for row in rows))
                shown.out(f"{table}:\n{content.decode()}", highlight=False)
    for scheme in imported.schemes:
        labels = f", with {counted(len(scheme.labels), 'label')}" if scheme.labels else ""
        limits = "" if scheme.minimum is None else f" from {scheme.minimum:g} to {scheme.maximum:g}"
        shown.print(f"new scheme {escape(scheme.name)}: {scheme.type}{limits}{labels}")
    total = counted(sum(imported.labels.values()), "label")
    schemes = ", ".join(f"{name} {count}" for name, count in imported.labels.items())
    sessions = counted(len(imported.sessions), "session")
    units = ", ".join(dict.fromkeys(file.unit for file in read))
    times = "without times" if units == NO_TIMES else f"times read as {units}"
    shown.print(f"{total} ({escape(schemes)}) of {sessions}; {times}")
    if dry_run:
        shown.print("nothing is written; without --dry-run it would be")


_SKIP = "skip"


def _ask(name: str, proposal: str) -> str:
    """What a person at the terminal says that a tier or a column is."""
    return str(typer.prompt(f"{name}: SCHEME[:TYPE[:MIN..MAX]], @role or {_SKIP}", default=proposal)).strip()


def matching(paths: list[Path]) -> list[Path]:
    """The files, those of a quoted pattern (``'*.eaf'``) by name."""
    matching: list[Path] = []
    for path in paths:
        matches = [path] if path.exists() else [Path(name) for name in sorted(glob(str(path), recursive=True))]
        if not matches and not any(sign in str(path) for sign in "*?["):
            matches = [path]  # reading it says that it is not there
        if not matches:
            fail(f"{path}: finds no file", 2)
        matching += matches
    return list(dict.fromkeys(matching))


def sync(
    study: StudyArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only this session. Repeatable.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Add the clocks to the study's tables.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Measure clocks again that the tables have; --write then replaces them.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Measure by their sound when a session's other cameras and microphones began, and how their clocks drift."""
    from flows.cli.tables.study import clocks_table
    from tasks.study.changed_tables import TableChangeError, write_clocks
    from tasks.synchronise import Outcome, clocks_to_write, propose_clocks, read_unsynchronised

    with usage_errors():
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
                    progress=lambda name: spinner.update(f"listening to {escape(name)}"),
                )
            )
        clocks = clocks_to_write(proposals)
        if not json:
            console().print(clocks_table(proposals))
        if clocks and write:
            try:
                write_clocks(study, clocks, replace=replace)
            except TableChangeError as error:
                fail(str(error), 2)
    if json:
        show_json({"clocks": [asdict(proposal) for proposal in proposals], "written": len(clocks) if write else 0})
    elif clocks and write:
        console().print(f"written: {counted(len(clocks), 'clock')} into {escape(str(study / 'clocks.csv'))}")
        console().print("'storyframes index STUDY STORE' lets clips use them; nothing is extracted again")
    elif clocks:
        console().print(f"not written: {counted(len(clocks), 'clock')}; --write adds them to the study's tables")
    if refused := [proposal for proposal in proposals if proposal.outcome is Outcome.REFUSED]:
        for proposal in refused:
            where = escape(f"{proposal.session_id}, {proposal.track}")
            error_console().print(f"[bold red]refused[/] {where}: {escape(proposal.reason)}")
        raise typer.Exit(1)
