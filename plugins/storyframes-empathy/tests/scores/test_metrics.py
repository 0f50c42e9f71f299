"""Metrics against numbers computed from their definitions, and what must not change them."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import pearsonr, spearmanr

from storyframes_empathy.scores.implied_prevalence import implied_prevalence, possible_phi, possible_prevalence
from storyframes_empathy.scores.metrics import f1_of, pearson, phi_of, score, spearman

DATA = Path(__file__).parents[1] / "data"
ORACLE = json.loads((DATA / "metrics.json").read_text())
PUBLISHED = json.loads((DATA / "published_tables.json").read_text())
IMPLIED = json.loads((DATA / "implied_prevalence.json").read_text())

RATINGS = st.integers(2, 60).flatmap(lambda n: arrays(np.int64, n, elements=st.integers(1, 5)))


def of_oracle(case: dict) -> dict[str, float]:
    if "binary" in case:
        found = score(case["p"], case["binary"], threshold=0.5, minimum=0, maximum=1)
    else:
        found = score(case["p"], case["ratings"])
    return dataclasses.asdict(found)


@pytest.mark.parametrize("name", ["ties", "constant", "one_class", "majority"])
def test_the_metrics_are_those_of_the_definitions(name: str) -> None:
    case = ORACLE[name]
    found = of_oracle(case)
    for key, value in case["expect"].items():
        if value is None:
            assert math.isnan(found[key]), key
        else:
            assert found[key] == pytest.approx(value, abs=1e-9), key


def test_the_metrics_of_clips_are_those_of_the_definitions() -> None:
    case = ORACLE["story_level"]
    found = of_oracle(case)
    assert {key: found[key] for key in case["clip"]} == pytest.approx(case["clip"], abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(RATINGS, st.integers(0, 2**32 - 1), st.floats(0.01, 1e6), st.floats(-1e6, 1e6))
def test_what_may_not_change_a_correlation(ratings: np.ndarray, seed: int, slope: float, shift: float) -> None:
    scores = np.random.default_rng(seed).integers(0, 12, len(ratings)) / 8
    r, rho = pearson(scores, ratings), spearman(scores, ratings)
    assert pearson(ratings, scores) == pytest.approx(r, abs=1e-12, nan_ok=True)
    if len(np.unique(slope * scores + shift)) == len(np.unique(scores)):  # rounding made nobody equal
        assert pearson(slope * scores + shift, ratings) == pytest.approx(r, abs=1e-6, nan_ok=True)
        assert spearman(slope * scores + shift, ratings) == pytest.approx(rho, abs=1e-12, nan_ok=True)
    assert spearman(np.exp(3 * scores), ratings) == pytest.approx(rho, abs=1e-12, nan_ok=True)
    assert pearson(-scores, ratings) == pytest.approx(-r, abs=1e-12, nan_ok=True)


@settings(max_examples=60, deadline=None)
@given(RATINGS, st.integers(0, 2**32 - 1))
def test_the_order_of_clips_changes_nothing(ratings: np.ndarray, seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores, order = generator.uniform(-1, 1, len(ratings)), generator.permutation(len(ratings))
    once, again = score(scores, ratings), score(scores[order], ratings[order])
    assert dataclasses.astuple(again) == pytest.approx(dataclasses.astuple(once), abs=1e-12, nan_ok=True)


@settings(max_examples=60, deadline=None)
@given(RATINGS, st.integers(0, 2**32 - 1))
def test_the_metrics_are_those_of_scipy_and_scikit_learn(ratings: np.ndarray, seed: int) -> None:
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    scores = np.random.default_rng(seed).integers(0, 9, len(ratings)) / 8
    found, b, c = score(scores, ratings), scores > 0.5, ratings > 3
    assert found.acc == pytest.approx(accuracy_score(c, b))
    assert found.f1 == pytest.approx(f1_score(c, b, zero_division=0))
    if len(np.unique(scores)) > 1 and len(np.unique(ratings)) > 1:
        assert found.r == pytest.approx(pearsonr(scores, ratings).statistic)
        assert found.rho == pytest.approx(spearmanr(scores, ratings).statistic)
    else:
        assert math.isnan(found.r)
        assert math.isnan(found.rho)
    if len(np.unique(b)) == len(np.unique(c)) == 2:
        assert found.phi == pytest.approx(matthews_corrcoef(c, b))
    else:
        assert math.isnan(found.phi)


@given(RATINGS, st.integers(0, 2**32 - 1))
def test_a_row_that_counts_n_times_is_n_rows(ratings: np.ndarray, seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores, copies = generator.uniform(size=len(ratings)), generator.integers(1, 4, len(ratings))
    each = score(np.repeat(scores, copies), np.repeat(ratings, copies))
    weighted = score(scores, ratings, copies=copies)
    assert dataclasses.astuple(weighted) == pytest.approx(dataclasses.astuple(each), nan_ok=True)


def test_thresholds_are_strict() -> None:
    found = score(np.array([0.5, 0.5000001]), np.array([3, 3]))
    assert (found.tp, found.fp, found.fn, found.tn) == (0, 1, 0, 1)
    found = score(np.array([0.5, 0.5]), np.array([3.0, 3.0001]))
    assert (found.tp, found.fp, found.fn, found.tn) == (0, 0, 1, 1)


def test_a_missing_answer_is_left_out_and_counted() -> None:
    found = score(np.array([0.9, np.nan, 0.1, np.nan]), np.array([5, 5, 1, 1]))
    assert (found.n, found.missing, found.acc, found.acc_missing_wrong) == (2, 2, 1.0, 0.5)
    found = score(np.full(3, np.nan), np.array([1, 2, 3]))
    assert (found.n, found.missing, found.f1, found.acc_missing_wrong) == (0, 3, 0.0, 0.0)
    assert all(math.isnan(value) for value in (found.r, found.rho, found.acc, found.mse, found.phi, found.prevalence))


def test_one_prediction_has_no_correlation() -> None:
    found = score(np.array([0.2]), np.array([4]))
    assert all(math.isnan(value) for value in (found.r, found.rho, found.phi))
    assert found.mse == pytest.approx(0.55**2)


def test_a_constant_is_told_from_its_extremes() -> None:
    constant = np.full(12, 0.6)
    assert ((constant - constant.mean()) ** 2).sum() > 0  # what rounding leaves behind
    assert math.isnan(pearson(constant, np.arange(12.0)))


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e150, 1e300])
def test_no_size_of_numbers_overflows_or_vanishes(size: float) -> None:
    values = np.array([1.0, 2.0, 4.0, 3.0])
    assert pearson(values * size, np.arange(4.0)) == pytest.approx(pearsonr(values, np.arange(4)).statistic)


@pytest.mark.parametrize(
    ("scores", "ratings", "said"),
    [
        ([0.1, np.inf], [1, 2], r"scores\[1\] is infinite"),
        ([0.1, 0.2], [1, 6], "every rating must be from 1 to 5"),
        ([0.1, 0.2], [1, np.nan], "every rating must be from 1 to 5"),
        ([0.1], [1, 2], "must be as many"),
    ],
)
def test_what_is_no_number_is_refused(scores: list, ratings: list, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        score(np.array(scores), np.array(ratings))


# --- what a printed row gives away ---


def row(table: str, model: str, modalities: str) -> tuple[float, float, float]:
    (found,) = [one for one in PUBLISHED[table] if (one["model"], one["modalities"]) == (model, modalities)]
    return found["r"][0] / 100, found["acc"][0] / 100, found["f1"][0] / 100


@pytest.mark.parametrize("table", ["T2", "T3"])
def test_the_implied_prevalence_of_the_published_rows(table: str) -> None:
    for expected in IMPLIED[table]:
        found = implied_prevalence(*row(table, expected["model"], expected["modalities"]))
        assert len(found) == len(expected["implied_prevalence"]), expected
        assert found == pytest.approx(expected["implied_prevalence"], abs=1e-3)  # three digits, the last one near


def test_the_rows_of_table_2_are_of_one_prevalence() -> None:
    smaller = {
        (one["model"], one["modalities"]): implied_prevalence(*row("T2", one["model"], one["modalities"]))[1]
        for one in PUBLISHED["T2"]
        if one["model"] in ("AMER", "TFN", "EF-LSTM", "LF-LSTM")
    }
    others = [value for (model, _), value in smaller.items() if model != "TFN"]
    assert len(others) == 15
    assert all(0.2795 <= value <= 0.2865 for value in others)
    assert all(0.2665 <= value <= 0.2695 for (model, _), value in smaller.items() if model == "TFN")


def test_the_56_of_table_3_is_no_phi_and_5_6_is_one_like_its_neighbours() -> None:
    phi, acc, f1 = row("T3", "LF-LSTM", "v+t")
    assert phi == 0.56
    assert implied_prevalence(phi, acc, f1) == ()
    assert possible_phi(acc, f1)[1] == pytest.approx(0.318, abs=5e-4)
    assert implied_prevalence(phi / 10, acc, f1)[1] == pytest.approx(0.223, abs=5e-4)
    rest = [(one["model"], one["modalities"]) for one in PUBLISHED["T3"] if one["model"] in ("EF-LSTM", "LF-LSTM")]
    values = [implied_prevalence(*row("T3", *one))[1] for one in rest if one != ("LF-LSTM", "v+t")]
    assert sum(0.2215 <= value <= 0.2265 for value in values) == 8
    assert min(values) == pytest.approx(0.183, abs=5e-4)


@settings(max_examples=100, deadline=None)
@given(*[st.integers(1, 60)] * 4)
def test_a_table_of_four_is_found_again(tp: int, fp: int, fn: int, tn: int) -> None:
    n, phi = tp + fp + fn + tn, phi_of(tp, fp, fn, tn)
    acc, f1 = (tp + tn) / n, f1_of(tp, fp, fn)
    least, most = possible_phi(acc, f1)
    assert least - 1e-12 <= phi <= most + 1e-12
    low, high = possible_prevalence(acc, f1)
    assert low - 1e-12 <= (tp + fn) / n <= high + 1e-12
    if abs(fp - fn) > 1:  # where both are equal a rounding decides whether there is a solution
        found = implied_prevalence(phi, acc, f1)
        assert min(abs(one - (tp + fn) / n) for one in found) < 1e-6
        assert sorted(found) == pytest.approx(sorted([(tp + fn) / n, (tp + fp) / n]), abs=1e-6)


def test_no_solution_is_made_up() -> None:
    assert implied_prevalence(0.9, 0.5, 0.5) == ()
    assert implied_prevalence(-0.9, 0.9, 0.9) == ()
    assert implied_prevalence(0.5, 0.2, 0.9) == ()
    assert implied_prevalence(1.0, 1.0, 1.0) == ()


# --- what docs/benchmark.md says of the published tables ---

ROWS = {(table, one["model"], one["modalities"]): one for table, rows in PUBLISHED.items() for one in rows}
TRAINED = {key: one for key, one in ROWS.items() if key[1] in ("AMER", "TFN", "EF-LSTM", "LF-LSTM")}
TEXT = {key: one for key, one in ROWS.items() if key not in TRAINED}


def prevalence(key: tuple[str, str, str]) -> float:
    """The smaller of the two that a row implies; NaN where it implies none."""
    return min(implied_prevalence(*row(*key)), default=math.nan)


def test_r_is_rho_in_table_2_and_nearly_in_table_3() -> None:
    assert all(one["r"] == one["rho"] for (table, *_), one in TRAINED.items() if table == "T2")
    third = [one for (table, *_), one in TRAINED.items() if table == "T3"]
    different = [one for one in third if one["r"][0] != one["rho"][0]]
    assert len(different) == 11
    assert max(abs(one["r"][0] - one["rho"][0]) for one in different) == pytest.approx(0.2)
    assert max(abs(one["r"][1] - one["rho"][1]) for one in third) == pytest.approx(0.9)


def test_the_r_of_three_text_rows_is_no_phi() -> None:
    outside = {}
    for key in TEXT:
        phi, acc, f1 = row(*key)
        low, high = possible_phi(acc, f1)
        if not low <= phi <= high:
            outside[key] = (round(phi, 3), round(low, 3), round(high, 3))
    assert outside == {
        ("T2", "EmpathicStoriesBART", "t"): (0.024, 0.242, 0.415),
        ("T2", "GPT-4", "t"): (0.232, 0.4, 0.523),
        ("T3", "EmpathicStoriesBART", "t"): (0.327, 0.468, 0.58),
    }


def test_mse_is_not_the_share_of_errors() -> None:
    assert all(one["mse"][0] <= 27.8 < 31.1 <= 100 - one["acc"][0] for one in TRAINED.values())
    acc, mse = ROWS["T2", "EmpathicStoriesBART", "t"]["acc"][0] / 100, 0.519
    assert 0.25 * acc + (1 - acc) == pytest.approx(0.395, abs=5e-4)  # the most that scores from 0 to 1 can reach
    assert mse > 0.395


def test_one_test_set_has_several_prevalences() -> None:
    implied = {key: prevalence(key) for key in TRAINED}
    amer = [implied["T3", "AMER", one] for one in ("t", "v+a", "v+t", "v+a+t")]
    assert (round(min(amer), 2), round(max(amer), 2)) == (0.36, 0.44)
    tfn = [value for (table, model, _), value in implied.items() if (table, model) == ("T3", "TFN")]
    assert (round(min(tfn), 3), round(max(tfn), 3)) == (0.185, 0.255)
    most = {key: round(possible_prevalence(*row(*key)[1:])[1], 3) for key in TEXT if key[0] == "T2"}
    assert list(most.values()) == [0.246, 0.265]
    least = {key: round(possible_prevalence(*row(*key)[1:])[0], 3) for key in TEXT if key[0] == "T3"}
    assert list(least.values()) == [0.421, 0.395]


def test_amer_of_sound_and_text_has_no_solution_as_printed() -> None:
    phi, acc, f1 = row("T3", "AMER", "a+t")
    assert possible_phi(acc, f1)[0] > phi
    assert possible_phi(acc, f1)[0] == pytest.approx(phi, abs=5e-4)  # rounding alone may explain it


def test_constants_do_better_than_trained_rows() -> None:
    second = [key for key in TRAINED if key[0] == "T2"]
    assert max(TRAINED[key]["acc"][0] for key in second) == 55.1
    assert all(1 - prevalence(key) > 0.71 for key in second)
    assert min(TRAINED[key]["mse"][0] for key in second) == 24.2
    assert all(prevalence(key) * (1 - prevalence(key)) < 0.205 for key in second)


def test_where_there_is_no_spread() -> None:
    gpt = ROWS["T2", "GPT-4", "t"]
    assert (gpt["acc"][1], gpt["f1"][1], gpt["r"][1]) == (0.0, 0.7, 1.6)
    assert {ROWS["T3", "GPT-4", "t"][metric][1] for metric in ("r", "rho", "acc", "f1", "mse")} == {0.0}
