"""The folder of a soak, which contains everything of it, so that every process and file that mentions it is the soak's.

Commands get their own home, temporary folder, caches and state in it. A process that mentions the folder in
its environment, its command line or as its working folder belongs to the soak; so does every socket it listens on.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tasks.media.synthesize import SyntheticStudy, write_study

ROOT = Path(__file__).parents[2]
FEATURES = ("frames", "openface", "resnet50", "opensmile", "glove", "sbert")

# Stands in for OpenFace: takes its time in a child process, then gives back what was recorded for the video.
_TOOL = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift; done
name=${{input##*/}}; stem=${{name%.*}}
sleep {seconds}
gunzip -c {recorded}/$stem.csv.gz > $out/$stem.csv
"""


@dataclass(frozen=True)
class SoakPaths:
    """Where everything lies.

    Attributes:
        folder: all of it; its path is short, since sockets have names of at most 107 bytes.
        features: what is extracted.
    """

    folder: Path
    features: tuple[str, ...]

    @property
    def study(self) -> Path:
        return self.folder / "study"

    @property
    def store(self) -> Path:
        """The feature store that is soaked."""
        return self.folder / "features"

    @property
    def reference(self) -> Path:
        """The feature store that nobody disturbed."""
        return self.folder / "reference"

    @property
    def configuration(self) -> Path:
        return self.folder / "storyframes.toml"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def prepare(self, study: SyntheticStudy, tool_seconds: float) -> None:
        """Make the study, the tool and the configuration."""
        for name in ("tmp", "home", "cache", "state", "run", "elsewhere"):
            (self.folder / name).mkdir(mode=0o700)
        write_study(self.study, study)
        tool = self.folder / "FeatureExtraction"
        recorded = self.study / "openface"
        tool.write_text(_TOOL.format(recorded=recorded, seconds=tool_seconds))
        tool.chmod(0o755)
        vectors = ROOT / "demo" / "glove.demo.300d.txt"
        sections: dict[str, dict[str, object]] = {
            "openface": {"backend": "binary", "binary": str(tool), "loads": [str(recorded)]},
            "resnet50": {"allow_untrained": True},
            "glove": {"vectors": str(vectors), "demo_vectors": True},
            "clips": {"window": 15, "stride": 5},
            "cluster": {"cpus": 4},  # two workers: the tool takes two processors
        }
        lines = [f"features = {json.dumps(self.features)}"]
        for section, values in sections.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        self.configuration.write_text("\n".join(lines))

    def environment(self) -> dict[str, str]:
        """What commands get."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "DASK_"))}
        return inherited | {
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self.cache),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }

    def command(self, name: str, *arguments: object) -> list[str]:
        """A ``storyframes`` command."""
        return [sys.executable, "-c", "from flows.cli.entry import main; main()", name, *map(str, arguments)]

    def extract(self, store: Path, *options: str) -> list[str]:
        return self.command("extract", "--server", self.study, store, "--config", self.configuration, *options)
