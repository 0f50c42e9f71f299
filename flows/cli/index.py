"""``storyframes index``: the clip index, from the tables and what the feature store knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.terminal import (
    ConfigOption,
    ReplaceStudyOption,
    StudyArgument,
    console,
    error_console,
    fail,
    usage_errors,
)
from tasks.inspect.formatting import counted


def index(
    study: StudyArgument,
    features: Annotated[str | None, typer.Argument(help="Feature store whose clips.parquet is written.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write here instead, from the tables alone.")] = None,
    replace_study: ReplaceStudyOption = False,
    config: ConfigOption = None,
) -> None:
    """Write the clip index: one row per sliding window and what it is labelled of."""
    from flows.cli.tables.clips import clips_table, without_clips
    from flows.settings import check_labels, load_settings
    from storyframes.store import catalogue
    from storyframes.store.feature_store import FeatureStore
    from storyframes.store.layout import open_store
    from tasks.index import build_clip_index, export_clip_index, update_clip_index
    from tasks.study.load import load_study
    from tasks.study.study_identity import remember_study

    if (features is None) == (out is None):
        fail("give either STORE or --out FILE.parquet", 2)
    with usage_errors():
        settings = load_settings(config)
        loaded = load_study(study)
        check_labels(settings, loaded)
        if features is not None:
            storage = open_store(features)
            remember_study(storage, loaded, replace=replace_study)
            catalogue.compact(storage, anew=True)
            built = update_clip_index(loaded, settings.clips, FeatureStore(features), settings.labels, anew=True)
        elif out is not None:
            built = build_clip_index(loaded, settings.clips, None, settings.labels)
            export_clip_index(built.clips, out)
    shown, clips = console(), built.clips
    shown.print(f"{counted(len(clips), 'clip')} of {settings.clips}")
    if len(clips):
        shown.print(clips_table(clips))
    for line in without_clips(built.excluded, built.warnings, built.remarks):
        error_console().print(line)
    if built.excluded:
        raise typer.Exit(1)
