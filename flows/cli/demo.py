"""Finding and copying the demo study, wherever storyframes is installed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Demo:
    """A copy of the demo that a user may change.

    Attributes:
        study: the study's folder.
        config: its configuration.
        features: where its features go.
    """

    study: Path
    config: Path
    features: Path


def copy_demo(folder: Path) -> Demo:
    """Copy the demo study into ``folder`` unless it is there already."""
    source = _packaged_demo()
    if not (folder / "study").is_dir():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copytree(source / "study", folder / "study")
    for name in ("storyframes.toml", "glove.demo.300d.txt", "README.md"):
        if not (folder / name).exists():
            shutil.copy2(source / name, folder / name)
    return Demo(folder / "study", folder / "storyframes.toml", folder / "features")


def demo_video() -> Path:
    """A video with a face in it."""
    return _packaged_demo() / "study" / "videos" / "p01-s01.avi"


def _packaged_demo() -> Path:
    """The wheel carries the demo inside this package; a checkout has it at its top."""
    here = Path(__file__).parent
    inside = here / "demo_study"
    return inside if inside.is_dir() else here.parents[1] / "demo"
