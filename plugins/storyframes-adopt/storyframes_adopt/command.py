"""The command ``storyframes adopt``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows import progress_bar
from flows.cli import LOOK, StoreArgument, console, error_console, fail, listed, matching_files, usage_errors

if TYPE_CHECKING:
    from storyframes_adopt.adopted_sequences import Source

app = typer.Typer(**LOOK)


@app.command("adopt", rich_help_panel="Extract", epilog="Next: storyframes status STORE")
def adopt_files(
    store: StoreArgument,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="A .parquet, .csv, .tsv or .npy for each session, or a pattern, as '*.npy'; or one .pkl or .csd.",
        ),
    ],
    name: Annotated[str, typer.Option(help="The feature's name: lower-case letters, digits and '_'.")],
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Each row's time, in seconds of the recording.")
    ] = None,
    time_unit: Annotated[str | None, typer.Option(help="The unit of --time: s, ms, us or min.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Rows a second, the first at second 0.")] = None,
    per_frame: Annotated[
        bool, typer.Option("--per-frame", help="There is a row for each frame of the session's video.")
    ] = False,
    recipe: Annotated[
        str | None,
        typer.Option(help="What wrote the CSVs: openface-431, libreface, py-feat, pyfaceau or openface-3."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Columns of values, with commas between them (numbers for .npy); by default all."),
    ] = None,
    mask: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column that is 1 in measured rows; by default rows with any value are measured."
        ),
    ] = None,
    session: Annotated[str | None, typer.Option(help="The session of a single file.")] = None,
    session_from: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="The pattern of files' names: '{session}_gaze.csv'.")
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="For a .pkl or .csd: a table with id, session_id, and start_s and end_s in the session's seconds.",
        ),
    ] = None,
    array: Annotated[str | None, typer.Option(help="The array of MMSA's pickle, such as 'vision'.")] = None,
    track: Annotated[str, typer.Option(help="The camera or microphone that was measured.")] = "main",
    about: Annotated[str | None, typer.Option(help="One sentence on what it is; stored with the values.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also replace features that were adopted from the same file.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be published; publish nothing.")] = False,
) -> None:
    """Take features that another program made into a feature store, with times, masks and the files' digests.

    Nothing is published unless every file can be. Values carry the caveat 'made elsewhere'.
    """
    # pandas and the rest here: storyframes --help imports this module
    from storyframes import FeatureStore
    from storyframes_adopt.adopt import adopt
    from storyframes_adopt.adopted_files import ABOUT, Adoption
    from storyframes_adopt.adopted_sequences import holds_many, sources_of_many
    from storyframes_adopt.recipes import RECIPES
    from tasks.inspect import counted

    unused: list[str] = []
    with usage_errors(), progress_bar("adopting") as progress:
        features = FeatureStore(store)
        how = Adoption(
            name,
            about=about or (RECIPES[recipe].about if recipe and recipe in RECIPES else ABOUT),
            time=time or "",
            unit=time_unit or "",
            rate=rate,
            per_frame=per_frame or recipe is not None,
            array=array or "",
            columns=listed("--columns", columns),
            mask=mask or "",
            track=track,
            recipe=recipe or "",
        )
        paths = matching_files(files)
        if any(map(holds_many, paths)):
            if len(paths) > 1 or session or session_from:
                fail("a .pkl or .csd has many sessions: give it alone, and say by --ids which they are", 2)
            sources, unused = sources_of_many(paths[0], ids, how, features.sessions)
        else:
            if ids:
                fail("--ids is of a .pkl or .csd, which has many sessions", 2)
            sources = _sources(paths, session, session_from, features.sessions)
        adopted = adopt(features, sources, how, force=force, dry_run=dry_run, progress=progress)
    if unused:
        few = f"{', '.join(unused[:5])}{', …' if len(unused) > 5 else ''}"
        error_console().print(
            f"[yellow]not in the file[/] {counted(len(unused), 'id')} of --ids: {escape(few)}: their sessions lack "
            "these rows. Check how the ids are written in the file, or take them out of the table"
        )
    shown = console()
    for version in adopted:
        when = "" if version.first_s is None else f", {version.first_s:g} to {version.last_s:g} s"
        shown.print(
            f"{escape(version.session_id)}: {version.change}: {version.rows} rows of "
            f"{counted(len(version.spec.columns), 'column')}{when}, {version.measured:.1%} measured"
        )
    if dry_run:
        shown.print("nothing is published; without --dry-run it would be")
    else:
        shown.print(f"next: 'storyframes index STUDY {escape(store)} --config FILE' adds has_{escape(name)}")


def _sources(paths: list[Path], session: str | None, pattern: str | None, known: list[str]) -> dict[str, Source]:
    """The file of each session."""
    from storyframes_adopt.adopted_sequences import FileDigest, Source
    from tasks.study import UnusableFileError, session_in_name

    if session and (pattern or len(paths) > 1):
        fail("--session is of one file: say --session-from for several", 2)
    files: dict[str, Path] = {}
    for path in paths:
        try:
            session_id = session or (session_in_name(pattern, str(path), known) if pattern else path.stem)
        except UnusableFileError as error:
            fail(str(error), 2)
        if session_id in files:
            fail(f"{files[session_id]} and {path} are both of session {session_id}: give one of them", 2)
        files[session_id] = path
    return {session_id: Source(path, FileDigest(path)) for session_id, path in files.items()}
