"""The house holds together: imports point down from floor to floor, and run in circles nowhere."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLOORS = ("flows", "tasks", "storyframes")  # from the top
PLUG_INS = {path.name.removesuffix(".py") for path in (ROOT / "plugins").glob("*/storyframes_*")}


def modules() -> dict[str, Path]:
    """Every module of the three floors, a package under its own name."""
    found = {}
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, wherever in it; also those that only a type checker reads."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in MODULES or node.module in MODULES:
                    yield name if name in MODULES else node.module


def names_in_strings(path: Path) -> Iterator[str]:
    """The modules of ours that a file names in a string, with which it could import or run them."""
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if "." in name and any(module == name or module.startswith(name) for module in MODULES):
                yield name


GRAPH = {module: set(imports(path)) - {module} for module, path in MODULES.items()}


def room(module: str) -> str:
    """The room that a module is in; one that stands on a floor by itself is its own."""
    parts = module.split(".")
    return ".".join(parts[:2])


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_is_something_to_look_at() -> None:
    assert len(MODULES) > 150
    assert "tasks.extractors.registry" in GRAPH["tasks.extract"]
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})


def test_no_import_points_up_a_floor() -> None:
    for module, imported in GRAPH.items():
        floor = FLOORS.index(module.split(".")[0])
        for name in imported:
            assert FLOORS.index(name.split(".")[0]) >= floor, f"{module} imports {name}"


def test_no_string_names_a_module_of_a_floor_above() -> None:
    """Neither as a whole (``import_module("flows.study")``, ``-m flows.cli``) nor as the beginning of a name."""
    assert list(names_in_strings(ROOT / "flows/cli/terminal.py"))
    for module, path in MODULES.items():
        floor = FLOORS.index(module.split(".")[0])
        for name in names_in_strings(path):
            assert FLOORS.index(name.split(".")[0]) >= floor, f"{module} names {name} in a string"


def test_what_the_light_floor_runs_of_the_others_is_in_the_project_s_entry_points() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["storyframes.pipeline"]
    assert sorted(points) == ["command", "extract", "trial"]
    for value in points.values():
        assert value.partition(":")[0] in MODULES


def test_the_floors_know_no_plug_in() -> None:
    """A plug-in imports storyframes; storyframes finds it by its entry points alone."""
    for path in MODULES.values():
        nodes = nodes_of(path)
        named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        named |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        assert [name for name in named if name.partition(".")[0] in PLUG_INS] == [], path


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(GRAPH) == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    rooms: dict[str, set[str]] = {}
    for module, imported in GRAPH.items():
        rooms.setdefault(room(module), set()).update(room(name) for name in imported if room(name) != room(module))
    assert circle(rooms) == []
