"""The tests of one's own edit: ``make quick``.

    python tests/quick.py [BASE]

Runs the test files that changed since BASE (a commit; HEAD unless given) and those that import a module that changed,
without tests marked slow or needs, for 90 seconds at most. Files called like what changed come first, then those that
import the fewest modules of ours; what is not run is named.

The tests of plug-ins run after the others, in a process of their own that sees the plug-ins (tests/run.py): their code
as it is in the checkout, beside the metadata of what make installed.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLUG_INS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
IMPORTED_FROM = (ROOT, ROOT / "tests", *PLUG_INS, *(folder / "tests" for folder in PLUG_INS))
OURS = {
    path.stem
    for folder in IMPORTED_FROM
    for path in folder.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").is_file()
}
ALWAYS = ("tests/project/test_rooms.py", "tests/project/test_tests.py")
MOST_FILES = 12
LIMIT_S = 90


def changed_files(base: str) -> list[Path]:
    """Python files that differ from the commit, in the working tree or untracked."""
    commands = (
        ["git", "diff", "--name-only", "--diff-filter=d", base],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    lines = [
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout for command in commands
    ]
    return sorted({ROOT / name for text in lines for name in text.splitlines() if name.endswith(".py")})


def module_of(path: Path) -> str:
    """The name by which a file is imported."""
    folder = max((folder for folder in IMPORTED_FROM if path.is_relative_to(folder)), key=lambda one: len(one.parts))
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports_of(path: Path) -> frozenset[str]:
    """The modules of ours that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(name for name in found if name.partition(".")[0] in OURS)


def tests_of(changed: list[Path]) -> list[Path]:
    """The test files that changed or import what changed: those of its name first, then those that import least."""
    modules, stems = {module_of(path) for path in changed}, {path.stem for path in changed}
    helpers = [
        path for place in ("tests/support", "plugins/*/tests/*_support") for path in ROOT.glob(f"{place}/**/*.py")
    ]
    support = {module_of(path) for path in helpers if imports_of(path) & modules}

    def rank(path: Path) -> tuple[bool, bool, int, Path]:
        is_named = path in changed or path.stem.removeprefix("test_") in stems
        return not is_named, not imports_of(path) & modules, len(imports_of(path)), path

    tests = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("plugins/*/tests/**/test_*.py")]
    return sorted((path for path in tests if path in changed or imports_of(path) & (modules | support)), key=rank)


def passed(places: list[str], seconds: float, plug_ins: str = "") -> bool:
    """Whether these tests pass in a process that sees these folders of plug-ins."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow and not needs and not nightly",
        f"--session-timeout={max(seconds, 1):.0f}",
    ]
    environment = os.environ | ({"PYTHONPATH": plug_ins} if plug_ins else {})
    ended = subprocess.run([*command, *places], cwd=ROOT, env=environment).returncode
    return ended in (0, 5)  # 5: all that was chosen is left out


def main() -> int:
    began = time.monotonic()
    tests = tests_of(changed_files(sys.argv[1] if len(sys.argv) > 1 else "HEAD"))
    places = [str(path.relative_to(ROOT)) for path in tests if str(path.relative_to(ROOT)) not in ALWAYS]
    chosen, left = places[:MOST_FILES], places[MOST_FILES:]
    of_plug_ins = [place for place in chosen if place.startswith("plugins/")]
    good = passed([*ALWAYS, *(place for place in chosen if place not in of_plug_ins)], LIMIT_S)
    if of_plug_ins:
        # Their code is that of the checkout; what they declare (entry points) is read where they are installed.
        seen = os.pathsep.join(
            map(str, [*PLUG_INS, *(Path(sys.prefix) / name for name in ("plugins", "test-plugins"))])
        )
        good &= passed(of_plug_ins, LIMIT_S - (time.monotonic() - began), seen)
    if left:
        print("not run:", *left)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
