"""What a program outside is told: a JSON file that names everything it may rely on (``client`` reads it)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storyframes.features import FeatureSpec
from tasks.extractors.outside.client import FORMAT


@dataclass(frozen=True)
class FrameStream:
    """The frames on the program's standard input: ``count`` times height x width x 3 bytes, RGB, without gaps."""

    count: int
    width: int
    height: int


@dataclass(frozen=True)
class Manifest:
    """One session's work for a program outside.

    Attributes:
        spec: of the feature it computes.
        session_id: of which session.
        settings: the plug-in's, as JSON has them.
        inputs: by kind, where the session's files lie, as the program sees them.
        frames: what it is sent; None where it reads files only.
        frame_times: where the (T,) float64 seconds of the session's frames lie.
        output: the one folder it may write to.
        threads: how many it may use.
    """

    spec: FeatureSpec
    session_id: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    frames: FrameStream | None
    frame_times: str
    output: str
    threads: int

    def write(self, path: Path) -> None:
        """Write it to ``path``, readable by a container's user too; the folder around it is private."""
        content = {
            "format": FORMAT,
            "feature": self.spec.name,
            "session": self.session_id,
            "settings": dict(self.settings),
            "inputs": dict(self.inputs),
            "frames": self.frames and {**vars(self.frames), "format": "rgb24"},
            "frame_times": self.frame_times,
            "output": self.output,
            "threads": self.threads,
            "arrays": {
                name: {
                    "dtype": np.dtype(array.dtype).newbyteorder("<").str,
                    "shape": list(array.shape),
                    "axis": str(array.axis),
                    "optional": array.optional,
                }
                for name, array in self.spec.arrays.items()
            },
        }
        path.write_text(json.dumps(content))
        path.chmod(0o644)
