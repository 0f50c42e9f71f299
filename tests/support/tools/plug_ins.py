"""Plug-ins: the real ones, installed into a folder of their own, and ones that a test writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PLUG_INS = Path(__file__).parents[3] / "plugins"


def install(name: str, target: Path, version: str = "") -> Path:
    """Install the plug-in of this folder into ``target``, as of another version where one is given."""
    source = target.with_name(f"{target.name}-source")
    shutil.copytree(PLUG_INS / name, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    if version:
        project = source / "pyproject.toml"
        project.write_text(project.read_text().replace('version = "1.0"', f'version = "{version}"'))
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target


def write(
    folder: Path, name: str, points: Mapping[str, str], group: str = "storyframes.extractors", **modules: str
) -> Path:
    """A distribution ``name`` with these entry points and modules, as an installer would leave it in ``folder``."""
    information = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{point} = {value}\n" for point, value in points.items())
    (information / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(code)
    return folder


def installed(*folders: Path) -> dict[str, str]:
    """The environment of a process in which what lies in these folders is installed."""
    path = [*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path)}
