"""Embeddings of texts by a service, for topics, under the same rules as questions (``endpoint``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import openai

from storyframes_empathy.text.budget import Budget
from storyframes_empathy.text.endpoint import AnswerTooLongError, Endpoint, connected

_AT_ONCE = 64  # texts of a request
_MOST_BYTES = 32_000_000  # of its answer: as many vectors of 16,000 numbers in 30 characters each


class EmbeddingError(RuntimeError):
    """The service gave no embeddings; the message names it and the kind of failure, never what it said."""


@dataclass(frozen=True)
class EmbeddingService:
    """A model that embeds texts, and how it is asked.

    Attributes:
        endpoint: agreed to (:func:`storyframes_empathy.text.endpoint.agree`).
        model: as the service calls it.
        key: a secret; in no ``repr``.
        timeout_s: for one whole answer, from connecting to the last byte.
        retries: of a request that is not answered.
    """

    endpoint: Endpoint
    model: str
    key: str = field(default="none", repr=False)
    timeout_s: float = 60.0
    retries: int = 5


def embed(
    texts: Sequence[str], service: EmbeddingService, progress: Callable[[int], None] = lambda done: None
) -> np.ndarray:
    """(n, width) float32, a row for each text.

    Raises:
        EmbeddingError: the service refused, was not there, or answered something else than an embedding for each.
    """
    rows: list[Sequence[float]] = []
    host = service.endpoint.host
    opened = connected(
        service.endpoint, Budget(), service.key, service.timeout_s, service.retries, most_bytes=_MOST_BYTES
    )
    with opened as (client, _):
        for start in range(0, len(texts), _AT_ONCE):
            some = list(texts[start : start + _AT_ONCE])
            try:
                answer = client.embeddings.create(model=service.model, input=some, encoding_format="float")
                found = {one.index: one.embedding for one in answer.data}
                rows += [found[place] for place in range(len(some))]
            except openai.APIStatusError as error:
                raise EmbeddingError(f"{host} answered {error.status_code}") from None
            except openai.APITimeoutError:
                raise EmbeddingError(f"{host} gave no answer within {service.timeout_s:g} s") from None
            except openai.APIConnectionError:
                raise EmbeddingError(f"{host} cannot be reached") from None
            except AnswerTooLongError as error:
                raise EmbeddingError(f"{host}: {error}") from None
            except (openai.OpenAIError, ValueError, TypeError, AttributeError, KeyError):
                raise EmbeddingError(f"{host} did not answer with an embedding for each text") from None
            progress(len(rows))
    try:
        made = np.array(rows, np.float32)
    except ValueError:
        made = np.empty(0, np.float32)
    if made.ndim != 2 or not np.isfinite(made).all():
        raise EmbeddingError(f"{host} gave embeddings of several lengths, or that are not finite")
    return made
