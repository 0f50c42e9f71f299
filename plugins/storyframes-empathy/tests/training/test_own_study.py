"""A study that is not the paper's trains: defaults are taken from its store, and what is lacking is said at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from empathy_support.planted_study import SMALL
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import StudySpec, publish, write_features
from typer.testing import CliRunner

from storyframes.clips.clip_index import SPLITS
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.window_spec import WindowSpec
from storyframes.notebook import percent
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes_empathy.commands.app import app
from storyframes_empathy.scores.predictions import read_predictions
from storyframes_empathy.scores.run_record import read_run
from storyframes_empathy.statistics.intraclass import intraclass
from storyframes_empathy.statistics.krippendorff import alpha_interval
from storyframes_empathy.training.inputs import Preparation, open_parts
from storyframes_empathy.training.models.build import build
from storyframes_empathy.training.moments import Moments
from storyframes_empathy.training.opened import CannotTrainError
from storyframes_empathy.training.own_study import plan_training
from storyframes_empathy.training.settings import ModelName, TrainSettings, load_train_settings
from storyframes_empathy.training.splits import open_splits
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.study.labels import Label, Scheme, SchemeType
from tasks.study.load import Session, Study
from tasks.study.rows import Phase

SECONDS, WINDOW_S = 6, 2
RAPPORT = Scheme("rapport", SchemeType.INTERVAL, 0.0, 100.0)
RATES = (10, 25, 5, 10, 25, 10, 10, 10)  # of sessions s0, s1, …
NO_CAMERA, NO_SOUND, NOTHING = "s0", "s1", "s2"


def write_own_store(
    root: Path,
    *,
    lacking: Mapping[str, Sequence[str]],
    schemes: Sequence[Scheme] = (RAPPORT,),
    people: Sequence[str] = tuple(f"p{number}" for number in range(len(RATES))),
    rates: Sequence[int] = RATES,
    window: WindowSpec | None = None,
    phases: Sequence[Phase] = (),
    labelled: tuple[float | None, float | None] = (None, None),
    raters: Mapping[str, float] | None = None,
) -> FeatureStore:
    """Sessions without phases, with a face's 3 columns for each frame and 4 of the sound for each 20 ms."""
    create_store(root)
    generator = np.random.default_rng(0)
    names = [f"s{number}" for number in range(len(people))]
    for session, rate in zip(names, rates, strict=False):
        time = np.arange(SECONDS * rate) / rate
        publish(root, session, "frames", {"time": time})
        sound = np.arange(SECONDS * 50) / 50
        for feature, axis, rows, width in (
            ("faces", Axis.FRAME, time, 3),
            ("voice", Axis.AUDIO_FRAME, sound, 4),
        ):
            if feature in lacking.get(session, ()):
                continue
            arrays = {"values": ArraySpec(axis, "float32", "values", shape=(width,), dims=("column",))}
            if axis is Axis.AUDIO_FRAME:
                arrays["time"] = ArraySpec(axis, "float64", "when")
            with FeatureWriter(local(root), session, FeatureSpec(feature, "of a test", arrays)) as out:
                out.write("values", generator.normal(50, 9, (len(rows), width)).astype(np.float32))
                if "time" in arrays:
                    out.write("time", rows)
                out.publish("f", {})
    catalogue.compact(local(root))
    labels = [
        Label(session, scheme.name, float(10 * number + 5 + apart), *labelled, rater_id=rater)
        for scheme in schemes
        for number, session in enumerate(names)
        for rater, apart in (raters or {None: 0}).items()
    ]
    study = Study(
        Path("/nowhere"),
        {name: _session(name, person) for name, person in zip(names, people, strict=True)},
        schemes={scheme.name: scheme for scheme in schemes},
        labels=tuple(labels),
        phases=tuple(phases),
    )
    spec = window or WindowSpec(window_s=WINDOW_S, stride_s=1, window=None, stride=None)
    write_clip_index(build_clip_index(study, spec, FeatureStore(root)).clips, local(root))
    return FeatureStore(root)


def _session(name: str, person: str) -> Session:
    return Session(session_id=name, participant_id=person, video="no.mp4")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    lacking = {NO_CAMERA: ["faces"], NO_SOUND: ["voice"], NOTHING: ["faces", "voice"]}
    return write_own_store(tmp_path_factory.mktemp("own") / "features", lacking=lacking)


def train(store: FeatureStore, out: Path, *more: str):
    toml = out.parent / "sizes.toml"
    sizes = "\n".join(
        f"[train.{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in sizes.items())
        for name, sizes in SMALL.items()
    )
    toml.write_text(sizes)
    asked = ["--out", str(out), "--epochs", "1", "--config", str(toml), "--json", *more]
    return CliRunner().invoke(app, ["train", store.storage.location, *asked])


def test_it_is_said_of_how_many_raters_a_label_is_the_mean_and_how_far_they_agree(tmp_path: Path) -> None:
    store = write_own_store(tmp_path / "features", lacking={}, raters={"ann": 0, "ben": 10})
    plan = plan_training(store, TrainSettings(), None, None, [0])
    values = np.array([[10.0 * number + 5, 10.0 * number + 15] for number in range(len(RATES))])
    alpha, icc = alpha_interval(values), intraclass(values)
    assert alpha is not None
    assert icc is not None
    said = (
        f"{len(RATES)} units",
        "mean of 2 raters",
        "(interval)",
        f"{alpha:.3f}",
        f"{icc.single:.3f}",
        f"{icc.mean:.3f}",
    )
    assert any(not missing(remark, *said) for remark in plan.remarks)
    alone = write_own_store(tmp_path / "alone", lacking={}, raters={"ann": 0})
    assert not any("rater" in remark for remark in plan_training(alone, TrainSettings(), None, None, [0]).remarks)


@pytest.mark.slow
def test_ones_own_study_trains_with_no_option_and_says_what_it_took(store, tmp_path: Path) -> None:
    result = train(store, tmp_path / "runs")
    assert result.exit_code == 0, result.output
    said = result.stderr
    assert not missing(said, "rapport (0 to 100)", "phase session")
    assert "v: faces" in said
    assert "a: voice" in said
    assert not missing(said, "10 rows", "--rate")
    assert not missing(said, "faces (v)", "25%", "2 of 8 sessions", "masked")
    runs = json.loads(result.stdout)["runs"]
    assert [(run["phase"], run["modalities"], run["status"]) for run in runs] == [("session", "v+a", "done")] * 3
    run = read_run(Path(runs[0]["folder"]))
    assert (run.scheme, run.minimum, run.maximum, run.threshold) == ("rapport", 0, 100, 50)
    assert any("faces is masked where a session lacks it" in caveat for caveat in run.caveats)
    table = read_predictions(Path(runs[0]["folder"]), run).table
    assert set(table["split"]) == {"val", "test"}
    assert np.isfinite(table["score"]).all()
    assert NOTHING not in set(table["session_id"])
    evaluated = CliRunner().invoke(app, ["evaluate", str(tmp_path / "runs")])
    assert evaluated.exit_code == 0, evaluated.output


@pytest.mark.parametrize("model", ModelName)
def test_every_model_trains_on_sessions_that_lack_a_modality(store, tmp_path: Path, model: ModelName) -> None:
    result = train(store, tmp_path / "runs", "--model", model, "--seeds", "0")
    assert result.exit_code == 0, result.output
    caveats = read_run(tmp_path / "runs/session" / model / "v+a/0").caveats
    what = "read as zeros" if model is ModelName.EF_LSTM else "masked"
    assert any(f"faces is {what} where a session lacks it: " in caveat for caveat in caveats)
    lines = (tmp_path / "runs/session" / model / "v+a/0/epochs.jsonl").read_text().splitlines()
    (epoch,) = map(json.loads, lines)
    assert np.isfinite([epoch["train_mse"], epoch["val_mse"]]).all()


@pytest.mark.parametrize("model", ModelName)
def test_a_modality_that_a_window_lacks_adds_nothing(store: FeatureStore, model: ModelName) -> None:
    plan = plan_training(store, TrainSettings.model_validate(SMALL), None, None, [0])
    settings = plan.settings[0]
    dataset = ClipDataset(store, settings.clip_inputs(("v", "a")), f'session_id == "{NO_CAMERA}"')
    parts = open_parts(dataset, settings, ("v", "a"))
    moments = {part.name: Moments.none(part.width) for own in parts.values() for part in own}
    batch = {name: torch.from_numpy(values) for name, values in dataset.read(range(len(dataset))).items()}
    assert torch.isnan(batch["faces"]).all()
    assert not batch["faces_mask"].any()
    given = Preparation(parts, moments)(batch)
    torch.manual_seed(0)
    network = build(model, {"v": 3, "a": 4}, 1, settings, steps=20)
    network.train()
    network(given).sum().backward()
    part = {"amer": "encoders.v", "lf_lstm": "lstms.v", "tfn": "parts.v"}.get(model)
    of_v = [weights.grad for name, weights in network.named_parameters() if part and name.startswith(part)]
    assert part is None or of_v
    assert all(grad is None or not grad.any() for grad in of_v)
    if model is ModelName.EF_LSTM:  # a is before v, side by side
        assert not network.lstm.lstm.weight_ih_l0.grad[:, 4:].any()
    assert all(weights.grad is None or torch.isfinite(weights.grad).all() for weights in network.parameters())


def test_the_sound_and_faces_of_a_clip_are_of_its_own_seconds_at_any_rate(store: FeatureStore) -> None:
    settings = plan_training(store, TrainSettings(), None, None, [0]).settings[0]
    dataset = ClipDataset(store, settings.clip_inputs(("v", "a")))
    place = int(np.flatnonzero((dataset.clips["session_id"] == "s4") & (dataset.clips["start_s"] == 1))[0])
    clip = dataset[place]
    faces, voice = store.read("s4", "faces"), store.read("s4", "voice")
    points = 1 + np.arange(20) / 10
    # 25 frames a second: of two rows equally near the earlier
    rows = [int(np.argmin(np.round(np.abs(np.arange(len(faces)) / 25 - point), 9))) for point in points]
    np.testing.assert_array_equal(clip["faces"], faces[rows])
    np.testing.assert_array_equal(clip["voice"], voice[50:150:5])


@pytest.mark.slow
def test_an_input_that_all_training_clips_lack_is_left_out_of_the_run_and_its_name(tmp_path: Path) -> None:
    people = [f"p{number}" for number in range(4)]
    lacking = {f"s{number}": ["faces"] for number in (1, 2, 3)}
    few = write_own_store(tmp_path / "few", lacking=lacking, people=people)
    plan = plan_training(few, TrainSettings(), None, None, range(6))
    names = set()
    for seed, settings in plan.settings.items():
        modalities, trained = plan.runs["session", seed]
        training = open_splits(few, "session", plan.modalities, seed, settings).scored["train"].clips
        assert modalities == (("v", "a") if "s0" in set(training["session_id"]) else ("a",))
        assert trained.parts("a") == settings.parts("a")
        names.add(modalities)
        assert any(f"seed {seed}: no training clip has faces" in one for one in plan.remarks) == (modalities == ("a",))
    assert names == {("v", "a"), ("a",)}
    seed = next(seed for seed in range(6) if plan.runs["session", seed][0] == ("a",))
    assert train(few, tmp_path / "runs", "--seeds", str(seed)).exit_code == 0
    assert [path.parent.parent.name for path in tmp_path.glob("runs/**/run.json")] == ["a"]


def test_the_papers_own_recipe_is_one_word() -> None:
    paper = load_train_settings(None, preset="paper")
    assert paper.oversampling == "paper"
    assert [(part.input, part.columns) for part in paper.parts("v")] == [("openface", None), ("resnet50", None)]
    default = load_train_settings(None)
    assert default.parts("v")[0].columns == ("measurements",)
    assert (
        default.deciding() | {"preset": "paper", "oversampling": "paper", "v": paper.deciding()["v"]}
        == paper.deciding()
    )


@pytest.mark.slow
def test_the_papers_kind_of_study_keeps_every_default(tmp_path: Path) -> None:
    paper = FeatureStore(write_features(tmp_path / "store").root)
    asked = load_train_settings(None)
    plan = plan_training(paper, asked, None, None, [0, 1])
    assert plan.settings == {0: asked, 1: asked}
    assert plan.modalities == ("v", "a", "t")
    assert plan.phases == ("reflection", "story_share")
    assert plan.remarks == ()


def test_inputs_that_are_not_the_papers_are_named_in_its_kind_of_study_too(tmp_path: Path) -> None:
    without = StudySpec(sessions=6, lacking={f"s{number:02d}": ["openface"] for number in range(6)})
    plan = plan_training(
        FeatureStore(write_features(tmp_path / "store", without).root), TrainSettings(), None, None, [0]
    )
    assert plan.remarks == ("v: resnet50",)


@pytest.mark.slow
def test_all_that_is_lacking_is_said_at_once(store: FeatureStore, tmp_path: Path) -> None:
    other = Scheme("warmth", SchemeType.ORDINAL, 0.0, 100.0)
    two = write_own_store(tmp_path / "two", lacking={}, schemes=(RAPPORT, other))
    with pytest.raises(CannotTrainError) as refused:
        plan_training(two, TrainSettings(), "lunch", ("v", "t"), [0])
    message = str(refused.value)
    assert not missing(message, "'lunch'", "there is no phase")
    assert not missing(message, "--label rapport", "--label warmth")
    assert not missing(message, "no session has a feature")
    assert "train --modalities v+a" in message
    mood = write_own_store(tmp_path / "none", lacking={}, schemes=())
    with pytest.raises(CannotTrainError, match=naming("'storyframes import labels'", "no label")):
        plan_training(mood, TrainSettings(), None, None, [0])


@pytest.mark.slow
@pytest.mark.parametrize(("count", "splits"), [(2, {"train", "val"}), (3, {"train", "val", "test"})])
def test_few_participants_are_in_as_many_splits_as_there_can_be(tmp_path: Path, count: int, splits: set[str]) -> None:
    few = write_own_store(tmp_path / "few", lacking={}, people=[f"p{number}" for number in range(count)])
    result = train(few, tmp_path / "runs", "--seeds", "0,1")
    assert result.exit_code == 0, result.output
    for seed in "01":
        folder = tmp_path / "runs/session/lf_lstm/v+a" / seed
        assert set(read_predictions(folder, read_run(folder)).table["split"]) == splits - {"train"}


@pytest.mark.slow
def test_splits_are_drawn_of_participants_whose_clips_are_used(tmp_path: Path) -> None:
    """One has no camera and one has nothing: with v alone both are dropped, and every split still has clips."""
    lacking = {"s0": ["faces"], "s1": ["faces", "voice"]}
    few = write_own_store(tmp_path / "few", lacking=lacking, people=[f"p{number}" for number in range(5)])
    for modalities in (None, ("v",)):
        plan = plan_training(few, TrainSettings(), None, modalities, range(8))
        for seed, settings in plan.settings.items():
            splits = open_splits(few, "session", plan.modalities, seed, settings)
            assert {name: len(dataset) > 0 for name, dataset in splits.scored.items()} == dict.fromkeys(SPLITS, True)


@pytest.mark.slow
def test_every_phase_has_every_split(tmp_path: Path) -> None:
    """Three participants in one phase, three others in another: no share of one person for val would do."""
    people = [f"p{number}" for number in range(6)]
    phases = [
        Phase(session_id=f"s{number}", phase="first" if number < 3 else "second", start_s=0, end_s=SECONDS)
        for number in range(6)
    ]
    store = write_own_store(tmp_path / "phases", lacking={}, people=people, phases=phases)
    plan = plan_training(store, TrainSettings(), None, None, range(3))
    assert plan.phases == ("first", "second")
    assert any(not missing(one, "train 33%", "val 33%", "test 33", "split_shares") for one in plan.remarks)
    for seed, settings in plan.settings.items():
        for phase in plan.phases:
            assert set(open_splits(store, phase, plan.modalities, seed, settings).scored) == set(SPLITS)


def test_missing_clips_are_left_out_by_what_is_used_alone(tmp_path: Path) -> None:
    """A study of sound alone has none of the inputs of v and t, which its clips need not have."""
    heard = write_own_store(tmp_path / "heard", lacking={f"s{number}": ["faces"] for number in range(8)})
    plan = plan_training(heard, TrainSettings(missing="drop"), None, None, [0])
    assert plan.modalities == ("a",)
    assert len(open_splits(heard, "session", ("a",), 0, plan.settings[0]).scored["train"])


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0%"), (0.001, "under 1%"), (0.25, "25%"), (0.99, "99%"), (0.999, "over 99%"), (1, "100%")],
)
def test_a_share_is_not_rounded_to_none_or_all(share: float, said: str) -> None:
    assert percent(share) == said


def test_a_scheme_of_ones_own_that_is_called_empathy_has_its_own_range(tmp_path: Path) -> None:
    """Without limits that of its values, not the 1 to 5 of the table ratings."""
    own = write_own_store(tmp_path / "own", lacking={}, schemes=(Scheme("empathy", SchemeType.INTERVAL),))
    plan = plan_training(own, TrainSettings(), None, None, [0])
    assert not missing(plan.remarks[0], "empathy (5 to 75)", "phase session")
    scale = open_splits(own, "session", plan.modalities, 0, plan.settings[0]).scale
    assert (scale.low, scale.high, scale.similar_above) == (5, 75, 40)


def test_a_phase_without_labels_is_refused_and_no_other_is_trained(tmp_path: Path) -> None:
    people = [f"p{number}" for number in range(6)]
    phases = [
        Phase(session_id=f"s{number}", phase=phase, start_s=start_s, end_s=start_s + 3)
        for number in range(6)
        for phase, start_s in (("talk", 0), ("walk", 3))
    ]
    store = write_own_store(tmp_path / "own", lacking={}, people=people, phases=phases, labelled=(0, 3))
    assert plan_training(store, TrainSettings(), None, None, [0]).phases == ("talk",)
    refused = train(store, tmp_path / "runs", "--phase", "walk")
    assert refused.exit_code == 2
    assert not missing(refused.stderr, "'walk'", "'rapport'")
    assert not list(tmp_path.glob("runs/**/state.json"))


def test_one_participant_is_explained_and_trains_with_keep_last(tmp_path: Path) -> None:
    one = write_own_store(tmp_path / "one", lacking={}, people=["p0", "p0"])
    refused = train(one, tmp_path / "runs")
    assert refused.exit_code == 2
    assert not missing(refused.stderr.replace("\n", " "), "nobody is left to validate")
    result = train(one, tmp_path / "runs", "--keep", "last", "--seeds", "0")
    assert result.exit_code == 0, result.output


def test_windows_of_equal_frames_have_no_rate_and_no_masks(tmp_path: Path) -> None:
    alike = write_own_store(tmp_path / "alike", lacking={}, rates=(10,) * 8)
    settings = plan_training(alike, TrainSettings(), None, ("v",), [0]).settings[0]
    assert (settings.rate, settings.missing) == (None, "drop")
    assert settings.label_range == (0, 100)


def test_the_preset_that_is_named_has_the_range_of_the_scheme_too(store: FeatureStore) -> None:
    """Labels are of 5 to 75, the scheme of 0 to 100."""
    asked = TrainSettings.model_validate({"preset": "regression", "label": "rapport"})
    settings = plan_training(store, asked, None, ("v",), [0]).settings[0]
    assert settings.label_range == (0, 100)


def test_given_settings_are_kept(store: FeatureStore) -> None:
    given = {"label": "rapport", "rate": 5, "missing": "drop", "label_range": (0, 200), "split_seed": 3}
    plan = plan_training(store, TrainSettings.model_validate(given), "session", ("v",), [0, 1])
    for settings in plan.settings.values():
        assert {name: getattr(settings, name) for name in given} == given
    assert any("left out (--missing mask keeps them)" in remark for remark in plan.remarks)
