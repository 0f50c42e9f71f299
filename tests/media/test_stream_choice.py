"""Of several pictures in a file the chosen one is read, as if it were the only one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.media.recordings import write_recording, write_streams, write_two_cameras
from support.messages import naming

from tasks.media.container import FIRST_STREAMS, RecordingError, StreamChoice
from tasks.media.recording import file_for_tools, read_frame_times, read_frames
from tasks.media.sound import find_clipped, read_audio, sound_s
from tasks.media.video_header import estimated_frames, first_packet_times, promised_length_s, read_header, read_rate
from tasks.planning.sample import cut_recording

SECOND = StreamChoice(video=1, sound=1)


def pictures(path: Path, streams: StreamChoice = FIRST_STREAMS) -> np.ndarray:
    return np.concatenate([batch.rgb for batch in read_frames(path, 4, streams=streams)])


def test_the_chosen_picture_is_read_as_if_it_were_the_only_one(tmp_path: Path) -> None:
    both, second = write_two_cameras(tmp_path)
    header = read_header(both, SECOND)
    assert (header.width, header.height, header.start_s, header.is_default) == (80, 32, 0.3, False)
    np.testing.assert_array_equal(pictures(both, SECOND), pictures(second))
    expected = read_frame_times(second).time
    np.testing.assert_array_equal(read_frame_times(both, streams=SECOND).time, expected)
    np.testing.assert_allclose(expected, 0.2 * np.arange(9), atol=1e-9)
    np.testing.assert_array_equal(first_packet_times(both, SECOND), first_packet_times(second))
    for measured in (promised_length_s, read_rate):
        assert measured(both, SECOND) == measured(second)
        assert measured(both, SECOND) != measured(both)
    assert [estimated_frames(both, 2.0, streams) for streams in (FIRST_STREAMS, SECOND)] == [20, 9]


def test_a_program_that_opens_the_file_gets_a_copy_of_the_chosen_picture(tmp_path: Path) -> None:
    both, second = write_two_cameras(tmp_path)
    with file_for_tools(both) as opened:
        assert opened == both
    with file_for_tools(both, streams=SECOND) as copy:
        np.testing.assert_array_equal(pictures(copy), pictures(second))
    with file_for_tools(second, streams=SECOND) as opened:
        assert opened == second


def test_a_sample_has_the_chosen_picture_and_sound(tmp_path: Path) -> None:
    loud, soft = np.full((16_000, 1), 9000), np.full((16_000, 1), 300)
    both, second = write_two_cameras(tmp_path, {"eng": loud, "fra": soft})
    cut_recording(both, tmp_path / "cut.mkv", 0.9, SECOND)
    cut_recording(second, tmp_path / "of_second.mkv", 0.9, SECOND)
    np.testing.assert_array_equal(pictures(tmp_path / "cut.mkv"), pictures(tmp_path / "of_second.mkv"))
    sounds = [
        np.concatenate([block.samples for block in read_audio(path, 16_000, streams=SECOND)])
        for path in (tmp_path / "cut.mkv", both)
    ]
    np.testing.assert_array_equal(*sounds)
    assert not SECOND.are_first(both)
    assert SECOND.are_first(tmp_path / "cut.mkv")


def test_a_picture_that_a_file_does_not_have_is_an_error_and_the_only_one_is_always_read(tmp_path: Path) -> None:
    both, _ = write_two_cameras(tmp_path)
    with pytest.raises(RecordingError, match=naming("both.mkv", "video_stream = 2", "0 to 1")):
        read_header(both, StreamChoice(video=2))
    only = write_recording(tmp_path / "only.mkv", 5)
    assert read_header(only, StreamChoice(video=2)) == read_header(only)


def test_the_chosen_sounds_length_and_clipping_are_measured(tmp_path: Path) -> None:
    clipped = np.zeros((32_000, 1))
    clipped[16_000:16_010] = 32_767
    path = write_streams(tmp_path / "a.mkv", {"eng": np.zeros((16_000, 1)), "fra": clipped})
    assert [sound_s(path), sound_s(path, SECOND)] == [1.0, 2.0]
    assert find_clipped(path) == ()
    assert np.ravel(find_clipped(path, streams=SECOND)) == pytest.approx([1.0, 1.0], abs=0.002)
