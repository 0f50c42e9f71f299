"""Decoding for features of pictures: CPU time a frame of the product's pass, beside PyAV alone.

    python -m benchmarks.extracting.decoding [--runs 3] [--seconds 6] [--before CHECKOUT]

*The product* extracts ``frames`` (the clock) and ``resnet50`` of a session, both of which are due, with a network that
computes nothing: it decodes, makes the network's images, and stores rows. *PyAV alone* is the bound: one thread
decodes, converts and resizes every frame in the same way, and stores nothing. *Before* is the product of an earlier
checkout, in a process of its own, in turns with the others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import median

import av
import av.filter
import cv2
import numpy as np
import torch
from av.video.reformatter import Interpolation, VideoReformatter

from benchmarks.measure import interleave, print_machine
from benchmarks.performance_page import record
from storyframes.features import CLOCK, FEATURES
from storyframes.spec import feature_and_track
from storyframes.store.layout import create_store
from tasks.extract import ExtractionUnit, extract
from tasks.extractors.frame_pass import BATCH_FRAMES
from tasks.extractors.image import engines
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.resnet50 import ResNet50Weights, resnet50
from tasks.extractors.settings import Precision
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

_FPS = 25
_PIECE_S = 2  # encoded once, and repeated
_NOISE = "noise=alls=5:allf=t"
Images = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Video:
    """A kind of video that is measured."""

    file: str
    size: tuple[int, int]  # width and height, pixels
    codec: str
    pixels: str
    bit_rate: int
    options: dict[str, str]


VIDEOS = {
    "720p MPEG-4": Video("720p.avi", (1280, 720), "mpeg4", "yuv420p", 4_000_000, {}),
    "1080p H.264": Video("1080p.mp4", (1920, 1080), "libx264", "yuv420p", 6_000_000, {"preset": "veryfast"}),
    "1080p HEVC, 10 bit": Video(
        "1080p10.mp4",
        (1920, 1080),
        "libx265",
        "yuv420p10le",
        6_000_000,
        {"preset": "ultrafast", "x265-params": "log-level=none:pools=1:frame-threads=1"},
    ),
}


def write_video(folder: Path, video: Video, seconds: float) -> Path:
    """A moving test picture with noise: a piece of two seconds, encoded once and repeated."""
    path, piece = folder / video.file, folder / f"piece-{video.file}"
    graph = av.filter.Graph()
    width, height = video.size
    graph.link_nodes(
        graph.add("testsrc2", f"size={width}x{height}:rate={_FPS}"),
        graph.add(*_NOISE.split("=", 1)),
        graph.add("format", video.pixels),
        graph.add("buffersink"),
    ).configure()
    with av.open(str(piece), "w") as encoded:
        stream = encoded.add_stream(video.codec, rate=_FPS, options=video.options)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = width, height, video.pixels, video.bit_rate
        stream.codec_context.max_b_frames = 0  # so that pieces follow each other without a gap
        for number in range(_PIECE_S * _FPS):
            frame = graph.vpull()
            frame.pts, frame.time_base = number, Fraction(1, _FPS)
            encoded.mux(stream.encode(frame))
        encoded.mux(stream.encode(None))
    with av.open(str(path), "w") as longer:
        for number in range(max(round(seconds / _PIECE_S), 1)):
            with av.open(str(piece)) as source:
                if number == 0:
                    stream = longer.add_stream_from_template(source.streams.video[0])
                for packet in source.demux(video=0):
                    if packet.dts is not None:
                        packet.stream = stream
                        packet.pts = packet.dts = packet.dts + round(number * _PIECE_S / packet.time_base)
                        longer.mux(packet)
    piece.unlink()
    return path


def images_of(precision: str) -> Images:
    """How ``resnet50`` makes its network's images of frames."""
    return resnet50(ResNet50Weights.V1, None).prepared(Precision(precision)).preprocessing.images


def pyav_alone(path: Path, images: Images | None = None) -> int:
    """Decode every frame, and convert it and resize it where ``images`` does that; gives how many frames there are.

    One thread does everything: its conversion is the product's.
    """
    count, rgb = 0, None
    reformatter = VideoReformatter()
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "NONE", 1
        for frame in container.decode(stream):
            count += 1
            if images is None:
                continue
            bgr = reformatter.reformat(frame, format="bgr24", interpolation=Interpolation.BICUBIC, threads=1)
            picture = bgr.to_ndarray()
            rgb = np.empty((BATCH_FRAMES, *picture.shape), np.uint8) if rgb is None else rgb
            row = (count - 1) % BATCH_FRAMES
            cv2.cvtColor(picture, cv2.COLOR_BGR2RGB, dst=rgb[row])
            if row == BATCH_FRAMES - 1:
                images(rgb)
        if images is not None and rgb is not None and count % BATCH_FRAMES:
            images(rgb[: count % BATCH_FRAMES])
    return count


def one_pass(path: Path, precision: str = "float32") -> int:
    """Extract ``frames`` and ``resnet50`` of a video, with a network that computes nothing; gives how many frames.

    This is what the product does of a session of which both are due, planning included.
    """
    section = {"precision": precision, "engine": "torch", "allow_untrained": True}
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, without_network():
        study, store = Path(folder) / "study", Path(folder) / "features"
        study.mkdir()
        (study / path.name).hardlink_to(path)
        (study / "sessions.csv").write_text(f"session_id,participant_id,video\ns,p,{path.name}\n")
        settings = ExtractorsSettings.model_validate({"resnet50": section})
        units = units_of(study, store, settings, "s", (CLOCK, "resnet50"))
        return rows_of(units, "resnet50")


def units_of(
    study: Path, store: Path, settings: ExtractorsSettings, session_id: str, only: tuple[str, ...]
) -> list[ExtractionUnit]:
    """The units that make these features of a session in a new store, in their order.

    Raises:
        SystemExit: there is nothing to do, with the reason.
    """
    create_store(store)
    plan = plan_extraction(load_study(study), store, settings, Selection((session_id,), only))
    if not plan.units:
        raise SystemExit(f"nothing to do: {[outcome.reason for outcome in plan.settled]}")
    return plan.units


def rows_of(units: Iterable[ExtractionUnit], feature: str) -> int:
    """Extract the units; gives how many rows the feature has.

    Raises:
        SystemExit: something failed, with the reason.
    """
    outcomes = [outcome for unit in units for outcome in extract(unit)]
    for outcome in outcomes:
        if outcome.reason:
            raise SystemExit(str(outcome))
    return sum(outcome.rows for outcome in outcomes if feature_and_track(outcome.feature)[0] == feature)


class _NoNetwork:
    """An engine whose rows are zero."""

    device, batch_size, ahead = "cpu", 8, 0

    def start(self, images: np.ndarray) -> Callable[[], np.ndarray]:
        return lambda: np.zeros((len(images), *FEATURES["resnet50"].arrays["values"].shape), np.float32)


_SERVE_BEFORE = """
import sys, time
from pathlib import Path
import cv2, torch
from benchmarks.extracting.decoding import one_pass
torch.set_num_threads(1)
cv2.setNumThreads(1)
for line in sys.stdin:
    began = time.process_time()
    frames = one_pass(Path(line.strip()))
    print(frames, time.process_time() - began, flush=True)
"""


class Before:
    """The product of another checkout, in a process of its own.

    Attributes:
        cpu_s: of its passes so far.
    """

    def __init__(self, checkout: Path) -> None:
        command = [sys.executable, "-c", _SERVE_BEFORE]
        self._process = subprocess.Popen(
            command,
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": str(checkout.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.cpu_s: list[float] = []

    def one_pass(self, path: Path) -> int:
        """Its :func:`one_pass`."""
        given, answers = self._process.stdin, self._process.stdout
        assert given is not None
        assert answers is not None
        print(path.resolve(), file=given, flush=True)
        frames, cpu_s = answers.readline().split()
        self.cpu_s.append(float(cpu_s))
        return int(frames)

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def without_network() -> Iterator[None]:
    """Extract with a network that computes nothing inside the block."""
    before = engines.open_engine
    engines.open_engine = lambda *_: _NoNetwork()
    try:
        yield
    finally:
        engines.open_engine = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="length of each video")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit, measured as well")
    arguments, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    print_machine()
    images, rows = images_of("float32"), []
    before = Before(arguments.before) if arguments.before else None
    with tempfile.TemporaryDirectory() as folder:
        for name, video in VIDEOS.items():
            path = write_video(Path(folder), video, arguments.seconds)
            frames = pyav_alone(path)
            jobs: dict[str, Callable[[], object]] = {
                "product": partial(one_pass, path),
                "bound": partial(pyav_alone, path, images),
                "decoding": partial(pyav_alone, path),
            }
            for make in [one_pass, *([before.one_pass] if before else [])]:
                if (rows_made := make(path)) != frames:
                    raise SystemExit(f"{name}: the product has {rows_made} frames, PyAV {frames}")
            turns = {"before": partial(before.one_pass, path)} if before else {}
            measured = interleave(turns | jobs, arguments.runs)
            product, bound, decoding = (1000 * measured[job].cpu_s / frames for job in jobs)
            earlier = [f"{1000 * median(before.cpu_s[-arguments.runs :]) / frames:.1f}"] if before else []
            numbers = [f"{product:.1f}", f"{bound:.1f}", f"{product / bound:.2f}", f"{decoding:.1f}"]
            rows.append([name, *earlier, *numbers])
            print("  ".join(rows[-1]), flush=True)
    if before:
        before.close()
    columns = ["CPU-ms a frame", "product", "PyAV alone", "product / PyAV (wanted: 1.25)", "decoding alone"]
    columns[1:1] = ["before"] if before else []
    record("one-pass", columns, rows, ["av", "opencv-python-headless", "pillow"])


if __name__ == "__main__":
    main()
