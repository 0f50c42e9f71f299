"""Nine kinds of study, each from a folder of files without a table to an epoch of training, scores and a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from empathy_support.own_studies import Trained, from_folder_to_model, train
from support.media.newcomer import SENTENCES, Made, record, speak, write_captions
from support.messages import missing
from support.models.tiny_image_models import transformers_model
from support.models.tiny_text_models import make_model

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.store.records import Status
from storyframes_empathy.scores.predictions import read_predictions
from storyframes_empathy.scores.run_record import Run, read_run

pytestmark = pytest.mark.slow
spoken = pytest.mark.needs("ffmpeg", "espeak-ng")
SECONDS = 3
H264 = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("voices")
    return [speak(folder / f"{number}.wav", text, SECONDS) for number, text in enumerate(SENTENCES)]


@pytest.fixture(scope="module")
def image_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transformers_model(tmp_path_factory.mktemp("image") / "vit", "vit")


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("text") / "bert", "bert")


def make_media(folder: Path, recordings: Sequence[Made], voices: Sequence[Path]) -> Path:
    """The bare folder of a study."""
    media = folder / "study" / "media"
    media.mkdir(parents=True)
    for number, made in enumerate(recordings):
        record(media, made, voices[number % len(voices)], SECONDS)
    return media


def rate_sessions(folder: Path, sessions: Sequence[str], scheme: str = "rapport") -> list[object]:
    """A sheet of whole sessions' ratings, 10, 20, 30, …, and how it is imported."""
    sheet = folder / "ratings.csv"
    rows = [f"{session},{10 * (number + 1)}" for number, session in enumerate(sessions)]
    sheet.write_text("\n".join([f"session_id,{scheme}", *rows]) + "\n")
    return [sheet, "--no-times", "--map", f"{scheme}={scheme}:interval"]


def check_run(trained: Trained, modalities: str) -> Run:
    """The run's scores are finite numbers of clips that were not trained with; its record."""
    assert (trained.run["status"], trained.run["modalities"]) == ("done", modalities), trained.said
    folder = Path(str(trained.run["folder"]))
    run = read_run(folder)
    table = read_predictions(folder, run).table
    assert len(table)
    assert np.isfinite(table["score"]).all()
    assert set(table["split"]) <= {"val", "test"}
    return run


@spoken
def test_dyads_of_two_cameras(tmp_path: Path, voices: list[Path], image_model: Path) -> None:
    sessions = [f"d{number}" for number in range(4)]
    recordings = [
        made
        for session in sessions
        for made in (Made(f"{session}_cam1.mp4", H264, rate=10), Made(f"{session}_cam2.mp4", H264, "", rate=12))
        if made.name != "d3_cam2.mp4"  # the camera was not switched on
    ]
    make_media(tmp_path, recordings, voices)
    trained = from_folder_to_model(
        tmp_path, [rate_sessions(tmp_path, sessions)], ["frames", "opensmile"], image=image_model
    )
    check_run(trained, "v+a")
    both = [ClipInput("tiny_image", rate=5), ClipInput("tiny_image", rate=5, track="cam2", missing="mask")]
    dataset = ClipDataset(tmp_path / "features", both)
    assert dataset.missing == {"tiny_image@cam2": 0.25}
    clip = dataset[0]
    assert clip["tiny_image"].shape == clip["tiny_image@cam2"].shape
    assert not np.array_equal(clip["tiny_image"], clip["tiny_image@cam2"])
    config = tmp_path / "both.toml"
    config.write_text('[train]\nrate = 5\nv = [{ input = "tiny_image" }, { input = "tiny_image@cam2" }]\n')
    run, said = train(tmp_path, "--config", str(config), "--modalities", "v", "--out", str(tmp_path / "both"))
    assert not missing(said, "tiny_image", "cam2", "25%", "4 sessions")
    check_run(Trained(tmp_path, run, said, {}), "v")


@spoken
def test_silent_recordings(tmp_path: Path, voices: list[Path], image_model: Path) -> None:
    sessions = [f"q{number}" for number in range(4)]
    make_media(tmp_path, [Made(f"{session}.mp4", H264, "", rate=10) for session in sessions], voices)
    trained = from_folder_to_model(tmp_path, [rate_sessions(tmp_path, sessions)], ["frames"], image=image_model)
    check_run(trained, "v")


@spoken
def test_recordings_of_48_and_5_frames_a_second(tmp_path: Path, voices: list[Path], image_model: Path) -> None:
    sessions = [f"m{number}" for number in range(4)]
    rates = (48, 5, 48, 5)
    recordings = [Made(f"{session}.mp4", H264, rate=rate) for session, rate in zip(sessions, rates, strict=True)]
    make_media(tmp_path, recordings, voices)
    trained = from_folder_to_model(
        tmp_path, [rate_sessions(tmp_path, sessions)], ["frames", "opensmile"], image=image_model
    )
    check_run(trained, "v+a")
    assert "rows a second (--rate)" in trained.said


@spoken
def test_therapy_of_clients_who_come_again(tmp_path: Path, voices: list[Path], text_model: Path) -> None:
    names = [f"{client}_{number}" for client in ("anna", "ben", "cleo") for number in ("first", "second")]
    media = make_media(tmp_path, [Made(f"{name}.mp4", H264, rate=10) for name in names], voices)
    for name in names:
        write_captions(media / f"{name}.vtt", ("Client", "Therapist"), SECONDS)
    sessions = [name.replace("_", "-") for name in names]
    trained = from_folder_to_model(
        tmp_path,
        [rate_sessions(tmp_path, sessions, "alliance")],
        ["frames", "opensmile"],
        names="{participant}_{session}",
        text=text_model,
    )
    run = check_run(trained, "a+t")
    assert run.scheme == "alliance"
    dataset = ClipDataset(tmp_path / "features", ["tiny_text"])
    people = dataset.clips.groupby("participant_id")["split"].nunique()
    assert people.to_dict() == {"anna": 1, "ben": 1, "cleo": 1}


@spoken
def test_a_classroom_whose_engagement_was_coded_in_parts(tmp_path: Path, voices: list[Path], image_model: Path) -> None:
    sessions = [f"lesson{number}" for number in range(4)]
    make_media(tmp_path, [Made(f"{session}.mp4", H264, rate=10) for session in sessions], voices)
    sheet = tmp_path / "engagement.csv"
    parts = [(session, number % 4 + 1 + half, 1.5 * half) for number, session in enumerate(sessions) for half in (0, 1)]
    rows = [f"{session},{value},{start},{start + 1.5}" for session, value, start in parts]
    sheet.write_text("\n".join(["session_id,engagement,start_s,end_s", *rows]) + "\n")
    coded = [sheet, "--map", "engagement=engagement:ordinal"]
    trained = from_folder_to_model(tmp_path, [coded], ["frames", "opensmile"], image=image_model)
    check_run(trained, "v+a")


@spoken
def test_a_study_of_valence_that_was_rated_all_the_time(tmp_path: Path, voices: list[Path]) -> None:
    sessions = [f"film{number}" for number in range(4)]
    make_media(tmp_path, [Made(f"{session}.mp4", H264, rate=10) for session in sessions], voices)
    (tmp_path / "traces").mkdir()
    for number, session in enumerate(sessions):
        values = [f"{step / 10},{number / 4 - 0.5},{number / 4 - 0.3}" for step in range(10 * SECONDS)]
        (tmp_path / "traces" / f"{session}.csv").write_text("\n".join(["time,Kim,Lee", *values]) + "\n")
    traces = [
        tmp_path / "traces/*.csv",
        "--time",
        "time",
        "--unit",
        "s",
        "--map",
        "Kim=valence:curve:-1..1",
        "--map",
        "Lee=valence",
    ]
    trained = from_folder_to_model(tmp_path, [traces], ["frames", "opensmile"])
    run = check_run(trained, "a")
    assert (run.scheme, run.minimum, run.maximum) == ("label.valence", -1, 1)
    ratings = read_predictions(Path(str(trained.run["folder"])), run).table
    expected = {session: number / 4 - 0.4 for number, session in enumerate(sessions)}
    assert ratings["rating"].tolist() == pytest.approx([expected[session] for session in ratings["session_id"]])


@spoken
def test_a_podcast_without_a_picture(tmp_path: Path, voices: list[Path]) -> None:
    sessions = [f"talk{number}" for number in range(4)]
    sounds = [(".wav", "-c:a pcm_s16le"), (".m4a", "-c:a aac")]
    recordings = [
        Made(f"{session}{suffix}", "", sound) for session, (suffix, sound) in zip(sessions, 2 * sounds, strict=True)
    ]
    make_media(tmp_path, recordings, voices)
    trained = from_folder_to_model(tmp_path, [rate_sessions(tmp_path, sessions)], ["opensmile"])
    check_run(trained, "a")
    dataset = ClipDataset(tmp_path / "features", ["audio"])
    seconds = (dataset.clips["stop_s"] - dataset.clips["start_s"])[0]
    assert dataset[0]["audio_length"] == round(seconds * 100)


def test_transcripts_alone(tmp_path: Path, text_model: Path) -> None:
    sessions = [f"chat{number}" for number in range(4)]
    media = make_media(tmp_path, [], [])
    for session in sessions:
        write_captions(media / f"{session}.vtt", ("Ann", "Ben", "Ann"), 12)
    trained = from_folder_to_model(tmp_path, [rate_sessions(tmp_path, sessions)], [], text=text_model)
    check_run(trained, "t")


def test_sixteen_tiny_sessions(tmp_path: Path, text_model: Path) -> None:
    sessions = [f"n{number:02d}" for number in range(16)]
    media = make_media(tmp_path, [], [])
    for session in sessions:
        write_captions(media / f"{session}.vtt", ("Ann",), 10)
    with patch("os.fsync"):  # dozens of versions, which need not survive the machine
        trained = from_folder_to_model(tmp_path, [rate_sessions(tmp_path, sessions)], [], text=text_model)
    check_run(trained, "t")
    done = [name for name, status in trained.extracted.items() if status is Status.DONE]
    assert done == [f"{session}/tiny_text" for session in sessions]
