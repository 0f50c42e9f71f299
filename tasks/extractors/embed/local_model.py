"""A model's files on this machine: found, read once, identified by SHA-256, and refused if they cannot be trusted.

The memory that its weights will take is read from the files' headers. Nothing here imports a library of models, and
torch only for a GPU's free memory: planning calls this for every section.
"""

from __future__ import annotations

import gc
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from storyframes.store.records import canonical_json
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.settings import EmbedSettings, Origin
from tasks.extractors.embed.sources import (
    PICKLE,
    READ_SUFFIXES,
    SAFETENSORS,
    find_weights,
    hub_repository,
    snapshot_folder,
)
from tasks.extractors.settings import Device, Precision
from tasks.models.digests import model_digests

_LICENSE = re.compile(r"^license:\s*(\S.*?)\s*$", re.MULTILINE)
UNSTATED = "not stated"
_HALVES = (Precision.BFLOAT16, Precision.FLOAT16)
_GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class LocalModel:
    """A model's files, and what its configuration files say."""

    origin: Origin  # where it is from
    name: str  # the part of ``source`` behind the colon; of a folder its last part, as a path may say whose it is
    folder: Path | None  # with config.json and what else the model's library reads; None of torchvision's
    weights: tuple[Path, ...]  # the files of its weights, one unless they are in parts
    config: Mapping[str, Any] = field(repr=False)  # the content of config.json; empty for torchvision's
    # SHA-256 of every file that decides its values, by path in the folder
    digests: Mapping[str, str] = field(repr=False)
    revision: str = ""  # the commit, or the name of torchvision's weights; empty of a folder
    license: str = UNSTATED  # as its authors state it
    # the content of modules.json, which lists the parts of a sentence model; empty for other models
    modules: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    @property
    def digest(self) -> str:
        """One digest of all its files."""
        return hashlib.sha256(canonical_json(dict(self.digests))).hexdigest()

    @property
    def is_timms(self) -> bool:
        """Whether its configuration is timm's, not transformers'."""
        return "architecture" in self.config and "model_type" not in self.config


def find_model(settings: EmbedSettings) -> LocalModel:
    """The model of a section as it is on this machine; no network, no library of models.

    Raises:
        ExtractionError: it is not here (the message names the command that fetches it), or may not be loaded.
    """
    if settings.origin is Origin.TORCHVISION:
        path = find_weights(settings.model_name, settings.revision or "")
        license = "BSD-3-Clause (torchvision); its training data may have terms of their own"
        return LocalModel(
            settings.origin,
            settings.model_name,
            None,
            (path,),
            {},
            _sha256({path.name: path}),
            settings.revision or "",
            license,
        )
    folder = _folder(settings)
    config = _read_json(folder / "config.json", settings, "a model's folder has config.json and its weights")
    if not isinstance(config, dict):
        raise ExtractionError(f"{settings.label} has a config.json that is no table")
    modules = _modules(folder, settings)
    _refuse_code(folder, config, modules, settings)
    weights = _weight_files(folder, settings)
    return LocalModel(
        settings.origin,
        folder.name if settings.origin is Origin.PATH else settings.model_name,
        folder,
        weights,
        config,
        _sha256(_deciding_files(folder, weights, modules)),
        settings.revision or "",
        _license(folder, config),
        modules,
    )


def current_digests(model: LocalModel, settings: EmbedSettings) -> dict[str, str]:
    """``model.digests`` as they are now: different if a file was changed, added or removed since.

    Raises:
        ExtractionError: the model is not complete any more.
    """
    if model.folder is None:
        return _sha256({path.name: path for path in model.weights})
    return _sha256(_deciding_files(model.folder, _weight_files(model.folder, settings), model.modules))


def planned_digest(settings: EmbedSettings) -> str | None:
    """The digest of the model's files, None if it cannot be computed: the extraction's own error will say why."""
    try:
        return find_model(settings).digest
    except (ExtractionError, OSError):
        return None


def _folder(settings: EmbedSettings) -> Path:
    if settings.origin is not Origin.PATH:
        repository = hub_repository(settings.origin, settings.model_name)
        return snapshot_folder(repository, settings.revision or "", settings)
    folder = Path(settings.model_name)
    if not folder.is_dir():
        raise ExtractionError(f"{settings.section}: source = {settings.source!r} is not a folder")
    return folder


def _read_json(path: Path, settings: EmbedSettings, rule: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ExtractionError(f"{settings.label} has no {path.name}: {rule}{_fetch_whole(settings)}") from None
    except (OSError, ValueError) as error:
        raise ExtractionError(
            f"{settings.section}: {path.name} of {settings.source} cannot be read ({type(error).__name__})"
        ) from None


def _modules(folder: Path, settings: EmbedSettings) -> tuple[Mapping[str, Any], ...]:
    if not (folder / "modules.json").is_file():
        return ()
    content = _read_json(folder / "modules.json", settings, "it lists the parts of a sentence model")
    if not isinstance(content, list) or not all(isinstance(module, dict) for module in content):
        raise ExtractionError(f"{settings.label} has a modules.json that is no list of parts")
    for module in content:
        part = Path(str(module.get("path", "")))
        if part.is_absolute() or ".." in part.parts:
            raise ExtractionError(f"{settings.label} has a part outside its folder ({str(part)!r} in modules.json)")
    return tuple(content)


def _refuse_code(
    folder: Path, config: Mapping[str, Any], modules: Sequence[Mapping[str, Any]], settings: EmbedSettings
) -> None:
    """Refuse a model that needs a program of its own: if that ran, a file of numbers could do anything here."""
    refused = "that is never run here: take a model that its library knows"
    if "auto_map" in config:
        raise ExtractionError(f"{settings.label} wants code of its own (auto_map in config.json); {refused}")
    if (folder / "adapter_config.json").is_file():
        raise ExtractionError(f"{settings.label} is an adapter of another model: merge it into that first")
    for module in modules:
        kind = str(module.get("type"))
        if not kind.startswith("sentence_transformers."):
            raise ExtractionError(f"{settings.label} wants code of its own ({kind!r} in modules.json); {refused}")


def _weight_files(folder: Path, settings: EmbedSettings) -> tuple[Path, ...]:
    """The weights in a folder: safetensors if there are any, else torch's own format, each in one file or in parts."""
    for whole in (SAFETENSORS, PICKLE):
        if (folder / whole).is_file():
            return (folder / whole,)
        index = folder / f"{whole}.index.json"
        if index.is_file():
            return _parts(index, settings)
    raise ExtractionError(
        f"{settings.label} has neither {SAFETENSORS} nor {PICKLE}: other formats are not loaded{_fetch_whole(settings)}"
    )


def _parts(index: Path, settings: EmbedSettings) -> tuple[Path, ...]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise ExtractionError(f"{settings.section}: {index.name} of {settings.source} is damaged") from None
    parts = tuple(index.parent / Path(name).name for name in names)
    if missing := [part.name for part in parts if not part.is_file()]:
        raise ExtractionError(f"{settings.label} lacks {missing[0]}, which {index.name} names: fetch it again")
    return parts


def _fetch_whole(settings: EmbedSettings) -> str:
    return f"; if it was not fetched whole, {settings.how_to_get}" if settings.origin.on_hub else ""


def _deciding_files(folder: Path, weights: Sequence[Path], modules: Sequence[Mapping[str, Any]]) -> dict[str, Path]:
    """By path in the folder, the files that can decide values: the weights, and all that a library might read."""
    files = {path.name: path for path in folder.iterdir() if path.suffix in READ_SUFFIXES and path.is_file()}
    files |= {path.name: path for path in weights}
    for part in {folder / str(module.get("path") or "") for module in modules} - {folder}:
        inside = part.iterdir() if part.is_dir() else ()
        kept = [path for path in inside if path.suffix in (*READ_SUFFIXES, ".safetensors", ".bin") and path.is_file()]
        files |= {str(path.relative_to(folder)): path for path in kept}
    return dict(sorted(files.items()))


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
    match = _LICENSE.search(front)
    return match[1] if match else UNSTATED


def safetensors_shapes(path: Path) -> dict[str, list[int]]:
    """The shapes of the tensors of a safetensors file, from its header: 8 bytes of its length, then JSON."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, 100_000_000)))
        return {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # loading it will say what is wrong


def memory_needed(model: LocalModel, precision: Precision) -> int:
    """Bytes of the model's weights once they are loaded, by the headers of its files."""
    size = 2 if precision in _HALVES else 4
    shapes = [shape for path in model.weights for shape in safetensors_shapes(path).values()]
    if shapes:
        return size * sum(map(prod, shapes))
    stored = 2 if model.config.get("dtype", model.config.get("torch_dtype")) in ("float16", "bfloat16") else 4
    return size * sum(path.stat().st_size for path in model.weights) // stored


def free_memory(device: Device) -> int | None:
    """Bytes that are free where a network computes; None where the system does not say."""
    if device is Device.CUDA:
        import torch

        gc.collect()  # what an earlier network had is still torch's
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        return min([int(lines["MemAvailable"].split()[0]) * 1024, *_left_of_limits()])
    except (OSError, ValueError, KeyError):
        return None


def _left_of_limits() -> Iterator[int]:
    """What the limits of this process's control groups leave, as a batch system or a container sets them."""
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    own = _GROUPS / next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    for group in (own, *own.parents):
        try:
            limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
            shares = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            # the cache of files gives way
            yield limit - used + int(shares["active_file"]) + int(shares["inactive_file"])
        except (OSError, ValueError, KeyError):  # "max", or no such group
            continue


def check_memory(model: LocalModel, settings: EmbedSettings) -> None:
    """Refuse a model whose weights do not fit into the memory that is free where it computes.

    Raises:
        ExtractionError: with both numbers.
    """
    needed, free = memory_needed(model, settings.precision), free_memory(settings.device)
    if free is None or needed <= free:
        return
    halves_fit = settings.precision not in _HALVES and needed // 2 <= free
    cure = "set precision = 'bfloat16', which takes half of that, or " if halves_fit else ""
    raise ExtractionError(
        f"{settings.label} takes {needed / 1e9:.1f} GB in {settings.precision}, and {free / 1e9:.1f} GB of the "
        f"{'GPU' if settings.device is Device.CUDA else 'memory'} are free: {cure}"
        "take a smaller model, or run it where more is free"
    )
