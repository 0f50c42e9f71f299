"""The values of an earlier check, kept in a file: values must not change while the fingerprint stays the same."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from storyframes.store.records import Status
from storyframes.testing.rules import Checked, difference

_DIGEST = "fingerprint"  # in the file, beside the arrays; an array of a feature cannot have the name "arrays/…"


class ChangedValuesWarning(UserWarning):
    """An extractor gives other values than before, and nothing of its fingerprint has changed."""


def changed_values(checked: Checked, path: Path) -> Iterator[str]:
    """A sentence for every array whose values differ from those in the file, of the same fingerprint.

    The file is written where it does not exist, and where the fingerprint is another one: of another ``version``, other
    settings, another recording, model or tool.

    Raises:
        ValueError: the file is not one that this function wrote.
    """
    if checked.sound.status is not Status.DONE:
        return
    kept = _read(path) if path.exists() else {}
    if not kept or str(kept.pop(_DIGEST)) != checked.sound.digest:
        content: dict[str, Any] = {_DIGEST: np.array(checked.sound.digest)}
        content |= {f"arrays/{name}": rows for name, rows in checked.arrays.items()}
        with path.open("wb") as file:
            np.savez_compressed(file, **content)
        return
    for name, rows in checked.arrays.items():
        largest = difference(checked.cls, name, rows, kept.get(f"arrays/{name}"))
        if largest is not None:
            yield (
                f"{checked.cls.__name__}.version is still {checked.cls.version}, but {name!r} differs by up to "
                f"{largest:g} from its values in {path}: raise version, or stores keep the old values as current"
            )


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            kept = dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: cannot be read ({error}); remove it, and the next check writes it again") from None
    if _DIGEST not in kept:
        raise ValueError(f"{path}: has no {_DIGEST}: give earlier= a file of its own")
    return kept
