"""The commands about a study's tables: ``init``, ``check``, ``synthesize``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import (
    ConfigOption,
    JsonOption,
    StudyArgument,
    console,
    error_console,
    fail,
    fail_with_problems,
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
