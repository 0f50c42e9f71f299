"""A process that can import only what a distribution's declared dependencies bring."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]

ONLY_WHAT_IS_DECLARED = """
import importlib.abc, sys

allowed = set(sys.argv[2].split(","))

class OnlyWhatIsDeclared(importlib.abc.MetaPathFinder):
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        hidden = root not in allowed and not root.startswith("_sysconfigdata")  # that name tells the platform
        return None if hidden else self.finder.find_spec(name, path, target)

    def find_distributions(self, *context):  # so that entry points are found
        return getattr(self.finder, "find_distributions", lambda *_: ())(*context)

sys.meta_path[:] = map(OnlyWhatIsDeclared, sys.meta_path)
"""


def light_modules(*extras: str, without: Collection[str] = (), of: Path = ROOT) -> set[str]:
    """Importable names: the standard library's, and those of the declared dependencies and of all that these need.

    Args:
        extras: whose dependencies are declared too.
        without: dependencies that are left out.
        of: the folder of the distribution.
    """
    project = tomllib.loads((of / "pyproject.toml").read_text())["project"]
    declared = {normal(Requirement(text).name): text for text in project["dependencies"]}
    wanted, distributions = [text for name, text in declared.items() if name not in without], set()
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    while wanted:
        requirement = Requirement(wanted.pop())
        name = normal(requirement.name)
        if name in distributions or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        distributions.add(name)
        wanted += metadata.requires(name) or []
    modules = {
        module
        for module, owners in metadata.packages_distributions().items()
        if distributions & {normal(owner) for owner in owners}
    }
    assert {"numpy", "pandas", "pyarrow", "zarr"} <= modules
    return modules | set(sys.stdlib_module_names) | {"storyframes"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


RUN_COMMANDS = """
import json
from flows.cli.entry import main

for command in json.loads(sys.argv[1]):
    sys.argv = ["storyframes", *command]
    try:
        main()
    except SystemExit as ended:
        print(*command[:1], "ended with", ended.code, flush=True)
"""
