"""The edges of clips, in the index and in what is read: the last frame, a word at the end, sound that begins inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import missing
from support.stores import local
from support.synthetic_features import publish, study_of

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.window_spec import WindowSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from tasks.clip_index.index import build_clip_index, write_clip_index

WINDOW, STRIDE = 20, 10


def make_store(
    root: Path,
    frame_time: np.ndarray,
    audio_time: np.ndarray | None = None,
    word_start: np.ndarray | None = None,
    utterances: tuple[np.ndarray, np.ndarray] | None = None,
) -> FeatureStore:
    """One session, one phase over all of it, one rating; row i of a feature holds the value i + 1.

    ``utterances`` are their starts and their ends.
    """
    create_store(root)
    frames = len(frame_time)
    publish(root, "s", "frames", {"time": frame_time})
    if audio_time is not None:
        rows = np.repeat(np.arange(1, len(audio_time) + 1, dtype=np.float32)[:, None], 65, axis=1)
        per_frame = np.zeros((frames, 65), np.float32)
        publish(root, "s", "opensmile", {"values": rows, "time": audio_time, "per_frame": per_frame})
    if word_start is not None:
        words = len(word_start)
        vectors = np.repeat(np.arange(1, words + 1, dtype=np.float32)[:, None], 300, axis=1)
        arrays = {"values": vectors, "start": word_start, "end": word_start + 0.1}
        arrays |= {"known": np.ones(words, np.uint8), "frame_word": np.full(frames, -1, np.int32)}
        publish(root, "s", "glove", arrays)
    if utterances is not None:
        start, end = utterances
        vectors = np.repeat(np.arange(1, len(start) + 1, dtype=np.float32)[:, None], 384, axis=1)
        arrays = {"values": vectors, "start": start, "end": end, "speaker": np.zeros(len(start), np.int16)}
        publish(root, "s", "sbert", arrays | {"frame_utterance": np.full(frames, -1, np.int32)})
    catalogue.compact(local(root))
    tables = {
        "sessions": pd.DataFrame({"session_id": ["s"], "participant_id": ["p"]}),
        "phases": pd.DataFrame({"session_id": ["s"], "phase": ["all"], "start_s": [0.0], "end_s": [1e4]}),
        "ratings": pd.DataFrame({"session_id": ["s"], "story_id": ["x"], "position": [1], "empathy": [3]}),
    }
    settings = WindowSpec(window=WINDOW, stride=STRIDE)
    built = build_clip_index(study_of(tables), settings, FeatureStore(root))
    write_clip_index(built.clips, local(root))
    (root / "warnings.txt").write_text(built.warnings.get("s", ""))
    return FeatureStore(root)


def test_the_last_clip_ends_when_the_last_frame_ends(tmp_path: Path) -> None:
    """Not when it begins: the words and the sound of the last frame are the clip's."""
    store = make_store(tmp_path, np.arange(40) / 25, np.arange(160) / 100, np.array([0.1, 1.57, 1.59]))
    last = store.clips().iloc[-1]
    assert (last["start_frame"], last["stop_frame"]) == (20, 40)
    assert last["stop_s"] == pytest.approx(1.6)
    assert (last["audio_start"], last["audio_stop"]) == (80, 160)
    assert last["words"] == 2
    sample = ClipDataset(store, ["audio", "words"])[2]
    assert sample["audio_length"] == 80
    assert sample["words"][: sample["words_length"], 0].tolist() == [2, 3]


def test_a_word_exactly_at_a_clips_end_is_the_next_clips(tmp_path: Path) -> None:
    """Clips are [start, stop): in the index, and in what is read."""
    frame_time = np.arange(60) * (1 / 15)  # binary fractions: 20 * (1 / 15) is not 4 / 3
    word_start = np.array([0.0, 10 / 15, 20 / 15, 30 / 15, 30 / 15 + 1e-3])
    store = make_store(tmp_path, frame_time, word_start=word_start)
    clips = store.clips()
    assert clips["start_frame"].tolist() == [0, 10, 20, 30, 40]
    expected = [[1, 2], [2, 3], [3, 4, 5], [4, 5], []]
    assert clips["words"].tolist() == [len(words) for words in expected]
    dataset = ClipDataset(store, ["words"])
    for number, words in enumerate(expected):
        sample = dataset[number]
        assert sample["words"][: sample["words_length"], 0].tolist() == words
        assert sample["words_mask"].sum() == len(words)


def test_what_touches_a_clip_only_at_its_edges_takes_no_place_in_it(tmp_path: Path) -> None:
    """Words and utterances that begin where a clip stops, utterances that end where it starts: padding as well."""
    edges = np.arange(4) * 10 * (1 / 15)
    store = make_store(tmp_path, np.arange(40) * (1 / 15), None, edges[:3], (edges[:3], edges[1:]))
    assert store.clips()["start_frame"].tolist() == [0, 10, 20]
    dataset = ClipDataset(store, ["words", "sentence"])
    for number, rows in enumerate([[1, 2], [2, 3], [3]]):
        sample = dataset[number]
        for name in ("words", "sentence"):
            assert sample[name].shape[0] == 2, name
            assert sample[name][: sample[f"{name}_length"], 0].tolist() == rows, name


@pytest.mark.parametrize("fps", [10, 12.5, 20, 25, 50])
@pytest.mark.parametrize("offset", [0.0, 0.023, -0.08])
def test_a_clips_sound_begins_with_its_first_frame(tmp_path: Path, fps: float, offset: float) -> None:
    each = round(100 / fps)
    frame_time = 1000 * np.arange(400) * (1 / fps) / 1000  # as OpenCV tells it
    audio_time = offset + np.arange(400 * each) * 0.01
    audio_time += -offset if offset == 0.023 else 0.0  # the same sums, another way round
    clips = make_store(tmp_path, frame_time, audio_time).clips()
    late = round(-audio_time[0] * 100)  # rows before the first frame
    assert clips["audio_start"].tolist() == [late + each * frame for frame in clips["start_frame"]]
    assert clips["audio_stop"].tolist() == [min(late + each * frame, 400 * each) for frame in clips["stop_frame"]]


@pytest.mark.parametrize("late_s", [0.0, 0.07, 0.5, 0.503, 1.0])
def test_sound_that_begins_inside_a_clip_lies_at_its_own_rows(tmp_path: Path, late_s: float) -> None:
    store = make_store(tmp_path, np.arange(60) / 25, late_s + np.arange(100) / 100)
    clips, dataset = store.clips(), ClipDataset(store, ["audio"])
    for number, clip in enumerate(clips.itertuples()):
        sample = dataset[number]
        mask, values = sample["audio_mask"], sample["audio"][:, 0]
        assert sample["audio"].shape == (80, 65)
        for row in range(80):
            at = clip.start_s + row / 100  # the row of the sound that begins in these 10 ms, if there is one
            of_sound = round(np.ceil(round((at - late_s) * 100, 6)))
            if 0 <= of_sound < 100:
                assert mask[row], (number, row)
                assert values[row] == of_sound + 1
            else:
                assert not mask[row], (number, row)
        there = np.flatnonzero(mask)
        length = there[-1] + 1 if len(there) else 0
        assert sample["audio_length"] == length
        assert np.isnan(values[:length][~mask[:length]]).all()
        assert (values[length:] == 0).all()
        assert clip.sound_covered == pytest.approx(len(there) / 80, abs=0.013)


def test_the_clip_index_tells_which_clips_have_sound_throughout(tmp_path: Path) -> None:
    """Five seconds of sound of a picture of twelve."""
    store = make_store(tmp_path, np.arange(300) / 25, np.arange(500) / 100)
    covered = store.clips()["sound_covered"]
    assert (covered[:11] == 1).all()
    assert (covered[13:] == 0).all()
    assert len(ClipDataset(store, ["audio"], "sound_covered >= .99")) == 11


@pytest.mark.parametrize(
    ("begins_s", "rows", "warned"), [(0.0, 200, False), (0.4, 130, False), (0.0, 50, True), (0.6, 140, True)]
)
def test_writing_the_index_warns_of_sound_that_does_not_fit(
    tmp_path: Path, begins_s: float, rows: int, warned: bool
) -> None:
    store = make_store(tmp_path, np.arange(50) / 25, begins_s + np.arange(rows) / 100)
    warning = (tmp_path / "warnings.txt").read_text()
    assert missing(warning, "phase 'all'", "10000.00 s") == []
    assert (f"there is sound from {begins_s:.2f} s" in warning) == warned
    assert len(store.clips()) == 4
