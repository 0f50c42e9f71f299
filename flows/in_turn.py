"""Units of work that travel together to a worker, which does them one after the other; each has its own end."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from prefect import get_run_logger
from prefect.states import Completed, Failed, State

from flows.gather import Bundle, O, U

_SAID = 3  # outcomes in a sentence


class Ended(Protocol):
    """What came of a unit, or of a part of it."""

    @property
    def failed(self) -> bool: ...


def do_in_turn(bundle: Bundle[U], do: Callable[[U], Sequence[O]], describe: Callable[[O], str]) -> State:
    """Do the units one after the other; the state tells the truth.

    Args:
        bundle: of units.
        do: does one of them; what it raises is that unit's fault alone.
        describe: an outcome as a line of a log.

    Returns:
        Completed where nothing failed, Failed where everything did, else PartialSuccess, which is of the type Failed.
        Its data has for each unit its outcomes, or in words why it has none.
    """
    logger = get_run_logger()
    ended: list[tuple[O, ...] | str] = []
    for unit in bundle.units:
        logger.info("%s: started", unit.name)
        try:
            outcomes = tuple(do(unit))
        except (Exception, SystemExit) as error:  # of this unit alone; its text may be of what somebody said
            ended.append(f"the task raised {_kind(error)}")
            logger.error("%s: %s", unit.name, ended[-1])
            continue
        for outcome in outcomes:
            logger.info("%s", describe(outcome))
        ended.append(outcomes)
    return _state(bundle, ended, describe)


def _state(bundle: Bundle[Any], ended: Sequence[tuple[Any, ...] | str], describe: Callable[[Any], str]) -> State:
    outcomes = [outcome for of_unit in ended if not isinstance(of_unit, str) for outcome in of_unit]
    good = [describe(outcome) for outcome in outcomes if not outcome.failed]
    bad = [describe(outcome) for outcome in outcomes if outcome.failed]
    bad += [f"{unit.name}: {why}" for unit, why in zip(bundle.units, ended, strict=True) if isinstance(why, str)]
    data = tuple(ended)
    if not bad:
        return Completed(message=_in_short(good, "done"), data=data)
    name = "PartialSuccess" if good else "Failed"
    return Failed(name=name, message=_in_short(bad, f"of {len(good) + len(bad)} failed"), data=data)


def _in_short(lines: Sequence[str], what: str) -> str:
    if len(lines) == 1 and what == "done":
        return lines[0]
    more = f"; and {len(lines) - _SAID} more" if len(lines) > _SAID else ""
    return f"{len(lines)} {what}: {'; '.join(lines[:_SAID])}{more}"


def _kind(error: BaseException) -> str:
    """What error it is, by a name that is Python's: a name of somebody else's may be made of words."""
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == builtins.__name__)
