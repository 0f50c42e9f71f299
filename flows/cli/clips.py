"""``storyframes clips``: what is in the clip index of a feature store."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import StoreArgument, console, refused_if, usage_errors


def clips(
    features: StoreArgument,
    where: Annotated[str | None, typer.Option(help="Only these, as in training: 'split == \"train\"'.")] = None,
    json: Annotated[bool, typer.Option("--json", help="For scripts: one object on stdout.")] = False,
) -> None:
    """Show what the clip index has: clips by phase and split, and the labels that they carry."""
    from flows.cli.tables.clips import clips_json, clips_table
    from storyframes.clips.filters import filter_clips
    from storyframes.store.feature_store import FeatureStore

    with usage_errors(), refused_if(ValueError):
        index = FeatureStore(features).clips()
        schemes = index.attrs.get("schemes", {})
        chosen = filter_clips(index, where)
    if json:
        print(clips_json(chosen, schemes))  # noqa: T201
        return
    shown = console()
    shown.print(f"{len(chosen):,} clips of {chosen['session_id'].nunique()} sessions")
    shown.print(clips_table(chosen))
    for name, level in schemes.items():
        shown.print(f"{escape(name)}: {level}, {chosen[name].notna().sum():,} clips have it")
