"""The Hugging Face hub's cache on this machine, where other programs look and put their models too."""

from __future__ import annotations

import os
from pathlib import Path

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.settings import EmbedSettings, Origin


def hub_folder() -> Path:
    """The folder of the hub's cache, as the hub's own library finds it, from the environment as it is now."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or cache / "huggingface").expanduser() / "hub"


def hub_repository(origin: Origin, name: str) -> str:
    """The hub's name of a model; timm's lie below ``timm/``."""
    return f"timm/{name}" if origin is Origin.TIMM else name


def snapshot_of(repository: str, commit: str) -> Path:
    """Where a model's files lie as they are at a commit, be they there or not."""
    return hub_folder() / f"models--{repository.replace('/', '--')}" / "snapshots" / (commit or "-")


def snapshot_folder(repository: str, commit: str, settings: EmbedSettings) -> Path:
    """The folder of a model's files as they are at a commit.

    Raises:
        ExtractionError: it is not here.
    """
    folder = snapshot_of(repository, commit)
    if folder.is_dir():
        return folder
    others = sorted(other.name for other in folder.parent.iterdir()) if folder.parent.is_dir() else []
    here = f" (here is {', '.join(others)})" if others else ""
    raise ExtractionError(
        f"[[embed]] {settings.name}: {settings.source} at {commit} is not on this machine{here}; {how_to_get(settings)}"
    )


def how_to_get(settings: EmbedSettings) -> str:
    """The command that gets the model of a section, as the end of a sentence."""
    return f"'storyframes models fetch {settings.source}@{settings.revision}' gets it"
