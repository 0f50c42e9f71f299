"""What scoring may cost: reserved before a request is sent, so that the cap holds with several on the way at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, get_ident

_BYTES_PER_TOKEN = 3  # fewer than any tokenizer has on average, also where a character is a token
_MILLION = 1_000_000


class BudgetSpentError(RuntimeError):
    """The next request might cost more than is left; it was not sent."""


@dataclass(frozen=True)
class Prices:
    """Of a million tokens, in whatever currency the cap is in."""

    input: float = 0.0
    output: float = 0.0

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION


def most_tokens(texts: list[str]) -> int:
    """No fewer tokens than texts have."""
    return sum(math.ceil(len(text.encode()) / _BYTES_PER_TOKEN) for text in texts)


class Budget:
    """Counts what was spent and what may still be spent by requests on their way; safe to share between threads.

    Args:
        cap: never passed by what is spent and reserved; None for no cap.
    """

    def __init__(self, cap: float | None = None) -> None:
        self._cap = math.inf if cap is None else cap
        self._lock = Lock()
        self._reserved: dict[int, float] = {}  # by thread: what the question that it asks may cost
        self.spent = 0.0

    @contextmanager
    def hold(self, most: float) -> Iterator[None]:
        """Reserve what the one question that this thread asks may cost, until the end of the block.

        Raises:
            BudgetSpentError: so much is not left.
        """
        with self._lock:
            if self._committed() + most > self._cap:
                raise BudgetSpentError
            self._reserved[get_ident()] = most
        try:
            yield
        finally:
            with self._lock:
                del self._reserved[get_ident()]

    def paid(self, cost: float) -> None:
        """An answer came, and that is what it cost."""
        with self._lock:
            self.spent += cost

    def lost(self) -> None:
        """A request of this thread was sent and no answer came: it may have been paid for."""
        self.paid(self._reserved.get(get_ident(), 0.0))

    def check_attempt(self) -> None:
        """Whether what this thread has reserved still fits, after what was lost since.

        Raises:
            BudgetSpentError: it does not.
        """
        with self._lock:
            if self._committed() > self._cap:
                raise BudgetSpentError

    def _committed(self) -> float:
        return self.spent + sum(self._reserved.values())
