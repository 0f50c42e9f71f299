"""``check`` names the streams of a recording that has several, and channels in which nothing is heard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.media.recordings import write_streams, write_two_cameras
from support.messages import unlike

from storyframes.features import OPENFACE_COLUMNS
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.study_check import check_study

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


def test_the_sound_that_the_configuration_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video,audio\ns,p,v.mkv,a.mkv\n")
    write_streams(tmp_path / "v.mkv", {"eng": VOICE})
    write_streams(tmp_path / "a.mkv", {"eng": VOICE, "fra": np.hstack([VOICE, NOTHING])})
    study, found = check_study(tmp_path, ExtractorsSettings(recording={"sound_stream": 1}))
    remarks = [remark for remark in study.remarks if ".mkv" in remark]
    assert unlike(remarks, ("a.mkv", "1: pcm_s16le, 2 channels", "1 is read"), ("a.mkv", "channel 2 is silent")) == []
    assert found == []
    _, found = check_study(tmp_path, ExtractorsSettings(recording={"sound_stream": 2}))
    assert unlike(found, ("a.mkv", "sound_stream = 2", "0 to 1")) == []


def test_a_sound_stream_that_a_video_does_not_have_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video\ns,p,v.mkv\n")
    write_streams(tmp_path / "v.mkv", {"eng": VOICE, "fra": VOICE})
    study, found = check_study(tmp_path, ExtractorsSettings(recording={"sound_stream": 2}))
    assert unlike(found, ("v.mkv", "sound_stream = 2", "0 to 1")) == []
    remarks = [remark for remark in study.remarks if "v.mkv" in remark]
    assert unlike(remarks, ("v.mkv", "0: pcm_s16le", "1: pcm_s16le", "no stream 2")) == []


def test_the_picture_that_the_configuration_names_is_checked(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video,openface\ns,p,both.mkv,f.csv\n")
    write_two_cameras(tmp_path)
    table = pd.DataFrame(0.0, index=range(9), columns=list(OPENFACE_COLUMNS))
    table["frame"], table["timestamp"] = np.arange(9) + 1, np.arange(9) / 5
    table.to_csv(tmp_path / "f.csv", index=False)

    def remarks(**recording: int) -> list[str]:
        study, _ = check_study(tmp_path, ExtractorsSettings(recording=recording))
        return [remark for remark in study.remarks if "both.mkv" in remark or "f.csv" in remark]

    named = ("both.mkv", "2 video", "0: ffv1 64x48", "1: ffv1 80x32")
    assert unlike(remarks(), (*named, "stream 0 is read", "video_stream = 1"), ("f.csv", "1.60 s", "0.80 s")) == []
    assert unlike(remarks(video_stream=1), (*named, "stream 1 is read")) == []
    assert unlike(remarks(video_stream=2), (*named, "no stream 2")) == []
    _, found = check_study(tmp_path, ExtractorsSettings(recording={"video_stream": 2}))
    assert unlike(found, ("both.mkv", "video_stream = 2", "0 to 1")) == []


@pytest.mark.parametrize("cut", [700, 3000, 60_000])
def test_a_recording_that_breaks_off_is_still_checked(tmp_path: Path, cut: int) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video\ns,p,v.mkv\n")
    path = write_streams(tmp_path / "v.mkv", {"eng": np.hstack([NOTHING, VOICE]), "fra": VOICE})
    content = bytearray(path.read_bytes())
    content[-cut:-200] = bytes(cut - 200)
    path.write_bytes(content[:-100])
    study, _ = check_study(tmp_path, ExtractorsSettings())
    assert unlike([remark for remark in study.remarks if "v.mkv: has" in remark], ("v.mkv", "2 sound streams")) == []
