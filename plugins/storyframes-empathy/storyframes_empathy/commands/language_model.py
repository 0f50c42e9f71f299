"""What ``score llm`` and ``pairs score-llm`` share: the options of a language model's service, and how it is asked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from flows.cli import error_console, fail, need
from storyframes_empathy import DISTRIBUTION
from tasks.inspect import counted

if TYPE_CHECKING:
    from storyframes_empathy.text.llm import Asked, Question, Service

ModelOption = Annotated[str, typer.Option(help="The model's name at the service.")]
BaseUrlOption = Annotated[str, typer.Option(help="An OpenAI-compatible service, such as http://127.0.0.1:8001/v1.")]
RecipientsOption = Annotated[
    list[str] | None,
    typer.Option(help="The service's host: texts may leave this machine for it; repeat for a proxy."),
]
KeyVariableOption = Annotated[str, typer.Option(help="The environment variable that holds the service's key.")]
ProxyOption = Annotated[
    str | None,
    typer.Option(help="A proxy to the service; it receives the texts too, so name its host in --send-transcripts-to."),
]
ConcurrencyOption = Annotated[int, typer.Option(min=1, max=64, help="Questions at once.")]
TimeoutOption = Annotated[float, typer.Option(min=0.1, help="Seconds for one whole answer.")]
RetriesOption = Annotated[int, typer.Option(min=0, help="Retries of an unanswered question.")]
AnswerTokensOption = Annotated[int, typer.Option(min=1, help="Maximum number of tokens of an answer.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Sent with every question.")]
MaxCostOption = Annotated[float | None, typer.Option(min=0, help="Never spend more; needs both prices.")]
PriceInOption = Annotated[float | None, typer.Option(min=0, help="Price of a million tokens that are sent.")]
PriceOutOption = Annotated[float | None, typer.Option(min=0, help="Price of a million tokens of answers.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be sent and what it may cost; send nothing.")
]
KeepPromptsOption = Annotated[
    bool, typer.Option("--keep-prompts", help="Keep texts and answers in the cache, for your eyes only.")
]
KEY_VARIABLE = "OPENAI_API_KEY"


def open_service(
    model: str, *, base_url: str, recipients: Sequence[str] | None, proxy: str | None, key_variable: str,
    max_cost: float | None, price_in: float | None, price_out: float | None, sending: bool, **asking: Any,
) -> Service:  # fmt: skip
    """The service that the options name, agreed to; ends the command where it cannot be used.

    Args:
        model, base_url, recipients, proxy, key_variable, max_cost, price_in, price_out: the options.
        sending: texts are to be sent, so the recipients must have been named.
        asking: the fields of :class:`Service` that say how it is asked.
    """
    need("openai", "llm", DISTRIBUTION)
    if max_cost is not None and (price_in is None or price_out is None):
        fail("--max-cost needs --price-in and --price-out: what a million tokens cost", 2)
    from storyframes_empathy.text.budget import Prices
    from storyframes_empathy.text.endpoint import EndpointError, agree
    from storyframes_empathy.text.llm import Service

    try:
        endpoint = agree(base_url, recipients or (), proxy=proxy, sending=sending)
    except EndpointError as error:
        fail(str(error), 2)
    prices = Prices(price_in or 0.0, price_out or 0.0)
    return Service(endpoint, model, os.environ.get(key_variable) or "none", prices=prices, **asking)


def most_tokens_and_cost(questions: Sequence[Question], service: Service) -> tuple[int, float]:
    """The most tokens that would be sent, and the most that questions and answers would cost."""
    tokens = sum(question.most_input_tokens for question in questions)
    return tokens, service.prices.cost(tokens, service.answer_tokens * len(questions))


def ask_service(
    questions: Sequence[Question], service: Service, folder: Path, *, max_cost: float | None, keep_prompts: bool
) -> tuple[Asked, dict[str, Any]]:
    """Ask what ``folder/answers.sqlite`` has no answer to, with a spinner; the answers, and what was done, for JSON."""
    from storyframes_empathy.text.budget import Budget
    from storyframes_empathy.text.cache import AnswerCache
    from storyframes_empathy.text.llm import ask

    cache, budget = AnswerCache(folder / "answers.sqlite"), Budget(max_cost)
    with error_console().status("asking") as spinner:
        asked = ask(
            questions, service, cache, budget,
            keep_prompts=keep_prompts,
            progress=lambda done: spinner.update(f"asking: {done} of {len(questions)} answered"),
        )  # fmt: skip
    return asked, {"requests": asked.requests, "spent": budget.spent, "answers": len(asked.answers)}


def end_unanswered(
    asked: Asked, questions: Sequence[Question], done: Mapping[str, Any], *, unwritten: str, as_json: bool
) -> NoReturn:
    """End the command: ``unwritten`` (predictions, scores) of a part would be taken for those of the whole."""
    unanswered = len({question.digest for question in questions} - asked.answers.keys())
    reason = asked.stopped or next(iter(asked.unanswered.values()))
    if as_json:
        typer.echo(json.dumps({**done, "unanswered": unanswered, "reason": reason}))
    fail(
        f"{counted(unanswered, 'question')} of {len(questions)} not answered: {reason}. No {unwritten} were written; "
        "the answers are kept, so the same command goes on from here",
        1,
    )
