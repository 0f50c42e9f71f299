"""``storyframes release``: a part of a feature store that may be given to others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from typer.core import TyperGroup

from flows.cli.terminal import StoreArgument, console, error_console, usage_errors

MAKE = "make"


class _MakeUnlessNamed(TyperGroup):
    """``release STORE --out DIR`` is ``release make STORE --out DIR``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [MAKE, *args]
        return super().parse_args(ctx, args)


release_app = typer.Typer(
    cls=_MakeUnlessNamed,
    no_args_is_help=True,
    help="Make a de-identified subset of a store, for sharing: 'release STORE --out DIR --config release.toml'; check "
    "one: 'release verify DIR'.",
)


@release_app.command(MAKE)
def make(
    store: StoreArgument,
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    config: Annotated[Path, typer.Option("--config", help="What is released (docs/release.md).")],
    key: Annotated[
        Path | None,
        typer.Option(help="File of the new names of ids, made if absent; beside OUT otherwise. Never give it away."),
    ] = None,
) -> None:
    """Copy what the configuration names into a release; ids get new numbers, dates and machines are dropped."""
    from storyframes.release.run import make_release
    from storyframes.release.settings import read_settings
    from storyframes.store.feature_store import FeatureStore

    with usage_errors(), error_console().status("releasing") as spinner:
        done = make_release(
            FeatureStore(store),
            out,
            read_settings(config),
            key,
            lambda feature: spinner.update(f"releasing {feature}"),
        )
    shown = console()
    people = f" of {done.participants} participants" if done.participants else ""
    shown.print(f"{escape(str(out))}: {done.sessions} sessions{people}, {len(done.features)} features")
    for line in done.left_out:
        shown.print(f"left out {escape(line)}")
    for line in done.remarks:
        error_console().print(escape(line))
    where = key or out.with_name(f"{out.name}.key.json")
    shown.print(f"The key that leads back to the ids is {escape(str(where))}: keep it, and give it to nobody")


@release_app.command()
def verify(release: Annotated[Path, typer.Argument(help="The folder of the release.")]) -> None:
    """Tell whether every file of a release is as it was released, and nothing lies beside them, no key above all."""
    from storyframes.release.manifest import verify_release

    with usage_errors():
        found = verify_release(release)
    for line in found:
        console().print(escape(line))
    if found:
        raise typer.Exit(1)
    console().print("[green]sound[/] every file is as it was released, and there are no others")
