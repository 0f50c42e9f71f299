"""What is built of a checkout and installed elsewhere is whole; ``storyframes demo`` of other tests ran from there."""

from __future__ import annotations

import re
import shlex
import subprocess
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from support.systems.installed import Installed, clean

ROOT = Path(__file__).parents[2]


def project_of(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


PROJECT = project_of(ROOT)
PAGES = [ROOT / "README.md", *(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
WHERE = """
import flows, storyframes, tasks, torch
print(*(module.__file__ for module in (flows, storyframes, tasks, torch)), sep="\\n")
"""


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel(installed: Installed, extracted_demo) -> None:
    demo, result = extracted_demo
    assert result.returncode == 0, result.stderr
    assert result.args[0] == str(installed.command)
    asked = subprocess.run([installed.python, "-c", WHERE], cwd=demo, env=clean(), capture_output=True, text=True)
    *ours, torch = map(Path, asked.stdout.splitlines())
    assert len(ours) == 3, asked.stderr
    assert [path for path in ours if not path.is_relative_to(installed.environment)] == []
    assert not torch.is_relative_to(installed.environment)


@pytest.mark.slow
def test_a_message_of_the_wheel_names_the_wheel(installed: Installed) -> None:
    code = "from storyframes.installation import install_line; print(install_line('s3'))"
    asked = subprocess.run([installed.python, "-c", code], env=clean(), capture_output=True, text=True)
    assert shlex.split(asked.stdout) == ["pip", "install", f"{installed.wheel}[s3]"], asked.stderr


@pytest.mark.slow
def test_the_wheel_holds_what_is_imported_and_nothing_else(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(wheel.read(metadata).decode())
    assert {name.partition("/")[0] for name in names} == {"storyframes", "tasks", "flows", metadata.partition("/")[0]}
    floors = [path for floor in ("storyframes", "tasks", "flows") for path in (ROOT / floor).rglob("*")]
    files = {str(path.relative_to(ROOT)) for path in floors if path.is_file() and "__pycache__" not in path.parts}
    assert files - names == set()
    assert "flows/cli/demo_study/storyframes.toml" in names  # which the tests' demo may bring itself
    assert {one for one in names - files if ".dist-info/" not in one and "/demo_study/" not in one} == set()
    assert set(about.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    minors = {f"3.{minor}" for minor in (11, 12, 13)}
    told = {one.rpartition(" ")[2] for one in about.get_all("Classifier") if "Python :: 3." in one}
    assert told == minors


@pytest.mark.slow
def test_the_source_distribution_holds_what_the_makefile_asks_for(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("Makefile", "constraints.txt", "tests/run.py", "docs/conf.py", "demo/storyframes.toml", ".ci/run"):
        assert needed in names
    assert [name for name in names if "__pycache__" in name or name.startswith(("docs/_build", ".venv"))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pip_lines_name_extras_that_there_are(page: Path) -> None:
    """An extra in capitals stands for any."""
    for target, extras in re.findall(r"pip install[^\n`]*?([\w./-]*)\[([a-z0-9,]+)\]", page.read_text()):
        _, plug_in, name = target.rpartition("plugins/")
        project = project_of(ROOT / "plugins" / name) if plug_in else PROJECT
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), target
