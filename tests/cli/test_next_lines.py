"""How commands end, and how their tables look: with the next command, and no wider than a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from support.commands import storyframes_here
from support.media.recordings import write_recording, write_wave
from support.messages import missing
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.store.layout import create_store

ROOT: Any = typer.main.get_command(app)


def commands(group: Any, *before: str) -> Iterator[tuple[str, Any]]:
    """The visible commands without groups, with their whole names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        elif not command.hidden:
            yield " ".join([*before, name]), command


COMMANDS = dict(commands(ROOT))


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])  # it ends with several
def test_every_command_names_one_that_may_be_typed_next(name: str) -> None:
    following = shlex.split(COMMANDS[name].epilog.removeprefix("Next: "))
    if following[0] == "bash":
        return
    given = [parameter.metavar or parameter.name.upper() for parameter in COMMANDS[name].params]
    named = [word.partition("/")[0] for word in following if word.partition("/")[0].isupper()]
    assert [word for word in named if word not in given] == []
    group = ROOT
    if following[1] == "report":  # of a plug-in
        return
    while hasattr(group, "commands"):
        group, following = group.commands[following[1]], following[1:]
    assert group.make_context("next", following[1:]).params


def test_the_next_line_has_what_was_given_and_is_not_for_scripts(tmp_path: Path) -> None:
    study = tmp_path / "my study"
    study.mkdir()
    (study / "sessions.csv").write_text("session_id,participant_id,transcript\ns1,p1,t.vtt\n")
    said = storyframes_here("check", study, "--tables-only")
    assert said.stderr.splitlines()[-1] == f"Next: storyframes extract '{study}' '{study}/features'"
    assert "Next:" not in storyframes_here("check", study, "--tables-only", "--json").stderr
    create_store(str(tmp_path / "elsewhere"))
    said = storyframes_here("check", study, "--tables-only", "--store", tmp_path / "elsewhere")
    assert said.stderr.splitlines()[-1] == f"Next: storyframes extract '{study}' {tmp_path / 'elsewhere'}"
    (study / "sessions.csv").write_text("session_id\ns1\n")
    assert "Next:" not in storyframes_here("check", study).stderr


def test_tables_have_80_columns_where_there_is_no_terminal() -> None:
    tables = CliRunner().invoke(app, ["extractors", "list"], env={"COLUMNS": None}).stdout.splitlines()
    assert max(map(len, tables)) <= 80
    line = next(line for line in tables if line.startswith("│ openface "))
    assert "yes" not in line
    assert not missing(" ".join(tables), "--openface-csv")


def test_features_of_a_file_are_listed_with_a_command_that_makes_them(tmp_path: Path) -> None:
    film = write_recording(tmp_path / "film.mkv", 2)
    shown = storyframes_here("extract-file", film)
    assert (shown.returncode, "opensmile" in shown.stdout, "│ sbert" in shown.stdout) == (0, False, False)
    assert shown.stderr.splitlines()[-1] == f"Next: storyframes extract-file {film} --features frames"
    voice, words = write_wave(tmp_path / "voice.wav", np.zeros(800, int), 16_000), tmp_path / "words.vtt"
    shown = storyframes_here("extract-file", voice, "--transcript", words)
    assert "│ frames" not in shown.stdout
    following = f"Next: storyframes extract-file {voice} --transcript={words} --features opensmile,sbert"
    assert shown.stderr.splitlines()[-1] == following
    (config := tmp_path / "my.toml").write_text("")
    shown = storyframes_here("extract-file", voice, "--config", config)
    assert shown.stderr.splitlines()[-1] == (
        f"Next: storyframes extract-file {voice} --config={config} --features opensmile"
    )
    (tmp_path / "none.mp4").write_bytes(b"no")
    assert (refused := storyframes_here("extract-file", tmp_path / "none.mp4")).returncode == 1
    assert not missing(refused.stderr, "none.mp4", "not a media file")
