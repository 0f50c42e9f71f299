"""Plug-ins that cannot be used: each is one sentence, and the others, the project's own too, work as ever."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import ONE_WORKER, ROOT, storyframes
from support.messages import missing
from support.tools.plug_ins import installed, write

IMPORTS = """
import numpy as np
from storyframes.features import ArraySpec, Axis, FeatureSpec
from tasks.extractors.base import Extractor, ExtractorSettings
from tasks.extractors.frame_pass import FrameExtractor

def one(name):
    return FeatureSpec(name, "a test's", {"values": ArraySpec(Axis.FRAME, "float32", "a test's")})
"""

GOOD = """
class Plug(FrameExtractor):
    spec = one("NAME")
    version = 1

    def rows(self, batch):
        return np.zeros(len(batch))
"""

BROKEN: dict[str, tuple[str, str]] = {
    "absent": ("import a_library_that_is_not_there", "cannot be loaded (ModuleNotFoundError: No module named"),
    "syntax": ("def f(:\n    pass", "cannot be loaded (SyntaxError:"),
    "exits": ("import sys\nsys.exit(3)", "cannot be loaded (SystemExit: 3)"),
    "interrupts": ("class Odd(BaseException): pass\nraise Odd('x')", "cannot be loaded (Odd: x)"),
    "talks": ("raise ImportError('first line\\n\\nsecond   line')", "ImportError: first line second line)"),
    "silent": ("raise RuntimeError", "cannot be loaded (RuntimeError)"),
    "nothing": ("", "has no attribute 'Plug'"),
    "function": ("def Plug(): pass", "is not a class derived from"),
    "stranger": ("class Plug: pass", "is not a class derived from"),
    "specless": (GOOD.replace('spec = one("NAME")', ""), "Plug needs spec, a FeatureSpec"),
    "badname": (GOOD.replace("NAME", "Bad Name!"), "cannot be 'Bad Name!'"),
    "reserved": (GOOD.replace("NAME", "cluster"), "no feature can be called 'cluster'"),
    "shadow": (GOOD.replace("NAME", "section"), "no feature can be called 'section'"),
    "model": (GOOD.replace("NAME", "model_dump"), "no feature can be called 'model_dump'"),
    "string": (GOOD + "    after = 'frames'", "Plug.after is 'frames'; give a tuple of names"),
    "makeless": (
        GOOD + "    def __init__(self, settings, common):\n        raise OSError('no camera')",
        "Plug cannot be made with its default settings (OSError: no camera)",
    ),
    "costly": (GOOD + "    cost = 3", "Plug: cost is a Cost"),
    "needy": (
        GOOD + "    @property\n    def needs(self):\n        return {'GPU': 1 / 0}",
        "cannot be made with its default settings (ZeroDivisionError",
    ),
    "moody": (
        GOOD + "    @property\n    def inputs(self):\n        return ('mood',)",
        "Plug.inputs has 'mood'",
    ),
    "upward": (GOOD.replace("NAME", "../up"), "cannot be '../up'"),
    "unversioned": (GOOD.replace("version = 1", ""), "Plug needs version, a whole number"),
    "abstract": ("class Plug(Extractor):\n    spec = one('a')\n    version = 1", "Plug lacks extract"),
    "rowless": (GOOD.replace("def rows", "def rrows"), "Plug needs rows(), or open()"),
    "builtin": (GOOD.replace("NAME", "resnet50"), "its feature 'resnet50' is storyframes's already"),
    "inputs": (GOOD + "    inputs = ('vidoe',)", "Plug.inputs has 'vidoe'"),
    "after": (GOOD + "    after = ('frames', 'dreams')", "Plug.after has 'dreams'"),
    "later": (
        GOOD + "    @property\n    def after(self):\n        return ('frames', 'visions')",
        "Plug.after has 'visions'",
    ),
    "itself": (GOOD + "    after = ('itself',)", "Plug.after has 'itself': it waits for 'itself' itself"),
    "hen": (GOOD + "    after = ('frames', 'egg')", "Plug.after has 'egg': it waits for 'hen' itself"),
    "egg": (GOOD + "    after = ('hen',)", "Plug.after has 'hen': it waits for 'frames', 'egg' itself"),
    "chick": (GOOD + "    after = ('egg',)", "Plug.after has 'egg': it waits for 'hen' itself"),
    "required": (
        GOOD + "    class Settings(ExtractorSettings):\n        depth: int",
        "Plug.Settings.depth has no default value",
    ),
    "settings": (GOOD + "    Settings = dict", "Plug.Settings is not a class derived from ExtractorSettings"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where they are all installed, with good ones before, between and after them."""
    folder = tmp_path_factory.mktemp("installed")
    for name, (code, _) in BROKEN.items():
        source = f"{IMPORTS}\n{code.replace('NAME', name)}\n"
        write(folder, f"broken-{name}", {name: f"broken_{name}:Plug"}, **{f"broken_{name}": source})
    for name in ("aaa", "mmm", "zzz"):
        write(
            folder,
            f"{name}-good",
            {name: f"good_{name}:Plug"},
            **{f"good_{name}": IMPORTS + GOOD.replace("NAME", name)},
        )
    twin = IMPORTS + GOOD.replace("NAME", "twin")
    for name in ("elder", "younger"):
        write(folder, f"twin-{name}", {"twin": f"twin_{name}:Plug"}, **{f"twin_{name}": twin})
    return folder


@pytest.fixture(scope="module")
def told(folder: Path) -> dict:
    code = (
        "import json\nfrom tasks.extractors.registry import broken, registered\n"
        "print(json.dumps({'there': list(registered()), 'broken': dict(broken())}))"
    )
    environment = {**installed(folder), "PATH": "/usr/bin:/bin", "STORYFRAMES_ALONE": "1"}  # without make demo's
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", BROKEN)
def test_each_is_one_sentence(told: dict, name: str) -> None:
    (sentence,) = [why for point, why in told["broken"].items() if point.startswith(f"broken-{name} 1.0")]
    assert BROKEN[name][1] in sentence
    assert "\n" not in sentence
    assert len(sentence) < 400


def test_two_of_one_name_are_not_both_believed(told: dict) -> None:
    assert told["there"].count("twin") == 1
    assert missing(told["broken"]["twin-younger 1.0: twin"], "'twin'", "twin-elder 1.0") == []


def test_the_others_work_as_ever(told: dict) -> None:
    built_in = ["frames", "openface", "resnet50", "dope", "opensmile", "glove", "sbert", "speaking"]
    assert told["there"] == [*built_in, "aaa", "mmm", "twin", "zzz"]


@pytest.mark.slow
def test_a_run_that_asks_for_none_of_them_goes_on(folder: Path, study_copy: Path, tmp_path: Path) -> None:
    arguments = ["extract", study_copy, tmp_path / "features", "--features", "aaa", "--session", "p01-s01", *ONE_WORKER]
    done = storyframes(*arguments, environment=installed(folder))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "features/p01-s01/aaa/current.json").is_file()


@pytest.mark.slow
def test_one_that_is_asked_for_is_told_with_the_reason(folder: Path, study_copy: Path, tmp_path: Path) -> None:
    refused = storyframes(
        "extract", study_copy, tmp_path / "features", "--features", "absent", environment=installed(folder)
    )
    assert refused.returncode == 2
    assert missing(refused.stderr, "'absent'", "a_library_that_is_not_there") == []
    assert "Traceback" not in refused.stderr
