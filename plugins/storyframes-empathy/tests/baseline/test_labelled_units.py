"""What a label is of, and each feature's mean over it; the command from a store to a sentence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import StudySpec, SyntheticStudy, write_features
from typer.testing import CliRunner

from storyframes import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from storyframes_empathy.baseline.labelled_units import BaselineError, feature_means, labelled_units
from storyframes_empathy.baseline.score import score_baseline
from storyframes_empathy.commands.baseline import app

LACKING, MASKED = "s01", "s02"
PEOPLE, SESSIONS, WINDOWS = 4, 2, 3


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(
        tmp_path_factory.mktemp("b") / "features", StudySpec(sessions=6, lacking={LACKING: ["glove"]})
    )


def index_of(scheme: str, values: Sequence[object]) -> pd.DataFrame:
    """Clips of four people with two sessions of three windows each; ``values`` is repeated for the windows."""
    count = PEOPLE * SESSIONS * WINDOWS
    session = np.arange(count) // WINDOWS
    index = pd.DataFrame(
        {
            "clip_id": [f"c{number}" for number in range(count)],
            "session_id": [f"s{number}" for number in session],
            "participant_id": [f"p{number // SESSIONS}" for number in session],
            "story_id": None,
            "start_frame": np.arange(count) % WINDOWS * 10,
            "mood": np.resize(np.array(values, object), count) if len(values) < count else values,
        }
    )
    index.attrs["schemes"] = {"mood": scheme}
    return index.infer_objects()


def of_session(values: Sequence[object]) -> list[object]:
    return [value for value in values for _ in range(WINDOWS)]


def test_the_unit_is_the_largest_that_has_one_value() -> None:
    session = labelled_units(index_of("interval", of_session([1.0, 2, 3, 4, 5, 6, 7, 8])))
    assert (session.unit, session.labels.tolist()) == ("session", [1, 2, 3, 4, 5, 6, 7, 8])
    assert session.people.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    person = labelled_units(index_of("interval", of_session([1.0, 1, 2, 2, 3, 3, 4, 4])))
    assert (person.unit, person.labels.tolist(), person.people.tolist()) == ("person", [1, 2, 3, 4], [0, 1, 2, 3])
    varied = labelled_units(index_of("interval", [1.0, 2.0, 6.0]))
    assert (varied.unit, varied.labels.tolist()) == ("session", [3.0] * 8)
    assert not missing(varied.remark, "mood varies inside sessions")


def test_a_window_that_two_stories_rate_counts_once_in_a_mean() -> None:
    index = index_of("interval", [1.0, 2.0, 6.0])
    twice = pd.concat([index, index[index["start_frame"] == 0].assign(clip_id="again")], ignore_index=True)
    twice.attrs = index.attrs
    assert labelled_units(twice).labels.tolist() == [3.0] * 8


def test_labels_of_several_targets_of_a_window_all_count() -> None:
    index = index_of("interval", [1.0, 2.0, 6.0])
    other = index.assign(clip_id=index["clip_id"] + ":@other", mood=index["mood"] + 4)
    both = pd.concat([index, other[other["start_frame"] == 0]], ignore_index=True)
    both.attrs = index.attrs
    assert labelled_units(both).labels.tolist() == [pytest.approx((3 + 2 + 6) / 3)] * 8


def test_classes_are_of_sessions_or_refused() -> None:
    units = labelled_units(index_of("nominal", of_session(["sad", "glad"])))
    assert (units.classes, units.labels.tolist()) == (("glad", "sad"), [1, 0] * 4)
    with pytest.raises(BaselineError, match=naming("'mood'", "changes inside a session")):
        labelled_units(index_of("nominal", ["sad", "glad", "glad"]))


def test_steps_that_have_an_order_are_numbers() -> None:
    index = index_of("ordinal", of_session(["low", "high", "low", "high", "high", "low", "low", "high"]))
    index["mood"] = index["mood"].astype(pd.CategoricalDtype(["low", "high"], ordered=True))
    units = labelled_units(index)
    assert (units.classes, units.labels.tolist()) == ((), [0, 1, 0, 1, 1, 0, 0, 1])


def test_people_who_met_are_one() -> None:
    index = index_of("interval", of_session([1.0, 2, 3, 4, 5, 6, 7, 8]))
    index["split_group"] = ["p0" if name == "p3" else name for name in index["participant_id"]]
    assert labelled_units(index).people.tolist() == [0, 0, 1, 1, 2, 2, 0, 0]


def test_sessions_without_a_label_are_left_out_and_none_is_refused() -> None:
    index = index_of("interval", of_session([1.0, np.nan, 3, 4, np.nan, 6, 7, 8]))
    units = labelled_units(index)
    assert units.labels.tolist() == [1, 3, 4, 6, 7, 8]
    assert units.people.tolist() == [0, 1, 1, 2, 3, 3]
    with pytest.raises(BaselineError, match=naming("'warmth'", "--label", "mood")):
        labelled_units(index, "warmth")
    with pytest.raises(BaselineError, match="storyframes import labels"):
        labelled_units(index.assign(mood=np.nan))
    with pytest.raises(BaselineError, match=naming("--where", "start_frame > 99")):
        labelled_units(index, "mood", "start_frame > 99")


def test_means_are_of_the_measured_rows_of_the_windows_each_once(study: SyntheticStudy) -> None:
    units = labelled_units(study.clips)
    assert (units.unit, len(units.labels), len(set(units.people))) == ("story", 18, 6)
    means = feature_means(FeatureStore(study.root), units, ["openface", "glove"])
    assert means["openface"].shape == (18, 709)
    for place in (0, 7):
        clips = units.clips[place]
        session = clips["session_id"].iloc[0]
        rows = sorted({row for clip in clips.itertuples() for row in range(clip.start_frame, clip.stop_frame)})
        kept = [row for row in rows if study.arrays[session, "openface", "valid"][row]]
        values = study.arrays[session, "openface", "values"][kept, 5:].astype(np.float64)
        np.testing.assert_allclose(means["openface"][place], values.mean(axis=0), rtol=1e-9, atol=1e-9)
    lacking = [clips["session_id"].iloc[0] == LACKING for clips in units.clips]
    assert np.isnan(means["glove"]).all(axis=1).tolist() == lacking
    with pytest.raises(BaselineError, match=naming("'gaze'", "openface", "resnet50")):
        feature_means(FeatureStore(study.root), units, ["gaze"])


def test_sessions_with_other_columns_have_no_mean_and_one_number_a_row_has(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=2))
    for number, session in enumerate(("s00", "s01")):
        columns = ("light", "dark") if number else ("dark", "light")
        two = ArraySpec(Axis.FRAME, "float32", "two", (2,), ("column",), columns=columns)
        one = ArraySpec(Axis.FRAME, "float32", "one")
        for name, spec in (("swapped", two), ("single", one)):
            rows = np.full((60, *spec.shape), number + 1, np.float32)
            with FeatureWriter(local(study.root), session, FeatureSpec(name, "made up", {"values": spec})) as out:
                out.write("values", rows)
                out.publish("f", {})
    catalogue.compact(local(study.root))
    units = labelled_units(study.clips)
    means = feature_means(FeatureStore(study.root), units, ["swapped", "single"])
    assert means["single"].tolist() == [[1 + (clips["session_id"].iloc[0] == "s01")] for clips in units.clips]
    assert means["swapped"] == "sessions have other columns of it: extract it again with one configuration"


def test_a_feature_that_clips_cannot_have_is_left_out_and_the_rest_is_scored(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=3))
    names = ("time", "start", "end")
    arrays = {name: ArraySpec(Axis.WINDOW, "float64", "when", units="s") for name in names}
    spec = FeatureSpec("long", "made up", {"values": ArraySpec(Axis.WINDOW, "float32", "one"), **arrays})
    for session in ("s00", "s01", "s02"):
        with FeatureWriter(local(study.root), session, spec) as out:
            for name, second in zip(("values", *names), (1, 50, 0, 100), strict=True):  # no clip is as long
                out.write(name, np.full(1, second, spec.arrays[name].dtype))
            out.publish("f", {})
    catalogue.compact(local(study.root))
    units = labelled_units(study.clips)
    means = feature_means(FeatureStore(study.root), units, ["long", "openface"])
    assert isinstance(means["openface"], np.ndarray)
    assert "'long'" in str(means["long"])
    done = score_baseline(units, means, draws=5)
    assert {one.feature: one.reason for one in done.scores} == {"openface": "", "long": means["long"]}


@pytest.mark.slow
def test_the_command_says_what_can_be_said_and_names_nobody(study: SyntheticStudy) -> None:
    asked = [str(study.root), "--features", "opensmile,glove"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert not missing(
        shown.stdout, "18 stories of 6 people", f"storyframes empathy train {study.root} --label empathy"
    )
    done = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert done["sentence"] in shown.stdout
    by_feature = {one["feature"]: one for one in done["features"]}
    assert (by_feature["glove"]["n"], by_feature["glove"]["people"]) == (15, 5)
    assert 0 < by_feature["opensmile"]["p"] <= 1
    people = set(study.clips["participant_id"]) | set(study.clips["session_id"])
    assert not [name for name in people if name in shown.output]
    refused = CliRunner().invoke(app, [str(study.root), "--label", "warmth"])
    assert refused.exit_code == 2
    assert not missing(refused.stderr, "'warmth'", "empathy")
