"""``storyframes export``: features as files of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import StoreArgument, console, error_console, listed, usage_errors


def export(
    store: StoreArgument,
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    format_: Annotated[str, typer.Option("--format", help="parquet, csv, npy, hdf5 or mat.")] = "parquet",
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session, stories for the texts; repeat for more.")
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Only these features, of all tracks (FEATURE@TRACK: of one); with commas, or repeated."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Rows a second, each that nearest to it; the stored rows otherwise.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an earlier export.")] = False,
    json: Annotated[bool, typer.Option("--json", help="For scripts: one object on stdout.")] = False,
) -> None:
    """Export features to Parquet, CSV, NumPy, HDF5 or MATLAB: named columns, times, masks, and a README beside them."""
    from storyframes.export.formats import ExportError, Format
    from storyframes.export.run import export as export_features
    from storyframes.store.feature_store import FeatureStore

    names = listed("--features", features)
    with usage_errors(), error_console().status("exporting") as spinner:
        if format_ not in list(Format):
            raise ExportError(f"--format {format_!r}: there are {', '.join(Format)}")
        done = export_features(
            FeatureStore(store),
            out,
            Format(format_),
            sessions=tuple(session or ()),
            features=names,
            rate=rate,
            replace=replace,
            progress=lambda session_id, name: spinner.update(f"exporting {session_id}/{name}"),
        )
    for one in done.left_out:
        where = escape(f"{one['session_id']}/{one['feature']}")
        error_console().print(f"[yellow]left out[/] {where}: {escape(one['reason'])}")
    if json:
        print(done.to_json(), end="")  # noqa: T201
    else:
        sessions = len({table["session_id"] for table in done.tables})
        size = sum(int(file["bytes"]) for file in done.files.values())
        console().print(f"{escape(str(out))}: {len(done.tables)} tables of {sessions} sessions, {size:,} bytes")
        console().print("README.md there says what each file is; they are measurements of persons, keep them private")
    if done.left_out:
        raise typer.Exit(1)
