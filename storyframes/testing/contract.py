"""The contract of extractors as a test."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from storyframes.store.storage.scratch import scratch_folder
from storyframes.testing.rules import RULES, Checked, class_rules
from storyframes.testing.trial import runner

GROWTH_MB = 32.0
_CANNOT_BE_LENGTHENED = frozenset({"openface"})  # a line a frame: it belongs to the recording as it is


class ContractError(AssertionError):
    """An extractor breaks the contract; the message has every violation, a sentence each."""


def check_extractor(
    cls: Any,
    recording: Path | str | Mapping[str, Path],
    *,
    settings: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
    decides_nothing: Collection[str] = (),
    longer: Path | str | Mapping[str, Path] | None = None,
    growth_mb: float = GROWTH_MB,
) -> None:
    """Hold an extractor to the contract: see :func:`violations`, which takes the same.

    Raises:
        ContractError: it breaks the contract; every way in which it does is named.
    """
    found = violations(
        cls,
        recording,
        settings=settings,
        others=others,
        decides_nothing=decides_nothing,
        longer=longer,
        growth_mb=growth_mb,
    )
    if found:
        count = "a rule" if len(found) == 1 else f"{len(found)} rules"
        lines = "\n".join(f"  - {sentence}" for sentence in found)
        raise ContractError(f"{getattr(cls, '__name__', cls)} breaks {count} of extractors:\n{lines}")


def violations(
    cls: Any,
    recording: Path | str | Mapping[str, Path],
    *,
    settings: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
    decides_nothing: Collection[str] = (),
    longer: Path | str | Mapping[str, Path] | None = None,
    growth_mb: float = GROWTH_MB,
) -> list[str]:
    """Every rule that an extractor breaks, a sentence each.

    It is run on a recording, again in a process of its own, on a longer one, without each of its inputs and with each
    of them damaged. docs/extending.md lists the rules.

    Args:
        cls: the extractor's class. It has to be importable by name.
        recording: a video, or files by kind of input (``video``, ``audio``, ``transcript``, ``openface``); the shorter
            it is, the faster is this. A second of video is enough.
        settings: the extractor's, where its defaults will not do here (the path of a model).
        others: by setting, another valid value, where none can be thought up.
        decides_nothing: settings that change no value (a batch size, a device).
        longer: a recording that is several times as long; without it one is made of ``recording``.
        growth_mb: by how much more memory the longer recording may need. Small recordings show only a memory that
            grows by much with every frame; give two real ones before a study's.

    Raises:
        ValueError: the recording cannot be lengthened here: give ``longer``.
    """
    if broken := class_rules(cls):
        return broken  # it cannot be run
    files = _files(recording)
    if longer is None and (whole := sorted(files.keys() & _CANNOT_BE_LENGTHENED)):
        raise ValueError(f"{whole[0]}: cannot be made longer here: give a longer recording as longer=")
    with scratch_folder("check") as folder:
        checked = Checked(
            cls=cls,
            runner=runner(),
            files=files,
            settings=cls.Settings(**(settings or {})),
            others=others or {},
            decides_nothing=frozenset(decides_nothing),
            longer=_files(longer) if longer is not None else None,
            growth_mb=growth_mb,
            folder=folder,
        )
        return [sentence for rule in RULES for sentence in rule(checked)]


def _files(recording: Path | str | Mapping[str, Path]) -> dict[str, Path]:
    if isinstance(recording, Mapping):
        return {str(kind): Path(path) for kind, path in recording.items()}
    return {"video": Path(recording)}
