"""``storyframes go``: a folder with a broken, a doubled and an unrated recording becomes features and labels."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.commands import ROOT
from support.media.newcomer import write_elan, write_ratings_sheet
from support.media.recordings import write_recording
from support.messages import missing
from support.processes import wait_for

from storyframes.store.feature_store import FeatureStore
from tasks.study.load import load_study

pytestmark = pytest.mark.slow
RATED = {"Ann Ä.mkv": (10, 20), "b.mkv": (30, 50), "elsewhere.mp4": (1, 2)}
RATE = 16_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recordings, a copy of one and a broken one, and a sheet and an annotation file about them."""
    root = tmp_path / "lab"
    root.mkdir()
    for number, name in enumerate(("Ann Ä.mkv", "b.mkv")):
        tone = 9000 * np.sin(np.arange(2 * RATE) * (0.1 + number))
        write_recording(root / name, 50, tone[:, None], RATE)
    (root / "b (copy).mkv").write_bytes((root / "b.mkv").read_bytes())
    (root / "cut.mp4").write_bytes((root / "b.mkv").read_bytes()[:30])
    write_ratings_sheet(root / "ratings.xlsx", RATED)
    write_elan(root / "b.eaf", "b.mkv")
    return root


def go(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", "go", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def versions(folder: Path) -> dict[str, str]:
    catalogue = FeatureStore(folder / "features").catalogue
    return dict(zip(catalogue["session_id"] + "/" + catalogue["feature"], catalogue["version"], strict=True))


def test_one_command_makes_features_and_labels_and_may_be_repeated(folder: Path) -> None:
    done = go(folder, "--yes")
    assert done.returncode == 1, done.stderr
    study = load_study(folder)
    assert {name: session.video for name, session in study.sessions.items()} == {"Ann-A": "Ann Ä.mkv", "b": "b.mkv"}
    empathy = {(label.session_id, label.rater_id): label.value for label in study.labels if label.scheme == "empathy"}
    assert empathy == {("Ann-A", "Kim"): 10, ("Ann-A", "Lee"): 20, ("b", "Kim"): 30, ("b", "Lee"): 50}
    assert {label.session_id for label in study.labels if label.scheme == "gaze"} == {"b"}
    before = versions(folder)
    assert {"Ann-A/frames", "b/frames", "Ann-A/opensmile", "b/opensmile"} <= before.keys()
    made, aside = done.stdout.split("\nmade\n")[1].split("\nset aside\n")
    assert not missing(made, str(folder / "features"), "opensmile of 2")
    assert not missing(aside, "b (copy).mkv", "the same recording as b.mkv", "cut.mp4", "not a media file")
    assert not missing(aside, "2 labels left out", "'elsewhere.mp4'", "File: read as @file")
    assert done.stderr.splitlines()[-1] == f"Next: storyframes show {folder / 'features'} Ann-A"

    rows = (folder / "labels.csv").read_text()
    again = go(folder, "--yes")
    assert again.returncode == 1, again.stderr
    assert not missing(again.stderr, "0 features are due")
    assert ((folder / "labels.csv").read_text(), versions(folder)) == (rows, before)

    tone = 9000 * np.sin(np.arange(2 * RATE) * 0.3)
    write_recording(folder / "new.mkv", 30, tone[:, None], RATE)
    assert go(folder, "--yes").returncode == 1
    assert versions(folder).items() > before.items()
    assert "new/frames" in versions(folder)


def test_what_is_asked_at_a_terminal_is_asked_once(folder: Path) -> None:
    """Ctrl-C at the second question loses nothing: the second run asks only what was not answered."""
    (folder / "Ann Ä.mkv").unlink()
    asked = at_a_terminal(folder, [b"\n", None])
    assert len(asked) == 2
    assert len((folder / "answers.txt").read_text().splitlines()) == 1
    others = at_a_terminal(folder, [b"\n"] * 10)
    assert [question for question in others if question in asked[:1]] == []
    assert len({*asked, *others}) <= 4
    assert load_study(folder).labels
    assert at_a_terminal(folder, []) == []


def test_a_sheet_named_like_a_table_of_the_study_is_named_before_anything_is_made(folder: Path) -> None:
    sheet = folder / "ratings.csv"
    sheet.write_text("File;Empathie\nb.mkv;3\n", encoding="cp1252")
    done = go(folder, "--yes")
    assert done.returncode == 2
    assert not missing(done.stderr, str(sheet), "'session_id'", f"mv {sheet} {folder / 'my-ratings.csv'}")
    assert not (folder / "sessions.csv").exists()


def at_a_terminal(folder: Path, answers: list[bytes | None]) -> list[str]:
    """The questions; None as an answer is Ctrl-C."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "flows.cli", "go", str(folder)]
    questions, shown, given = [], b"", iter(answers)
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=ROOT) as process:
        os.close(terminal)
        while chunk := _read(controller):
            shown += chunk
            if shown.endswith(b"]: "):
                questions.append(shown.splitlines()[-1].decode().partition(":")[0])
                answer = next(given)
                if answer is None:
                    # A signal between the question and the reading of its answer would be seen after the answer only.
                    wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")
                    process.send_signal(signal.SIGINT)
                else:
                    os.write(controller, answer)
    os.close(controller)
    assert process.returncode == 1, shown.decode()
    return questions


def test_an_interrupted_extraction_goes_on(folder: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "go", str(folder), "--yes"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("done "):
                process.send_signal(signal.SIGINT)
                break
        process.stderr.read()
    assert process.returncode == 130
    done = go(folder, "--yes")
    assert done.returncode == 1, done.stderr
    assert {"Ann-A/frames", "b/frames", "Ann-A/opensmile", "b/opensmile"} <= versions(folder).keys()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other end is closed
        return b""
