"""Whose ratings a reflection is learned from: all of the session, or that of the story that it is on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from empathy_support.planted_study import Nobody
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import FPS, StudySpec, SyntheticStudy, study_of, tables, write_features
from typer.testing import CliRunner

from storyframes.clips.window_spec import WindowSpec
from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.commands.app import app
from storyframes_empathy.scores.run_record import read_run
from storyframes_empathy.training.opened import CannotTrainError, open_run
from storyframes_empathy.training.run_folder import RunName
from storyframes_empathy.training.runs import train_run
from storyframes_empathy.training.settings import ModelName, TrainSettings, TrainSettingsError, load_train_settings
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.clip_index.label_rules import label_rule_faults
from tasks.study.load import StudyError, load_study

SPEC = StudySpec(sessions=8)
SESSIONS = [f"s{number:02d}" for number in range(SPEC.sessions)]
CHOSEN = {session: 1 + number % 3 for number, session in enumerate(SESSIONS[:-1])}  # the last one says nothing


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    """Features whose clip index says which story each session reflected on."""
    written = write_features(tmp_path_factory.mktemp("reflected") / "features", SPEC)
    content = tables(SPEC, SESSIONS)
    rated = content["ratings"]
    says = rated["session_id"].isin(CHOSEN)
    reflected = rated["position"] == rated["session_id"].map(CHOSEN)
    content["ratings"] = rated.assign(reflected=reflected.astype(object).where(says, None))
    windows = WindowSpec(window=SPEC.window, stride=SPEC.stride, fps=FPS)
    index = build_clip_index(study_of(content), windows, FeatureStore(written.root)).clips
    write_clip_index(index, local(written.root))
    return written


def settings(**more: object) -> TrainSettings:
    small = {"encoder_a": (8,), "fused": 4, "hidden": 4}
    return TrainSettings.model_validate({"epochs": 1, "keep": "last", "amer": small, **more})


def name(phase: str = "reflection") -> RunName:
    return RunName(phase, ModelName.AMER, ("a",), 0)


@pytest.mark.slow
def test_the_clip_index_says_on_which_story_a_session_reflected(study: SyntheticStudy) -> None:
    index = FeatureStore(study.root).clips()
    for session, clips in index.groupby("session_id"):
        if session not in CHOSEN:
            assert clips["reflected"].isna().all()
        else:
            assert clips["reflected"].tolist() == (clips["position"] == CHOSEN[session]).tolist()
    assert "reflected" not in study.clips  # of ratings that do not say


@pytest.mark.slow
def test_a_reflection_is_learned_from_the_chosen_story_and_the_phase_before_from_all(
    study: SyntheticStudy, tmp_path: Path
) -> None:
    store = FeatureStore(study.root)
    index = store.clips()
    chosen, everything = (open_run(store, name(), settings(reflection_story=each)) for each in ("chosen", "all"))
    reflecting = index[index["phase"] == "reflection"]
    for opened, expected in ((chosen, reflecting[reflecting["reflected"].isin([True])]), (everything, reflecting)):
        taken = pd.concat([dataset.clips for dataset in opened.splits.scored.values()])
        assert sorted(taken["clip_id"]) == sorted(expected["clip_id"])
    assert chosen.splits.dropped == (reflecting["session_id"] == SESSIONS[-1]).sum() > 0
    assert everything.splits.dropped == 0
    assert chosen.fingerprint != everything.fingerprint
    assert chosen.decided["reflection_story"] == "chosen"
    shares = [open_run(store, name("story_share"), settings(reflection_story=each)) for each in ("chosen", "all")]
    assert shares[0].fingerprint == shares[1].fingerprint
    runs = [
        train_run(store, one, settings(reflection_story="chosen"), tmp_path, Nobody())
        for one in (name(), name("story_share"))
    ]
    caveat = "only clips of the story that the session reflected on (reflection_story = chosen)"
    assert [read_run(one.folder).caveats for one in runs] == [(caveat,), ()]
    assert read_run(tmp_path / "reflection/untrained/t/0").caveats == (caveat,)


def test_an_index_that_does_not_say_is_refused(tmp_path: Path) -> None:
    plain = write_features(tmp_path / "features", StudySpec(sessions=3))
    with pytest.raises(CannotTrainError, match=naming("the table ratings a column")):
        open_run(FeatureStore(plain.root), name(), settings(reflection_story="chosen"))


def test_where_nobody_chose_it_is_refused(study: SyntheticStudy) -> None:
    nobody = settings(reflection_story="chosen", where=f'session_id == "{SESSIONS[-1]}"')
    with pytest.raises(CannotTrainError, match=naming("reflected = true", "no rating of these sessions")):
        open_run(FeatureStore(study.root), name(), nobody)


def test_wrong_calls(study: SyntheticStudy, tmp_path: Path) -> None:
    call = ["train", str(study.root), "--model", "amer", "--out", str(tmp_path / "runs"), "--reflection-story"]
    other = CliRunner().invoke(app, [*call, "chosen", "--phase", "story_share"])
    assert (other.exit_code, "is of the phase reflection, and --phase is story_share" in other.stderr) == (2, True)
    word = CliRunner().invoke(app, [*call, "mine", "--phase", "reflection"])
    assert (word.exit_code, "train.reflection_story = 'mine'" in word.stderr) == (2, True)
    with pytest.raises(TrainSettingsError, match='target = "none" has others'):
        load_train_settings(None, preset="regression", label="valence", reflection_story="chosen")


def test_a_studys_ratings_may_say_it_and_nothing_else_there(study_copy: Path, demo_study: Path) -> None:
    table = pd.read_csv(demo_study / "ratings.csv")
    table["reflected"] = (table["position"] == 2).map({True: "true", False: "false"})
    table.to_csv(study_copy / "ratings.csv", index=False)
    study = load_study(study_copy)
    assert [one.reflected for one in study.ratings] == (table["position"] == 2).tolist()
    assert "reflected" not in study.unread.get("ratings", ())
    table.assign(reflected="perhaps").to_csv(study_copy / "ratings.csv", index=False)
    with pytest.raises(StudyError, match="reflected"):
        load_study(study_copy)


def test_a_scheme_of_that_name_would_be_two_columns(study_copy: Path, demo_study: Path) -> None:
    shutil.copy(demo_study / "ratings.csv", study_copy / "ratings.csv")
    session = pd.read_csv(demo_study / "sessions.csv")["session_id"][0]
    (study_copy / "labels.csv").write_text(f"session_id,scheme,value\n{session},reflected,3\n")
    (study_copy / "schemes.csv").write_text("scheme,type\nreflected,interval\n")
    assert label_rule_faults(load_study(study_copy), {}) == []
    table = pd.read_csv(demo_study / "ratings.csv").assign(reflected="true")
    table.to_csv(study_copy / "ratings.csv", index=False)
    (fault,) = label_rule_faults(load_study(study_copy), {})
    assert not missing(fault, "'reflected'", "would be the column")
