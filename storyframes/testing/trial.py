"""One extraction of a recording into a scratch store and its result; here, or in a process of its own.

The process measures its peak memory: ``python -m storyframes.testing.trial`` reads a JSON line that says what to do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
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
    """The result of an extraction.

    Attributes:
        status: done, missing or failed; missing and failed only by the errors that an extractor may raise.
        reason: why no version was made.
        error: the class of an exception that no extractor may raise; empty for none.
        asked: the kinds of input that the extractor read.
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

    def times_to_fill(self, path: Path) -> int:
        """How often the recording has to be repeated to fill several batches."""

    def lengthen(self, path: Path, folder: Path, times: int) -> Path:
        """Make a recording ``times`` as long of the one at ``path``, in a folder."""


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


class ProcessError(Exception):
    """The process ended with an error; the message is the last line of its output."""


def load_class(name: str) -> Any:
    """The class that ``module:Class`` names.

    Raises:
        ImportError: the module does not exist.
        AttributeError: the module has no such class.
    """
    module, _, path = name.partition(":")
    return attrgetter(path)(import_module(module))


@dataclass(frozen=True)
class Measured:
    """The result of an extraction in its own process.

    Attributes:
        peak_mb: the process's peak resident memory until the end of this extraction, MB.
        reason: why no version was made; empty if one was.
    """

    peak_mb: float
    reason: str


def extract_apart(
    name: str, recordings: Mapping[Path, Mapping[str, Path]], settings: Mapping[str, Any]
) -> list[Measured]:
    """Extract the feature from recordings, one after the other, in one process of their own.

    Args:
        name: of the class, ``module:Class``.
        recordings: by scratch store, the files by kind of input.
        settings: of the extractor, as JSON.

    Raises:
        ProcessError: it ended with an error.
    """
    order = {
        "class": name,
        "path": sys.path,
        "recordings": {
            str(store): {kind: str(path) for kind, path in files.items()} for store, files in recordings.items()
        },
        "settings": settings,
    }
    path = os.pathsep.join(entry for entry in sys.path if entry)
    # Other hashes than in this process, so that a result that depends on the order of a set is noticed.
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path}
    command = [sys.executable, "-m", "storyframes.testing.trial"]
    done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, env=environment)
    if done.returncode:
        raise ProcessError((done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1])
    return [Measured(**measured) for measured in json.loads(done.stdout.splitlines()[-1])]


def _main() -> None:
    order = json.loads(sys.stdin.read())
    sys.path[:] = order["path"]
    cls = load_class(order["class"])
    settings = cls.Settings.model_validate(order["settings"])
    measured = []
    for store, files in order["recordings"].items():
        trial = runner().try_out(cls, {kind: Path(path) for kind, path in files.items()}, settings, Path(store))
        reason = "" if trial.status is Status.DONE else trial.reason or trial.error
        measured.append({"peak_mb": _largest_mb(), "reason": reason})
    sys.stdout.write("\n" + json.dumps(measured) + "\n")


def _largest_mb() -> float:
    """From the kernel's status of this program: getrusage would include its parent's memory from before the exec."""
    status = Path("/proc/self/status")
    if not status.exists():
        import resource

        scale = 1e6 if sys.platform == "darwin" else 1e3
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1e3


if __name__ == "__main__":
    _main()
