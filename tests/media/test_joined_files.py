"""A recording in several files is read as if it had never been cut: rows, times, pixels and sound."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from support.media.recordings import write_recording, write_wave
from support.messages import naming

from flows.one_file import is_several
from storyframes.store.storage.files import sha256_file
from tasks.media.container import RecordingError, open_container, recording_digest, recording_files, recording_state
from tasks.media.recording import FrameTimes, RecordingReader, file_for_tools, read_frame_times
from tasks.media.sound import find_clipped, read_audio, sound_length_s, sound_s
from tasks.media.video_header import TruncatedError, estimated_frames, promised_length_s, read_header
from tasks.planning.sample import cut_recording

RATE = 48_000
FRAMES, CUT_AT = 60, 30  # at 30 frames a second, with a keyframe every 10
OPTIONS = {"g": "10", "x264-params": "scenecut=0:open-gop=0", "deadline": "realtime", "cpu-used": "8"}


def write_whole(path: Path, codec: str, sound_codec: str, seed: int = 1) -> Path:
    """Noise in picture and sound, in which no two frames and no two packets are alike, clipped at second 1."""
    random = np.random.default_rng(seed)
    with av.open(str(path), "w") as container:
        picture: Any = container.add_stream(codec, rate=30, options=OPTIONS)
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        layout = "stereo" if sound_codec == "vorbis" else "mono"
        sound: Any = container.add_stream(sound_codec, rate=RATE, layout=layout)
        sound.codec_context.options = {"strict": "experimental"}
        samples = (random.normal(0, 3000, FRAMES * RATE // 30)).astype(np.int16)
        samples[RATE - 10 : RATE + 10] = 32_767
        for number in range(FRAMES):
            image = random.integers(0, 255, (48, 64, 3), dtype=np.uint8)
            container.mux(picture.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
            piece = samples[number * RATE // 30 : (number + 1) * RATE // 30][None]
            block = av.AudioFrame.from_ndarray(piece, "s16", "mono")
            block.sample_rate, block.pts = RATE, number * RATE // 30
            container.mux(sound.encode(block))
        container.mux(picture.encode(None))
        container.mux(sound.encode(None))
    return path


def cut_in_two(whole: Path) -> Path:
    """Copy the packets into two files, as a camera that begins a new one; the path of both."""
    paths = [whole.with_name(f"{name}{whole.suffix}") for name in ("a", "b")]
    numbers, cut_s = 0, CUT_AT / 30
    with av.open(str(whole)) as container, av.open(str(paths[0]), "w") as one, av.open(str(paths[1]), "w") as two:
        targets = [
            {each.index: file.add_stream_from_template(each) for each in container.streams} for file in (one, two)
        ]
        packet: Any
        for packet in container.demux():
            if not packet.size:
                continue
            is_second = packet.pts is not None and float(packet.pts * packet.time_base) >= cut_s - 1e-9
            if packet.stream.type == "video":
                is_second = numbers >= CUT_AT
                numbers += 1
            shift = round(cut_s / packet.time_base) if is_second else 0
            packet.pts, packet.dts = (None if time is None else time - shift for time in (packet.pts, packet.dts))
            packet.stream = targets[is_second][packet.stream.index]
            (two if is_second else one).mux(packet)
    return whole.with_name("+".join(path.name for path in paths))


def read(path: Path) -> tuple[np.ndarray, FrameTimes]:
    reader = RecordingReader(path, 7)
    pictures = np.concatenate([batch.rgb for batch in reader.batches()])
    return pictures, reader.times


def heard(path: Path, zero_s: float | None = 0.0) -> np.ndarray:
    return np.concatenate([block.samples for block in read_audio(path, RATE, zero_s)])


@pytest.mark.parametrize(
    ("suffix", "codec", "sound_codec"),
    [
        ("mp4", "libx264", "aac"),
        ("ts", "libx264", "mp2"),
        ("mkv", "libx264", "pcm_s16le"),
        ("avi", "libx264", "pcm_s16le"),
        ("mkv", "ffv1", "flac"),
    ],
)
def test_a_recording_that_was_cut_at_a_keyframe_is_read_as_the_uncut_one(
    tmp_path: Path, suffix: str, codec: str, sound_codec: str
) -> None:
    whole = write_whole(tmp_path / f"whole.{suffix}", codec, sound_codec)
    joined = cut_in_two(whole)
    (pictures, times), (expected, expected_times) = read(joined), read(whole)
    np.testing.assert_array_equal(pictures, expected)
    np.testing.assert_array_equal(np.rint(times.time * 1e6), np.rint(expected_times.time * 1e6))
    np.testing.assert_array_equal(heard(joined), heard(whole))
    np.testing.assert_allclose(find_clipped(joined, 0.0), find_clipped(whole, 0.0), atol=0.001)
    assert (times.truncated, times.longer_s) == (False, 0.0)
    for measured in (promised_length_s, sound_s, lambda path: estimated_frames(path, 2.0)):
        assert measured(joined) == pytest.approx(measured(whole), abs=0.05)
    with file_for_tools(joined) as copy:
        np.testing.assert_array_equal(read(copy)[0], expected)


@pytest.mark.parametrize(
    ("suffix", "codec", "sound_codec"),
    [
        ("mp4", "libx264", "aac"),
        ("mkv", "libx264", "libmp3lame"),
        ("mkv", "libx264", "libopus"),
        pytest.param("ogg", "libvpx", "vorbis", marks=pytest.mark.slow),
    ],
)
def test_files_that_were_encoded_apart_are_heard_as_each_by_itself(
    tmp_path: Path, suffix: str, codec: str, sound_codec: str
) -> None:
    """What an encoder adds before and after the sound is skipped in each, and moves no picture."""
    files = [write_whole(tmp_path / f"{name}.{suffix}", codec, sound_codec, seed) for seed, name in enumerate("ab")]
    joined = tmp_path / "+".join(file.name for file in files)
    np.testing.assert_array_equal(heard(joined), np.concatenate([heard(file) for file in files]))
    times = read_frame_times(joined)
    np.testing.assert_allclose(times.time, np.arange(2 * FRAMES) / 30, atol=0.002)
    assert times.longer_s == 0


def two_parts(folder: Path, first_sound_s: float) -> Path:
    """Two files of a second of pictures, the first with so much sound; the sound of each is its own number."""
    for number, (name, length_s) in enumerate([("a.mkv", first_sound_s), ("b.mkv", 1.0)], 1):
        write_recording(folder / name, 25, np.full((round(length_s * RATE), 1), number * 1000), RATE)
    return folder / "a.mkv+b.mkv"


def levels(path: Path) -> list[tuple[int, int]]:
    """The sound's values, and how many samples have each, in order."""
    values = np.rint(heard(path) * 32_768).astype(int)
    edges = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
    return [(int(values[at]), int(count)) for at, count in zip(edges, np.diff(edges, append=len(values)), strict=True)]


def test_sound_that_is_longer_than_the_picture_moves_the_next_file(tmp_path: Path) -> None:
    joined = two_parts(tmp_path, 1.5)
    times = read_frame_times(joined)
    np.testing.assert_allclose(times.time, [*(np.arange(25) / 25), *(1.5 + np.arange(25) / 25)], atol=0.002)
    assert times.longer_s == pytest.approx(0.5, abs=0.002)
    assert levels(joined) == [(1000, 72_000), (2000, 48_000)]


def test_where_sound_is_missing_before_the_next_file_there_is_silence(tmp_path: Path) -> None:
    joined = two_parts(tmp_path, 0.7)
    np.testing.assert_allclose(read_frame_times(joined).time, np.arange(50) / 25, atol=1e-9)
    assert levels(joined) == [(1000, 33_600), (0, 14_400), (2000, 48_000)]
    assert sum(block.silence_s for block in read_audio(joined, RATE)) == pytest.approx(0.3)


@pytest.mark.parametrize("overlap_s", [0.03, -0.03])
def test_sound_that_overlaps_by_more_than_a_packet_is_cut_to_the_sample(tmp_path: Path, overlap_s: float) -> None:
    """Less than 0.05 s is taken for rounding within a file, and would put all that follows out of time here."""
    joined = two_parts(tmp_path, 1.0 + overlap_s)
    assert sum(count for _, count in levels(joined)) == 96_000
    np.testing.assert_allclose(read_frame_times(joined).time, np.arange(50) / 25, atol=1e-9)


def test_sound_files_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    pieces = [np.random.default_rng(part).integers(-9000, 9000, 7777).astype(np.int16) for part in range(3)]
    for number, piece in enumerate(pieces):
        write_wave(tmp_path / f"{number}.wav", piece, RATE)
    joined = tmp_path / "0.wav+1.wav+2.wav"
    np.testing.assert_array_equal(heard(joined, None) * 32_768, np.concatenate(pieces))
    assert sound_length_s(joined) == pytest.approx(3 * 7777 / RATE, abs=1e-4)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"rate": 16_000}, ("b.mkv", "a.mkv", "16000 Hz", "48000 Hz")),
        ({"codec": "aac"}, ("b.mkv", "a.mkv", "aac", "pcm_s16le")),
        ({"sound": None}, ("b.mkv", "a.mkv", "streams")),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, other: dict[str, Any], named: tuple[str, ...]) -> None:
    sound = np.full((RATE, 1), 1000)
    write_recording(tmp_path / "a.mkv", 5, sound, RATE)
    write_recording(tmp_path / "b.mkv", 5, **({"sound": sound, "rate": RATE} | other))
    with pytest.raises(RecordingError, match=naming(*named)):
        open_container(tmp_path / "a.mkv+b.mkv")


def test_a_file_that_is_cut_is_refused_where_another_follows(tmp_path: Path) -> None:
    """Also where truncated recordings are allowed: the times of all that follows would be wrong."""
    joined = two_parts(tmp_path, 1.0)
    first = tmp_path / "a.mkv"
    first.write_bytes(first.read_bytes()[:-2000])
    with pytest.raises(TruncatedError, match=naming("a.mkv", "b.mkv")):
        read_frame_times(joined, allow_truncated=True)


def test_a_sound_file_that_is_cut_is_refused_where_another_follows(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        write_wave(tmp_path / name, np.full((RATE, 1), 1000), RATE)
    joined, first, last = tmp_path / "a.wav+b.wav", tmp_path / "a.wav", tmp_path / "b.wav"
    last.write_bytes(last.read_bytes()[:-2000])
    assert sound_s(joined) == pytest.approx(2, abs=0.03)
    piped = first.read_bytes()
    first.write_bytes(piped[:4] + b"\xff" * 4 + piped[8:])  # the length of a WAV that was written to a pipe
    assert sound_s(joined) == pytest.approx(2, abs=0.03)
    first.write_bytes(piped[:-2000])
    for read_sound in (heard, sound_s, find_clipped):
        with pytest.raises(TruncatedError, match=naming("a.wav", "b.wav")):
            read_sound(joined)


def test_a_file_that_begins_without_a_keyframe_is_refused(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        picture: Any = container.add_stream("mpeg4", rate=25, options={"g": "100", "sc_threshold": "1000000000"})
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        for _ in range(6):
            container.mux(picture.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), "rgb24")))
        container.mux(picture.encode(None))
    with av.open(str(tmp_path / "a.mkv")) as whole, av.open(str(tmp_path / "b.mkv"), "w") as cut:
        target = cut.add_stream_from_template(whole.streams.video[0])
        packet: Any
        for packet in list(whole.demux())[3:]:
            if packet.size:
                packet.stream = target
                cut.mux(packet)
    with pytest.raises(RecordingError, match="keyframe"):
        read_frame_times(tmp_path / "a.mkv+b.mkv")


def test_a_sample_goes_on_in_the_next_file(tmp_path: Path) -> None:
    joined = two_parts(tmp_path, 1.0)
    cut_recording(joined, tmp_path / "cut.mkv", 1.4)
    np.testing.assert_allclose(read_frame_times(tmp_path / "cut.mkv", allow_truncated=True).time[-1], 1.36, atol=0.001)
    assert not read_header(joined).is_default


def test_a_change_of_any_file_is_a_change_of_the_recording(tmp_path: Path) -> None:
    joined = two_parts(tmp_path, 1.0)
    before = recording_state(joined), recording_digest(joined, sha256_file)
    second = tmp_path / "b.mkv"
    second.write_bytes(second.read_bytes()[:-1] + b"x")
    assert recording_state(joined) != before[0]
    assert recording_digest(joined, sha256_file) != before[1]
    assert recording_digest(second, sha256_file) == sha256_file(second)


def test_files_that_are_exchanged_or_all_of_another_time_are_a_change_of_the_recording(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("a.mkv", "b.mkv"))
    states = []
    for times in ((1, 2), (2, 1), (3, 3), (4, 4)):
        for path, time_ns in zip((first, second), times, strict=True):
            path.write_bytes(b"x")
            os.utime(path, ns=(0, time_ns * 10**18))
        states.append(recording_state(tmp_path / "a.mkv+b.mkv"))
    assert len({*states}) == len(states)
    assert all(0 <= time_ns < 2**63 for _, time_ns in states)
    assert recording_state(second) == (1, second.stat().st_mtime_ns)


def test_a_file_of_that_very_name_is_one_file(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "a.mkv+b.mkv", 3)
    assert recording_files(path) == [path]
    assert len(read_frame_times(path).time) == 3
    assert recording_files(tmp_path / "C++ and D+.mkv") == [tmp_path / "C++ and D+.mkv"]


def test_joined_names_may_be_longer_than_a_file_s_name(tmp_path: Path) -> None:
    names = [f"{number}{'n' * 100}.mkv" for number in range(3)]
    joined = tmp_path / "+".join(names)
    assert recording_files(joined) == [tmp_path / name for name in names]
    assert not is_several(joined)
