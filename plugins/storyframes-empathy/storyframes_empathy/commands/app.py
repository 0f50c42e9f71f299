"""``storyframes empathy``: its commands, in the order in which ``--help`` shows them."""

from __future__ import annotations

import typer

from flows.cli import LOOK
from storyframes_empathy.commands import benchmark, evaluate, pairs, score, statistics, topics, train

app = typer.Typer(
    help="The empathy benchmark: models, scores, statistics of ratings, texts.",
    rich_help_panel="Analyse",
    no_args_is_help=True,
    **LOOK,
)
app.command(epilog="Next: storyframes empathy evaluate OUT")(train.train)
app.command(epilog="Next: storyframes empathy evaluate OUT")(benchmark.benchmark)
app.command(epilog="Next: storyframes empathy benchmark --help")(evaluate.evaluate)
app.add_typer(score.score_app, name="score")
app.command(epilog="Next: storyframes status STORE")(topics.topics)
app.add_typer(pairs.pairs_app, name="pairs")
app.add_typer(statistics.statistics_app, name="statistics")
