"""Recordings whose pictures are stored lying or mirrored: every reader sees them upright, as a player shows them."""

from __future__ import annotations

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from support.media.turned import MATRICES, TURNED_BY_FFMPEG, record_turned, set_matrix
from support.media.video_variants import INTERLACED, ffmpeg, make
from support.messages import naming

from tasks.media.container import RecordingError
from tasks.media.recording import file_for_tools, read_frame_times, read_frames
from tasks.media.upright import write_lossless
from tasks.media.video_header import read_header


def pictures(path: Path) -> np.ndarray:
    return np.concatenate([batch.rgb for batch in read_frames(path, 16)])


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("name", MATRICES)
def test_frames_are_as_ffmpeg_turns_them(tmp_path: Path, name: str) -> None:
    stored, upright = tmp_path / "stored.mov", tmp_path / "upright.mov"
    ffmpeg("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25:duration=1.6", "-c:v", "png", "-pix_fmt", "rgb24", stored)
    ffmpeg("-i", stored, "-vf", TURNED_BY_FFMPEG[name], "-c:v", "png", "-pix_fmt", "rgb24", upright)
    set_matrix(stored, MATRICES[name])
    expected = pictures(upright)
    assert np.array_equal(pictures(stored), expected)
    header = read_header(stored)
    assert (header.height, header.width) == expected.shape[1:3]
    assert header.is_upright == (name == "as it is")


@pytest.mark.parametrize("name", MATRICES)
def test_one_scene_recorded_in_any_orientation_gives_the_same_frames(tmp_path: Path, name: str) -> None:
    upright = record_turned(tmp_path / "upright.mp4", "as it is")
    turned = record_turned(tmp_path / "turned.mp4", name)
    assert np.array_equal(pictures(turned), pictures(upright))
    assert np.array_equal(read_frame_times(turned).time, read_frame_times(upright).time)


@pytest.mark.needs("ffmpeg")
def test_interlaced_frames_are_turned_after_they_were_deinterlaced(tmp_path: Path) -> None:
    path = make(tmp_path, next(variant for variant in INTERLACED if variant.name == "x264_top.mp4"), interlaced=True)
    stored = pictures(path)
    assert np.array_equal(pictures(set_matrix(path, MATRICES["90"])), np.rot90(stored, -1, axes=(1, 2)))


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("matrix", [(0.7071, 0.7071, -0.7071, 0.7071), (2, 0, 0, 2)])
def test_a_video_to_be_shown_askew_is_refused(tmp_path: Path, matrix: tuple[float, ...]) -> None:
    path = tmp_path / "v.mp4"
    ffmpeg("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25:duration=1", "-pix_fmt", "yuv420p", path)
    set_matrix(path, matrix)
    for read in (read_frame_times, read_header, lambda path: list(read_frames(path, 16))):
        with pytest.raises(RecordingError, match=naming("frame 1", "v.mp4")):
            read(path)


@pytest.mark.needs("ffmpeg")
def test_a_tool_opens_an_upright_recording_itself_and_of_a_turned_one_a_copy_of_every_frame(tmp_path: Path) -> None:
    """Also where the rate varies: an AVI has no times, and each frame is in it once."""
    plain, varying = tmp_path / "plain.mp4", tmp_path / "varying.mp4"
    picture = ("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25:duration=2")
    ffmpeg(*picture, "-vf", "select='not(between(mod(n,10),3,7))'", "-fps_mode", "vfr", "-pix_fmt", "yuv420p", plain)
    with file_for_tools(plain) as opened:
        assert opened == plain
    shutil.copy(plain, varying)
    set_matrix(varying, MATRICES["90"])
    frames = pictures(varying)
    assert len(frames) == len(read_frame_times(varying).time) == 25
    with file_for_tools(varying) as copy:
        assert copy != varying
        assert copy.parent.stat().st_mode & 0o777 == 0o700
        opened_by_tool, seen = cv2.VideoCapture(str(copy), cv2.CAP_FFMPEG), []
        while (shown := opened_by_tool.read())[0]:
            seen.append(shown[1][..., ::-1])
        assert np.array_equal(np.array(seen), frames)
    assert not copy.parent.exists()


def test_a_copy_for_tools_has_the_same_pixels(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (9, 62, 47, 3), np.uint8)
    assert write_lossless(tmp_path / "copy.avi", noise, 29.97) == 9
    assert np.array_equal(pictures(tmp_path / "copy.avi")[..., ::-1], noise)
    assert read_frame_times(tmp_path / "copy.avi").time[-1] == pytest.approx(8 / 29.97, abs=1e-3)
    opened = cv2.VideoCapture(str(tmp_path / "copy.avi"), cv2.CAP_FFMPEG)  # as OpenFace opens it
    assert opened.get(cv2.CAP_PROP_FRAME_COUNT) == 9
