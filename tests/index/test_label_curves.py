"""A label's curves from the study's files to the feature store, and from there to the frames of clips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.clip_indexes import (
    FRAME_TIMES,
    SCHEMES,
    WINDOW,
    extracted,
    index,
    put_curve,
    write_curve,
    write_study,
)
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import publish

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.spec import Axis
from storyframes.store import catalogue
from storyframes.store.maintenance.verification import verify
from storyframes.store.records import Status
from tasks.clip_index.label_rules import LabelRule, label_rule_faults
from tasks.planning.selection import SelectionError
from tasks.study.curves import CurveSamples, mean_curve, values_at
from tasks.study.load import load_study

# --- into the store --------------------------------------------------------------------------------------------------


def test_a_curve_is_stored_as_its_file_has_it(tmp_path: Path, store_root: Path) -> None:
    study = write_study(tmp_path / "study", [("a", "valence", "a.csv", "", "")])
    values = {0.1: 0.25, 0.3: None, 0.35: -1.0, 7.0: 0.1}
    write_curve(study, "a.csv", values)
    outcomes = extracted(study, store_root)
    assert {name: (one.status, one.rows, one.skipped) for name, one in outcomes.items()} == {
        "a/label.valence": (Status.DONE, 4, False)
    }
    store = FeatureStore(store_root)
    np.testing.assert_array_equal(store.read("a", "label.valence", array="time"), list(values))
    expected = np.array([0.25, np.nan, -1.0, 0.1], np.float32)
    np.testing.assert_array_equal(store.read("a", "label.valence"), expected)
    assert store.read("a", "label.valence", array="raters").tolist() == [1, 0, 1, 1]
    spec = store.spec("a", "label.valence")
    assert {array.axis for array in spec.arrays.values()} == {Axis.MOMENT}
    assert "valence" in spec.about
    assert store.attributes("a", "label.valence")["minimum"] == -1
    assert not store.has("b", "label.valence")
    assert not list(verify(local(store_root)))


def test_only_a_changed_curve_is_read_again(tmp_path: Path, store_root: Path) -> None:
    study = write_study(tmp_path / "study", [("a", "valence", "a.csv", "", ""), ("b", "valence", "b.csv", "", "")])
    for name in ("a.csv", "b.csv"):
        write_curve(study, name, {0: 0, 1: 1})
    extracted(study, store_root)
    write_curve(study, "b.csv", {0: 0.5, 1: 1, 2: 0})
    outcomes = extracted(study, store_root)
    assert {name: one.skipped for name, one in outcomes.items()} == {"a/label.valence": True, "b/label.valence": False}
    (study / "schemes.csv").write_text(SCHEMES.replace("-1,1", "-2,2"))  # what is refused is another thing now
    assert not any(one.skipped for one in extracted(study, store_root).values())


def test_a_curve_is_read_again_where_its_scheme_calls_a_value_missing(tmp_path: Path, store_root: Path) -> None:
    study = write_study(tmp_path / "study", [("a", "valence", "a.csv", "", "")])
    write_curve(study, "a.csv", {0: 0.5, 1: 1, 2: 0.25})
    extracted(study, store_root)
    (study / "schemes.csv").write_text("scheme,type,min,max,missing\nvalence,curve,-1,1,1\n")
    assert not extracted(study, store_root)["a/label.valence"].skipped
    np.testing.assert_array_equal(FeatureStore(store_root).read("a", "label.valence"), [0.5, np.nan, 0.25])


def test_a_bad_file_costs_its_session_and_names_the_row(tmp_path: Path, store_root: Path) -> None:
    study = write_study(tmp_path / "study", [("a", "valence", "a.csv", "", ""), ("b", "valence", "b.csv", "", "")])
    write_curve(study, "a.csv", {0: 0, 1: 7})
    write_curve(study, "b.csv", {0: 0, 1: 1})
    outcomes = extracted(study, store_root)
    assert outcomes["b/label.valence"].status is Status.DONE
    assert outcomes["a/label.valence"].status is Status.FAILED
    assert missing(outcomes["a/label.valence"].reason, "a.csv", "row 3", "value", "maximum 1", "'valence'") == []
    (study / "a.csv").unlink()
    assert "a.csv" in extracted(study, store_root)["a/label.valence"].reason


def test_a_private_scheme_stays_out_of_the_store(tmp_path: Path, store_root: Path) -> None:
    study = write_study(tmp_path / "study", [("a", "secret", "a.csv", "", "")])
    write_curve(study, "a.csv", {0: 0.123})
    assert extracted(study, store_root) == {}
    with pytest.raises(SelectionError, match=naming("'label.secret'", "private")):
        extracted(study, store_root, "label.secret")
    with pytest.raises(SelectionError, match="no feature 'label.valense'"):
        extracted(study, store_root, "label.valense")
    assert not (store_root / "a").exists()


def test_a_curve_that_the_study_names_no_more_is_said_to_be_missing(tmp_path: Path, store_root: Path) -> None:
    study = write_study(tmp_path / "study", [("a", "valence", "a.csv", "", "")])
    write_curve(study, "a.csv", {0: 0, 1: 1})
    extracted(study, store_root)
    write_study(study, [])
    (one,) = extracted(study, store_root).values()
    assert one.status is Status.MISSING
    assert "no curve 'valence'" in one.reason


def test_a_tracks_curve_lies_with_its_track_and_keeps_its_seconds(tmp_path: Path, store_root: Path) -> None:
    curves = [("a", "valence", "main.csv", "", "main"), ("a", "valence", "cam.csv", "", "cam")]
    study = write_study(tmp_path / "study", curves, tracks="a,cam,a.wav\n")
    write_curve(study, "main.csv", {0: 0})
    write_curve(study, "cam.csv", {5: 0.5})
    assert set(extracted(study, store_root)) == {"a/label.valence", "a/label.valence@cam"}
    assert FeatureStore(store_root).read("a", "label.valence@cam", array="time").tolist() == [5]


# --- several raters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raters", "expected"),
    [
        ("mean", {"label.valence": [0.0, 0.25, 0.5]}),
        ("r2", {"label.valence": [1.0, 0.5]}),
        ("all", {"label.valence_r1": [-1.0, 0.0, 0.5], "label.valence_r2": [1.0, 0.5]}),
    ],
)
def test_raters_become_what_the_rule_says(tmp_path: Path, store_root: Path, raters: str, expected: dict) -> None:
    curves = [("a", "valence", "1.csv", "r1", ""), ("a", "valence", "2.csv", "r2", "")]
    study = write_study(tmp_path / "study", curves)
    write_curve(study, "1.csv", {0: -1.0, 1: 0.0, 2: 0.5})
    write_curve(study, "2.csv", {0: 1.0, 1: 0.5})
    rules = {"valence": LabelRule(raters=raters)}
    assert label_rule_faults(load_study(study), rules) == []
    extracted(study, store_root, **rules)
    store = FeatureStore(store_root)
    assert {name: store.read("a", name).tolist() for name in store.features("a")} == expected


def test_rules_that_no_curve_can_follow_are_faults(tmp_path: Path) -> None:
    long = "v" * 60
    curves = [("a", "valence", "1.csv", "r1", ""), ("a", "valence_r1", "2.csv", "", ""), ("a", long, "2.csv", "", "")]
    schemes = SCHEMES + f"valence_r1,curve,,,\n{long},curve,,,\n"
    loaded = load_study(write_study(tmp_path / "study", curves, schemes))
    rules = {"valence": LabelRule(raters="all", person="child"), "valence_r1": LabelRule(raters="nobody")}
    person, raters, *_ = label_rule_faults(loaded, rules)
    assert missing(person, "[labels.valence]: person", "curve") == []
    assert missing(raters, "[labels.valence_r1]: raters = 'nobody'", "mean, all") == []
    alike = "\n".join(label_rule_faults(loaded, {"valence": LabelRule(raters="all")}))
    assert missing(alike, "'label.valence_r1'", "'valence'", "alike") == []
    assert "more than 58 characters" in "\n".join(label_rule_faults(loaded, {}))


MOMENTS = st.lists(st.integers(0, 400), min_size=1, max_size=25, unique=True).map(sorted)
VALUES = st.one_of(st.floats(-1, 1, width=32), st.just(float("nan")))


@st.composite
def curves(draw) -> CurveSamples:
    time = draw(MOMENTS)
    values = draw(st.lists(VALUES, min_size=len(time), max_size=len(time)))
    return CurveSamples(np.array(time) / 20, np.array(values, np.float64))


def value_by_hand(curve: CurveSamples, at: float) -> float:
    steps = sorted(b - a for a, b in zip(curve.time_s, curve.time_s[1:], strict=False))
    usual = 0.0 if not steps else (steps[(len(steps) - 1) // 2] + steps[len(steps) // 2]) / 2
    for time, value in zip(curve.time_s, curve.value, strict=True):
        if abs(time - at) < 1e-7:
            return value
    before = [place for place, time in enumerate(curve.time_s) if time < at]
    if not before or before[-1] + 1 == len(curve.time_s):
        return float("nan")
    (t, v), (u, w) = ((curve.time_s[place], curve.value[place]) for place in (before[-1], before[-1] + 1))
    return v + (at - t) / (u - t) * (w - v) if u - t <= 2 * usual + 1e-7 else float("nan")


@given(curve=curves(), at=MOMENTS)
def test_between_its_moments_a_curve_is_a_line_and_in_gaps_nothing(curve: CurveSamples, at: list[int]) -> None:
    moments = np.array(at) / 20
    by_hand = [value_by_hand(curve, moment) for moment in moments]
    np.testing.assert_allclose(values_at(curve, moments), by_hand, atol=1e-6)


@given(raters=st.lists(curves(), min_size=1, max_size=4))
def test_the_mean_is_of_the_raters_who_have_a_value(raters: list[CurveSamples]) -> None:
    mean = mean_curve(raters)
    np.testing.assert_array_equal(mean.time_s, sorted({time for curve in raters for time in curve.time_s.tolist()}))
    for moment, value, count in zip(*mean, strict=True):
        said = [one for curve in raters if not np.isnan(one := value_by_hand(curve, moment))]
        assert count == len(said)
        np.testing.assert_allclose(value, np.mean(said) if said else np.nan, atol=1e-6)
    if len(raters) == 1:
        np.testing.assert_array_equal(mean.value, raters[0].value)


# --- at the frames of clips ------------------------------------------------------------------------------------------


def nearest_by_hand(time: np.ndarray, values: np.ndarray, points: np.ndarray, step: float) -> np.ndarray:
    """Of each point the value nearest to it; NaN where it is further off than half a step of the coarser of both."""
    steps = np.diff(time)
    tolerance = max(step, float(np.median(steps)) if len(steps) else 0.0) / 2 + 0.001
    found = []
    for point in points:
        distance = np.round(np.abs(time - point), 6)
        found.append(values[np.argmin(distance)] if distance.min() <= tolerance + 2e-7 else np.nan)
    return np.array(found, np.float32)


@st.composite
def sampled(draw) -> tuple[np.ndarray, np.ndarray]:
    """A curve of any rate, with a gap, whose ends need not be the session's."""
    step = draw(st.sampled_from([0.011, 0.04, 0.0417, 0.13, 0.5]))
    count = draw(st.integers(1, 90))
    begin, gap, before = draw(st.floats(-1, 2)), draw(st.floats(0, 1.5)), draw(st.integers(0, 90))
    time = begin + step * np.arange(count) + gap * (np.arange(count) >= before) + 0.0003
    values = np.random.default_rng(count).uniform(-1, 1, count).astype(np.float32)
    values[draw(st.integers(0, count - 1))] = np.nan
    return np.round(time, 4), values


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(curve=sampled(), rate=st.sampled_from([None, 10.0, 25.0, 40.0]))
def test_every_frame_and_every_point_has_the_value_nearest_to_it(timed, curve, rate: float | None) -> None:
    _, root = timed
    time, values = curve
    for feature, session in (("label.valence", "a"), ("label.valence", "b"), ("label.valence@cam", "a")):
        put_curve(root, session, feature, time, values)
    catalogue.compact(local(root))
    for session, track in (("a", "main"), ("b", "main"), ("a", "cam")):
        wanted = ClipInput("label.valence", ["values", "raters"], rate=rate, track=track)
        dataset = ClipDataset(root, [wanted], f"session_id == '{session}'")
        name = dataset._inputs[0].field
        step = float(np.median(np.diff(FRAME_TIMES[session]))) if rate is None else 1 / rate
        for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
            if rate is None:
                points = FRAME_TIMES[session][clip["start_frame"] : clip["stop_frame"]]
            else:
                points = clip["start_s"] + np.arange(len(sample[name])) / rate
            inside = points < clip["stop_s"] - 1e-7
            on_device = np.round(points if track == "main" else (points - 0.5) * 1.0004, 6)
            expected = np.where(inside, nearest_by_hand(time, values, on_device, step), np.nan)
            np.testing.assert_array_equal(sample[name], expected.astype(np.float32))
            np.testing.assert_array_equal(sample[f"{name}_mask"], ~np.isnan(expected))
            np.testing.assert_array_equal(sample[f"{name}_raters"], ~np.isnan(expected))


# --- what is refused, and clips without a curve ---------------------------------------------------------------------


def test_what_a_curve_cannot_give_is_said(timed) -> None:
    _, root = timed
    for wanted, message in (
        (ClipInput("label.valence", axis="moment"), "axis of 'label.valence' cannot be 'moment', only 'frame'"),
        (ClipInput("label.valence", speakers=["robot"]), "speakers of 'label.valence' cannot be chosen"),
        (ClipInput("label", ["valence"]), r"no scheme 'valence': it is a curve, ClipInput\('label.valence'\)"),
        (ClipInput("label.arousal"), "there is no input 'label.arousal'"),
    ):
        with pytest.raises(ValueError, match=message):
            ClipDataset(root, [wanted], "session_id == 'a'")


def test_clips_are_chosen_by_whether_there_is_a_curve(tmp_path: Path, store_root: Path) -> None:
    study = write_study(tmp_path / "study", [("a", "valence", "a.csv", "", "")])
    write_curve(study, "a.csv", dict.fromkeys(range(9), 0.5))
    for session, time in FRAME_TIMES.items():
        publish(store_root, session, "frames", {"time": time})
    extracted(study, store_root)
    index(study, store_root)
    with pytest.raises(ValueError, match=naming("'label.valence'", "'has_label_valence and has_frames'")):
        ClipDataset(store_root, ["label.valence"])
    dataset = ClipDataset(store_root, ["label.valence"], "has_label_valence")
    assert set(dataset.clips["session_id"]) == {"a"}
    assert all(sample["label.valence"].tolist() == [0.5] * WINDOW for sample in dataset)
    assert all(sample["label.valence_mask"].all() for sample in dataset)
