"""The pages: the tutorial's commands find what it plants, every column is defined, every option exists."""

from __future__ import annotations

import re
import shlex
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from flows.cli.app import app as storyframes
from storyframes import FeatureStore
from storyframes_dyads.commands import app
from storyframes_dyads.motion import Motion
from storyframes_dyads.turn_feature import COLUMNS

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [DOCS / "dyads.md", DOCS / "tutorials/dyads.md", Path(__file__).parents[1] / "README.md"]


def fenced(page: Path, language: str = "") -> str:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return "".join(text for of, text in blocks if of == language)


def commands(page: Path) -> list[list[str]]:
    return [shlex.split(line) for line in re.findall(r"^storyframes (.+)$", fenced(page), re.MULTILINE)]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which everything was done that the tutorial says, with sessions half as long."""
    folder = tmp_path_factory.mktemp("tutorial")
    script = fenced(PAGES[1], "python")
    assert "SECONDS, SIZE, LAG, RATE = 10, 120," in script
    with chdir(folder):
        exec(compile(script.replace("= 10, 120,", "= 10, 60,"), "plant.py", "exec"), {})
        for words in commands(PAGES[1]):
            out = ["--out", "comparison"] if words[1] == "compare" else []
            done = CliRunner().invoke(storyframes, [*words, *out])
            assert done.exit_code == 0, (words, done.output)
    return folder


@pytest.mark.slow
def test_the_tutorial_finds_what_it_plants(worked: Path) -> None:
    sessions = pd.read_csv(worked / "synchrony/sessions.csv").set_index("session_id").sort_index()
    assert sessions["lag_s"][:4].tolist() == pytest.approx([0.6] * 4)
    assert (sessions["synchrony"][:4] > 2).all()
    assert (sessions["synchrony"][4:] < 1).all()
    latency = pd.read_csv(worked / "turns/persons.csv")["latency_s_median"]
    assert latency.tolist() == pytest.approx([0.3] * 16, abs=0.01)
    (compared,) = pd.read_csv(worked / "comparison/comparison.csv").to_dict("records")
    assert (compared["group_2"], compared["clusters_1"]) == ("together", 4)
    assert compared["p"] == pytest.approx(2 / 70)
    turns = FeatureStore(worked / "store").read("s0", "turns")
    assert len(turns) == 600
    assert np.nanmean(turns[:, 0]) == pytest.approx(9 * 3.2 / 60, abs=0.01)


@pytest.mark.slow
def test_every_column_is_defined(worked: Path) -> None:
    defined = set(re.findall(r"`([a-z_0-9]+)`", (DOCS / "dyads-definitions.md").read_text()))
    tables = [*worked.glob("synchrony/*.csv"), *worked.glob("turns/*.csv"), *worked.glob("comparison/*.csv")]
    assert len(tables) == 7
    columns = {column for table in tables for column in pd.read_csv(table, nrows=0).columns}
    assert {*columns, *COLUMNS, *Motion.spec.columns} - defined == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + page.stem)
def test_every_command_and_option_exists(page: Path) -> None:
    known = get_command(app).commands
    own = [words for words in commands(page) if words[0] == "dyads" and words[1] != "--help"]
    assert own
    for _, name, *words in own:
        options = {option for one in known[name].params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= options, name
