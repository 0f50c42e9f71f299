"""One extraction of a recording into a scratch store, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import zarr

from storyframes.plug_ins import load_pipeline
from storyframes.store.record_status import read_status
from storyframes.store.records import Status
from storyframes.store.storage.local_folder import LocalStorage

SESSION = "trial"


@dataclass(frozen=True)
class Trial:
    """What came of an extraction.

    Attributes:
        status: done, missing or failed; the latter two only where the extractor said so in the way it should.
        reason: why it gave no version.
        error: the class of an exception that no extractor should raise; empty where there was none.
        digest: of the fingerprint; empty where there was none.
        asked: the kinds of input that the extractor asked for.
        caveats: of the version.
    """

    status: Status
    reason: str = ""
    error: str = ""
    digest: str = ""
    asked: frozenset[str] = frozenset()
    caveats: frozenset[str] = frozenset()


class Runner(Protocol):
    """What runs extractors: the pipeline's part ``trial``."""

    def why_unusable(self, cls: Any) -> list[str]:
        """What the registry would refuse the class for."""

    def inputs(self, cls: Any, settings: Any) -> tuple[str, ...]:
        """The kinds of input that it declares."""

    def try_out(self, cls: Any, files: Mapping[str, Path], settings: Any, store: Path) -> Trial:
        """Extract the feature from these files, and what it needs first, into a store."""

    def fingerprint(self, cls: Any, files: Mapping[str, Path], settings: Any, changed: str = "") -> str:
        """The digest of the fingerprint, as if the content of the file ``changed`` were another."""

    def lengthen(self, path: Path, target: Path, times: int) -> None:
        """Make a recording ``times`` as long of the one at ``path``."""


def runner() -> Runner:
    """What runs extractors here.

    Raises:
        ImportError: the pipeline is not installed.
    """
    pipeline: Runner = load_pipeline("trial")
    return pipeline


def published(store: Path, feature: str) -> dict[str, np.ndarray]:
    """The arrays of the feature in a scratch store, by name."""
    entry = read_status(LocalStorage(store), SESSION, feature)
    if entry is None or entry.record is None:
        return {}
    group: Any = zarr.open_group(store / SESSION / feature / entry.record.version, mode="r")
    return {name: np.asarray(group[name][:]) for name in entry.record.arrays}
