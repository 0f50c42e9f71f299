"""What two regions of one picture cost beside decoding it once: ``python -m benchmarks.extracting.regions [--record]``.

The recording is H.264 of 1280x720, 8 s at 25 frames a second. The regions are two fixed halves, two boxes of one size
that move, and two that move and change their size, whose pictures are scaled.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import av
import numpy as np

from benchmarks.measure import interleave, print_machine
from benchmarks.performance_page import record
from tasks.media.recording import read_frames
from tasks.media.region import RegionView

WIDTH, HEIGHT, FPS, SECONDS = 1280, 720, 25, 8
COLUMNS = ("two regions", "CPU-s", "decodings")


def write_video(path: Path) -> None:
    """Smooth noise that moves, as compressible as a face before a wall."""
    rng = np.random.default_rng(0)
    coarse = rng.uniform(0, 255, (HEIGHT // 16 + 1, WIDTH // 16 + 1, 3)).astype(np.uint8)
    still = np.repeat(np.repeat(coarse, 16, axis=0), 16, axis=1)[:HEIGHT, :WIDTH]
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame in range(FPS * SECONDS):
            moved = np.ascontiguousarray(np.roll(still, 3 * frame, axis=1))
            moved[::2, ::2] ^= rng.integers(0, 8, moved[::2, ::2].shape, dtype=np.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(moved, format="rgb24")))
        file.mux(stream.encode())


def views(kind: str) -> list[RegionView]:
    """The two regions of a kind."""
    frames = FPS * SECONDS
    sway = 0.1 * np.sin(np.arange(frames) / FPS)
    if kind == "fixed":
        halves = [np.tile([x, 0, 0.5, 1.0], (frames, 1)) for x in (0, 0.5)]
        return [RegionView(of, WIDTH, HEIGHT, fixed=True) for of in halves]
    grows = 1 + (0 * sway if kind == "moving" else sway)
    boxes = [np.column_stack([x + sway, 0.3 + sway, 0.2 * grows, 0.4 * grows]) for x in (0.2, 0.6)]
    return [RegionView(of, WIDTH, HEIGHT) for of in boxes]


def run(path: Path, regions: list[RegionView]) -> None:
    """Decode once and cut all regions."""
    for batch in read_frames(path, 8):
        for region in regions:
            region.cut(batch)


def main() -> None:
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "video.mp4"
        write_video(path)
        kinds: dict[str, list[RegionView]] = {"none": []}
        kinds |= {kind: views(kind) for kind in ("fixed", "moving", "moving, scaled")}
        measured = interleave({kind: lambda of=of: run(path, of) for kind, of in kinds.items()})
    rows = [
        (kind, f"{found.cpu_s:.2f}", f"{found.cpu_s / measured['none'].cpu_s:.2f}") for kind, found in measured.items()
    ]
    record("two-regions", COLUMNS, rows, ("av",))


if __name__ == "__main__":
    main()
