"""Where models are published and stored: the Hugging Face hub and its cache, torchvision's weights and torch's cache.

``fetch_source`` is the only function that asks the network. The hub's cache is found by its folders, and torchvision's
weights by reading its source text, because planning asks for both and must not import their libraries: that takes
seconds.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from storyframes.installation import install_line
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.settings import EmbedSettings, Origin
from tasks.models import weights
from tasks.models.weights import torch_hub_folder

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
_CTRANSLATE2 = "model.bin"  # no section loads it: a plug-in's models of speech
READ_SUFFIXES = (".json", ".txt", ".model", ".jinja")
"""Suffixes of a model's small files: configurations, vocabularies, templates. A library might read any of them."""

_PARTS = {whole: re.compile(whole.replace(".", r"(-\d+-of-\d+)?\.")) for whole in (SAFETENSORS, PICKLE, _CTRANSLATE2)}
_MODULE = re.compile(r"\d+_\w+")  # a part of a sentence model, as 1_Pooling


# --- the hub's cache -------------------------------------------------------------------------------------------------


def hub_folder() -> Path:
    """The folder of the hub's cache, as the hub's own library finds it, from the environment as it is now."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or user_cache / "huggingface").expanduser() / "hub"


def hub_repository(origin: Origin, name: str) -> str:
    """The hub's name of a model; timm's begin with ``timm/``."""
    return f"timm/{name}" if origin is Origin.TIMM else name


def snapshot_of(repository: str, commit: str) -> Path:
    """The folder of a model's files at a commit, whether it exists or not."""
    return hub_folder() / f"models--{repository.replace('/', '--')}" / "snapshots" / (commit or "-")


def newest_snapshot(repository: str) -> Path | None:
    """The folder of a model's newest commit that was fetched; None if there is none."""
    try:
        commit = (snapshot_of(repository, "").parents[1] / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    folder = snapshot_of(repository, commit)
    return folder if folder.is_dir() else None


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
    raise ExtractionError(f"{settings.label} at {commit} is not on this machine{here}; {settings.how_to_get}")


# --- torchvision's weights -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PublishedWeights:
    """Weights of a model of torchvision."""

    name: str  # IMAGENET1K_V1, for instance
    url: str  # where they are published; the last part of the file's name is the beginning of its SHA-256

    @property
    def path(self) -> Path:
        """Where torch.hub keeps them, for all programs."""
        return torch_hub_folder() / self.url.rpartition("/")[2]

    @property
    def sha256_begins(self) -> str:
        return self.path.stem.rpartition("-")[2]


def find_weights(model: str, name: str) -> Path:
    """The file of a model's weights on this machine.

    Raises:
        ExtractionError: there is no such model, it has no such weights, or they are not here.
    """
    published = published_weights(model, name)
    if not published.path.is_file():
        raise ExtractionError(
            f"the weights {name} of torchvision:{model} are not on this machine; "
            f"'storyframes models fetch torchvision:{model}@{name}' gets them"
        )
    return published.path


def published_weights(model: str, name: str) -> PublishedWeights:
    """What is published of a model.

    Raises:
        ExtractionError: there is no such model, or it has no such weights.
    """
    urls = _weights_of(model)
    if name not in urls:
        raise ExtractionError(f"torchvision:{model} has no weights {name!r}; there are {', '.join(urls)}")
    return PublishedWeights(name, urls[name])


@cache
def _weights_of(model: str) -> Mapping[str, str]:
    """The URLs of a model's weights, by their names."""
    spec = find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        raise ExtractionError(f"torchvision is not installed: {install_line('pipeline')}")
    folder = Path(spec.submodule_search_locations[0]) / "models"
    for path in sorted([*folder.glob("*.py"), *(folder / "video").glob("*.py")]):
        text = path.read_text(encoding="utf-8")
        if f"\ndef {model}(" not in text:
            continue
        body = ast.parse(text).body
        weights = {node.name: dict(_urls(node)) for node in body if isinstance(node, ast.ClassDef)}
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name == model and _weights_class(node) in weights:
                return weights[_weights_class(node)]
    raise ExtractionError(f"torchvision has no model {model!r} of images or videos")


def _urls(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for item in node.body:
        if not (isinstance(item, ast.Assign) and isinstance(item.value, ast.Call)):
            continue
        for keyword in item.value.keywords:
            if keyword.arg == "url" and isinstance(keyword.value, ast.Constant):
                yield from ((name.id, str(keyword.value.value)) for name in item.targets if isinstance(name, ast.Name))


def _weights_class(function: ast.FunctionDef) -> str:
    """The class of ``weights: Optional[ResNet50_Weights]``."""
    for argument in function.args.kwonlyargs:
        if argument.arg == "weights" and argument.annotation is not None:
            names = [node.id for node in ast.walk(argument.annotation) if isinstance(node, ast.Name)]
            return next((name for name in names if name.endswith("_Weights")), "")
    return ""


# --- fetching --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fetched:
    """A model that is here now."""

    source: str  # as a section says it
    revision: str  # the commit, or which of torchvision's weights
    path: Path  # its folder, or file


def is_source(name: str) -> bool:
    """Whether a name is that of a model that can be fetched: ``hf:OWNER/NAME``, maybe with ``@`` and a revision."""
    origin, colon, rest = name.partition(":")
    return bool(colon and rest) and origin in {Origin.HF, Origin.TIMM, Origin.TORCHVISION}


def fetch_source(name: str) -> Fetched:
    """Get a model by its source, with or without ``@`` and a revision; of the hub the newest commit without one.

    Raises:
        ExtractionError: it cannot be fetched; the message says why and what to do.
    """
    source, _, revision = name.partition("@")
    origin, _, model = source.partition(":")
    if origin == Origin.TORCHVISION:
        return _fetch_from_torchvision(source, model, revision)
    return _fetch_from_hub(source, hub_repository(Origin(origin), model), revision)


def _fetch_from_torchvision(source: str, model: str, name: str) -> Fetched:
    published = published_weights(model, name)
    file = weights.ModelFile(
        name=f"{source}@{name}",
        filename=published.path.name,
        url=published.url,
        sha256=published.sha256_begins,
        bytes=0,
        license="",
        about="",
        torch_hub=True,
    )
    try:
        return Fetched(source, name, weights.fetch(file))
    except weights.WeightsError as error:
        raise ExtractionError(str(error)) from None


def _fetch_from_hub(source: str, repository: str, revision: str) -> Fetched:
    try:
        from huggingface_hub import HfApi, errors, snapshot_download
        from huggingface_hub.utils import disable_progress_bars
    except ModuleNotFoundError:
        raise ExtractionError(f"huggingface_hub is not installed: {install_line('embed')}") from None
    disable_progress_bars()
    try:
        published = HfApi().model_info(repository, revision=revision or None)
        commit = str(published.sha)
        names = files_to_fetch([file.rfilename for file in published.siblings or ()])
        exactly = [re.sub(r"([*?[])", r"[\1]", name) for name in names]
        folder = snapshot_download(repository, revision=commit, cache_dir=hub_folder(), allow_patterns=exactly)
    except errors.GatedRepoError:
        raise ExtractionError(
            f"{source} is gated: accept its terms on its page at the hub, then run 'hf auth login' or set HF_TOKEN"
        ) from None
    except errors.RepositoryNotFoundError:
        raise ExtractionError(f"the hub has no model {repository!r}, or a private one: then set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise ExtractionError(f"{source} has no revision {revision!r}") from None
    except errors.HFValidationError:
        raise ExtractionError(f"{source!r} is no name of a model: hf:OWNER/NAME, or timm:NAME") from None
    except ExtractionError as error:
        raise ExtractionError(f"{source}: {error}") from None
    except Exception as error:  # the network, the proxy, the disk: the library lets through what its own layers raise
        here = snapshot_of(repository, revision)
        if here.is_dir():
            return Fetched(source, revision, here)
        raise ExtractionError(
            f"{source} could not be fetched ({type(error).__name__}): on a machine with a connection run the same "
            f"command, and copy {here.parent.parent.name} from its cache into {hub_folder()}"
        ) from None
    return Fetched(source, commit, Path(folder))


def files_to_fetch(names: Sequence[str]) -> list[str]:
    """The files of a repository that are loaded: one format of weights, tokenizers, configurations.

    Raises:
        ExtractionError: there are no weights of a format that is loaded.
    """
    top = [name for name in names if "/" not in name]
    weights_of_a_format = ([name for name in top if pattern.fullmatch(name)] for pattern in _PARTS.values())
    chosen = next(filter(None, weights_of_a_format), None)
    if chosen is None:
        raise ExtractionError(
            f"it has neither {SAFETENSORS} nor {PICKLE} nor {_CTRANSLATE2}: no other format is loaded"
        )
    read = [name for name in top if name.endswith(READ_SUFFIXES) or name in ("README.md", "LICENSE")]
    parts = [name for name in names if name.count("/") == 1 and _MODULE.fullmatch(name.split("/")[0])]
    return sorted({*chosen, *read, *parts})
