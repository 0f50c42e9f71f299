"""``storyframes extractors``: what there is, what is broken, and the environments of plug-ins."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.commands import storyframes
from support.messages import missing
from support.tools.outside_programs import with_numpy

PLUG_IN = """
from pathlib import Path
from storyframes.features import ArraySpec, Axis, FeatureSpec
from tasks.extractors.base import Run
from tasks.extractors.outside.environment import Requirements
from tasks.extractors.outside.extractor import OutsideExtractor, OutsideFrameExtractor
from tasks.extractors.outside.settings import ContainerSettings

class Shades(OutsideFrameExtractor):
    spec = FeatureSpec("shades", "", {{"values": ArraySpec(Axis.FRAME, "float32", "")}})
    version = 1
    program = Path(__file__)
    requirements = Requirements("painting", Path({pins!r}))

class Words(OutsideExtractor):
    spec = FeatureSpec("mumbling", "", {{"values": ArraySpec(Axis.FRAME, "float32", "")}})
    version = 1
    run = Run.CONTAINER
    Settings = ContainerSettings
    inputs = ("transcript",)

class Half:
    pass
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """In which two plug-ins are installed, one of them in part broken."""
    pins = with_numpy(tmp_path).pins
    site = tmp_path / "site"
    for name, points in (
        ("painter", "shades = painter_plugin:Shades\nmumbling = painter_plugin:Words\nhalf = painter_plugin:Half"),
        ("ruin", "gone = no_such_module_at_all:Gone"),
    ):
        info = site / f"{name}-2.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.5\n")
        (info / "entry_points.txt").write_text(f"[storyframes.extractors]\n{points}\n")
    (site / "painter_plugin.py").write_text(PLUG_IN.format(pins=str(pins)))
    return {
        "PYTHONPATH": f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "XDG_CACHE_HOME": str(tmp_path / "c"),
    }


def row(text: str, feature: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"│ {feature} "))
    return [field.strip() for field in line.strip("│").split("│")]


@pytest.mark.slow
def test_what_there_is_what_it_lacks_and_what_is_broken(environment: dict[str, str]) -> None:
    listed = storyframes("extractors", "list", environment=environment)
    scripted = storyframes("extractors", "list", "--json", environment=environment)
    assert listed.returncode == 0, listed.stderr
    assert row(listed.stdout, "frames") == ["frames", "video", "yes, 0.03 CPU-s per s"]
    states = {state["feature"]: state for state in json.loads(scripted.stdout)["extractors"]}
    assert (states["frames"]["missing"], states["sbert"]["private"]) == ("", True)
    shades, mumbling = states["shades"], states["mumbling"]
    assert (shades["inputs"], shades["run"], shades["origin"], shades["private"]) == (
        *(["video"], "venv", "painter 2.5", False),
    )
    assert "storyframes extractors install painting" in shades["missing"]
    assert (mumbling["inputs"], mumbling["run"], mumbling["private"]) == (["transcript"], "container", True)
    assert "[mumbling] image" in mumbling["missing"]
    assert row(listed.stdout, "  painter 2.5")[0] == "painter 2.5"
    half, gone, _ = listed.stderr.splitlines()
    assert missing(half, "painter 2.5", "half", "not a class") == []
    assert missing(gone, "ruin 2.5", "gone", "ModuleNotFoundError") == []


@pytest.mark.slow
def test_an_environment_is_installed_once(environment: dict[str, str]) -> None:
    made = storyframes("extractors", "install", "shades", environment=environment)
    assert made.returncode == 0, made.stderr
    assert Path(made.stdout.strip(), "bin/python").is_file()
    again = storyframes("extractors", "install", "painting", environment=environment)
    assert again.stdout == made.stdout
    listed = storyframes("extractors", "list", environment=environment)
    assert row(listed.stdout, "shades")[2].startswith("yes")


@pytest.mark.slow
def test_what_cannot_be_installed_says_why(environment: dict[str, str]) -> None:
    unknown = storyframes("extractors", "install", "resnet50", environment=environment)
    assert unknown.returncode == 2
    assert missing(unknown.stderr, "'resnet50'", "painting", "painter 2.5: half") == []
    no_python = storyframes("extractors", "install", "painting", "--python", "/bin/true", environment=environment)
    assert no_python.returncode == 1
    assert missing(no_python.stderr, "/bin/true", "interpreter") == []
