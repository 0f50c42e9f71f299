"""A session of 29 minutes in 1080p, feature after feature in one process, as a worker does it: what memory it takes.

    python -m benchmarks.extracting.long_session [--minutes 29] [--features opensmile] [--precision float32]

The video is ten seconds of synthetic 1080p, encoded once and repeated by copying its packets, so it decodes like any
other. The network is the real one, with random weights; in bfloat16 where the processor has it, so that it ends in
minutes. Memory is read twice a second; half-way and at the end it should be what it was after a tenth.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import av
import torch

from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from tasks.extract import ExtractionUnit, extract
from tasks.extractors.registry import ExtractorsSettings
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.models.libraries import import_openvino
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

FEATURES = ("resnet50", "opensmile")  # and frames, which all need
_PIECE_S = 10


def write_long_study(folder: Path, minutes: float) -> None:
    """A study of one session whose recording is ``_PIECE_S`` seconds over and over."""
    write_study(folder, SyntheticStudy(sessions=1, seconds=_PIECE_S, width=1920, height=1080))
    video = folder / "videos/s0001.avi"
    repeat(video, round(60 * minutes / _PIECE_S))


def repeat(video: Path, times: int) -> None:
    """Make a recording so many times as long, without encoding it again."""
    piece = video.rename(video.with_name("piece.avi"))
    with av.open(str(video), "w") as longer:
        for number in range(times):
            with av.open(str(piece)) as source:
                if number == 0:
                    streams = [longer.add_stream_from_template(stream) for stream in source.streams]
                for packet in source.demux():
                    if packet.dts is None:
                        continue
                    shift = round(number * _PIECE_S / packet.time_base)
                    packet.stream = streams[packet.stream.index]
                    packet.pts, packet.dts = packet.dts + shift, packet.dts + shift
                    longer.mux(packet)
    piece.unlink()


def resident_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) * 1024 / 1e6


class MemoryReadings:
    """Resident memory of this process twice a second, in MB."""

    def __init__(self) -> None:
        self.mb: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> MemoryReadings:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._over.wait(0.5):
            self.mb.append(resident_mb())

    def after(self, share: float) -> float:
        """The median of the readings about this share of the run."""
        middle = round(share * (len(self.mb) - 1))
        near = sorted(self.mb[max(0, middle - 5) : middle + 6])
        return near[len(near) // 2]


def extract_measured(work: ExtractionUnit) -> None:
    cpu = time.process_time()
    with MemoryReadings() as memory:
        (outcome,) = extract(work)
    cpu = time.process_time() - cpu
    if outcome.reason:
        sys.exit(f"{outcome.feature}: {outcome.reason}")
    readings = [*(memory.after(share) for share in (0.1, 0.5, 0.95)), max(memory.mb)] if memory.mb else [0.0] * 4
    print(json.dumps([outcome.feature, f"{outcome.rows:,}", f"{cpu:.1f}", *(f"{mb:.0f}" for mb in readings)]))


def work_through(folder: Path, features: Sequence[str], precision: str) -> None:
    """Every unit of work, one after the other, in this process."""
    torch.set_num_threads(1)
    settings = ExtractorsSettings.model_validate({"resnet50": {"allow_untrained": True, "precision": precision}})
    selection = Selection(("s0001",), tuple(features))
    plan = plan_extraction(load_study(folder / "study"), folder / "features", settings, selection)
    for work in plan.units:
        extract_measured(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=29)
    parser.add_argument("--features", nargs="+", default=FEATURES)
    parser.add_argument("--precision")
    parser.add_argument("--work-through", type=Path, help=argparse.SUPPRESS)
    arguments, _ = parser.parse_known_args()
    has_bfloat16 = "BF16" in import_openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    precision = arguments.precision or ("bfloat16" if has_bfloat16 else "float32")
    if arguments.work_through:
        work_through(arguments.work_through, arguments.features, precision)
        return
    print_machine()
    print(f"a session of {arguments.minutes:g} minutes in 1080p, network in {precision}; resident memory in MB")
    with tempfile.TemporaryDirectory() as temporary:
        write_long_study(Path(temporary) / "study", arguments.minutes)
        options = ["--work-through", temporary, "--precision", precision, "--features", *arguments.features]
        command = [sys.executable, "-m", "benchmarks.extracting.long_session", *options]
        ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[")]
    columns = ("feature", "rows", "CPU-s", "MB at 10 %", "at 50 %", "at 95 %", "at the peak")
    name = "a-session-of-29-minutes-in-1080p" + ("" if arguments.minutes <= 29 else "-2")  # -2: of two hours
    record(name, columns, rows, ["av", "torch", "openvino"])


if __name__ == "__main__":
    main()
