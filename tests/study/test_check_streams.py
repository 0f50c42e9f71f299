"""``check`` names the streams of a recording that has several, and channels in which nothing is heard."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from support.messages import unlike

from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.study_check import check_study


def write_streams(path: Path, sounds: dict[str, np.ndarray], pictures: int = 1) -> Path:
    """Two seconds with so many streams of pictures, and sounds of 16 kHz: (n, channels) by their language."""
    with av.open(str(path), "w") as container:
        videos = [container.add_stream("mpeg4", rate=10) for _ in range(pictures)]
        for stream in videos:
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        layouts = {1: "mono", 2: "stereo"}
        tracks = []
        for language, sound in sounds.items():
            track = container.add_stream("pcm_s16le", rate=16_000, layout=layouts[sound.shape[1]])
            track.metadata["language"] = language
            tracks.append((track, sound))
        for number in range(20):
            for stream in videos:
                frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), number, np.uint8), "rgb24")
                frame.pts = number
                container.mux(stream.encode(frame))
        for stream in videos:
            container.mux(stream.encode(None))
        for track, sound in tracks:
            packed = np.ascontiguousarray(sound.astype(np.int16)).reshape(1, -1)
            block = av.AudioFrame.from_ndarray(packed, format="s16", layout=layouts[sound.shape[1]])
            block.sample_rate = 16_000
            container.mux(track.encode(block))
            container.mux(track.encode(None))
    return path


VOICE = np.random.default_rng(0).integers(-9000, 9000, (32_000, 1))
NOTHING = np.zeros_like(VOICE)


@pytest.mark.parametrize(
    ("sounds", "pictures", "named"),
    [
        ({"eng": VOICE}, 1, None),
        (
            {"eng": VOICE, "fra": VOICE},
            1,
            ("2 sound", "0: pcm_s16le, 1 channel", "eng", "1: pcm_s16le", "fra", "0 is read"),
        ),
        ({"eng": NOTHING, "fra": VOICE}, 1, ("0: pcm_s16le, 1 channel, 16000 Hz, eng, silent", "0 is read")),
        ({"eng": VOICE}, 2, ("2 video", "0: mpeg4 64x48", "1: mpeg4", "0 is read")),
        ({"eng": np.hstack([NOTHING, VOICE])}, 1, ("channel 1 is silent", "1/2")),
        ({"eng": np.hstack([NOTHING, NOTHING])}, 1, None),  # as quiet as it is: no channel is left out
    ],
)
def test_several_streams_and_silent_channels_are_remarks(tmp_path: Path, sounds, pictures: int, named) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video\ns,p,v.mkv\n")
    write_streams(tmp_path / "v.mkv", sounds, pictures)
    study, found = check_study(tmp_path, ExtractorsSettings())
    remarks = [remark for remark in study.remarks if "v.mkv" in remark]
    assert found == []
    assert unlike(remarks, *([] if named is None else [("v.mkv", *named)])) == []


def test_the_sound_of_a_video_beside_a_sound_file_is_not_remarked_on(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video,audio\ns,p,v.mkv,a.mkv\n")
    write_streams(tmp_path / "v.mkv", {"eng": VOICE, "fra": VOICE})
    write_streams(tmp_path / "a.mkv", {"eng": NOTHING, "fra": VOICE}, pictures=2)
    study, _ = check_study(tmp_path, ExtractorsSettings())
    assert unlike([remark for remark in study.remarks if ".mkv" in remark], ("a.mkv", "2 sound streams")) == []
