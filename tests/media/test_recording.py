from __future__ import annotations

import gc
from pathlib import Path

import av
import numpy as np
import pytest
from support.media.recordings import write_video
from support.messages import naming

from tasks.media.container import RecordingError
from tasks.media.recording import read_frame_times, read_frames
from tasks.media.shown_frames import ShownFrames
from tasks.media.video_header import TruncatedError, read_header


def test_a_constant_frame_rate(demo_study: Path) -> None:
    frames = read_frame_times(demo_study / "videos/p01-s01.avi")
    np.testing.assert_allclose(frames.time, np.arange(360) / 15, atol=1e-9)
    assert not frames.truncated


def test_the_header(demo_study: Path) -> None:
    header = read_header(demo_study / "videos/p01-s01.avi")
    assert (header.width, header.height, header.fps, header.promised_frames) == (480, 360, 15.0, 360)


@pytest.mark.parametrize(("name", "codec"), [("v.mkv", "mpeg4"), ("v.mp4", "libx264"), ("v.mp4", "mpeg4")])
def test_a_variable_frame_rate_gives_true_times(tmp_path: Path, name: str, codec: str) -> None:
    milliseconds = (500 + np.cumsum(np.random.default_rng(0).integers(30, 200, 50))).tolist()
    path = write_video(tmp_path / name, codec, milliseconds)
    shown = np.array(milliseconds) / 1000
    np.testing.assert_allclose(read_frame_times(path).time, shown - shown[0], atol=1e-6)
    assert read_header(path).start_s == pytest.approx(shown[0], abs=1e-6)


@pytest.mark.slow
def test_batches_hold_every_frame_once_in_rgb_with_its_time(demo_study: Path) -> None:
    path = demo_study / "videos/p01-s01.avi"
    batches = list(read_frames(path, 100))
    assert [(batch.first, len(batch)) for batch in batches] == [(0, 100), (100, 100), (200, 100), (300, 60)]
    np.testing.assert_array_equal(np.concatenate([b.time for b in batches]), read_frame_times(path).time)
    with av.open(str(path)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number % 50 == 7:
                expected = frame.to_ndarray(format="rgb24")
                np.testing.assert_array_equal(batches[number // 100].rgb[number % 100], expected)


def test_a_batch_is_the_callers_to_keep(demo_study: Path) -> None:
    reader = read_frames(demo_study / "videos/p01-s01.avi", 10)
    first = next(reader)
    kept = first.rgb.copy()
    next(reader)
    np.testing.assert_array_equal(first.rgb, kept)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zero.avi", r"zero\.avi: the file is empty"),
        ("garbage.avi", r"garbage\.avi: is not a media file"),
        ("header_only.avi", r"header_only\.avi: is not a media file"),
        ("audio_only.avi", r"audio_only\.avi: has no video stream"),
        pytest.param("trunc.avi", r"trunc\.avi: .*842 frames, 448 decode", marks=pytest.mark.slow),
        pytest.param("corrupt_mid.avi", r"corrupt_mid\.avi: .*702 frames, 659 decode", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_file_says_what_is_wrong(shared: Path, name: str, message: str) -> None:
    path = shared / "data/openface/faults" / name
    with pytest.raises(RecordingError, match=message):
        read_frame_times(path)
    with pytest.raises(RecordingError, match=message):
        list(read_frames(path, 64))


def test_frames_that_an_avi_never_recorded_are_not_damage(tmp_path: Path) -> None:
    milliseconds = [0, 100, 200, 500, 600, 900, 1000]  # the AVI writer puts empty packets into the gaps
    path = write_video(tmp_path / "v.avi", "mpeg4", milliseconds)
    assert read_header(path).promised_frames > 7
    frames = read_frame_times(path)
    np.testing.assert_allclose(frames.time, np.array(milliseconds) / 1000, atol=1e-3)
    assert not frames.truncated


@pytest.mark.slow
@pytest.mark.parametrize(("name", "frames"), [("trunc.avi", 448), ("corrupt_mid.avi", 659)])
def test_what_decodes_of_a_truncated_file_can_be_used_if_allowed(shared: Path, name: str, frames: int) -> None:
    path = shared / "data/openface/faults" / name
    times = read_frame_times(path, allow_truncated=True)
    assert (len(times.time), times.truncated) == (frames, True)
    assert sum(len(batch) for batch in read_frames(path, 64, allow_truncated=True)) == frames


def test_a_cut_matroska_file_is_noticed_by_its_length(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mkv", "mpeg4", list(range(0, 20_000, 66)))
    whole = read_frame_times(path)
    assert not whole.truncated
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(TruncatedError, match=naming("20.1 s", "10.0 s")):
        read_frame_times(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=naming("absent.avi", "read")):
        read_frame_times(tmp_path / "absent.avi")


def test_a_name_with_a_pattern_in_it_is_just_a_name(tmp_path: Path) -> None:
    path = write_video(tmp_path / "take %02d [a], 'b'.avi", "mpeg4", list(range(0, 660, 66)))
    assert len(read_frame_times(path).time) == 10


def test_the_memory_of_a_frame_is_free_when_the_next_one_is_read(tmp_path: Path) -> None:
    """Not only when Python looks for objects that refer to each other: hundreds of large pictures are gigabytes."""
    path = write_video(tmp_path / "video.avi", "mpeg4", list(range(0, 1980, 66)))

    def frames_in_memory() -> int:
        return sum(isinstance(thing, av.VideoFrame) for thing in gc.get_objects())

    gc.collect()
    before = frames_in_memory()
    gc.disable()
    try:
        with ShownFrames(path) as frames:
            assert sum(1 for _ in frames) == 30
            assert frames_in_memory() - before <= 2
    finally:
        gc.enable()
