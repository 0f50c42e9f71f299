"""Recordings whose clock begins late or wraps, and live ones that end within a block."""

from __future__ import annotations

import re
from pathlib import Path

import av
import numpy as np
import pytest
from support.media.recordings import FPS, write_recording
from support.messages import naming

from tasks.media.recording import read_frame_times, read_frames
from tasks.media.shown_frames import ShownFrames
from tasks.media.sound import read_audio
from tasks.media.video_header import TruncatedError, check_promise, read_header

_WRAP_S = 2**33 / 90_000  # of MPEG's clock: 26.5 hours


@pytest.mark.parametrize("begin_s", [0.0, 1.4, 7200.0, _WRAP_S - 70, _WRAP_S - 3.2, _WRAP_S - 0.5])
def test_a_broadcast_may_begin_at_any_time_and_its_clock_may_wrap(tmp_path: Path, begin_s: float) -> None:
    sound = np.full((16_000 * 5, 1), 9000)
    sound[: 2 * 16_000] = 0
    path = tmp_path / "v.ts"
    write_recording(path, 5 * FPS, sound, picture_at_s=begin_s, sound_at_s=begin_s, codec="mp2")
    times = read_frame_times(path)
    assert not times.truncated
    np.testing.assert_allclose(times.time, np.arange(5 * FPS) / FPS, atol=0.001)
    blocks = list(read_audio(path, 16_000, read_header(path).start_s))
    assert blocks[0].time == pytest.approx(0, abs=0.1)
    samples = np.concatenate([block.samples for block in blocks])
    begins = blocks[0].time + np.flatnonzero(np.abs(samples) > 0.1)[0] / 16_000
    assert begins == pytest.approx(2, abs=0.05)


def write_live(path: Path, frames: int = 30) -> Path:
    """A Matroska as a browser records it: its header has no length, and neither have its clusters."""
    with av.open(str(path), "w", format="matroska", options={"live": "1"}) as container:
        stream = container.add_stream("mpeg4", rate=FPS)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, "yuv420p", 5
        noise = np.random.default_rng(0)
        for number in range(frames):
            picture = noise.integers(0, 256, (48, 64, 3), dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    content = bytearray(path.read_bytes())
    for cluster in re.finditer(b"\x1f\x43\xb6\x75", bytes(content)):  # FFmpeg writes the length of each cluster
        first = content[cluster.end()]
        length = 9 - first.bit_length()
        content[cluster.end() : cluster.end() + length] = bytes([0xFF >> (length - 1)]) + b"\xff" * (length - 1)
    path.write_bytes(content)
    return path


def blocks_of(path: Path) -> list[int]:
    """Where the content of each frame ends in the file."""
    content = path.read_bytes()
    with av.open(str(path)) as container:
        packets = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    return [content.index(packet) + len(packet) for packet in packets]


@pytest.mark.parametrize("lost", [1, 20, 200])
@pytest.mark.parametrize("number", [30, 29, 18])
def test_the_torn_last_block_of_a_live_recording_is_a_caveat(tmp_path: Path, lost: int, number: int) -> None:
    path = write_live(tmp_path / "v.webm")
    whole = read_frame_times(path)
    assert (len(whole.time), whole.truncated) == (30, False)
    path.write_bytes(path.read_bytes()[: blocks_of(path)[number - 1] - lost])
    times = read_frame_times(path)
    assert times.truncated
    np.testing.assert_array_equal(times.time, whole.time[: len(times.time)])
    assert number - 1 <= len(times.time) <= number
    assert sum(len(batch) for batch in read_frames(path, 8)) == len(times.time)


def test_a_live_recording_that_ends_with_a_whole_block_lacks_nothing(tmp_path: Path) -> None:
    path = write_live(tmp_path / "v.webm")
    path.write_bytes(path.read_bytes()[: blocks_of(path)[19]])
    times = read_frame_times(path)
    assert (len(times.time), times.truncated) == (20, False)


def test_damage_in_the_middle_of_a_torn_live_recording_is_still_refused(tmp_path: Path) -> None:
    path = write_live(tmp_path / "v.webm")
    ends = blocks_of(path)
    content = bytearray(path.read_bytes()[: ends[-1] - 20])
    content[ends[9] + 20 : ends[10]] = bytes(ends[10] - ends[9] - 20)
    path.write_bytes(content)
    with pytest.raises(TruncatedError, match=naming("v.webm")):
        read_frame_times(path)


def test_a_recording_whose_clock_begins_late_may_be_truncated(tmp_path: Path) -> None:
    """Its last frame is later than its length, as a number, wherever it ends."""
    for name, frames in (("whole.ts", 5 * FPS), ("v.ts", 2 * FPS)):
        write_recording(tmp_path / name, frames, picture_at_s=7200.0)
    with ShownFrames(tmp_path / "v.ts") as shown:
        assert sum(1 for _ in shown) == 2 * FPS
        with pytest.raises(TruncatedError, match=naming("v.ts", "promises 5.0 s", "2.0 s decode")):
            check_promise(tmp_path / "v.ts", read_header(tmp_path / "whole.ts"), shown, allow_truncated=False)
