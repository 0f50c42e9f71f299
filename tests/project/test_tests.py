"""The tests keep to their rules: what they share is in tests/support, what they use is public, no clock judges."""

from __future__ import annotations

import ast
import itertools
import re
import runpy
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).parents[2]
STARTING = {ROOT / "tests/run.py", ROOT / "tests/quick.py", ROOT / "tests/plant.py"}  # they start tests, and are none
FILES = sorted({*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")} - STARTING)
CUTTING = {"split", "rsplit", "partition", "rpartition", "index", "find"}
OURS = {"flows", "tasks", "storyframes", "benchmarks"}
OURS |= {f"storyframes_{name}" for name in ("adopt", "dyads", "empathy", "labels", "people", "sync")}
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "getrusage"}
CLOCKS |= {f"{clock}_ns" for clock in CLOCKS}
# Said in pieces, so that this file does not find itself at fault.
ANOTHER, CONFTEST, PRIVATE, TESTS = "test" + "_flows", "conf" + "test", "_" + "private", "te" + "sts"


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Every import, wherever it is: the module, and the name out of it (none where the module itself is imported)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)


def calls(tree: ast.AST) -> Iterator[str]:
    """Every call: the last part of the function's name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id


def code_in_strings(tree: ast.AST) -> str:
    """What tests run in other processes is written in strings."""
    return "\n".join(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def cuts_source(tree: ast.AST) -> bool:
    """Whether a piece is cut out of this very file, or of one whose name ends in .py; reading it whole is no fault."""
    for node in ast.walk(tree):
        whole = None
        if isinstance(node, ast.Subscript):
            whole = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CUTTING:
            whole = node.func.value
        if isinstance(whole, ast.Call) and ast.unparse(whole.func).endswith("read_text"):
            names = [part.value for part in ast.walk(whole) if isinstance(part, ast.Constant)]
            if "Path(__file__).read_text" in ast.unparse(whole) or any(str(name).endswith(".py") for name in names):
                return True
    return False


def faults(text: str) -> list[str]:
    """What a file of tests does that it should not."""
    tree = ast.parse(text)
    found = []
    imported = list(imports(tree))
    for line in code_in_strings(tree).splitlines():
        for words in (part.split() for part in line.split(";")):
            imported += [(words[1], "")] if len(words) > 1 and words[0] in ("from", "import") else []
    for module, name in imported:
        last = module.rpartition(".")[2]
        if last.startswith(("test_", "conftest")) or module == "tests" or module.startswith("tests."):
            found.append(
                f"imports from {module}: what files of tests share is in tests/support, fixtures in a conftest.py"
            )
        private = [part for part in (name, last) if part.startswith("_") and part != "__main__"]
        if module.partition(".")[0] in OURS and private:
            found.append(f"imports {name or last} of {module}, which is private: there is a public way, or should be")
    if cuts_source(tree):
        found.append("cuts a piece out of source text: import what it needs")
    for name in calls(tree):
        if name in ("getsource", "getsourcelines"):
            found.append(f"reads source text with {name}: import what it needs")
        if name in CLOCKS:
            found.append(f"asks a clock with {name}: wait with support.processes.wait_for; what is fast is benchmarks'")
    return found


@pytest.mark.slow
def test_every_file_keeps_to_the_rules() -> None:
    found = [(str(path.relative_to(ROOT)), fault) for path in FILES for fault in faults(path.read_text())]
    # Waiting has an end in tests/support.
    assert [one for one in found if not ("/support/" in one[0] and one[1].startswith("asks a clock"))] == []


@pytest.mark.parametrize(
    "text",
    [
        f"from {ANOTHER} import server",
        f"from {TESTS}.{ANOTHER} import server",
        f"def test():\n    import {ANOTHER} as t",
        f"CODE = 'import sys; from {ANOTHER} import extract'",
        f"CODE = '''\nimport sys\nfrom {ANOTHER} import extract\n'''",
        f"from {CONFTEST} import ROOT",
        "from tasks.clip_index.index import _table",
        f"from storyframes.store.{PRIVATE} import Store",
        "import inspect\ninspect.getsource(len)",
        "Path(__file__).read_text().split('def f')",
        "(ROOT / 'tasks/extract.py').read_text()[100:]",
        "import time\nbegan = time.monotonic()",
        "from time import process_time\nassert process_time() < 3",
    ],
)
def test_each_rule_is_held(text: str) -> None:
    assert len(faults(text)) == 1


def test_what_is_allowed() -> None:
    assert (
        faults(
            "from support.stores import local\nfrom tasks.clip_index.index import write_clip_index\nimport __future__"
        )
        == []
    )
    assert faults("(Path(__file__).parents[1] / 'docs/store.md').read_text()\nos.utime(path, (time.time(), 0))") == []


@pytest.mark.parametrize("tier", ["short_groups", "rest_groups"])
def test_a_tier_has_each_file_once(tier: str) -> None:
    runner = runpy.run_path(str(ROOT / "tests/run.py"))
    whole = [group for group in runner[tier]() if group.selection in (runner["SHORT"], runner["REST"])]
    files = [file for group in whole for file in group.files]
    tests = {str(path.relative_to(ROOT)) for path in FILES if path.name.startswith("test_")}
    left_out = {file for file in tests if tier == "short_groups" and runner["missing_dependencies"](file)}
    assert sorted(files) == sorted(tests - left_out)


def test_each_test_is_in_one_tier_and_nightly_ones_only_in_that_of_the_night() -> None:
    runner = runpy.run_path(str(ROOT / "tests/run.py"))
    chosen = {name: Expression.compile(runner[name]).evaluate for name in ("SHORT", "END_TO_END", "REST", "NIGHTLY")}
    marks = ("slow", "needs", "nightly", "end_to_end")
    for size in range(len(marks)):
        for has in itertools.combinations(marks, size):
            tiers = [name for name, of_tier in chosen.items() if of_tier(lambda mark, has=has, **_: mark in has)]
            if "end_to_end" in has:
                assert tiers == ["END_TO_END"], has
            elif "nightly" in has:
                assert tiers == ["NIGHTLY"], has
            else:
                assert tiers == (["REST", "NIGHTLY"] if has else ["SHORT"]), has


_MODULES = {"praat-parselmouth": "parselmouth"}  # of distributions whose module has another name


def test_a_plug_in_that_the_short_tier_may_leave_out_has_all_its_tests_in_the_rest() -> None:
    """Its tests need what only storyframes[dev] brings; one without that mark would be in no tier."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    dev = {re.split(r"[^\w.-]", line)[0] for line in extras["dev"]}
    for path in ROOT.glob("plugins/*/pyproject.toml"):
        needed = {re.split(r"[^\w.-]", line)[0] for line in tomllib.loads(path.read_text())["project"]["dependencies"]}
        if missing := needed & dev:
            marks = [_MODULES.get(name, name.replace("-", "_")) for name in missing]
            for file in (path.parent / "tests").rglob("test_*.py"):
                mark = next(line for line in file.read_text().splitlines() if line.startswith("pytestmark"))
                assert any(f'"{name}"' in mark for name in marks), file


def test_what_the_order_names_exists() -> None:
    runner = runpy.run_path(str(ROOT / "tests/run.py"))
    stems = {path.stem.removeprefix("test_") for path in FILES}
    assert runner["ALONE"] <= stems
    assert [place for places in runner["TOGETHER"].values() for place in places if not (ROOT / place).exists()] == []
    assert set(runner["LONGEST"]) <= {group.name for group in runner["rest_groups"]()}
    assert [room for rooms in runner["NEIGHBOURS"] for room in rooms if not (ROOT / "tests" / room).is_dir()] == []


def test_no_folder_has_more_than_20_files() -> None:
    folders = ("storyframes", "tasks", "flows", "tests", "plugins", "benchmarks")
    files = [path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    rooms = Counter(path.parent for path in files if "build" not in path.parts)
    assert {str(room) for room, count in rooms.items() if count > 20} == set()
