"""The contract of extractors, as a test."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from storyframes.store.storage.scratch import scratch_folder
from storyframes.testing.earlier import ChangedValuesWarning, changed_values
from storyframes.testing.rules import RULES, Checked, class_rules
from storyframes.testing.trial import runner

GROWTH_MB = 32.0
_CANNOT_BE_LENGTHENED = frozenset({"openface"})  # has a line for each frame of the recording


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
    earlier: Path | str | None = None,
) -> None:
    """Check that an extractor keeps the contract; takes the arguments of :func:`violations`.

    Raises:
        ContractError: it breaks the contract; the message names every violation.
    """
    broken = violations(
        cls,
        recording,
        settings=settings,
        others=others,
        decides_nothing=decides_nothing,
        longer=longer,
        growth_mb=growth_mb,
        earlier=earlier,
    )
    if broken:
        count = "a rule" if len(broken) == 1 else f"{len(broken)} rules"
        lines = "\n".join(f"  - {sentence}" for sentence in broken)
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
    earlier: Path | str | None = None,
) -> list[str]:
    """Every rule that an extractor breaks, a sentence each.

    The extractor is run on a recording, again in its own process, on a longer recording, without each of its inputs and
    with each of them damaged. docs/extending.md lists the rules.

    Args:
        cls: the extractor's class. It has to be importable by name.
        recording: a video, or files by kind of input (``video``, ``audio``, ``transcript``, ``openface``). A second of
            video is enough, and a short recording makes the check fast.
        settings: the extractor's settings, if its defaults cannot be used (the path of a model).
        others: by setting, another valid value, if none can be found automatically.
        decides_nothing: settings that change no value (a batch size, a device).
        longer: a recording that is several times as long as ``recording``, which has to fill several batches; None
            repeats ``recording`` until it has 64 frames (without pictures: 8 seconds), and four times as often.
        growth_mb: the additional memory that the longer recording may need, MB. Short recordings reveal only memory
            that grows much with every frame; give two real recordings before extracting a study.
        earlier: a file (.npz) with the values of an earlier check, to commit beside the test. It is written where it
            does not exist and where the fingerprint is another one. Values that differ beyond the class's tolerance
            under the same fingerprint give a :class:`~storyframes.testing.earlier.ChangedValuesWarning`.

    Raises:
        ValueError: the recording cannot be lengthened here: give ``longer``; or ``earlier`` is another file.
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
        broken = [sentence for rule in RULES for sentence in rule(checked)]
        for sentence in changed_values(checked, Path(earlier)) if earlier is not None else ():
            warnings.warn(sentence, ChangedValuesWarning, stacklevel=2)
        return broken


def _files(recording: Path | str | Mapping[str, Path]) -> dict[str, Path]:
    if isinstance(recording, Mapping):
        return {str(kind): Path(path) for kind, path in recording.items()}
    return {"video": Path(recording)}
