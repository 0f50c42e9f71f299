"""docs/three-studies.md, walked as it stands there: every command, every configuration, every model."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from flows.cli.app import app
from flows.settings import load_settings
from storyframes.store.records import Status
from tasks.extract import extract as do_work
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

PAGE = (Path(__file__).parents[3] / "docs" / "three-studies.md").read_text()


@dataclass(frozen=True)
class Walk:
    """One part of the page: its commands, its configuration by name, its model."""

    commands: list[list[str]]
    config: tuple[str, str]
    model: str


def walks() -> dict[str, Walk]:
    found = {}
    for part in PAGE.split("\n## ")[1:]:
        (console,) = re.findall(r"^```console\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
        ((name, toml),) = re.findall(r"^`(\S+\.toml)`:\n\n```toml\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
        (model,) = re.findall(r"^```python\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
        commands = [shlex.split(line.removeprefix("$ storyframes ")) for line in console.splitlines()]
        found[commands[0][1]] = Walk(commands, (name, toml), model)
    return found


WALKS = walks()
# Of recordings half as long as the page's. Of stories: 2 windows in two phases, in 6 sessions of one participant, each
# with three ratings. Else: 5 windows of 2 s in 6, in the 4 sessions of those who are trained on; of the group every
# other session is labelled.
SAID = {"stories": "36 clips", "dyad": "20 clips", "group": "20 clips, 10 of them labelled"}


def call(arguments: list[str]) -> Result:
    if arguments[0] == "extract":  # the flow's own work, without its servers and processes
        study, features, _, config = arguments[1:]
        plan = plan_extraction(load_study(Path(study)), features, load_settings(Path(config)), Selection())
        outcomes = [*plan.settled, *(outcome for work in plan.units for outcome in do_work(work))]
        assert {outcome.status for outcome in outcomes} == {Status.DONE}, outcomes
        arguments = ["index", study, features, "--config", config]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    "study", [name if name == "stories" else pytest.param(name, marks=pytest.mark.nightly) for name in WALKS]
)
def test_the_walk(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    walk = WALKS[study]
    assert [command[0] for command in walk.commands] == ["synthesize", "check", "plan", "extract", "report"]
    monkeypatch.chdir(tmp_path)
    Path(walk.config[0]).write_text(walk.config[1])
    for command in walk.commands:
        call(["6" if word == "12" else word for word in command])
    assert Path(f"{study}-report/index.html").is_file()
    capsys.readouterr()
    exec(compile(walk.model, study, "exec"), {})
    said = capsys.readouterr().out
    assert re.fullmatch(SAID[study] + r", loss \d+\.\d\d\n", said)
