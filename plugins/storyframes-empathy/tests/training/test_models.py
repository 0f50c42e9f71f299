"""The models of the benchmark: their sizes, what they are given, and what changes their result."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from support.messages import naming
from support.synthetic_features import StudySpec, SyntheticStudy, write_features

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.samplers import SequentialSampler
from storyframes.features import FEATURES
from storyframes.store.feature_store import FeatureStore
from storyframes.store.storage.locks import lock_new_file
from storyframes_empathy.training import feed as feed_module
from storyframes_empathy.training.feed import Kind, Loaded, open_bank
from storyframes_empathy.training.inputs import Part, Preparation, open_parts, rows_of
from storyframes_empathy.training.models.amer import attended
from storyframes_empathy.training.models.build import build
from storyframes_empathy.training.models.parts import Sequences
from storyframes_empathy.training.moments import Moments, covering, measure, remembered
from storyframes_empathy.training.opened import open_run
from storyframes_empathy.training.predict import compared
from storyframes_empathy.training.run_folder import RunName
from storyframes_empathy.training.settings import MODALITIES, ModelName, TrainSettings, modalities_of

WIDTHS = {"v": 2757, "a": 65, "t": 300}
COUNTS = json.loads((Path(__file__).parents[1] / "data/parameters.json").read_text())
NAMES = {"amer": "amer", "tfn": "tfn", "ef": "ef_lstm", "lf": "lf_lstm"}
each_model = pytest.mark.parametrize("name", list(ModelName))


@pytest.mark.parametrize(("model", "modalities"), [(m, s) for m, sets in COUNTS.items() for s in sets])
def test_models_have_as_many_parameters_as_those_that_the_paper_names(model: str, modalities: str) -> None:
    widths = {name: WIDTHS[name] for name in modalities_of(modalities)}
    with torch.device("meta"):
        made = build(ModelName(NAMES[model]), widths, 384, TrainSettings())
    assert count(made) == COUNTS[model][modalities]


# --- what models are given -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("models") / "features", StudySpec(sessions=2))


@pytest.fixture(scope="module")
def dataset(study: SyntheticStudy) -> ClipDataset:
    return ClipDataset(study.root, TrainSettings().clip_inputs(MODALITIES), 'phase == "story_share"')


def taking(part: Part):
    return lambda batch: rows_of(batch, part)


@pytest.fixture(scope="module")
def moments(dataset: ClipDataset) -> dict[str, Moments]:
    parts = open_parts(dataset, TrainSettings(), MODALITIES)
    return measure(dataset, {part.name: taking(part) for own in parts.values() for part in own})


def preparation(dataset: ClipDataset, moments: dict[str, Moments], modalities: str) -> Preparation:
    return Preparation(open_parts(dataset, TrainSettings(), modalities_of(modalities)), moments)


def batch_of(dataset: ClipDataset) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values) for name, values in dataset.read(range(8)).items()}


def test_the_default_inputs_have_the_widths_of_the_paper_and_no_bookkeeping(dataset: ClipDataset, moments) -> None:
    assert preparation(dataset, moments, "v+a+t").widths == WIDTHS
    columns = {name for field in dataset.fields.values() for name in field.columns}
    bookkeeping = FEATURES["openface"].columns[FEATURES["openface"].groups["bookkeeping"]]
    assert len(bookkeeping) == 5
    assert not columns & set(bookkeeping)


def test_moments_count_every_frame_once_and_only_values(study: SyntheticStudy, dataset: ClipDataset, moments) -> None:
    shown = {"s00": slice(0, 28), "s01": slice(0, 28)}  # windows of 13 frames, 5 apart, in 30
    assert dataset.clips.groupby("session_id")["stop_frame"].max().to_dict() == {"s00": 28, "s01": 28}
    faces = [study.arrays[s, "openface", "values"][rows, 5:] for s, rows in shown.items()]
    valid = [study.arrays[s, "openface", "valid"][rows] == 1 for s, rows in shown.items()]
    values = np.concatenate([face[there] for face, there in zip(faces, valid, strict=True)]).astype(np.float64)
    assert moments["openface"].count.max() == len(values) < 56
    np.testing.assert_allclose(moments["openface"].mean, values.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments["openface"].std, values.std(axis=0), rtol=1e-12)
    words = moments["words"]
    assert 0 < words.count.max() < 56  # frames at which nobody speaks do not count


def test_moments_are_merged_to_the_same_numbers_and_a_constant_is_divided_by_1() -> None:
    generator = np.random.default_rng(0)
    rows, counts = 1e6 + generator.normal(size=(300, 4)), generator.random((300, 4)) < 0.7
    rows[:, 3] = 7.0
    counts[:, 2] = False
    merged = Moments.none(4)
    for begin in range(0, 300, 70):
        merged = merged.merged(Moments.of(rows[begin : begin + 70], counts[begin : begin + 70]))
    for column in (0, 1):
        values = rows[counts[:, column], column]
        assert merged.mean[column] == pytest.approx(values.mean(), rel=1e-14)
        assert merged.std[column] == pytest.approx(values.std(), rel=1e-9)
    assert merged.mean[2] == 0
    assert merged.std[[2, 3]].tolist() == [1, 1]


def test_few_windows_cover_all_frames() -> None:
    starts = [0, 5, 10, 15, 40, 41, 90]
    windows = pd.DataFrame({"start_frame": starts, "stop_frame": [start + 13 for start in starts]})
    chosen = covering(windows)
    counted = [frame for place, first in chosen for frame in range(first, starts[place] + 13)]
    assert sorted(counted) == sorted({frame for start in starts for frame in range(start, start + 13)})
    assert len(chosen) == 6  # one of 0, 5, 10, 15 is not needed


def test_moments_are_remembered(tmp_path: Path) -> None:
    asked = []

    def measured(names):
        asked.append(list(names))
        return {name: Moments.of(np.arange(6.0).reshape(3, 2), np.ones((3, 2), bool)) for name in names}

    first = remembered(tmp_path / "m", {"v": [1], "a": [2]}, measured)
    again = remembered(tmp_path / "m", {"v": [1], "a": [3]}, measured)
    assert asked == [["v", "a"], ["a"]]
    assert again["v"].digest == first["v"].digest
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "m").iterdir()} == {0o600}


def test_values_are_z_scores_cut_at_8_and_0_where_there_is_none(dataset: ClipDataset, moments) -> None:
    prepared = preparation(dataset, moments, "v+a+t")
    batch = batch_of(dataset)
    batch["audio"][0, 3, 5], batch["audio"][0, 4, 5] = 1e9, -1e9
    batch["audio"][0, 5, 5], batch["audio_mask"][0, 5] = torch.nan, True
    given = prepared(batch)
    audio = given.values["a"]
    assert audio[0, 3:6, 5].tolist() == [8, -8, 0]
    mean, std = (torch.from_numpy(getattr(moments["audio"], name)).float() for name in ("mean", "std"))
    expected = ((batch["audio"][0, 0] - mean) / std).clamp(-8, 8)
    torch.testing.assert_close(audio[0, 0], expected)
    lost = ~batch["openface_mask"]
    assert lost.any()
    assert (given.values["v"][lost][:, :709] == 0).all()
    assert (given.values["v"][lost][:, 709:] != 0).any()  # the picture is there without a face
    assert given.masks["v"].all()
    assert torch.equal(given.masks["t"], batch["words_mask"])


FAR = {"x": Part("x", ("x", "x_more"), "x_mask", 3), "y": Part("y", ("y",), "y_mask", 1)}
FAR_BATCH = {  # 1 window of 4 rows; x has 2 columns and 1 of another field, y 1: all far from 0
    "x": np.array([[[110, -70], [np.nan, -80], [90, np.inf], [104, -60]]], np.float32),
    "x_more": np.array([[5, 7, 5, 999]], np.float32),
    "x_mask": np.array([[True, True, True, False]]),
    "y": np.array([[[42], [44], [40], [44]]], np.float32),
    "y_mask": np.array([[True, True, False, True]]),
}
FAR_MOMENTS = {
    "x": Moments(np.full(3, 4.0), np.array([100.0, -75.0, 6.0]), np.array([100.0, 100.0, 4.0])),
    "y": Moments(np.full(1, 4.0), np.array([43.0]), np.array([1.0])),
}


def test_what_is_missing_is_the_mean_and_not_a_z_score_of_0() -> None:
    """Standard deviations 5, 5, 1 and 0.5: a 0 that was filled in before would be -8, 8, -6 and -8."""
    batch = {name: torch.from_numpy(values) for name, values in FAR_BATCH.items()}
    given = Preparation({"v": list(FAR.values())}, FAR_MOMENTS)(batch)
    expected = [[2, 1, -1, -2], [0, -1, 1, 2], [-2, 0, -1, 0], [0, 0, 0, 2]]
    np.testing.assert_allclose(given.values["v"][0].numpy(), expected, rtol=1e-6)
    assert given.masks["v"].tolist() == [[True] * 4]
    onto = {"v": np.array([[1.0], [10.0], [100.0], [1000.0]])}
    projected = Preparation({"v": list(FAR.values())}, FAR_MOMENTS, onto=onto)(batch)
    np.testing.assert_allclose(projected.values["v"][0, :, 0].numpy(), [-2088, 2090, -102, 2000], rtol=1e-6)


def test_what_is_missing_is_no_value_of_the_moments() -> None:
    values, counts = rows_of(FAR_BATCH, FAR["x"])
    found = Moments.of(values.reshape(-1, 3), counts.reshape(-1, 3))
    assert found.count.tolist() == [2, 2, 3]
    np.testing.assert_allclose(found.mean, [100, -75, 17 / 3])
    np.testing.assert_allclose(found.std, [10, 5, np.std([5, 7, 5])])


def test_what_a_killed_process_left_of_a_bank_is_removed_and_what_is_being_made_is_not(
    dataset: ClipDataset, moments, tmp_path: Path
) -> None:
    preparation = Preparation(open_parts(dataset, TrainSettings(), MODALITIES), moments)
    banks = tmp_path / ".banks"

    class Killed(Preparation):
        def __call__(self, batch):
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        try:
            open_bank(banks, "key", [dataset], Killed(preparation.parts, moments), "float32")
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    left = {path.name for path in banks.iterdir()}
    assert len(left) == 2
    assert all(name.endswith(".tmp") for name in left)
    with (banks / ".of-the-living.values.0.tmp").open("wb") as living:
        assert lock_new_file(living.fileno())
        made = open_bank(banks, "key", [dataset], preparation, "float32")
    assert len(made.values)
    names = {path.name for path in banks.iterdir()}
    assert {name.rpartition(".")[2] for name in names} == {"values", "masks", "tmp"}
    assert {name for name in names if name.endswith(".tmp")} == {".of-the-living.values.0.tmp"}
    open_bank(banks, "key", [dataset], preparation, "float32")
    assert len(list(banks.iterdir())) == 2


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_batches_of_a_bank_may_be_kept_and_memory_of_others_is_used_again(
    dataset: ClipDataset, moments, tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[np.ndarray] = []
    monkeypatch.setattr(feed_module, "new_memory", lambda nbytes: made.append(np.empty(nbytes, np.uint8)) or made[-1])
    preparation = Preparation(open_parts(dataset, TrainSettings(), MODALITIES), moments)
    bank = open_bank(tmp_path / ".banks", "key", [dataset], preparation, kind)
    sampler = SequentialSampler(dataset)
    kept, read = (list(feed.batches(dataset, sampler, 4)) for feed in (bank, Loaded(preparation)))
    assert len(kept) > 3
    assert len(kept[-1][0]) < 4 or len(dataset) % 4 == 0
    for (places, given), (expected_places, expected) in zip(kept, read, strict=True):
        assert torch.equal(places, expected_places)
        for name, values in expected.values.items():
            assert given.values[name].dtype == torch.float32
            assert torch.equal(given.values[name], values if kind == "float32" else values.bfloat16().float())
            assert torch.equal(given.masks[name], expected.masks[name])
    assert len(made) == len(kept)
    del kept, given
    for _ in bank.batches(dataset, sampler, 4):
        pass
    assert len(made) == len(read)


@each_model
def test_what_a_mask_hides_and_a_modality_that_is_not_used_change_nothing(dataset, moments, name: ModelName) -> None:
    torch.manual_seed(0)
    batch = batch_of(dataset)
    for key in ("openface", "audio", "words"):
        batch[f"{key}_mask"][:, 2:5] = False
    hidden = {key: value.clone() for key, value in batch.items()}
    for key in ("openface", "audio", "words"):
        mask = hidden[f"{key}_mask"]
        hidden[key][~mask] = torch.randn_like(hidden[key][~mask]) * 100
    for modalities in ("v+a+t", "v+a"):
        prepared = preparation(dataset, moments, modalities)
        model = build(name, prepared.widths, 384, TrainSettings()).eval()
        if modalities == "v+a":
            hidden["words"] = hidden["words"].flip(0, 1)
        with torch.inference_mode():
            assert torch.equal(model(prepared(batch)), model(prepared(hidden)))


@pytest.mark.slow
@each_model
def test_a_model_in_full_size_learns_a_batch(dataset: ClipDataset, moments, name: ModelName) -> None:
    torch.manual_seed(0)
    given = preparation(dataset, moments, "v+a+t")(batch_of(dataset))
    settings = TrainSettings()
    model = build(name, WIDTHS, 384, settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    vectors, learned = torch.randn(8, 384), torch.linspace(0, 1, 8)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(compared(model(given), vectors, settings), learned)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert min(losses[-3:]) < losses[0] / 2


@each_model
def test_the_order_of_frames_matters_to_lstms_and_not_to_means(name: ModelName) -> None:
    torch.manual_seed(0)
    given = Sequences({"v": torch.randn(4, 9, 6)}, {"v": torch.ones(4, 9, dtype=torch.bool)})
    others = [0, 2, 1, 3, 4, 6, 7, 5, 8]  # the middle one stays: it is what AMER looks from
    other = Sequences({"v": given.values["v"][:, others]}, given.masks)
    model = build(name, {"v": 6}, 5, TrainSettings()).eval()
    with torch.inference_mode():
        same = torch.allclose(model(given), model(other), atol=1e-6)
    assert same == (name in (ModelName.TFN, ModelName.AMER))


def test_tfn_takes_the_mean_of_valid_frames() -> None:
    torch.manual_seed(0)
    values, mask = torch.randn(2, 4, 6), torch.tensor([[True, True, False, False], [True] * 4])
    values = values * mask[..., None]
    shorter = Sequences({"v": values[:1, :2]}, {"v": mask[:1, :2]})
    for padding_counts in (False, True):
        settings = TrainSettings.model_validate({"tfn": {"padding_counts": padding_counts}})
        model = build(ModelName.TFN, {"v": 6}, 5, settings).eval()
        with torch.inference_mode():
            whole, part = model(Sequences({"v": values}, {"v": mask}))[:1], model(shorter)
        assert torch.allclose(whole, part) != padding_counts


def test_ef_lstm_can_normalise_each_time_step_by_hand() -> None:
    torch.manual_seed(0)
    settings = TrainSettings.model_validate({"ef_lstm": {"time_norm": True}})
    with_it, without = (build(ModelName.EF_LSTM, {"v": 2}, 5, one, steps=3) for one in (settings, TrainSettings()))
    assert count(with_it) == count(without) + 2 * 3
    seen: list[np.ndarray] = []
    with_it.lstm.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach().numpy()))
    values = np.random.default_rng(0).normal(5, 3, size=(4, 3, 2)).astype(np.float32)
    given = Sequences({"v": torch.from_numpy(values)}, {"v": torch.ones(4, 3, dtype=torch.bool)})
    with_it(given)
    mean, var = values.mean(axis=(0, 2), keepdims=True), values.var(axis=(0, 2), keepdims=True)
    np.testing.assert_allclose(seen[0], (values - mean) / np.sqrt(var + 1e-5), atol=1e-5)
    with_it.eval()(given)  # what it remembers: a tenth of the batch's, whose variance is divided by n - 1
    var = 0.9 + 0.1 * var * 8 / 7
    np.testing.assert_allclose(seen[1], (values - 0.1 * mean) / np.sqrt(var + 1e-5), atol=1e-5)


def count(model: torch.nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def test_a_run_knows_how_many_time_steps_its_windows_have(study: SyntheticStudy) -> None:
    settings = TrainSettings.model_validate({"keep": "last", "ef_lstm": {"time_norm": True}})
    opened = open_run(FeatureStore(study.root), RunName("story_share", ModelName.EF_LSTM, ("a",), 0), settings)
    clips = opened.splits.training.clips
    assert opened.make().norm.num_features == clips["stop_frame"][0] - clips["start_frame"][0]


def test_attention_among_three_moments_of_one_number_by_hand() -> None:
    moments = torch.tensor([[[1.0], [2.0], [3.0]]]) * 2  # each twice: attention among one person, and the residual
    # Of 2, 4 and 6 the middle one looks with logits 8, 16 and 24; the last is hidden.
    weight = 1 / (1 + np.exp(8 - 16))
    seen = attended(moments, torch.tensor([[True, True, False]]))
    assert float(seen) == pytest.approx(4 + 4 * weight + 2 * (1 - weight), rel=1e-6)
    alike = attended(moments, torch.tensor([[False, False, False]]))
    assert float(alike) == pytest.approx(4 + 4, rel=1e-6)


def test_amer_by_hand() -> None:
    sizes = {"encoder_v": (1,), "fused": 1, "hidden": 1}
    model = build(ModelName.AMER, {"v": 1}, 1, TrainSettings.model_validate({"amer": sizes}))
    layers = {"encoders.v.0": (0.5, 0.25), "head.0": (2.0, -1.0), "head.1": (1.0, 0.5), "head.3": (3.0, 0.125)}
    weights = {f"{name}.weight": torch.tensor([[weight]]) for name, (weight, _) in layers.items()}
    model.load_state_dict(weights | {f"{name}.bias": torch.tensor([bias]) for name, (_, bias) in layers.items()})
    given = Sequences({"v": torch.tensor([[[1.0], [0.0], [2.0]]])}, {"v": torch.tensor([[True, True, True]])})
    moments = np.array([1.5, 0.5, 2.5])  # 2 (x / 2 + 1 / 4)
    shares = np.exp(moments * 0.5) / np.exp(moments * 0.5).sum()
    fused = 2 * (shares @ moments + 0.5) - 1
    assert float(model(given).detach()) == pytest.approx(3 * (fused + 0.5) + 0.125, rel=1e-6)


@pytest.mark.parametrize("text", ["", "v+v", "v+x", "v,a"])
def test_modalities_that_there_are_not_are_refused(text: str) -> None:
    with pytest.raises(Exception, match=naming("join some of v")):
        modalities_of(text)
