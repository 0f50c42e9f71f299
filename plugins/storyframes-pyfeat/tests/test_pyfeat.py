"""The plug-in gives what py-feat gives, for the right frames and under the right names, without a network."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from storyframes_pyfeat.extractor import FACE_DETECTOR, MULTITASK, SPEC, PyFeat, PyFeatSettings
from support.commands import storyframes
from support.messages import missing, naming

from storyframes.testing import check_extractor, contract, rules
from tasks.extractors.base import CommonSettings, ExtractionError, InputFile, Source
from tasks.extractors.registry import registered
from tasks.media.recording import read_frames
from tasks.models.weights import WeightsError, fetch

HERE = Path(__file__).parent
PROGRAM = Path(sys.modules[PyFeat.__module__].__file__ or "").parent / "program"
FRAMES = 12
NOBODY = [5, 7]
TWO = [2, 10]
SOURCE = Source("s1", {"video": InputFile(Path("v"), "v", "0" * 64, 0, 0)})

# All of them need the environment of its program, which takes many seconds of a processor.
# At night: an environment with torch is installed, and a network of full size computes.
pytestmark = [pytest.mark.usefixtures("weights"), pytest.mark.slow, pytest.mark.nightly]


def arrays(root: Path) -> dict[str, np.ndarray]:
    version = json.loads((root / "s1/pyfeat/current.json").read_text())["version"]
    group = zarr.open_group(root / "s1/pyfeat" / version, mode="r")
    return {name: np.asarray(group[name]) for name in group.array_keys()}


EXTRACT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[4:]
from support.studies import extract_session
study, root, pins = map(Path, sys.argv[1:4])
_, outcomes = extract_session(study, root, "frames", "pyfeat", session_id="s1", pyfeat={"pins": pins})
assert outcomes["pyfeat"].status == "done", outcomes["pyfeat"].reason
"""


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory, study: Path, pins: Path) -> dict[str, np.ndarray]:
    """In a network namespace of its own, in which there is nothing, not even a loopback that is up."""
    root = tmp_path_factory.mktemp("store") / "features"
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    command = [*apart, sys.executable, "-c", EXTRACT, str(study), str(root), str(pins), *sys.path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return arrays(root)


class Marks:
    """A pickle of it makes a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory, python: Path, weights: Path, video: Path) -> Path:
    """The folder where ``inside.py`` left what it saw in the program's environment."""
    folder = tmp_path_factory.mktemp("inside")
    renamed = folder / "renamed.safetensors"
    renamed.write_bytes(pickle.dumps(Marks(folder / "ran")))
    np.save(folder / "frames.npy", np.concatenate([batch.rgb for batch in read_frames(video, 8)]))
    good, also_good = FACE_DETECTOR.path, MULTITASK.path
    cases = [good, also_good, good, renamed, good, good, good, weights / "older.safetensors", renamed, also_good]
    cases += [also_good, also_good]
    command = [str(python), "-I", str(HERE / "inside.py"), str(PROGRAM), *map(str, cases)]
    subprocess.run(command, check=True, env={"HOME": str(folder)}, cwd=folder)
    return folder


@pytest.mark.needs("unshare")
def test_the_values_are_pyfeats_under_its_names(extracted: dict[str, np.ndarray], inside: Path) -> None:
    direct = pd.read_csv(inside / "direct.csv")
    largest = direct.sort_values("FaceRectWidth", ascending=False).drop_duplicates("frame").sort_values("frame")
    assert len(largest) == len(extracted["found"]) == FRAMES
    for name in ("au", "emotion", "affect", "head_pose", "gaze", "blendshapes", "box"):
        columns = list(SPEC.arrays[name].columns)
        np.testing.assert_allclose(extracted[name], largest[columns], rtol=2e-3, atol=2e-4, err_msg=name)
    for axis, side in enumerate("xy"):
        expected = largest[[f"{side}_{number}" for number in range(68)]]
        np.testing.assert_allclose(extracted["landmarks_2d"][:, :, axis], expected, rtol=2e-3, atol=2, err_msg=side)
    seen = extracted["found"] == 1
    np.testing.assert_allclose(extracted["score"][seen], largest["FaceScore"][seen], rtol=1e-5)
    # A shift by a frame, or two action units in each other's place, would show.
    assert np.abs(np.diff(extracted["au"][seen], axis=0)).max(axis=1).min() > 2e-3
    means = extracted["au"][seen].mean(axis=0)
    assert np.abs(np.subtract.outer(means, means) + np.eye(20)).min() > 2e-4


@pytest.mark.needs("unshare")
def test_where_nobody_is_there_is_nothing(extracted: dict[str, np.ndarray]) -> None:
    assert np.flatnonzero(extracted["found"] == 0).tolist() == NOBODY
    assert np.flatnonzero(extracted["faces"] == 0).tolist() == NOBODY
    for name in set(SPEC.arrays) - {"found", "faces"}:
        rows = extracted[name].reshape(FRAMES, -1)
        assert np.isnan(rows[NOBODY]).all(), name
        assert np.isfinite(np.delete(rows, NOBODY, axis=0)).all(), name


@pytest.mark.needs("unshare")
def test_of_two_faces_the_larger_one_counts_and_the_frame_says_so(extracted: dict[str, np.ndarray]) -> None:
    assert np.flatnonzero(extracted["faces"] == 2).tolist() == TWO
    left, _, width, _ = extracted["box"].T
    assert (width[TWO] > 100).all()
    assert (left[TWO] + width[TWO] / 2 > 150).all()  # the right one, of a lower score
    alone = [0, 1, 3]
    np.testing.assert_allclose(width[alone], 64 * 1.2, rtol=1e-4)
    np.testing.assert_allclose(left[alone] + width[alone] / 2, [(3 + number) * 16 + 8 for number in alone], rtol=1e-4)


def test_squares_are_pooled_as_the_compiled_operator_pools_them(inside: Path) -> None:
    """As a plain loop: four samples a cell, each between four values of the map; what is beyond the map is 0."""
    saved = np.load(inside / "squares.npz")
    maps = saved["maps"].astype(float)
    height, width = maps.shape[-2:]
    expected = np.zeros((40, 3, 4, 4))
    beyond = 0
    for number, (of, *corners) in enumerate(saved["squares"]):
        left, top, right, _ = (corner / 16 - 0.5 for corner in corners)
        steps = (np.arange(8) + 0.5) / 8 * (right - left)
        for row, y in enumerate(top + steps):
            for column, x in enumerate(left + steps):
                if not (-1 <= y <= height and -1 <= x <= width):
                    beyond += 1
                    continue
                y_in, x_in = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
                above, before = min(int(y_in), height - 2), min(int(x_in), width - 2)
                down, across = y_in - above, x_in - before
                corner = maps[int(of), :, above : above + 2, before : before + 2]
                value = np.array([1 - down, down]) @ corner @ np.array([1 - across, across])
                expected[number, :, row // 2, column // 2] += value / 4
    assert 100 < beyond < 2000
    np.testing.assert_allclose(saved["pooled"], expected, atol=1e-5)


def plug_in(pins: Path | None = None, **settings: object) -> PyFeat:
    return PyFeat(PyFeatSettings(pins=pins, **settings), CommonSettings())


def test_weights_and_pins_decide_by_their_content(tmp_path: Path, pins: Path, weights: Path) -> None:
    moved, other = tmp_path / "moved.safetensors", tmp_path / "other.safetensors"
    shutil.copyfile(MULTITASK.path, moved)
    other.write_bytes(MULTITASK.path.read_bytes() + b"x")
    digests = [
        plug_in(pins, **settings).fingerprint(SOURCE).digest
        for settings in ({}, {"multitask": moved}, {"cpus": 2}, {"timeout_s": 7})
    ]
    assert len(set(digests)) == 1
    changed = [
        plug_in(pins, **settings).fingerprint(SOURCE).digest
        for settings in ({"multitask": other}, {"face_detector": moved}, {"min_face_detection_confidence": 0.6})
    ]
    assert len({*digests, *changed}) == 4
    models = plug_in(pins).models()
    assert models["requirements"] != PyFeat.requirements.sha256
    assert len(models) == 4


def test_without_weights_one_sentence_says_where_to_get_them(
    tmp_path: Path, pins: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "storyframes").mkdir()
    (tmp_path / "storyframes/environments").symlink_to(python.parents[2])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ExtractionError, match=naming("https://", "model.safetensors", "models/retinaface")):
        plug_in(pins).check_tool()
    listed = storyframes("models", "list", "--json", environment=os.environ)
    licences = {model["model"]: model["licence"] for model in json.loads(listed.stdout)}
    for name in ("pyfeat-retinaface", "pyfeat-multitask"):
        assert "non-commercial" in licences[name]
    with pytest.raises(WeightsError, match="cannot be checked") as refused:
        fetch(MULTITASK)
    assert licences["pyfeat-multitask"] in str(refused.value)


def test_files_that_could_run_code_are_not_opened(tmp_path: Path, pins: Path, study: Path) -> None:
    for name in ("weights.pkl", "weights.pt", "weights.joblib"):
        (tmp_path / name).write_bytes(pickle.dumps({}))
        with pytest.raises(ExtractionError, match=naming("[pyfeat] multitask", name, ".safetensors file")):
            plug_in(pins, multitask=tmp_path / name).check_tool()
    with pytest.raises(ExtractionError, match=naming("[pyfeat] multitask", "gone.safetensors", "not exist")):
        plug_in(pins, multitask=tmp_path / "gone.safetensors").check_tool()


def test_other_weights_are_refused_by_name(inside: Path) -> None:
    expected = [
        ("renamed.safetensors", "multitask network"),
        ("retinaface_r34.safetensors", "multitask network"),
        ("older.safetensors", "24 action units", "8 emotions", "20"),
        ("renamed.safetensors", "RetinaFace"),
        ("face_multitask_v28.safetensors", "RetinaFace"),
    ]
    said = json.loads((inside / "said.json").read_text())
    assert [missing(sentence, *parts) for sentence, parts in zip(said, expected, strict=True)] == [[]] * 5
    assert not (inside / "ran").exists()


@pytest.mark.needs("unshare")
def test_a_lower_threshold_finds_more(inside: Path, extracted: dict[str, np.ndarray]) -> None:
    found = np.load(inside / "more.npz")
    assert np.flatnonzero(found["found"] == 0).tolist() == [5]
    assert 0.2 < found["score"][7] < 0.5
    seen = extracted["found"] == 1
    np.testing.assert_allclose(found["au"][seen], extracted["au"][seen], rtol=2e-3, atol=2e-4)


def test_overlapping_boxes_are_dropped_as_a_plain_loop_drops_them(inside: Path) -> None:
    """For the builds of torch beside which torchvision's own operator cannot be loaded."""
    kept = np.load(inside / "boxes.npz")
    boxes, groups = kept["boxes"].astype(float), kept["groups"]
    expected: list[int] = []
    for number in np.argsort(-kept["scores"]):
        alike = [other for other in expected if groups[other] == groups[number]]
        if all(overlap(boxes[number], boxes[other]) <= 0.4 for other in alike):
            expected.append(int(number))
    assert 20 < len(expected) < 200
    assert kept["kept"].tolist() == expected
    assert kept["of_none"].tolist() == []


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union of two boxes: left, top, right, bottom."""
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    shared = np.prod(np.maximum(sides, 0))
    return float(shared / (np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]) - shared))


def test_it_keeps_the_contract_of_extractors(short_video: Path, pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged and missing inputs, fingerprints, another process; short recordings show no growth of memory."""
    monkeypatch.setattr(contract, "RULES", tuple(rule for rule in rules.RULES if rule is not rules._memory))
    decides_nothing = ("cpus", "timeout_s", "timeout_s_per_video_s", "face_detector", "multitask", "pins")
    check_extractor(PyFeat, short_video, settings={"pins": pins}, decides_nothing=decides_nothing)


def test_it_is_listed_and_says_what_it_lacks(tmp_path: Path, pins: Path, study: Path) -> None:
    assert "pyfeat" in registered()
    refused = storyframes("extract", study, tmp_path / "features", "--features", "pyfeat", environment=os.environ)
    assert refused.returncode == 2
    assert "storyframes extractors install pyfeat" in " ".join(refused.stderr.split())
    config = tmp_path / "my.toml"
    config.write_text(f"[pyfeat]\npins = '{pins}'\n")
    listed = storyframes("extractors", "list", "--json", "--config", config, environment=os.environ)
    (state,) = (each for each in json.loads(listed.stdout)["extractors"] if each["feature"] == "pyfeat")
    assert (state["run"], state["origin"], state["missing"]) == ("venv", "storyframes-pyfeat 0.1.0", "")
    config.write_text(f"[pyfeat]\npins = '{tmp_path / 'gone.txt'}'\n")
    listed = storyframes("extractors", "list", "--json", "--config", config, environment=os.environ)
    (state,) = (each for each in json.loads(listed.stdout)["extractors"] if each["feature"] == "pyfeat")
    assert missing(state["missing"], "gone.txt", "pins of pyfeat") == []
