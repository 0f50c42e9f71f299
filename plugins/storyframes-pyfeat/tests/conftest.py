"""The plug-in as it is installed, the environment of its program, and weights, made once for all runs of the tests.

The plug-in's own pins are 5 GB, of which NVIDIA's libraries are most. Here its program has an environment of other
pins, as a user may make one: py-feat from the package index, and all else from the environment of these tests.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent

if find_spec("storyframes_pyfeat") is None:
    pytest.exit("the plug-in is not installed: run its tests with 'make test', or pip install it", 2)

from storyframes_pyfeat.extractor import FACE_DETECTOR, MULTITASK, PyFeat  # noqa: E402 - where it is installed

from tasks.media.upright import write_lossless  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of these tests alone."""
    home = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(home))
    yield home
    patch.undo()


@pytest.fixture(scope="session")
def pins(private_home: Path) -> Path:
    """The plug-in's pin of py-feat, with the libraries of this environment instead of its others."""
    from support.tools.outside_programs import wheel

    (pyfeat,) = re.findall(r"^py-feat==.*(?:\n +--hash.*)*", PyFeat.requirements.pins.read_text(), flags=re.M)
    borrowed = wheel(private_home, "borrowed", {"borrowed.pth": f"{Path(np.__file__).parent.parent}\n"})
    file = private_home / "pins.txt"
    file.write_text(f"--find-links {private_home}\n{pyfeat}\n{borrowed}\n")
    return file


@pytest.fixture(scope="session")
def python(pins: Path) -> Path:
    """The interpreter of the environment, which the command makes."""
    from support.commands import storyframes

    made = storyframes("extractors", "install", "pyfeat", "--pins", pins, environment=os.environ)
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip()) / "bin/python"


@pytest.fixture(scope="session")
def weights(private_home: Path, python: Path) -> Path:
    """The folder of the weights, where storyframes looks for them."""
    folder = FACE_DETECTOR.path.parent
    folder.mkdir(parents=True)
    program = PyFeat.program
    assert program is not None
    command = [str(python), "-I", str(HERE / "make_weights.py"), str(program), str(folder)]
    subprocess.run(command, check=True, env={"HOME": str(private_home)})
    assert {FACE_DETECTOR.path.name, MULTITASK.path.name} < {path.name for path in folder.iterdir()}
    return folder


@pytest.fixture(scope="session")
def rgb() -> np.ndarray:
    """Frames, (12, 160, 192, 3): faces as the weights know them, none in some, two in some, another picture in each."""
    frames = []
    for number in range(12):
        squares = np.random.default_rng(number).integers(0, 100, (10, 12, 3), np.uint8)
        squares[..., 2] = np.maximum(squares[..., 2], squares[..., 0])  # nowhere redder than blue
        frame = np.kron(squares, np.ones((16, 16, 1), np.uint8))
        spots = [] if number % 8 == 5 else [(3 + number % 6, 4, 255, 100)]  # column, row, how red, how green
        spots += [(9, 6, 250, 230)] if number % 8 == 2 else []  # a larger one, of a lower score
        spots = [(6, 5, 128, 100)] if number % 8 == 7 else spots  # hardly a face
        for column, row, red, green in spots:
            frame[row * 16 - 5 : row * 16 + 7, column * 16 - 5 : column * 16 + 7] = red, green, 0
        frames.append(frame)
    return np.stack(frames)


def recording(rgb: np.ndarray, path: Path) -> Path:
    """The frames, lossless, eight in a second."""
    write_lossless(path, np.ascontiguousarray(rgb[..., ::-1]), 8.0)
    return path


@pytest.fixture(scope="session")
def video(rgb: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All frames: a second and a half."""
    return recording(rgb, tmp_path_factory.mktemp("video") / "spots.avi")


@pytest.fixture(scope="session")
def short_video(rgb: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first three frames."""
    return recording(rgb[:3], tmp_path_factory.mktemp("video") / "short.avi")


@pytest.fixture(scope="session")
def study(video: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of this one session."""
    from support.studies import one_session_study

    return one_session_study(tmp_path_factory.mktemp("study") / "study", video)
