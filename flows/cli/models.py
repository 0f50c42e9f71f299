"""The commands about the model files that extractors need: ``storyframes models …``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import LOOK, ConfigOption, console, error_console, fail, usage_errors

models_app = typer.Typer(help="The model files that extractors need.", no_args_is_help=True, **LOOK)


@models_app.command("list")
def models_list() -> None:
    """Show the model files: which are here, where they come from, under which licence."""
    from flows.cli.tables.models import models_table
    from tasks.models import weights

    console().print(models_table(list(weights.MODELS.values())))


@models_app.command("fetch")
def models_fetch(names: Annotated[list[str], typer.Argument(help="As 'models list' shows them.")]) -> None:
    """Download model files; each is checked by its SHA-256."""
    from rich.progress import DownloadColumn, Progress, TaskID, TransferSpeedColumn

    from tasks.models import weights

    for name in names:
        if name not in weights.MODELS:
            fail(f"there is no model {name!r}; there are {', '.join(weights.MODELS)}", 2)
    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    for name in names:
        with Progress(*columns, console=error_console()) as bars:
            bar = bars.add_task(name, total=None)

            def show(done: int, total: int, bars: Progress = bars, bar: TaskID = bar) -> None:
                bars.update(bar, completed=done, total=total)

            try:
                path = weights.fetch(weights.MODELS[name], show)
            except weights.WeightsError as error:
                bars.stop()
                fail(str(error), 1)
        console().print(escape(str(path)))


@models_app.command("check")
def models_check(
    feature: Annotated[str, typer.Argument(help="Whose tool to try, for instance openface.")],
    config: ConfigOption = None,
) -> None:
    """Try out what an extractor runs on a clip of seconds: version, speed, columns, determinism."""
    from flows.cli.demo import demo_video
    from flows.cli.tables.models import trial_table
    from flows.settings import load_settings
    from tasks.extractors.base import ExtractionError
    from tasks.extractors.registry import build_extractors
    from tasks.extractors.required_tools import TriesOut

    with usage_errors():
        settings = load_settings(config)
    there = {name: one for name, one in build_extractors(settings, "").items() if isinstance(one, TriesOut)}
    if feature not in there:
        fail(f"there is nothing to check for {feature!r}; there is {', '.join(there)}", 2)
    with error_console().status(f"trying {feature} out"):
        try:
            told = there[feature].try_out(demo_video())
        except ExtractionError as error:
            fail(str(error), 1)
    console().print(trial_table(told))
