"""The folder of a run: its path, its state, and the lock by which one process at a time trains it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from storyframes.store import locked, write_atomically
from storyframes_empathy.training.settings import ModelName

STATE = "state.json"
CHECKPOINT = "checkpoint.pt"
EPOCHS = "epochs.jsonl"
WEIGHTS = "model.safetensors"
_LOCK = ".lock"


class RunStatus(StrEnum):
    """How far a run is."""

    RUNNING = "running"  # or killed: only the lock knows
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True)
class RunName:
    """Which run."""

    phase: str
    model: ModelName
    modalities: tuple[str, ...]
    seed: int

    def folder(self, runs: Path) -> Path:
        """RUNS/phase/model/modalities/seed; what cannot be in a file's name is written as in a URL."""
        phase = quote(self.phase, safe=" ")
        phase = phase if phase.strip(".") else phase.replace(".", "%2E")
        return runs / phase / self.model / "+".join(self.modalities) / str(self.seed)

    def __str__(self) -> str:
        return f"{self.phase} {self.model} {'+'.join(self.modalities)} seed {self.seed}"


@dataclass(frozen=True)
class State:
    """What ``state.json`` says of a run.

    Attributes:
        status: how far it is.
        fingerprint: of all that decides it.
        decided: what the fingerprint is of.
        reason: why it failed; empty otherwise.
        epoch, batch: when it failed.
    """

    status: RunStatus
    fingerprint: str
    decided: Mapping[str, Any]
    reason: str = ""
    epoch: int | None = None
    batch: int | None = None

    def differing(self, decided: Mapping[str, Any]) -> list[str]:
        """What another run in this folder would be decided by otherwise."""
        return _differing(dict(self.decided), json.loads(json.dumps(decided)))


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], place: str = "") -> list[str]:
    found = []
    for key in sorted(set(one) | set(other)):
        here, there = one.get(key), other.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            found += _differing(here, there, f"{place}{key}.")
        elif here != there:
            found.append(f"{place}{key}")
    return found


def read_state(folder: Path) -> State | None:
    """The state of a run; None where there is none, or none that can be read."""
    try:
        content = json.loads((folder / STATE).read_text(encoding="utf-8"))
        return State(**{**content, "status": RunStatus(content["status"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def write_state(folder: Path, state: State) -> None:
    """Replace ``state.json``.

    Raises:
        OSError: it cannot be written.
    """
    write_atomically(folder / STATE, (json.dumps(state.__dict__, indent=1) + "\n").encode())


def write_epochs(folder: Path, epochs: Sequence[Mapping[str, Any]]) -> None:
    """Replace ``epochs.jsonl``: a line for each epoch that is done."""
    write_atomically(folder / EPOCHS, "".join(json.dumps(one) + "\n" for one in epochs).encode())


@contextlib.contextmanager
def held(folder: Path, wait_s: float | None = 0) -> Iterator[None]:
    """The folder, made where it is not there, is this process's while the block runs.

    Args:
        folder: of a run.
        wait_s: seconds to wait for another process; None waits as long as writing a table may take.

    Raises:
        StorageError: it is another's; the message says whose.
        OSError: it cannot be made.
    """
    for each in (*reversed(folder.parents), folder):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=0o700)
    with locked(folder / _LOCK, wait_s):
        yield
