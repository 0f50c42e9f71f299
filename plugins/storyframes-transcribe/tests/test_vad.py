"""The feature vad is what Silero's network says of the same sound, on the right clock."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faster_whisper.vad import get_vad_model
from planted import as_int16, planted
from storyframes_transcribe.vad import RATE, ROW, Vad, speech_probability, speech_spans
from support.media.recordings import write_recording, write_wave
from support.studies import extract_session, make_study, run

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.clips.window_spec import WindowSpec
from storyframes.store import create_store
from storyframes.testing import check_extractor
from tasks.clip_index.index import update_clip_index
from tasks.planning.selection import Selection
from tasks.study import load_study

pytestmark = pytest.mark.needs("espeak-ng", "faster_whisper")

ONSETS = {"morning": 1.0, "elephants": 2.5, "yesterday": 4.25}


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    return planted([*ONSETS.items()], 6.01)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, sound: np.ndarray) -> FeatureStore:
    folder = tmp_path_factory.mktemp("vad")
    study = make_study(folder / "study", audio="talk.wav")
    write_wave(study / "talk.wav", as_int16(sound), RATE)
    opened, outcomes = extract_session(study, folder / "features", "vad")
    assert outcomes["vad"].status == "done", outcomes["vad"].reason
    return opened


def directly(samples: np.ndarray) -> np.ndarray:
    """By faster-whisper's own class, given one row more, since it sets the end of the last one to 0."""
    return get_vad_model()(np.pad(samples, (0, -len(samples) % ROW + ROW))).reshape(-1)[:-1]


def test_the_values_are_the_networks_own(store: FeatureStore, sound: np.ndarray) -> None:
    values, time = store.read("s", "vad"), store.read("s", "vad", array="time")
    samples = as_int16(sound).astype(np.float32) / 32768
    np.testing.assert_allclose(values[:, 0], directly(samples), atol=1e-5)
    assert values.shape == (188, 1)  # 6.01 s, the last row filled up
    np.testing.assert_allclose(time, 0.016 + 0.032 * np.arange(188), atol=1e-9)
    assert values.min() < 0.1
    assert values.max() > 0.9


@pytest.mark.parametrize("size", [100, ROW, 7000, 900_000])
def test_values_do_not_depend_on_where_blocks_are_cut(size: int) -> None:
    """35 s, more than the network is given at once."""
    samples = np.tile(planted([("elephants", 0.5), ("seven", 2.0)], 3.5), 10)
    blocks = (samples[first : first + size] for first in range(0, len(samples), size))
    np.testing.assert_allclose(np.concatenate([*speech_probability(blocks)]), directly(samples), atol=1e-5)


def test_speech_begins_where_words_were_planted(store: FeatureStore) -> None:
    spans = speech_spans(store.read("s", "vad")[:, 0], store.read("s", "vad", array="time"), pause_s=0.25)
    np.testing.assert_allclose(spans[:, 0], [*ONSETS.values()], atol=0.05)
    assert (spans[:, 1] - spans[:, 0] < 1.2).all()


def test_the_example_of_pauses_and_the_share_of_speech(store: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[3] / "docs/transcripts.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    (code,) = [block for block in blocks if "speech_spans" in block]
    monkeypatch.setattr("storyframes.FeatureStore", lambda _: store)
    names: dict[str, Any] = {}
    exec(code.replace("p01-s01", "s"), names)
    spoken = names["spans"][:, 1] - names["spans"][:, 0]
    starts = np.array([*ONSETS.values()])
    np.testing.assert_allclose(names["pauses"], starts[1:] - starts[:-1] - spoken[:-1], atol=0.1)
    assert names["share"] == pytest.approx(spoken.sum() / 6.0, rel=0.01)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory, sound: np.ndarray) -> FeatureStore:
    """A video whose sound begins 0.3 s after its picture, and a microphone that is a track of its own."""
    folder = tmp_path_factory.mktemp("video")
    study = make_study(folder / "study", video="talk.mkv")
    write_recording(study / "talk.mkv", 150, as_int16(sound)[:, None], RATE, picture_at_s=0.5, sound_at_s=0.8)
    write_wave(study / "lapel.wav", as_int16(planted([("elephants", 3.0)], 6.0)), RATE)
    (study / "tracks.csv").write_text("session_id,track,audio\ns,lapel,lapel.wav\n")
    create_store(folder / "features")
    outcomes = run(study, folder / "features", Selection(only=("frames", "vad")))
    assert outcomes["s/vad"].status == outcomes["s/vad@lapel"].status == "done", outcomes
    store = FeatureStore(folder / "features")
    update_clip_index(load_study(study), WindowSpec(window=60, stride=20), store)
    return FeatureStore(folder / "features")


def test_the_time_of_a_videos_sound_is_that_of_its_picture(videos: FeatureStore) -> None:
    values, time = videos.read("s", "vad"), videos.read("s", "vad", array="time")
    assert time[0] == pytest.approx(0.3 + 0.016, abs=1e-3)
    spans = speech_spans(values[:, 0], time, pause_s=0.25)
    np.testing.assert_allclose(spans[:, 0], [onset + 0.3 for onset in ONSETS.values()], atol=0.05)
    frames, per_frame = videos.read("s", "frames", array="time"), videos.read("s", "vad", array="per_frame")
    assert per_frame.shape == (len(frames), 1)
    assert np.isnan(per_frame[frames < 0.25]).all()  # there is no sound
    inside = (time >= frames[100]) & (time < frames[101])
    assert inside.sum() in (1, 2)
    assert per_frame[100, 0] == pytest.approx(values[inside, 0].mean(), abs=1e-6)


def test_clips_have_it_like_any_sound(videos: FeatureStore) -> None:
    dataset = ClipDataset(videos, ["vad", ClipInput("vad", rate=31.25, track="lapel")])
    place = dataset.clips["start_s"].tolist().index(1.6)
    clip, stop_s = dataset[place], dataset.clips["stop_s"].iloc[place]
    time = videos.read("s", "vad", array="time")
    inside = (time >= 1.6) & (time < stop_s)
    assert clip["vad_length"] == inside.sum()
    np.testing.assert_array_equal(clip["vad"][: inside.sum()], videos.read("s", "vad")[inside])
    loud = 1.6 + np.flatnonzero(clip["vad@lapel"][:, 0] > 0.5) / 31.25
    assert loud[0] == pytest.approx(3.0, abs=0.05)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_sound() -> None:
    code = """
import numpy as np
from storyframes_transcribe.vad import speech_probability
block = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
for seconds in (60, 600):
    count = sum(len(rows) for rows in speech_probability(block for _ in range(seconds)))
    assert count == -(-seconds * 16_000 // 512)
    print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    before, after = map(int, done.stdout.split())
    assert after - before < 12 * 1024, "KiB; nine more minutes of sound are 33,750"


@pytest.mark.slow
def test_it_keeps_the_contract(tmp_path: Path, sound: np.ndarray) -> None:
    second = as_int16(sound)[RATE : 2 * RATE]
    check_extractor(Vad, write_recording(tmp_path / "talk.avi", 25, second[:, None], RATE))


def test_spans_follow_sileros_rule() -> None:
    time = 1.016 + 0.032 * np.arange(10)

    def spans(*probability: float, **rule: float) -> list[list[float]]:
        return speech_spans(np.array(probability), time[: len(probability)], **rule).round(3).tolist()

    assert spans(0, 0.5, 0.4, 0.36, 0.34, 0) == [[1.032, 1.128]]  # 0.35 and more goes on, but begins nothing
    assert spans(0.4, 0.4) == []
    assert spans(0.9, 0, 0, 0.9, pause_s=0.064) == [[1.0, 1.032], [1.096, 1.128]]
    assert spans(0.9, 0, 0, 0.9, pause_s=0.065) == [[1.0, 1.128]]
    assert spans(0.9, 0, 0, 0, 0, 0.9, 0.9, speech_s=0.05) == [[1.16, 1.224]]
    assert spans() == []


def test_what_is_hardly_speech_does_not_go_on_after_speech_has_ended() -> None:
    spans = speech_spans(np.array([0.9, 0.4, 0, 0.4, 0.4, 0]), 0.016 + 0.032 * np.arange(6))
    np.testing.assert_allclose(spans, [[0, 0.064]])
