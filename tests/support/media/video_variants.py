"""Videos of every codec and container that a lab may have, made by FFmpeg's command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

WIDTH, HEIGHT = 96, 80


def ffmpeg(*arguments: str | Path) -> bytes:
    """The operating system's FFmpeg: another build and version than those of the Python packages."""
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@dataclass(frozen=True)
class Variant:
    """How a video is made, and how far the conversion of its pixel format to RGB may differ between versions of FFmpeg.

    Attributes:
        name: of the file; its suffix is the container.
        options: of the encoder.
        mean: the largest mean difference of a frame, of 256 levels.
        frames: that come out; 36 go in.
        fps: of the frames.
    """

    name: str
    options: str
    mean: float = 0.02
    frames: int = 36
    fps: Fraction = Fraction(25)


PROGRESSIVE = [
    Variant("mpeg4.avi", "-c:v mpeg4"),
    Variant("mpeg4_b.avi", "-c:v mpeg4 -bf 2"),
    Variant("divx_b.avi", "-c:v mpeg4 -bf 2 -vtag DIVX"),
    Variant("dx50_b.avi", "-c:v mpeg4 -bf 2 -vtag DX50"),
    Variant("xvid.avi", "-c:v libxvid"),
    Variant("xvid_packed_b.avi", "-c:v libxvid -bf 2", frames=34),  # this encoder swallows two
    Variant("x264.avi", "-c:v libx264"),
    Variant("x264_no_b.avi", "-c:v libx264 -bf 0"),
    Variant("mjpeg.avi", "-c:v mjpeg -q:v 3 -pix_fmt yuvj420p"),
    Variant("huffyuv.avi", "-c:v huffyuv -pix_fmt yuv422p"),
    Variant("ffv1.avi", "-c:v ffv1"),
    Variant("uncompressed.avi", "-c:v rawvideo -pix_fmt bgr24"),
    Variant("i420.avi", "-c:v rawvideo -pix_fmt yuv420p"),
    Variant("uyvy.avi", "-c:v rawvideo -pix_fmt uyvy422", mean=0.6),
    Variant("msmpeg4.avi", "-c:v msmpeg4"),
    Variant("cinepak.avi", "-c:v cinepak"),
    Variant("x264.mp4", "-c:v libx264"),
    Variant("bt709.mp4", "-c:v libx264 -vf scale=out_color_matrix=bt709,format=yuv420p -colorspace bt709"),
    Variant("full_range.mp4", "-c:v libx264 -vf scale=out_range=full,format=yuvj420p -color_range pc"),
    Variant("x265.mp4", "-c:v libx265 -x265-params log-level=none"),
    Variant("mpeg4.mp4", "-c:v mpeg4"),
    Variant("x264.mkv", "-c:v libx264"),
    Variant("x264_444.mkv", "-c:v libx264 -pix_fmt yuv444p"),
    Variant("x264_422_10.mkv", "-c:v libx264 -pix_fmt yuv422p10le", mean=5.0),
    Variant("ffv1.mkv", "-c:v ffv1"),
    Variant("vp8.webm", "-c:v libvpx"),
    Variant("vp9.webm", "-c:v libvpx-vp9"),
    Variant("av1.mkv", "-c:v libsvtav1 -preset 10"),
    Variant("mjpeg.mov", "-c:v mjpeg -q:v 3 -pix_fmt yuvj422p"),
    Variant("prores.mov", "-c:v prores_ks -pix_fmt yuv422p10le", mean=0.6),
    Variant("png.mov", "-c:v png -pix_fmt rgb24"),
    Variant("mpeg1.mpg", "-c:v mpeg1video"),
    Variant("mpeg2.mpg", "-c:v mpeg2video"),
    Variant("mpeg2_b.ts", "-c:v mpeg2video -bf 2"),
    Variant("x264.ts", "-c:v libx264"),
    Variant("wmv2.wmv", "-c:v wmv2"),
    Variant("flv1.flv", "-c:v flv"),
    Variant("theora.ogv", "-c:v libtheora"),
    Variant("x264.3gp", "-c:v libx264"),
]

LACED = "-flags +ildct+ilme"
INTERLACED = [
    Variant("dv.avi", "-c:v dvvideo -s 720x576 -pix_fmt yuv420p", mean=1.0),
    Variant("dv.dv", "-c:v dvvideo -s 720x576 -pix_fmt yuv420p", mean=1.0),
    Variant("dv_ntsc.avi", "-c:v dvvideo -s 720x480 -pix_fmt yuv411p", mean=4.0, fps=Fraction(30_000, 1001)),
    Variant("mpeg2_top.mpg", f"-c:v mpeg2video {LACED} -top 1", mean=1.0),
    Variant("mpeg2_bottom.ts", f"-c:v mpeg2video {LACED} -top 0", mean=1.0),
    Variant("mpeg4_top.avi", f"-c:v mpeg4 {LACED} -top 1", mean=1.0),
    Variant("mpeg4_b_bottom.avi", f"-c:v mpeg4 -bf 2 {LACED} -top 0", mean=1.0),
    Variant("x264_top.mp4", "-c:v libx264 -x264opts tff=1", mean=1.0),
    Variant("x264_bottom.mkv", "-c:v libx264 -x264opts bff=1", mean=1.0),
    Variant("x264_top.avi", "-c:v libx264 -x264opts tff=1", mean=1.0),
    Variant("ffv1_top.mkv", f"-c:v ffv1 {LACED} -top 1 -pix_fmt yuv422p", mean=1.0),
    Variant("prores_top.mov", "-c:v prores_ks -flags +ildct -top 1 -pix_fmt yuv422p10le", mean=1.0),
]


def make(folder: Path, variant: Variant, *, interlaced: bool = False) -> Path:
    """36 frames of a moving pattern of many colours; interlaced: each of two moments."""
    path = folder / variant.name
    fields = ["-vf", "interlace=scan=tff:lowpass=off"] if interlaced else []
    rate = variant.fps * (2 if interlaced else 1)
    source = f"testsrc2=size={WIDTH}x{HEIGHT}:rate={rate}"
    options = variant.options.split()
    pixels = [] if {"-pix_fmt", "-vf"} & set(options) else ["-pix_fmt", "yuv420p"]
    length = ["-t", str(float(36 / variant.fps))]
    ffmpeg("-f", "lavfi", "-i", source, *fields, *length, *pixels, "-q:v", "3", *options, path)
    return path
