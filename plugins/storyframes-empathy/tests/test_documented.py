"""What the plug-in's pages say: links, files, commands and settings exist, and the examples run as they are written."""

from __future__ import annotations

import doctest
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from support.synthetic_features import StudySpec, write_features
from typer.main import get_command

import storyframes
from storyframes_empathy.commands.app import app

PLUG_IN = Path(__file__).parents[1]
ROOT = PLUG_IN.parents[1]
PAGES = [PLUG_IN / "README.md", *sorted((PLUG_IN / "docs").glob("*.md")), ROOT / "docs/empathy.md"]


def examples(page: str) -> list[str]:
    """The Python examples of a page."""
    return re.findall(r"```python\n(.*?)```", (PLUG_IN / page).read_text(), re.DOTALL)


def commands(group: Any, *before: str) -> Iterator[tuple[str, Any]]:
    """The commands without groups, with their whole names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield " ".join([*before, name]), command


COMMANDS = dict(commands(get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_names_one_that_may_be_typed_next(name: str) -> None:
    words = shlex.split((COMMANDS[name].epilog or "").removeprefix("Next: storyframes "))
    given = [parameter.metavar or parameter.name.upper() for parameter in COMMANDS[name].params]
    assert [word for word in words if word.isupper() and word not in given] == []
    assert words[0] in ("empathy", "status")
    group: Any = get_command(app)
    following = words[1:] if words[0] == "empathy" else []
    while following and hasattr(group, "commands") and following[0] != "--help":
        group, following = group.commands[following[0]], following[1:]


def test_it_requires_the_storyframes_whose_names_it_imports() -> None:
    """The release that it comes with, and no later one that may change them."""
    project = tomllib.loads((PLUG_IN / "pyproject.toml").read_text())["project"]
    (needed,) = (one for one in map(Requirement, project["dependencies"]) if one.name == "storyframes")
    major, minor = Version(storyframes.__version__).release[:2]
    assert needed.specifier.contains(storyframes.__version__)
    assert not needed.specifier.contains(f"{major}.{minor + 1}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_exist(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target
    for name in re.findall(r"`((?:storyframes_empathy|tests|docs)/[\w./-]+)", text):
        assert (PLUG_IN / name).exists(), name


@pytest.mark.slow
def test_every_command_and_option_exists() -> None:
    from storyframes_empathy.commands.app import app

    unknown, seen = [], 0
    for page in PAGES:
        fenced = "\n".join(re.findall(r"```\w*\n(.*?)```", page.read_text().replace("\\\n", " "), re.DOTALL))
        for line in re.findall(r"^(?:[$#] )?storyframes empathy (.+)$", fenced, re.MULTILINE):
            command, words = get_command(app), shlex.split(line, comments=True)
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            options = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}
            asked = {word.partition("=")[0] for word in words if word.startswith("--")}
            seen += 1
            if asked - options - {"--help"}:
                unknown.append(f"{page.name}: {line}")
    assert unknown == []
    assert seen > 20


def test_every_command_is_documented() -> None:
    from storyframes_empathy.commands.app import app

    text = "".join(page.read_text() for page in PAGES)
    for command in get_command(app).commands:
        assert f"storyframes empathy {command}" in text, command


def test_every_setting_is_documented_with_its_default() -> None:
    from storyframes_empathy.training.settings import TrainSettings

    (example,) = re.findall(r"```toml\n(.*?)```", (PLUG_IN / "docs/settings.md").read_text(), re.DOTALL)
    assert TrainSettings.model_validate(tomllib.loads(example)["train"]) == TrainSettings()
    for key in TrainSettings.model_fields:
        assert re.search(rf"\b{key}\b", example), key


@pytest.mark.parametrize("page", ["docs/benchmark.md"])
def test_examples_that_need_nothing(page: str) -> None:
    (code,) = [code for code in examples(page) if "implied_prevalence" in code]
    exec(compile(code, "example", "exec"), {})


DOCTESTS = [path for path in (PLUG_IN / "storyframes_empathy").rglob("*.py") if ">>> " in path.read_text()]


@pytest.mark.parametrize("path", DOCTESTS, ids=lambda path: path.stem)
def test_examples_in_docstrings_are_true(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "STORE" in path.read_text():
        write_features(tmp_path / "STORE", StudySpec(sessions=10, frames=240, window=120, stride=15))
    monkeypatch.chdir(tmp_path)
    module = import_module(".".join(path.relative_to(PLUG_IN).with_suffix("").parts))
    assert doctest.testmod(module) == (0, doctest.testmod(module).attempted)
    assert doctest.testmod(module).attempted > 0
