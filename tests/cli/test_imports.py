"""What is imported before anybody needs it: nothing that takes long."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import storyframes
from flows.cli.terminal import INVALID_STUDY, REFUSALS

ROOT = Path(__file__).parents[2]
HEAVY = {
    *("av", "cv2", "dask", "distributed", "gensim", "numpy", "openvino", "opensmile", "pandas", "PIL", "prefect"),
    *("prefect_dask", "pyarrow", "scipy", "sqlalchemy", "torch", "zarr"),
}
ENDED = "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
COMMAND = f"{ENDED}; from flows.cli.entry import main; main()"


def imported(code: str, *arguments: str) -> set[str]:
    """The heavy packages that a process has imported when it ends."""
    command = [sys.executable, "-c", code, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    modules = ended.stderr.splitlines()[-1].split()
    assert "encodings" in modules, ended.stderr
    return {module.partition(".")[0] for module in modules} & HEAVY


@pytest.mark.slow
def test_the_package_imports_what_it_is_asked_for() -> None:
    assert imported(f"{ENDED}; import storyframes; storyframes.__version__") == set()
    assert imported(f"{ENDED}; import storyframes.store.records") == set()
    assert imported(f"{ENDED}; import tasks.extractors.registry") == {"numpy"}
    needed = {"dask", "distributed", "numpy", "prefect", "prefect_dask"}  # by each worker of a run
    assert imported(f"{ENDED}; import flows.study") == needed


def test_what_the_package_offers_is_there() -> None:
    assert set(storyframes.__all__) <= set(dir(storyframes))
    for name in {name for name in storyframes.__all__ if not name.isupper() and name != "__version__"}:
        assert getattr(storyframes, name).__name__ == name
    assert "openface" in storyframes.FEATURES
    with pytest.raises(AttributeError, match="storyframes .*'Features'"):
        storyframes.Features  # noqa: B018


@pytest.mark.parametrize("arguments", [["--help"], ["extract", "--help"], ["models", "--help"], ["extract"]])
def test_help_and_wrong_calls_import_nothing_heavy(arguments: list[str]) -> None:
    assert imported(COMMAND, *arguments) == set()


def test_the_help_imports_nothing_heavy_with_the_commands_of_every_plug_in() -> None:
    folders = sorted(set(ROOT.glob("plugins/*")) - {ROOT / "plugins/storyframes-example"})  # whose doors share a module
    projects = [tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in folders]
    commands = [project.get("entry-points", {}).get("storyframes.commands", {}) for project in projects]
    modules = {value.partition(":")[0] for named in commands for value in named.values()}
    assert len(modules) > 8
    importing = f"sys.path += {[*map(str, folders)]}; import flows.cli.app, {', '.join(sorted(modules))}"
    assert imported(f"{ENDED}; {importing}") == set()


@pytest.mark.slow
def test_a_command_imports_what_it_uses(store_root: Path) -> None:
    assert imported(COMMAND, "status", str(store_root), "--session", "s1") == {"numpy"}
    assert imported(COMMAND, "status", str(store_root)) == {"numpy"}
    assert imported(COMMAND, "show", str(store_root), "s1") <= {"av", "numpy", "pandas", "pyarrow", "zarr"}


@pytest.mark.parametrize(("module", "name"), [*INVALID_STUDY.items(), *REFUSALS.items()])
def test_what_ends_a_command_with_2_is_where_the_command_looks_for_it(module: str, name: str) -> None:
    assert issubclass(getattr(import_module(module), name), Exception)
