"""The entry points for plug-ins beside extractors: commands, and sections of the configuration."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.messages import missing, naming
from support.tools.plug_ins import PLUG_INS, installed, write
from typer.testing import CliRunner

from flows.cli.app import app
from flows.settings import Settings, SettingsError, load_settings
from storyframes.installation import COMPANIONS, FEATURE_COMPANIONS, SECTION_COMPANIONS
from storyframes.plug_ins import PlugInError, load_pipeline

COMMANDS, SETTINGS = "storyframes.commands", "storyframes.settings"

GREET = """
import typer
app = typer.Typer()
@app.callback()
def group(): pass
@app.command()
def greet(name: str): print(f"good morning, {name}")
"""

SECTION = """
from pathlib import Path
from tasks.strict_settings import StrictSettings
class Section(StrictSettings):
    share: float = 0.5
    table: Path | None = None
class Loose(__import__("pydantic").BaseModel):
    share: float = 0.5
class Needy(StrictSettings):
    share: float
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which distributions are installed for this process."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


def test_a_command_of_a_plug_in_is_in_the_panel_that_it_names(place: Path) -> None:
    write(place, "door-greeter", {"greetings": "door_greeter:app"}, COMMANDS, door_greeter=GREET)
    gazing = GREET.replace("typer.Typer()", "typer.Typer(help='Look at stars.', rich_help_panel='Look')")
    write(place, "door-gazer", {"stars": "door_gazer:app", "moons": "door_gazer:app"}, COMMANDS, door_gazer=gazing)
    broken = "import a_library_that_nobody_has"
    write(place, "door-broken", {"broken": "door_broken:app"}, COMMANDS, door_broken=broken)
    code, text = run("--help")
    panels = dict(re.findall(r"^(\w[\w ]*):\n((?:  .*\n)+)", text, re.MULTILINE))
    assert code == 0
    assert re.findall(r"^  (stars|moons) +Look at stars\.$", panels["Look"], re.MULTILINE) == ["moons", "stars"]
    assert re.findall(r"^  (\w+)", panels["More"], re.MULTILINE) == ["broken", "greetings"]
    assert "door-broken 1.0" in panels["More"]
    assert run("greetings", "greet", "Ada") == (0, "good morning, Ada\n")
    code, text = run("broken", "--help")
    reason = "storyframes broken comes from door-broken 1.0, which cannot be loaded (ModuleNotFoundError"
    assert (code, reason in text, "'pip install door-broken'" in text) == (2, True, True)
    assert run("--version")[0] == 0


def test_a_command_whose_library_is_missing_names_the_line_that_installs_it(place: Path) -> None:
    needy = GREET.replace('print(f"good', 'import a_library_that_nobody_has; print(f"good')
    write(place, "door-needy", {"needy": "door_needy:app"}, COMMANDS, door_needy=needy)
    command = [sys.executable, "-m", "flows.cli", "needy", "greet", "Ada"]
    environment = os.environ | installed(place)
    ended = subprocess.run(command, cwd=PLUG_INS.parent, env=environment, capture_output=True, text=True)
    line = "error this command needs a_library_that_nobody_has: pip install door-needy\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", line)


def test_a_plug_in_takes_no_command_s_place_and_two_do_not_share_a_name(place: Path) -> None:
    write(place, "door-thief", {"status": "door_thief:app"}, COMMANDS, door_thief="raise SystemExit(7)")
    assert missing(run("status", "--help")[1], "feature", "store") == []
    for name in ("door-first", "door-second"):
        write(place, name, {"twice": f"{name.replace('-', '_')}:app"}, COMMANDS)
    code, text = run("twice")
    assert (code, "door-first 1.0 and door-second 1.0 both name 'twice'" in text) == (2, True)


def test_what_is_no_group_is_refused(place: Path) -> None:
    write(place, "door-wrong", {"wrong": "door_wrong:app"}, COMMANDS, door_wrong="app = print")
    code, text = run("wrong")
    assert (code, "is not a typer.Typer" in text) == (2, True)
    odd = "import typer\napp = typer.Typer()\n@app.command()\ndef odd(x: 'Nothing'): pass\n"
    write(place, "door-odd", {"odd": "door_odd:app"}, COMMANDS, door_odd=odd)
    code, text = run("odd")
    assert (code, "has commands that typer cannot read (NameError: name" in text) == (2, True)


def config(folder: Path, text: str) -> Path:
    path = folder / "c.toml"
    path.write_text(text)
    return path


def test_a_section_of_a_plug_in_is_validated_and_has_defaults(place: Path, tmp_path: Path) -> None:
    write(place, "door-settings", {"shares": "door_settings:Section"}, SETTINGS, door_settings=SECTION)
    settings = load_settings(config(tmp_path, '[shares]\nshare = 0.25\ntable = "t.csv"\n'))
    section = settings.sections["shares"]
    assert (section.share, section.table) == (0.25, tmp_path / "t.csv")
    assert pickle.loads(pickle.dumps(settings)).sections["shares"] == section
    assert Settings().sections["shares"].share == 0.5
    assert load_settings(None, {"shares": {"share": 1}}).sections["shares"].share == 1
    with pytest.raises(KeyError):
        settings.sections["shards"]
    with pytest.raises(SettingsError) as error:
        load_settings(
            config(tmp_path, "[shares]\nshar = 1\nshare = 'x'\n[shards]\n[glove]\nvector = 'x'\n[sections]\n")
        )
    text = str(error.value)
    for fault in (
        "shares.shar: there is no such key: is 'share' meant?",
        "shares.share = 'x': Input",
        "shards: there is",
    ):
        assert fault in text
    for fault in ("sections: there is no such key", "glove.vector: there is no such key: is 'vectors' meant?"):
        assert fault in text


def test_a_section_that_cannot_be_used_is_an_error_where_it_is_written(place: Path, tmp_path: Path) -> None:
    points = {
        "loose": "door_faulty:Loose",
        "needy": "door_faulty:Needy",
        "none": "door_faulty:Path",
        "gone": "door_no:X",
    }
    write(place, "door-faulty", points, SETTINGS, door_faulty=SECTION)
    assert load_settings(config(tmp_path, "[clips]\nwindow = 60\n")).clips.window == 60
    expected = {
        "loose": "Loose accepts unknown keys",
        "needy": "Needy.share has no default value",
        "none": "is not a pydantic model",
        "gone": "cannot be loaded (ModuleNotFoundError",
    }
    for name, why in expected.items():
        with pytest.raises(SettingsError) as error:
            load_settings(config(tmp_path, f"[{name}]\n"))
        assert f"door-faulty 1.0: the section [{name}]: " in str(error.value)
        assert why in str(error.value)
        with pytest.raises(PlugInError):
            Settings().sections[name]


def test_the_pipeline_is_reached_through_entry_points_of_storyframes_itself(place: Path) -> None:
    write(place, "door-pipeline", {"trial": "os"}, "storyframes.pipeline")
    assert load_pipeline("trial").__name__ == "tasks.trial"
    assert load_pipeline("extract").__name__ == "extract_one"
    with pytest.raises(ImportError, match=naming("storyframes", "installed")):
        load_pipeline("other")


def test_the_example_uses_every_door() -> None:
    project = (PLUG_INS / "storyframes-example/pyproject.toml").read_text()
    for group in ("storyframes.extractors", COMMANDS, SETTINGS, "storyframes.report_pages"):
        assert f'[project.entry-points."{group}"]' in project


@pytest.mark.parametrize(
    ("group", "companions"),
    [(COMMANDS, COMPANIONS), ("storyframes.extractors", FEATURE_COMPANIONS), (SETTINGS, SECTION_COMPANIONS)],
)
def test_what_our_distributions_bring_is_named_where_they_are_missing(group: str, companions: dict[str, str]) -> None:
    brought = {}
    for path in set(PLUG_INS.glob("*/pyproject.toml")) - {PLUG_INS / "storyframes-example/pyproject.toml"}:
        project = tomllib.loads(path.read_text())["project"]
        brought |= dict.fromkeys(project.get("entry-points", {}).get(group, {}), project["name"])
    assert brought == companions
