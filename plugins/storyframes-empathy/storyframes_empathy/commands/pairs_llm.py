"""``storyframes empathy pairs score-llm``: scores of story pairs by a language model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from flows.cli import JsonOption, console, fail, usage_errors
from storyframes_empathy.commands.language_model import (
    KEY_VARIABLE,
    AnswerTokensOption,
    BaseUrlOption,
    ConcurrencyOption,
    DryRunOption,
    KeepPromptsOption,
    KeyVariableOption,
    MaxCostOption,
    ModelOption,
    PriceInOption,
    PriceOutOption,
    ProxyOption,
    RecipientsOption,
    RetriesOption,
    SeedOption,
    TimeoutOption,
    ask_service,
    end_unanswered,
    most_tokens_and_cost,
    open_service,
)
from tasks.inspect import counted


def check_out(out: Path) -> None:
    """End the command where the table to write cannot be meant."""
    if out.suffix not in (".csv", ".parquet"):
        fail(f"--out {out}: the name ends in .csv or .parquet", 2)
    if out.exists():
        fail(f"--out {out}: is there already; name a new file", 2)


def score_llm(
    file: Annotated[Path, typer.Argument(help="A table (CSV, Parquet): a row a pair, with both texts.")],
    out: Annotated[Path, typer.Option(help="A new table of scores and labels, without texts: .csv or .parquet.")],
    model: ModelOption,
    base_url: BaseUrlOption,
    aspect: Annotated[
        list[str] | None, typer.Option(help="event, emotion, moral or empathy (by default); repeat.")
    ] = None,
    send_transcripts_to: RecipientsOption = None,
    summaries: Annotated[bool, typer.Option("--summaries", help="Compare the summaries, not the stories.")] = False,
    key_variable: KeyVariableOption = KEY_VARIABLE,
    proxy: ProxyOption = None,
    concurrency: ConcurrencyOption = 4,
    timeout_s: TimeoutOption = 60,
    retries: RetriesOption = 5,
    answer_tokens: AnswerTokensOption = 16,
    seed: SeedOption = 0,
    max_cost: MaxCostOption = None,
    price_in: PriceInOption = None,
    price_out: PriceOutOption = None,
    dry_run: DryRunOption = False,
    keep_prompts: KeepPromptsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Ask a language model, from 1 to 4, how similar the stories of each pair are, in both orders; the mean counts.

    A question is asked once: what was answered is kept in answers.sqlite beside OUT. Texts leave this machine only for
    the host that --send-transcripts-to names. The prompts are our own wording.
    """
    service = open_service(
        model, base_url=base_url, recipients=send_transcripts_to, proxy=proxy, key_variable=key_variable,
        max_cost=max_cost, price_in=price_in, price_out=price_out, sending=not dry_run, concurrency=concurrency,
        timeout_s=timeout_s, retries=retries, seed=seed, answer_tokens=answer_tokens,
    )  # fmt: skip
    from storyframes_empathy.pairs.llm import add_scores, pair_questions
    from storyframes_empathy.pairs.score import write_table
    from storyframes_empathy.pairs.table import Aspect, read_texts
    from storyframes_empathy.statistics.rating_table import TableFaultError

    check_out(out)
    if unknown := [name for name in aspect or () if name not in set(Aspect)]:
        fail(f"--aspect {unknown[0]}: it is {', '.join(Aspect)}", 2)
    aspects = list(dict.fromkeys(Aspect(name) for name in aspect or [Aspect.EMPATHY]))
    with usage_errors():
        try:
            texts = read_texts(file, summaries=summaries)
        except TableFaultError as error:
            fail(str(error), 2)
    asked = {aspect_: pair_questions(texts, aspect_, service) for aspect_ in aspects}
    questions = {question.digest: question for orders in asked.values() for order in orders for question in order}
    every = list(questions.values())
    if dry_run:
        tokens, cost = most_tokens_and_cost(every, service)
        if as_json:
            counts = {"pairs": len(texts.a), "questions": len(every), "tokens_at_most": tokens, "cost_at_most": cost}
            typer.echo(json.dumps(counts))
        else:
            pay = f", at most {cost:.4g} to pay" if cost else ""
            console().print(f"{counted(len(every), 'question')}, at most {tokens:,} tokens{pay}; nothing was sent")
        return
    with usage_errors():
        answered, done = ask_service(every, service, out.parent, max_cost=max_cost, keep_prompts=keep_prompts)
    if answered.stopped or answered.unanswered:
        end_unanswered(answered, every, done, unwritten="scores", as_json=as_json)
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
        "prompts": {str(aspect): prompt_digest(aspect) for aspect in aspects},
        "scores": scores,
        "caveats": [OWN_WORDING],
        "versions": {"storyframes": version("storyframes"), "openai": version("openai")},
    }


def _write_record(out: Path, record: dict[str, Any]) -> None:
    from storyframes.store import write_atomically

    write_atomically(out.with_name(f"{out.name}.run.json"), (json.dumps(record, indent=2) + "\n").encode())
