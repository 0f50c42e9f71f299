"""What the parts of an array leave in the feature store: how far each is, and what its units have cost.

It holds no session's name. A part that is killed with SIGKILL leaves what it had noted by then, seconds before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, Field, ValidationError

from flows.clusters.connection import ClusterError
from storyframes.store.layout import PARTS
from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import Storage
from tasks.inspect.formatting import counted

_NAMED = 10  # parts in a line
_DOUBT = 2.0  # so many times what is expected may be too long


class PartState(BaseModel):
    """How far a part is."""

    due: int = 0  # features that were due when it began
    done: int = 0  # of them
    failed: int = 0
    ended: bool = False
    dealt: str = ""  # digest of which sessions all parts have, as this one dealt them
    cpus: int = 0  # processors that it had; 0 in older records, which say nothing of them
    # by the features that share a pass: CPU-seconds that were expected, and the seconds that it took
    costs: dict[str, tuple[float, float]] = {}


class PartArray(BaseModel):
    """The parts of one array, by their numbers; a part that has not begun has no state."""

    parts: int = Field(ge=1, le=999_999)
    features: list[str]
    of: dict[int, PartState] = {}


class _Arrays(BaseModel):
    arrays: dict[str, PartArray] = {}


def _arrays(data: bytes | None) -> dict[str, PartArray]:
    try:
        return _Arrays.model_validate(unseal(data, PARTS) or {}).arrays
    except (RecordError, ValidationError):  # each part notes its own anew
        return {}


def note_part(storage: Storage, name: str, array: PartArray, number: int, state: PartState) -> None:
    """Note how far a part of this array is, in place of what an earlier attempt has noted.

    Raises:
        OSError: it cannot be written.
    """

    def change(data: bytes | None) -> bytes:
        arrays = _arrays(data)
        noted = arrays.setdefault(name, array)
        before = noted.of.get(number, PartState())
        measured = {"costs": before.costs, "cpus": before.cpus}
        noted.of[number] = state if state.costs else state.model_copy(update=measured)
        return seal(_Arrays(arrays=arrays).model_dump(mode="json"))

    storage.update(PARTS, change)


class ArrayProgress(BaseModel):
    """How far the parts of an array are; parts by their numbers."""

    features: list[str]
    parts: int
    ended: list[int]
    failed_features: dict[int, int]  # of parts that have ended with such
    left_features: dict[int, int]  # of parts that are at work, or were killed
    not_begun: list[int]
    dealt_alike: bool  # False: the parts dealt the sessions differently, so some may be in none

    def __str__(self) -> str:
        said = [f"{len(self.ended)} of {counted(self.parts, 'part')} ended"]
        said += [f"with failed features: {_some(self.failed_features)}"] if self.failed_features else []
        said += [f"at work or killed, with features left: {_some(self.left_features)}"] if self.left_features else []
        said += [f"not begun: {_some(dict.fromkeys(self.not_begun))}"] if self.not_begun else []
        if not self.dealt_alike:
            said.append(
                "the parts have dealt the sessions differently, so some may be in none (a table or a recording was "
                "changed, or could not be read): run all parts again"
            )
        return f"{', '.join(self.features)}: {'; '.join(said)}"


def array_progress(storage: Storage) -> Iterator[ArrayProgress]:
    """How far each array of parts is that the store knows of."""
    for array in _arrays(storage.read(PARTS)).values():
        ended = sorted(number for number, state in array.of.items() if state.ended)
        yield ArrayProgress(
            features=array.features,
            parts=array.parts,
            ended=ended,
            failed_features={number: array.of[number].failed for number in ended if array.of[number].failed},
            left_features={n: state.due - state.done for n, state in sorted(array.of.items()) if not state.ended},
            not_begun=[number for number in range(1, array.parts + 1) if number not in array.of],
            dealt_alike=len({state.dealt for state in array.of.values() if state.dealt}) < 2,
        )


def _some(parts: Mapping[int, int | None]) -> str:
    """Parts by number, each with a count where it has one."""
    numbers = sorted(parts)
    shown = [str(number) if parts[number] is None else f"{number} ({parts[number]})" for number in numbers[:_NAMED]]
    return ", ".join(shown) + (f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else "")


def measured_over_expected(storage: Storage, features: Collection[str], cpus: int) -> float | None:
    """The seconds that parts took for an expected CPU-second of these features; None where one was not measured.

    Args:
        cpus: processors that each job will have; parts that had more, or may have had, were faster and do not count.
    """
    expected = took = 0.0
    measured: set[str] = set()
    for array in _arrays(storage.read(PARTS)).values():
        for state in array.of.values():
            for names, (cost, seconds) in state.costs.items():
                if 0 < state.cpus <= cpus and set(names.split(",")) <= set(features):
                    measured |= set(names.split(","))
                    expected, took = expected + cost, took + seconds
    return took / expected if measured >= set(features) and expected else None


@dataclass(frozen=True)
class Expected:
    """What is to be done in one go."""

    name: str  # session/feature
    features: frozenset[str]
    cpu_s: float  # CPU-seconds that planning expects
    cpus: int = 1  # processors that it takes
    gpu: bool = False  # planning's figures are of processors: only what parts measured says how long it takes


def check_walltime(storage: Storage, walltime_s: float, work: Iterable[Expected]) -> None:
    """Refuse work that a batch system would end before it is done, time and again.

    Raises:
        ClusterError: something is expected to take twice as long as a job may, by what parts measured or else by the
            costs that planning knows; these are of another machine, so what seems a little too long is tried.
    """
    ratios: dict[tuple[frozenset[str], int], float | None] = {}
    for each in work:
        key = each.features, each.cpus
        if key not in ratios:
            ratios[key] = measured_over_expected(storage, *key)
        ratio = ratios[key]
        if each.gpu and not ratio:
            continue
        expected_s = each.cpu_s * (ratio or 1 / each.cpus)
        if expected_s > _DOUBT * walltime_s and not math.isinf(expected_s):
            by = ", as parts before took" if ratio else ""
            raise ClusterError(
                f"{each.name} is expected to take {expected_s:.0f} s{by}, and a job may take {walltime_s:.0f} s: ask "
                "for a longer walltime, or leave that session or feature out"
            )
