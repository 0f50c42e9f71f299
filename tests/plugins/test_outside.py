"""Features computed outside this process: the right frames reach the program, only whole and sound results count."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.media.recordings import write_streams
from support.messages import naming
from support.tools.outside_faults import FAULTS, PRIVATE_FAULTS
from support.tools.outside_programs import (
    SHADES,
    Ground,
    files_plug_in,
    frames_plug_in,
    installed_with_numpy,
)

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage.files import sha256_file
from storyframes.store.storage.local_folder import LocalStorage
from tasks.extractors.base import CommonSettings, ExtractionError, Input, Source
from tasks.extractors.outside.environment import Requirements
from tasks.extractors.outside.settings import OutsideSettings
from tasks.extractors.settings import RecordingSettings
from tasks.planning.sources import input_file

FRAMES = 45


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Requirements:
    """An environment with numpy, made once."""
    return installed_with_numpy(tmp_path_factory.mktemp("pins"))


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("ground"), FRAMES)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which is empty again after each of these tests."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(autouse=True)
def nothing_is_left(temporary: Path) -> Any:
    yield
    assert list(temporary.iterdir()) == []


Extract = Callable[..., dict[str, np.ndarray]]


@pytest.fixture
def extract(ground: Ground, tmp_path: Path, environment: Requirements) -> Extract:
    """Extract the feature of a program that is sent the frames."""

    def run(code: str, settings: dict[str, Any] | None = None, **attributes: Any) -> dict[str, np.ndarray]:
        return ground.extract(frames_plug_in(tmp_path, code, environment, **attributes), **(settings or {}))

    return run


def test_the_program_is_sent_the_frames_that_everybody_gets(extract: Extract, ground: Ground) -> None:
    found = extract(SHADES)
    expected = ground.rgb.mean(axis=(1, 2), dtype=np.float64).astype(np.float32)
    assert len(np.unique(expected, axis=0)) == FRAMES  # a shift by a frame would show, as would swapped channels
    assert (np.ptp(expected, axis=1) > 5).all()
    np.testing.assert_array_equal(found["values"], expected)
    np.testing.assert_allclose(found["times"], np.arange(FRAMES) / 25, atol=1e-9)


TOLD = """
import json, os, sys
told = dict(
    settings=job.settings, inputs=job.inputs, size=(job.frame_count, job.height, job.width), threads=job.threads,
    environment=dict(os.environ), isolated=sys.flags.isolated, umask=os.umask(0o077), stdin=os.read(0, 10).hex(),
)
with open({path!r}, "w") as file:
    json.dump(told, file)
"""


class Settings(OutsideSettings):
    """With one that decides values."""

    threshold: float = 0.5


def test_what_the_program_is_told_and_what_not(extract: Extract, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    path = tmp_path / "told.json"
    code = SHADES + TOLD.format(path=str(path))
    extract(code, {"threshold": 0.25, "cpus": 2}, Settings=Settings)
    told = json.loads(path.read_text())
    assert told["settings"] == {"threshold": 0.25}
    assert told["inputs"] == {}  # of the video it gets the frames, and no other
    assert told["size"] == [FRAMES, 48, 64]
    assert (told["threads"], told["isolated"], told["umask"], told["stdin"]) == (2, 1, 0o077, "")
    environment = told["environment"]
    assert "PATH" not in environment
    assert "hunter2" not in environment.values()
    assert environment["OMP_NUM_THREADS"] == environment["OPENBLAS_NUM_THREADS"] == "2"
    assert environment["HOME"] == environment["TMPDIR"] != os.environ.get("HOME")


LOOK = """
import os, stat
mode = stat.S_IMODE(os.stat(os.path.dirname(job._output)).st_mode)
assert mode == 0o700, oct(mode)
"""


def test_its_folder_is_private(extract: Extract) -> None:
    assert extract(SHADES + LOOK)["seen"].all()


def test_a_program_has_no_network(extract: Extract, tmp_path: Path) -> None:
    """Nor has what it starts, or a thread that numpy started before; sockets of this machine and pipes are left."""
    tried = tmp_path / "tried.json"
    code = f"""
import glob, json, socket, subprocess, sys
def tried(family):
    try:
        socket.socket(family).close()
    except PermissionError:
        return "refused"
    return "made"
socket.socketpair()
code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
child = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
families = [socket.AF_INET, socket.AF_INET6, socket.AF_PACKET, socket.AF_UNIX]
with open({str(tried)!r}, "w") as file:
    threads = [open(path).read().partition("Seccomp:")[2].split()[0] for path in glob.glob("/proc/self/task/*/status")]
    json.dump([*map(tried, families), child.stderr.splitlines()[-1].partition(":")[0], *threads], file)
"""
    extract(SHADES + code, {"cpus": 2})
    filtered = ["2", "2"]
    assert json.loads(tried.read_text()) == ["refused", "refused", "refused", "made", "PermissionError", *filtered]


def test_a_model_file_reaches_the_program_and_the_fingerprint(
    ground: Ground, tmp_path: Path, environment: Requirements
) -> None:
    weights = [tmp_path / "a.bin", tmp_path / "b.bin"]
    for number, path in enumerate(weights):
        path.write_bytes(bytes([number]))
    told = tmp_path / "told"
    code = SHADES + f"open({str(told)!r}, 'wb').write(open(job.inputs['weights'], 'rb').read())"
    digests = []
    for number, path in enumerate(weights):
        plug_in = frames_plug_in(tmp_path, code, environment, model_files=lambda self, path=path: {"weights": path})
        ground.extract(plug_in)
        assert told.read_bytes() == bytes([number])
        digests.append(plug_in(OutsideSettings(), CommonSettings()).models()["weights"])
    assert digests == [sha256_file(path) for path in weights]


@pytest.mark.parametrize(("code", "said"), FAULTS.values(), ids=FAULTS)
def test_what_is_not_whole_and_sound_is_named_and_never_stored(
    extract: Extract, ground: Ground, code: str, said: str, temporary: Path
) -> None:
    def stored() -> set[Path]:
        return set((ground.root / "s").rglob("*")) - {ground.root / "s/shades"}  # the folder of versions may be made

    before = stored()
    with pytest.raises(ExtractionError, match=f"(?s){said}") as error:
        extract(code)
    assert stored() == before
    assert str(temporary) not in str(error.value)  # no path of this machine


@pytest.mark.parametrize("before", ["", "next(job.frames())", "[None for _ in job.frames()]"])
def test_a_program_that_hangs_is_stopped(extract: Extract, before: str) -> None:
    code = f"from storyframes_outside import job\n{before}\nimport time; time.sleep(1000)"
    with pytest.raises(ExtractionError, match=naming("3 s", "[shades] timeout_s")):
        extract(code, {"timeout_s": 3, "timeout_s_per_video_s": 0.01})


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_program_that_prints_megabytes_all_the_time_is_read(extract: Extract, stream: str) -> None:
    chatty = f"import sys; sys.{stream}.write('x' * 1_000_000)"
    code = f"{chatty}\n" + SHADES.replace("    shades =", f"    {chatty}\n    shades =") + f"\n{chatty}"
    assert extract(code)["seen"].all()


def test_everything_nan_is_refused_where_no_mask_tells(ground: Ground, tmp_path: Path, environment) -> None:
    spec = FeatureSpec("shades", "no mask", {"values": ArraySpec(Axis.FRAME, "float32", "")})
    code = "import numpy as np\nfrom storyframes_outside import job\n"
    code += "for rgb in job.frames(): job.append(values=np.full(len(rgb), {}, 'f4'))"
    with pytest.raises(ExtractionError, match=naming("values", "NaN")):
        ground.extract(frames_plug_in(tmp_path, code.format("np.nan"), environment, spec=spec))
    found = ground.extract(frames_plug_in(tmp_path, code.format("rgb[0, 0, 0, 0]"), environment, spec=spec))
    assert np.isfinite(found["values"]).all()


def test_nothing_found_is_no_fault_where_the_mask_says_so(extract: Extract) -> None:
    found = extract(SHADES.replace("values=shades", "values=shades * np.nan").replace("np.ones", "np.zeros"))
    assert not found["seen"].any()
    assert np.isnan(found["values"]).all()


# --- privacy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", PRIVATE_FAULTS.values(), ids=PRIVATE_FAULTS)
def test_nothing_that_the_program_of_a_private_feature_says_is_told(extract: Extract, code: str) -> None:
    with pytest.raises(ExtractionError) as error:
        extract(code, inputs=(Input.VIDEO, Input.TRANSCRIPT))
    assert not {"night", "brother"} & set(str(error.value).replace("'", " ").split())
    assert error.value.__cause__ is None


# --- files instead of frames ------------------------------------------------------------------------------------------

READS = """
import json, os
import numpy as np
from storyframes_outside import job
assert list(job.frames()) == []
size = os.path.getsize(job.inputs["transcript"])
rows = len(np.load(job.frame_times))
job.append(values=np.full((rows, 3), size), seen=np.ones(rows, "u1"), times=np.load(job.frame_times))
"""


def test_a_program_may_read_the_sessions_files_instead(ground: Ground, tmp_path: Path, environment) -> None:
    cls = files_plug_in(tmp_path, READS, environment, inputs=(Input.VIDEO, Input.TRANSCRIPT))
    found = ground.extract(cls)
    assert (found["values"] == (ground.study / "s.json").stat().st_size).all()
    extractor = cls(cls.Settings(), CommonSettings())
    assert extractor.is_private
    assert set(extractor.fingerprint(ground.source).inputs) == {"video", "transcript"}


def test_a_program_that_needs_no_frames_reads_a_session_without_a_video(
    ground: Ground, tmp_path: Path, environment: Requirements
) -> None:
    code = READS.replace("rows = len(np.load(job.frame_times))", "assert list(job.inputs) == ['transcript']; rows = 2")
    code = code.partition("job.append")[0] + "job.append(values=np.full(rows, size))"
    spec = FeatureSpec("sizes", "bytes", {"values": ArraySpec(Axis.UTTERANCE, "int64", "bytes", fill=0)})
    inputs = (Input.VIDEO, Input.TRANSCRIPT)
    cls = files_plug_in(tmp_path, code, environment, inputs=inputs, spec=spec, needs_frames=False)
    source = replace(ground.source, files={"transcript": ground.source.files["transcript"]}, frameless=True)
    extractor = cls(cls.Settings(), CommonSettings())
    with FeatureWriter(LocalStorage(ground.root), "s", spec, frames=False) as out:
        extractor.extract(source, out)
        assert out.publish("f" * 64, {}).arrays["values"].shape == (2,)


def test_a_program_that_would_hear_another_sound_than_the_chosen_one_is_not_run(
    tmp_path: Path, environment: Requirements
) -> None:
    sounds = {"eng": np.zeros((8000, 1)), "fra": np.zeros((16_000, 1))}
    for number, name in enumerate(("two.mkv", "one.mkv")):
        write_streams(tmp_path / name, dict([*sounds.items()][number:]))
    cls = files_plug_in(tmp_path, READS, environment, inputs=(Input.AUDIO,), needs_frames=False)
    extractor = cls(cls.Settings(), CommonSettings(RecordingSettings(sound_stream=1)))
    opened = {}
    for name in ("two.mkv", "one.mkv"):
        source = Source("s", {"audio": input_file(tmp_path / name)}, frameless=True)
        with FeatureWriter(LocalStorage(tmp_path), "s", cls.spec, frames=False) as out:
            try:
                with extractor.session(source, out, None, None):
                    opened[name] = ""
            except ExtractionError as error:
                opened[name] = str(error)
    assert "sound_stream = 1" in opened["two.mkv"]
    assert "sound_stream" not in opened["one.mkv"]


# --- what decides the values ------------------------------------------------------------------------------------------


def test_the_fingerprint_knows_the_program_the_pins_and_python(
    ground: Ground, tmp_path: Path, environment: Requirements
) -> None:
    def digest(code: str = SHADES, **settings: Any) -> str:
        cls = frames_plug_in(tmp_path, code, environment, Settings=Settings)
        return cls(cls.Settings(**settings), CommonSettings()).fingerprint(ground.source).digest

    same = digest()
    assert digest(cpus=2, timeout_s=5, timeout_s_per_video_s=5) == same
    assert digest(threshold=0.6) != same
    assert digest(SHADES + "\n# another") != same
    cls = frames_plug_in(tmp_path, SHADES, environment)
    known = cls(cls.Settings(), CommonSettings()).fingerprint(ground.source)
    assert set(known.models) == {"program", "requirements"}
    assert set(known.tools) == {"python"}


def test_a_program_may_be_a_folder(ground: Ground, tmp_path: Path, environment: Requirements) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "__main__.py").write_text("from beside import work\nwork()")
    (folder / "beside.py").write_text("def work():\n" + SHADES.replace("\n", "\n    "))
    cls = frames_plug_in(tmp_path, SHADES, environment, program=folder)

    def digest() -> str:
        return cls(cls.Settings(), CommonSettings()).models()["program"]

    before = digest()
    assert ground.extract(cls)["seen"].all()
    assert digest() == before  # what Python compiles beside it is not the program
    (folder / "beside.py").write_text("work = None")
    assert digest() != before


def test_without_its_environment_one_sentence_says_what_makes_it(ground: Ground, tmp_path: Path) -> None:
    pins = tmp_path / "pins.txt"
    pins.write_text("other==1.0 --hash=sha256:0\n")
    cls = frames_plug_in(tmp_path, SHADES, Requirements("other", pins))
    extractor = cls(cls.Settings(), CommonSettings())
    for ask in (extractor.check_tool, lambda: extractor.fingerprint(ground.source), lambda: ground.extract(cls)):
        with pytest.raises(ExtractionError, match="storyframes extractors install other"):
            ask()


# --- memory -----------------------------------------------------------------------------------------------------------

LARGE = """
import numpy as np
from storyframes_outside import job
for rgb in job.frames():
    job.append(values=np.zeros((len(rgb), 200_000), "f4"))
"""
PEAK = """
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0], flush=True)
raise SystemExit(3)
"""


def peak_kb() -> int:
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_session(tmp_path: Path, environment: Requirements) -> None:
    """300 rows of 800 kB: 240 MB pass through both sides, and none of it stays."""
    ground = Ground(tmp_path / "long", 300)
    spec = FeatureSpec("shades", "", {"values": ArraySpec(Axis.FRAME, "float32", "", (200_000,), ("many",))})
    with pytest.raises(ExtractionError, match="it printed last: ") as error:
        ground.extract(frames_plug_in(tmp_path, LARGE + PEAK, environment, spec=spec))
    assert int(str(error.value).split()[-1]) < 150_000
    extractor = frames_plug_in(tmp_path, LARGE.replace("zeros", "ones"), environment, spec=spec)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = peak_kb()
    with FeatureWriter(LocalStorage(ground.root), "s", spec) as out:
        extractor(extractor.Settings(), CommonSettings()).extract(ground.source, out)
        assert peak_kb() - before < 100_000
        assert out.publish("f" * 64, {}).rows == 300


def test_a_full_disk_is_named(
    ground: Ground, tmp_path: Path, environment: Requirements, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    spec = FeatureSpec("shades", "", {"values": ArraySpec(Axis.FRAME, "float32", "", (200_000,), ("many",))})
    with pytest.raises(ExtractionError, match=naming("ended with 1", "temporary folder", "full")):
        ground.extract(frames_plug_in(tmp_path, LARGE, environment, spec=spec))
    assert not list(small_disk.iterdir())
