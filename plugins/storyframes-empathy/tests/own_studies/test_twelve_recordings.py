"""docs/tutorials/your-own-study.md, each command as it is there: a newcomer's twelve recordings to a scored model."""

from __future__ import annotations

import contextlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from empathy_support.own_studies import extract, storyframes
from support.media.newcomer import SESSIONS, make_recordings, write_elan, write_ratings_sheet

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.store.feature_store import FeatureStore
from storyframes.store.records import Status
from storyframes_empathy.scores.predictions import read_predictions
from storyframes_empathy.scores.run_record import read_run

pytestmark = [pytest.mark.slow, pytest.mark.needs("ffmpeg", "espeak-ng")]
PAGE = Path(__file__).parents[4] / "docs/tutorials/your-own-study.md"
SECONDS = 5
RATED = {  # by the first file of each session, what Kim and Lee gave
    "p01_phone.mp4": (10, 20),
    "p02_phone.mov": (20, 40),
    "p03_zoom.mp4": (30, 30),
    "p04_browser.webm": (35, 45),
    "p05_cam1.mp4": (50, 54),
    "p06_webcam.avi": (60, 64),
    "p07_screen.mkv": (70, 74),
    "p08_fast.mp4": (80, 90),
    "p09_slow.mp4": (100, 90),
    "p10_voice.wav": (0, 10),
    "p11_voice.m4a": (15, 25),
    "p12_silent.mp4": (44, 46),
}


@dataclass(frozen=True)
class Walked:
    """What the commands left and printed, by the words of each, and how extractions ended."""

    folder: Path
    printed: dict[str, str]
    extracted: dict[str, Status]


def commands() -> list[list[str]]:
    lines = "".join(re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)).splitlines()
    return [shlex.split(line.removeprefix("$ storyframes ")) for line in lines]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    folder = tmp_path_factory.mktemp("twelve")
    (folder / "study").mkdir()
    media = make_recordings(folder / "study/media", SECONDS)
    write_ratings_sheet(folder / "ratings.xlsx", RATED)
    write_elan(folder / "gaze.eaf", "p06_webcam.avi")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in media.iterdir()}
    printed, extracted = {}, {}
    with contextlib.chdir(folder):
        for words in commands():
            if words[0] == "extract":
                extracted = extract(Path(words[1]), Path(words[2]), Path(words[4]))
            else:
                printed[" ".join(words[:3])] = storyframes(*words).output
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in media.iterdir()} == before
    return Walked(folder, printed, extracted)


def test_the_page_goes_from_a_folder_to_scores(walked: Walked) -> None:
    first = [words[0] for words in commands()]
    assert first == ["init", "import", "import", "check", "extract", "report", "baseline", "empathy", "empathy"]
    assert (walked.folder / "report/index.html").is_file()
    for seed in "012":
        (run,) = walked.folder.glob(f"runs/session/lf_lstm/*/{seed}")
        assert run.parent.name in ("a", "a+t")  # one session alone has text
        record = read_run(run)
        assert (record.scheme, record.minimum, record.maximum) == ("empathy", 0, 100)
        table = read_predictions(run, record).table
        assert set(table["split"]) == {"val", "test"}
        assert np.isfinite(table["score"]).all()
    assert "12 sessions of 12 people" in walked.printed["baseline features --label"]
    assert "mean of train" in walked.printed["empathy evaluate runs"]


def test_every_feature_is_there_or_has_no_input(walked: Walked) -> None:
    lacking = {name for name, status in walked.extracted.items() if status is not Status.DONE}
    assert {walked.extracted[name] for name in lacking} == {Status.MISSING}
    assert "p12/opensmile" in lacking
    assert not {f"{session}/opensmile" for session in SESSIONS if session != "p12"} & lacking
    assert "p03/sbert" not in lacking


def test_windows_are_as_long_at_every_rate_and_have_the_mean_of_both_raters(walked: Walked) -> None:
    clips = FeatureStore(walked.folder / "features").clips()
    assert set(clips["session_id"]) == set(SESSIONS)
    assert np.allclose(clips["stop_s"] - clips["start_s"], clips.attrs["window_s"], atol=0.11)
    means = {name.partition("_")[0]: np.mean(given) for name, given in RATED.items()}
    assert clips.groupby("session_id")["empathy"].first().to_dict() == pytest.approx(means)
    away = clips[clips["session_id"] == "p06"].set_index("start_s")["gaze"]
    assert away.loc[2.0] == "away"
    assert pd.isna(clips[clips["session_id"] == "p01"]["gaze"]).all()


def test_one_dataset_has_sessions_with_and_without_sound_and_words(walked: Walked) -> None:
    inputs = [ClipInput("audio", missing="mask"), ClipInput("sentence", missing="mask")]
    dataset = ClipDataset(walked.folder / "features", inputs)
    of_session = dataset.clips["session_id"]
    assert dataset.missing["audio"] == pytest.approx((of_session == "p12").mean())
    assert dataset.missing["sentence"] == pytest.approx((of_session != "p03").mean())
    batch = dataset.read(range(len(dataset)))
    assert batch["audio_mask"].any(axis=1).tolist() == (of_session != "p12").tolist()
