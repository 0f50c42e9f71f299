"""The pages: every command and option of exports and releases exists, and the configuration that is shown is one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from storyframes_release import export_command, release_command
from storyframes_release.release.settings import read_settings

PLUG_IN = Path(__file__).parents[1]
DOCS = PLUG_IN.parents[1] / "docs"
PAGES = [*DOCS.rglob("*.md"), PLUG_IN / "README.md"]
LINE = re.compile(r"^(?:[$#] )?storyframes ((?:export|release) .+)$", re.MULTILINE)
CALLS = [(page.name, line) for page in PAGES for line in LINE.findall(page.read_text().replace("\\\n", " "))]


def test_the_pages_have_calls() -> None:
    assert {page for page, _ in CALLS} >= {"export.md", "release.md", "README.md"}
    assert len(CALLS) >= 12


@pytest.mark.parametrize(("page", "line"), CALLS, ids=[f"{page}-{n}" for n, (page, _) in enumerate(CALLS)])
def test_every_option_exists(page: str, line: str) -> None:
    name, *words = shlex.split(line, comments=True)
    command = get_command({"export": export_command.app, "release": release_command.app}[name])
    if name == "release":
        command = command.commands[words[0] if words[0] in command.commands else "make"]
    options = {option for parameter in command.params for option in parameter.opts}
    asked = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert asked <= options, f"{page}: {line}"


def test_the_configuration_of_the_page_is_read(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```toml\n(.*?)^```$", (DOCS / "release.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "release.toml").write_text(code)
    assert read_settings(tmp_path / "release.toml").leave_out == ("p07-s01",)
