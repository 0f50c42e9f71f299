"""The commands about ratings: ``agreement`` of raters, ``compare-ratings`` of models and people, ``mixed`` models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli import LOOK, JsonOption, console, error_console, fail, need, usage_errors
from storyframes_empathy import DISTRIBUTION
from storyframes_empathy.statistics.choices import RATER, UNIT, VALUE, Categories

statistics_app = typer.Typer(
    help="Compute statistics of ratings, from tables or a study's labels.", no_args_is_help=True, **LOOK
)


@statistics_app.command(epilog="Next: storyframes empathy statistics --help")
def agreement(
    source: Annotated[Path, typer.Argument(help="A table of ratings (CSV, Parquet), or a study with labels.")],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="RATER", help="Only this rater (a column of a wide table); repeat for more."),
    ] = None,
    unit: Annotated[str, typer.Option(metavar="COLUMN", help="Column of what was rated.")] = UNIT,
    rater: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the rater, in a long table.")] = RATER,
    value: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the rating, in a long table.")] = VALUE,
    names: Annotated[bool, typer.Option("--names", help="A table's values are names without an order.")] = False,
    kappa: Annotated[
        Categories | None, typer.Option(help="How kappa makes classes of numbers; by default their floor.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="The threshold of --kappa above.")] = 2.5,
    json: JsonOption = False,
) -> None:
    """Measure how far raters agree: Pearson, Spearman, Cohen's kappa, Krippendorff's alpha."""
    from storyframes_empathy.commands.tables import (
        agreement_json,
        agreement_tables,
        study_agreement_json,
        study_agreement_tables,
    )
    from storyframes_empathy.statistics import agreement as statistics
    from storyframes_empathy.statistics.rating_table import TableFaultError
    from storyframes_empathy.statistics.ratings import read_ratings
    from storyframes_empathy.statistics.study_ratings import study_agreement
    from tasks.study import load_study

    raters = tuple(dict.fromkeys(only or ()))
    if len(raters) == 1:
        fail("--only names one rater: agreement needs two", 2)
    if threshold != 2.5 and kappa is not Categories.ABOVE:
        fail("--threshold belongs to --kappa above", 2)
    shown = console()
    with usage_errors():
        if source.is_dir():
            if names or (unit, rater, value) != (UNIT, RATER, VALUE):
                fail("--names, --unit, --rater and --value are of tables; a study says itself what its labels are", 2)
            study = load_study(source)
            if unknown := [name for name in raters if name not in study.raters]:
                fail(f"--only {unknown[0]}: the study has no such rater; it has {', '.join(study.raters) or 'none'}", 2)
            schemes = study_agreement(study, raters, kappa, threshold)
            if not any(scheme.agreement for scheme in schemes.values()):
                fail(f"{source}: no two raters labelled the same: there is nothing to compare", 2)
            if json:
                print(study_agreement_json(schemes))  # noqa: T201
            else:
                for part in study_agreement_tables(schemes):
                    shown.print(part)
            return
        try:
            ratings = read_ratings(source, unit=unit, rater=rater, value=value, raters=raters, are_names=names)
        except TableFaultError as error:
            fail(str(error), 2)
    compared = statistics.agreement(ratings, kappa or Categories.FLOOR, threshold)
    if json:
        print(agreement_json(compared))  # noqa: T201
    else:
        for part in agreement_tables(compared):
            shown.print(part)


@statistics_app.command(epilog="Next: storyframes empathy statistics --help")
def compare_ratings(
    file: Annotated[Path, typer.Argument(help="A table (CSV, Parquet): a row has a person's and models' ratings.")],
    human: Annotated[str, typer.Option(metavar="COLUMN", help="The column of people's ratings.")] = "human",
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="A column of a model's ratings; repeat for more. By default every other column."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Compare the rows of each value of this column separately; repeat for more."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compare models' ratings with people's: RMSE, mean difference, Wasserstein, paired t with Holm."""
    need("scipy", "", DISTRIBUTION)
    from storyframes_empathy.commands.tables import ratings_compared_json, ratings_compared_tables
    from storyframes_empathy.statistics.comparison import compare_ratings as compared_ratings
    from storyframes_empathy.statistics.rating_table import TableFaultError

    with usage_errors():
        try:
            compared = compared_ratings(file, human=human, models=tuple(model or ()), by=tuple(by or ()))
        except TableFaultError as error:
            fail(str(error), 2)
    if json:
        print(ratings_compared_json(compared))  # noqa: T201
    else:
        shown = console()
        for part in ratings_compared_tables(compared):
            shown.print(part)


@statistics_app.command(epilog="Next: storyframes empathy statistics --help")
def mixed(
    file: Annotated[Path, typer.Argument(help="A table (CSV, Parquet): a row is a rating of a story.")],
    outcome: Annotated[str, typer.Option(metavar="COLUMN", help="The column to explain.")],
    predictor: Annotated[
        list[str], typer.Option(metavar="COLUMN", help="A column that may explain it; repeat for more.")
    ],
    story: Annotated[str, typer.Option(metavar="COLUMN", help="The column of the story.")] = "story",
    joint: Annotated[
        bool, typer.Option("--joint", help="All predictors in one model; else one model for each.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Keep the columns' units; else everything is standardised.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Fit mixed models with an intercept for each story; exit 1 if one could not be fitted."""
    need("statsmodels", "", DISTRIBUTION)
    from storyframes_empathy.commands.tables import mixed_json, mixed_tables
    from storyframes_empathy.statistics.mixed import fit_table
    from storyframes_empathy.statistics.rating_table import TableFaultError

    with usage_errors(), error_console().status("fitting"):
        try:
            fitted = fit_table(file, outcome, predictor, story=story, joint=joint, raw=raw)
        except TableFaultError as error:
            fail(str(error), 2)
    if json:
        print(mixed_json(fitted))  # noqa: T201
    else:
        shown = console()
        for part in mixed_tables(fitted):
            shown.print(part)
    if not all(model.is_sound for model in fitted.models):
        raise typer.Exit(1)
