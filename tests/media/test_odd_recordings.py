"""Recordings that are cut, trimmed, turned, damaged or misread: nothing of them gets into a store in silence."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.reformatter import ColorPrimaries, ColorTrc
from support.media.recordings import write_video
from support.media.video_variants import ffmpeg
from support.messages import naming

from tasks.media.container import RecordingError
from tasks.media.recording import RecordingReader, read_frame_times, read_frames
from tasks.media.video_header import TruncatedError, read_header

PATTERN = ("-f", "lavfi", "-i", "testsrc2=size=96x80:rate=25")


def numbers(path: Path) -> np.ndarray:
    """Which frame each is: the videos of ``write_video`` are of grey level 4 i."""
    levels = np.concatenate([batch.rgb for batch in read_frames(path, 8, allow_truncated=True)]).mean(axis=(1, 2, 3))
    return np.rint(levels / 4).astype(int)


# --- AVI with B-frames -----------------------------------------------------------------------------------------------


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("options", ["-c:v mpeg4 -bf 2", "-c:v mpeg4 -bf 1 -vtag XVID", "-c:v libx264", "-c:v libxvid"])
def test_frames_that_the_recorder_of_an_avi_with_b_frames_dropped(tmp_path: Path, options: str) -> None:
    """Of those up to 40 one in seven is left out at its source; the times of the others stay theirs."""
    path, kept = tmp_path / "v.avi", np.array([number for number in range(50) if number % 7 != 5 or number > 40])
    drop = ["-vf", "select=not(eq(mod(n\\,7)\\,5))+gt(n\\,40)", "-fps_mode", "passthrough", "-enc_time_base", "1/25"]
    ffmpeg(*PATTERN, "-t", "2", *drop, "-pix_fmt", "yuv420p", *options.split(), path)
    times = read_frame_times(path)
    np.testing.assert_allclose(times.time, kept / 25, atol=1e-9)
    assert not times.truncated


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize(
    ("container", "video"),
    [
        *[("avi", codec) for codec in ("libx264", "mpeg4", "mpeg4 -bf 2", "libxvid", "libxvid -bf 2", "mjpeg")],
        *[("mp4", "libx264"), ("mov", "mpeg4"), ("mkv", "libx264"), ("ts", "libx264"), ("mpg", "mpeg2video -bf 2")],
        *[("flv", "flv"), ("wmv", "wmv2")],
    ],
)
def test_the_container_says_when_its_first_frame_is_shown(tmp_path: Path, container: str, video: str) -> None:
    """A flash and a click of the same moment are at the same second, counted from the first frame, B-frames or not."""
    path = tmp_path / f"v.{container}"
    flash = "color=black:size=96x80:rate=25:duration=3,drawbox=color=white:t=fill:enable=between(n\\,50\\,51)"
    click = "aevalsrc=if(between(t\\,2\\,2.08)\\,sin(2500*t)\\,0):sample_rate=16000:duration=3"
    sound = {"avi": "pcm_s16le", "mkv": "pcm_s16le", "flv": "libmp3lame", "wmv": "wmav2", "mpg": "mp2", "ts": "mp2"}
    rate = ["-ar", "44100" if container == "flv" else "48000"]
    codecs = [
        "-pix_fmt",
        "yuvj420p" if video == "mjpeg" else "yuv420p",
        "-c:v",
        *video.split(),
        "-c:a",
        sound.get(container, "aac"),
        "-ac",
        "1",
        *rate,
    ]
    ffmpeg("-f", "lavfi", "-i", flash, "-f", "lavfi", "-i", click, *codecs, path)
    frames = np.concatenate([batch.rgb for batch in read_frames(path, 16)])
    flash_s = read_frame_times(path).time[int(np.argmax(frames.mean(axis=(1, 2, 3)) > 128))]
    assert flash_s == pytest.approx(2.0, abs=0.002)
    with av.open(str(path)) as opened:
        for block in opened.decode(audio=0):
            samples = np.abs(block.to_ndarray().astype(float))
            loud = np.flatnonzero(samples.max(axis=0) > (0.25 if "flt" in block.format.name else 8000))
            if len(loud):
                click_s = block.time + loud[0] / block.sample_rate
                break
    assert click_s - read_header(path).start_s == pytest.approx(2.0, abs=0.005)


# --- edit lists ------------------------------------------------------------------------------------------------------


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("suffix", ["mp4", "mov"])
@pytest.mark.parametrize("options", ["-c:v libx264 -g 25", "-c:v libx264 -bf 0 -g 25", "-c:v mpeg4 -g 12"])
@pytest.mark.parametrize("part", ["-ss 0.5", "-ss 0.52 -t 0.9", "-t 1.3"])
def test_a_video_that_was_trimmed_without_coding_it_again(tmp_path: Path, suffix: str, options: str, part: str) -> None:
    whole, path = tmp_path / "whole.mp4", tmp_path / f"v.{suffix}"
    ffmpeg(*PATTERN, "-t", "2", "-pix_fmt", "yuv420p", *options.split(), whole)
    ffmpeg(*part.split(), "-i", whole, "-c", "copy", path)
    shown = ffmpeg("-i", path, "-f", "rawvideo", "-pix_fmt", "bgr24", "-fps_mode", "passthrough", "-")
    expected = np.frombuffer(shown, np.uint8).reshape(-1, 80, 96, 3)[..., ::-1]
    rgb = np.concatenate([batch.rgb for batch in read_frames(path, 16)])
    np.testing.assert_array_equal(rgb.shape, expected.shape)
    assert np.abs(rgb.astype(np.int16) - expected).max() <= 2
    times = read_frame_times(path)
    assert (len(times.time), times.truncated, times.time[0]) == (len(expected), False, 0.0)
    assert read_header(path).promised_frames == len(expected)


@pytest.mark.needs("ffmpeg")
def test_a_trimmed_video_that_is_cut_off_is_still_noticed(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.mp4", tmp_path / "v.mp4"
    ffmpeg(*PATTERN, "-t", "2", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-g", "25", whole)
    ffmpeg("-ss", "0.5", "-i", whole, "-c", "copy", "-movflags", "+faststart", path)
    path.write_bytes(path.read_bytes()[:-700])
    with pytest.raises(TruncatedError, match=naming("v.mp4", "37 frames")):
        read_frame_times(path)


# --- cut off and damaged ---------------------------------------------------------------------------------------------


def packets(path: Path) -> list[tuple[int, int]]:
    """Where each frame's bytes lie in the file, and how many there are."""
    with av.open(str(path)) as container:
        return [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("lost", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("suffix", ["avi", "mkv", "mp4", "fragments.mp4"])
def test_a_file_that_lost_its_last_frames(tmp_path: Path, suffix: str, lost: int) -> None:
    path = tmp_path / f"v.{suffix}"
    layout = {"mp4": "+faststart", "fragments.mp4": "+frag_keyframe+empty_moov"}.get(suffix)
    flags = ["-movflags", layout] if layout else []
    ffmpeg(*PATTERN, "-t", "4", "-pix_fmt", "yuv420p", "-c:v", "mpeg4", "-g", "5", *flags, path)
    whole = read_frame_times(path)
    position, size = packets(path)[-lost]
    assert len(whole.time) == 100
    path.write_bytes(path.read_bytes()[: position + size // 2])
    for read in (read_frame_times, lambda path: list(read_frames(path, 16))):
        with pytest.raises(TruncatedError, match=rf"v\.{suffix}: .*(promises|\d+ bytes|1 of its packets)"):
            read(path)
    rest = read_frame_times(path, allow_truncated=True)
    assert rest.truncated
    np.testing.assert_array_equal(rest.time, whole.time[: len(rest.time)])
    assert 100 - lost - 1 <= len(rest.time) <= 100 - lost + 1


def test_a_recorder_that_dropped_frames_at_the_end_is_told_from_a_file_that_was_cut(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.avi", "mpeg4", [0, 66, 133, 200, 400, 466, 600])
    assert not read_frame_times(path).truncated
    position, size = packets(path)[-1]
    path.write_bytes(path.read_bytes()[: position + size - 2])
    with pytest.raises(
        TruncatedError,
        match=r"v\.avi: .*(7 decode|1 of its packets)",
    ):
        read_frame_times(path)


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("suffix", ["avi", "mkv", "mp4"])
def test_a_first_frame_that_does_not_decode(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"v.{suffix}"
    ffmpeg(*PATTERN, "-t", "0.8", "-pix_fmt", "yuvj420p", "-c:v", "mjpeg", path)
    whole = next(read_frames(path, 20))
    content = bytearray(path.read_bytes())
    position, size = packets(path)[0]
    start = content.index(b"\xff\xd8", position)
    content[start : start + size - 8] = bytes(size - 8)
    path.write_bytes(content)
    with pytest.raises(TruncatedError, match=rf"v\.{suffix}: .*(20 frames, 19|1 of its packets)"):
        read_frame_times(path)
    times = read_frame_times(path, allow_truncated=True)
    np.testing.assert_allclose(times.time, whole.time[1:] - whole.time[1], atol=1e-9)
    assert times.truncated
    np.testing.assert_array_equal(next(read_frames(path, 20, allow_truncated=True)).rgb, whole.rgb[1:])
    assert read_header(path).start_s == pytest.approx(0.04, abs=1e-9)


@pytest.mark.needs("ffmpeg")
def test_a_broadcast_may_begin_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "v.ts"
    ffmpeg(*PATTERN, "-t", "2", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-g", "10", path)
    content = path.read_bytes()
    path.write_bytes(content[188 * (len(content) // 188 // 2) :])
    times = read_frame_times(path)
    assert 10 < len(times.time) < 40
    assert times.time[0] == 0.0
    assert sum(len(batch) for batch in read_frames(path, 16)) == len(times.time)


# --- beginning elsewhere than at a keyframe --------------------------------------------------------------------------


def without_first_packet(whole: Path, path: Path) -> Path:
    """The same video, of which the first packet of the picture is lost; nothing is coded again."""
    with av.open(str(whole)) as container, av.open(str(path), "w") as copy:
        stream = container.streams.video[0]
        target = copy.add_stream_from_template(stream)
        for packet in [packet for packet in container.demux(stream) if packet.size][1:]:
            packet.stream = target
            copy.mux(packet)
    return path


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("v.avi", "-c:v mpeg4"),
        ("v.avi", "-c:v mpeg4 -bf 2"),
        ("v.avi", "-c:v libxvid"),
        ("v.avi", "-c:v msmpeg4"),
        ("v.avi", "-c:v cinepak"),
        ("v.mp4", "-c:v mpeg4"),
        ("v.ts", "-c:v mpeg4"),
        ("v.wmv", "-c:v wmv2"),
        ("v.flv", "-c:v flv"),
    ],
)
def test_a_video_that_begins_with_the_changes_of_a_lost_picture_is_refused(
    tmp_path: Path, name: str, options: str
) -> None:
    """Of 39 frames the first 11 would be garbage, and FFmpeg and OpenCV show it alike."""
    path, suffix = tmp_path / name, Path(name).suffix
    source = (*PATTERN, "-t", "1.6", "-pix_fmt", "yuv420p", *options.split(), "-g", "12")
    ffmpeg(*source, tmp_path / f"whole{suffix}")
    without_first_packet(tmp_path / f"whole{suffix}", path)
    message = r"v\.\w+: does not begin with a keyframe, so its pictures up to the next one are garbage; cut them off"
    for read in (
        read_header,
        lambda path: read_frame_times(path, allow_truncated=True),
        lambda path: list(read_frames(path, 16, allow_truncated=True)),
    ):
        with pytest.raises(RecordingError, match=message):
            read(path)
    if "-bf" in options and suffix == ".avi":
        return  # FFmpeg's command guesses the times of its frames, and is some frames off
    with pytest.raises(RecordingError) as refused:
        read_header(path)
    second = re.search(r"ffmpeg -i VIDEO -ss ([\d.]+) -c", str(refused.value))[1]
    ffmpeg("-i", path, "-ss", second, "-c:v", "libx264", "-crf", "5", "-pix_fmt", "yuv420p", tmp_path / "rest.mp4")
    rest = next(read_frames(tmp_path / "rest.mp4", 40)).rgb.astype(np.int16)
    expected = next(read_frames(tmp_path / f"whole{suffix}", 40)).rgb
    assert 26 <= len(rest) <= 28
    assert np.abs(rest - expected[len(expected) - len(rest) :]).mean(axis=(1, 2, 3)).max() < 4


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize(
    ("name", "options"), [("v.mpg", "-c:v mpeg2video -g 12"), ("v.avi", "-c:v mjpeg -q:v 2"), ("v.mov", "-c:v png")]
)
def test_where_a_decoder_waits_for_a_whole_picture_the_rest_is_good(tmp_path: Path, name: str, options: str) -> None:
    whole = tmp_path / f"whole{Path(name).suffix}"
    pixels = {"mjpeg": "yuvj420p", "png": "rgb24"}.get(options.split()[1], "yuv420p")
    ffmpeg(*PATTERN, "-t", "1.6", "-pix_fmt", pixels, *options.split(), whole)
    rest = next(read_frames(without_first_packet(whole, tmp_path / name), 40)).rgb
    expected = next(read_frames(whole, 40)).rgb
    np.testing.assert_array_equal(rest, expected[len(expected) - len(rest) :])
    assert len(rest) >= 26


@pytest.mark.needs("ffmpeg")
def test_a_broadcast_that_renews_its_picture_bit_by_bit_has_no_keyframes(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.ts", tmp_path / "v.ts"
    refresh = ("-x264-params", "intra-refresh=1:keyint=20:bframes=0")
    ffmpeg(*PATTERN, "-t", "3", "-pix_fmt", "yuv420p", "-c:v", "libx264", *refresh, whole)
    content = whole.read_bytes()
    path.write_bytes(content[188 * (len(content) // 188 // 2) :])
    with av.open(str(path)) as container:
        assert not any(frame.key_frame for frame in container.decode(video=0))
    rest, expected = next(read_frames(path, 80)).rgb, next(read_frames(whole, 80)).rgb
    assert len(rest) >= 15
    np.testing.assert_array_equal(rest, expected[len(expected) - len(rest) :])


@pytest.mark.needs("ffmpeg")
def test_a_frame_that_the_decoder_calls_damaged_is_no_frame(tmp_path: Path) -> None:
    """All 50 decode, and the file is as long as it says: only the decoder knows."""
    path = tmp_path / "v.mkv"
    ffmpeg(*PATTERN, "-t", "2", "-pix_fmt", "yuv420p", "-c:v", "mpeg4", path)
    position, size = packets(path)[20]
    content = bytearray(path.read_bytes())
    content[position + size // 2 : position + size // 2 + 150] = b"\x55" * 150
    path.write_bytes(content)
    for read in (read_frame_times, lambda path: list(read_frames(path, 16))):
        with pytest.raises(TruncatedError, match=naming("1 of", "v.mkv")):
            read(path)
    times = read_frame_times(path, allow_truncated=True)
    assert (len(times.time), times.truncated) == (50, True)


@pytest.mark.needs("ffmpeg")
def test_a_change_of_size_in_mid_stream(tmp_path: Path) -> None:
    parts = []
    for number, size in enumerate(("96x80", "64x48")):
        parts.append(tmp_path / f"{number}.ts")
        source = ("-f", "lavfi", "-i", f"testsrc2=size={size}:rate=25")
        ffmpeg(*source, "-t", "1", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-output_ts_offset", number + 1, parts[-1])
    path = tmp_path / "v.ts"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    message = r"v\.ts: frame 26 is 64x48, the frames before it are 96x80"
    for read in (read_frame_times, lambda path: list(read_frames(path, 16))):
        with pytest.raises(RecordingError, match=message):
            read(path)


def test_frames_without_a_time_of_their_own(tmp_path: Path) -> None:
    """An MPEG program stream has a time for every block of bytes, not for every frame."""
    path = tmp_path / "v.mpg"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg1video", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(30):
            picture = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 4 * number, np.uint8), "rgb24")
            picture.pts, picture.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    np.testing.assert_allclose(read_frame_times(path).time, np.arange(30) / 25, atol=1e-4)
    np.testing.assert_array_equal(numbers(path), np.arange(30))


# --- decoding is the same every time ---------------------------------------------------------------------------------


def read_all(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The pictures and the times of what decodes, allowed to be truncated."""
    batches = list(read_frames(path, 16, allow_truncated=True))
    return np.concatenate([batch.rgb for batch in batches]), np.concatenate([batch.time for batch in batches])


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("v.avi", "-c:v mjpeg -pix_fmt yuvj420p"),
        ("v.mov", "-c:v prores_ks -pix_fmt yuv422p10le"),
        ("v.avi", "-c:v ffv1 -level 1 -g 1 -pix_fmt yuv420p"),
    ],
)
def test_a_picture_of_which_a_part_is_unwritten_memory_is_no_frame(tmp_path: Path, name: str, options: str) -> None:
    """These decoders leave what they cannot decode as it was in memory, which is another picture each time."""
    path = tmp_path / name
    ffmpeg(*PATTERN, "-t", "1.2", *options.split(), "-q:v", "3", path)
    whole, times = read_all(path)
    content = bytearray(path.read_bytes())
    for position, size in (packets(path)[number] for number in (9, 20)):
        start = position + size // 3
        content[start : start + size // 3] = np.random.default_rng(position).bytes(size // 3)
    path.write_bytes(content)
    with pytest.raises(TruncatedError, match=naming("28", path.name)):
        read_frame_times(path)
    kept = np.delete(np.arange(30), [9, 20])
    pictures, its_times = read_all(path)
    np.testing.assert_array_equal(its_times, times[kept])
    np.testing.assert_array_equal(pictures, whole[kept])


@pytest.mark.needs("ffmpeg")
def test_damaged_h264_is_what_ffmpeg_shows_in_one_thread(tmp_path: Path) -> None:
    path = tmp_path / "v.mkv"
    options = "-c:v libx264 -g 12 -x264-params slices=4 -pix_fmt yuv420p"
    ffmpeg(*PATTERN, "-t", "1.2", *options.split(), path)
    content = bytearray(path.read_bytes())
    position, size = packets(path)[14]
    content[position + size // 2 : position + size // 2 + 40] = bytes(40)
    path.write_bytes(content)
    conversion = ("-sws_flags", "bicubic", "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "bgr24", "-")
    shown = ffmpeg("-v", "fatal", "-threads", "1", "-i", path, *conversion)
    expected = np.frombuffer(shown, np.uint8).reshape(-1, 80, 96, 3)[..., ::-1]
    assert np.abs(read_all(path)[0].astype(np.int16) - expected).max() <= 2


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("fields", ["", "-x264opts tff=1"])
def test_reading_a_video_starts_no_threads(tmp_path: Path, fields: str) -> None:
    """Sixteen processes with a thread for each of sixteen processors are more than a machine allows."""
    path = tmp_path / "v.mp4"
    source = ("-f", "lavfi", "-i", "testsrc2=size=640x480:rate=25", "-frames:v", "8", "-pix_fmt", "yuv420p")
    ffmpeg(*source, "-c:v", "libx264", "-preset", "ultrafast", *fields.split(), path)
    before = len(list(Path("/proc/self/task").iterdir()))
    counts = [len(list(Path("/proc/self/task").iterdir())) for batch in read_frames(path, 4)]
    assert counts
    assert max(counts) <= before


@pytest.mark.slow
def test_opening_a_video_a_thousand_times_does_not_grow_the_process(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", "libx264", [0, 40, 80])
    resident = []
    for number in range(1100):
        next(read_frames(path, 1))
        if number in (100, 1099):
            status = Path("/proc/self/status").read_text()
            resident.append(int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]))
    assert resident[1] - resident[0] < 2_000, resident


# --- HDR, wide gamut and odd colours ---------------------------------------------------------------------------------

HDR = {
    "pq": "-colorspace bt2020nc -color_primaries bt2020 -color_trc smpte2084",
    "hlg": "-colorspace bt2020nc -color_primaries bt2020 -color_trc arib-std-b67",
    "bt2020": "-colorspace bt2020nc -color_primaries bt2020 -color_trc bt2020-10",
    "p3": "-colorspace bt709 -color_primaries smpte432 -color_trc bt709",
}


def write_hdr(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.mp4"
    codec = "-c:v libx265 -x265-params log-level=none -pix_fmt yuv420p10le"
    ffmpeg(*PATTERN, "-frames:v", "3", *codec.split(), *HDR[kind].split(), path)
    return path


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("kind", HDR)
def test_hdr_and_wide_gamut_are_noticed_and_their_coded_values_kept_on_request(tmp_path: Path, kind: str) -> None:
    path = write_hdr(tmp_path, kind)
    with av.open(str(path)) as opened:
        coded = next(opened.decode(video=0)).to_ndarray(format="bgr24", interpolation="BICUBIC", threads=1)
    reader = RecordingReader(path, 3, map_colours=False)
    (batch,) = reader.batches()
    assert reader.has_wide_colours
    np.testing.assert_array_equal(batch.rgb[0, ..., ::-1], coded)


@pytest.mark.slow
@pytest.mark.needs("ffmpeg")
def test_what_is_noticed_as_wide_is_mapped_to_bt709(tmp_path: Path) -> None:
    """By swscale's mapping, to the bit. Its tables take three seconds of a processor for each video and reader."""
    path = write_hdr(tmp_path, "pq")
    with av.open(str(path)) as opened:
        frame = next(opened.decode(video=0))
        mapping = {"dst_color_trc": ColorTrc.BT709, "dst_color_primaries": ColorPrimaries.BT709}
        mapped = frame.to_ndarray(format="bgr24", interpolation="BICUBIC", threads=1, **mapping)
        coded = frame.to_ndarray(format="bgr24", interpolation="BICUBIC", threads=1)
    reader = RecordingReader(path, 3)
    (batch,) = reader.batches()
    assert reader.has_wide_colours
    np.testing.assert_array_equal(batch.rgb[0, ..., ::-1], mapped)
    assert np.abs(mapped.astype(np.int16) - coded).mean() > 0.5


def test_an_ordinary_video_is_not_mapped(tmp_path: Path) -> None:
    reader = RecordingReader(write_video(tmp_path / "v.mp4", "libx264", [0, 40]), 2)
    assert list(reader.batches())
    assert not reader.has_wide_colours


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("v.mkv", "-c:v libx264 -pix_fmt yuv444p -colorspace ycgco", "YCgCo"),
        ("v.mkv", "-c:v libx264 -pix_fmt yuv444p -colorspace bt2020c", "constant luminance"),
        ("v.mov", "-c:v tiff -pix_fmt rgb24", "tiff"),
    ],
)
def test_colours_that_are_not_converted_are_named(tmp_path: Path, name: str, options: str, said: str) -> None:
    path = tmp_path / name
    ffmpeg(*PATTERN, "-frames:v", "3", *options.split(), path)
    with pytest.raises(RecordingError, match=naming(said, name)):
        list(read_frames(path, 3))
