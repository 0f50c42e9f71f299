"""Scores by a language model behind an OpenAI-compatible endpoint (the paper's row "LLM").

Every question is asked once and kept (``cache``); a text leaves this machine only as ``endpoint`` allows. Errors name
the host and the kind of failure, never what a server said: it may repeat the text that it was sent.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import cast

import openai
from openai.types.chat import ChatCompletionMessageParam

from storyframes_empathy.text.budget import Budget, BudgetSpentError, Prices, most_tokens
from storyframes_empathy.text.cache import Answer, AnswerCache, question_digest
from storyframes_empathy.text.endpoint import AnswerTooLongError, Endpoint, connected
from storyframes_empathy.text.prompts import Prompt, messages, parse_answer
from storyframes_empathy.text.samples import Sample

_ASKED_AT_MOST = 2  # where the first answer is not a number
_UNANSWERED_IN_A_ROW = 3  # then the service is not there
# What the client raises, or what it gives back lacks, where a server answers with something else.
_NO_COMPLETION = (openai.APIResponseValidationError, ValueError, TypeError, AttributeError, IndexError)
_REASONS = {
    400: "it does not understand the request: is --model right for it?",
    401: "it does not accept the key",
    403: "the key may not use this model",
    404: "it has no such model or address",
}


@dataclass(frozen=True)
class Service:
    """A model, and how it is asked.

    Attributes:
        endpoint: agreed to (:func:`storyframes_empathy.text.endpoint.agree`).
        model: as the service calls it.
        key: a secret; in no ``repr``.
        concurrency: questions at once.
        timeout_s: for one whole answer, from connecting to the last byte.
        retries: of a question that is not answered; a pause that the service asks for is made.
        seed: sent with the question; one more where it is asked again.
        answer_tokens: an answer's length at most; a model that thinks aloud first needs more.
        prices: of the service.
    """

    endpoint: Endpoint
    model: str
    key: str = field(default="none", repr=False)
    concurrency: int = 4
    timeout_s: float = 60.0
    retries: int = 5
    seed: int = 0
    answer_tokens: int = 16
    prices: Prices = field(default_factory=Prices)


@dataclass(frozen=True)
class Question:
    """What is asked, and what may be answered.

    Attributes:
        messages: in the form of the OpenAI protocol; never logged.
        digest: of all that decides the answer.
        most_input_tokens: no fewer than the messages have.
        scale: the least and the greatest number that counts as an answer.
    """

    messages: list[dict[str, str]] = field(repr=False)
    digest: str
    most_input_tokens: int
    scale: tuple[float, float] = (0.0, 1.0)


def questions(samples: Sequence[Sample], prompt: Prompt, service: Service) -> list[Question]:
    """What would be sent, a question a sample, in their order."""
    return [as_question(messages(sample, prompt), service) for sample in samples]


def as_question(content: list[dict[str, str]], service: Service, scale: tuple[float, float] = (0.0, 1.0)) -> Question:
    """These messages as they are asked of a service. The scale must be told in them: it is no part of the digest."""
    parameters = {"temperature": 0.0, "seed": service.seed, "max_tokens": service.answer_tokens}
    digest = question_digest(service.endpoint.base_url, service.model, content, parameters)
    tokens = most_tokens([one["content"] for one in content]) + 8 * len(content)
    return Question(content, digest, tokens, scale)


@dataclass
class Asked:
    """How asking went.

    Attributes:
        answers: by the digest of the question.
        unanswered: by digest, why there is no answer.
        stopped: why no more was asked; empty where all was.
        requests: how many were sent, those that were sent again too.
    """

    answers: dict[str, Answer] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    requests: int = 0


def ask(
    asked: Sequence[Question],
    service: Service,
    cache: AnswerCache,
    budget: Budget,
    *,
    keep_prompts: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> Asked:
    """Ask what the cache does not know, several at once; every answer is kept as it comes.

    A question that the service does not answer is left out; after three in a row, or where it refuses the key, the
    model or the request, or the budget is spent, no more is asked.
    """
    round_ = _Round(service, cache, budget, keep_prompts, progress)
    for question in {one.digest: one for one in asked}.values():
        if known := cache.get(question.digest):
            round_.asked.answers[question.digest] = known
        else:
            round_.open.append(question)
    progress(len(round_.asked.answers))
    return round_.run()


class _Round:
    """Several threads that ask until nothing is open or one of them says stop."""

    def __init__(
        self, service: Service, cache: AnswerCache, budget: Budget, keep_prompts: bool, progress: Callable[[int], None]
    ) -> None:
        self.asked = Asked()
        self.open: list[Question] = []
        self._service = service
        self._cache = cache
        self._budget = budget
        self._keep_prompts = keep_prompts
        self._progress = progress
        self._lock = threading.Lock()
        self._in_a_row = 0

    def run(self) -> Asked:
        if not self.open:
            return self.asked
        service = self._service
        with (
            connected(service.endpoint, self._budget, service.key, service.timeout_s, service.retries) as (
                client,
                gate,
            ),
            ThreadPoolExecutor(service.concurrency) as pool,
        ):
            try:
                for future in [pool.submit(self._one, client, question) for question in self.open]:
                    future.result()
            except BaseException:  # Ctrl-C: what is on its way is waited for and kept, nothing more is asked
                self._stop("it was interrupted")
                raise
        self.asked.requests = gate.sent
        return self.asked

    def _one(self, client: openai.OpenAI, question: Question) -> None:
        if self.asked.stopped:
            return
        try:
            answer = self._answer(client, question)
        except BudgetSpentError:
            self._stop("the next request might pass --max-cost")
        except openai.APIStatusError as error:
            why = _status_reason(error.status_code, self._service.endpoint.host)
            if error.status_code in _REASONS or error.status_code < 400:
                self._stop(why)
            self._unanswered(question, why)
        except openai.APITimeoutError:
            self._unanswered(
                question, f"no answer within {self._service.timeout_s:g} s, asked {self._service.retries + 1} times"
            )
        except openai.APIConnectionError:
            self._unanswered(question, "it cannot be reached")
        except AnswerTooLongError as error:
            self._unanswered(question, str(error))
        except _NO_COMPLETION:
            self._unanswered(question, "what it answered is no chat completion")
        else:
            self._cache.put(question.digest, answer)
            with self._lock:
                self.asked.answers[question.digest] = answer
                self._in_a_row = 0
                self._progress(len(self.asked.answers))

    def _answer(self, client: openai.OpenAI, question: Question) -> Answer:
        """Asks, and once more with another seed where the answer is not a number."""
        service = self._service
        spent = [0, 0]
        said: list[str] = []
        most = (question.most_input_tokens, service.answer_tokens)
        for attempt in range(_ASKED_AT_MOST):
            with self._budget.hold(service.prices.cost(*most)):
                try:
                    completion = client.chat.completions.create(
                        model=service.model,
                        messages=cast(list[ChatCompletionMessageParam], question.messages),
                        temperature=0.0,
                        seed=service.seed + attempt,
                        max_tokens=service.answer_tokens,
                    )
                    said.append(completion.choices[0].message.content or "")
                    used = completion.usage
                except _NO_COMPLETION:
                    self._budget.lost()  # something came, so it may have been paid for
                    raise
                tokens = (used.prompt_tokens, used.completion_tokens) if used else most
                self._budget.paid(service.prices.cost(*tokens))
            spent = [before + now for before, now in zip(spent, tokens, strict=True)]
            score = parse_answer(said[-1], *question.scale)
            if score is not None:
                break
        kept = json.dumps([question.messages, said], ensure_ascii=False) if self._keep_prompts else None
        return Answer(score, spent[0], spent[1], requests=len(said), kept=kept)

    def _unanswered(self, question: Question, why: str) -> None:
        with self._lock:
            self.asked.unanswered[question.digest] = why
            self._in_a_row += 1
            if self._in_a_row < _UNANSWERED_IN_A_ROW:
                return
        self._stop(why)

    def _stop(self, why: str) -> None:
        with self._lock:
            self.asked.stopped = self.asked.stopped or why


def _status_reason(status: int, host: str) -> str:
    if status in _REASONS:
        return f"{host} answered {status}: {_REASONS[status]}"
    if 300 <= status < 400:
        return f"{host} answered {status}: it wants the texts to go to another address, which was not done"
    return f"{host} answered {status}, again and again"
