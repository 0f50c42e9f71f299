"""What an extractor is, what it is given, and what decides its values.

A new extractor is one file in this folder: its settings, its fingerprint, its work; and one line in
``tasks/extractors/registry.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

import storyframes
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import canonical_json


class MissingInputError(Exception):
    """The session lacks what this feature is made of: a status, not a failure. The message says what."""


class ExtractionError(Exception):
    """The input cannot become this feature; trying again will not help. The message says why and what to do."""


class ExtractorSettings(BaseModel):
    """Base of every extractor's section of the configuration; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class InputFile:
    """One input of a session.

    Attributes:
        path: where it lies on this machine.
        relative: its path in the study, which is all that is ever recorded.
        sha256: of its content when the work was planned.
        bytes, mtime_ns: as it was then.
    """

    path: Path
    relative: str
    sha256: str
    bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class Source:
    """One session, or the stories, as an extractor sees it: an id and files; no text, no table.

    Attributes:
        session_id: the session, or ``stories``.
        files: by kind: video, audio, transcript, openface; for the stories: stories.
        unusable: by kind, why a file that the study names cannot be used.
    """

    session_id: str
    files: Mapping[str, InputFile]
    unusable: Mapping[str, str] = field(default_factory=dict)

    def names(self, kind: str) -> bool:
        """Whether the study names an input of this kind, be it there or not."""
        return kind in self.files or kind in self.unusable

    def file(self, kind: str) -> InputFile:
        """The input of this kind.

        Raises:
            MissingInputError: the study names none for this session.
            ExtractionError: the study names one that cannot be used.
        """
        if kind in self.unusable:
            raise ExtractionError(self.unusable[kind])
        if kind not in self.files:
            raise MissingInputError(f"the study names no {kind} for this session")
        return self.files[kind]


@dataclass(frozen=True)
class Fingerprint:
    """Everything that decides the values of a feature; equal digests mean equal values.

    Attributes:
        feature: the feature.
        extractor: version of the extractor's code; raised when it would give other values.
        inputs: by kind, the files read.
        settings: those that change the values (not a batch size, not a path).
        models: by name, the SHA-256 of what was loaded.
        tools: by name, the version of tools that define the values.
    """

    feature: str
    extractor: int
    inputs: Mapping[str, InputFile]
    settings: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        content = {
            "feature": self.feature,
            "extractor": self.extractor,
            "inputs": {kind: file.sha256 for kind, file in self.inputs.items()},
            "settings": dict(self.settings),
            "models": dict(self.models),
            "tools": dict(self.tools),
        }
        return hashlib.sha256(canonical_json(content)).hexdigest()

    def provenance(self, libraries: tuple[str, ...]) -> dict[str, Any]:
        """What goes into the store beside the values: no host name, no absolute path.

        Args:
            libraries: distributions whose versions are noted although they do not decide the values.
        """
        return {
            "extractor": self.extractor,
            "inputs": {
                kind: {"path": file.relative, "sha256": file.sha256, "bytes": file.bytes}
                for kind, file in self.inputs.items()
            },
            "settings": dict(self.settings),
            "models": dict(self.models),
            "tools": dict(self.tools),
            "libraries": {name: distribution_version(name) for name in ("numpy", "zarr", *libraries)},
            "code": f"storyframes {storyframes.__version__}",
        }


class Extractor(Protocol):
    """One feature's way from a session's files to the feature store."""

    @property
    def name(self) -> str:
        """The feature it writes."""

    @property
    def needs(self) -> Mapping[str, float]:
        """Dask resources of one extraction: ``{"CPU": 1}``, or ``{"GPU": 1}`` where it runs on one."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """Distributions whose versions the provenance notes."""

    def fingerprint(self, source: Source) -> Fingerprint:
        """What would decide the values; fast, without importing a model's library.

        Raises:
            MissingInputError: the session lacks the input.
            ExtractionError: a setting or a model is missing.
        """

    def extract(self, source: Source, out: FeatureWriter) -> None:
        """Read the source and write every array of the feature.

        Raises:
            MissingInputError: the session turns out to lack the input.
            ExtractionError: the input cannot become this feature.
        """


def distribution_version(name: str) -> str:
    """The installed version of a distribution, ``absent`` where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
