"""Examples in docstrings are true; the public names of storyframes each have one."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from support.media.recordings import write_recording
from support.synthetic_features import StudySpec, write_features

import storyframes
from storyframes.store.feature_store import SessionView

CLASSES = [
    *(each for name in storyframes.__all__ if inspect.isclass(each := getattr(storyframes, name))),
    SessionView,  # of FeatureStore.session
]
ROOT = Path(__file__).parents[2]
WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for floor in ("storyframes", "tasks", "flows")
    for path in sorted((ROOT / floor).rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.fixture(scope="module")
def folder_of_a_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples read: the store ``STORE``, ten sessions of two phases with one window each; ``talk.avi``."""
    folder = tmp_path_factory.mktemp("docs")
    write_recording(folder / "talk.avi", 50, np.zeros((32_000, 1), np.int16))
    write_features(folder / "STORE", StudySpec(sessions=10, frames=240, window=120, stride=15))
    return folder


@pytest.fixture(autouse=True)
def beside_the_store(folder_of_a_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder_of_a_store)


def run_examples(test: doctest.DocTest) -> int:
    """Run the examples of one docstring; how many there were."""
    assert not [one.source for one in test.examples if one.options.get(doctest.SKIP)], f"{test.name} is skipped"
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert not result.failed, "".join(said)
    return result.attempted


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_every_example_runs(name: str) -> None:
    assert sum(map(run_examples, doctest.DocTestFinder().find(import_module(name)))) > 0


@pytest.mark.parametrize("public", CLASSES, ids=lambda public: public.__name__)
def test_every_public_class_has_an_example(public: type) -> None:
    assert any(test.examples for test in doctest.DocTestFinder(recurse=False).find(public))


@pytest.mark.parametrize("public", CLASSES, ids=lambda public: public.__name__)
def test_every_public_method_has_a_docstring(public: type) -> None:
    bare = [
        name
        for name, member in vars(public).items()
        if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property))
        if not inspect.getdoc(getattr(public, name))
    ]
    assert not bare
