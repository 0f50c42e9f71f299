"""What a run did: its outcomes counted, and the state it ends in (Completed, PartialSuccess or Failed)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from storyframes.store.records import Status
from tasks.extract import Outcome

if TYPE_CHECKING:
    from prefect.states import State

_NAMED = 5  # sessions in a sentence


@dataclass(frozen=True)
class RunResult:
    """What a run did.

    Attributes:
        outcomes: one for each session and feature asked for.
        submitted: how many tasks were submitted for those that were due.
        clips: rows of the clip index after it.
        seconds: how long it took.
        problem: why the catalogue or the clip index could not be written; empty if they could.
        excluded: sessions asked for that give no clips because something is wrong with them, and what it is.
        warnings: by session, what is odd about its clips.
        remarks: what is to be said of the clip index as a whole.
    """

    outcomes: tuple[Outcome, ...]
    submitted: int
    clips: int
    seconds: float
    problem: str = ""
    excluded: Mapping[str, str] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status is Status.FAILED)

    @property
    def good(self) -> bool:
        """Nothing failed."""
        return not self.failed and not self.problem and not self.excluded

    @property
    def extracted(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status is Status.DONE and not outcome.skipped)

    @property
    def up_to_date(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status is Status.DONE and outcome.skipped)

    @property
    def without_input(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status is Status.MISSING)

    def __str__(self) -> str:
        return (
            f"{len(self.extracted)} extracted, {len(self.up_to_date)} up to date, "
            f"{len(self.without_input)} without input, {len(self.failed)} failed"
            f"{self._without_clips()}{f'; {self.problem}' if self.problem else ''}"
        )

    def _without_clips(self) -> str:
        if not self.excluded:
            return ""
        named = ", ".join(sorted(self.excluded)[:_NAMED])
        more = f" and {len(self.excluded) - _NAMED} more" if len(self.excluded) > _NAMED else ""
        return f"; no clips of {named}{more}"

    def state(self) -> State:
        """Completed; PartialSuccess where some features failed or sessions have no clips; Failed where all failed.

        The result is its data.
        """
        return end_state(self, good=self.good, in_part=len(self.failed) < len(self.outcomes))


def end_state(result: object, *, good: bool, in_part: bool) -> State:
    """The state that a run ends in; its message is the result as text, its data the result.

    Args:
        result: what the run did.
        good: nothing failed.
        in_part: not all failed.
    """
    from prefect.states import Completed, Failed  # a second, which a run without a flow does not wait for

    if good:
        return Completed(message=str(result), data=result)
    name = "PartialSuccess" if in_part else "Failed"
    return Failed(name=name, message=str(result), data=IncompleteError(result))


class IncompleteError(Exception):
    """What a run that failed, or did in part, ends with.

    An exception, because a failed flow that Prefect runs as a process ends with its data as its error: of anything else
    the log gets a TypeError that spells out every outcome.
    """

    def __init__(self, result: object) -> None:
        super().__init__(str(result))
        self.result = result


def sessions_of(outcomes: Sequence[Outcome]) -> int:
    """How many sessions these are of."""
    return len({outcome.session_id for outcome in outcomes})
