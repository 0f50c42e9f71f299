"""What `pip install .` alone brings is enough to read clips."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from support.synthetic_features import StudySpec, write_features

ROOT = Path(__file__).parent.parent

READ_A_CLIP = """
import importlib.abc, sys

allowed = set(sys.argv[2].split(","))

class OnlyWhatIsDeclared(importlib.abc.MetaPathFinder):
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        hidden = root not in allowed and not root.startswith("_sysconfigdata")  # that name tells the platform
        return None if hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(OnlyWhatIsDeclared, sys.meta_path)
from storyframes import ClipDataset, ClipLoader, UniformSampler
from storyframes.clips.named_inputs import INPUTS

dataset = ClipDataset(sys.argv[1], [*INPUTS, "openface", "resnet50", "dope"], 'face_tracked >= 0')
sample = dataset[next(iter(UniformSampler(dataset)))]
print(sample["vision"].shape, len(sample) == len(dataset.fields))
try:
    ClipLoader(dataset, 4)
except ModuleNotFoundError as error:
    print(error)
"""


def light_modules() -> set[str]:
    """Importable names: the standard library's, and those of the declared dependencies and of all that these need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted, distributions = list(project["dependencies"]), set()
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
    assert not {"torch", "pydantic", "xarray", "prefect"} & modules
    return modules | set(sys.stdlib_module_names) | {"storyframes"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_a_clip_is_read_with_the_declared_dependencies_alone(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=1))
    command = [sys.executable, "-c", READ_A_CLIP, str(study.root), ",".join(sorted(light_modules()))]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert result.returncode == 0, result.stderr
    shape, loader = result.stdout.splitlines()
    assert shape == "(13, 2762) True"
    assert loader == "ClipLoader needs PyTorch: pip install 'storyframes[loader]'"
