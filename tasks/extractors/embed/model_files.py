"""Which files of a model's folder are its weights, and which decide its values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.hub_cache import how_to_get
from tasks.extractors.embed.settings import EmbedSettings

SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"
READ = (".json", ".txt", ".model", ".jinja")  # configurations, vocabularies and tokenizers, as libraries read them


def weight_files(folder: Path, settings: EmbedSettings) -> tuple[Path, ...]:
    """The weights in a folder: safetensors where there are any, else torch's own format, each in one file or parts.

    Raises:
        ExtractionError: there are none, or a part is missing.
    """
    for whole in (SAFETENSORS, PICKLE):
        if (folder / whole).is_file():
            return (folder / whole,)
        index = folder / f"{whole}.index.json"
        if index.is_file():
            return _parts(index, settings)
    whole = f"; where it was not fetched whole, {how_to_get(settings)}" if settings.origin.on_hub else ""
    raise ExtractionError(
        f"[[embed]] {settings.name}: {settings.source} has neither {SAFETENSORS} nor {PICKLE}: other formats are not "
        f"loaded{whole}"
    )


def _parts(index: Path, settings: EmbedSettings) -> tuple[Path, ...]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise ExtractionError(f"[[embed]] {settings.name}: {index.name} of {settings.source} is damaged") from None
    parts = tuple(index.parent / Path(name).name for name in names)
    if missing := [part.name for part in parts if not part.is_file()]:
        raise ExtractionError(
            f"[[embed]] {settings.name}: {settings.source} lacks {missing[0]}, which {index.name} names: fetch it again"
        )
    return parts


def deciding_files(folder: Path, weights: Iterable[Path]) -> dict[str, Path]:
    """By path in the folder, the files that can decide values: weights, and all that a library might read."""
    found = {path.name: path for path in folder.iterdir() if path.suffix in READ and path.is_file()}
    found |= {path.name: path for path in weights}
    for part in module_folders(folder):
        names = [path for path in part.iterdir() if path.suffix in (*READ, ".safetensors", ".bin") and path.is_file()]
        found |= {str(path.relative_to(folder)): path for path in names}
    return dict(sorted(found.items()))


def module_folders(folder: Path) -> list[Path]:
    """The folders of the parts of a model of sentences (pooling, dense layers), as its modules.json lists them."""
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    names = [module.get("path") for module in modules if isinstance(module, dict)] if isinstance(modules, list) else []
    inside = [folder / name for name in names if isinstance(name, str) and name and ".." not in Path(name).parts]
    return [part for part in inside if part.is_dir() and not Path(part.relative_to(folder)).is_absolute()]
