"""Models of pictures as features of sessions: which frames their rows are of, and what they share."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.messages import missing, naming
from support.models.tiny_classifiers import image_classifier
from support.models.tiny_image_models import timm_model, torchvision_weights, transformers_model
from support.stores import local
from support.studies import extract_session, make_study
from support.tools.outside_programs import write_colours
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import ClipDataset, ClipInput
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import OPENFACE_COLUMNS, ArraySpec, Axis, FeatureSpec
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.extractors.base import ExtractionError
from tasks.extractors.image.encoder import ImageShape, torchvision_shape
from tasks.extractors.image.faces import read_faces
from tasks.extractors.registry import ExtractorsSettings, build_extractor
from tasks.media.recording import RecordingReader, read_frames
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.models.libraries import import_torchvision
from tasks.study.load import load_study

FRAMES = 45


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session each of whose frames has a colour of its own, with OpenFace's output beside it."""
    folder = make_study(tmp_path_factory.mktemp("study") / "study", video="s.avi", openface="s.csv")
    write_colours(folder / "s.avi", FRAMES)
    write_openface(folder / "s.csv")
    return folder


TRACKED = [number % 5 != 0 for number in range(FRAMES)]


def write_openface(path: Path) -> None:
    """A face of 20 x 20 pixels that moves by a pixel a frame to the right, lost in every fifth frame."""
    lines = [",".join(OPENFACE_COLUMNS)]
    for number, tracked in enumerate(TRACKED):
        row = dict.fromkeys(OPENFACE_COLUMNS, "0.0")
        row |= {"frame": str(number + 1), "face_id": "0", "timestamp": f"{number / 25:.3f}"}
        row |= {"confidence": "0.98" if tracked else "0.0", "success": str(int(tracked))}
        row |= {f"x_{n}": f"{number + 20 * (n % 2):.1f}" for n in range(68)}
        row |= {f"y_{n}": f"{10 + 20 * (n % 3 == 0):.1f}" for n in range(68)}
        lines.append(",".join(row.values()))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose layer 0 is the mean red, green and blue, normalised: (x / 255 - mean) / std."""
    folder = transformers_model(tmp_path_factory.mktemp("models") / "colours", "vit")
    state = load_file(folder / "model.safetensors")
    weight = next(name for name in state if name.endswith("patch_embeddings.projection.weight"))
    for name, tensor in state.items():
        if name.startswith("embeddings."):
            state[name] = torch.zeros_like(tensor)
    for channel in range(3):
        state[weight][channel, channel] = 1 / 64
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    return folder


def extracted(study: Path, root: Path, *sections: dict[str, object], also: tuple[str, ...] = (), **settings: object):
    """The features of sections and others: the store, and what came of each."""
    if any(section.get("crop") == "face" for section in sections):
        extract_session(study, root, "openface")  # a run would wait for it
    names = (*(str(section["name"]) for section in sections), *also)
    return extract_session(study, root, *names, embed=list(sections), **settings)


def colour_section(colours: Path, **more: object) -> dict[str, object]:
    return {
        "name": "colour",
        "kind": "image",
        "source": f"path:{colours}",
        "layer": 0,
        "pool": "mean",
        "dtype": "float32",
        **more,
    }


def means(study: Path, colours: Path, rows: np.ndarray) -> np.ndarray:
    """The rows of the model of colours as levels 0..255."""
    processor = json.loads((colours / "preprocessor_config.json").read_text())
    return 255 * (rows[:, :3] * np.array(processor["image_std"]) + np.array(processor["image_mean"]))


def decoded(study: Path) -> np.ndarray:
    """The mean red, green and blue of every frame."""
    frames = np.concatenate([batch.rgb for batch in read_frames(study / "s.avi", 8)])
    assert len(frames) == FRAMES
    assert (frames[0].mean((0, 1)) != frames[0].mean((0, 1))[::-1]).any()
    return frames.mean((1, 2))


@pytest.mark.parametrize("engine", ["torch", "openvino"])
def test_each_row_has_the_colour_of_its_frame_red_first(study: Path, colours: Path, tmp_path: Path, engine) -> None:
    store, _ = extracted(study, tmp_path / "f", colour_section(colours, engine=engine))
    got = means(study, colours, store.read("s", "colour"))
    expected = decoded(study)
    np.testing.assert_allclose(got, expected, atol=0.1)
    planted = np.array([(40 + 4 * n % 200, 200 - 3 * n % 150, 20 + 7 * n % 90) for n in range(FRAMES)])
    assert np.abs(got - planted).max() < 12  # what the codec leaves of them
    assert np.abs(np.diff(planted, axis=0)).sum(1).min() > 0  # so that a shift by a frame shows
    for shifted in (np.roll(got, 1, axis=0), got[:, ::-1]):
        assert np.abs(shifted - expected).mean() > 4
    spec = store.spec("s", "colour")
    assert spec.columns[:2] == ("colour_0000", "colour_0001")
    assert spec.mask == ""


@pytest.mark.slow
def test_every_n_frames_leaves_gaps_that_the_mask_tells(study: Path, colours: Path, tmp_path: Path) -> None:
    section = colour_section(colours, every_n_frames=3)
    store, _ = extracted(study, tmp_path / "f", section)
    rows, mask = store.read("s", "colour"), store.read("s", "colour", array="valid")
    assert mask.tolist() == [int(number % 3 == 0) for number in range(FRAMES)]
    np.testing.assert_array_equal(np.isnan(rows).all(axis=1), mask == 0)
    np.testing.assert_allclose(means(study, colours, rows[::3]), decoded(study)[::3], atol=0.1)
    assert store.spec("s", "colour").mask == "valid"


@pytest.mark.slow
def test_a_face_is_cut_out_where_openface_has_one(study: Path, colours: Path, tmp_path: Path) -> None:
    section = colour_section(colours, crop="face", margin=0)
    store, outcomes = extracted(study, tmp_path / "f", section)
    assert outcomes["colour"].status == "done", outcomes["colour"].reason
    rows, mask = store.read("s", "colour"), store.read("s", "colour", array="valid")
    # From frame 44 on the face is 44 to 64 pixels from the left: whole, in a picture of 64.
    assert mask.tolist() == [int(tracked) for tracked in TRACKED]
    np.testing.assert_array_equal(np.isnan(rows).all(axis=1), mask == 0)
    np.testing.assert_allclose(means(study, colours, rows)[mask == 1], decoded(study)[mask == 1], atol=2)


def test_without_the_landmarks_there_is_no_face_and_other_landmarks_make_it_stale(
    study: Path, colours: Path, tmp_path: Path
) -> None:
    section = colour_section(colours, crop="face")
    with pytest.raises(ValueError, match="landmarks = 'openfaces'"):
        ExtractorsSettings(embed=[section | {"landmarks": "openfaces"}])
    _, outcomes = extracted(study, tmp_path / "f", section)
    assert outcomes["colour"].status == "done"
    _, outcomes = extracted(study, tmp_path / "f", section)
    assert outcomes["colour"].skipped
    write_openface(study / "s.csv")
    text = (study / "s.csv").read_text()
    try:
        (study / "s.csv").write_text(text.replace("0.98", "0.97"))
        _, outcomes = extracted(study, tmp_path / "f", section)
        assert {name: outcome.skipped for name, outcome in outcomes.items()} == {
            "frames": True,
            "openface": True,
            "colour": False,
        }
    finally:
        (study / "s.csv").write_text(text)


@pytest.mark.slow
def test_models_of_pictures_share_one_pass_and_each_has_its_own_rows(
    study: Path, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = []
    real = RecordingReader.batches
    monkeypatch.setattr(RecordingReader, "batches", lambda reader: passes.append(1) or real(reader))
    models = {"vit": timm_model(tmp_path / "vit", "vit"), "net": timm_model(tmp_path / "net", "resnet")}
    sections = [{"name": name, "kind": "image", "source": f"path:{folder}"} for name, folder in models.items()]
    sections.append(colour_section(colours))
    names = tuple(str(section["name"]) for section in sections)
    together, outcomes = extracted(study, tmp_path / "together", *sections)
    assert {outcomes[name].status for name in names} == {"done"}
    assert len(passes) == 1
    for section in sections:
        apart, _ = extracted(study, tmp_path / f"apart_{section['name']}", section)
        got = together.read("s", str(section["name"]))
        assert len(np.unique(got, axis=0)) > FRAMES // 2
        np.testing.assert_array_equal(got, apart.read("s", str(section["name"])))


@pytest.fixture(scope="module")
def resnet50_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torchvision_weights(tmp_path_factory.mktemp("weights") / "own.pth", "resnet50")


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"engine": "torch"}], ids=["openvino", "torch"])
def test_torchvisions_resnet50_as_a_section_gives_the_stored_values_of_the_built_in_one(
    resnet50_weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    """The proof of the wiring: preprocessing, engine, folding, order and rounding are the same to the bit."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    hub = tmp_path / "torch/hub/checkpoints"
    hub.mkdir(parents=True)
    (hub / "resnet50-0676ba61.pth").hardlink_to(resnet50_weights)
    study = make_study(tmp_path / "study", video="s.avi")
    write_colours(study / "s.avi", 3)
    section = {"name": "same", "kind": "image", "source": "torchvision:resnet50", "revision": "IMAGENET1K_V1", **more}
    settings = {"path": resnet50_weights, **more}
    store, outcomes = extracted(study, tmp_path / "f", section, also=("resnet50",), resnet50=settings)
    assert outcomes["same"].status == outcomes["resnet50"].status == "done", outcomes
    expected, got = store.read("s", "resnet50"), store.read("s", "same")
    assert expected.dtype == got.dtype == np.float16
    assert len(np.unique(expected, axis=0)) == 3
    np.testing.assert_array_equal(got, expected)


def test_planning_knows_how_wide_rows_are_without_loading_the_model(tmp_path: Path) -> None:
    models = import_torchvision().models
    for name in ("resnet18", "mobilenet_v3_small", "shufflenet_v2_x1_0", "densenet121", "efficientnet_b0", "swin_t"):
        with torch.device("meta"):
            linear = [one for one in models.get_model(name).modules() if isinstance(one, torch.nn.Linear)]
        assert torchvision_shape(name) == ImageShape(linear[-1].in_features)
    assert torchvision_shape("regnet_y_400mf") is None  # it is tried


def test_a_row_too_large_for_float16_says_what_to_set(study: Path, colours: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(colours, tmp_path / "large"))
    state = load_file(folder / "model.safetensors")
    weight = next(name for name in state if name.endswith("patch_embeddings.projection.weight"))
    state[weight] *= 1e6
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    _, outcomes = extracted(study, tmp_path / "f", colour_section(folder, dtype="float16", engine="torch"))
    assert re.search("does not fit float16, .* set dtype = 'float32'", outcomes["colour"].reason)


def test_a_model_that_changes_between_planning_and_work_is_not_used(study: Path, colours: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(colours, tmp_path / "model"))
    settings = ExtractorsSettings(embed=[colour_section(folder)]).resolved()
    assert build_extractor(settings, "s", "colour").models()
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"layer_norm_eps": 1e-12', '"layer_norm_eps": 1e-6'))
    with pytest.raises(ExtractionError, match=naming("changed", "planned")):
        build_extractor(settings, "s", "colour").models()


class Code:
    """What a pickle could do."""

    def __reduce__(self):
        return (Path.touch, (Path("ran"),))


@pytest.mark.parametrize("make", [timm_model, transformers_model])
def test_a_pickle_is_not_run(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make) -> None:
    monkeypatch.chdir(tmp_path)
    folder = make(tmp_path / "model", "vit")
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Code()}, folder / "pytorch_model.bin")
    section = {"name": "bad", "kind": "image", "source": f"path:{folder}", "engine": "torch"}
    _, outcomes = extracted(study, tmp_path / "f", section)
    assert outcomes["bad"].status == "failed"
    assert outcomes["bad"].reason
    assert not (tmp_path / "ran").exists()


def test_faces_by_the_landmarks_of_mediapipe_and_dope(tmp_path: Path) -> None:
    """An array face_2d in pixels, NaN where no face was found; cut as far as the frame goes, black beyond it."""
    points = np.array([[10, 20], [30, 24], [14, 40]], np.float32)
    face = ArraySpec(Axis.FRAME, "float32", "", (3, 2), ("landmark", "xy"), columns=("x", "y"), units="pixels")
    found = ArraySpec(Axis.FRAME, "uint8", "", fill=0)
    spec = FeatureSpec("mediapipe", "", {"face_2d": face, "found": found}, mask="found")
    create_store(tmp_path / "f")
    with FeatureWriter(local(tmp_path / "f"), "s", spec) as out:
        out.write("face_2d", np.stack([points, points * np.nan, points - [24, 0], points + 1000, points * 1e4, points]))
        out.write("found", np.array([1, 1, 1, 1, 1, 0], np.uint8))
        out.publish("f", {})
    faces = read_faces(local(tmp_path / "f"), "s", "mediapipe", 0.25, 6, "x")
    np.testing.assert_array_equal(faces.squares[0], [20, 30, 30])  # 20 pixels, and a quarter on each side
    frame = np.random.default_rng(0).integers(1, 255, (48, 64, 3), dtype=np.uint8)
    np.testing.assert_array_equal(faces.cut(0, frame), frame[15:45, 5:35])
    beyond = faces.cut(2, frame)
    np.testing.assert_array_equal(beyond[:, 19:], frame[15:45, :11])
    assert not beyond[:, :19].any()
    assert [faces.cut(number, frame) for number in (1, 3, 4, 5)] == [None] * 4
    for change, message in (({"frames": 7}, "has 6 rows"), ({"fingerprint": "g"}, "of other files or settings")):
        with pytest.raises(ExtractionError, match=message):
            read_faces(local(tmp_path / "f"), "s", "mediapipe", 0.25, **({"frames": 6, "section": "x"} | change))


def test_a_clip_has_the_rows_of_its_frames_and_their_mask(colours: Path, tmp_path: Path) -> None:
    write_study(tmp_path / "study", SyntheticStudy(sessions=1, seconds=16, width=64, height=48))
    study = load_study(tmp_path / "study")
    section = colour_section(colours, every_n_frames=4, engine="torch")
    store, _ = extract_session(tmp_path / "study", tmp_path / "f", "colour", session_id="s0001", embed=[section])
    windows = WindowSpec(window=8, stride=5, unlabelled="keep")
    write_clip_index(build_clip_index(study, windows, store).clips, local(tmp_path / "f"))
    dataset = ClipDataset(tmp_path / "f", [ClipInput("colour", columns=["colour_0000", "colour_0002"])])
    values, mask = store.read("s0001", "colour"), store.read("s0001", "colour", array="valid")
    assert len(dataset) > 10
    for number in range(0, len(dataset), 7):
        start = dataset.clips["start_frame"][number]
        np.testing.assert_array_equal(dataset[number]["colour"], values[start : start + 8][:, [0, 2]])
        np.testing.assert_array_equal(dataset[number]["colour_mask"], mask[start : start + 8] == 1)


BAD = {
    "no such layer": ({"layer": 4, "pool": "mean"}, r"layer = 4, but path:.* has 3 blocks"),
    "a layer from the end that there is not": ({"layer": -5, "pool": "mean"}, r"layer = -5, but path:.* has 3 blocks"),
    "one layer twice": ({"layer": [3, -1], "pool": "mean"}, "names one layer twice"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_a_layer_that_is_not_there_is_told_before_any_frame(study, colours, tmp_path, change, message: str) -> None:
    section = colour_section(colours) | change
    _, outcomes = extracted(study, tmp_path / "f", section)
    assert outcomes["colour"].status == "failed"
    assert re.search(message, outcomes["colour"].reason), outcomes["colour"].reason


def broken(folder: Path, family: str, change: str) -> Path:
    """A model's folder with something wrong in it."""
    transformers_model(folder, family)
    state = load_file(folder / "model.safetensors")
    if change == "nan":
        state = {name: torch.full_like(tensor, torch.nan) for name, tensor in state.items()}
    elif change == "lacks":
        state = {name: tensor for name, tensor in state.items() if ".1." not in name}
    elif change == "cut":
        content = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
        return folder
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("vit", "nan", r"not finite \(NaN or infinite\) for frame 0"),
        ("vit", "lacks", r"the weights lack \d+ of the model's tensors"),
        ("vit", "cut", "transformers cannot load the model"),
        ("vit_without_pooler", "", "set pool = 'cls' or 'mean'"),
        ("vit_mae", "", "something else of the same image each time"),
    ],
)
def test_a_model_that_cannot_be_believed_fails_alone(study, colours, tmp_path, family, change, message) -> None:
    folder = broken(tmp_path / "m", family, change)
    pool = "mean" if family == "vit_mae" else "model"
    bad = {"name": "bad", "kind": "image", "source": f"path:{folder}", "engine": "torch", "pool": pool}
    _, outcomes = extracted(study, tmp_path / "f", bad, colour_section(colours))
    assert outcomes["colour"].status == "done"
    assert outcomes["bad"].status == "failed"
    assert re.search(message, outcomes["bad"].reason), outcomes["bad"].reason


def test_a_gpu_is_asked_for_and_never_replaced_by_a_processor(
    study: Path, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    section = colour_section(colours, device="cuda", sessions_per_gpu=2, precision="float16")
    settings = ExtractorsSettings(embed=[section]).resolved()
    assert build_extractor(settings, "s", "colour").needs == {"GPU": 0.5}
    assert build_extractor(ExtractorsSettings(embed=[colour_section(colours)]), "s", "colour").needs == {"CPU": 1}
    _, outcomes = extracted(study, tmp_path / "f", section)
    assert missing(outcomes["colour"].reason, "device = 'cuda'", "GPU") == []


@pytest.mark.slow
def test_scores_of_faces_are_named_by_show_and_masked_where_no_face_is(study: Path, tmp_path: Path) -> None:
    folder = image_classifier(tmp_path / "m", ("happy", "sad"))
    section = {"name": "said", "kind": "image", "source": f"path:{folder}", "output": "scores", "crop": "face"}
    store, outcomes = extracted(study, tmp_path / "f", section | {"engine": "torch"})
    assert str(outcomes["said"].status) == "done"
    scores = store.read("s", "said")
    np.testing.assert_array_equal(np.isfinite(scores).all(axis=1), TRACKED)
    np.testing.assert_allclose(scores[TRACKED].sum(axis=1), 1, atol=1e-5)
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "f"), "s", "said"])
    assert shown.exit_code == 0, shown.output
    assert missing(shown.output, "happy", "sad") == []
