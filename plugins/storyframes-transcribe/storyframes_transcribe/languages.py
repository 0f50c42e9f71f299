"""Languages that are given or detected."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.study import SURE_LANGUAGE


class LanguageError(Exception):
    """The model does not know a language; the message says what to do."""


@dataclass(frozen=True)
class Language:
    """A language and how probable it is; 1 where the tables or the settings name it."""

    code: str
    probability: float

    @property
    def is_guess(self) -> bool:
        """Whether it is too improbable to be taken for certain."""
        return self.probability < SURE_LANGUAGE
