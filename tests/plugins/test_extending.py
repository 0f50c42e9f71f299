"""The page that builds a plug-in line by line: its code is the plug-in's, and it runs."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from support.media.recordings import write_recording
from support.tools.plug_ins import PLUG_INS

from storyframes.testing import check_extractor

PAGE = (PLUG_INS.parent / "docs" / "extending.md").read_text()
EXAMPLE = PLUG_INS / "storyframes-example"
PACKAGES = ("storyframes", "storyframes.clips", "storyframes.store", "tasks.study", "flows.clusters")


def blocks(language: str, of: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", of, re.MULTILINE | re.DOTALL)


def lines(code: str) -> list[str]:
    """Those that say something: how many empty ones are between them is the formatter's."""
    return [line for line in code.splitlines() if line.strip()]


def the_class() -> str:
    section = PAGE[PAGE.index("## The class") : PAGE.index("## The distribution")]
    return "\n".join(blocks("python", section))


def test_the_page_s_code_is_the_plug_in_s() -> None:
    assert lines(the_class()) == lines((EXAMPLE / "storyframes_example.py").read_text())
    more = PAGE[PAGE.index("## A command, a section") : PAGE.index("## The contract")]
    assert lines("\n".join(blocks("python", more))) == lines((EXAMPLE / "storyframes_light.py").read_text())


def test_the_plug_in_uses_every_door_in_two_files_of_hundred_lines() -> None:
    assert sorted(path.name for path in EXAMPLE.glob("*.py")) == ["storyframes_example.py", "storyframes_light.py"]
    assert len((EXAMPLE / "storyframes_example.py").read_text().splitlines()) < 40
    assert sum(len(path.read_text().splitlines()) for path in EXAMPLE.glob("*.py")) <= 106


def public_names() -> dict[str, set[str]]:
    """By module or package, the names that the page lists."""
    section = PAGE[PAGE.index("## What a plug-in may import") :].split("\n## ")[0]
    listed = {}
    for module, names in re.findall(r"^\| `([\w.]+)` \| (.+?) \|", section, re.MULTILINE):
        names_of_all = getattr(import_module(module), "__all__", ()) if "everything in its `__all__`" in names else ()
        listed[module] = {*names_of_all, *re.findall(r"`(\w+)`", names)} - {"__all__"}
    return listed


def imported_names(path: Path) -> Iterator[tuple[str, str]]:
    """What a file imports of storyframes, tasks and flows: a module and a name in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            pairs = [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            pairs = [(alias.name, "") for alias in node.names]
        else:
            continue
        for module, name in pairs:
            if module.partition(".")[0] in ("storyframes", "tasks", "flows"):
                is_module = (PLUG_INS.parent / module.replace(".", "/") / f"{name}.py").is_file()
                yield (f"{module}.{name}", "") if is_module else (module, name)


@pytest.mark.parametrize(
    "name", ["adopt", "dyads", "empathy", "example", "labels", "mediapipe", "people", "release", "sync", "transcribe"]
)
def test_plug_ins_import_only_what_the_page_lists(name: str) -> None:
    public = public_names()
    paths = [path for path in PLUG_INS.glob(f"storyframes-{name}/**/*.py") if "tests" not in path.parts]
    imports = {(module, name, path.name) for path in paths for module, name in imported_names(path)}
    assert imports
    private = [found for found in sorted(imports) if found[1] not in {"", *public.get(found[0], ())}]
    assert private + [found for found in sorted(imports) if found[0] not in public] == []


def test_what_the_page_lists_exists() -> None:
    for module, names in public_names().items():
        assert names, module
        assert {name for name in names if not hasattr(import_module(module), name)} == set(), module


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_exports_what_it_says(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))
    assert {name for name in module.__all__ if not hasattr(module, name)} == set()


def test_the_page_s_project_is_the_plug_in_s() -> None:
    shown = "\n".join(blocks("toml"))
    told, real = tomllib.loads(shown)["project"], tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    assert {name: real[name] for name in told} == told


@pytest.mark.slow
def test_the_page_s_code_keeps_the_contract(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "built_by_the_page.py").write_text(the_class())
    monkeypatch.syspath_prepend(tmp_path)
    from built_by_the_page import Brightness  # type: ignore[import-not-found]

    check_extractor(Brightness, write_recording(tmp_path / "recording.avi", 12))


def test_every_rule_of_the_page_is_one_that_is_checked() -> None:
    from storyframes.testing.rules import RULES

    table = PAGE[PAGE.index("| rule |") : PAGE.index("`settings=` gives")]
    assert len(lines(table)) - 2 == 1 + len(RULES)  # the heading and its line; the class's own rules come first
