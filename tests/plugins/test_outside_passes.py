"""A program outside in a pass over the frames with others, and what is left of it when a pass or a process ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from support.messages import missing
from support.processes import alive, wait_for
from support.tools.outside_programs import SHADES, Ground, frames_plug_in, installed_with_numpy

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage.local_folder import LocalStorage
from tasks.extract import ExtractionUnit, extract
from tasks.extractors.base import CommonSettings, ExtractionError, Extractor
from tasks.extractors.frame_pass import FrameExtractor, run_frame_pass
from tasks.extractors.outside.environment import Requirements
from tasks.extractors.regions import region_spec
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.source import Region
from tasks.media.recording import FrameBatch
from tasks.planning.sources import input_file

FRAMES = 45


class Mean(FrameExtractor):
    """Inside this process; fails at frame ``fails_at``."""

    spec = FeatureSpec("mean", "", {"values": ArraySpec(Axis.FRAME, "float32", "")})
    version = 1
    fails_at = FRAMES + 1

    def rows(self, batch: FrameBatch) -> np.ndarray:
        if batch.first <= self.fails_at < batch.first + len(batch):
            raise ExtractionError("the inner one failed")
        return batch.rgb.mean(axis=(1, 2, 3))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Requirements:
    return installed_with_numpy(tmp_path_factory.mktemp("pins"))


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path / "ground", FRAMES)


def run_pass(ground: Ground, *classes: type[Extractor]) -> dict[str, str]:
    """One pass for all of them; by feature, what went wrong, and what was published."""
    extractors = [cls(cls.Settings(), CommonSettings()) for cls in classes]
    said = {}
    writers = {one: FeatureWriter(LocalStorage(ground.root), "s", one.spec) for one in extractors}
    for out in writers.values():
        out.__enter__()
    for one, failure in run_frame_pass({one: (ground.source, out) for one, out in writers.items()}).items():
        said[one.name] = str(failure or writers[one].publish("f" * 64, {}).rows)
    for out in writers.values():
        out.__exit__(None, None, None)
    return said


PID = "import os\nopen({path!r}, 'w').write(str(os.getpid()))\n"


def pid_of(path: Path) -> int:
    return int(path.read_text())


def test_it_shares_the_pass_with_others(ground: Ground, tmp_path: Path, environment: Requirements) -> None:
    assert run_pass(ground, frames_plug_in(tmp_path, SHADES, environment), Mean) == {"shades": "45", "mean": "45"}


def test_when_it_fails_the_others_go_on(ground: Ground, tmp_path: Path, environment: Requirements) -> None:
    code = "import sys\nfrom storyframes_outside import job\nnext(job.frames()); sys.exit(3)"
    said = run_pass(ground, frames_plug_in(tmp_path, code, environment), Mean)
    assert said == {"shades": "its program ended with 3", "mean": "45"}


def test_when_another_fails_it_goes_on(ground: Ground, tmp_path: Path, environment: Requirements) -> None:
    failing = type("Failing", (Mean,), {"fails_at": 20})
    said = run_pass(ground, frames_plug_in(tmp_path, SHADES, environment), failing)
    assert said == {"shades": "45", "mean": "the inner one failed"}


def test_when_the_video_fails_it_is_ended(ground: Ground, tmp_path: Path, environment: Requirements) -> None:
    """A video whose last frames do not decode: the program waits for frames that never come."""
    pid = tmp_path / "pid"
    video = ground.study / "s.avi"
    content = bytearray(video.read_bytes())
    middle = content.index(b"idx1") * 2 // 3
    content[middle : middle + 4000] = bytes(4000)
    video.write_bytes(content)
    said = run_pass(ground, frames_plug_in(tmp_path, PID.format(path=str(pid)) + SHADES, environment), Mean)
    assert said["shades"] == said["mean"]
    assert "s.avi" in said["mean"] or "decode" in said["mean"]
    wait_for(lambda: not pid.exists() or not alive(pid_of(pid)))


WORKER = """
import sys
from pathlib import Path
sys.path[:0] = ["tests", "tests/support"]
from support.tools.outside_programs import Ground, Requirements, frames_plug_in
ground = Ground(Path(sys.argv[1]) / "ground", 45)
environment = Requirements("borrowed", Path(sys.argv[2]))
ground.extract(frames_plug_in(Path(sys.argv[1]), Path(sys.argv[3]).read_text(), environment))
"""
HANGS = """
import os, subprocess
from storyframes_outside import job
next(job.frames())
child = subprocess.Popen(["/bin/sleep", "1000"])
with open({path!r} + ".new", "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({path!r} + ".new", {path!r})
child.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_all_it_started_and_its_folder_go_with_the_worker(
    tmp_path: Path, environment: Requirements, deadly: signal.Signals
) -> None:
    temporary, pids, code = tmp_path / "temporary", tmp_path / "pids", tmp_path / "code.py"
    temporary.mkdir()
    code.write_text(HANGS.format(path=str(pids)))
    command = [sys.executable, "-c", WORKER, str(tmp_path), str(environment.pins), str(code)]
    worker = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"TMPDIR": str(temporary)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(lambda: pids.exists() or worker.poll() is not None)
    assert list(temporary.glob("storyframes-outside-*"))
    worker.send_signal(deadly)
    worker.wait()
    wait_for(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))
    wait_for(lambda: not list(temporary.glob("storyframes-outside-*")))


class Corner(FrameExtractor):
    """A point that is always at the same place of the picture it sees, and the picture's brightness."""

    spec = FeatureSpec(
        "corner",
        "",
        {
            "values": ArraySpec(Axis.FRAME, "float32", ""),
            "points": ArraySpec(
                Axis.FRAME, "float32", "", (1, 2), ("point", "xy"), columns=("x", "y"), units="pixels of the frame"
            ),
            "count": ArraySpec(Axis.FRAME, "uint8", "", fill=0),
            "box": ArraySpec(
                Axis.FRAME, "float32", "", (3,), ("corner",), columns=("left", "top", "side"), units="pixels"
            ),
        },
    )
    version = 1
    in_pixels: ClassVar = {"x": ("left",), "y": ("top",), "length": ("side",)}

    def rows(self, batch: FrameBatch) -> dict[str, np.ndarray]:
        points = np.tile(np.float32([[3, 4]]), (len(batch), 1, 1))
        box = np.tile(np.float32([5, 6, 7]), (len(batch), 1))
        brightness, ones = batch.rgb.mean(axis=(1, 2, 3)), np.ones(len(batch), np.uint8)
        return {"values": brightness, "points": points, "count": ones, "box": box}


class Dispensable(Corner):
    """It says that it can do without a video, and still sees the region alone."""

    spec = replace(Corner.spec, name="dispensable")
    needs_frames: ClassVar[bool] = False


class Unknown(Corner):
    """It does not say which of its columns are x and which y."""

    spec = replace(Corner.spec, name="unknown")
    in_pixels: ClassVar = {"x": ("left",)}


class Flat(Corner):
    """Points in rows that are no frames, which nobody puts into the whole picture."""

    spec = FeatureSpec(
        "flat",
        "",
        {
            "values": ArraySpec(Axis.FRAME, "float32", ""),
            "faces": ArraySpec(Axis.FACE, "float32", "", (2,), ("xy",), columns=("x", "y"), units="pixels"),
        },
    )


def test_of_a_region_every_plug_in_sees_it_alone_and_its_rows_without_anybody_are_masked(
    ground: Ground, tmp_path: Path, environment: Requirements
) -> None:
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("time_s,x,y,w,h\n0,0.5,0.25,0.5,0.5\n0.4,,,,\n0.8,0.5,0.25,0.5,0.5\n1.76,0.5,0.25,0.5,0.5\n")
    files = {**ground.source.files, "region": input_file(boxes)}
    source = replace(ground.source, files=files, track="left", region=Region("main"))
    (clock,) = extract(ExtractionUnit(str(ground.root), source, ("frames",), ExtractorsSettings()))
    assert clock.rows == FRAMES
    shades = frames_plug_in(tmp_path, SHADES, environment)
    extractors = [cls(cls.Settings(), CommonSettings()) for cls in (shades, Corner, Dispensable, Flat, Unknown)]
    with contextlib.ExitStack() as stack:
        storage = LocalStorage(ground.root)
        features = {
            one: (source, stack.enter_context(FeatureWriter(storage, "s", region_spec(one.spec, "main"), track="left")))
            for one in extractors
        }
        *passed, refused, unknown = run_frame_pass(features).items()
        assert [failure for _, failure in passed] == [None] * 3
        assert missing(unknown[1], "unknown", "region", "box") == []
        assert missing(refused[1], "flat", "region", "faces") == []
        for one in extractors[:3]:
            features[one][1].publish("f" * 64, {})
    height, width = ground.rgb.shape[1:3]
    region = ground.rgb[:, height // 4 : height // 4 + height // 2, width // 2 :].astype(np.float64)
    seen = np.array([not 10 <= number < 20 for number in range(FRAMES)])
    store = FeatureStore(ground.root)
    np.testing.assert_array_equal(store.read("s", "corner@left", array="in_region"), seen)
    np.testing.assert_array_equal(store.read("s", "corner@left", array="count"), seen)
    np.testing.assert_allclose(store.read("s", "corner@left")[seen], region.mean(axis=(1, 2, 3))[seen], rtol=1e-6)
    np.testing.assert_array_equal(store.read("s", "dispensable@left"), store.read("s", "corner@left"))
    points = store.read("s", "corner@left", array="points")
    assert (points[seen] == (width // 2 + 3, height // 4 + 4)).all()
    assert np.isnan(points[~seen]).all()
    assert (store.read("s", "corner@left", array="box")[seen] == (width // 2 + 5, height // 4 + 6, 7)).all()
    assert store.spec("s", "corner@left").arrays["points"].units == "pixels of the whole picture of the track 'main'"
    of_program = store.read("s", "shades@left")
    np.testing.assert_allclose(of_program[seen], region.mean(axis=(1, 2))[seen], atol=1e-4)
    assert np.isnan(of_program[~seen]).all()
    assert store.read("s", "shades@left", array="seen").tolist() == seen.tolist()
