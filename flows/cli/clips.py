"""The commands about the clip index of a feature store: ``index`` writes it, ``clips`` shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from flows.cli.terminal import (
    ConfigOption,
    JsonOption,
    ReplaceStudyOption,
    StoreArgument,
    StudyArgument,
    console,
    error_console,
    fail,
    refused_if,
    show_json,
    usage_errors,
)
from flows.progress import progress_bar
from tasks.inspect.formatting import counted

if TYPE_CHECKING:
    import pandas as pd

    from flows.part_records import ArrayProgress
    from flows.settings import Settings
    from storyframes.store.storage import Storage
    from tasks.study.load import Study


def index(
    study: StudyArgument,
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="Feature store whose clips.parquet is written.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write this file instead, from the tables only.")] = None,
    replace_study: ReplaceStudyOption = False,
    parts_may_be_missing: Annotated[
        bool,
        typer.Option("--parts-may-be-missing", help="End with 0 even if parts of an array are missing or failed."),
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write the clip index: one row per sliding window and the label columns of each clip.

    The exit code is 1 if something is wrong with a session that gives no clips, or if parts of an array
    ('extract --part') are missing or failed and no other run has extracted their features.
    """
    from flows.settings import check_labels, load_settings
    from storyframes.store import catalogue
    from storyframes.store.feature_store import FeatureStore
    from storyframes.store.layout import open_store
    from tasks.clip_index.index import build_clip_index, export_clip_index, update_clip_index
    from tasks.study.load import SETTINGS_FILE, load_study
    from tasks.study.study_identity import remember_study

    if (store is None) == (out is None):
        fail("give either STORE or --out FILE.parquet", 2)
    if config is None and (study / SETTINGS_FILE).is_file():
        own = escape(str(study / SETTINGS_FILE))
        error_console().print(f"[yellow]look at[/] {own} is not used: '--config {own}' cuts the clips by its settings")
    arrays: list[ArrayProgress] = []
    with usage_errors(), progress_bar("indexing") as progress:
        settings = load_settings(config)
        loaded = load_study(study, recordings=settings.recording.root)
        check_labels(settings, loaded)
        streams = settings.recording.streams
        if store is not None:
            storage = open_store(store).pinned(make_id=True)
            arrays = list(arrays_of(storage))
            remember_study(storage, loaded, replace=replace_study)
            catalogue.compact(storage)
            arrays = [array for array in arrays if array.is_complete or not _finish(array, storage, loaded, settings)]
            features = FeatureStore(store)
            features.storage = storage  # which writes nowhere else, should the disk be unmounted
            built = update_clip_index(
                loaded, settings.clips, features, settings.labels, progress=progress, streams=streams
            )
        elif out is not None:
            built = build_clip_index(loaded, settings.clips, None, settings.labels, progress, streams)
            export_clip_index(built.clips, out)
    shown, clips = console(), built.clips
    incomplete = any(not array.is_complete for array in arrays) and not parts_may_be_missing
    if json:
        notes = {"excluded": built.excluded, "warnings": built.warnings, "remarks": built.remarks}
        of_parts = {"arrays": [array.model_dump() for array in arrays]}
        show_json({**clips_content(clips, clips.attrs.get("schemes", {})), **notes, **of_parts})
        raise typer.Exit(1 if built.excluded or incomplete else 0)
    shown.print(f"{counted(len(clips), 'clip')} of {settings.clips}")
    if len(clips):
        shown.print(clips_table(clips))
    for line in without_clips(built.excluded, built.warnings, built.remarks):
        error_console().print(line)
    _say_what_parts_lack(arrays)
    if incomplete:
        error_console().print(
            "[bold red]parts are missing[/]: what they would have extracted is in no clip. Run them and index again "
            "(--parts-may-be-missing ends with 0; 'extract --part NUMBER/COUNT --drop' removes one that was mistyped)"
        )
    if built.excluded or incomplete:
        raise typer.Exit(1)


def _finish(array: ArrayProgress, storage: Storage, study: Study, settings: Settings) -> bool:
    """Whether nothing is due of an array's features, because other runs did what its parts lack; notes it."""
    from flows.part_records import finish_array
    from tasks.planning.plan import plan_extraction
    from tasks.planning.selection import Selection, SelectionError

    try:
        selection = Selection(only=tuple(array.features))
        plan = plan_extraction(study, storage, settings, selection, rules=settings.labels)
    except SelectionError:  # of another configuration
        return False
    if plan.counts.due or plan.counts.impossible:
        return False
    finish_array(storage, array.name)
    return True


def arrays_of(storage: Storage) -> Iterator[ArrayProgress]:
    """How far each array of parts is that the store knows of."""
    from storyframes.store.layout import PARTS

    if storage.info(PARTS):
        from flows.part_records import array_progress  # needs pydantic, which few stores need

        yield from array_progress(storage)


def _say_what_parts_lack(arrays: Iterable[ArrayProgress]) -> None:
    for array in arrays:
        if not array.is_complete or array.mixed:
            error_console().print(f"[yellow]{escape(str(array))}")


def clips(
    store: StoreArgument,
    where: Annotated[
        str | None, typer.Option(help="Only clips that match, as in training: 'split == \"train\"'.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what the clip index has: clips by phase and split, and the labels that they carry."""
    from storyframes.clips.filters import filter_clips
    from storyframes.store.feature_store import FeatureStore

    with usage_errors(), refused_if(ValueError):
        features = FeatureStore(store)
        index, arrays = features.clips(), list(arrays_of(features.storage))
        schemes = index.attrs.get("schemes", {})
        chosen = filter_clips(index, where)
    if json:
        show_json(clips_content(chosen, schemes))
        return
    shown = console()
    shown.print(f"{len(chosen):,} clips of {chosen['session_id'].nunique()} sessions")
    shown.print(clips_table(chosen))
    for name, level in schemes.items():
        shown.print(f"{escape(name)}: {level}, {chosen[name].notna().sum():,} clips have it")
    _say_what_parts_lack(arrays)


def clips_table(clips: pd.DataFrame) -> Table:
    """How many clips each phase gives to each split."""
    from storyframes.clips.clip_index import SPLITS

    table = Table()
    table.add_column("phase", overflow="fold")
    counts = clips.groupby(["phase", "split"]).size().unstack(fill_value=0)
    windows = clips.drop_duplicates(["session_id", "phase", "start_frame"]).groupby("phase").size()
    splits = [split for split in SPLITS if split in counts]
    for heading in ("windows", *splits, "clips"):
        table.add_column(heading, justify="right")
    for phase, row in counts.iterrows():
        numbers = [windows[phase], *(row[split] for split in splits), row.sum()]
        table.add_row(escape(str(phase)), *(str(number) for number in numbers))
    return table


def clips_content(clips: pd.DataFrame, schemes: Mapping[str, str]) -> dict[str, Any]:
    """The same for scripts, with the columns of the index and how many clips have each label."""
    counts = clips.groupby(["phase", "split"], observed=True).size()
    return {
        "clips": len(clips),
        "sessions": int(clips["session_id"].nunique()),
        "by_phase_and_split": [
            {"phase": str(phase), "split": str(split), "clips": int(count)} for (phase, split), count in counts.items()
        ],
        "labels": {name: {"level": level, "clips": int(clips[name].notna().sum())} for name, level in schemes.items()},
        "columns": list(map(str, clips.columns)),
    }


def without_clips(excluded: Mapping[str, str], warnings: Mapping[str, str], remarks: Sequence[str] = ()) -> list[str]:
    """A line for each session that gives no clips or odd ones, with the reason (at most a few), and the remarks."""
    from tasks.study.problems import SHOWN_OF_A_KIND

    lines = [f"[yellow]look at the clips:[/] {escape(remark)}" for remark in remarks]
    for sessions, begin in ((excluded, "[bold red]no clips of"), (warnings, "[yellow]look at")):
        shown = islice(sessions.items(), SHOWN_OF_A_KIND)
        lines += [f"{begin} {escape(session_id)}:[/] {escape(reason)}" for session_id, reason in shown]
        if len(sessions) > SHOWN_OF_A_KIND:
            lines.append(f"{begin} {len(sessions) - SHOWN_OF_A_KIND} more sessions[/]")
    return lines
