"""The commands as a person runs them; each in a process of its own, where that may make a difference."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from support.commands import ONE_WORKER, storyframes, storyframes_here
from support.messages import missing
from support.servers.terminals import in_terminal
from support.stores import catalogue_rows, publish_openface
from typer.testing import CliRunner

from flows.cli.app import app
from flows.cli.extract import copy_demo
from flows.cli.terminal import listed
from tasks.study.load import load_study

ROOT = Path(__file__).parents[2]


def test_help_and_version() -> None:
    shown = storyframes("--help")
    assert shown.returncode == 0
    for command in "demo check extract index status verify gc models".split():
        assert command in shown.stdout
    assert "synthesize" not in shown.stdout
    assert re.fullmatch(r"storyframes \d+\.\d+\.\d+\n", storyframes("--version").stdout)


def test_at_a_terminal_the_commands_are_in_panels_by_what_they_are_for() -> None:
    code, shown = in_terminal("--help")
    panels = ("Start", "Study", "Extract", "Look", "Keep and share")
    places = [shown.index(f" {panel} ─") for panel in panels]
    assert code == 0
    for panel, command in {
        "Start": "models",
        "Study": "check",
        "Extract": "index",
        "Look": "show",
        "Keep and share": "verify",
    }.items():
        first = shown.index(f" {panel} ─")
        end = min((place for place in places if place > first), default=len(shown))
        assert f"│ {command} " in shown[first:end]


@pytest.mark.slow
def test_check_a_good_and_a_bad_study(study_copy: Path) -> None:
    good = storyframes_here("check", study_copy)
    assert (good.returncode, good.stderr.splitlines()) == (
        *(0, [f"Next: storyframes extract {study_copy} {study_copy}/features"]),
    )
    assert "valid" in good.stdout
    sessions = pd.read_csv(study_copy / "sessions.csv")
    sessions.loc[0, "video"] = "../[red]x[/red].avi"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    bad = storyframes_here("check", study_copy)
    assert bad.returncode == 2
    assert "[red]x[/red].avi" in bad.stderr  # shown as it is, not as markup
    assert "never leaves it" in bad.stderr
    assert bad.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["extract", "demo/study", "{out}", "--session", "p01-s9"], "there is no session 'p01-s9'"),
        (["extract", "demo/study", "{out}", "--features", "resnet"], "there is no feature 'resnet'"),
        (
            ["extract", "demo/study", "{out}", "--features", "frames,,dope"],
            "--features 'frames,,dope': a name is missing",
        ),
        (["extract", "demo/study", "{out}", "--features", " resnet , frames"], "there is no feature 'resnet'"),
        (["extract", "demo/study", "{out}", "--features", "pyfeat"], "comes with storyframes-pyfeat: pip install"),
        (["extract-file", "a.mp4", "--features", ",frames"], "--features ',frames': a name is missing"),
        (["extract", "demo/study", "{out}", "--config", "absent.toml"], "absent.toml: cannot be read"),
        (["extract", "demo/nothing", "{out}"], "is not a folder"),
        (["extract", "demo/study", "demo"], "not a feature store and not empty"),
        (["extract"], "Missing argument"),
        (["status", "demo"], "is not a feature store"),
        (["verify", "demo"], "is not a feature store"),
        (["gc", "demo"], "is not a feature store"),
        (["index", "demo/study"], "give either STORE or --out"),
        (["models", "fetch", "resnet"], "there is no model 'resnet'"),
        (["synthesize", "demo"], "exists and is not empty"),
        (["nothing"], "No such command"),
        (["import", "labels"], "storyframes import comes with storyframes-labels: pip install"),
        (["export", "{out}"], "storyframes export comes with storyframes-release: pip install"),
        (["report", "demo/study", "{out}"], "storyframes report comes with storyframes-report: pip install"),
    ],
)
def test_bad_usage_ends_with_2_and_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, [argument.replace("{out}", str(tmp_path / "out")) for argument in arguments])
    assert result.exit_code == 2, result.stderr
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


_ON_STORES = (
    "extract demo/study {}",
    "index demo/study {}",
    "status {}",
    "verify {}",
    "gc {}",
    "archive {} --out {}2",
    "show {} s1",
)


def test_names_are_taken_once_and_without_blanks() -> None:
    assert listed("--features", ["frames, frames", " dope ,frames", "resnet50"]) == ("frames", "dope", "resnet50")
    assert listed("--features", None) == ()


@pytest.mark.parametrize("command", _ON_STORES)
def test_a_place_that_cannot_be_a_store_is_one_sentence(tmp_path: Path, command: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    for name in ("loop", "loop/below", "x" * 300, "file/below"):
        result = CliRunner().invoke(app, command.format(*[tmp_path / name] * 2).split())
        assert result.exit_code == 2, (name, result.stderr)
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"error {tmp_path}/{name.partition(chr(47))[0][:100]}")


@pytest.mark.parametrize("command", ["extract demo/study {}", "index demo/study {}", "extract demo/study {}/new"])
def test_a_store_on_a_read_only_file_system_is_one_sentence(small_disk: Path, command: str) -> None:
    from storyframes.store.layout import create_store

    create_store(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    result = CliRunner().invoke(app, command.format(small_disk).split())
    assert result.exit_code == 2, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error {small_disk}")
    assert "read-only file system" in line
    assert CliRunner().invoke(app, ["status", str(small_disk)]).exit_code == 0  # looking needs no writing


def test_the_settings_of_the_study_that_index_does_not_use_are_named(study_copy: Path, tmp_path: Path) -> None:
    own = study_copy / "storyframes.toml"
    of_tables = ["index", str(study_copy), "--out", str(tmp_path / "clips.parquet")]

    def indexed(*options: str) -> str:
        return CliRunner().invoke(app, [*of_tables, *options]).stderr

    assert str(own) not in indexed()
    own.write_text("[clips]\nwindow = 60\nstride = 30\n")
    assert f"--config {own}" in indexed()
    assert str(own) not in indexed("--config", str(own))


def test_the_clip_index_from_the_tables_alone(study_copy: Path, tmp_path: Path) -> None:
    for video in (study_copy / "videos").iterdir():
        video.unlink()  # no video is read
    result = storyframes_here("index", study_copy, "--out", tmp_path / "clips.parquet")
    assert result.returncode == 0
    assert missing(result.stdout, "54 clips", "120 frames", "stride 15") == []
    assert len(pd.read_parquet(tmp_path / "clips.parquet")) == 54


def test_synthesize_makes_a_valid_study(tmp_path: Path) -> None:
    made = storyframes_here("synthesize", tmp_path / "s", "--sessions", 2, "--seconds", 2, "--seed", 1)
    assert (made.returncode, storyframes_here("check", tmp_path / "s").returncode) == (0, 0)


def test_the_demo_keeps_a_study_and_a_configuration_that_is_there(tmp_path: Path) -> None:
    first = copy_demo(tmp_path / "demo")
    first.config.write_text("[resnet50]\nallow_untrained = true\n")
    (first.study / "sessions.csv").write_text("session_id,participant_id\ns,p\n")
    again = copy_demo(tmp_path / "demo")
    assert again == first
    assert again.config.read_text() == "[resnet50]\nallow_untrained = true\n"
    assert (again.study / "sessions.csv").read_text() == "session_id,participant_id\ns,p\n"


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 160])
def test_a_terminal_is_filled_up_to_a_hundred_columns(columns: int) -> None:
    code, shown = in_terminal("models", "list", columns=columns)
    assert code == 0
    assert "resnet50-v1" in shown
    assert max(map(len, shown.splitlines())) <= min(columns, 100)


@pytest.mark.slow
def test_only_tables_are_wrapped_where_there_is_no_terminal(study_copy: Path, tmp_path: Path) -> None:
    # Paths and messages longer than any terminal: in tables, sentences, usage errors and help.
    deep = tmp_path.joinpath(*["a folder with a long name"] * 6)
    deep.mkdir(parents=True)
    study = study_copy.rename(deep / "study")
    assert f"valid {study}\n" in storyframes("check", study).stdout
    (deep / "features").mkdir()
    (deep / "features/x").touch()
    refused = storyframes("extract", study, deep / "features")
    assert f"error {deep}/features" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    models = storyframes("models", "list", environment={"COLUMNS": "40"}).stdout
    assert max(map(len, models.splitlines())) == 40
    wrong = storyframes("extract", study, deep / "features", f"--{'nope' * 50}", environment={"COLUMNS": "40"})
    assert f"No such option: --{'nope' * 50}" in wrong.stderr
    explained = storyframes("gc", "--help", environment={"COLUMNS": "40"}).stdout
    assert "so many hours." in explained


# --- the main job ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(extracted_demo) -> tuple[Path, subprocess.CompletedProcess[str]]:
    return extracted_demo


@pytest.mark.slow
def test_the_demo(demo) -> None:
    folder, result = demo
    assert result.returncode == 0, result.stderr
    assert "vision.measured (40, 2757) float32" in result.stdout
    assert "untrained weights" in result.stdout
    assert "demo word vectors" in result.stdout
    assert missing(result.stdout, "20 extracted", "0 failed", "54 clips") == []
    assert "Traceback" not in result.stderr
    code, shown = in_terminal("status", folder / "features")
    assert (code, max(map(len, shown.splitlines())) <= 100) == (0, True)
    for path in (folder / "features").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.slow
def test_a_second_extraction_needs_no_server_and_changes_nothing(demo, tmp_path: Path) -> None:
    folder, _ = demo
    clips = folder / "features/clips.parquet"
    rows, before = catalogue_rows(folder / "features"), (clips.stat().st_mtime_ns, clips.read_bytes())
    environment = os.environ | {"PREFECT_API_URL": "http://127.0.0.1:9/api", "XDG_STATE_HOME": str(tmp_path)}
    arguments = [folder / "study", folder / "features", "--config", folder / "storyframes.toml"]
    code = "import sys; from flows.cli.app import app; app(standalone_mode=False); print(*sys.modules)"
    command = [sys.executable, "-c", code, "extract", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert result.returncode == 0, result.stderr
    assert missing(result.stderr, "0 features", "20 need") == []
    *_, said, imported = result.stdout.splitlines()
    assert missing(said, "0 extracted", "20 up to date", "0 failed", "54 clips") == []
    heavy = {"dask", "distributed", "openvino", "prefect", "prefect_dask", "sqlalchemy", "torch"}
    assert heavy & {module.partition(".")[0] for module in imported.split()} == set()
    assert list(tmp_path.iterdir()) == []  # no server's database, so no run either
    assert (clips.stat().st_mtime_ns, clips.read_bytes()) == before
    assert catalogue_rows(folder / "features") == rows  # the file may note that new records are settled by now


@pytest.mark.slow
def test_an_extraction_reports_to_scripts(demo) -> None:
    folder, _ = demo
    result = storyframes_here(
        "extract", folder / "study", folder / "features", "--config", folder / "storyframes.toml", "--json"
    )
    content = json.loads(result.stdout)
    assert (result.returncode, content["good"], content["clips"], content["submitted"]) == (0, True, 54, 0)
    assert [outcome["status"] for outcome in content["outcomes"]] == ["done"] * 20


@pytest.mark.slow
def test_one_feature_of_one_session_by_force(demo) -> None:
    folder, _ = demo
    forced = ("--session", "p01-s02", "--features", "opensmile", "--force", "--config", folder / "storyframes.toml")
    result = storyframes_here("extract", folder / "study", folder / "features", *forced)
    assert result.returncode == 0
    assert "1 feature is due" in result.stderr
    assert "done p01-s02/opensmile: 2396 rows" in result.stderr


def documented(page: str) -> list[str]:
    """The Python examples of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run_example(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


@pytest.mark.slow
def test_the_other_examples_of_training(demo) -> None:
    loop, *examples = documented("docs/training.md")  # the loop is run in test_documented_loop.py
    examples = [code for code in examples if "Empathy(" not in code and "dist." not in code]  # and so are these
    assert 40 <= len(loop.splitlines()) <= 75
    assert len(examples) == 5
    # One process, which imports torch once; each has its own names, and a traceback says which one it was.
    each = (
        f"exec(compile({code!r}, 'example {n}', 'exec'), {{'__name__': '__main__'}})" for n, code in enumerate(examples)
    )
    result = run_example("\n".join(each) + "\nprint('all five')", demo[0].parent)
    assert (result.returncode, result.stdout.endswith("all five\n")) == (0, True), result.stderr
    assert "torch.Size([16, 40, 2757])" in result.stdout


@pytest.mark.slow
def test_status_for_people_and_for_scripts(demo) -> None:
    folder, _ = demo
    shown = storyframes_here("status", folder / "features")
    assert shown.returncode == 0
    assert "20 done" in shown.stdout
    assert missing(shown.stdout, "resnet50: untrained weights", "p01-s01, p01-s02, p02-s01") == []
    as_json = storyframes_here("status", folder / "features", "--json")
    assert as_json.stderr == ""
    entries = json.loads(as_json.stdout)["features"]
    assert len(entries) == 20
    assert {entry["status"] for entry in entries} == {"done"}


@pytest.mark.slow
def test_verify_before_and_after_a_flipped_byte(demo) -> None:
    folder, _ = demo
    sound = storyframes_here("verify", folder / "features")
    assert (sound.returncode, "20 features" in sound.stdout) == (0, True)
    (shard,) = (folder / "features/p02-s01/resnet50").glob("*/values/c/0/0")
    content = bytearray(shard.read_bytes())
    content[100_000] ^= 1
    shard.write_bytes(content)
    damaged = storyframes_here("verify", folder / "features")
    assert damaged.returncode == 1
    assert "p02-s01" in damaged.stdout
    assert "checksum" in damaged.stdout
    content[100_000] ^= 1
    shard.write_bytes(content)


@pytest.mark.slow
def test_a_failing_session_ends_with_1_and_says_why(study_copy: Path, tmp_path: Path) -> None:
    (study_copy / "openface/p01-s01.csv.gz").write_bytes(b"nonsense")
    only = ("--features", "openface", *ONE_WORKER)
    result = storyframes_here("extract", study_copy, tmp_path / "features", *only)
    assert result.returncode == 1
    assert missing(result.stdout, "p01-s01.csv.gz", "5 extracted", "1 failed") == []
    assert storyframes_here("verify", tmp_path / "features").returncode == 0


def test_status_is_shown_again_until_it_is_interrupted(store_root: Path) -> None:
    publish_openface(store_root, "s1", 30)
    command = [sys.executable, "-m", "flows.cli", "status", str(store_root), "--watch", "--every", "0.2"]
    # A terminal, as a watch is drawn in one.
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(command, cwd=ROOT, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    read_until(ours, b"1 done")
    publish_openface(store_root, "s2", 30)
    read_until(ours, b"2 done")
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate()
    os.close(ours)
    assert (watching.returncode, errors.decode()) == (0, f"Next: storyframes verify {store_root}\n")


def read_until(terminal: int, wanted: bytes) -> None:
    shown = b""
    while wanted not in shown:
        shown += os.read(terminal, 4096)
    return shown


@pytest.mark.slow
@pytest.mark.nightly  # which runs are dead, and their words, are tested in flows/test_server.py
def test_a_run_that_was_killed_is_among_the_last_ones(study_copy: Path, tmp_path: Path) -> None:
    arguments = ("extract", str(study_copy), str(tmp_path / "features"), "--server", *ONE_WORKER)
    killed = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *arguments, "--features", "frames"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in killed.stderr:
        if "are due" in line:
            break
    killed.kill()
    killed.communicate()
    result = storyframes("runs", "--limit", "2", "--json")
    assert result.returncode == 0, result.stderr
    run = json.loads(result.stdout)[0]
    assert (run["flow"], run["state"], run["message"]) == ("extract-study", "Crashed", "the command was killed")


def test_the_table_of_runs_fits_and_shows_markup_as_text() -> None:
    from datetime import UTC, datetime

    from rich.console import Console

    from flows.cli.runs import runs_table
    from flows.cli.terminal import WIDTH
    from flows.server.recent_runs import RecentRun

    console = Console(width=WIDTH, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    started = datetime(2026, 11, 22, 1, 30, tzinfo=UTC)
    console.print(
        runs_table([RecentRun("bold-fox", "extract-study", "Failed", "[red]no" + " study" * 80, started, 3725)])
    )
    shown = console.export_text()
    assert "2026-11-22 01:30" in shown
    assert "1 h 2 min" in shown
    assert "[red]no" in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.slow
def test_verify_advises_what_repairs(study_copy: Path, tmp_path: Path) -> None:
    """A file that is gone is made again by the next extraction, one that rots unseen only by force."""
    from flows.cli.upkeep import repair_advice
    from storyframes.store import maintenance
    from storyframes.store.layout import create_store
    from tasks.extract import extract
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.planning.plan import plan_extraction
    from tasks.planning.selection import Selection

    root, study = tmp_path / "features", load_study(study_copy)
    storage = create_store(root)
    settings = ExtractorsSettings(features=("frames",))

    def due() -> list[str]:
        return [unit.name for unit in plan_extraction(study, str(root), settings, Selection()).units]

    for unit in plan_extraction(study, str(root), settings, Selection()).units:
        extract(unit)
    gone, rotten = (next(root.glob(f"{name}/frames/*/time/c/0")) for name in ("p01-s01", "p01-s02"))
    gone.unlink()
    status = rotten.stat()
    rotten.write_bytes(bytes([rotten.read_bytes()[0] ^ 1]) + rotten.read_bytes()[1:])
    os.utime(rotten, ns=(status.st_atime_ns, status.st_mtime_ns))
    next_time, forced = repair_advice(storage, list(maintenance.verify(storage)))
    assert missing(next_time, "'storyframes extract'") == []
    assert missing(forced, "p01-s02/frames", "--session p01-s02 --features frames --force") == []
    assert due() == ["p01-s01/frames"]  # the advice is true
