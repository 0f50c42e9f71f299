"""The tests of one's own edit: ``make quick``.

    python tests/quick.py [BASE]

Runs, in one process and without those marked slow, the test files that changed since BASE (a commit; HEAD unless
given) and those that import a module that changed, for 90 seconds at most. Files called like what changed come first,
then those that import the fewest modules of ours; what is not run is named.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("storyframes", "tasks", "flows", "benchmarks", "support")
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
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "tests" else parts
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
    return frozenset(name for name in found if name.partition(".")[0] in PACKAGES)


def tests_of(changed: list[Path]) -> list[Path]:
    """The test files that changed or import what changed: those of its name first, then those that import least."""
    modules, stems = {module_of(path) for path in changed}, {path.stem for path in changed}
    support = {module_of(path) for path in ROOT.glob("tests/support/**/*.py") if imports_of(path) & modules}

    def rank(path: Path) -> tuple[bool, bool, int, Path]:
        is_named = path in changed or path.stem.removeprefix("test_") in stems
        return not is_named, not imports_of(path) & modules, len(imports_of(path)), path

    tests = ROOT.glob("tests/**/test_*.py")
    return sorted((path for path in tests if path in changed or imports_of(path) & (modules | support)), key=rank)


def main() -> int:
    tests = tests_of(changed_files(sys.argv[1] if len(sys.argv) > 1 else "HEAD"))
    chosen, left = tests[:MOST_FILES], tests[MOST_FILES:]
    names = [*ALWAYS, *(str(path.relative_to(ROOT)) for path in chosen if str(path.relative_to(ROOT)) not in ALWAYS)]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", f"--session-timeout={LIMIT_S}", *names]
    code = subprocess.run(command, cwd=ROOT).returncode
    if left:
        print("not run:", *(path.relative_to(ROOT) for path in left))
    return code


if __name__ == "__main__":
    sys.exit(main())
