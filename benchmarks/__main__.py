"""``python -m benchmarks [GROUP or NAME ...]``: all benchmarks, those of a group, or some; each in its own process."""

import argparse
import ast
import subprocess
import sys
from pathlib import Path

from benchmarks.performance_page import write_page

# The cheap ones first. Processes of their own, because threads of one library would go on while the next is measured.
NAMES = (
    "reading.clips",
    "extracting.decoding",
    "extracting.resnet50",
    "extracting.gpu",
    "extracting.speaking",
    "extracting.transcripts",
    "extracting.people",
    "scaling.transcribing",
    "scaling.scale",
)


def selected(arguments: list[str]) -> list[str]:
    """The benchmarks of groups and names, in the order of the arguments; all without arguments."""
    names = []
    for argument in arguments:
        matches = [name for name in NAMES if argument in (name, *name.split("."))]
        if not matches:
            known = sorted({part for name in NAMES for part in name.split(".")})
            sys.exit(f"there is no benchmark or group {argument!r}; there are {', '.join(known)}")
        names += matches
    return list(dict.fromkeys(names)) or list(NAMES)


def about(name: str) -> str:
    """The first sentence of a benchmark, or of a group of them; nothing is imported."""
    path = Path(__file__).parent.joinpath(*name.split("."))
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    return (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].replace("\n", " ")


def listing() -> str:
    """All benchmarks by group, each with what it measures."""
    lines = []
    for group in dict.fromkeys(name.split(".")[0] for name in NAMES):
        lines += ["", f"{group}: {about(group)}"]
        lines += [f"  {name:<26}{about(name)}" for name in NAMES if name.startswith(f"{group}.")]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure: all benchmarks, those of a group, or some, each in a process of its own." + listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="GROUP or NAME", help="which; without any, all (50 minutes)")
    parser.add_argument(
        "--tables",
        action="store_true",
        help="measure nothing: write docs/performance.md's tables from performance.json",
    )
    arguments = parser.parse_args()
    if arguments.tables:
        write_page()
        return
    failed = []
    for name in selected(arguments.names):
        print(f"== {name}", flush=True)
        ended = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=Path(__file__).parents[1])
        failed += [name] if ended.returncode else []
        print(flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
