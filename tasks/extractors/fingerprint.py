"""Everything that decides the values of a feature, as one digest, and as a record beside the values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import storyframes
from storyframes.store.records import canonical_json
from tasks.extractors.source import InputFile


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


@cache
def distribution_version(name: str) -> str:
    """The version of a distribution that this process works with, ``absent`` where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
