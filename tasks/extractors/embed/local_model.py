"""A model as its files lie on this machine: found, told apart by SHA-256, and refused where it cannot be trusted.

Nothing here imports torch or a library of models: planning asks this of every section.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storyframes.store.records import canonical_json
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.hub_cache import how_to_get, hub_repository, snapshot_folder
from tasks.extractors.embed.model_files import deciding_files, weight_files
from tasks.extractors.embed.settings import EmbedSettings, Origin
from tasks.extractors.embed.torchvision_weights import find_weights
from tasks.models.digests import model_digests

_LICENSE = re.compile(r"^license:\s*(\S.*?)\s*$", re.MULTILINE)
UNSTATED = "not stated"


@dataclass(frozen=True)
class LocalModel:
    """A model's files.

    Attributes:
        origin: where it is from.
        name: what stands behind the colon of ``source``; of a folder its last part, as paths are nobody's business.
        folder: with config.json and what else the model's library reads; None of torchvision's.
        weights: the files of its weights, one unless they are in parts.
        config: config.json; of torchvision's empty.
        digests: SHA-256 of every file that decides its values, by path in the folder.
        revision: the commit, or which of torchvision's weights; empty of a folder.
        license: as its authors state it.
    """

    origin: Origin
    name: str
    folder: Path | None
    weights: tuple[Path, ...]
    config: Mapping[str, Any] = field(repr=False)
    digests: Mapping[str, str] = field(repr=False)
    revision: str = ""
    license: str = UNSTATED

    @property
    def digest(self) -> str:
        """One for all its files."""
        return hashlib.sha256(canonical_json(dict(self.digests))).hexdigest()


def find_model(settings: EmbedSettings) -> LocalModel:
    """The model of a section, as it lies here; no network, no library of models.

    Raises:
        ExtractionError: it is not here (the message names the command that gets it), or not one that may be loaded.
    """
    if settings.origin is Origin.TORCHVISION:
        path = find_weights(settings.model_name, settings.revision or "")
        digests = {path.name: _sha256({path.name: path})[path.name]}
        revision = settings.revision or ""
        license = "BSD-3-Clause (torchvision); its training data may have terms of their own"
        return LocalModel(settings.origin, settings.model_name, None, (path,), {}, digests, revision, license)
    folder = _folder(settings)
    config = _config(folder, settings)
    _refuse_remote_code(folder, config, settings)
    weights = weight_files(folder, settings)
    digests = _sha256(deciding_files(folder, weights))
    name = folder.name if settings.origin is Origin.PATH else settings.model_name
    return LocalModel(
        settings.origin, name, folder, weights, config, digests, settings.revision or "", _license(folder, config)
    )


def planned_digest(settings: EmbedSettings) -> str | None:
    """The digest of the model's files, None where it cannot be told here: what is wrong is said by who needs it."""
    try:
        return find_model(settings).digest
    except (ExtractionError, OSError):
        return None


def _folder(settings: EmbedSettings) -> Path:
    if settings.origin is Origin.PATH:
        folder = Path(settings.model_name)
        if not folder.is_dir():
            raise ExtractionError(f"[[embed]] {settings.name}: source = {settings.source!r} is not a folder")
        return folder
    return snapshot_folder(hub_repository(settings.origin, settings.model_name), settings.revision or "", settings)


def _config(folder: Path, settings: EmbedSettings) -> Mapping[str, Any]:
    return _read_json(folder / "config.json", settings, "a model's folder has config.json and its weights")


def _read_json(path: Path, settings: EmbedSettings, rule: str) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        whole = f"; where it was not fetched whole, {how_to_get(settings)}" if settings.origin.on_hub else ""
        raise ExtractionError(
            f"[[embed]] {settings.name}: {settings.source} has no {path.name}: {rule}{whole}"
        ) from None
    except (OSError, ValueError) as error:
        raise ExtractionError(
            f"[[embed]] {settings.name}: {path.name} of {settings.source} cannot be read ({type(error).__name__})"
        ) from None
    if path.name == "config.json" and not isinstance(content, dict):
        raise ExtractionError(f"[[embed]] {settings.name}: config.json of {settings.source} is no table: {rule}")
    return content


def _refuse_remote_code(folder: Path, config: Mapping[str, Any], settings: EmbedSettings) -> None:
    """Refuse a model that wants a program of its own to be run: with it, a file of numbers could do anything here."""
    refused = "that is never run here: take a model that its library knows"
    if "auto_map" in config:
        raise ExtractionError(
            f"[[embed]] {settings.name}: {settings.source} wants code of its own (auto_map in config.json); {refused}"
        )
    if (folder / "adapter_config.json").is_file():
        raise ExtractionError(
            f"[[embed]] {settings.name}: {settings.source} is an adapter of another model: merge it into that first"
        )
    if (folder / "modules.json").is_file():
        for module in _read_json(folder / "modules.json", settings, "it lists the parts of a model of sentences"):
            kind = str(module.get("type") if isinstance(module, dict) else module)
            if not kind.startswith("sentence_transformers."):
                raise ExtractionError(
                    f"[[embed]] {settings.name}: {settings.source} wants code of its own ({kind!r} in modules.json); "
                    f"{refused}"
                )


def _sha256(files: Mapping[str, Path]) -> dict[str, str]:
    digests = model_digests(files.values())
    return {name: digests[path] for name, path in files.items()}


def _license(folder: Path, config: Mapping[str, Any]) -> str:
    pretrained = config.get("pretrained_cfg")
    if isinstance(pretrained, dict) and isinstance(pretrained.get("license"), str):
        return pretrained["license"]
    try:
        head = (folder / "README.md").read_text(encoding="utf-8", errors="replace")[:4000]
    except OSError:
        return UNSTATED
    front = head.split("---", 2)[1] if head.startswith("---") and head.count("---") > 1 else ""
    found = _LICENSE.search(front)
    return found[1] if found else UNSTATED
