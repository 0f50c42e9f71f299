"""Torchvision's published weights: where they lie, told from its source text, as importing it would take seconds."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from storyframes.installation import install_line
from tasks.extractors.base import ExtractionError
from tasks.models.weights import torch_hub_folder


@dataclass(frozen=True)
class PublishedWeights:
    """Weights of a model of torchvision.

    Attributes:
        name: IMAGENET1K_V1, for instance.
        url: where they are published; the last part of the file's name is the beginning of its SHA-256.
    """

    name: str
    url: str

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
    there = _weights_of(model)
    if name not in there:
        raise ExtractionError(f"torchvision:{model} has no weights {name!r}; there are {', '.join(there)}")
    return PublishedWeights(name, there[name])


@cache
def _weights_of(model: str) -> Mapping[str, str]:
    """The URLs of a model's weights, by their names."""
    spec = find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        raise ExtractionError(f"torchvision is not installed: {install_line('pipeline')}")
    for path in sorted((Path(spec.submodule_search_locations[0]) / "models").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if f"\ndef {model}(" not in text:
            continue
        body = ast.parse(text).body
        weights = {node.name: dict(_urls(node)) for node in body if isinstance(node, ast.ClassDef)}
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name == model and _weights_class(node) in weights:
                return weights[_weights_class(node)]
    raise ExtractionError(f"torchvision has no model {model!r} of images")


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
