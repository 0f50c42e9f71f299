"""Regions for a tool that opens files itself: its pixels, points of the whole picture, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.media.turned import MATRICES, OPPOSITE, TURNED_BY_FFMPEG, set_matrix
from support.media.video_variants import ffmpeg
from support.models.tiny_classifiers import LABELS, image_classifier
from support.models.tiny_image_models import transformers_model
from support.processes import wait_for
from support.studies import run

from storyframes.features import OPENFACE_COLUMNS
from storyframes.store.feature_store import FeatureStore
from tasks.media.upright import write_lossless
from tasks.planning.selection import Selection

ROOT = Path(__file__).parents[2]
FRAMES, HEIGHT, WIDTH, FPS, SQUARE = 12, 60, 80, 25.0, 6
SEEN = np.array([not 4 <= number < 6 for number in range(FRAMES)])

# It finds the white square: its centre is every landmark, and the mean level of the picture the confidence.
TOOL = """#!{python}
import os, sys
import cv2
import numpy as np
arguments = dict(zip(sys.argv[1:], sys.argv[2:]))
capture, rows = cv2.VideoCapture(arguments["-f"]), []
while (shown := capture.read())[0]:
    white = (shown[1] > 170).all(axis=2)
    y, x = (places.mean() for places in np.nonzero(white)) if white.any() else (0, 0)
    rows.append((x, y, len(rows) + 1, len(rows) / {fps}, shown[1].mean() / 255, white.sum()))
table = {{column: np.full(len(rows), 0.5) for column in {columns}}}
x, y, frame, time, level, area = np.array(rows).T
for column in table:
    if column.startswith(("x_", "eye_lmk_x_", "p_tx")):
        table[column] = x.copy()
    if column.startswith(("y_", "eye_lmk_y_", "p_ty")):
        table[column] = y.copy()
table["frame"], table["timestamp"], table["face_id"] = frame, time, 0 * frame
table["confidence"], table["success"], table["p_scale"] = level, 0 * frame + 1, np.sqrt(area)
name = os.path.splitext(os.path.basename(arguments["-f"]))[0]
path = os.path.join(arguments["-out_dir"], name + ".csv")
np.savetxt(path, np.array([*table.values()]).T, "%.10g", ",", header=",".join(table), comments="")
"""


def centre(number: int) -> tuple[float, float]:
    """Of the white square, in pixels of the whole picture."""
    return 20.5 + 3 * number, 40.5 - 2 * number


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    pictures = np.random.default_rng(5).integers(0, 100, (FRAMES, HEIGHT, WIDTH, 3), np.uint8)
    for number in range(FRAMES):
        left, top = (round(side - (SQUARE - 1) / 2) for side in centre(number))
        pictures[number, top : top + SQUARE, left : left + SQUARE] = 255
    return pictures


@pytest.fixture
def openface(tmp_path: Path) -> dict[str, object]:
    tool = tmp_path / "FeatureExtraction"
    tool.write_text(TOOL.format(python=sys.executable, columns=list(OPENFACE_COLUMNS), fps=FPS))
    tool.chmod(0o755)
    return {"backend": "binary", "binary": tool, "loads": [tool]}


def write_study(root: Path, pictures: np.ndarray, orientation: str = "as it is") -> Path:
    """Session ``whole`` with a fixed and a moving region, ``cut`` with the fixed one's pictures as a file."""
    root.mkdir()
    write_lossless(root / "upright.avi", pictures, FPS)
    stored = TURNED_BY_FFMPEG[OPPOSITE.get(orientation, orientation)]
    ffmpeg("-i", root / "upright.avi", "-vf", stored, "-c:v", "png", "-pix_fmt", "rgb24", root / "whole.mov")
    set_matrix(root / "whole.mov", MATRICES[orientation])
    write_lossless(root / "cut.avi", np.ascontiguousarray(pictures[:, 6:54, 10:70]), FPS)
    lines = ["time_s,x,y,w,h"]
    for number in range(FRAMES):
        (x, y), side = centre(number), 10 if number < 9 else 20
        box = ((x + 0.5 - side) / WIDTH, (y + 0.5 - side) / HEIGHT, 2 * side / WIDTH, 2 * side / HEIGHT)
        lines.append(f"{number / FPS},{','.join(map(repr, box)) if SEEN[number] else ',,,'}")
    (root / "boxes.csv").write_text("\n".join(lines) + "\n")
    (root / "sessions.csv").write_text("session_id,participant_id,video\nwhole,p,whole.mov\ncut,q,cut.avi\n")
    (root / "tracks.csv").write_text(
        'session_id,track,of,region\nwhole,fixed,,"0.125,0.1,0.75,0.8"\nwhole,moving,,boxes.csv\n'
    )
    return root


@pytest.mark.slow
@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("orientation", ["as it is", "90"])
def test_openface_of_regions_has_pixels_of_the_whole_upright_picture(
    tmp_path: Path, pictures: np.ndarray, openface: dict[str, object], orientation: str
) -> None:
    study, root = write_study(tmp_path / "study", pictures, orientation), tmp_path / "features"
    outcomes = run(study, root, Selection(only=("openface",)), openface=openface)
    assert {outcome.status for outcome in outcomes.values()} == {"done"}, outcomes
    store = FeatureStore(root)
    fixed, cut, moving = (
        store.read(*of) for of in (("whole", "openface@fixed"), ("cut", "openface"), ("whole", "openface@moving"))
    )
    shifted = _shifts(10, 6)
    for place, column in enumerate(OPENFACE_COLUMNS):
        np.testing.assert_allclose(fixed[:, place], cut[:, place] + shifted.get(column, 0), atol=1e-5, err_msg=column)
    expected = np.array([centre(number) for number in range(FRAMES)])
    for x, y in (("x_0", "y_67"), ("eye_lmk_x_3", "eye_lmk_y_55"), ("p_tx", "p_ty")):
        places = [OPENFACE_COLUMNS.index(x), OPENFACE_COLUMNS.index(y)]
        np.testing.assert_allclose(fixed[:, places], expected, atol=1e-3)
        np.testing.assert_allclose(moving[SEEN][:, places], expected[SEEN], atol=0.3)
    scale = moving[:, OPENFACE_COLUMNS.index("p_scale")]
    np.testing.assert_allclose(scale[SEEN], SQUARE, atol=0.7)  # the tool saw a square of twice the side in small boxes
    assert np.isnan(moving[~SEEN]).all()
    np.testing.assert_array_equal(store.read("whole", "openface@moving", array="valid"), SEEN)
    assert np.isnan(store.read("whole", "openface@moving", array="confidence")[~SEEN]).all()
    record = store.attributes("whole", "openface@moving")
    assert record["region"]["size"] == [40, 40]
    assert store.spec("whole", "openface@moving").mask == "valid"


def _shifts(x: float, y: float) -> dict[str, float]:
    in_x = ("p_tx", *(f"x_{n}" for n in range(68)), *(f"eye_lmk_x_{n}" for n in range(56)))
    in_y = ("p_ty", *(f"y_{n}" for n in range(68)), *(f"eye_lmk_y_{n}" for n in range(56)))
    return dict.fromkeys(in_x, x) | dict.fromkeys(in_y, y)


@pytest.mark.slow
@pytest.mark.needs("ffmpeg")
def test_a_face_is_cut_out_of_a_region_by_landmarks_of_the_whole_picture(
    tmp_path: Path, pictures: np.ndarray, openface: dict[str, object]
) -> None:
    study, root = write_study(tmp_path / "study", pictures), tmp_path / "features"
    section = {"kind": "image", "crop": "face", "margin": 1.0}
    embed = [
        {"name": "face", "source": f"path:{transformers_model(tmp_path / 'vit', 'vit')}", **section},
        {"name": "mood", "source": f"path:{image_classifier(tmp_path / 'head')}", "output": "scores", **section},
    ]
    tool = Path(str(openface["binary"]))
    spread = 'for n in range(1, 68, 2):\n    table[f"x_{n}"] += 12\n'
    tool.write_text(tool.read_text().replace('table["frame"], table', f'{spread}table["frame"], table'))
    run(study, root, Selection(only=("openface",)), openface=openface)
    run(study, root, Selection(only=("face", "mood")), openface=openface, embed=embed)
    store = FeatureStore(root)
    for feature in ("face", "mood"):
        np.testing.assert_array_equal(store.read("whole", f"{feature}@fixed"), store.read("cut", feature))
        assert np.isfinite(store.read("cut", feature)).all()
        assert len(np.unique(store.read("cut", feature), axis=0)) == FRAMES
    assert store.spec("whole", "mood@fixed").columns == LABELS
    np.testing.assert_array_equal(np.isfinite(store.read("whole", "mood@moving.happy")).ravel(), SEEN)


WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from support.studies import run
from tasks.planning.selection import Selection
study, root, tool = map(Path, sys.argv[1:])
section = {"backend": "binary", "binary": tool, "loads": [tool]}
run(study, root, Selection(("whole",), ("openface",), tracks=("fixed",)), openface=section)
"""


@pytest.mark.slow
@pytest.mark.needs("ffmpeg")
def test_no_picture_is_left_of_a_worker_that_is_killed(tmp_path: Path, pictures: np.ndarray) -> None:
    study, temporary = write_study(tmp_path / "study", pictures), tmp_path / "temporary"
    temporary.mkdir()
    tool = tmp_path / "FeatureExtraction"
    tool.write_text(f"#!/bin/sh\necho begun > {tmp_path}/begun\nsleep 1000\n")
    tool.chmod(0o755)
    command = [sys.executable, "-c", WORKER, str(study), str(tmp_path / "features"), str(tool)]
    environment = os.environ | {"TMPDIR": str(temporary)}
    worker = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    wait_for((tmp_path / "begun").exists)
    (copy,) = temporary.glob("storyframes-upright-*/*")
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    # os.walk, because rglob fails where a folder goes away meanwhile.
    wait_for(lambda: not any("storyframes-upright-" in folder for folder, _, _ in os.walk(temporary)))
    wait_for(lambda: not any(names for _, _, names in os.walk(temporary)))
    assert not [*(tmp_path / "features").rglob("values/c/*")]
