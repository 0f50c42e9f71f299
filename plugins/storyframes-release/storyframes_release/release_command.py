"""The commands of ``storyframes release``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from typer.core import TyperGroup

from flows.cli import LOOK, JsonOption, StoreArgument, console, error_console, show_json, usage_errors
from storyframes_release.options import StudyOption

MAKE = "make"


class _MakeUnlessNamed(TyperGroup):
    """``release STORE --out DIR`` is ``release make STORE --out DIR``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # typer's, a class of click's
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [MAKE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_MakeUnlessNamed,
    rich_help_panel="Keep and share",
    short_help="Make a de-identified subset of a store, for sharing, or check one.",
    no_args_is_help=True,
    add_completion=False,
    **LOOK,
    help="Make a de-identified subset of a store, for sharing: 'release STORE --out DIR --config release.toml'; check "
    "one: 'release verify DIR'; print how its features were extracted: 'release configuration DIR'.",
)


@app.command(MAKE, epilog="Next: storyframes release verify OUT")
def make(
    store: StoreArgument,
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    config: Annotated[Path, typer.Option("--config", help="TOML file that lists what is released (docs/release.md).")],
    study: StudyOption = None,
    key: Annotated[
        Path | None,
        typer.Option(help="File of the new names of ids, made if absent; beside OUT otherwise. Never give it away."),
    ] = None,
) -> None:
    """Copy what the configuration names into a release; ids become numbers, dates and machines are removed."""
    # pandas and the rest here, and below: storyframes --help imports this module
    from storyframes import FeatureStore
    from storyframes_release.release.run import make_release
    from storyframes_release.release.settings import read_settings

    with usage_errors(), error_console().status("releasing") as spinner:
        done = make_release(
            FeatureStore(store),
            out,
            read_settings(config),
            key,
            lambda feature: spinner.update(f"releasing {feature}"),
            study,
        )
    shown = console()
    people = f" of {done.participants} participants" if done.participants else ""
    shown.print(f"{escape(str(out))}: {done.sessions} sessions{people}, {len(done.features)} features")
    shown.print(f"sessions are those of {escape(done.source)}")
    for line in done.left_out:
        shown.print(f"left out {escape(line)}")
    for line in done.remarks:
        error_console().print(escape(line))
    where = key or out.with_name(f"{out.name}.key.json")
    shown.print(f"The key that leads back to the ids is {escape(str(where))}: keep it, and give it to nobody")


@app.command(epilog="Next: storyframes release configuration RELEASE")
def verify(
    release: Annotated[Path, typer.Argument(help="The folder of the release.")],
    study: Annotated[Path | None, typer.Option(help="The study: name released sessions that it no longer has.")] = None,
    key: Annotated[
        Path | None, typer.Option(help="With --study: the file of the new names of ids; beside the release otherwise.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check that every file of a release is unchanged, and that the folder has no other files, in particular no key.

    With --study, also that every session in it is still one of the study.
    """
    from storyframes_release.release.manifest import verify_release, withdrawn_sessions

    with usage_errors():
        problems = verify_release(release)
        if study is not None:
            problems += withdrawn_sessions(release, study, key)
    if json:
        show_json({"sound": not problems, "problems": problems})
        raise typer.Exit(1 if problems else 0)
    for line in problems:
        console().print(escape(line))
    if problems:
        raise typer.Exit(1)
    console().print("[green]sound[/] every file is as it was released, and there are no others")


@app.command(epilog="Next: storyframes release verify RELEASE")
def configuration(
    release: Annotated[Path, typer.Argument(help="The folder of the release.")],
    session: Annotated[str, typer.Option(help="Only this session, if the sessions' settings differ.")] = "",
) -> None:
    """Print the configuration that extracts the features again; versions and digests are comments in it."""
    from storyframes import FeatureStore
    from storyframes_release.release import provenance
    from storyframes_release.release.manifest import STORE

    with usage_errors():
        print(provenance.configuration(FeatureStore(release / STORE), session), end="")  # noqa: T201
