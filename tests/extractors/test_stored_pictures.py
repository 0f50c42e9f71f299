"""What is stored of a recording's pictures and of its clock, from the file to the array."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from support.media.recordings import write_recording, write_wave
from support.media.turned import record_turned
from support.media.video_variants import INTERLACED, PROGRESSIVE, ffmpeg, make
from support.messages import naming
from support.models.tiny_image_models import transformers_model
from support.models.torchvision_reference import V1, torchvisions_embeddings, transform
from support.stores import local
from support.studies import extract_session, make_study

import storyframes
from storyframes.features import FEATURES, OPENFACE_COLUMNS
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extract import extract as do_work
from tasks.extractors.base import ExtractionError, Source
from tasks.extractors.frames import FrameClock, Frames
from tasks.extractors.registry import ExtractorsSettings
from tasks.media.recording import DEINTERLACING, RecordingReader
from tasks.media.upright import write_lossless
from tasks.models.libraries import import_torchvision
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.planning.sources import input_file
from tasks.study.load import load_study


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Settings with a tiny model as the feature ``tiny``, for a hundredth of what resnet50 takes in the same pass."""
    model = transformers_model(tmp_path_factory.mktemp("models") / "vit", "vit")
    return {"embed": [{"name": "tiny", "kind": "image", "source": f"path:{model}", "dtype": "float32"}]}


def clock_of(root: Path, video: Path) -> FrameClock:
    """The clock of the session ``s`` as an extractor of its transcript gets it."""
    with FeatureWriter(local(root), "s", FEATURES["glove"]) as out:
        return FrameClock.read(Source("s", {"video": input_file(video)}), out)


def write_openface(path: Path, frames: int) -> None:
    """What OpenFace wrote of so many frames, with a face at rest in all of them."""
    table = pd.DataFrame(0.0, index=range(frames), columns=list(OPENFACE_COLUMNS))
    table["frame"], table["timestamp"] = np.arange(frames) + 1, np.arange(frames) / 25
    table["confidence"], table["success"] = 0.9, 1
    table.to_csv(path, index=False)


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_stored_embeddings_are_torchvisions_of_the_very_colours(tmp_path: Path) -> None:
    """Pictures whose red, green and blue are as different as can be: any other order of them is another embedding."""
    draw = np.random.default_rng(5)
    pictures = np.kron(draw.integers(0, 90, (3, 6, 8, 3)), np.ones((1, 40, 40, 1))).astype(np.uint8)
    pictures += np.array([150, 60, 0], np.uint8)
    study = make_study(tmp_path / "study", video="v.avi")
    write_lossless(study / "v.avi", np.ascontiguousarray(pictures[..., ::-1]), 15)

    torch.manual_seed(3)
    network = import_torchvision().models.resnet50(weights=None)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
    with torch.inference_mode():
        network.train()(torch.stack([transform(V1)(Image.fromarray(picture)) for picture in pictures]))
    weights = tmp_path / "resnet50.pth"
    torch.save(network.state_dict(), weights)

    store, outcomes = extract_session(
        study, tmp_path / "store", "resnet50", resnet50={"path": weights, "engine": "torch"}
    )
    assert outcomes["resnet50"].rows == 3
    stored = store.read("s", "resnet50")
    expected = torchvisions_embeddings(weights, V1, pictures)
    assert np.abs(stored - expected).max() <= 1.5e-3 * np.abs(expected).max()
    for order in ([2, 1, 0], [1, 0, 2]):
        other = torchvisions_embeddings(weights, V1, np.ascontiguousarray(pictures[..., order]))
        assert np.abs(stored - other).max() > 0.05 * np.abs(expected).max()


@pytest.mark.needs("ffmpeg")
def test_an_interlaced_session_is_deinterlaced_and_says_so_where_pictures_are_read(
    tmp_path: Path, tiny: dict[str, Any]
) -> None:
    study, root = make_study(tmp_path / "study", video="mpeg4_top.avi"), tmp_path / "store"
    make(study, next(variant for variant in INTERLACED if variant.name == "mpeg4_top.avi"), interlaced=True)
    store, outcomes = extract_session(study, root, "tiny", **tiny)
    assert outcomes["frames"].caveats == outcomes["tiny"].caveats == ("interlaced video",)
    assert store.attributes("s", "frames")["interlaced_frames"] == 36
    assert store.attributes("s", "tiny")["deinterlacing"] == DEINTERLACING
    stored = store.read("s", "tiny")
    assert len({row.tobytes() for row in stored}) == 36  # unwritten memory gave the same row again and again
    again, _ = extract_session(study, tmp_path / "again", "tiny", **tiny)
    np.testing.assert_array_equal(again.read("s", "tiny"), stored)


@pytest.mark.needs("ffmpeg")
def test_openface_of_an_interlaced_video_says_so_and_its_sound_does_not(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", video="mpeg4_top.avi", openface="faces.csv", audio="sound.wav")
    make(study, next(variant for variant in INTERLACED if variant.name == "mpeg4_top.avi"), interlaced=True)
    write_openface(study / "faces.csv", frames=36)
    write_wave(study / "sound.wav", np.random.default_rng(1).integers(-9000, 9000, 24_000), 16_000)
    _, outcomes = extract_session(study, tmp_path / "store", "openface", "opensmile")
    assert outcomes["openface"].caveats == ("interlaced video",)
    assert outcomes["opensmile"].status == "done"
    assert outcomes["opensmile"].caveats == ()


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("hdr", ["coded", pytest.param("mapped", marks=pytest.mark.slow)])
def test_an_hdr_video_extracts_and_says_what_became_of_its_colours(
    tmp_path: Path, tiny: dict[str, Any], hdr: str
) -> None:
    study, root = make_study(tmp_path / "study", video="v.mp4"), tmp_path / "store"
    picture = ("-f", "lavfi", "-i", "testsrc2=size=96x80:rate=25", "-frames:v", "3", "-pix_fmt", "yuv420p10le")
    tags = ("-colorspace", "bt2020nc", "-color_primaries", "bt2020", "-color_trc", "arib-std-b67")
    ffmpeg(*picture, "-c:v", "libx265", "-x265-params", "log-level=none", *tags, study / "v.mp4")
    store, outcomes = extract_session(study, root, "tiny", recording={"hdr": hdr}, **tiny)
    said = {"coded": "HDR or wide gamut as coded", "mapped": "HDR or wide gamut mapped to BT.709"}[hdr]
    assert (outcomes["tiny"].status, outcomes["tiny"].caveats) == ("done", (said,))
    assert outcomes["frames"].caveats == ()
    decides = {name: store.attributes("s", name)["provenance"]["settings"] for name in ("frames", "tiny")}
    assert "hdr" not in decides["frames"]  # its times are the same
    assert decides["tiny"].get("hdr") == (hdr if hdr == "coded" else None)  # else what is stored would not be current


TOOL = """#!{python}
import os, sys
import cv2
import numpy as np
arguments = dict(zip(sys.argv[1:], sys.argv[2:]))
capture, means = cv2.VideoCapture(arguments["-f"]), []
while (shown := capture.read())[0]:
    means.append(shown[1][:10, :20].mean(axis=(0, 1)))
table = {{column: np.zeros(len(means)) for column in {columns}}}
table["frame"] = np.arange(len(means)) + 1
table["timestamp"] = np.arange(len(means)) / capture.get(cv2.CAP_PROP_FPS)
table["confidence"], table["success"] = np.full(len(means), 0.9), np.ones(len(means))
table["x_0"], table["x_1"], table["x_2"] = np.array(means).T
name = os.path.splitext(os.path.basename(arguments["-f"]))[0]
path = os.path.join(arguments["-out_dir"], name + ".csv")
np.savetxt(path, np.array([*table.values()]).T, "%.10g", ",", header=",".join(table), comments="")
"""


@pytest.mark.slow
def test_one_scene_in_any_orientation_is_one_feature_also_for_a_tool_that_opens_the_file(
    tmp_path: Path, tiny: dict[str, Any]
) -> None:
    tool = tmp_path / "FeatureExtraction"
    tool.write_text(TOOL.format(python=sys.executable, columns=list(OPENFACE_COLUMNS)))
    tool.chmod(0o755)
    openface = {"backend": "binary", "binary": tool, "loads": [tool]}
    features = ("openface", "tiny")
    stored = {}
    for name in ("as it is", "90", "mirrored"):  # the others are in tests/media
        study = make_study(tmp_path / name, video="v.mp4")
        record_turned(study / "v.mp4", name, seconds=0.24)
        store, outcomes = extract_session(study, tmp_path / f"{name} store", *features, openface=openface, **tiny)
        assert {outcome.status for outcome in outcomes.values()} == {"done"}, outcomes
        stored[name] = [store.read("s", feature) for feature in features]
    seen = stored["as it is"][0][:, [OPENFACE_COLUMNS.index(f"x_{number}") for number in range(3)]]
    assert np.ptp(seen, axis=1).min() > 1  # of other colours in every corner
    assert len(np.unique(stored["as it is"][1], axis=0)) > 1  # the model sees different pictures
    for name, values in stored.items():
        for feature, rows, expected in zip(features, values, stored["as it is"], strict=True):
            np.testing.assert_array_equal(rows, expected, err_msg=f"{feature}, {name}")
    assert not list(Path(tempfile.gettempdir()).glob("storyframes-upright-*"))


@pytest.mark.slow
def test_an_upright_copy_for_a_tool_has_the_colours_and_the_caveat_of_the_setting(tmp_path: Path) -> None:
    tool = tmp_path / "FeatureExtraction"
    tool.write_text(TOOL.format(python=sys.executable, columns=list(OPENFACE_COLUMNS)))
    tool.chmod(0o755)
    openface = {"backend": "binary", "binary": tool, "loads": [tool]}
    rows, caveats = {}, {}
    for primaries, hdr in ((1, "coded"), (12, "coded"), (12, "mapped")):  # 12: Display P3
        study = make_study(tmp_path / f"{primaries} {hdr}", video="v.mp4")
        record_turned(study / "v.mp4", "90", seconds=0.24, primaries=primaries)
        store, outcomes = extract_session(
            study, tmp_path / f"{primaries} {hdr} store", "openface", openface=openface, recording={"hdr": hdr}
        )
        rows[primaries, hdr] = store.read("s", "openface")
        caveats[primaries, hdr] = [caveat for caveat in outcomes["openface"].caveats if caveat.startswith("HDR")]
    np.testing.assert_array_equal(rows[12, "coded"], rows[1, "coded"])
    assert np.nanmax(np.abs(rows[12, "mapped"] - rows[1, "coded"])) > 1
    assert list(caveats.values()) == [[], [Caveat.CODED_COLOURS], [Caveat.MAPPED_COLOURS]]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["binary", "csv"])
def test_openface_that_opens_an_hdr_video_itself_says_whose_colours_it_saw(tmp_path: Path, backend: str) -> None:
    tool = tmp_path / "FeatureExtraction"
    tool.write_text(TOOL.format(python=sys.executable, columns=list(OPENFACE_COLUMNS)))
    tool.chmod(0o755)
    openface = {"backend": "csv"} if backend == "csv" else {"backend": "binary", "binary": tool, "loads": [tool]}
    caveats = []
    for primaries in (1, 12):  # 12: Display P3
        study = make_study(tmp_path / str(primaries), video="v.mp4", openface="faces.csv")
        record_turned(study / "v.mp4", "as it is", seconds=0.24, primaries=primaries)
        write_openface(study / "faces.csv", frames=6)
        _, outcomes = extract_session(study, tmp_path / f"{primaries} store", "openface", openface=openface)
        caveats.append([caveat for caveat in outcomes["openface"].caveats if caveat.startswith("HDR")])
    assert caveats == [[], [Caveat.TOOL_COLOURS]]


@pytest.mark.slow
def test_a_recording_by_itself_is_upright(tmp_path: Path, tiny: dict[str, Any]) -> None:
    read = {}
    for name in ("as it is", "270"):
        video = record_turned(tmp_path / f"{name}.mp4", name, seconds=0.4)
        read[name] = storyframes.extract(video, "tiny", cache=tmp_path / "cache", **tiny).to_pandas()
    np.testing.assert_array_equal(read["270"], read["as it is"])


def test_output_of_openface_recorded_elsewhere_may_be_of_pictures_that_lay(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", video="v.mp4", openface="faces.csv")
    record_turned(study / "v.mp4", "90", seconds=0.4)
    write_openface(study / "faces.csv", frames=10)
    _, outcomes = extract_session(study, tmp_path / "store", "openface")
    assert outcomes["openface"].caveats == ("landmarks of a turned video, from elsewhere",)


@pytest.mark.needs("ffmpeg")
def test_a_progressive_session_has_no_caveat(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", video="mpeg4_b.avi")
    make(study, next(variant for variant in PROGRESSIVE if variant.name == "mpeg4_b.avi"))
    store, outcomes = extract_session(study, tmp_path / "store", "frames")
    assert outcomes["frames"].caveats == ()
    assert "interlaced_frames" not in store.attributes("s", "frames")
    np.testing.assert_allclose(store.read("s", "frames", array="time"), np.arange(36) / 25, atol=1e-9)


# --- whose clock it is -----------------------------------------------------------------------------------------------


def test_the_clock_of_another_video_is_refused(tmp_path: Path) -> None:
    study, root = make_study(tmp_path / "study", video="v.avi"), tmp_path / "store"
    write_recording(study / "v.avi", 20)
    extract_session(study, root, "frames")
    clock = clock_of(root, study / "v.avi")
    assert len(clock) == 20
    other = write_recording(tmp_path / "other.avi", 20)
    content = bytearray(other.read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    with pytest.raises(ExtractionError, match=naming("extracted", "frames")):
        clock_of(root, other)


def test_a_clock_of_an_older_version_is_refused_and_made_again(tmp_path: Path, monkeypatch) -> None:
    study, root = make_study(tmp_path / "study", video="v.avi"), tmp_path / "store"
    video = write_recording(study / "v.avi", 20)
    with monkeypatch.context() as patch:
        patch.setattr(Frames, "version", Frames.version - 1)
        extract_session(study, root, "frames")
    with pytest.raises(ExtractionError, match=r"those of version \d+ of frames, this one is \d+: extract frames again"):
        clock_of(root, video)
    _, outcomes = extract_session(study, root, "frames")
    assert not outcomes["frames"].skipped
    assert len(clock_of(root, video)) == 20


# --- a video that is replaced while it is read -----------------------------------------------------------------------


def replace_by_renaming(path: Path, other: Path) -> None:
    shutil.copy(other, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def replace_in_place(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("replace", [replace_by_renaming, replace_in_place])
@pytest.mark.parametrize("other_frames", [20, 12])
def test_a_video_that_is_replaced_between_planning_and_extraction(tmp_path: Path, replace, other_frames: int) -> None:
    study, root = make_study(tmp_path / "study", video="v.avi"), tmp_path / "store"
    write_recording(study / "v.avi", 20)
    other = write_recording(tmp_path / "other.avi", other_frames)
    content = other.read_bytes().replace(b"Lavf", b"lavf")
    other.write_bytes(content)
    create_store(root)
    plan = plan_extraction(load_study(study), root, ExtractorsSettings(), Selection(("s",), ("frames",)))
    replace(study / "v.avi", other)
    (outcome,) = do_work(plan.units[0])
    assert (outcome.status, outcome.reason) == (
        "failed",
        "v.avi: changed while it was being read; run the extraction again",
    )
    assert not FeatureStore(root).sessions


@pytest.mark.parametrize("replace", [replace_by_renaming, replace_in_place])
def test_a_video_that_is_replaced_in_the_middle_of_a_pass(
    tmp_path: Path, replace, tiny: dict[str, Any], monkeypatch
) -> None:
    study, root = make_study(tmp_path / "study", video="v.avi"), tmp_path / "store"
    write_recording(study / "v.avi", 20)
    other = write_recording(tmp_path / "other.avi", 24)
    extract_session(study, root, "frames")
    real = RecordingReader.batches

    def replacing(self):
        batches = real(self)
        yield next(batches)
        replace(study / "v.avi", other)
        yield from batches

    monkeypatch.setattr(RecordingReader, "batches", replacing)
    store, outcomes = extract_session(study, root, "tiny", **tiny)
    assert outcomes["frames"].skipped
    assert outcomes["tiny"].status == "failed"
    assert outcomes["tiny"].reason.startswith("v.avi: ")
    assert store.features("s") == ["frames"]
    monkeypatch.setattr(RecordingReader, "batches", real)
    store, outcomes = extract_session(study, root, "tiny", **tiny)
    assert (outcomes["frames"].rows, outcomes["tiny"].rows) == (24, 24)
