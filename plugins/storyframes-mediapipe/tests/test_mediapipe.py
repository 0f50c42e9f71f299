"""The plug-in gives what MediaPipe gives, for the right frames and under the right names, without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from storyframes_mediapipe.extractor import SPEC, MediaPipe, MediaPipeSettings
from storyframes_mediapipe.faceless import CAVEAT, SHARE
from storyframes_mediapipe.landmarks import BODY, FACE, HAND
from support.commands import storyframes
from support.media.real_faces import video_clip
from support.messages import missing, naming
from support.studies import extract_session, one_session_study

import storyframes as reader
from storyframes.testing import check_extractor, contract, rules
from tasks.extractors.base import CommonSettings, ExtractionError
from tasks.extractors.openface.csv_output import read_openface_csv
from tasks.extractors.openface.tool import cut_clip
from tasks.extractors.registry import registered
from tasks.media.recording import read_frames
from tasks.media.upright import write_lossless

HERE = Path(__file__).parent
PROGRAM = Path(sys.modules[MediaPipe.__module__].__file__ or "").parent / "program"
FIRST, FRAMES = 300, 60  # of a recording of the demo: its last four seconds
LEFT, BACK = 36, 48  # about when the face leaves the picture, and when it is back

# All of them need the environment of its program, which takes many seconds of a processor.
# At night: an environment with MediaPipe is installed.
pytestmark = [pytest.mark.usefixtures("bundle"), pytest.mark.slow, pytest.mark.nightly]


def arrays(root: Path, session_id: str) -> dict[str, np.ndarray]:
    version = json.loads((root / session_id / "mediapipe/current.json").read_text())["version"]
    group = zarr.open_group(root / session_id / "mediapipe" / version, mode="r")
    return {name: np.asarray(group[name]) for name in group.array_keys()}


@pytest.fixture(scope="module")
def rgb(demo_study: Path) -> np.ndarray:
    return np.concatenate([batch.rgb for batch in read_frames(demo_study / "videos/p01-s01.avi", 8)])[FIRST:]


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory, rgb: np.ndarray, python: Path) -> dict[str, np.ndarray]:
    """The end of a session of the demo: a portrait that moves."""
    folder = tmp_path_factory.mktemp("end")
    write_lossless(folder / "end.avi", np.ascontiguousarray(rgb[..., ::-1]), 15.0)
    study = one_session_study(folder / "study", folder / "end.avi")
    _, outcomes = extract_session(study, folder / "features", "frames", "mediapipe", session_id="s1")
    assert outcomes["mediapipe"].status == "done", outcomes["mediapipe"].reason
    return arrays(folder / "features", "s1")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory, demo_study: Path) -> Path:
    """A study of one session of a second."""
    folder = tmp_path_factory.mktemp("clip")
    cut_clip(demo_study / "videos/p01-s01.avi", folder / "clip.avi", 1.0)
    return one_session_study(folder / "study", folder / "clip.avi")


def directly(python: Path, bundle: Path, frames: np.ndarray, folder: Path) -> dict[str, np.ndarray]:
    """What MediaPipe says of frames of 15 a second where nobody of us is between."""
    milliseconds = np.round(np.arange(len(frames)) / 15 * 1000).astype(int)
    paths = [folder / name for name in ("frames.npy", "milliseconds.npy", "out.npz")]
    np.save(paths[0], frames)
    np.save(paths[1], milliseconds)
    command = [str(python), "-I", str(HERE / "direct.py"), str(bundle), *map(str, paths)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env={"HOME": str(folder)})
    with np.load(paths[2]) as found:
        return dict(found)


def test_the_values_are_mediapipes_to_the_bit(
    extracted: dict[str, np.ndarray], rgb: np.ndarray, python: Path, bundle: Path, tmp_path: Path
) -> None:
    """Two processes, one of which is fed through a pipe: so it is deterministic as well."""
    found = directly(python, bundle, rgb, tmp_path)
    assert len(rgb) == len(extracted["found"]) == FRAMES
    for name, direct in found.items():
        np.testing.assert_array_equal(extracted[name], direct.astype(np.float32), err_msg=name)
    moved = np.abs(np.diff(extracted["face_2d"][:LEFT], axis=0)).max(axis=(1, 2))
    assert (moved > 0.01).mean() > 0.9  # so a shift by one frame would show


def test_swapped_channels_would_show(
    extracted: dict[str, np.ndarray], rgb: np.ndarray, python: Path, bundle: Path, tmp_path: Path
) -> None:
    swapped = directly(python, bundle, np.ascontiguousarray(rgb[:30, ..., ::-1]), tmp_path)
    assert np.nanmax(np.abs(swapped["face_2d"] - extracted["face_2d"][:30])) > 0.1


def test_where_nobody_is_there_is_nothing(extracted: dict[str, np.ndarray]) -> None:
    parts, found = extracted["parts"], extracted["found"]
    gone = np.flatnonzero(found == 0)
    assert len(gone)
    assert ((gone >= LEFT) & (gone < BACK + 12)).all()
    assert found[:LEFT].all()
    np.testing.assert_array_equal(found, parts.any(axis=1))
    for part, names in (("body", 0), ("face", 1)):
        for name in (name for name in SPEC.arrays if name.startswith(part)):
            rows = extracted[name].reshape(FRAMES, -1)
            assert np.isnan(rows[parts[:, names] == 0]).all(), name
            assert np.isfinite(rows[parts[:, names] == 1]).all(), name
    hands = extracted["hands_2d"].reshape(FRAMES, 2, -1)
    np.testing.assert_array_equal(np.isfinite(hands).all(axis=2), parts[:, 2:] == 1)


@pytest.mark.needs("real faces")
def test_the_body_of_a_title_card_is_a_caveat(tmp_path: Path) -> None:
    study = one_session_study(tmp_path / "study", video_clip("nobody").path)
    store, outcomes = extract_session(study, tmp_path / "features", "frames", "mediapipe", session_id="s1")
    assert outcomes["mediapipe"].status == "done", outcomes["mediapipe"].reason
    version = store.read_status("s1", "mediapipe").current
    assert version is not None
    assert CAVEAT in version.caveats
    assert version.quality[SHARE] == pytest.approx(57 / 95)


def test_the_face_is_where_openface_saw_it(extracted: dict[str, np.ndarray], demo_study: Path) -> None:
    """Two tools that know nothing of each other: pixels, sides and frames are right."""
    values = np.concatenate(list(read_openface_csv(demo_study / "openface/p01-s01.csv.gz", FIRST + FRAMES)))[FIRST:]
    columns = list(reader.FEATURES["openface"].columns)
    both = (values[:, columns.index("success")] == 1) & (extracted["parts"][:, 1] == 1)
    assert both.sum() > 40
    mesh = {"mesh_1": 30, "mesh_33": 36, "mesh_263": 45, "mesh_152": 8}  # nose, outer eye corners, chin
    for name, number in mesh.items():
        theirs = values[:, [columns.index(f"x_{number}"), columns.index(f"y_{number}")]]
        apart = np.linalg.norm(extracted["face_2d"][:, FACE.index(name)] - theirs, axis=1)[both]
        assert np.median(apart) < 8, (name, np.median(apart))
        assert np.percentile(apart, 95) < 16, name
    right, left = (extracted["face_2d"][both, FACE.index(f"mesh_{corner}"), 0] for corner in (33, 263))
    assert (right < left).all()  # the person's own right eye is on the left of the picture


def ask(python: Path, code: str) -> object:
    command = [str(python), "-I", "-c", code, str(PROGRAM)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def test_the_names_are_mediapipes(python: Path) -> None:
    code = """
import json
from mediapipe.tasks.python.vision import FaceLandmarksConnections as face, PoseLandmark
from mediapipe.tasks.python.vision.hand_landmarker import HandLandmark
irises = [sorted({point for edge in edges for point in (edge.start, edge.end)})
          for edges in (face.FACE_LANDMARKS_RIGHT_IRIS, face.FACE_LANDMARKS_LEFT_IRIS)]
print(json.dumps([[mark.name.lower() for mark in PoseLandmark], [mark.name.lower() for mark in HandLandmark], irises]))
"""
    body, hand, (right, left) = ask(python, code)  # type: ignore[misc]
    assert tuple(body) == BODY
    assert tuple(hand) == HAND
    assert [FACE[number] for number in right] == [f"right_iris_{number}" for number in range(1, 5)]
    assert [FACE[number] for number in left] == [f"left_iris_{number}" for number in range(1, 5)]


def test_each_hand_goes_to_its_own_place(python: Path) -> None:
    """No hand is in the demo's pictures: here MediaPipe's own landmarks are filled."""
    code = """
import json, sys
from types import SimpleNamespace
import numpy as np
sys.path.insert(0, sys.argv[1])
from holistic import rows_of
from mediapipe.tasks.python.components.containers.landmark import NormalizedLandmark
def hand(x):
    return [NormalizedLandmark(x=x, y=number / 21, z=-x) for number in range(21)]
def rows(left, right):
    nothing = dict(pose_landmarks=[], pose_world_landmarks=[], face_landmarks=[])
    return rows_of(SimpleNamespace(left_hand_landmarks=left, right_hand_landmarks=right, **nothing), 640, 480)
for row in (rows(hand(.25), []), rows([], hand(.5)), rows(hand(.25), hand(.5))):
    print(row["parts"], row["hands_2d"][:, 20], row["hands_z"][:, 3])
both = rows(hand(.25), hand(.5))
one = rows([], hand(.5))
print(json.dumps([both["parts"].tolist(), both["hands_2d"][:, 20].tolist(), both["hands_z"][:, 3].tolist(),
                  one["parts"].tolist(), np.isnan(one["hands_2d"]).all(axis=(1, 2)).tolist(), int(one["found"])]))
"""
    parts, ends, depths, one_parts, empty, found = ask(python, code)  # type: ignore[misc]
    assert parts == [0, 0, 1, 1]
    np.testing.assert_allclose(ends, [[160, 480 * 20 / 21], [320, 480 * 20 / 21]], rtol=1e-6)
    assert depths == [-0.25, -0.5]
    assert (one_parts, empty, found) == ([0, 0, 0, 1], [True, False], 1)


def test_a_parameter_reaches_mediapipe(clip: Path, tmp_path: Path) -> None:
    values = []
    for number, settings in enumerate(({}, {"static_image_mode": True})):
        root = tmp_path / str(number)
        extract_session(clip, root, "frames", "mediapipe", session_id="s1", mediapipe=settings)
        values.append(arrays(root, "s1")["body_2d"])
    assert not np.array_equal(values[0], values[1])


def test_a_bundle_that_is_not_there_is_named(tmp_path: Path, python: Path) -> None:
    with pytest.raises(ExtractionError, match=naming("[mediapipe] model", "gone.task", "not exist")):
        MediaPipe(MediaPipeSettings(model=tmp_path / "gone.task"), CommonSettings()).check_tool()


def test_without_the_bundle_one_sentence_says_where_to_get_it(
    tmp_path: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "storyframes").mkdir()
    (tmp_path / "storyframes/environments").symlink_to(python.parents[2])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ExtractionError, match=naming("https://", "/holistic_landmarker.task", "/models/")):
        MediaPipe(MediaPipeSettings(), CommonSettings()).check_tool()
    listed = storyframes("models", "list", "--json", environment=os.environ)
    (model,) = (model for model in json.loads(listed.stdout) if model["model"] == "mediapipe-holistic")
    refused = storyframes("models", "fetch", "mediapipe-holistic", environment=os.environ)
    assert refused.returncode == 1
    assert missing(refused.stderr, "checksum", model["licence"]) == []


EXTRACT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from support.studies import extract_session
_, outcomes = extract_session(Path(sys.argv[1]), Path(sys.argv[2]), "frames", "mediapipe", session_id="s1")
assert outcomes["mediapipe"].status == "done", outcomes["mediapipe"].reason
"""


def test_it_keeps_the_contract_of_extractors(tmp_path: Path, demo_study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged and missing inputs, fingerprints, another process; short recordings show no growth of memory.

    Where the bundle is decides nothing.
    """
    monkeypatch.setattr(contract, "RULES", tuple(rule for rule in rules.RULES if rule is not rules._memory))
    cut_clip(demo_study / "videos/p01-s01.avi", short := tmp_path / "short.avi", 1.0)
    decides_nothing = ("cpus", "timeout_s", "timeout_s_per_video_s", "model", "pins")
    check_extractor(MediaPipe, short, decides_nothing=decides_nothing)


@pytest.mark.needs("unshare")
def test_it_needs_no_network(clip: Path, tmp_path: Path, python: Path) -> None:
    """In a network namespace of its own, in which there is nothing, not even a loopback that is up."""
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    command = [*apart, sys.executable, "-c", EXTRACT, str(clip), str(tmp_path / "features"), *sys.path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert arrays(tmp_path / "features", "s1")["found"].all()


def test_it_is_listed_and_says_what_it_lacks(tmp_path: Path, python: Path, clip: Path) -> None:
    assert "mediapipe" in registered()
    here = storyframes("extractors", "list", environment=os.environ)
    (line,) = (line for line in here.stdout.splitlines() if "mediapipe" in line)
    assert "own environment" in line
    assert "storyframes-mediapipe 0.1.0" in line
    assert "yes" in line
    elsewhere = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    there = storyframes("extractors", "list", environment=elsewhere)
    assert "storyframes extractors install mediapipe" in there.stdout
    refused = storyframes("extract", clip, tmp_path / "features", "--features", "mediapipe", environment=elsewhere)
    assert refused.returncode == 2
    assert missing(refused.stderr, "mediapipe", "environment of its own") == []
