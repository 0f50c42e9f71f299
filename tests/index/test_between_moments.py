"""What a curve has between its moments: nearest, held or on the line, for clips, tables, means and remarks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.clip_indexes import (
    FRAME_TIMES,
    SCHEMES,
    extracted,
    index,
    put_curve,
    write_curve,
    write_study,
)
from support.messages import naming
from support.stores import local
from support.synthetic_features import publish

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.label_curves import Between, CurveRule
from storyframes.store import catalogue, record_status
from storyframes.store.records import Caveat
from storyframes.store.tables import tables_of
from tasks.clip_index.label_rules import LabelRule, label_rule_faults
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.study_check import check_study
from tasks.study.curves import CurveSamples, mean_curve, unlabelled_share, values_at
from tasks.study.load import load_study


def by_rule(time: np.ndarray, values: np.ndarray, at: float, rule: CurveRule) -> float:
    """What a curve has at a time, one moment after the other; times are whole microseconds."""
    at, gap_s = round(at, 6), rule.longest_gap_s
    if rule.between is Between.NEAREST:
        distance = np.round(np.abs(time - at), 6)
        return values[np.argmin(distance)] if distance.min() <= gap_s / 2 + 1e-9 else np.nan
    before = [row for row, moment in enumerate(time) if moment <= at + 1e-9]
    if not before:
        return np.nan
    left, right = before[-1], before[-1] + 1
    if rule.between is Between.HOLD:
        return values[left] if at - time[left] <= gap_s + 1e-9 else np.nan
    if abs(time[left] - at) < 1e-9:
        return values[left]
    if right == len(time) or time[right] - time[left] > gap_s + 1e-9:
        return np.nan
    return values[left] + (at - time[left]) / (time[right] - time[left]) * (values[right] - values[left])


@st.composite
def irregular(draw) -> tuple[np.ndarray, np.ndarray]:
    """A joystick's curve: moments on whole centiseconds, which points meet exactly, and some values missing."""
    steps = draw(st.lists(st.sampled_from([0.01, 0.04, 0.06, 0.2, 0.3, 0.31, 0.9]), min_size=1, max_size=30))
    time = np.round(draw(st.sampled_from([-0.5, 0.0, 0.3])) + np.cumsum(steps), 6)
    values = np.random.default_rng(len(steps)).uniform(-1, 1, len(time)).astype(np.float32)
    if draw(st.booleans()):
        values[draw(st.integers(0, len(values) - 1))] = np.nan
    return time, values


RULES = [CurveRule(between, gap_s) for between in Between for gap_s in (0.04, 0.3, 5.0)]


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(curve=irregular(), rule=st.sampled_from(RULES), rate=st.sampled_from([None, 10.0, 25.0]))
def test_clips_and_tables_have_what_the_rule_says_between_moments(timed, curve, rule: CurveRule, rate) -> None:
    _, root = timed
    time, values = curve
    said = {"between": str(rule.between), "longest_gap_s": rule.longest_gap_s}
    for feature, session in (("label.valence", "a"), ("label.valence", "b"), ("label.valence@cam", "a")):
        put_curve(root, session, feature, time, values, **said)
    catalogue.compact(local(root))
    store = FeatureStore(root)
    for session, track in (("a", "main"), ("b", "main"), ("a", "cam")):
        wanted = ClipInput("label.valence", ["values", "raters"], rate=rate, track=track)
        dataset = ClipDataset(store, [wanted], f"session_id == '{session}'")
        name = dataset._inputs[0].field
        for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
            points = (
                FRAME_TIMES[session][clip["start_frame"] : clip["stop_frame"]]
                if rate is None
                else clip["start_s"] + np.arange(len(sample[name])) / rate
            )
            on_device = points if track == "main" else (points - 0.5) * 1.0004
            inside = points < clip["stop_s"] - 1e-7
            expected = np.array([by_rule(time, values, at, rule) for at in on_device], np.float32)
            expected[~inside] = np.nan
            np.testing.assert_allclose(sample[name], expected, atol=2e-6)
            np.testing.assert_array_equal(sample[f"{name}_mask"], ~np.isnan(expected))
            assert not sample[f"{name}_raters"][~inside].any()
            # A count of raters is 0 where the nearest moment, or one of both, is empty.
            assert not (sample[f"{name}_raters"] > 0)[~sample[f"{name}_mask"] & inside].any()
        if rate is not None:
            (table,) = tables_of(store, session, "label.valence" if track == "main" else "label.valence@cam", rate)
            block = table.read(0, table.rows)
            points = np.arange(table.rows) / rate
            on_device = points if track == "main" else (points - 0.5) * 1.0004
            expected = np.array([by_rule(time, values, at, rule) for at in on_device], np.float32)
            np.testing.assert_allclose(block.arrays["values"], expected, atol=2e-6)
            np.testing.assert_array_equal(block.keys["mask"], ~np.isnan(expected))


def test_a_curve_that_its_device_writes_on_change_is_held(tmp_path: Path, store_root: Path) -> None:
    study = write_study(tmp_path / "study", [("a", "valence", "a.csv", "", "")])
    write_curve(study, "a.csv", {0: 0.5, 0.5: -0.25, 2.0: 0.75})
    for session, time in FRAME_TIMES.items():
        publish(store_root, session, "frames", {"time": time})
    for between, expected in (("hold", [0.5, -0.25, -0.25]), ("linear", [0.5, 0.125, 0.0])):
        rules = {"valence": LabelRule(between=Between(between), longest_gap_s=1.6)}
        assert not extracted(study, store_root, **rules)["a/label.valence"].skipped
        assert extracted(study, store_root, **rules)["a/label.valence"].skipped
        index(study, store_root)
        attributes = FeatureStore(store_root).attributes("a", "label.valence")
        assert (attributes["between"], attributes["longest_gap_s"]) == (between, 1.6)
        clip = ClipDataset(store_root, ["label.valence"], "session_id == 'a' and start_frame == 0")[0]
        shown = clip["label.valence"][[0, 19 if between == "hold" else 6, 13]]
        wanted = [0.5, 0.5 - 0.75 * 0.24 / 0.5, -0.25 + 0.02 / 1.5] if between == "linear" else expected
        np.testing.assert_allclose(shown, wanted, atol=1e-6)


def test_how_much_of_a_curve_says_nothing_is_a_caveat_and_a_remark(tmp_path: Path, store_root: Path) -> None:
    study = write_study(tmp_path / "study", [("a", "valence", "a.csv", "", ""), ("b", "valence", "b.csv", "", "")])
    time = np.cumsum(np.random.default_rng(1).exponential(0.4, 400)).round(3)
    write_curve(study, "a.csv", dict(zip(time.tolist(), [0.5] * 400, strict=True)))
    write_curve(study, "b.csv", {row / 2: 0.5 for row in range(200)})

    def of(session: str, **rules: LabelRule) -> tuple[float, bool]:
        extracted(study, store_root, **rules)
        current = record_status.read_status(local(store_root), session, "label.valence").record
        return current.quality["without_value"], Caveat.SPARSE_CURVE in current.caveats

    share, is_said = of("a")
    assert 0.46 < share < 0.54
    assert is_said
    assert of("b") == (0, False)
    assert share == pytest.approx(unlabelled_share(time, np.full(400, 0.5), CurveRule()))
    rules = {"valence": LabelRule(between=Between.HOLD, longest_gap_s=10)}
    assert of("a", **rules) == (0, False)
    expected = (
        f"curves: a.csv: {share:.0%} of the frames from its first moment to its last have no value, because its "
        'moments are apart or empty: [labels.valence] between = "hold" or "linear", with longest_gap_s in seconds, '
        "says what holds between them"
    )
    settings = ExtractorsSettings(features=())
    assert check_study(study, settings)[0].remarks == (expected,)
    assert check_study(study, settings, rules=rules)[0].remarks == ()


def test_the_mean_of_held_curves_is_of_what_each_rater_holds() -> None:
    first = CurveSamples(np.array([0.0, 1.0, 6.0]), np.array([1.0, 3.0, 5.0]))
    second = CurveSamples(np.array([0.5, 2.0]), np.array([10.0, 20.0]))
    mean = mean_curve([first, second], CurveRule(Between.HOLD, 4.0))
    assert mean.time_s.tolist() == [0.0, 0.5, 1.0, 2.0, 6.0]
    assert mean.value.tolist() == [1.0, 5.5, 6.5, 11.5, 12.5]
    assert mean.raters.tolist() == [1, 2, 2, 2, 2]


def test_a_gap_of_two_usual_steps_is_bridged_for_the_mean_and_no_longer_one() -> None:
    curve = CurveSamples(np.array([0.0, 1, 2, 3, 5, 7.1]), np.array([0.0, 1, 2, 3, 5, 7]))
    np.testing.assert_array_equal(values_at(curve, np.array([0.5, 4.0, 6.0])), [0.5, 4.0, np.nan])


@pytest.mark.parametrize(
    ("scheme", "rule", "fault"),
    [
        ("valence", LabelRule(between=Between.HOLD), 'between = "hold" needs longest_gap_s'),
        ("valence", LabelRule(between=Between.LINEAR), 'between = "linear" needs longest_gap_s'),
        ("valence", LabelRule(longest_gap_s=0.0), "longest_gap_s = 0: more than 0 seconds"),
        ("valence", LabelRule(longest_gap_s=float("inf")), "longest_gap_s = inf: more than 0 seconds"),
        ("mood", LabelRule(between=Between.NEAREST), "between is of curves, and this scheme is nominal: leave it out"),
        ("mood", LabelRule(longest_gap_s=1.0), "longest_gap_s is of curves, and this scheme is nominal: leave it out"),
    ],
)
def test_what_no_curve_can_have_between_its_moments_is_a_fault(
    tmp_path: Path, scheme: str, rule: LabelRule, fault: str
) -> None:
    schemes = SCHEMES + "mood,nominal,,,\n"
    study = write_study(tmp_path / "study", [("a", "valence", "a.csv", "", "")], schemes)
    (found,) = label_rule_faults(load_study(study), {scheme: rule})
    assert found.startswith(f"[labels.{scheme}]: {fault}")


def test_a_rule_in_the_store_that_is_none_is_refused(timed) -> None:
    _, root = timed
    for said in ({"between": "cubic", "longest_gap_s": 1}, {"between": "hold"}, {"longest_gap_s": -1}):
        put_curve(root, "a", "label.valence", np.zeros(1), np.zeros(1), **said)
        catalogue.compact(local(root))
        with pytest.raises(ValueError, match=naming("a/label.valence", "between = ", "extract it again")):
            ClipDataset(root, ["label.valence"], "session_id == 'a'")
    put_curve(root, "a", "label.valence", np.zeros(1), np.zeros(1))
    catalogue.compact(local(root))
