"""The commands about the study itself: ``check`` it, ``synthesize`` one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import ConfigOption, StudyArgument, console, error_console, fail, usage_errors
from tasks.inspect.formatting import counted
from tasks.media.synthetic_study import Shape


def check(
    study: StudyArgument,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Open no other file: for a first, fast look.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Validate a study's tables and open every file that they name; report every problem at once."""
    from flows.cli.tables.study import not_read, study_table
    from flows.settings import load_settings
    from tasks.inspect.study_check import check_study, label_problems
    from tasks.study.load import StudyError, in_order, read_study

    with usage_errors(), error_console().status("reading the tables") as spinner:
        settings = load_settings(config)
        if tables_only:
            reading = read_study(study)
            loaded, problems = reading.study, in_order([*reading.problems, *reading.session_problems])
        else:
            loaded, problems = check_study(
                study,
                settings,
                lambda number, count: spinner.update(f"opening the files: {number} of {count}"),
                settings.labels,
            )
        if problems := [*problems, *label_problems(loaded, settings.labels, problems)]:
            for line in not_read(loaded):  # the column that was meant, perhaps
                error_console().print(line)
            raise StudyError(study, problems)
    shown = console()
    shown.print(f"[green]valid[/] {escape(str(study))}{' (its tables; no file was opened)' if tables_only else ''}")
    shown.print(study_table(loaded))


def synthesize(
    folder: Annotated[Path, typer.Argument(help="A new folder for the study.")],
    sessions: Annotated[int, typer.Option(min=1, help="How many sessions.")] = 4,
    seconds: Annotated[float, typer.Option(min=1, help="Length of each.")] = 30,
    seed: Annotated[int, typer.Option(help="Seeds everything that is drawn.")] = 0,
    shape: Annotated[
        Shape, typer.Option(help="A robot and its visitor; or two people, with cameras and microphones on own clocks.")
    ] = Shape.EMPATHIC_STORIES,
) -> None:
    """Make a study of synthetic recordings, for benchmarks and for trying things."""
    from tasks.media.synthesize import SynthesisError, SyntheticStudy, write_study

    errors = error_console()
    plan = SyntheticStudy(sessions=sessions, seconds=seconds, seed=seed, shape=shape)
    with errors.status("synthesizing") as spinner:
        try:
            write_study(folder, plan, lambda name: spinner.update(f"synthesizing {name}"))
        except SynthesisError as error:
            fail(str(error), 2)
    console().print(f"{counted(sessions, 'session')} of {seconds:g} s in {escape(str(folder))}")
