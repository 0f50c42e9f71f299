"""The commands of docs/statistics.md run as they are written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import missing
from typer.testing import CliRunner

from storyframes_empathy.commands.app import app
from tasks.extractors.sbert import SbertSettings

PLUG_IN = Path(__file__).parents[2]
PAGE = (PLUG_IN / "docs/statistics.md").read_text()
COMMANDS = re.findall(r"^\$ storyframes empathy (.+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLUG_IN)
    done = CliRunner().invoke(app, [*command.split(), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)
    assert CliRunner().invoke(app, command.split()).exit_code == 0


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 4


def test_the_example_of_a_persona_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    *lines, last = code.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    assert not missing(str(names["prompt"]), "warmth and concern for people")
    assert str(eval(last, names)) in last


def test_pairs_of_stories_are_scored_as_the_documentation_says(tmp_path: Path, monkeypatch) -> None:
    page = (PLUG_IN / "docs/statistics.md").read_text()
    (command,) = re.findall(r"^storyframes empathy (pairs score .+scores\.csv.*)$", page, re.MULTILINE)
    monkeypatch.chdir(PLUG_IN)
    out = tmp_path / "scores.csv"
    done = CliRunner().invoke(app, [*command.replace("scores.csv", str(out)).split(), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["texts"] == 6
    scores = pd.read_csv(out)["sbert"]
    texts = pd.read_csv(PLUG_IN / "docs/examples/story_pairs.csv")
    model = SbertSettings().open_model()
    a, b = (model.embed_together(list(texts[column])) for column in ("story_a", "story_b"))
    np.testing.assert_allclose(scores, (a * b).sum(axis=1), atol=1e-5)
    assert scores[0] > scores[1] + 0.2
    assert "exam" not in out.read_text()
