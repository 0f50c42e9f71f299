"""A newcomer's recordings: twelve sessions as phones, Zoom, browsers, cameras and microphones write them, with labels.

Made by FFmpeg and espeak-ng. Nothing of them is prepared for storyframes: neither frame rates nor names nor codecs.
"""

from __future__ import annotations

import subprocess
from binascii import crc32
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from support.media.video_variants import ffmpeg

SECONDS = 12
SENTENCES = (
    "last summer my brother lost his work and came to live with us",
    "I did not know what to say so I only listened to him",
    "my grandmother taught me how to bake bread when I was six",
    "the night before the exam all of us sat in the kitchen and laughed",
)
# Frames that are left out make a variable rate: a phone's, a browser's, and a shared screen's with long holes.
_PHONE = "select='not(eq(mod(n,7),3))'"
_BROWSER = "select='not(eq(mod(n,5),1)+eq(mod(n,11),4))'"
_SCREEN = "select='lt(mod(n,75),45)+eq(mod(n,75),60)'"


@dataclass(frozen=True)
class Made:
    """How a recording is made.

    Attributes:
        name: of the file.
        video: options of its picture; none without one.
        sound: options of its sound; none without one.
        rate: frames per second that go in.
        keep: a filter of frames; all of them if empty.
        rotation: degrees that a player turns the stored picture by, clockwise.
    """

    name: str
    video: str = "-c:v libx264 -preset veryfast -bf 2 -pix_fmt yuv420p"
    sound: str = "-c:a aac"
    rate: int = 30
    keep: str = ""
    rotation: int = 0


RECORDINGS = (
    Made("p01_phone.mp4", keep=_PHONE, rotation=90),
    Made("p02_phone.mov", "-c:v libx265 -preset ultrafast -x265-params log-level=none -tag:v hvc1", rotation=270),
    Made("p03_zoom.mp4", rate=25),
    Made("p04_browser.webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8", "-c:a libopus", keep=_BROWSER),
    Made("p05_cam1.mp4", rate=25),
    Made("p05_cam2.mp4", sound="", rate=30),
    Made("p05_lapel.wav", video="", sound="-c:a pcm_s16le"),
    Made("p06_webcam.avi", "-c:v mjpeg -q:v 3 -pix_fmt yuvj420p", "-c:a pcm_s16le", rate=15),
    Made("p07_screen.mkv", sound="-c:a flac", keep=_SCREEN),
    Made("p08_fast.mp4", rate=48),
    Made("p09_slow.mp4", rate=5),
    Made("p10_voice.wav", video="", sound="-c:a pcm_s16le"),
    Made("p11_voice.m4a", video=""),
    Made("p12_silent.mp4", sound="", rate=20),  # not p05_cam2 again
)
SESSIONS = tuple(dict.fromkeys(made.name.partition("_")[0] for made in RECORDINGS))


def speak(path: Path, sentence: str, seconds: float = SECONDS) -> Path:
    """A sentence said by espeak-ng, from second 1 on, in a WAV file of 16 kHz and so many seconds."""
    spoken = path.with_suffix(".espeak.wav")
    subprocess.run(["espeak-ng", "-w", str(spoken), sentence], check=True, capture_output=True)
    ffmpeg("-i", spoken, "-af", f"adelay=1000,apad=whole_dur={seconds}", "-t", str(seconds), "-ar", "16000", path)
    spoken.unlink()
    return path


def record(folder: Path, made: Made, voice: Path, seconds: float = SECONDS) -> Path:
    """One recording of a moving pattern, 96 x 80 as it is stored, and a voice."""
    path = folder / made.name
    look = crc32(made.name.encode())  # no two recordings are the same
    pattern = f"testsrc2=size=96x80:rate={made.rate}:duration={seconds}"
    picture = [f"{pattern},hue=h={look % 360}:b={look // 360 % 100 / 50 - 1}"] if made.video else []
    options: list[str | Path] = []
    for source in picture:
        options += ["-f", "lavfi", "-i", source]
    if made.sound:
        options += ["-i", voice]
    if made.video:
        options += ["-vf", made.keep, "-vsync", "vfr"] if made.keep else []
        options += made.video.split()
    options += made.sound.split()
    if not made.rotation:
        ffmpeg(*options, path)
        return path
    stored = path.with_stem(path.stem + "_stored")
    ffmpeg(*options, stored)
    ffmpeg("-i", stored, "-c", "copy", "-metadata:s:v", f"rotate={made.rotation}", path)
    stored.unlink()
    return path


def write_captions(path: Path, speakers: Sequence[str], seconds: float = SECONDS) -> Path:
    """Captions as Zoom writes them: a line of each speaker, one after another."""
    step = seconds / len(speakers)
    cues = [
        f"{number + 1}\n{_cue_time(number * step)} --> {_cue_time((number + 0.9) * step)}\n{speaker}: {words}\n"
        for number, (speaker, words) in enumerate(zip(speakers, cycle(SENTENCES), strict=False))
    ]
    path.write_text("\n".join(["WEBVTT\n", *cues]))
    return path


def _cue_time(seconds: float) -> str:
    return f"00:00:{seconds:06.3f}"


def make_recordings(folder: Path, seconds: float = SECONDS) -> Path:
    """The folder of twelve sessions, with Zoom's captions beside its recording."""
    folder.mkdir(parents=True)
    voices = [speak(folder.parent / f"voice{number}.wav", text, seconds) for number, text in enumerate(SENTENCES)]
    for number, made in enumerate(RECORDINGS):
        record(folder, made, voices[number % len(voices)], seconds)
    for voice in voices:
        voice.unlink()
    write_captions(folder / "p03_zoom.vtt", ("Ada Lovelace", "Alan T", "Ada Lovelace"), seconds)
    return folder


def write_ratings_sheet(path: Path, ratings: Mapping[str, tuple[int, int]]) -> Path:
    """A sheet of ratings as two raters fill it in: by file name, from 0 to 100."""
    rows = [(name, *rated) for name, values in ratings.items() for rated in zip(("Kim", "Lee"), values, strict=True)]
    return write_sheet(path, ("File", "Rater", "Empathy (0-100)"), *rows)


def write_sheet(path: Path, *rows: Sequence[object]) -> Path:
    """A workbook with one sheet of these rows."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def write_elan(path: Path, media: str) -> Path:
    """An annotation file as two coders of one recording leave it: a tier each, in milliseconds."""
    path.write_text(
        f"""<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2026-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0">
  <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds"><MEDIA_DESCRIPTOR MEDIA_URL="file:///{media}" MIME_TYPE="video/mp4"/>
  </HEADER>
  <TIME_ORDER>
    <TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="1000"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="4000"/>
    <TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="1500"/><TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="4500"/>
  </TIME_ORDER>
  <TIER LINGUISTIC_TYPE_REF="default" TIER_ID="gaze" ANNOTATOR="Kim">
    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
      <ANNOTATION_VALUE>away</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
  </TIER>
  <TIER LINGUISTIC_TYPE_REF="default" TIER_ID="gaze (2)" ANNOTATOR="Lee">
    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="ts3" TIME_SLOT_REF2="ts4">
      <ANNOTATION_VALUE>away</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
  </TIER>
  <LINGUISTIC_TYPE GRAPHIC_REFERENCES="false" LINGUISTIC_TYPE_ID="default" TIME_ALIGNABLE="true"/>
</ANNOTATION_DOCUMENT>
"""
    )
    return path
