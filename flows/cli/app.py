"""The ``storyframes`` command: its groups of commands, in the order in which ``--help`` shows them.

Exit codes: 0 done; 1 some or all sessions failed, or damage was found; 2 bad usage, a bad study or configuration, or
nothing that could be started; 130 and 143 interrupted by Ctrl-C and by SIGTERM.
Data goes to stdout, progress and errors to stderr. What takes long to import is imported where it is needed, the tables
too, as ``tests/test_imports.py`` holds.
"""

from __future__ import annotations

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


for command in (
    doctor.doctor,
    init.init,
    study.check,
    sync.sync,
    plan.plan,
    deploy.deploy,
    extract.extract,
    extract_file.extract_file,
    index.index,
    clips.clips,
    status.status,
    status.runs,
    upkeep.verify,
    upkeep.gc,
    upkeep.archive,
    study.synthesize,
    extract.demo,
    look.overlay,
    report.report,
    look.show,
    look.view,
    compare.compare,
    export.export,
    evaluate.evaluate,
    topics.topics,
    statistics.agreement,
    statistics.compare_ratings,
    statistics.mixed,
    train.train,
    benchmark.benchmark,
):
    app.command()(command)
app.add_typer(import_labels.import_app, name="import")
app.add_typer(pairs.pairs_app, name="pairs")
app.add_typer(release.release_app, name="release")
app.add_typer(models.models_app, name="models")
app.add_typer(extractors.extractors_app, name="extractors")
app.add_typer(score.score_app, name="score")
