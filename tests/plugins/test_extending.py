"""The page that builds a plug-in line by line: its code is the plug-in's, and it runs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from support.media.recordings import write_recording
from support.tools.plug_ins import PLUG_INS

from storyframes.testing import check_extractor

PAGE = (PLUG_INS.parent / "docs" / "extending.md").read_text()
EXAMPLE = PLUG_INS / "storyframes-example"
FLOORS = ("storyframes", "tasks", "flows")
PACKAGES = (
    "storyframes",
    "storyframes.clips",
    "storyframes.store",
    "storyframes.testing",
    "tasks",
    "tasks.extractors",
    "tasks.forgetting",
    "tasks.inspect",
    "tasks.media",
    "tasks.models",
    "tasks.planning",
    "tasks.study",
    "flows",
    "flows.cli",
)
MOST_NAMES = 200


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


def imported_from(package: str, path: Path) -> set[str]:
    """The names that the package of a plug-in exports (``__all__`` of its file)."""
    assigned = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    return {
        name for node in assigned if ast.unparse(node.targets[0]) == "__all__" for name in ast.literal_eval(node.value)
    }


FACES = {package: set(import_module(package).__all__) for package in PACKAGES}
FACES |= {
    path.parent.name: imported_from(path.parent.name, path) for path in PLUG_INS.glob("*/storyframes_*/__init__.py")
}
MODULES = {
    ".".join(path.relative_to(PLUG_INS.parent).with_suffix("").parts).removesuffix(".__init__")
    for floor in FLOORS
    for path in (PLUG_INS.parent / floor).rglob("*.py")
}


def past_the_faces(code: str, own: str = "") -> Iterator[str]:
    """What code names of storyframes, or of another plug-in than its own, that no package exports."""
    floors = {package.partition(".")[0] for package in FACES} - {own}
    bound, tree = {}, ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in floors and not node.level:
            exported = FACES.get(node.module or "", set())
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in exported)
        elif isinstance(node, ast.Import):
            names = [alias for alias in node.names if alias.name.partition(".")[0] in floors]
            yield from (alias.name for alias in names if alias.name not in FACES)
            bound |= {alias.asname or alias.name.partition(".")[0]: alias for alias in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # import_module, python -m
            module = node.value.partition(":")[0]
            if module in MODULES - {*FACES}:
                yield module
    for node in ast.walk(tree) if bound else ():
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            if alias := bound.get(first):
                package, _, name = f"{alias.name if alias.asname else first}.{rest}".rpartition(".")
                is_exported = name in FACES.get(package, {name}) or f"{package}.{name}" in FACES
                if not is_exported and not name.startswith("__"):
                    yield f"{package}.{name}"


@pytest.mark.parametrize(
    ("code", "deep"),
    [
        ("from tasks.media.recording import read_frames", "tasks.media.recording.read_frames"),
        ("from tasks.media import recording", "tasks.media.recording"),
        ("from storyframes.store import catalogue as table", "storyframes.store.catalogue"),
        ("import tasks.media.recording", "tasks.media.recording"),
        ("import tasks.media.recording as r", "tasks.media.recording"),
        ("def late():\n    from flows.cli.terminal import fail", "flows.cli.terminal.fail"),
        ("import storyframes\nstoryframes.spec.MAIN", "storyframes.spec"),
        ("import storyframes.store as s\ns.layout", "storyframes.store.layout"),
        ("import_module('tasks.media.recording')", "tasks.media.recording"),
        ("run([sys.executable, '-m', 'flows.cli.entry'])", "flows.cli.entry"),
        ("from storyframes_people.detectors import Pictures", "storyframes_people.detectors.Pictures"),
    ],
)
def test_an_import_past_a_package_s_face_is_seen(code: str, deep: str) -> None:
    assert list(past_the_faces(code)) == [deep]


def test_an_import_of_a_name_that_a_package_exports_is_not() -> None:
    code = "import storyframes\nimport tasks.media as m\nfrom storyframes.store import StoreError\nfrom . import own\n"
    assert (
        list(past_the_faces(f"{code}m.read_frames, storyframes.FeatureStore.read, storyframes.store.StoreError")) == []
    )


@pytest.mark.slow
def test_plug_ins_import_only_names_that_packages_export() -> None:
    paths = [path for path in PLUG_INS.rglob("*.py") if "tests" not in path.relative_to(PLUG_INS).parts]
    assert len(paths) > 100
    deep = [
        f"{path.relative_to(PLUG_INS)}: {name}"
        for path in paths
        for name in past_the_faces(path.read_text(), path.relative_to(PLUG_INS).parts[1].removesuffix(".py"))
    ]
    assert deep == []


def documented_names() -> dict[str, set[str]]:
    """By package, the names that the page about the Python interface has."""
    page = (PLUG_INS.parent / "docs" / "api.md").read_text()
    tables = dict.fromkeys(FACES, "") | dict(
        re.findall(r"^### `([\w.]+)`$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    )
    listed = r"^\| `(\w+)` \||^   (\w+)$"  # constants in a table, the others of which the site shows the docstrings
    names = {
        package: {one or other for one, other in re.findall(listed, table, re.MULTILINE)}
        for package, table in tables.items()
    }
    for name in re.findall(r"^\.\. auto\w+:: ([\w.]+)$", page, re.MULTILINE):
        package, _, last = name.rpartition(".")
        names.setdefault(package or "storyframes", set()).add(last)
    return names


@pytest.mark.parametrize(
    "package", [pytest.param(name, marks=[pytest.mark.slow] if name == "flows" else []) for name in PACKAGES]
)
def test_what_a_package_exports_exists_and_is_documented(package: str) -> None:
    module = import_module(package)
    assert FACES[package] <= set(dir(module))
    assert {name for name in FACES[package] if isinstance(getattr(module, name), ModuleType)} == set()
    assert FACES[package] - {"__version__"} == documented_names()[package]


def test_importing_packages_imports_no_library() -> None:
    heavy = "torch numpy pandas zarr prefect dask av cv2 typer pydantic".split()
    code = f"import sys, {', '.join(PACKAGES)}; print([name for name in {heavy} if name in sys.modules])"
    code = code.replace(" storyframes.testing,", "")  # a test imports it
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_packages_export_no_more_than_somebody_can_read() -> None:
    assert sum(len(FACES[package]) for package in PACKAGES) <= MOST_NAMES


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

    table = PAGE[PAGE.index("| rule |") :].split("\n\n")[0]
    assert len(lines(table)) - 2 == 1 + len(RULES)  # the heading and its line; the class's own rules come first
