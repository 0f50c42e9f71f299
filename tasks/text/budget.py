"""What scoring may cost: reserved before a request is sent, so that the cap holds with several on the way at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock

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
        self._held = 0.0
        self._mine: ContextVar[float] = ContextVar("mine", default=0.0)
        self.spent = 0.0

    @contextmanager
    def hold(self, most: float) -> Iterator[None]:
        """Reserve what a question may cost, until the end of the block.

        Raises:
            BudgetSpentError: so much is not left.
        """
        with self._lock:
            if self.spent + self._held + most > self._cap:
                raise BudgetSpentError
            self._held += most
        mine = self._mine.set(most)
        try:
            yield
        finally:
            self._mine.reset(mine)
            with self._lock:
                self._held -= most

    def paid(self, cost: float) -> None:
        """An answer came, and that is what it cost."""
        with self._lock:
            self.spent += cost

    def lost(self) -> None:
        """A request was sent and no answer came: it may have been paid for."""
        self.paid(self._mine.get())

    def check_attempt(self) -> None:
        """Whether what this thread has reserved still fits, after what was lost since.

        Raises:
            BudgetSpentError: it does not.
        """
        with self._lock:
            if self.spent + self._held > self._cap:
                raise BudgetSpentError
