"""``storyframes extract-file``: features of one recording as tables, with no study, no store and no server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import ConfigOption, cannot_write, console, error_console, fail, listed, usage_errors
from flows.interruption import GOES_ON, promise

_FORMATS = (".parquet", ".csv")


def extract_file(
    file: Annotated[Path, typer.Argument(help="A video, or a file of sound alone.")],
    features: Annotated[
        list[str],
        typer.Option(help="Of 'storyframes extractors list', or a part of one (openface.gaze); several with commas."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="A .parquet or .csv to write; of several features OUT.<feature>.parquet each.")
    ] = None,
    transcript: Annotated[Path | None, typer.Option(help="What was said, for features of words.")] = None,
    audio: Annotated[Path | None, typer.Option(help="Its sound, where that is another file.")] = None,
    openface_csv: Annotated[Path | None, typer.Option(help="What OpenFace wrote of it before.")] = None,
    unmeasured: Annotated[
        bool, typer.Option("--unmeasured", help="Also numbers that are no measurement, by the mask; else empty.")
    ] = False,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Keep the features for the next call.")] = True,
    config: ConfigOption = None,
) -> None:
    """Extract features of one recording as tables: times as index, a named column for each number."""
    if out is not None and out.suffix not in _FORMATS:
        fail(f"{out}: the name of a table ends in {' or '.join(_FORMATS)}", 2)
    from flows.one_file import extract_one, write_table
    from storyframes.one_file import ExtractFileError

    names = listed("--features", features)
    given = {"transcript": transcript, "audio": audio, "openface": openface_csv}
    if cache:
        promise(GOES_ON)
    with usage_errors(), error_console().status("") as spinner:
        try:
            extracted = extract_one(
                file,
                names,
                {kind: path for kind, path in given.items() if path is not None},
                config=config,
                cache=cache,
                sections={},
                progress=lambda what: spinner.update(f"extracting {escape(what)}"),
            )
        except ExtractFileError as error:
            fail(str(error), 1)
    for name, feature_caveats in extracted.caveats.items():
        error_console().print(f"[yellow]caveat of {escape(name)}:[/] {escape('; '.join(feature_caveats))}")
    if out is None:
        console().print(escape(repr(extracted)))
    targets = {} if out is None else {name: _target(out, name, len(names)) for name in extracted.asked}
    for name, target in targets.items():
        table = extracted.to_pandas(name, unmeasured=unmeasured)
        try:
            write_table(table, target)
        except OSError as error:
            cannot_write(target, error)
        console().print(f"{escape(str(target))}: {len(table)} rows, {table.shape[1]} columns")
    for name, reason in extracted.failed.items():
        error_console().print(f"[bold red]failed[/] {escape(name)}: {escape(reason)}")
    if extracted.failed:
        raise typer.Exit(1)


def _target(out: Path, feature: str, count: int) -> Path:
    """A table for each feature: their rows are at other times."""
    return out if count == 1 else out.with_name(f"{out.stem}.{feature}{out.suffix}")
