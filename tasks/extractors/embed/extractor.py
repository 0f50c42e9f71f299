"""What the features of all kinds of models share: their names, what decides their values, what is noted beside them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.installation import install_line
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import ALL, CommonSettings, ExtractionError, Extractor, Tolerance
from tasks.extractors.embed.local_model import LocalModel, current_digests, find_model
from tasks.extractors.embed.scores import UNITS, Head, head_of
from tasks.extractors.embed.settings import EmbedSettings, Origin
from tasks.extractors.embed.sources import fetch_source

E = TypeVar("E", bound=EmbedSettings)

PACKAGES = {
    Origin.TIMM: "timm",
    Origin.HF: "transformers",
    Origin.PATH: "transformers",
    Origin.TORCHVISION: "torchvision",
}


class Embedding(Extractor[E]):
    """A feature that a model makes, of one section ``[[embed]]``.

    Its specification depends on the section and on the model's own width, so it belongs to the object, not the class.
    """

    tolerance: ClassVar[Mapping[str, Tolerance]] = {ALL: Tolerance(1e-3, 1e-3)}

    def __init__(self, settings: E, common: CommonSettings) -> None:
        super().__init__(settings, common)
        self._model: LocalModel | None = None
        self._spec: FeatureSpec | None = None
        self._head: Head | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    # No cached_property: tasks/extract.py withholds the text of an error whose traceback has a file of another package,
    # if texts are read, and functools would be one.
    @property
    def spec(self) -> FeatureSpec:  # type: ignore[override]  # by the model
        if self._spec is None:
            self._spec = self.make_spec(self.model)
        return self._spec

    @property
    def model(self) -> LocalModel:
        """The model's files, read when first asked for.

        Raises:
            ExtractionError: they are missing, may not be loaded, or have changed since the work was planned.
        """
        if self._model is None:
            model = find_model(self.settings)
            if self.settings.planned not in (None, model.digest):
                raise ExtractionError(
                    f"{self.settings.section}: the files of {self.settings.source} have changed since the work was "
                    "planned (or this worker has others): run the extraction again"
                )
            self._model = model
        return self._model

    @abstractmethod
    def make_spec(self, model: LocalModel) -> FeatureSpec:
        """The feature's arrays, from the model's configuration: the network is not loaded.

        Raises:
            ExtractionError: the model cannot become this feature, or it has no such layer.
        """

    def value_settings(self) -> Mapping[str, Any]:
        """The section without what only says where and how fast; of a folder its content counts, not its path."""
        return self.settings.value_settings() | {"source": f"{self.model.origin}:{self.model.name}"}

    @property
    def head(self) -> Head | None:
        """The model's head, None where no scores are asked for."""
        if self._head is None and self.settings.gives_scores:
            self._head = head_of(self.model, self.settings)
        return self._head

    def columns(self, width: int, layers: tuple[int, ...]) -> Columns:
        """The columns of a row: those of the layers, ``width`` of each, and the labels of the scores behind them.

        Args:
            layers: -1 alone where the hidden numbers are of one layer, or not of layers.
        """
        names: tuple[str, ...] = ()
        groups: dict[str, slice] = {}
        units = ""
        if self.settings.gives_hidden:
            names, groups = column_names(self.name, width, layers), layer_groups(width, layers)
        if self.head is not None:
            hidden, names = len(names), (*names, *self.head.labels)
            groups |= {"hidden": slice(0, hidden)} if hidden else {}
            groups |= {"scores": slice(hidden, len(names))}
            groups = {group: columns for group, columns in groups.items() if group not in names}
            units = "" if hidden else UNITS[self.head.activation]
        return Columns(names, groups, units)

    def is_untrained(self) -> bool:
        """Whether weights of the model with its head are in no file; loads it to see."""
        from tasks.extractors.embed.loading import lacks_weights

        model = self.model
        if model.folder is None or "model_type" not in model.config:  # other libraries' models are loaded whole
            return False
        return lacks_weights(self.settings.kind, model.folder, model.digest, self.settings.label)

    def models(self) -> Mapping[str, str]:
        """SHA-256 of the model's files as they are now: compared before and after the work, so that a change shows."""
        _ = self.spec  # a layer that the model does not have is an error before anything is decoded
        return current_digests(self.model, self.settings)

    def fetch_models(self) -> Iterable[Path]:
        if self.settings.origin is Origin.PATH:
            return []
        return [fetch_source(f"{self.settings.source}@{self.settings.revision}").path]

    def check_tool(self) -> None:
        package = PACKAGES[self.settings.origin]
        if find_spec(package) is None:
            raise ExtractionError(f"{self.settings.section} needs the package {package}: {install_line('embed')}")
        _ = self.spec

    def note_model(self, out: FeatureWriter) -> None:
        """Store beside the values which model they are of, its licence, and how far two extractions may differ."""
        model = self.model
        out.attributes["model"] = {
            "source": f"{model.origin}:{model.name}",
            "revision": model.revision,
            "license": model.license,
            "layers": list(self.settings.layers),
        }
        if self.head is not None:
            out.attributes["model"] |= {"activation": str(self.head.activation)}
            if self.settings.allow_untrained and self.is_untrained():
                out.caveat(Caveat.UNTRAINED)
        out.attributes["device"] = str(self.settings.device)
        out.attributes["tolerance"] = {key: [bound.absolute, bound.relative] for key, bound in self.tolerance.items()}


def describe_output(settings: EmbedSettings, hidden: str) -> str:
    """What a section stores of its model, for specifications: ``hidden`` says it of the layers' numbers."""
    return " and ".join([*([hidden] if settings.gives_hidden else []), *(["scores"] if settings.gives_scores else [])])


def window_time(about: str) -> ArraySpec:
    """An array with a time of each window."""
    return ArraySpec(Axis.WINDOW, "float64", f"{about}, on the recording's clock", units="s")


class Columns(NamedTuple):
    """The columns of a row.

    Attributes:
        names, groups: as a specification has them.
        units: what all of them share.
    """

    names: tuple[str, ...]
    groups: dict[str, slice]
    units: str


def layer_numbers(settings: EmbedSettings, depth: int) -> tuple[int, ...]:
    """The section's layers, counted from 0 (the input of the first block) to ``depth`` (the output of the last).

    Raises:
        ExtractionError: the model has no such layer, or two numbers are one layer.
    """
    for layer in settings.layers:
        if not -depth - 1 <= layer <= depth:
            raise ExtractionError(
                f"{settings.section}: layer = {layer}, but {settings.source} has {depth} blocks: 0 to {depth}, "
                f"or -1 (the last) to {-depth - 1}"
            )
    numbers = tuple(layer % (depth + 1) for layer in settings.layers)
    if len(set(numbers)) < len(numbers):
        raise ExtractionError(f"{settings.section}: layer = {list(settings.layers)} names one layer twice")
    return numbers


def column_names(name: str, width: int, layers: tuple[int, ...] = (-1,)) -> tuple[str, ...]:
    """A name for each number of a row: ``dinov2_0007``; of several layers ``dinov2_l11_0007``, layer by layer."""
    if len(layers) == 1:
        return tuple(f"{name}_{number:04d}" for number in range(width))
    return tuple(f"{name}_l{layer}_{number:04d}" for layer in layers for number in range(width))


def layer_groups(width: int, layers: tuple[int, ...]) -> dict[str, slice]:
    """Of several layers, the columns of each: ``layer_11``; none of a single one."""
    if len(layers) == 1:
        return {}
    return {f"layer_{layer}": slice(rank * width, (rank + 1) * width) for rank, layer in enumerate(layers)}
