"""``[[embed]]``: what can be set of every model that is made a feature; light, since planning reads it."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from storyframes.spec import NAME_PATTERN
from tasks.extractors.settings import ComputeSettings

_COMMIT = re.compile(r"[0-9a-f]{40}")
_WEIGHTS = re.compile(r"[A-Z][A-Z0-9_]*")  # how torchvision calls its weights: IMAGENET1K_V1
_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")


class Kind(StrEnum):
    """What a model looks at."""

    IMAGE = "image"
    AUDIO = "audio"
    TEXT = "text"
    VIDEO = "video"


class Origin(StrEnum):
    """Where a model is from."""

    TIMM = "timm"  # timm's models, on the Hugging Face hub as timm/<name>
    HF = "hf"  # a repository of the Hugging Face hub
    TORCHVISION = "torchvision"  # a model of torchvision, with its published weights
    PATH = "path"  # a folder on this machine

    @property
    def on_hub(self) -> bool:
        """Whether its files come from the Hugging Face hub."""
        return self in (Origin.TIMM, Origin.HF)


class Output(StrEnum):
    """What of a model is stored."""

    HIDDEN = "hidden"  # the numbers of its layers
    SCORES = "scores"  # what its trained head says, a column for each label


class Activation(StrEnum):
    """What becomes of a head's numbers."""

    SOFTMAX = "softmax"  # one label of all: they add up to 1
    SIGMOID = "sigmoid"  # each label by itself, 0 to 1
    NONE = "none"  # they stay as they are


Layers = Annotated[tuple[int, ...], Field(min_length=1)]
Outputs = Annotated[tuple[Output, ...], Field(min_length=1)]
_OF_HIDDEN = ("layer", "pool")
_OF_SCORES = ("output", "activation")  # newer than stored features, which stay current without them


class EmbedSettings(ComputeSettings):
    """The settings that sections of all kinds share."""

    name: str  # of the feature
    kind: Kind
    source: str  # ``timm:NAME``, ``hf:OWNER/NAME``, ``torchvision:NAME`` or ``path:FOLDER``
    # of a model of the hub the commit, 40 hexadecimal digits; of torchvision which weights (IMAGENET1K_V1); a folder
    # has none
    revision: str | None = None
    # whose output is taken: 0 is the input of the first block, 1 its output, -1 the output of the last. Several are
    # concatenated in a row
    layer: int | Layers = -1
    # ``hidden``, ``scores``, or both from one pass, side by side in a row
    output: Output | Outputs = Output.HIDDEN
    # of scores; without it by the model's problem_type
    activation: Activation | None = None
    # of a model whose files have no trained head: use a random one, always the same, with a caveat (for a demo)
    allow_untrained: bool = False

    _planned: str | None = PrivateAttr(default=None)

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not NAME_PATTERN.fullmatch(name):
            raise ValueError("a feature's name is of lower-case letters, digits and '_', at most 64, a letter first")
        return name

    @field_validator("source")
    @classmethod
    def _is_a_source(cls, source: str) -> str:
        origin, _, name = source.partition(":")
        if origin not in set(Origin) or not name:
            raise ValueError("a source is timm:NAME, hf:OWNER/NAME, torchvision:NAME or path:FOLDER")
        if origin == Origin.HF and not _HUB_NAME.fullmatch(name):
            raise ValueError("a model of the hub is hf:OWNER/NAME")
        if origin in (Origin.TIMM, Origin.TORCHVISION) and ("/" in name or not _HUB_NAME.fullmatch(name)):
            raise ValueError(f"a model of {origin} is {origin}:NAME")
        return source

    @field_validator("layer")
    @classmethod
    def _layers_differ(cls, layer: int | tuple[int, ...]) -> int | tuple[int, ...]:
        if isinstance(layer, tuple) and len(set(layer)) < len(layer):
            raise ValueError("a layer is named twice")
        return layer

    @model_validator(mode="after")
    def _output_fits(self) -> Self:
        if len(set(self.outputs)) < len(self.outputs):
            raise ValueError("an output is named twice")
        if not self.gives_scores and self.activation is not None:
            raise ValueError("activation is of output = 'scores'")
        if self.allow_untrained and not self.gives_scores and self.kind is not Kind.VIDEO:
            raise ValueError("allow_untrained is of output = 'scores'")
        if not self.gives_hidden:
            for name in sorted({*_OF_HIDDEN} & self.model_fields_set):
                raise ValueError(f"{name} is of output = 'hidden': scores are of the model's own head")
        return self

    @model_validator(mode="after")
    def _revision_fits(self) -> Self:
        if self.origin.on_hub:
            if self.revision is None:
                raise ValueError(
                    f"revision is missing: the commit of {self.source!r}, 40 hexadecimal digits; "
                    f"'storyframes models fetch {self.source}' gets the newest and says which it is"
                )
            if not _COMMIT.fullmatch(self.revision):
                raise ValueError(
                    f"revision = {self.revision!r} is no commit (40 hexadecimal digits): a branch or a tag may be "
                    "another model tomorrow"
                )
        elif self.origin is Origin.TORCHVISION:
            if self.revision is None or not _WEIGHTS.fullmatch(self.revision):
                raise ValueError("revision is to say which of torchvision's weights, for instance 'IMAGENET1K_V1'")
        elif self.revision is not None:
            raise ValueError("revision is for models of the hub and of torchvision: a folder is known by its content")
        return self

    @property
    def origin(self) -> Origin:
        return Origin(self.source.partition(":")[0])

    @property
    def model_name(self) -> str:
        """The part of ``source`` behind the colon."""
        return self.source.partition(":")[2]

    @property
    def layers(self) -> tuple[int, ...]:
        return self.layer if isinstance(self.layer, tuple) else (self.layer,)

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.output if isinstance(self.output, tuple) else (self.output,)

    @property
    def gives_hidden(self) -> bool:
        return Output.HIDDEN in self.outputs

    @property
    def gives_scores(self) -> bool:
        return Output.SCORES in self.outputs

    @property
    def section(self) -> str:
        """What messages call the section."""
        return f"[[embed]] {self.name}"

    @property
    def label(self) -> str:
        """What messages call the model: the section and its source."""
        return f"{self.section}: {self.source}"

    @property
    def how_to_get(self) -> str:
        """The command that fetches the model, as the end of a sentence."""
        return f"'storyframes models fetch {self.source}@{self.revision}' gets it"

    def value_settings(self) -> dict[str, Any]:
        """The settings that decide values, without where and how fast; those of scores only where there are some."""
        without = {"name", "source", "device", "sessions_per_gpu", "batch_size", "cpus", "allow_untrained"}
        without |= {*(() if self.gives_scores else _OF_SCORES), *(() if self.gives_hidden else _OF_HIDDEN)}
        section = self.model_dump(mode="json", exclude=without)
        several = {"output": [str(output) for output in sorted(self.outputs)], "layer": list(self.layers)}
        return section | {name: value for name, value in several.items() if name not in without}

    @property
    def reads(self) -> tuple[str, ...]:
        """The features of the session whose values are read."""
        return ()

    @property
    def planned(self) -> str | None:
        """The digest of the model's files when the work was planned; None before, or if it could not be computed."""
        return self._planned

    def as_planned(self, digest: str | None) -> Self:
        """The same with the digest of the model's files; see :attr:`planned`."""
        copy = self.model_copy()
        copy._planned = digest
        return copy

    @classmethod
    def anchored(cls, section: dict[str, Any], folder: Path) -> dict[str, Any]:
        """With the folder of ``path:`` made absolute."""
        section = super().anchored(section, folder)
        source = section.get("source")
        if isinstance(source, str) and source.startswith(f"{Origin.PATH}:"):
            name = source.removeprefix(f"{Origin.PATH}:")
            section |= {"source": f"{Origin.PATH}:{folder / Path(name).expanduser()}"} if name else {}
        return section
