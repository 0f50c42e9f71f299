"""The dope feature: frames in, arrays in the store; alone and sharing a pass with resnet50."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.dope.blank_model import blank_content, expect_everywhere, saved
from support.media.turned import record_turned
from support.messages import missing
from support.stores import local
from support.studies import extract_session, make_study

from storyframes.features import BODY_JOINTS, FACE_LANDMARKS, FEATURES, HAND_JOINTS
from storyframes.store import catalogue, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from tasks.extract import Outcome
from tasks.extract import extract as do_work
from tasks.extractors.dope.joints import Part
from tasks.extractors.registry import ExtractorsSettings
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.media.upright import write_lossless
from tasks.planning.plan import Plan, plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

pytestmark = pytest.mark.usefixtures("layers_once")

FRAMES = 10  # two batches


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "study"
    write_study(folder, SyntheticStudy(sessions=1, seconds=FRAMES / 15, width=98, height=74))
    return folder


@pytest.fixture(scope="module")
def crowd(tmp_path_factory) -> Path:
    """A model that sees a body, a hand and a face in every box."""
    content = blank_content({Part.BODY: 2, Part.HAND: 7, Part.FACE: 4}, hand_ppi_kwargs={"K": 3})
    torch.manual_seed(0)
    for part, anchor_pose in ((Part.BODY, 1), (Part.HAND, 5), (Part.FACE, 0)):
        expect_everywhere(content, part, anchor_pose)
        poses = torch.rand(content["state_dict"][f"roi_heads.{part.value}_anchor_poses"].shape)
        content["state_dict"][f"roi_heads.{part.value}_anchor_poses"] = poses
    return saved(content, tmp_path_factory.mktemp("model") / "crowd.pth.tgz")


def planned(study: Path, root: Path, only: tuple[str, ...] = ("dope",), resnet50=None, **dope) -> Plan:
    create_store(root)
    # Few boxes: here it matters what becomes of detections, not what they are of.
    dope = {"min_size": 64, "max_size": 96, "rpn_post_nms_top_n": 20} | dope
    settings = ExtractorsSettings(dope=dope, resnet50={"allow_untrained": True} | (resnet50 or {}))
    return plan_extraction(load_study(study), root, settings, Selection(("s0001",), only))


def run(study: Path, root: Path, only: tuple[str, ...] = ("dope",), resnet50=None, **dope) -> dict[str, Outcome]:
    plan = planned(study, root, only, resnet50, **dope)
    outcomes = [*plan.settled, *(outcome for work in plan.units for outcome in do_work(work))]
    return {outcome.feature: outcome for outcome in outcomes}


@pytest.fixture(scope="module")
def extracted(study: Path, crowd: Path, layers_once: None, tmp_path_factory) -> tuple[Path, Outcome]:
    """A store in which the crowd's model saw every frame, and what came of that."""
    root = tmp_path_factory.mktemp("extracted") / "features"
    return root, run(study, root, model=crowd)["dope"]


def read(root: Path, array: str) -> np.ndarray:
    return FeatureStore(root).read("s0001", "dope", array=array)


@pytest.mark.slow
def test_every_array_of_the_participant(extracted: tuple[Path, Outcome]) -> None:
    store_root, outcome = extracted
    assert (str(outcome.status), outcome.rows) == ("done", FRAMES)
    for name, spec in FEATURES["dope"].arrays.items():
        if not spec.optional:
            values = read(store_root, name)
            assert values.shape == (FRAMES, *spec.shape)
            assert values.dtype == spec.dtype
    assert (read(store_root, "n_detected")[:, 0] > 0).all()
    assert np.isfinite(read(store_root, "body_2d")).all()
    assert read(store_root, "sampled").all()
    attributes = FeatureStore(store_root).attributes("s0001", "dope")
    expected = {"device": "cpu", "engine": "openvino", "precision": "float32", "every_n_frames": 1}
    assert {name: attributes[name] for name in expected} == expected


@pytest.mark.slow
def test_one_scene_in_any_orientation_has_the_same_poses(crowd: Path, tmp_path: Path) -> None:
    """The model sees the same in every picture: what differs where width and height are exchanged is where that is."""
    bodies = {}
    for name in ("as it is", "90", "180", "270"):
        folder = make_study(tmp_path / name, video="v.mp4")
        record_turned(folder / "v.mp4", name, seconds=0.16)
        settings = {"dope": {"min_size": 64, "max_size": 96, "rpn_post_nms_top_n": 20, "model": crowd}}
        store, outcomes = extract_session(folder, tmp_path / f"{name} store", "dope", **settings)
        assert outcomes["dope"].status == "done", outcomes["dope"].reason
        bodies[name] = store.read("s", "dope", array="body_2d")
    assert np.ptp(bodies["as it is"], axis=(0, 1)).min() > 0
    for name, body in bodies.items():
        np.testing.assert_array_equal(body, bodies["as it is"], err_msg=name)


@pytest.mark.slow
def test_joints_and_units_are_named_in_the_store(extracted: tuple[Path, Outcome]) -> None:
    import zarr

    store_root, _ = extracted
    catalogue.compact(local(store_root))
    path = FeatureStore(store_root).catalogue.set_index("feature").loc["dope", "path"]
    group = zarr.open_group(store_root / path, mode="r")
    assert group["body_2d"].attrs["joints"] == list(BODY_JOINTS)
    assert group["hands_3d"].attrs["joints"] == list(HAND_JOINTS)
    assert group["face_2d"].attrs["joints"] == list(FACE_LANDMARKS)
    assert "pixels" in group["body_2d"].attrs["units"]
    assert "metres" in group["body_3d"].attrs["units"]
    assert group["hands_2d"].metadata.dimension_names == ("frame", "side", "hand_joint", "xy")


@pytest.mark.slow
def test_a_stride_leaves_the_frames_between_empty(
    study: Path, crowd: Path, store_root: Path, extracted: tuple[Path, Outcome]
) -> None:
    run(study, store_root, model=crowd, every_n_frames=3)
    sampled = read(store_root, "sampled").astype(bool)
    np.testing.assert_array_equal(np.flatnonzero(sampled), np.arange(0, FRAMES, 3))
    body, counts = read(store_root, "body_2d"), read(store_root, "n_detected")
    assert np.isnan(body[~sampled]).all()
    assert (counts[~sampled] == -1).all()
    np.testing.assert_allclose(body[0], read(extracted[0], "body_2d")[0])
    assert not planned(study, store_root, model=crowd, every_n_frames=3).units
    (due,) = planned(study, store_root, model=crowd).units  # another stride is another fingerprint
    assert due.features == ("dope",)


@pytest.mark.slow
def test_nobody_is_nan_and_zero(study: Path, store_root: Path, tmp_path: Path) -> None:
    outcome = run(study, store_root, model=saved(blank_content(), tmp_path / "blank.pth.tgz"))["dope"]
    assert outcome.status == "done"
    assert (read(store_root, "n_detected") == 0).all()
    assert np.isnan(read(store_root, "face_2d")).all()


@pytest.mark.slow
@pytest.mark.end_to_end
def test_everybody_as_flat_arrays_with_offsets(study: Path, crowd: Path, store_root: Path) -> None:
    run(study, store_root, model=crowd, people="all", every_n_frames=3)
    counts = np.maximum(read(store_root, "n_detected"), 0)
    for column, part in enumerate(("body", "hand", "face")):
        offsets = read(store_root, f"all_{part}_offsets")
        assert offsets.shape == (FRAMES + 1,)
        assert offsets[0] == 0
        np.testing.assert_array_equal(np.diff(offsets), counts[:, column])
        assert len(read(store_root, f"all_{part}_2d")) == offsets[-1]
    bodies, offsets = read(store_root, "all_body_2d"), read(store_root, "all_body_offsets")
    participant = read(store_root, "body_2d")
    for frame in range(0, FRAMES, 3):
        here = bodies[offsets[frame] : offsets[frame + 1]]
        assert any(np.array_equal(body, participant[frame]) for body in here)
    faces, face_of_body = read(store_root, "all_face_of_body"), read(store_root, "all_face_offsets")
    of_frame = np.repeat(np.arange(FRAMES), np.diff(offsets))
    having = faces >= 0
    assert (faces[having] >= face_of_body[of_frame[having]]).all()
    assert (faces[having] < face_of_body[of_frame[having] + 1]).all()


@pytest.mark.slow
def test_without_asking_there_are_no_arrays_of_everybody(extracted: tuple[Path, Outcome]) -> None:
    (entry,) = [entry for entry in record_status.scan(local(extracted[0])) if entry.feature == "dope"]
    assert not [name for name in entry.record.arrays if name.startswith("all_")]


# --- one pass for two ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_shared_pass_gives_what_two_passes_give(
    study: Path, crowd: Path, store_root: Path, tmp_path: Path, extracted: tuple[Path, Outcome]
) -> None:
    settings = ExtractorsSettings(dope={"model": crowd}, resnet50={"allow_untrained": True})
    plan = plan_extraction(load_study(study), tmp_path / "x", settings, Selection(("s0001",), ("dope", "resnet50")))
    assert [work.features for work in plan.units] == [("frames", "resnet50", "dope")]
    together = run(study, store_root, ("dope", "resnet50"), model=crowd)
    assert {str(outcome.status) for outcome in together.values()} == {"done"}
    apart = tmp_path / "apart"
    run(study, apart, ("resnet50",), model=crowd)
    for root, feature, array in (
        (extracted[0], "dope", "body_2d"),
        (extracted[0], "dope", "face_3d"),
        (apart, "resnet50", "values"),
    ):
        np.testing.assert_array_equal(
            FeatureStore(store_root).read("s0001", feature, array=array),
            FeatureStore(root).read("s0001", feature, array=array),
        )


@pytest.mark.slow
def test_one_that_fails_leaves_the_pass_and_the_other_goes_on(
    study: Path, crowd: Path, store_root: Path, monkeypatch
) -> None:
    from tasks.extractors.image.writer import EmbeddingWriter

    seen = 0
    real = EmbeddingWriter.add

    def fail_later(self, batch) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise RuntimeError("out of something")
        real(self, batch)

    monkeypatch.setattr(EmbeddingWriter, "add", fail_later)
    outcomes = run(study, store_root, ("dope", "resnet50"), model=crowd)
    assert outcomes["resnet50"].status == "failed"
    assert "unexpected RuntimeError" in outcomes["resnet50"].reason
    assert outcomes["dope"].status == "done"
    assert seen == 2
    assert FeatureStore(store_root).features("s0001") == ["dope", "frames"]


@pytest.mark.slow
def test_a_bad_model_fails_dope_alone(study: Path, store_root: Path, tmp_path: Path) -> None:
    model = tmp_path / "dope.pth.tgz"
    model.write_text("404 not found")
    outcomes = run(study, store_root, ("dope", "resnet50"), model=model)
    assert outcomes["resnet50"].status == "done"
    assert outcomes["dope"].status == "failed"
    assert missing(outcomes["dope"].reason, "dope.pth.tgz", "13 bytes") == []
    assert str(tmp_path) not in outcomes["dope"].reason


@pytest.mark.slow
def test_a_video_that_vanishes_fails_both(study: Path, crowd: Path, store_root: Path, tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(study, tmp_path / "copy"))
    settings = ExtractorsSettings(
        dope={"model": crowd, "min_size": 64, "max_size": 96}, resnet50={"allow_untrained": True}
    )
    (clock,) = plan_extraction(load_study(copy), store_root, settings, Selection(("s0001",), ("frames",))).units
    do_work(clock)
    plan = plan_extraction(load_study(copy), store_root, settings, Selection(("s0001",), ("dope", "resnet50")))
    (copy / "videos/s0001.avi").unlink()
    outcomes = do_work(plan.units[0])
    assert [str(outcome.status) for outcome in outcomes] == ["failed", "failed"]
    assert all("s0001.avi" in outcome.reason for outcome in outcomes)


def test_a_gpu_that_is_not_there_is_said_and_no_processor_takes_its_place(
    study: Path, crowd: Path, store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    outcome = run(study, store_root, model=crowd, device="cuda")["dope"]
    assert outcome.status == "failed"
    assert missing(outcome.reason, "[dope] device = 'cuda'", "set device = 'cpu'") == []


def test_no_model_says_where_to_get_one(study: Path, store_root: Path) -> None:
    outcome = run(study, store_root)["dope"]
    assert outcome.status == "failed"
    assert missing(outcome.reason, "DOPE_v1_0_0.pth.tgz", "missing", "non-commercial") == []


def test_dope_is_not_among_the_features_by_default(study: Path, store_root: Path) -> None:
    plan = plan_extraction(load_study(study), store_root, ExtractorsSettings(), Selection(("s0001",)))
    assert not any("dope" in work.features for work in plan.units)
    settings = ExtractorsSettings(features=("frames", "dope"), dope={"model": Path(__file__)})
    plan = plan_extraction(load_study(study), store_root, settings, Selection(("s0001",)))
    assert [work.features for work in plan.units] == [("frames", "dope")]


# --- regions ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_poses_of_a_region_are_those_of_a_file_cut_beforehand_in_pixels_of_the_whole_picture(
    crowd: Path, tmp_path: Path
) -> None:
    pictures = np.random.default_rng(2).integers(0, 256, (4, 74, 98, 3), np.uint8)
    study = make_study(tmp_path / "study", video="whole.avi")
    write_lossless(study / "whole.avi", pictures, 25)
    write_lossless(study / "cut.avi", np.ascontiguousarray(pictures[:, 10:74, 20:98]), 25)
    (study / "sessions.csv").write_text("session_id,participant_id,video\ns0001,p,whole.avi\ncut,q,cut.avi\n")
    box = f"{20 / 98!r},{10 / 74!r},{78 / 98!r},{64 / 74!r}"
    boxes = "".join(f"{second},{box if second != 0.04 else ',,,'}\n" for second in (0, 0.04, 0.08, 0.12))
    (study / "boxes.csv").write_text(f"time_s,x,y,w,h\n{boxes}")
    (study / "tracks.csv").write_text(f'session_id,track,region\ns0001,fixed,"{box}"\ns0001,moving,boxes.csv\n')
    settings = {"model": crowd, "min_size": 64, "max_size": 96, "rpn_post_nms_top_n": 20, "people": "all"}
    for session_id in ("s0001", "cut"):
        store, outcomes = extract_session(study, tmp_path / "f", "dope", session_id=session_id, dope=settings)
        assert {outcome.status for outcome in outcomes.values()} == {"done"}, outcomes
    for name, spec in FEATURES["dope"].arrays.items():
        cut, fixed = store.read("cut", "dope", array=name), store.read("s0001", "dope@fixed", array=name)
        shift = (20, 10) if name.endswith("_2d") else 0
        np.testing.assert_allclose(fixed, cut + np.array(shift, cut.dtype), atol=1e-4, err_msg=name)
        moving = store.read("s0001", "dope@moving", array=name)
        if spec.axis == "frame":
            np.testing.assert_array_equal(moving[[0, 2, 3]], fixed[[0, 2, 3]], err_msg=name)
            np.testing.assert_array_equal(moving[1], np.full(spec.shape, spec.fill, spec.dtype))
    offsets = store.read("s0001", "dope@moving", array="all_body_offsets")
    assert offsets[1] == offsets[2] < offsets[3]
    rows = store.read("s0001", "dope@moving", array="all_body_2d")
    of_fixed = store.read("s0001", "dope@fixed", array="all_body_offsets")
    expected = np.delete(
        store.read("s0001", "dope@fixed", array="all_body_2d"), slice(of_fixed[1], of_fixed[2]), axis=0
    )
    np.testing.assert_array_equal(rows, expected)
    assert store.spec("s0001", "dope@fixed").arrays["all_body_2d"].units.startswith("pixels of the whole picture")
