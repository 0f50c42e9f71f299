"""``storyframes empathy pairs score-llm``: scores of story pairs by a language model."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from flows.cli.terminal import console, error_console, fail, need, usage_errors
from storyframes_empathy import DISTRIBUTION
from tasks.inspect.formatting import counted


def check_out(out: Path) -> None:
    """End the command where the table to write cannot be meant."""
    if out.suffix not in (".csv", ".parquet"):
        fail(f"--out {out}: the name ends in .csv or .parquet", 2)
    if out.exists():
        fail(f"--out {out}: is there already; name a new file", 2)


def score_llm(
    file: Annotated[Path, typer.Argument(help="A table (CSV, Parquet): a row a pair, with both texts.")],
    out: Annotated[Path, typer.Option(help="A new table of scores and labels, without texts: .csv or .parquet.")],
    model: Annotated[str, typer.Option(help="As the service calls it.")],
    base_url: Annotated[str, typer.Option(help="An OpenAI-compatible service, such as http://127.0.0.1:8001/v1.")],
    aspect: Annotated[
        list[str] | None, typer.Option(help="event, emotion, moral or empathy (by default); repeat.")
    ] = None,
    send_transcripts_to: Annotated[
        list[str] | None,
        typer.Option(help="The service's host: the table's texts may leave this machine for it; repeat for a proxy."),
    ] = None,
    summaries: Annotated[bool, typer.Option("--summaries", help="Compare the summaries, not the stories.")] = False,
    key_variable: Annotated[
        str, typer.Option(help="The environment variable that holds the service's key.")
    ] = "OPENAI_API_KEY",
    proxy: Annotated[
        str | None,
        typer.Option(help="Reach the service through it, a recipient that is agreed to likewise; no other is used."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Questions at once.")] = 4,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="For one whole answer.")] = 60,
    retries: Annotated[int, typer.Option(min=0, help="Of a question that is not answered.")] = 5,
    answer_tokens: Annotated[int, typer.Option(min=1, help="Of an answer at most.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Sent with every question.")] = 0,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Never spend more; needs both prices.")] = None,
    price_in: Annotated[float | None, typer.Option(min=0, help="Of a million tokens that are sent.")] = None,
    price_out: Annotated[float | None, typer.Option(min=0, help="Of a million tokens of answers.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be sent and what it may cost; send nothing.")
    ] = False,
    keep_prompts: Annotated[
        bool, typer.Option("--keep-prompts", help="Keep texts and answers in the cache, for your eyes only.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts: one object on stdout.")] = False,
) -> None:
    """Ask a language model, from 1 to 4, how similar the stories of each pair are, in both orders; the mean counts.

    A question is asked once: what was answered is kept in answers.sqlite beside OUT. Texts leave this machine only for
    the host that --send-transcripts-to names. The prompts are our own wording.
    """
    need("openai", "llm", DISTRIBUTION)
    if max_cost is not None and (price_in is None or price_out is None):
        fail("--max-cost needs --price-in and --price-out: what a million tokens cost", 2)
    from storyframes_empathy.pairs.llm import add_scores, pair_questions
    from storyframes_empathy.pairs.score import write_table
    from storyframes_empathy.pairs.table import Aspect, read_texts
    from storyframes_empathy.statistics.rating_table import TableFaultError
    from storyframes_empathy.text.budget import Budget, Prices
    from storyframes_empathy.text.cache import AnswerCache
    from storyframes_empathy.text.endpoint import Endpoint, EndpointError, agree
    from storyframes_empathy.text.llm import Service, ask

    check_out(out)
    if unknown := [one for one in aspect or () if one not in set(Aspect)]:
        fail(f"--aspect {unknown[0]}: it is {', '.join(Aspect)}", 2)
    aspects = list(dict.fromkeys(Aspect(one) for one in aspect or [Aspect.EMPATHY]))
    with usage_errors():
        try:
            endpoint: Endpoint = agree(base_url, send_transcripts_to or (), proxy=proxy, sending=not dry_run)
            texts = read_texts(file, summaries=summaries)
        except (EndpointError, TableFaultError) as error:
            fail(str(error), 2)
    service = Service(
        endpoint, model, os.environ.get(key_variable) or "none", concurrency, timeout_s, retries, seed,
        answer_tokens, Prices(price_in or 0.0, price_out or 0.0),
    )  # fmt: skip
    asked = {one: pair_questions(texts, one, service) for one in aspects}
    every = list({one.digest: one for orders in asked.values() for order in orders for one in order}.values())
    if dry_run:
        tokens = sum(one.most_input_tokens for one in every)
        most = service.prices.cost(tokens, answer_tokens * len(every))
        if as_json:
            told = {"pairs": len(texts.a), "questions": len(every), "tokens_at_most": tokens, "cost_at_most": most}
            typer.echo(json.dumps(told))
        else:
            pay = f", at most {most:.4g} to pay" if most else ""
            console().print(f"{counted(len(every), 'question')}, at most {tokens:,} tokens{pay}; nothing was sent")
        return
    with usage_errors():
        cache, budget = AnswerCache(out.parent / "answers.sqlite"), Budget(max_cost)
        with error_console().status("asking") as spinner:
            answered = ask(
                every, service, cache, budget,
                keep_prompts=keep_prompts,
                progress=lambda done: spinner.update(f"asking: {done} of {len(every)} answered"),
            )  # fmt: skip
    done: dict[str, Any] = {"requests": answered.requests, "spent": budget.spent, "answers": len(answered.answers)}
    if answered.stopped or answered.unanswered:
        open_ = len(every) - len(answered.answers)
        why = answered.stopped or next(iter(answered.unanswered.values()))
        if as_json:
            typer.echo(json.dumps({**done, "unanswered": open_, "reason": why}))
        fail(
            f"{counted(open_, 'question')} of {len(every)} not answered: {why}. No scores were written; the answers "
            "are kept, so the same command goes on from here",
            1,
        )
    table = texts.labels.copy()
    scores = {str(one): asdict(add_scores(table, one, orders, answered.answers)) for one, orders in asked.items()}
    record = _record(service, aspects, summaries, scores)
    with usage_errors():
        write_table(table, out)
        _write_record(out, record)
    nothing = not any(of["pairs"] for of in scores.values())
    if as_json:
        typer.echo(json.dumps({"out": str(out), "scores": scores, "caveats": record["caveats"], **done}))
        if nothing:
            raise typer.Exit(1)
        return
    for one, of in scores.items():
        more = f", {of['missing']} missing (an answer without a number)" if of["missing"] else ""
        gap = "" if of["order_gap"] is None else f", the orders {of['order_gap']:.2f} apart on average"
        console().print(f"{one}: {counted(int(of['pairs']), 'pair')} scored{more}{gap}", soft_wrap=True)
    for caveat in record["caveats"]:
        console().print(f"caveat: {caveat}", soft_wrap=True)
    console().print(escape(str(out)), soft_wrap=True)
    if nothing:
        fail("no pair has a score: the answers hold no number from 1 to 4; another model may follow the prompt", 1)


def _record(service: Any, aspects: list[Any], summaries: bool, scores: dict[str, Any]) -> dict[str, Any]:
    """What decided the scores, without a word of a text."""
    from importlib.metadata import version

    from storyframes_empathy.pairs.llm import OWN_WORDING, prompt_digest

    return {
        "scorer": "llm",
        "model": service.model,
        "base_url": service.endpoint.base_url,
        "temperature": 0.0,
        "seed": service.seed,
        "answer_tokens": service.answer_tokens,
        "scale": [1, 4],
        "texts": "summaries" if summaries else "stories",
        "prompts": {str(one): prompt_digest(one) for one in aspects},
        "scores": scores,
        "caveats": [OWN_WORDING],
        "versions": {"storyframes": version("storyframes"), "openai": version("openai")},
    }


def _write_record(out: Path, record: dict[str, Any]) -> None:
    from storyframes.store import write_atomically

    write_atomically(out.with_name(f"{out.name}.run.json"), (json.dumps(record, indent=2) + "\n").encode())
