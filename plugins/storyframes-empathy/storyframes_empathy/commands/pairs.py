"""``storyframes empathy pairs``: scores of story pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli import LOOK, JsonOption, console, error_console, fail, need, show_json, usage_errors
from storyframes_empathy import DISTRIBUTION
from storyframes_empathy.commands.pairs_llm import check_out, score_llm
from tasks.inspect import counted

pairs_app = typer.Typer(help="Score how similar two stories are.", no_args_is_help=True, **LOOK)


@pairs_app.command("score", epilog="Next: storyframes empathy pairs evaluate --help")
def score(
    file: Annotated[Path, typer.Argument(help="A table (CSV, Parquet): a row a pair, with both texts.")],
    out: Annotated[Path, typer.Option(help="A new table of scores and labels, without texts: .csv or .parquet.")],
    summaries: Annotated[bool, typer.Option("--summaries", help="Compare the summaries, not the stories.")] = False,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a sentence-transformers model; by default all-MiniLM-L6-v2.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Score pairs by the cosine of their texts' embeddings, on this machine. A language model: pairs score-llm."""
    need("sentence_transformers", "pipeline", DISTRIBUTION)
    from storyframes_empathy.pairs.score import score_pairs, write_table
    from storyframes_empathy.statistics.rating_table import TableFaultError
    from tasks.extractors import ExtractionError, SbertSettings

    check_out(out)
    with usage_errors(), error_console().status("embedding"):
        try:
            scored = score_pairs(file, SbertSettings(model=model), summaries=summaries)
        except (TableFaultError, ExtractionError) as error:
            fail(str(error), 2)
        write_table(scored.table, out)
    if json:
        told = {"pairs": len(scored.table), "texts": scored.texts, "in_chunks": scored.in_chunks, "out": str(out)}
        show_json(told)
    else:
        long = f", {scored.in_chunks} of them in chunks" if scored.in_chunks else ""
        pairs, texts = counted(len(scored.table), "pair"), counted(scored.texts, "text")
        console().print(f"{pairs} of {texts}{long}: {escape(str(out))}", soft_wrap=True)


pairs_app.command("score-llm", epilog="Next: storyframes empathy pairs evaluate --help")(score_llm)


@pairs_app.command("finetune", epilog="Next: storyframes empathy pairs score --help")
def finetune(
    file: Annotated[Path, typer.Argument(help="A table (CSV, Parquet): a row a pair, with both texts and a label.")],
    out: Annotated[Path, typer.Option(help="A new folder for the model.")],
    aspect: Annotated[str, typer.Option(help="The labels to learn: event, emotion, moral or empathy.")] = "empathy",
    loss: Annotated[str, typer.Option(help="cosine, cosent, angle or contrastive.")] = "cosine",
    model: Annotated[
        Path | None, typer.Option(help="Folder of the model to begin with; by default all-MiniLM-L6-v2.")
    ] = None,
    summaries: Annotated[bool, typer.Option("--summaries", help="Compare the summaries, not the stories.")] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Number of passes over the pairs.")] = 3,
    batch_size: Annotated[int, typer.Option(min=2, help="Pairs at once.")] = 16,
    learning_rate: Annotated[float, typer.Option(min=0, help="The highest learning rate.")] = 2e-5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of pairs and of dropout.")] = 0,
    json: JsonOption = False,
) -> None:
    """Train a sentence encoder further on labelled pairs, on this machine; 'pairs score --model' takes the folder."""
    need("sentence_transformers", "pipeline", DISTRIBUTION)
    from storyframes_empathy.pairs.finetune import FinetuneError, Loss, Recipe
    from storyframes_empathy.pairs.finetune import finetune as train
    from storyframes_empathy.pairs.table import Aspect, read_texts
    from storyframes_empathy.statistics.rating_table import TableFaultError
    from tasks.extractors import ExtractionError, SbertSettings

    if aspect not in set(Aspect) or loss not in set(Loss):
        fail(f"--aspect is {', '.join(Aspect)}; --loss is {', '.join(Loss)}", 2)
    if out.exists():
        fail(f"--out {out}: is there already; name a new folder", 2)
    recipe = Recipe(Aspect(aspect), Loss(loss), epochs, batch_size, learning_rate, seed)
    with usage_errors(), error_console().status("training") as spinner:
        try:
            record = train(
                read_texts(file, summaries=summaries), recipe, out, SbertSettings(model=model),
                lambda epoch, mean: spinner.update(f"epoch {epoch} of {epochs}: loss {mean:.4g}"),
            )  # fmt: skip
        except (TableFaultError, FinetuneError, ExtractionError) as error:
            fail(str(error), 2)
    if json:
        show_json({"out": str(out), **record})
        return
    losses = ", ".join(f"{mean:.4g}" for mean in record["loss"])
    console().print(f"{counted(record['pairs'], 'pair')}, loss by epoch {losses}: {escape(str(out))}", soft_wrap=True)
    for caveat in record["caveats"]:
        console().print(f"caveat: {caveat}", soft_wrap=True)


@pairs_app.command("evaluate", epilog="Next: storyframes empathy pairs --help")
def evaluate(
    file: Annotated[Path, typer.Argument(help="A table (CSV, Parquet): a row a pair, with labels and scores.")],
    score: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Scores from 1 to 4, as the labels; repeat.")
    ] = None,
    cosine: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Cosines, which become 1 + 3 max(0, cos); repeat.")
    ] = None,
    times4: Annotated[bool, typer.Option("--times4", help="Cosines become 4 cos.")] = False,
    ab: Annotated[str | None, typer.Option(metavar="COLUMN", help="Scores of A with B; needs --ba.")] = None,
    ba: Annotated[str | None, typer.Option(metavar="COLUMN", help="Scores of B with A; the mean counts.")] = None,
    threshold: Annotated[float, typer.Option(help="Pairs with a higher score or label are similar.")] = 2.5,
    json: JsonOption = False,
) -> None:
    """Compare scores of pairs with the labels of each aspect."""
    from storyframes_empathy.commands.tables import pairs_json, pairs_tables
    from storyframes_empathy.pairs import metrics
    from storyframes_empathy.pairs.table import CosineScale, read_pairs
    from storyframes_empathy.statistics.rating_table import TableFaultError

    if (ab is None) != (ba is None):
        fail("--ab and --ba belong together: the scores of both orders", 2)
    if not (score or cosine or ab):
        fail("name the scores: --score, --cosine, or --ab with --ba", 2)
    scale = CosineScale.TIMES4 if times4 else CosineScale.CLIPPED
    orders = (ab, ba) if ab is not None and ba is not None else None
    with usage_errors():
        try:
            table = read_pairs(file, scores=score or (), cosines=cosine or (), orders=orders, scale=scale)
        except TableFaultError as error:
            fail(str(error), 2)
    evaluated = metrics.evaluate(table, threshold)
    if json:
        print(pairs_json(evaluated))  # noqa: T201
    else:
        shown = console()
        for part in pairs_tables(evaluated):
            shown.print(part)
