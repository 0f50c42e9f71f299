"""``storyframes init``: the first table of a study, from the files that there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import console, error_console, fail, usage_errors
from tasks.inspect.formatting import counted


def init(
    folder: Annotated[Path, typer.Argument(help="The study's folder, in which the files lie.")],
    videos: Annotated[str, typer.Option(metavar="GLOB", help="In that folder, as 'videos/*.mp4'.")],
    audio: Annotated[str | None, typer.Option(metavar="GLOB", help="Sound files with the videos' names.")] = None,
    transcripts: Annotated[str | None, typer.Option(metavar="GLOB", help="Transcripts with the videos' names.")] = None,
    openface: Annotated[str | None, typer.Option(metavar="GLOB", help="OpenFace's output for the videos.")] = None,
    names: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN", help="How the videos are named: '{participant}_{session}_{date}', * for anything."
        ),
    ] = None,
) -> None:
    """Write a study's table of sessions from a folder of recordings."""
    from tasks.study.sessions_from_files import FilesError, make_sessions

    given = {"video": videos, "audio": audio, "transcript": transcripts, "openface": openface}
    with usage_errors():
        if not folder.is_dir():
            fail(f"{folder} is not a folder", 2)
        try:
            made = make_sessions(folder, {column: glob for column, glob in given.items() if glob is not None}, names)
        except FilesError as error:
            fail(str(error), 2)
    for remark in made.remarks:
        error_console().print(f"[yellow]look at[/] {escape(remark)}")
    sessions, people = counted(made.sessions, "session"), counted(made.participants, "participant")
    console().print(f"{escape(str(folder / 'sessions.csv'))}: {sessions} of {people}")
    console().print(f"next: storyframes check {escape(str(folder))}")
