"""The rules for extractors: each gives a sentence for every way in which it is broken."""

from __future__ import annotations

import os
import pickle
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from storyframes.spec import ArraySpec, Axis
from storyframes.store.records import Status
from storyframes.testing.trial import (
    Measured,
    ProcessError,
    Runner,
    Trial,
    extract_apart,
    load_class,
    published,
    runner,
)

_TIMES_AS_LONG = 4
_CAN_BE_LENGTHENED = ("video", "audio")


@dataclass(frozen=True)
class Checked:
    """An extractor that is checked, and the means for it; see :func:`storyframes.testing.contract.violations`.

    Attributes:
        folder: for all files that the check writes.
    """

    cls: Any
    runner: Runner
    files: Mapping[str, Path]
    settings: Any
    others: Mapping[str, Any]
    decides_nothing: frozenset[str]
    longer: Mapping[str, Path] | None
    growth_mb: float
    folder: Path

    @cached_property
    def sound(self) -> Trial:
        """The extraction of the recording as it is."""
        return self.runner.try_out(self.cls, self.files, self.settings, self.folder / "sound")

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of that extraction."""
        return published(self.folder / "sound", self.cls.spec.name)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The declared inputs that the recording has."""
        declared = self.runner.inputs(self.cls, self.settings)
        return tuple(kind for kind in declared if kind in self.files)

    @cached_property
    def apart(self) -> Measured:
        """The same extraction in its own process."""
        (measured,) = self.measured({self.folder / "apart": self.files})
        return measured

    def measured(self, recordings: Mapping[Path, Mapping[str, Path]]) -> list[Measured]:
        """Extractions in one process of their own, in this order; by scratch store the files."""
        name = f"{self.cls.__module__}:{self.cls.__qualname__}"
        return extract_apart(name, recordings, self.settings.model_dump(mode="json"))


def class_rules(cls: Any) -> list[str]:
    """The faults of the class itself."""
    broken = runner().why_unusable(cls)
    if not isinstance(cls, type):
        return broken
    name = f"{cls.__module__}:{cls.__qualname__}"
    try:
        importable = load_class(name) is cls
    except (ImportError, AttributeError):
        importable = False
    if not importable:
        broken.append(f"it cannot be imported as {name}: a worker, and a plug-in's entry point, name it so")
    return broken


def _settings(checked: Checked) -> Iterator[str]:
    """Settings are unchanged by JSON and pickling, and unknown keys are refused."""
    for value in (checked.cls.Settings(), checked.settings):
        shown = value.model_dump(mode="json")
        try:
            again = (checked.cls.Settings.model_validate(shown), pickle.loads(pickle.dumps(value)))  # noqa: S301  our own
        except Exception as error:
            yield f"its settings {shown} cannot be read back ({_shown(error)})"
            continue
        if again != (value, value):
            yield f"its settings {shown} come back as {again[0].model_dump(mode='json')}"
    try:
        checked.cls.Settings(there_is_no_such_setting=1)
    except ValueError:
        return
    yield "its settings take a key that does not exist: a typing error in a configuration would pass unseen"


def _values(checked: Checked) -> Iterator[str]:
    """An intact recording gives a version whose arrays match the specification."""
    trial = checked.sound
    if trial.status is not Status.DONE:
        yield f"the recording gives no version: {trial.error and f'{trial.error}: '}{trial.reason}"
        return
    frames = len(published(checked.folder / "sound", "frames").get("time", ())) or None
    for name, rows in checked.arrays.items():
        yield from _array(name, checked.cls.spec.arrays[name], rows, frames)


def _array(name: str, spec: ArraySpec, rows: np.ndarray, frames: int | None) -> Iterator[str]:
    expected = {Axis.FRAME: frames, Axis.FRAME_EDGE: frames and frames + 1}.get(spec.axis)
    if expected is not None and len(rows) != expected:
        yield f"{name!r} has {len(rows)} rows, but one for each {spec.axis} is {expected}"
    if rows.dtype != np.dtype(spec.dtype):
        yield f"{name!r} is {rows.dtype}, but its specification says {spec.dtype}"
    if rows.shape[1:] != tuple(spec.shape) and not (spec.columns and rows.ndim == 1 + len(spec.shape)):
        yield f"a row of {name!r} has the shape {rows.shape[1:]}, but its specification says {spec.shape}"


def _fingerprint(checked: Checked) -> Iterator[str]:
    """The fingerprint changes with everything that decides values, and with nothing else."""
    try:
        digest = checked.runner.fingerprint(checked.cls, checked.files, checked.settings)
        again = checked.runner.fingerprint(checked.cls, checked.files, checked.settings)
    except Exception as error:
        if checked.sound.status is Status.DONE:
            yield f"its fingerprint cannot be computed ({_shown(error)})"
        return
    if digest != again:
        yield "its fingerprint is another one each time: every run would extract everything again"
        return
    for kind in checked.inputs:
        if checked.runner.fingerprint(checked.cls, checked.files, checked.settings, kind) == digest:
            yield f"its fingerprint stays the same where the {kind} is another: old values would pass for new ones"
    for kind in sorted(checked.sound.asked - set(checked.runner.inputs(checked.cls, checked.settings))):
        yield f"it reads the {kind}, but inputs does not name it: a change of it would go unnoticed"
    for name in checked.cls.Settings.model_fields:
        if name not in checked.decides_nothing:
            yield from _setting(checked, name, digest)


def _setting(checked: Checked, name: str, digest: str) -> Iterator[str]:
    tried = []
    for value, settings in _with_another(checked, name):
        try:
            changed = checked.runner.fingerprint(checked.cls, checked.files, settings)
        except Exception:  # noqa: S112  a model that is not here, say: the next value
            continue
        if changed != digest:
            return
        tried.append(repr(value))
    if tried:
        yield (
            f"its fingerprint stays the same with {name} = {', '.join(tried[:3])}: name the setting in "
            "value_settings(), or here in decides_nothing where it changes no value"
        )
    else:
        yield f"no other value of the setting {name!r} can be thought up: give one in others"


def _with_another(checked: Checked, name: str) -> Iterator[tuple[Any, Any]]:
    """Other valid values of one setting, each with settings that differ in it alone."""
    field, value = checked.cls.Settings.model_fields[name], getattr(checked.settings, name)
    file = checked.folder / "another file"
    file.write_bytes(b"another file")
    given = [checked.others[name]] if name in checked.others else _other_values(field.annotation, value, file)
    for other in given:
        try:
            settings = checked.cls.Settings(**{**checked.settings.model_dump(), name: other})
        except ValueError:  # not a valid one
            continue
        if getattr(settings, name) != value:
            yield other, settings


def _missing(checked: Checked) -> Iterator[str]:
    """A session that lacks an input has the status missing, not failed."""
    for kind in checked.inputs:
        if kind == "audio" and "video" in checked.files:
            continue  # then the video's own sound is meant
        files = {other: path for other, path in checked.files.items() if other != kind}
        trial = checked.runner.try_out(checked.cls, files, checked.settings, checked.folder / f"without {kind}")
        if trial.status is Status.DONE:
            yield f"it gives values for a session without {kind}, which is one of its inputs"
        elif trial.status is not Status.MISSING or trial.error:
            yield (
                f"without {kind} it fails ({trial.error or 'ExtractionError'}: {trial.reason}): that is no failure, "
                "and has to be a MissingInputError"
            )


def _damage(checked: Checked) -> Iterator[str]:
    """A damaged input gives no values without a caveat, and the error names the input as the cause."""
    for kind in checked.inputs:
        for number, damage in enumerate(_DAMAGES):
            folder = checked.folder / f"damaged {kind} {number}"
            folder.mkdir()
            files = _damaged(checked.files, kind, damage, folder)
            trial = checked.runner.try_out(checked.cls, files, checked.settings, folder / "store")
            what = f"the {kind} is {damage}"
            if trial.error:
                yield f"where {what} it raises {trial.error} ({trial.reason}), which has to be an ExtractionError"
            elif trial.status is Status.MISSING:
                yield f"where {what} it says that the input is missing, which has to be an ExtractionError"
            elif trial.status is Status.DONE and not trial.caveats - checked.sound.caveats:
                yield f"where {what} it gives values, and not even a caveat"


def _apart(checked: Checked) -> Iterator[str]:
    """Another process gives the same values."""
    if checked.sound.status is not Status.DONE:
        return
    try:
        reason = checked.apart.reason
    except ProcessError as error:
        reason = str(error)
    if reason:
        yield f"in a process of its own it gives no version: {reason}"
        return
    again = published(checked.folder / "apart", checked.cls.spec.name)
    for name, rows in checked.arrays.items():
        if (largest := difference(checked.cls, name, rows, again.get(name))) is not None:
            yield (
                f"a second extraction, in another process, gives other values of {name!r}: they differ by up to "
                f"{largest:g} (declare a tolerance where that is as it should be)"
            )


def difference(cls: Any, name: str, rows: np.ndarray, again: np.ndarray | None) -> float | None:
    """The largest difference of two extractions; None where it is within the class's tolerance."""
    if again is None or rows.shape != again.shape:
        return float("inf")
    if rows.tobytes() == again.tobytes():
        return None
    tolerance = cls.tolerance.get(name, cls.tolerance.get("*"))
    relative, absolute = (tolerance.relative, tolerance.absolute) if tolerance else (0.0, 0.0)
    ours, theirs = rows.astype(np.float64), again.astype(np.float64)
    if np.allclose(theirs, ours, rtol=relative, atol=absolute, equal_nan=True):
        return None
    differences = np.abs(ours - theirs)
    return float(np.nanmax(differences)) if np.isfinite(differences).any() else float("inf")


def _memory(checked: Checked) -> Iterator[str]:
    """A recording that is several times as long needs little more memory."""
    if checked.sound.status is not Status.DONE:
        return
    recordings = (checked.files, checked.longer) if checked.longer else _lengthened(checked)
    if not recordings:
        return
    stores = (checked.folder / "shorter", checked.folder / "longer")
    try:  # in one process: the first recording loads libraries, and fills caches and buffers
        first, second = checked.measured(dict(zip(stores, recordings, strict=True)))
    except ProcessError as error:
        yield f"a longer recording gives no version: {error}"
        return
    if reason := first.reason or second.reason:
        yield f"a longer recording gives no version: {reason}"
    elif second.peak_mb - first.peak_mb > checked.growth_mb:
        yield (
            f"memory grows with the recording: {first.peak_mb:.0f} MB, but {second.peak_mb:.0f} MB for one that is "
            f"longer; {checked.growth_mb:g} MB more are allowed. Write the rows as they are made, and keep none"
        )


def _lengthened(checked: Checked) -> tuple[dict[str, Path], ...]:
    """The recording repeated until it fills several batches, and several times as long; both are coded the same way.

    Empty where it has neither pictures nor sound.
    """
    repeatable = [kind for kind in _CAN_BE_LENGTHENED if kind in checked.files]
    if not repeatable:
        return ()
    to_fill = max(checked.runner.times_to_fill(checked.files[kind]) for kind in repeatable)

    def repeated(times: int) -> dict[str, Path]:
        longer = {kind: checked.runner.lengthen(checked.files[kind], checked.folder, times) for kind in repeatable}
        return {**checked.files, **longer}

    return repeated(to_fill), repeated(to_fill * _TIMES_AS_LONG)


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


RULES: tuple[Callable[[Checked], Iterator[str]], ...] = (
    _settings,
    _values,
    _fingerprint,
    _missing,
    _damage,
    _apart,
    _memory,
)


# --- damaged files and other values of settings ---

_DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "cut off in the middle": lambda content: content[: len(content) // 2],
    "garbage": lambda content: Random(len(content)).randbytes(len(content)),
    "zero bytes": lambda content: bytes(len(content)),
    "empty": lambda _: b"",
}


def _damaged(files: Mapping[str, Path], kind: str, damage: str, folder: Path) -> dict[str, Path]:
    """The files by kind, with a copy of one of them in ``folder`` that has one of :data:`_DAMAGES`."""
    target = folder / files[kind].name
    target.write_bytes(_DAMAGES[damage](files[kind].read_bytes()))
    os.utime(target, ns=(0, 0))
    return {**files, kind: target}


def _other_values(annotation: Any, value: Any, file: Path) -> Iterator[Any]:
    """Other values that may be valid for a setting of this type; ``file`` is a path for settings that name one."""
    for candidate in _candidates(annotation, value, file):
        if type(candidate) is not type(value) or candidate != value:
            yield candidate


def _candidates(annotation: Any, value: Any, file: Path) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _candidates(part, value, file)
    elif origin is Literal:
        yield from get_args(annotation)
    elif origin in (tuple, list, set, frozenset):
        yield from _collections(annotation, value, file)
    elif isinstance(annotation, type):
        yield from _of_class(annotation, value, file)


def _of_class(annotation: type, value: Any, file: Path) -> Iterator[Any]:
    if annotation is bool:
        yield not value
    elif issubclass(annotation, Enum):
        yield from annotation
    elif annotation in (int, float):
        number = value if isinstance(value, int | float) else 0
        yield from (annotation(number + step) for step in (1, 2, 3, 0, 7, 50, -1))
        yield from (annotation(number * factor) for factor in (2, 0.5))
        if annotation is float:
            yield from (0.25, 0.5, number * 0.9, number + 0.01)
    elif annotation is str:
        yield f"{value or ''}x"
    elif issubclass(annotation, Path):
        yield file
    elif annotation is type(None):
        yield None


def _collections(annotation: Any, value: Any, file: Path) -> Iterator[Any]:
    entry_type = next((part for part in get_args(annotation) if part is not Ellipsis), str)
    entries = list(value or ())
    for number, entry in enumerate(entries):
        for other in _candidates(entry_type, entry, file):
            yield [*entries[:number], other, *entries[number + 1 :]]
    yield entries[:-1]
    for other in _candidates(entry_type, None, file):
        yield [*entries, other]
