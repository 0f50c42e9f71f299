"""The ``storyframes`` command: its groups of commands, in the order in which ``--help`` shows them.

Exit codes: 0 done; 1 some or all sessions failed, or damage was found; 2 bad usage, a bad study or configuration, or
nothing that could be started; 130 and 143 interrupted by Ctrl-C and by SIGTERM.
Data goes to stdout, progress and errors to stderr. What takes long to import is imported where it is needed, the tables
too, as ``tests/cli/test_imports.py`` holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import storyframes
from flows.cli import (
    benchmark,
    clips,
    compare,
    deploy,
    doctor,
    evaluate,
    export,
    extract,
    extract_file,
    extractors,
    import_labels,
    index,
    init,
    look,
    models,
    pairs,
    plan,
    plug_in_commands,
    release,
    report,
    score,
    statistics,
    status,
    study,
    sync,
    terminal,
    topics,
    train,
    upkeep,
)

app = typer.Typer(
    name="storyframes",
    cls=plug_in_commands.RootGroup,
    help="From session recordings to training-ready multimodal features.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    **terminal.LOOK,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"storyframes {storyframes.__version__}")  # noqa: T201
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


# By panel of --help: a command, or a group of commands with its name.
PANELS: dict[str, tuple[Callable[..., object] | tuple[str, typer.Typer], ...]] = {
    "Start": (
        doctor.doctor,
        init.init,
        extract.demo,
        study.check,
        ("import", import_labels.import_app),
        plan.plan,
        study.synthesize,
    ),
    "Extract": (
        extract.extract,
        extract_file.extract_file,
        sync.sync,
        index.index,
        status.status,
        status.runs,
        deploy.deploy,
    ),
    "Look": (report.report, look.show, look.view, look.overlay, clips.clips, compare.compare),
    "Keep and share": (upkeep.verify, upkeep.gc, upkeep.archive, export.export, ("release", release.release_app)),
    plug_in_commands.PANEL: (("models", models.models_app), ("extractors", extractors.extractors_app)),
    "Train and score": (
        train.train,
        benchmark.benchmark,
        evaluate.evaluate,
        ("score", score.score_app),
        topics.topics,
        ("pairs", pairs.pairs_app),
        statistics.agreement,
        statistics.compare_ratings,
        statistics.mixed,
    ),
}
for panel, commands in PANELS.items():
    for command in commands:
        if isinstance(command, tuple):
            app.add_typer(command[1], name=command[0], rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(command)
