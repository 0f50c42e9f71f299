"""``[[embed]]`` sections with models of videos: the frames of a window, equality with the libraries, times, clips."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from support.messages import missing, naming
from support.models.tiny_image_models import transformers_model
from support.models.tiny_video_models import FRAMES, WIDTH, video_model
from support.stores import local
from support.studies import extract_session, make_study, run

from storyframes import ClipDataset, ClipInput
from storyframes.clips.window_spec import WindowSpec
from storyframes.store.feature_store import FeatureStore
from storyframes.store.records import Caveat
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.extractors.embed.extractor import ExtractionError
from tasks.extractors.frames import FrameClock
from tasks.extractors.registry import ExtractorsSettings, build_extractor
from tasks.extractors.video.windows import Windows
from tasks.media.recording import read_frames
from tasks.models.libraries import import_torchvision
from tasks.planning.plan import plan_extraction
from tasks.planning.rates import measure_rates
from tasks.planning.selection import Selection
from tasks.study.load import load_study

SIZE = 48, 64
WINDOW_S, STRIDE_S = 1.0, 0.5
GAP_S = 2.3, 2.8  # frames are missing
EVENT_S = 1.25, 1.5  # a bright square
# A camera whose rate varies: frames come up to 9 ms late.
LATE_MS = np.random.default_rng(7).integers(0, 10, 100)
TIMES_MS = [40 * n + int(late) for n, late in enumerate(LATE_MS) if not GAP_S[0] < n / 25 < GAP_S[1]]
TIMES_MS[0] = 0


def write_pictures(path: Path, pictures: np.ndarray, milliseconds: list[int]) -> Path:
    """A lossless video of these frames, shown at these times."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=25)
        stream.height, stream.width = pictures.shape[1:3]
        stream.pix_fmt = "bgr0"
        stream.codec_context.time_base = Fraction(1, 1000)
        for picture, time in zip(pictures, milliseconds, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A still scene with an event and a gap, a region of it in which nobody is seen from 1 s on, and a second camera
    of noise whose clock begins 2 s later and runs fast."""
    root = make_study(tmp_path_factory.mktemp("videos") / "study", video="s.mkv")
    still = np.random.default_rng(1).integers(0, 200, (1, *SIZE, 3), np.uint8).repeat(len(TIMES_MS), axis=0)
    is_event = (np.array(TIMES_MS) >= 1000 * EVENT_S[0]) & (np.array(TIMES_MS) < 1000 * EVENT_S[1])
    still[is_event, 10:34, 20:44] = 255
    write_pictures(root / "s.mkv", still, TIMES_MS)
    noise = np.random.default_rng(2).integers(0, 256, (100, *SIZE, 3), np.uint8)
    write_pictures(root / "child.mkv", noise, [40 * n for n in range(100)])
    (root / "boxes.csv").write_text("time_s,x,y,w,h\n0,0.1,0.1,0.8,0.8\n0.99,0.1,0.1,0.8,0.8\n1,,,,\n4,,,,\n")
    (root / "tracks.csv").write_text(
        "session_id,track,video,region,clock\ns,child,child.mkv,,child\ns,part,,boxes.csv,\n"
    )
    (root / "clocks.csv").write_text("session_id,clock,clock_s,session_s\ns,child,0,2\ns,child,100,101.95\n")
    return root


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {family: video_model(folder / family, family) for family in FRAMES}


def section(name: str, folder: Path, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "video", "source": f"path:{folder}", "window_s": WINDOW_S, **more}


def sections(models: dict[str, Path]) -> list[dict[str, Any]]:
    layers = {"videomae": -1, "vjepa2": [0, 1, -1], "xclip": -1}
    return [section(name, models[name], stride_s=STRIDE_S, layer=layers[name], batch_size=2) for name in FRAMES]


@pytest.fixture(scope="module")
def store(study: Path, models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    root = tmp_path_factory.mktemp("stores") / "features"
    outcomes = run(study, root, Selection(only=("frames", *FRAMES)), embed=sections(models))
    assert {str(outcome.status) for outcome in outcomes.values()} == {"done"}, outcomes
    return FeatureStore(root)


# --- which frames ----------------------------------------------------------------------------------------------------


def test_the_frames_of_a_window_are_those_nearest_to_the_middles_of_its_parts() -> None:
    time = np.array(TIMES_MS) / 1000
    windows = Windows(FrameClock(time, False), WINDOW_S, STRIDE_S, 4)
    assert windows.start_s.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    for start_s, window in zip(windows.start_s, windows, strict=True):
        moments = start_s + np.array([0.125, 0.375, 0.625, 0.875])
        np.testing.assert_array_equal(window.frames, np.abs(time - moments[:, None]).argmin(axis=1))
        assert window.is_whole == (2.625 not in moments.round(3))


def test_the_last_incomplete_window_is_left_out_and_a_frame_may_be_taken_twice() -> None:
    time = np.arange(70) / 25  # 2.8 s
    windows = Windows(FrameClock(time, False), 1.0, 0.75, 40)
    assert windows.start_s.tolist() == [0, 0.75, 1.5]
    assert windows.left_out_s == pytest.approx(0.3)
    for window in windows:  # it wants 40 frames a second: each is near enough, and some are taken twice
        assert window.is_whole
        assert len(set(window.frames.tolist())) <= 26
    assert len(Windows(FrameClock(time, False), 2.8, 0.1, 4).start_s) == 1
    assert len(Windows(FrameClock(time, False), 2.9, 0.1, 4).start_s) == 0


# --- rows ------------------------------------------------------------------------------------------------------------


def plain(folder: Path, frames: np.ndarray) -> np.ndarray:
    """What transformers gives for the frames of a clip, called as its documentation does."""
    import transformers as t

    model = t.AutoModel.from_pretrained(folder).eval()
    kind = t.AutoImageProcessor if "xclip" in folder.name else t.AutoVideoProcessor
    given = kind.from_pretrained(folder)(list(frames), return_tensors="pt")
    with torch.inference_mode():
        if "xclip" in folder.name:
            return model.get_video_features(**given).pooler_output[0].numpy()
        found = model(**given, output_hidden_states=True)
        if "vjepa2" not in folder.name:
            return found.last_hidden_state[0].mean(0).numpy()
        states = [found.hidden_states[0], found.hidden_states[1], found.last_hidden_state]
        return torch.cat([state[0].mean(0) for state in states]).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("family", FRAMES)
def test_rows_are_what_transformers_gives_for_the_same_frames(
    store: FeatureStore, study: Path, models: dict[str, Path], family: str
) -> None:
    (batch,) = read_frames(study / "child.mkv", 200)
    feature = f"{family}@child"
    rows = store.read("s", feature)
    assert rows.shape == (7, {"videomae": WIDTH, "vjepa2": 3 * WIDTH, "xclip": 12}[family])
    assert store.read("s", feature, array="valid").all()
    for row in (0, 3, 6):
        moments = row * STRIDE_S + np.array([0.125, 0.375, 0.625, 0.875])
        frames = batch.rgb[np.abs(batch.time - moments[:, None]).argmin(axis=1)]
        np.testing.assert_allclose(rows[row], plain(models[family], frames), rtol=1e-5, atol=1e-5)
    apart = np.linalg.norm(rows[:, None] - rows, axis=2)[~np.eye(7, dtype=bool)]
    assert apart.min() > 100 * 1e-5  # another window would show


@pytest.mark.slow
@pytest.mark.parametrize("family", FRAMES)
def test_an_event_is_in_the_rows_whose_windows_show_it_and_a_gap_has_no_row(store: FeatureStore, family: str) -> None:
    rows, start, end = store.read("s", family), *(store.read("s", family, array=name) for name in ("start", "end"))
    np.testing.assert_allclose(store.read("s", family, array="time"), (start + end) / 2)
    np.testing.assert_allclose(end - start, WINDOW_S)
    has_row = store.read("s", family, array="valid") == 1
    assert start[~has_row].tolist() == [2.0, 2.5]  # each has a moment, 2.625 s, that no frame is near
    assert np.isnan(rows[~has_row]).all()
    changed = np.linalg.norm(rows - rows[0], axis=1) > 1e-3
    assert start[changed & has_row].tolist() == [0.5, 1.0]  # 1.375 s is in them
    assert np.linalg.norm(rows[1] - rows[2]) > 1e-3  # it is their last moment, and their second
    attributes = store.attributes("s", family)
    assert (attributes["window_s"], attributes["stride_s"], attributes["frames_of_window"]) == (1.0, 0.5, 4)
    assert (attributes["rate"], attributes["rate_of_model"]) == (4.0, None)


@pytest.mark.slow
def test_of_a_region_windows_have_rows_while_somebody_is_seen(store: FeatureStore) -> None:
    assert store.read("s", "videomae@part", array="valid").tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert np.isfinite(store.read("s", "videomae@part")[0]).all()
    assert not np.allclose(store.read("s", "videomae@part")[0], store.read("s", "videomae")[0])


def test_models_of_videos_and_of_pictures_are_one_pass_over_the_frames(
    study: Path, models: dict[str, Path], tmp_path: Path
) -> None:
    picture = {"name": "vit", "kind": "image", "source": f"path:{transformers_model(tmp_path / 'vit', 'vit')}"}
    settings = ExtractorsSettings(embed=[*sections(models), picture])
    plan = plan_extraction(load_study(study), local(tmp_path), settings, Selection(("s",), (*FRAMES, "vit")))
    passes = [set(unit.features) for unit in plan.units if "videomae" in unit.features]
    assert passes
    assert all(features == {*FRAMES, "vit"} for features in passes)


@pytest.mark.slow
def test_planning_measures_windows_that_are_longer_than_its_sample(study: Path, models: dict[str, Path]) -> None:
    asked = ExtractorsSettings(embed=[section("v", models["videomae"]) | {"window_s": 3.0}], features=("v",))
    (_, rate) = measure_rates(load_study(study), "s", asked, 4.0, lambda *_: None, "child")
    assert (rate.feature, rate.reason) == ("v@child", "")
    assert rate.arrays
    measured = asked.for_measuring().section("v")  # a quarter of the sample has a window
    assert (measured.window_s, measured.stride_s) == (0.5, 3.0)


@pytest.mark.slow
def test_torchvisions_model_without_its_weights_is_a_caveat_and_gives_what_torchvision_gives(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    source = {"source": "torchvision:r3d_18", "revision": "KINETICS400_V1", "kind": "video", "name": "r3d"}
    (tmp_path / "study").mkdir()
    (tmp_path / "study/s.mkv").hardlink_to(study / "child.mkv")
    alone = make_study(tmp_path / "study", video="s.mkv")
    _, outcomes = extract_session(alone, tmp_path / "f", "frames", "r3d", embed=[source])
    assert "storyframes models fetch torchvision:r3d_18@KINETICS400_V1" in outcomes["r3d"].reason
    store, outcomes = extract_session(
        alone, tmp_path / "f", "r3d", embed=[source | {"allow_untrained": True, "stride_s": 3}]
    )
    assert outcomes["r3d"].caveats == (Caveat.UNTRAINED,), outcomes
    (row,), attributes = store.read("s", "r3d"), store.attributes("s", "r3d")
    assert (attributes["rate"], attributes["rate_of_model"]) == (15.0, 15.0)
    assert store.read("s", "r3d", array="end")[0] == pytest.approx(16 / 15)

    video = import_torchvision().models.video
    torch.manual_seed(0)
    network = video.r3d_18(weights=None).eval()
    network.fc = torch.nn.Identity()
    (batch,) = read_frames(study / "child.mkv", 200)
    distance = np.abs(batch.time - (np.arange(16) + 0.5)[:, None] / 15)
    frames = batch.rgb[distance.round(6).argmin(axis=1)]  # of two that are equally near the first
    with torch.inference_mode():
        clip = video.R3D_18_Weights.KINETICS400_V1.transforms()(torch.from_numpy(frames).permute(0, 3, 1, 2))
        expected = network(clip[None])[0]
    np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


# --- clips -----------------------------------------------------------------------------------------------------------


def cut_clips(study: Path, store: FeatureStore, window_s: float) -> None:
    spec = WindowSpec(window_s=window_s, stride_s=STRIDE_S, track="child", unlabelled="keep")
    write_clip_index(build_clip_index(load_study(study), spec, store).clips, store.storage)


@pytest.mark.slow
def test_a_clip_has_the_windows_that_lie_in_it_or_the_nearest_ones(store: FeatureStore, study: Path) -> None:
    """Clips of the second camera, whose clock is another one, and rows of both cameras."""
    cut_clips(study, store, WINDOW_S)
    inputs = [ClipInput("videomae@child"), ClipInput("vjepa2@child", axis="frame"), ClipInput("xclip", rate=4)]
    dataset = ClipDataset(store.storage.location, inputs)
    assert dataset.fields["videomae@child"].shape == (1, WIDTH)
    start = 2 + 0.9995 * store.read("s", "videomae@child", array="start")
    nearest = []
    for number, clip in enumerate(dataset.clips.itertuples()):
        own = int(np.abs(start - clip.start_s).argmin())
        assert abs(start[own] - clip.start_s) < 0.041
        assert dataset[number]["videomae@child_length"] == 1
        np.testing.assert_array_equal(dataset[number]["videomae@child"][0], store.read("s", "videomae@child")[own])
        shown = 2 + 0.9995 * store.read("s", "frames@child", array="time")[clip.start_frame : clip.stop_frame]
        for feature, middles, points in (
            ("vjepa2@child", start + 0.9995 * WINDOW_S / 2, shown),
            ("xclip", store.read("s", "xclip", array="time"), clip.start_s + np.arange(4) / 4),
        ):
            distance = np.abs(points[:, None] - middles)
            rows = distance.argmin(axis=1)
            has_row = (distance.min(axis=1) < 0.2505) & (store.read("s", feature, array="valid")[rows] == 1)
            np.testing.assert_array_equal(dataset[number][f"{feature}_mask"], has_row)
            np.testing.assert_array_equal(dataset[number][feature][has_row], store.read("s", feature)[rows][has_row])
            nearest.append(has_row)
    assert len(nearest) == 12
    assert 0 < np.concatenate(nearest[1::2]).mean() < 1  # the gap, and the end of the first camera


@pytest.mark.slow
def test_rows_that_a_clip_cannot_have_are_refused(store: FeatureStore, study: Path) -> None:
    cut_clips(study, store, 0.4)
    with pytest.raises(ValueError, match=naming("'videomae@child'", "'frame'", "axis=", "rate=")):
        ClipDataset(store.storage.location, [ClipInput("videomae@child")])
    with pytest.raises(ValueError, match=naming("'word'", "'window'", "'frame'")):
        ClipDataset(store.storage.location, [ClipInput("videomae", axis="word")])


@pytest.mark.slow
def test_tables_have_the_start_the_middle_and_the_end_of_a_window(store: FeatureStore, study: Path) -> None:
    cut_clips(study, store, WINDOW_S)  # the index has the clocks
    table = store.to_pandas("s", "videomae@child")
    times = {"start", "end", "device_time", "device_start", "device_end"}
    assert {name for name in table.columns if "0" not in name} == times | {"window", "mask", "valid"}
    np.testing.assert_allclose(table["start"], 2 + 0.9995 * STRIDE_S * np.arange(7))
    np.testing.assert_allclose(table.index, 2 + 0.9995 * (0.5 + STRIDE_S * np.arange(7)))
    drawn = [line.get_label() for line in store.session("s").plot("videomae@child").lines]
    assert drawn
    assert times.isdisjoint(drawn)  # they are no values


# --- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"window_s": 0.0000001}, "window_s\n.*greater than or equal to 0.001"),
        ({"stride_s": 0}, "stride_s\n.*greater than or equal to 0.001"),
        ({"window": 2}, "window\n.*Extra inputs are not permitted"),
        ({"pool": "mean"}, "pool\n.*Extra inputs are not permitted"),
        ({"source": "timm:a", "revision": "0" * 40}, "timm: has no models of videos"),
        ({"source": "torchvision:resnet50", "revision": "IMAGENET1K_V1"}, "torchvision's models of videos are r3d_18"),
        ({"allow_untrained": True}, "allow_untrained is of torchvision's models"),
    ],
)
def test_a_section_that_cannot_be_is_told_why(tmp_path: Path, said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        ExtractorsSettings(embed=[section("v", tmp_path) | said])


def test_a_model_that_cannot_be_such_a_feature_is_refused_before_any_work(
    models: dict[str, Path], tmp_path: Path
) -> None:
    def refused(folder: Path, **more: Any) -> str:
        extractor = build_extractor(ExtractorsSettings(embed=[section("v", folder, **more)]), "s", "v")
        with pytest.raises(ExtractionError) as error:
            extractor.check_tool()
        return str(error.value)

    assert "window_s is missing: " in refused(models["videomae"], window_s=None)
    assert "layer = 1: of path:" in refused(models["xclip"], layer=1)
    assert missing(refused(models["vjepa2"], layer=7), "3 blocks", "0 to", "3") == []
    picture = transformers_model(tmp_path / "vit", "vit")
    assert missing(refused(picture), "'vit'", "model_type", "config.json") == []
    rated = video_model(tmp_path / "rated", "videomae", fps=8)
    settings = ExtractorsSettings(embed=[section("v", rated, window_s=None)])
    assert build_extractor(settings, "s", "v").value_settings()["window_s"] == 0.5  # 4 frames at 8 a second
    for no_rate in ('{"fps": Infinity}', '{"fps": true}', '{"video_processor": null}', "[]"):
        for file in rated.glob("*processor_config.json"):
            file.write_text(no_rate)
        assert "window_s is missing: " in refused(rated, window_s=None)


def test_what_goes_wrong_is_said_and_leaves_the_others_alone(
    study: Path, models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Path(shutil.copytree(models["videomae"], tmp_path / "broken"))
    weights = load_file(broken / "model.safetensors")
    weights["encoder.layer.2.output.dense.bias"][3] = torch.nan
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    import transformers as t

    whole = t.VJEPA2VideoProcessor.__call__

    def mixing(self: Any, *given: Any, **options: Any) -> Any:
        found = whole(self, *given, **options)
        found["pixel_values_videos"] = found["pixel_values_videos"] - found["pixel_values_videos"].mean()
        return found

    monkeypatch.setattr(t.VJEPA2VideoProcessor, "__call__", mixing)
    asked = [
        section("long", models["videomae"]) | {"window_s": 4.5},
        section("nan", broken),
        section("mixing", models["vjepa2"]),
        section("good", models["xclip"]),
    ]
    names = [each["name"] for each in asked]
    outcomes = run(study, tmp_path / "f", Selection(only=("frames", *names), tracks=("child",)), embed=asked)
    reasons = {name: outcomes[f"s/{name}@child"].reason for name in names}
    assert missing(reasons["long"], "4.000 s", "4.5 s") == []
    assert missing(reasons["nan"], "0.50 s", "NaN") == []
    assert missing(reasons["mixing"], "VJEPA2VideoProcessor", "depends") == []
    assert reasons["good"] == ""
