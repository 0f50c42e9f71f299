"""The checkpoint of a run: a file that is there whole or not at all, and that no code is run from."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from storyframes.store.storage.files import write_atomically


class CheckpointError(Exception):
    """A checkpoint cannot be gone on with."""


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the checkpoint in one step; private to the owner.

    Raises:
        OSError: it cannot be written.
    """
    content = io.BytesIO()
    torch.save(dict(state), content)
    write_atomically(path, content.getvalue())


def load_checkpoint(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """The checkpoint of the run with this fingerprint, on the processor; None where there is none.

    Raises:
        CheckpointError: it is damaged.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return None
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged ({type(error).__name__}): remove it, and the run begins anew"
        ) from None
    if not isinstance(state, dict) or state.get("fingerprint") != fingerprint:
        return None
    return state
