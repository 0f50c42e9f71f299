"""Networks on a GPU: frames a second of whole features in several processes, beside decoding, beside the network.

    python -m benchmarks.extracting.gpu [--processes 16 1 8 4] [--seconds 3] [--limit 250] [--only ...] [--json FILE]

So many processes begin at the same time, each with a session of its own, as a run's workers do. *Decode and resize* are
the same processes with PyAV alone (``benchmarks.extracting.decoding``), or for sound with reading alone; *network* is
the library's own on inputs that lie on the GPU already. A feature is bounded by the slower of the two. Each process has
done the same with a short session before the clock begins. For sound a frame is a second of it; the network is given
windows of 34 s, of which 30 count, as the rest is context.

``resnet50``, timm's base vision transformer (patches of 16 pixels) and a wav2vec 2.0 of the base model's size have
random weights; ``--only dope`` measures the tests' fake model, whose maker lies in the folder ``shared`` beside the
checkout, in one process. ``--json`` gets every row as it is measured; what does not begin before ``--limit`` seconds is
left out, so name the most important number of processes first.

``--device cpu`` does the same on processors, in float32, by default in 1 process and in as many as there are
processors. It shows that everything runs, and little else: decoding and the network take turns on each processor.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import cv2
import torch

from benchmarks.extracting.decoding import Images, images_of, pyav_alone, rows_of, units_of
from benchmarks.extracting.gpu_inputs import RATE, prepared, repeat, timm_folder, wav2vec2_folder, write_noise
from benchmarks.extracting.gpu_networks import BATCH, VIT, dope_alone, resnet50_alone, vit_alone, wav2vec2_alone
from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from storyframes.features import CLOCK
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.settings import Precision
from tasks.extractors.torch_compute import let_go
from tasks.media.sound import read_audio
from tasks.media.synthesize import SyntheticStudy, write_study

_PIECE_S = 10  # of a recording, which is repeated
_FPS = 15
# Frames a second that one process and all of them may reach, and seconds of sound: they choose how long sessions are.
_MAY_REACH = {"cuda": (480, 2500), "cpu": (15, 30)}
_MAY_HEAR = {"cuda": (300, 4000), "cpu": (2, 4)}
_WAIT_S = 120.0  # for the slowest process to have its network ready
WARM = "warm"


@dataclass(frozen=True)
class Case:
    """A feature that a network computes, in one precision.

    Attributes:
        settings: of extraction.
        network: gives frames a second of the bare network.
        images: gives how frames become the network's images; None for sound.
    """

    name: str
    precision: str
    feature: str
    settings: Mapping[str, Any]
    network: Callable[[], float]
    images: partial[Images] | None = None


@dataclass(frozen=True)
class Session:
    """A recording of the study."""

    session_id: str
    path: Path
    amount: int  # frames, of sound seconds


@dataclass(frozen=True)
class Extraction:
    """Work for a process: the clock where there are pictures, and a feature."""

    root: Path
    case: Case
    session: Session
    warm: Session

    def prepare(self, folder: Path) -> Callable[[], object]:
        """Extract a short session, so that the network is ready; gives what is to be measured."""
        only = (CLOCK, self.case.feature) if self.case.images else (self.case.feature,)
        settings = ExtractorsSettings.model_validate(self.case.settings)

        def extraction(session: Session) -> Callable[[], object]:
            store = folder / session.session_id
            units = units_of(self.root / "study", store, settings, session.session_id, only)
            return partial(rows_of, units, self.case.feature)

        extraction(self.warm)()
        return extraction(self.session)


@dataclass(frozen=True)
class Decoding:
    """Work for a process: what a feature needs of a recording, without its network."""

    case: Case
    session: Session
    warm: Session

    def prepare(self, folder: Path) -> Callable[[], object]:
        """Decode a short session, so that libraries are loaded; gives what is to be measured."""
        decode = partial(pyav_alone, images=self.case.images()) if self.case.images else _seconds_of_sound
        decode(self.warm.path)
        return partial(decode, self.session.path)


Work = Extraction | Decoding


def _vit_images(root: Path, precision: str) -> Images:
    return prepared(root, VIT, Precision(precision)).preprocessing.images


def _whole_frames() -> Images:
    return lambda frames: frames  # DOPE resizes them on the device


def _seconds_of_sound(path: Path) -> float:
    return sum(len(block.samples) for block in read_audio(path, RATE)) / RATE


def cases(root: Path, device: str) -> list[Case]:
    """What is measured, in the order of the table."""

    def section(precision: str, **others: Any) -> dict[str, Any]:
        return {"device": device, "precision": precision} | others

    def embedded(name: str, kind: str, folder: Path, precision: str) -> dict[str, Any]:
        return {"embed": [section(precision, name=name, kind=kind, source=f"path:{folder}")]}

    on_gpu = device == "cuda"
    vit, speech = timm_folder(root, VIT), wav2vec2_folder(root)
    one = "float16" if on_gpu else "float32"
    found = [
        Case(
            "resnet50",
            precision,
            "resnet50",
            {"resnet50": section(precision, allow_untrained=True)},
            partial(resnet50_alone, device, precision),
            partial(images_of, "float32" if precision == "float32" else "float16"),  # TF32's are float16's
        )
        for precision in (("float16", "tf32", "float32") if on_gpu else ("float32",))
    ]
    found += [
        Case(
            "embed image",
            one,
            "vit",
            embedded("vit", "image", vit, one),
            partial(vit_alone, device, one),
            partial(_vit_images, root, one),
        ),
        Case(
            "embed audio",
            one,
            "speech",
            embedded("speech", "audio", speech, one),
            partial(wav2vec2_alone, speech, device, one),
        ),
    ]
    return found


def dope_cases(device: str) -> list[Case]:
    """DOPE, by the tests' fake model.

    Raises:
        SystemExit: its maker is not here.
    """
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from support.dope.fake_checkpoint import fake_checkpoint, shared_folder

    if not shared_folder().is_dir():
        raise SystemExit(f"{shared_folder()} is not here, which makes DOPE's fake model")
    checkpoint = fake_checkpoint()
    return [
        Case(
            "dope",
            precision,
            "dope",
            {"dope": {"device": device, "precision": precision, "model": str(checkpoint)}},
            partial(dope_alone, checkpoint, device, precision),
            partial(_whole_frames),
        )
        for precision in (("tf32", "float32") if device == "cuda" else ("float32",))
    ]


def write_sessions(root: Path, device: str, processes: Sequence[int], seconds: float) -> dict[tuple[str, int], Session]:
    """Recordings that so many processes take about ``seconds`` for: by kind and number, 0 for the short ones."""
    study = root / "study"
    lengths = {0: 1, **{count: round(seconds * _reached(_MAY_REACH, device, count)) for count in processes}}
    sessions = {}
    (study / "videos").mkdir(parents=True)
    for count, frames in lengths.items():
        video_s = max(frames / _FPS, 1)
        piece_s = min(_PIECE_S, video_s)
        piece = root / f"piece{piece_s:g}"
        if not piece.exists():
            write_study(piece, SyntheticStudy(sessions=1, seconds=piece_s, width=1280, height=720))
        path = study / f"videos/pictures{count}.avi"
        shutil.copyfile(piece / "videos/s0001.avi", path)
        times = max(round(video_s / _PIECE_S), 1)
        if times > 1:
            repeat(path, times, _PIECE_S)
        sessions["pictures", count] = Session(f"pictures{count}", path, pyav_alone(path))
        sound_s = max(round(seconds * _reached(_MAY_HEAR, device, count)), 1) if count else 1
        path = study / f"sound{count}.wav"
        write_noise(path, sound_s)
        sessions["sound", count] = Session(f"sound{count}", path, sound_s)
    pictures = [
        f"{each.session_id},p,videos/{each.path.name}" for (kind, _), each in sessions.items() if kind != "sound"
    ]
    sounds = [each for (kind, _), each in sessions.items() if kind == "sound"]
    rows = ["session_id,participant_id,video", *pictures, *(f"{each.session_id},p,none.avi" for each in sounds)]
    (study / "sessions.csv").write_text("\n".join(rows) + "\n")
    rows = ["session_id,track,audio", *(f"{session.session_id},lapel,{session.path.name}" for session in sounds)]
    (study / "tracks.csv").write_text("\n".join(rows) + "\n")
    return sessions


def _reached(by_device: Mapping[str, tuple[float, float]], device: str, processes: int) -> float:
    """Of one process of so many, a second."""
    one, together = by_device[device]
    return min(one, together / max(processes, 1))


class Processes:
    """Processes that do the same at the same time.

    Args:
        counts: how many of them at once; each is a key of ``barriers``.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        context = multiprocessing.get_context("spawn")  # CUDA does not bear a fork
        barriers = {count: context.Barrier(count, timeout=_WAIT_S) for count in counts}
        self._barriers = barriers
        self._ends: list[Connection] = []
        self._processes = []
        for _ in range(max(counts)):
            end, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, barriers), daemon=True)
            process.start()
            theirs.close()
            self._ends.append(end)
            self._processes.append(process)

    def seconds(self, work: Work, count: int) -> float:
        """From the begin of the first to the end of the last.

        Raises:
            RuntimeError: one of them failed, with its words.
        """
        for end in self._ends[:count]:
            end.send((work, count))
        answers = [end.recv() for end in self._ends[:count]]
        if failures := [answer for answer in answers if isinstance(answer, str)]:
            self._barriers[count].reset()
            raise RuntimeError(min(failures, key=lambda failure: "BrokenBarrier" in failure))
        return max(end for _, end in answers) - min(begin for begin, _ in answers)

    def close(self) -> None:
        for end in self._ends:
            end.send(None)
        for process in self._processes:
            process.join()


def _serve(commands: Connection, barriers: Mapping[int, Barrier]) -> None:
    """Do what comes, until None; answer with when it began and ended, or why it failed."""
    cv2.setNumThreads(1)  # as the product does while it decodes
    while (asked := commands.recv()) is not None:
        work, count = asked
        try:
            with tempfile.TemporaryDirectory() as folder:
                do = work.prepare(Path(folder))
                barriers[count].wait()
                begin = time.monotonic()  # the machine's, the same in all processes
                do()
                answer: object = begin, time.monotonic()
        except (Exception, SystemExit) as error:
            barriers[count].abort()
            answer = f"{type(error).__name__}: {error}"
        let_go()  # the memory of a GPU is for the next
        commands.send(answer)


@dataclass
class Table:
    """The rows so far, which ``file`` gets as JSON."""

    file: Path | None
    rows: list[list[str]] = field(default_factory=list)

    def add(self, row: list[str]) -> None:
        print("  ".join(row), flush=True)
        self.rows.append(row)
        if self.file:
            self.file.write_text(json.dumps(self.rows, indent=1))


COLUMNS = ("precision", "processes", "decode and resize", "network", "feature", "of the slower")


def measure(
    root: Path,
    chosen: list[Case],
    sessions: Mapping[tuple[str, int], Session],
    *,
    counts: Sequence[int],
    on_gpu: bool,
    stop: float,
) -> Iterator[list[str]]:
    """Rows of the table; those that would begin after ``stop`` are left out."""
    networks = [case.network() for case in chosen]
    let_go()
    decoded: dict[Any, float] = {}  # seconds, by what is the same of several cases
    with running(counts) as processes:
        for count in counts:
            for case, alone in zip(chosen, networks, strict=True):
                label = f"{case.name} {case.precision} in {count} processes"
                if time.monotonic() > stop:
                    print(f"{label}: left out, for want of time", flush=True)
                    continue
                kind = "pictures" if case.images else "sound"
                session = sessions[kind, count]
                same = count, case.images and (case.images.func, case.images.args)
                try:
                    if same not in decoded:
                        decoded[same] = processes.seconds(Decoding(case, session, sessions[kind, 0]), count)
                    extracted = processes.seconds(Extraction(root, case, session, sessions[kind, 0]), count)
                except RuntimeError as error:
                    print(f"{label} failed: {error}", flush=True)
                    continue
                network = alone if on_gpu else alone * count  # of so many processors
                decoder, feature = (count * session.amount / each for each in (decoded[same], extracted))
                numbers = [f"{each:,.0f}" for each in (decoder, network, feature)]
                yield [case.name, case.precision, str(count), *numbers, f"{feature / min(decoder, network):.2f}"]


@contextmanager
def running(counts: Sequence[int]) -> Iterator[Processes]:
    processes = Processes(counts)
    try:
        yield processes
    finally:
        processes.close()


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="*", help="how many at once, the most important number first")
    parser.add_argument("--seconds", type=float, default=3, help="roughly, of each measurement")
    parser.add_argument("--limit", type=float, default=250, help="seconds after which no measurement begins")
    parser.add_argument(
        "--only",
        nargs="*",
        help="dope, or some of resnet50, 'resnet50 tf32', …, 'embed audio', in the order of their importance",
    )
    parser.add_argument("--device", choices=list(BATCH), default="cuda")
    parser.add_argument("--json", type=Path, help="file for the rows")
    arguments, _ = parser.parse_known_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # as in a worker; read when torch is imported
        os.environ["OMP_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.extracting.gpu", *sys.argv[1:]])
    print_machine()
    on_gpu = arguments.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print("Networks on a GPU: not measured, there is none here.")
        return
    device = torch.cuda.get_device_name() if on_gpu else "processors"
    counts = arguments.processes or ([16, 1, 8, 4] if on_gpu else sorted({1, len(os.sched_getaffinity(0))}))
    print(f"{device}: 720p, sessions of about {arguments.seconds:g} s of work")
    print("  ".join(("feature", *COLUMNS)))
    table = Table(arguments.json)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        only = arguments.only or []
        chosen = dope_cases(arguments.device) if only == ["dope"] else cases(root, arguments.device)
        if only:  # in this order
            chosen = [each for name in only for each in chosen if name in (each.name, f"{each.name} {each.precision}")]
        sessions = write_sessions(root, arguments.device, counts, arguments.seconds)
        for row in measure(root, chosen, sessions, counts=counts, on_gpu=on_gpu, stop=began + arguments.limit):
            table.add(row)
    if on_gpu:
        order = {case.name: number for number, case in enumerate(chosen)}
        rows = sorted(table.rows, key=lambda row: order[row[0]])
        record("some-processes-on-a-gpu" if only else "processes-on-a-gpu", (device, *COLUMNS), rows, ("torch",))


if __name__ == "__main__":
    main()
