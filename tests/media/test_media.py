"""What is opened as a recording, and what is not."""

from __future__ import annotations

from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from support.media.recordings import write_video, write_wave

from tasks.extractors.openface.tool import cut_clip
from tasks.media.container import FORMATS, RecordingError, open_container
from tasks.media.recording import read_frame_times, read_frames
from tasks.media.sound import find_clipped, read_audio
from tasks.media.video_header import read_header
from tasks.planning.sample import SampleError, cut_recording

FFCONCAT = "ffconcat version 1.0\nfile 'other.ts'\n"
HLS = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nother.ts\n#EXT-X-ENDLIST\n"
DASH = """<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT1S"><Period>
<AdaptationSet mimeType="video/mp2t"><Representation id="1" bandwidth="1"><BaseURL>other.ts</BaseURL></Representation>
</AdaptationSet></Period></MPD>
"""
SDP = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n"
LISTS = {"list.ffconcat": FFCONCAT, "list.m3u8": HLS, "list.mpd": DASH, "list.sdp": SDP}
RENAMED = {"ffconcat.avi": FFCONCAT, "hls.mp4": HLS, "dash.mkv": DASH, "sdp.avi": SDP}


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """A folder with playlists of every kind, and the file that all of them name."""
    write_video(tmp_path / "other.ts", "mpeg4", list(range(0, 1000, 40)))
    for name, content in {**LISTS, **RENAMED}.items():
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.mark.parametrize("name", [*LISTS, *RENAMED])
def test_a_list_of_other_files_is_no_recording_for_whoever_opens_one(lists: Path, name: str) -> None:
    path, target = lists / name, lists / "target.avi"
    for read in (
        read_header,
        read_frame_times,
        lambda path: list(read_frames(path, 8)),
        lambda path: list(read_audio(path, 16_000)),
        find_clipped,
        lambda path: cut_clip(path, target, 1.0),
    ):
        with pytest.raises(RecordingError, match=f"^{name}: is "):
            read(path)
    with pytest.raises(SampleError, match=f"^{name}: is "):
        cut_recording(path, target, 1.0)


def test_a_pattern_of_pictures_is_no_recording(tmp_path: Path) -> None:
    for number in range(3):
        cv2.imwrite(str(tmp_path / f"a{number}.png"), np.zeros((16, 16, 3), np.uint8))
    for name in ("a%d.png", "a0.png"):
        with pytest.raises(RecordingError, match="cannot be read|not a media file|is a playlist"):
            open_container(tmp_path / name)


def test_nothing_but_files_is_opened(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data:video").write_text("x")
    for name in ("http://127.0.0.1:9/v.avi", "concat:a.avi|b.avi", "data:video"):
        with pytest.raises(RecordingError, match=r"cannot be read|not a media file"):
            open_container(Path(name))


@pytest.mark.parametrize("suffix", ["avi", "mp4", "mov", "mkv", "webm", "ts", "mpg", "flv", "nut", "wmv", "3gp", "mxf"])
def test_containers_of_video_that_are_read(tmp_path: Path, suffix: str) -> None:
    codec = {"webm": "libvpx", "mxf": "mpeg2video", "mpg": "mpeg2video", "flv": "flv", "wmv": "wmv2", "3gp": "libx264"}
    path = tmp_path / f"v.{suffix}"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec.get(suffix, "mpeg4"), rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(10):
            picture = np.full((48, 64, 3), 9 * number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
    assert len(read_frame_times(path).time) == 10


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3", "ogg", "m4a", "aiff", "aac", "wv", "mka", "w64", "au", "caf"])
def test_sound_files_that_are_read(tmp_path: Path, suffix: str) -> None:
    wave = write_wave(tmp_path / "v.wav", np.full(16_000, 1000), 16_000)
    path = tmp_path / f"v.{suffix}"
    codec = {"flac": "flac", "mp3": "libmp3lame", "ogg": "libopus", "m4a": "aac", "aac": "aac", "wv": "wavpack"}
    if suffix != "wav":
        pcm = "pcm_s16be" if suffix in ("aiff", "au") else "pcm_s16le"
        with av.open(str(wave)) as source, av.open(str(path), "w") as target:
            stream = target.add_stream(
                codec.get(suffix, pcm), rate=48_000 if suffix == "ogg" else 16_000, layout="mono"
            )
            for frame in source.decode(audio=0):
                target.mux(stream.encode(frame))
            target.mux(stream.encode(None))
    assert sum(len(block.samples) for block in read_audio(path, 16_000)) == pytest.approx(16_000, abs=3000)


def test_formats_are_named_as_ffmpeg_names_them() -> None:
    known = {part for name in av.formats_available for part in name.split(",")}
    assert set(FORMATS.split(",")) <= known


def test_no_code_but_tests_opens_a_video_with_opencv() -> None:
    root = Path(__file__).parents[2]
    files = [path for folder in ("storyframes", "tasks", "flows", "plugins") for path in (root / folder).rglob("*.py")]
    assert len(files) > 300
    opens = [path for path in files if "tests" not in path.parts and "VideoCapture" in path.read_text(encoding="utf-8")]
    assert opens == []
