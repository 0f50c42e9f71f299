"""The commands of docs/statistics.md run as they are written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/statistics.md").read_text()
COMMANDS = re.findall(r"^\$ storyframes (.+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
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
    assert "warmth and concern for people in need are high" in str(names["prompt"])
    assert str(eval(last, names)) in last
