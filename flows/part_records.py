"""What the parts of an array leave in the feature store: how far each is, and what its units have cost.

It holds no session's name. A part that is killed with SIGKILL leaves what it had noted by then, seconds before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, Field, ValidationError

from flows.clusters.connection import ClusterError
from flows.clusters.installation import Installation
from storyframes.store.layout import PARTS
from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import Storage, StorageError
from tasks.inspect.formatting import counted

_NAMED = 10  # parts in a line
_BEGIN_WAIT_S = 60.0  # for the others to note: hundreds may begin at once, and on a network file system one takes 50 ms
UNKNOWN = ""  # in place of a digest: what decides a feature could not be asked
_DOUBT = 2.0  # so many times what is expected may be too long


class MixedPartsError(ClusterError):
    """A part would extract with other settings or code than other parts of its array."""


class MadeWith(BaseModel):
    """What decides a part's values besides the recordings."""

    settings: dict[str, str]  # by feature or section of the configuration, a digest of what counts in fingerprints
    installation: Installation

    def differences_from(self, other: MadeWith, name: str) -> list[str]:
        """In what this differs from ``other``, which messages call by ``name``."""
        own, others = self.settings, other.settings
        pairs = {key: {own.get(key), others.get(key)} for key in sorted(own.keys() | others.keys())}
        changed = [key for key, digests in pairs.items() if len(digests) > 1 and UNKNOWN not in digests]
        sections = [f"{key} has other settings, models or tools than in {name}" for key in changed]
        return [*sections, *self.installation.differences_from(other.installation, name)]


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
    made_with: MadeWith | None = None  # None in older records, which are not compared
    over: bool = False  # of an earlier time through the whole array: only its costs count


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


def note_part(
    storage: Storage, name: str, array: PartArray, number: int, state: PartState, *, wait_s: float | None = None
) -> None:
    """Note how far a part of this array is, in place of what an earlier attempt has noted.

    Args:
        wait_s: see :meth:`Storage.update`.

    Raises:
        OSError: it cannot be written.
    """

    def change(data: bytes | None) -> bytes:
        arrays = _arrays(data)
        _put(arrays.setdefault(name, array), number, state)
        return _sealed(arrays)

    storage.update(PARTS, change, wait_s=wait_s)


def _put(array: PartArray, number: int, state: PartState) -> None:
    before = array.of.get(number, PartState())
    array.of[number] = state if state.costs else state.model_copy(update={"costs": before.costs, "cpus": before.cpus})


def _sealed(arrays: Mapping[str, PartArray]) -> bytes:
    return seal(_Arrays(arrays=dict(arrays)).model_dump(mode="json"))


@dataclass
class Begun:
    """What a part learned of the others when it began."""

    differences: list[str] = field(default_factory=list)  # that were allowed
    warnings: list[str] = field(default_factory=list)


def begin_part(
    storage: Storage,
    name: str,
    array: PartArray,
    number: int,
    state: PartState,
    *,
    force: bool = False,
    allow_mixed: bool = False,
) -> Begun:
    """Note that a part begins, unless it would extract with other settings or code than the others of its array.

    Where all parts have ended, one that differs begins the array again: all parts are to be run again then.

    Args:
        force: it extracts again what it has, so its own earlier attempt does not count.
        allow_mixed: begin in any case.

    Raises:
        MixedPartsError: it differs, with every difference.
    """
    begun = Begun()

    def change(data: bytes | None) -> bytes:
        arrays = _arrays(data)
        noted = arrays.setdefault(name, array)
        begun.differences = _differences(noted, number, state, force=force)
        begun.warnings = []
        if begun.differences and not allow_mixed:
            if sum(earlier.ended and not earlier.over for earlier in noted.of.values()) < noted.parts:
                raise MixedPartsError(_refusal(number, array, begun.differences))
            begun.warnings = [_BEGUN_AGAIN.format(parts=array.parts), *begun.differences]
            begun.differences = []
            noted.of = {part: earlier.model_copy(update={"over": True}) for part, earlier in noted.of.items()}
        _put(noted, number, state)
        return _sealed(arrays)

    try:
        storage.update(PARTS, change, wait_s=_BEGIN_WAIT_S)
    except StorageError as error:  # somebody stopped holds the lock: to compare, reading is enough
        change(storage.read(PARTS))
        begun.warnings.append(f"that this part has begun cannot be noted for 'storyframes status': {error}")
    return begun


_BEGUN_AGAIN = (
    "all parts of this array have ended, with other settings or code than this one has: the array begins again, run "
    "all {parts} parts. What other code has extracted counts as up to date unless the feature's version is another; "
    "--force extracts it again"
)


def _differences(array: PartArray, number: int, state: PartState, *, force: bool) -> list[str]:
    """In what a part differs from those of its array, each with the parts that have it otherwise."""
    if state.made_with is None:
        return []
    numbers: dict[str, list[int]] = {}
    for part, other in sorted(array.of.items()):
        if other.made_with is None or other.over or (part == number and force):
            continue
        theirs = other.made_with
        if part == number:  # another setting is another fingerprint, and extracts again; other code is not
            theirs = theirs.model_copy(update={"settings": state.made_with.settings})
        for difference in state.made_with.differences_from(theirs, "the other"):
            numbers.setdefault(difference, []).append(part)
    return [f"part {_some(dict.fromkeys(parts))}: {difference}" for difference, parts in numbers.items()]


def _refusal(number: int, array: PartArray, differences: Iterable[str]) -> str:
    return "\n".join(
        [
            f"--part {number}/{array.parts} would mix with what parts of this array were extracted with:",
            *(f"  {difference}" for difference in differences),
            "run all parts with the same configuration and installation. To keep this part's instead, remove what the "
            f"others noted (for n in $(seq {array.parts}); do storyframes extract … --part $n/{array.parts} --drop; "
            "done) and run them again with --force. --allow-mixed extracts in any case, with a caveat on the versions",
        ]
    )


def drop_part(storage: Storage, name: str, array: PartArray, number: int) -> None:
    """Remove what a part has noted, and its array where it was the only one; what it extracted stays.

    Raises:
        ClusterError: the store knows no such part.
    """

    def change(data: bytes | None) -> bytes:
        arrays = _arrays(data)
        having = [key for key, each in arrays.items() if each.parts == array.parts and number in each.of]
        if name in having or len(having) == 1:
            key = name if name in having else having[0]
            del arrays[key].of[number]
            if not any(not state.over for state in arrays[key].of.values()):
                del arrays[key]
            return _sealed(arrays)
        arrays_named = [f"{', '.join(array.features)} in {counted(array.parts, 'part')}" for array in arrays.values()]
        raise ClusterError(
            f"--part {number}/{array.parts} --drop: no part {number}/{array.parts} with these features, sessions and "
            f"tracks has begun; the store knows: {'; '.join(arrays_named) or 'no array'}"
        )

    storage.update(PARTS, change)


def finish_array(storage: Storage, name: str) -> None:
    """Note that an array lacks nothing, whichever of its parts have ended; what its parts have cost stays.

    Raises:
        OSError: it cannot be written.
    """

    def change(data: bytes | None) -> bytes | None:
        arrays = _arrays(data)
        if name not in arrays:
            return None
        states = arrays[name].of
        arrays[name].of = {part: state.model_copy(update={"over": True}) for part, state in states.items()}
        return _sealed(arrays)

    storage.update(PARTS, change)


class ArrayProgress(BaseModel):
    """How far the parts of an array are; parts by their numbers."""

    name: str = Field(default="", exclude=True)
    features: list[str]
    parts: int
    ended: list[int]
    failed_features: dict[int, int]  # of parts that have ended with such
    left_features: dict[int, int]  # of parts that are at work, or were killed
    not_begun: list[int]
    dealt_alike: bool  # False: the parts dealt the sessions differently, so some may be in none
    mixed: list[str] = []  # what parts were extracted with, where it is not what the others were

    @property
    def is_complete(self) -> bool:
        """Every part has ended, nothing of them failed, and every session is in one."""
        return len(self.ended) == self.parts and not self.failed_features and self.dealt_alike

    def __str__(self) -> str:
        parts = [f"{len(self.ended)} of {counted(self.parts, 'part')} ended"]
        parts += [f"with failed features: {_some(self.failed_features)}"] if self.failed_features else []
        parts += [f"at work or killed, with features left: {_some(self.left_features)}"] if self.left_features else []
        parts += [f"not begun: {_some(dict.fromkeys(self.not_begun))}"] if self.not_begun else []
        if not self.dealt_alike:
            parts.append(
                "the parts have dealt the sessions differently, so some may be in none (a table or a recording was "
                "changed, or could not be read): run all parts again"
            )
        parts += [f"mixed: {'; '.join(self.mixed)}"] if self.mixed else []
        return f"{', '.join(self.features)}: {'; '.join(parts)}"


def array_progress(storage: Storage) -> Iterator[ArrayProgress]:
    """How far each array of parts is that the store knows of, without those that are finished."""
    for name, array in _arrays(storage.read(PARTS)).items():
        begun = {number: state for number, state in sorted(array.of.items()) if not state.over}
        if array.of and not begun:
            continue
        ended = [number for number, state in begun.items() if state.ended]
        yield ArrayProgress(
            name=name,
            features=array.features,
            parts=array.parts,
            ended=ended,
            failed_features={number: begun[number].failed for number in ended if begun[number].failed},
            left_features={number: state.due - state.done for number, state in begun.items() if not state.ended},
            not_begun=[number for number in range(1, array.parts + 1) if number not in begun],
            dealt_alike=len({state.dealt for state in begun.values() if state.dealt}) < 2,
            mixed=_mixed(begun),
        )


def _mixed(begun: Mapping[int, PartState]) -> list[str]:
    """How parts differ from the largest number of them that do not."""
    alike: list[tuple[MadeWith, list[int]]] = []
    for number, state in begun.items():
        if state.made_with is None:
            continue
        for made_with, numbers in alike:
            if made_with == state.made_with:
                numbers.append(number)
                break
        else:
            alike.append((state.made_with, [number]))
    if len(alike) < 2:
        return []
    alike.sort(key=lambda group: -len(group[1]))
    (most, first), *others = alike
    return [
        f"part {_some(dict.fromkeys(numbers))}: {difference}"
        for made_with, numbers in others
        for difference in made_with.differences_from(most, f"part {first[0]}")
    ]


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
