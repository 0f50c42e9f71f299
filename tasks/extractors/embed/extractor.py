"""What the features of all kinds of models share: what they are called, what decides their values, what is noted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from storyframes.features import FeatureSpec
from storyframes.installation import install_line
from storyframes.store.publish import FeatureWriter
from tasks.extractors.base import ALL, CommonSettings, ExtractionError, Extractor, Tolerance
from tasks.extractors.embed.fetch import fetch_source
from tasks.extractors.embed.local_model import LocalModel, find_model
from tasks.extractors.embed.settings import EmbedSettings, Origin

E = TypeVar("E", bound=EmbedSettings)

_NEEDS = {
    Origin.TIMM: "timm",
    Origin.HF: "transformers",
    Origin.PATH: "transformers",
    Origin.TORCHVISION: "torchvision",
}
_NOT_VALUES = {"name", "source", "device", "sessions_per_gpu", "batch_size"}


class Embedding(Extractor[E]):
    """A model of one section ``[[embed]]``.

    Its specification is made of the section and of the model's own width, so it is an object's, not the class's.

    Attributes:
        not_values: settings of the section that do not decide values; a kind adds its own.
    """

    tolerance: ClassVar[Mapping[str, Tolerance]] = {ALL: Tolerance(1e-3, 1e-3)}
    not_values: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, settings: E, common: CommonSettings) -> None:
        super().__init__(settings, common)
        self._model: LocalModel | None = None
        self._spec: FeatureSpec | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    # No cached_property: with its code between, an error of ours would not be known as ours (tasks/extract.py), and its
    # text would be withheld where texts are read.
    @property
    def spec(self) -> FeatureSpec:  # type: ignore[override]
        if self._spec is None:
            self._spec = self.make_spec(self.model)
        return self._spec

    @property
    def model(self) -> LocalModel:
        """The model's files.

        Raises:
            ExtractionError: they are not here, may not be loaded, or are others than when the work was planned.
        """
        if self._model is not None:
            return self._model
        model = find_model(self.settings)
        if self.settings.planned not in (None, model.digest):
            raise ExtractionError(
                f"[[embed]] {self.name}: the files of {self.settings.source} are not those that they were when the "
                "work was planned (or this worker has others): run the extraction again"
            )
        self._model = model
        return model

    @abstractmethod
    def make_spec(self, model: LocalModel) -> FeatureSpec:
        """The feature's arrays; without loading the network, of its configuration.

        Raises:
            ExtractionError: the model cannot become this feature, or it has no such layer.
        """

    @property
    def needs(self) -> Mapping[str, float]:
        return self.settings.needs

    def value_settings(self) -> Mapping[str, Any]:
        """The section without what only says where and how fast; of a folder its content counts, not its place."""
        section = self.settings.model_dump(mode="json")
        model = self.model
        values = {name: value for name, value in section.items() if name not in _NOT_VALUES | self.not_values}
        return values | {"source": f"{model.origin}:{model.name}", "layer": list(self.settings.layers)}

    def models(self) -> Mapping[str, str]:
        """SHA-256 of the model's files; asked before the work and after it, so that a change in between shows."""
        _ = self.model, self.spec  # a layer that is not there is told before anything is decoded
        return find_model(self.settings).digests

    def fetch_models(self) -> Iterable[Path]:
        if self.settings.origin is Origin.PATH:
            return []
        return [fetch_source(f"{self.settings.source}@{self.settings.revision}").path]

    def check_tool(self) -> None:
        """Make sure, before any work, that the packages and the model are here.

        Raises:
            ExtractionError: something is missing; the message says how to get it.
        """
        for package in self.packages:
            if find_spec(package) is None:
                raise ExtractionError(f"[[embed]] {self.name} needs the package {package}: {install_line('embed')}")
        _ = self.model, self.spec

    @property
    def packages(self) -> tuple[str, ...]:
        """What has to be installed for it."""
        return (_NEEDS[self.settings.origin],)

    def note_model(self, out: FeatureWriter) -> None:
        """Write down beside the values which model they are of, its licence, and how far two extractions may differ."""
        model = self.model
        out.attributes["model"] = {
            "source": f"{model.origin}:{model.name}",
            "revision": model.revision,
            "license": model.license,
            "layers": list(self.settings.layers),
        }
        out.attributes["device"] = str(self.settings.device)
        out.attributes["tolerance"] = {key: [one.absolute, one.relative] for key, one in self.tolerance.items()}


def layer_numbers(settings: EmbedSettings, depth: int) -> tuple[int, ...]:
    """The section's layers, counted from 0 (what enters the first block) to ``depth`` (what leaves the last).

    Raises:
        ExtractionError: the model has no such layer, or two numbers are one layer.
    """
    for layer in settings.layers:
        if not -depth - 1 <= layer <= depth:
            raise ExtractionError(
                f"[[embed]] {settings.name}: layer = {layer}, but {settings.source} has {depth} blocks: 0 to {depth}, "
                f"or -1 (the last) to {-depth - 1}"
            )
    numbers = tuple(layer % (depth + 1) for layer in settings.layers)
    if len(set(numbers)) < len(numbers):
        raise ExtractionError(f"[[embed]] {settings.name}: layer = {list(settings.layers)} names one layer twice")
    return numbers


def column_names(name: str, width: int, layers: tuple[int, ...] = (-1,)) -> tuple[str, ...]:
    """A name for each number of a row: ``dinov2_0007``; of several layers ``dinov2_l11_0007``, one after the other."""
    if len(layers) == 1:
        return tuple(f"{name}_{number:04d}" for number in range(width))
    return tuple(f"{name}_l{layer}_{number:04d}" for layer in layers for number in range(width))


def layer_groups(width: int, layers: tuple[int, ...]) -> dict[str, slice]:
    """Of several layers, the columns of each: ``layer_11``; none of a single one."""
    if len(layers) == 1:
        return {}
    return {f"layer_{layer}": slice(place * width, (place + 1) * width) for place, layer in enumerate(layers)}
