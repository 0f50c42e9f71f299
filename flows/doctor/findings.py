"""A finding: one thing on a machine that was looked at."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path


class State(StrEnum):
    """Whether something is available."""

    HERE = "here"
    GAP = "gap"  # something lacks it; nothing that was asked for
    FAULT = "fault"  # what was asked for cannot work


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    about: str
    state: State  # whether it is available
    what: str  # what was found
    advice: str = ""  # what to do about a gap, or a fault

    @property
    def is_fault(self) -> bool:
        return self.state is State.FAULT

    def without_home(self) -> Finding:
        """The same with the home folder of this user as ``~``: findings may be sent to somebody."""
        return replace(self, what=_without_home(self.what), advice=_without_home(self.advice))

    def to_json(self) -> dict[str, str]:
        """For scripts."""
        return {name: str(value) for name, value in asdict(self).items()}


def _without_home(text: str) -> str:
    try:
        home = Path.home()
    except RuntimeError:  # this user has none
        return text
    for folder in {home, home.resolve()} - {Path("/")}:
        text = text.replace(f"'{folder}/", "~/'").replace(str(folder), "~")  # a shell expands no ~ between quotes
    return text
