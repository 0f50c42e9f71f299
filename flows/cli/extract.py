"""The commands that extract: ``extract`` a study, or the ``demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import (
    ConfigOption,
    ReplaceStudyOption,
    StoreArgument,
    StudyArgument,
    console,
    error_console,
    listed,
    usage_errors,
)
from tasks.inspect.formatting import counted

if TYPE_CHECKING:
    from flows.run import RunResult


def extract(
    study: StudyArgument,
    store: StoreArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only this session; repeat for more.")] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Only these features, with commas between them; repeat for more.")
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Only this track, main for the sessions' own files; repeat for more."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Extract again what is up to date.")] = False,
    replace_study: ReplaceStudyOption = False,
    config: ConfigOption = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="A cluster's YAML file (deploy/clusters), or tls://host:port of a Dask scheduler."),
    ] = None,
) -> None:
    """Bring the features of a study up to date; what is up to date is not touched."""
    from flows.cli.run import run_extraction
    from flows.request import ExtractionRequest

    request = ExtractionRequest(
        study=study,
        features=store,
        config=config,
        cluster=cluster,
        session_ids=tuple(session or ()),
        only=listed("--features", features),
        tracks=tuple(track or ()),
        force=force,
        replace_study=replace_study,
    )
    with usage_errors():
        result = run_extraction(request, error_console())
    _show_result(store, result)
    if not result.good:
        raise typer.Exit(1)


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put it.")] = Path("storyframes-demo"),
) -> None:
    """Extract the demo study that comes with storyframes, and read a clip back."""
    from flows.cli.demo import copy_demo
    from flows.cli.run import run_extraction
    from flows.request import ExtractionRequest
    from storyframes.store.feature_store import FeatureStore

    copied = copy_demo(folder)
    request = ExtractionRequest(study=copied.study, features=str(copied.features), config=copied.config)
    with usage_errors():
        result = run_extraction(request, error_console())
    _show_result(str(copied.features), result)
    shown = console()
    store = FeatureStore(copied.features)
    clips = store.clips()
    if len(clips) and result.good:
        clip = clips.iloc[0]
        vision = store.read(clip["session_id"], "vision", clip["start_frame"], clip["stop_frame"])
        shown.print(f"\nClip {clip['clip_id']}: vision {vision.shape} {vision.dtype}, empathy {clip['empathy']}")
    base = escape(str(folder))
    shown.print("\nNext:")
    shown.print(f"  storyframes status {base}/features")
    shown.print(f"  storyframes verify {base}/features")
    shown.print(
        f"  storyframes extract {base}/study {base}/features --config {base}/storyframes.toml "
        "--session p01-s02 --features resnet50 --force",
        soft_wrap=True,
    )
    shown.print("  storyframes models list          # the trained weights, and how to get them")
    if not result.good:
        raise typer.Exit(1)


def _show_result(store: str, result: RunResult) -> None:
    from flows.cli.tables.status import status_tables
    from flows.cli.tables.study import without_clips
    from storyframes.store import record_status
    from storyframes.store.layout import open_store

    touched = {(outcome.session_id, outcome.feature) for outcome in result.outcomes}
    entries = list(record_status.scan(open_store(store)))
    if touched:  # else nobody could say what the run did
        entries = [entry for entry in entries if (entry.session_id, entry.feature) in touched]
    shown = console()
    shown.print(*status_tables(entries), sep="\n")
    for line in without_clips(result.excluded, result.warnings, result.remarks):
        shown.print(line)
    index = "" if result.problem else f"; the clip index has {counted(result.clips, 'clip')}"
    shown.print(escape(f"This run: {result}{index}."))
