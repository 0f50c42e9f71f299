"""The commands about the extractors, plug-ins among them: ``storyframes extractors …``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import LOOK, ConfigOption, console, error_console, fail, usage_errors

extractors_app = typer.Typer(help="The extractors, and what plug-ins need.", no_args_is_help=True, **LOOK)


@extractors_app.command("list")
def extractors_list(config: ConfigOption = None) -> None:
    """Show the extractors: what each reads, where it runs and comes from, and what it lacks here."""
    from flows.cli.tables.extractors import extractors_table
    from flows.settings import load_settings
    from tasks.extractors.overview import overview
    from tasks.extractors.registry import broken

    with usage_errors():
        settings = load_settings(config)
    console().print(extractors_table(overview(settings)))
    for point, why in broken().items():
        error_console().print(f"[yellow]cannot be used[/] {escape(point)}: {escape(why)}")


@extractors_app.command("install")
def extractors_install(
    name: Annotated[str, typer.Argument(help="A feature that runs in an environment of its own.")],
    python: Annotated[
        Path | None, typer.Option("--python", help="The interpreter to make it with; without it this one.")
    ] = None,
) -> None:
    """Make the environment that a plug-in's program runs in, from its pins; does nothing where it is there."""
    from tasks.extractors.outside.environment import InstallError, install_environment
    from tasks.extractors.overview import NoEnvironmentError, requirements_of

    with usage_errors():
        try:
            requirements = requirements_of(name)
            with error_console().status(f"installing what {requirements.name} needs"):
                made = install_environment(requirements, python)
        except NoEnvironmentError as error:
            fail(str(error), 2)
        except InstallError as error:
            fail(str(error), 1)
    console().print(escape(str(made.folder)))
