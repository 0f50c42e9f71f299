"""What the pages tell to type: examples in Python are run, or there is a reason; commands and settings exist."""

from __future__ import annotations

import ast
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    ["README.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]
)
# By page and what the example says: the test that runs it as it stands.
RUN_BY = {
    ("docs/everyday.md", "store.read("): "test_examples_that_need_the_demo",
    ("README.md", "extract_study("): "test_the_pipeline_of_the_readme",
    ("README.md", "storyframes.extract("): "test_the_example_of_the_readme",
    ("docs/report.md", ""): "test_examples_that_need_the_demo",
    ("docs/extending.md", ""): "test_the_page_s_code_keeps_the_contract",
    ("docs/one-file.md", "talk.mp4"): "test_one_file_in_one_line_as_documented",
    ("docs/speaking.md", ""): "test_the_example_of_who_speaks",
    ("docs/training.md", "CHECKPOINT"): "test_what_is_done_is_not_done_again",
    ("docs/training.md", "import lightning"): "test_lightning_as_documented",
    ("docs/training.md", "TrainingArguments"): "test_hugging_face_trainer_as_documented",
    ("docs/training.md", "torch.distributed"): "test_torchrun_as_documented",
    ("docs/training.md", ""): "test_the_other_examples_of_training",
}
NOT_RUN = {
    ("docs/dope.md", "DopeDetector"): "its model has to be got from its authors",
    ("docs/transcripts.md", "speech_spans"): "of a plug-in, whose tests run it",
    ("docs/transcripts.md", "pyannote"): "its models need an account",
    ("README.md", "storyframes extractors install faces"): "of a plug-in, whose tests run it",
    ("docs/export.md", "movement"): "needs movement and Lance, which nothing here installs; run once by hand",
    ("docs/three-studies.md", ""): "of a plug-in, whose tests run it",
    ("docs/tutorials/dyads.md", ""): "of a plug-in, whose tests run it",
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


PYTHON = [(page, code) for page in PAGES for code in blocks(page, "python")]


def kind(page: str, code: str) -> str:
    """The test that runs an example, or why none does; the entry that says most of it."""
    told = {words: what for (of, words), what in {**RUN_BY, **NOT_RUN}.items() if of == page and words in code}
    return told[max(told, key=len)] if told else ""


@pytest.mark.parametrize(("page", "code"), PYTHON, ids=[f"{page}-{n}" for n, (page, _) in enumerate(PYTHON)])
def test_every_example_is_run_or_has_a_reason(page: str, code: str) -> None:
    ast.parse(textwrap.dedent(code))
    assert kind(page, code), f"say in {Path(__file__).name} which test runs it"


def test_what_is_named_is_there() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in RUN_BY.values() if f"def {name}(" not in tests] == []
    used = {what for page, code in PYTHON if (what := kind(page, code))}
    assert {*RUN_BY.values(), *NOT_RUN.values()} - used == set()


def examples(test: str) -> list[str]:
    return [code for page, code in PYTHON if kind(page, code) == test]


@pytest.mark.slow
@pytest.mark.parametrize("code", examples("test_examples_that_need_the_demo"))
def test_examples_that_need_the_demo(code: str, extracted_demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(extracted_demo[0].parent)
    exec(compile(code, "example", "exec"), {})


@pytest.mark.slow
def test_the_example_of_the_readme(extracted_demo, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(extracted_demo[0].parent)
    (code,) = examples("test_the_example_of_the_readme")
    exec(compile(code, "example", "exec"), {})
    assert capsys.readouterr().out.strip() == code.rpartition("# ")[2].strip() == "(2396, 67)"


@pytest.mark.nightly
def test_the_pipeline_of_the_readme(extracted_demo, server: str, tmp_path: Path) -> None:
    """With a flow of its own server, where everything is up to date."""
    shutil.copytree(extracted_demo[0], tmp_path / "storyframes-demo")
    (code,) = examples("test_the_pipeline_of_the_readme")
    environment = os.environ | {"PREFECT_API_URL": server}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"torch\.Size\(\[\d+, 40, 2757\]\) tensor\(\[[1-5], ", done.stdout)
    assert len(code.splitlines()) == 8


@pytest.mark.slow
def test_one_file_in_one_line_as_documented(demo_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(demo_study / "videos/p01-s01.avi", "talk.mp4")
    Path("talk.csv").write_bytes(gzip.decompress((demo_study / "openface/p01-s01.csv.gz").read_bytes()))
    said: dict = {}
    for code in examples("test_one_file_in_one_line_as_documented"):
        exec(compile(code, "example", "exec"), said)
    assert len(said["talks"].to_pandas().loc["talk.mp4"]) == 2396
    assert said["talk"].to_pandas("opensmile").filter(like="_sma").shape == (2396, 65)
    assert len(said["talk"].to_pandas("openface.gaze")) == 360


def test_every_command_and_option_exists() -> None:
    from typer.main import get_command

    from flows.cli.app import app
    from storyframes.installation import COMPANIONS

    unknown, seen, app_command = [], 0, get_command(app)
    for page in PAGES:
        fenced = "\n".join(re.findall(r"```\w*\n(.*?)```", (ROOT / page).read_text().replace("\\\n", " "), re.DOTALL))
        for line in re.findall(r"^(?:[$#] )?storyframes (.+)$", fenced, re.MULTILINE):
            command, words = app_command, shlex.split(line, comments=True)
            if words[0] in COMPANIONS:  # plug-ins', whose tests look at them
                continue
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            # A group that is called by itself does what one of its commands does.
            called = [command, *getattr(command, "commands", {}).values()]
            options = {name for one in called for each in one.params for name in [*each.opts, *each.secondary_opts]}
            asked = {word.partition("=")[0] for word in words if word.startswith("--")}
            seen += 1
            if (command is app_command and asked != {"--help"}) or asked - options - {"--help"}:
                unknown.append(f"{page}: storyframes {line}")
    assert unknown == []
    assert seen > 50


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")])
def test_every_setting_that_is_shown_exists(page: str) -> None:
    from flows.settings import Settings

    plug_ins = {"face", "mediapipe", "pyfeat", "train", "transcribe", "voices"}  # sections of what may be missing here
    for code in blocks(page, "toml"):
        said = tomllib.loads(code.replace('revision = "…"', f'revision = "{"0" * 40}"'))  # for the reader to fill in
        settings = {name: section for name, section in said.items() if name not in plug_ins}
        if "project" not in settings and page != "docs/release.md":  # another file than a configuration
            Settings.model_validate(settings)
