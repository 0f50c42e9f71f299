"""Programs outside: an environment for them that is made in seconds, and features that they compute."""

from __future__ import annotations

import base64
import hashlib
import textwrap
import venv
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import av
import numpy as np
import zarr

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage.files import sha256_file
from storyframes.store.storage.local_folder import LocalStorage
from support.studies import extract_session, make_study
from tasks.extractors.base import CommonSettings, Extractor, InputFile, Source
from tasks.extractors.outside.environment import Requirements, install_environment
from tasks.extractors.outside.extractor import OutsideExtractor, OutsideFrameExtractor
from tasks.media.recording import read_frames

SPEC = FeatureSpec(
    "shades",
    "what a program outside says of frames",
    {
        "values": ArraySpec(Axis.FRAME, "float32", "mean red, green, blue", (3,), ("colour",)),
        "seen": ArraySpec(Axis.FRAME, "uint8", "1 where there is something", fill=0),
        "times": ArraySpec(Axis.FRAME, "float64", "seconds"),
    },
    mask="seen",
)

SHADES = """
import numpy as np
from storyframes_outside import job

times = np.load(job.frame_times)
done = 0
for rgb in job.frames(batch=7):
    shades = rgb.mean(axis=(1, 2), dtype=np.float64)
    job.append(values=shades, seen=np.ones(len(rgb), np.uint8), times=times[done : done + len(rgb)])
    done += len(rgb)
"""
"""Does as it should."""


def wheel(folder: Path, name: str = "tiny", files: dict[str, str] | None = None, needs: str = "") -> str:
    """A wheel made by hand; gives back its pin."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    content = dict(files or {f"{name}.py": "answer = 42\n"})
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    content |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{file},sha256={_short(text)},{len(text)}" for file, text in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in content.items():
            archive.writestr(zipfile.ZipInfo(file), text)  # the same bytes whenever it is made
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def _short(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def with_numpy(folder: Path) -> Requirements:
    """Requirements of an environment that borrows numpy from this one, so that nothing is fetched."""
    packages = Path(np.__file__).parent.parent
    pin = wheel(folder, "borrowed", {"borrowed.pth": f"{packages}\n"})
    pins = folder / "requirements.txt"
    pins.write_text(f"--no-index\n--find-links {folder}\n{pin}\n")
    return Requirements("borrowed", pins)


def installed_with_numpy(folder: Path) -> Requirements:
    """The same, installed, but unpacked here: pip takes a second and a half of a processor."""
    requirements = with_numpy(folder)

    def unpack(_: Requirements, __: str, environment_folder: Path, ___: Path | None) -> None:
        venv.EnvBuilder(symlinks=True).create(environment_folder)
        (packages,) = environment_folder.glob("lib/python*/site-packages")
        with zipfile.ZipFile(folder / "borrowed-1.0-py3-none-any.whl") as archive:
            archive.extractall(packages)

    with patch("tasks.extractors.outside.environment._make", unpack):
        install_environment(requirements)
    return requirements


def plug_in(
    base: type[Extractor[Any]], folder: Path, code: str, environment: Requirements, **attributes: Any
) -> type[Extractor[Any]]:
    """A plug-in's class whose program is ``code``."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(code))
    own = {"spec": SPEC, "version": 1, "program": program, "requirements": environment, **attributes}
    return type("Shades", (base,), own)


def frames_plug_in(folder: Path, code: str, environment: Requirements, **attributes: Any) -> type[Extractor[Any]]:
    """One whose program is sent the frames."""
    return plug_in(OutsideFrameExtractor, folder, code, environment, **attributes)


def files_plug_in(folder: Path, code: str, environment: Requirements, **attributes: Any) -> type[Extractor[Any]]:
    """One whose program reads the session's files."""
    return plug_in(OutsideExtractor, folder, code, environment, **attributes)


FILES = {"video": "s.avi", "transcript": "s.json"}


def _input(path: Path) -> InputFile:
    status = path.stat()
    return InputFile(path, path.name, sha256_file(path), status.st_size, status.st_mtime_ns)


def write_colours(path: Path, frames: int, width: int = 64, height: int = 48) -> None:
    """A video each of whose frames has a colour of its own, in which red, green and blue differ."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = width, height, "yuv420p", 2_000_000
        for number in range(frames):
            colour = (40 + 4 * number % 200, 200 - 3 * number % 150, 20 + 7 * number % 90)
            image = np.full((height, width, 3), colour, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode(None))


class Ground:
    """A session whose clock is in a store, for plug-ins to work on.

    Args:
        folder: for the recording and the store.
        frames: how many; each has a colour of its own.
    """

    def __init__(self, folder: Path, frames: int = 45) -> None:
        folder.mkdir(exist_ok=True)
        write_colours(folder / "s.avi", frames)
        (folder / "s.json").write_text('{"utterances": []}')
        self.study = make_study(folder, video="s.avi", transcript="s.json")
        self.root = folder / "features"
        extract_session(self.study, self.root, "frames")
        self.source = Source("s", {kind: _input(self.study / name) for kind, name in FILES.items()})

    @property
    def rgb(self) -> np.ndarray:
        """The frames as everybody gets them."""
        return np.concatenate([batch.rgb for batch in read_frames(self.study / "s.avi", 8)])

    def extract(self, cls: type[Extractor[Any]], **settings: Any) -> dict[str, np.ndarray]:
        """Extract, publish, and read back every array."""
        extractor = cls(cls.Settings(**settings), CommonSettings())
        storage = LocalStorage(self.root)
        with FeatureWriter(storage, "s", cls.spec) as out:
            extractor.extract(self.source, out)
            current = out.publish("f" * 64, {})
        group = zarr.open_group(self.root / "s" / cls.spec.name / current.version, mode="r")
        return {name: np.asarray(group[name]) for name in group.array_keys()}
