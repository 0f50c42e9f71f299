"""Modalities with rows of their own: as many steps as there are words, or 10 ms of sound, and no padding is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from empathy_support.planted_study import Nobody
from empathy_support.training import train_and_be_killed
from support.messages import naming
from support.synthetic_features import StudySpec, SyntheticStudy, write_features

from storyframes.clips.dataset import ClipDataset
from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.benchmark import BenchmarkRequest, prepare_benchmark
from storyframes_empathy.scores.run_record import read_run
from storyframes_empathy.training.inputs import Preparation, open_parts, rows_of
from storyframes_empathy.training.models.build import build
from storyframes_empathy.training.models.parts import Sequences
from storyframes_empathy.training.moments import Moments, measure
from storyframes_empathy.training.opened import CannotTrainError, open_run
from storyframes_empathy.training.provenance import versions_of
from storyframes_empathy.training.run_folder import RunName
from storyframes_empathy.training.runs import train_run
from storyframes_empathy.training.settings import ModelName, TrainSettings, TrainSettingsError, load_train_settings

OWN = {
    "a": [{"input": "audio", "axis": "audio_frame"}],
    "t": [{"input": "words", "axis": "word"}],
}
FRAMES, FIVE = {"t": [{"input": "words"}]}, [{"input": "audio", "rate": 5}]
WIDTHS = {"v": 6, "a": 4, "t": 5}
take_them = pytest.mark.parametrize("model", [ModelName.LF_LSTM, ModelName.TFN])


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("own") / "features", StudySpec(sessions=6))


def settings(**more: object) -> TrainSettings:
    small = {"hidden_v": 8, "hidden_a": 4, "hidden_t": 8, "fused": 8}
    quick = {"epochs": 1, "onednn": "off", "keep": "last", "lf_lstm": small, "tfn": {**small, "out_t": 4}}
    return TrainSettings.model_validate({**OWN, **quick, **more})


def name(model: str, modalities: tuple[str, ...] = ("a", "t"), phase: str = "reflection") -> RunName:
    return RunName(phase, ModelName(model), modalities, 0)


@take_them
def test_windows_together_are_encoded_as_each_alone_without_padding(model: ModelName) -> None:
    torch.manual_seed(0)
    lengths = {"a": torch.tensor([7, 3, 1, 5]), "t": torch.tensor([2, 0, 4, 1])}
    values = {key: torch.randn(4, 7, width) for key, width in WIDTHS.items()}
    masks = {key: torch.ones(4, 7, dtype=torch.bool) for key in WIDTHS}
    for key, each in lengths.items():
        behind = torch.arange(7)[None, :] >= each[:, None]
        masks[key] = ~behind
        values[key][behind] = 0
    encoder = build(model, WIDTHS, 3, settings()).eval()
    with torch.inference_mode():
        together = encoder(Sequences(values, masks, lengths))
        for place in range(4):
            steps = {"v": 7, "a": int(lengths["a"][place]), "t": max(1, int(lengths["t"][place]))}
            one = [{key: each[key][place : place + 1, : steps[key]] for key in WIDTHS} for each in (values, masks)]
            no_words = {"t": torch.tensor([0])} if lengths["t"][place] == 0 else {}
            alone = encoder(Sequences(*one, no_words))  # no length, no packing: PyTorch's LSTM over what there is
            torch.testing.assert_close(together[place : place + 1], alone, rtol=1e-5, atol=1e-6)
        values["a"][lengths["a"][:, None] <= torch.arange(7)] = 100.0  # padding that is not 0
        torch.testing.assert_close(encoder(Sequences(values, masks, lengths)), together, rtol=0, atol=0)


def test_a_window_without_a_word_has_a_state_of_0() -> None:
    torch.manual_seed(0)
    encoder = build(ModelName.LF_LSTM, {"t": 5}, 3, settings()).eval()
    seen: list[torch.Tensor] = []
    encoder.head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    mask = torch.zeros(2, 3, dtype=torch.bool)
    encoder(Sequences({"t": torch.randn(2, 3, 5)}, {"t": mask}, {"t": torch.tensor([0, 2])}))
    assert (seen[0][0] == 0).all()
    assert (seen[0][1] != 0).any()


@pytest.mark.slow
def test_a_model_is_given_every_word_and_step_of_a_window_as_the_store_has_them(study: SyntheticStudy) -> None:
    dataset = ClipDataset(study.root, settings().clip_inputs(("a", "t")), 'phase == "story_share"')
    parts = open_parts(dataset, settings(), ("a", "t"))
    moments = {part.name: whole(part.width) for own in parts.values() for part in own}
    batch = {key: torch.from_numpy(value) for key, value in dataset.read(range(len(dataset))).items()}
    given = Preparation(parts, moments)(batch)
    lengths = []
    for place, clip in dataset.clips.iterrows():
        session = clip["session_id"]
        start = study.arrays[session, "glove", "start"]
        rows = np.flatnonzero((start >= clip["start_s"]) & (start < clip["stop_s"]))
        rows = rows[np.argsort(start[rows], kind="stable")]
        known = study.arrays[session, "glove", "known"][rows] == 1
        words = np.where(known[:, None], study.arrays[session, "glove", "values"][rows].clip(-8, 8), 0)
        np.testing.assert_allclose(given.values["t"][place, : len(rows)], words, rtol=1e-6)
        assert given.masks["t"][place, : len(rows)].tolist() == known.tolist()
        lengths.append((clip["audio_stop"] - clip["audio_start"], len(rows)))
    assert list(zip(given.lengths["a"].tolist(), given.lengths["t"].tolist(), strict=True)) == lengths
    assert given.values["t"].shape[1] == max(words for _, words in lengths)  # of the batch, not of the study
    assert len(set(lengths)) > 3


def whole(width: int) -> Moments:
    """Moments by which z-scores are the values."""
    return Moments(np.ones(width), np.zeros(width), np.ones(width))


def test_moments_count_every_word_and_step_of_the_sound_once(study: SyntheticStudy) -> None:
    dataset = ClipDataset(study.root, settings().clip_inputs(("a", "t")), 'phase == "story_share"')
    parts = {part.name: part for own in open_parts(dataset, settings(), ("a", "t")).values() for part in own}
    found = measure(dataset, {key: (lambda batch, part=part: rows_of(batch, part)) for key, part in parts.items()})
    words, sound = [], []
    for session, clips in dataset.clips.groupby("session_id"):
        start = study.arrays[session, "glove", "start"]
        inside = (start >= clips["start_s"].min()) & (start < clips["stop_s"].max())
        known = study.arrays[session, "glove", "known"] == 1
        words.append(study.arrays[session, "glove", "values"][inside & known])
        rows = study.arrays[session, "opensmile", "values"]
        sound.append(rows[clips["audio_start"].min() : clips["audio_stop"].max()])
    for key, rows in (("words", np.concatenate(words)), ("audio", np.concatenate(sound))):
        assert found[key].count.max() == len(rows)
        np.testing.assert_allclose(found[key].mean, rows.mean(axis=0, dtype=float), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found[key].std, rows.std(axis=0, dtype=float), rtol=1e-9)


def test_an_input_by_the_person_is_in_the_record_of_a_run_and_others_are_as_before() -> None:
    chosen = settings(a=[{"input": "audio", "standardise": "person"}], t=[{"input": "words"}])
    of_sound, of_words = (chosen.deciding()[name][0] for name in ("a", "t"))
    assert of_sound["standardise"] == "person"
    assert "standardise" not in of_words  # so that runs of before it stay done
    assert chosen.parts("a")[0].clip_input().standardise == "person"


def test_the_versions_of_a_persons_other_sessions_decide_too(
    study: SyntheticStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = FeatureStore(study.root).clips()
    index.loc[index["session_id"].isin(["s00", "s01"]), "participant_id"] = "p"
    monkeypatch.setattr(FeatureStore, "clips", lambda store: index.copy())
    store = FeatureStore(study.root)
    clips = {"train": ClipDataset(store, ["words"], 'session_id == "s00"')}
    chosen = settings(a=[{"input": "audio", "standardise": "person"}], t=[{"input": "words"}])
    versions = versions_of(store, clips, ("a", "t"), chosen, stories=False)
    assert {feature: set(of) for feature, of in versions.items()} == {"opensmile": {"s00", "s01"}, "glove": {"s00"}}


@pytest.mark.slow
@take_them
def test_a_run_with_rows_of_its_own_is_another_run_and_says_so(
    study: SyntheticStudy, tmp_path: Path, model: ModelName
) -> None:
    store = FeatureStore(study.root)
    outcome = train_run(store, name(model), settings(), tmp_path, Nobody())
    run = read_run(outcome.folder)
    assert [one["axis"] for one in (*run.settings["a"], *run.settings["t"])] == ["audio_frame", "word"]
    of_frames = settings(a=[{"input": "audio"}], t=[{"input": "words"}])
    assert open_run(store, name(model), of_frames).fingerprint != run.fingerprint
    assert "axis" not in of_frames.deciding()["a"][0]  # so that runs of before there was an axis stay done
    train_and_be_killed(store, tmp_path / "again", name(model), 0, settings())
    again = train_run(store, name(model), settings(), tmp_path / "again", Nobody())
    assert (again.folder / "predictions.parquet").read_bytes() == (outcome.folder / "predictions.parquet").read_bytes()


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        ("ef_lstm", {}, "ef_lstm joins the modalities frame by frame, .*'audio'.*train lf_lstm or tfn"),
        ("amer", {"a": [{"input": "audio"}]}, "amer looks from the middle frame of a window, .*'words'"),
        ("tfn", {"tfn": {"padding_counts": True}}, "padding_counts = true, .* longest clip of the study"),
        ("lf_lstm", {"t": [{"input": "words", "axis": "word", "rate": 5}]}, "'words' has a row for each word"),
        ("lf_lstm", {"a": [{"input": "audio", "axis": "moment"}]}, "axis of 'audio' cannot be 'moment'"),
        ("ef_lstm", {**FRAMES, "a": FIVE}, "they have a 4, t 13"),
        ("lf_lstm", {**FRAMES, "a": FIVE, "bank": "float32"}, "a bank has the 13 frames"),
    ],
)
def test_a_model_that_cannot_take_them_is_refused_before_anything_begins(
    study: SyntheticStudy, tmp_path: Path, model: str, more: dict, message: str
) -> None:
    with pytest.raises(CannotTrainError, match=message):
        train_run(FeatureStore(study.root), name(model), settings(**more), tmp_path / "runs", Nobody())
    assert not (tmp_path / "runs").exists()


def test_a_grid_with_such_a_model_is_refused_as_a_whole(study: SyntheticStudy, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[train]\nt = [{ input = "words", axis = "word" }]\n')
    asked = BenchmarkRequest(features=str(study.root), out=tmp_path / "runs", config=config)
    with pytest.raises(TrainSettingsError, match=naming("amer t seed 0", "amer looks from the middle")):
        prepare_benchmark(asked)
    fits = asked.model_copy(update={"models": (ModelName.TFN, ModelName.LF_LSTM)})
    assert len(prepare_benchmark(fits).units) == 2 * 5 * 2 * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            't = [{ input = "words", axis = "word" }]\nbank = "float32"',
            "a bank holds a row for each frame, .*'words'",
        ),
        ('t = [{ input = "words", axis = "word" }, { input = "sentence" }]', "t has several inputs, .*'words'"),
        ('t = [{ input = "words", axis = "wrod" }]', "train.t.0.axis = 'wrod'"),
    ],
)
def test_settings_that_cannot_be_are_said(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.toml").write_text(f"[train]\n{text}\n")
    with pytest.raises(TrainSettingsError, match=message):
        load_train_settings(tmp_path / "c.toml")
