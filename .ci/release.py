"""Build what a release consists of into ``dist``, and check it: ``make release``.

1. The source distribution and the wheel of storyframes and of each plug-in, by the build backend of each.
2. Their metadata: ``twine check``, where twine is installed.
3. Each wheel, installed into an empty environment of its own, plug-ins together with storyframes: every entry point is
   loaded, and ``storyframes demo`` runs from storyframes' wheel. Dependencies are those of the environment that runs
   this.
4. Storyframes' wheel with its own dependencies from the package index (not with ``--offline``): ``storyframes --help``.

Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = """
import sys, {} as backend
dist = sys.argv[1]  # setuptools puts something else there
print(backend.build_sdist(dist))
print(backend.build_wheel(dist))
"""
LOAD = """
import sys
from importlib.metadata import distribution
for point in distribution(sys.argv[1]).entry_points:
    point.load()
    print("   ", point.group, point.name)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the distributions go")
    parser.add_argument("--offline", action="store_true", help="ask no package index")
    options = parser.parse_args()
    dist = options.dist.resolve()
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    wheels = {name: build(folder, dist) for name, folder in projects().items()}
    check_metadata(dist)
    with tempfile.TemporaryDirectory(prefix="storyframes-release-") as scratch:
        for name, wheel in wheels.items():
            needed = [wheels[other] for other in ("storyframes", *companions(projects()[name]))]
            check_wheel(name, [*needed, wheel], Path(scratch) / name)
        if not options.offline:
            check_dependencies(wheels["storyframes"], Path(scratch) / "empty")
    print(f"checked: {', '.join(sorted(path.name for path in dist.iterdir()))}")


def projects() -> dict[str, Path]:
    """The folder of each distribution by its name, storyframes first."""
    folders = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
    return {tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"]: folder for folder in folders}


def companions(folder: Path) -> list[str]:
    """The other distributions of ours that one needs, for itself or for an extra."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in project.get("optional-dependencies", {}).values() for line in extra),
    ]
    return [match[0] for line in lines if folder != ROOT and (match := re.match(r"storyframes-[\w-]+", line))]


def build(project: Path, dist: Path) -> Path:
    """Build the source distribution and, from a copy without leftovers of other builds, the wheel."""
    backend = tomllib.loads((project / "pyproject.toml").read_text())["build-system"]["build-backend"]
    if project == ROOT:
        made = run([sys.executable, "-c", BUILD.format(backend), str(dist)], project)
    else:  # setuptools writes its own files beside the sources
        with tempfile.TemporaryDirectory() as copied:
            copy = Path(copied) / project.name
            shutil.copytree(project, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
            made = run([sys.executable, "-c", BUILD.format(backend), str(dist)], copy)
    wheel = dist / made.splitlines()[-1]
    print(f"built {wheel.name}")
    return wheel


def check_metadata(dist: Path) -> None:
    if find_spec("twine") is None:
        print("not checked with twine, which is not installed: pip install twine")
        return
    print(run([sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir())], ROOT))


def check_wheel(name: str, wheels: list[Path], folder: Path) -> None:
    """Install into an empty environment and load what the distribution names as entry points."""
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], ROOT)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", "--ignore-installed", *map(str, dict.fromkeys(wheels))], folder)
    print(f"{name}, installed from its wheel:")
    print(run([str(folder / "bin/python"), "-c", LOAD, name], folder).rstrip())
    if name == "storyframes":
        run([str(folder / "bin/storyframes"), "demo", str(folder / "demo")], folder)
        print("    storyframes demo")


def check_dependencies(wheel: Path, folder: Path) -> None:
    """What the wheel asks for is enough for the command; nothing of this environment is used."""
    run([sys.executable, "-m", "venv", str(folder)], ROOT)
    run([str(folder / "bin/pip"), "install", "--quiet", str(wheel)], folder)
    run([str(folder / "bin/storyframes"), "--help"], folder)
    print("storyframes, with its own dependencies alone: storyframes --help")


def run(command: list[str], folder: Path) -> str:
    """What a command prints; the release ends with its output where it fails."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
