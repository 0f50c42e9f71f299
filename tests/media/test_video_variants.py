"""What is read of a video against what FFmpeg's own command reads: every codec and container that a lab may have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.media.video_variants import INTERLACED, LACED, PROGRESSIVE, Variant, ffmpeg, make

from tasks.media.recording import PictureConverter, deinterlace, read_frame_times, read_frames
from tasks.media.shown_frames import ShownFrames


def by_ffmpeg(path: Path, like: np.ndarray) -> np.ndarray:
    """The frames as FFmpeg's command shows them, deinterlaced where they are interlaced."""
    filters = ["-vf", "bwdif=mode=send_frame:deint=interlaced", "-sws_flags", "bicubic", "-fps_mode", "passthrough"]
    raw = ffmpeg("-i", path, "-map", "0:v:0", *filters, "-f", "rawvideo", "-pix_fmt", "bgr24", "-")
    return np.frombuffer(raw, np.uint8).reshape(-1, *like.shape[1:])[..., ::-1]


def check(path: Path, variant: Variant) -> None:
    batches = list(read_frames(path, 10))
    rgb = np.concatenate([batch.rgb for batch in batches])
    expected = by_ffmpeg(path, rgb)
    times = read_frame_times(path)
    assert len(rgb) == len(expected) == variant.frames
    for number, (got, wanted) in enumerate(zip(rgb, expected, strict=True)):
        difference = np.abs(got.astype(np.int16) - wanted)
        at_edge = times.interlaced and number in (0, len(rgb) - 1)  # with one neighbour bwdif's versions differ
        allowed = 3.0 + variant.mean if at_edge else variant.mean
        assert difference.mean() <= allowed, f"frame {number + 1} differs by {difference.mean():.2f}"
    np.testing.assert_array_equal(np.concatenate([batch.time for batch in batches]), times.time)
    shown = np.arange(variant.frames) / float(variant.fps)
    np.testing.assert_allclose(times.time, shown, atol=1.1e-3)  # some containers count milliseconds
    assert times.time[0] == 0.0
    assert not times.truncated
    assert times.interlaced == (variant.frames if variant in INTERLACED else 0)


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("variant", PROGRESSIVE, ids=lambda variant: variant.name)
def test_progressive_video_is_what_ffmpeg_shows(tmp_path: Path, variant: Variant) -> None:
    check(make(tmp_path, variant), variant)


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("variant", INTERLACED, ids=lambda variant: variant.name)
def test_interlaced_video_is_what_ffmpeg_shows_deinterlaced(tmp_path: Path, variant: Variant) -> None:
    check(make(tmp_path, variant, interlaced=True), variant)


@pytest.mark.needs("ffmpeg")
def test_a_video_that_becomes_interlaced_and_progressive_again(tmp_path: Path) -> None:
    laced = Variant("b.ts", f"-c:v mpeg2video {LACED} -top 1", mean=1.0)
    parts = [make(tmp_path, Variant(name, "-c:v mpeg2video")) for name in ("a.ts", "c.ts")]
    parts.insert(1, make(tmp_path, laced, interlaced=True))
    path = tmp_path / "mixed.mkv"
    (tmp_path / "parts.txt").write_text("".join(f"file '{part}'\n" for part in parts))
    ffmpeg("-f", "concat", "-safe", "0", "-i", tmp_path / "parts.txt", "-c", "copy", path)
    rgb = np.concatenate([batch.rgb for batch in read_frames(path, 10)])
    expected = by_ffmpeg(path, rgb)
    assert len(rgb) == len(expected) > 100
    assert np.abs(rgb.astype(np.int16) - expected).mean(axis=(1, 2, 3)).max() < 1.0
    assert 30 < read_frame_times(path).interlaced <= 36
    convert = PictureConverter(path.name).bgr
    with ShownFrames(path) as frames:  # all of them through the filter, progressive ones too
        filtered = [(shown.interlaced, convert(picture)[..., ::-1]) for shown, picture in deinterlace(frames)]
    assert not filtered[0][0]
    for got, (interlaced, picture) in zip(rgb, filtered, strict=True):
        if interlaced:
            np.testing.assert_array_equal(got, picture)


@pytest.mark.needs("ffmpeg")
def test_deinterlacing_gives_the_same_pictures_every_time(tmp_path: Path) -> None:
    path = make(tmp_path, INTERLACED[5], interlaced=True)
    first, again = (np.concatenate([batch.rgb for batch in read_frames(path, 7)]) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len({frame.tobytes() for frame in first}) == len(first)
