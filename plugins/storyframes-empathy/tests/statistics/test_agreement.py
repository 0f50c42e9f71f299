"""Agreement of raters: the published examples, the definitions, and tables as labs hand them in."""

from __future__ import annotations

import json
import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from support.messages import missing, naming

from storyframes_empathy.statistics.agreement import (
    Categories,
    agreement,
    kappa,
    kappa_quadratic,
    pearson,
    spearman,
)
from storyframes_empathy.statistics.intraclass import intraclass
from storyframes_empathy.statistics.krippendorff import alpha_interval, alpha_nominal, alpha_ordinal
from storyframes_empathy.statistics.rating_table import TableFaultError
from storyframes_empathy.statistics.ratings import Level, Ratings, read_ratings

ORACLE = json.loads((Path(__file__).parents[1] / "data/agreement.json").read_text())
ALPHAS = {"nominal": alpha_nominal, "ordinal": alpha_ordinal, "interval": alpha_interval}
FEW = settings(deadline=None, max_examples=60)
STEPS = st.sampled_from([1.0, 1.5, 2.0, 3.0, 5.0])


def matrix(rows: list[list[float | None]]) -> np.ndarray:
    """Units x raters of a list of raters."""
    return np.array([[math.nan if value is None else value for value in row] for row in rows]).T


def of(values: np.ndarray, level: Level = Level.NUMBERS) -> Ratings:
    return Ratings(tuple(f"r{at}" for at in range(values.shape[1])), values, level)


def tables() -> st.SearchStrategy:
    """Units x raters with cells that are missing."""
    cells = st.one_of(STEPS, st.just(math.nan))
    return st.tuples(st.integers(1, 8), st.integers(2, 5)).flatmap(
        lambda shape: arrays(np.float64, shape, elements=cells)
    )


# --- the statistics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ALPHAS)
def test_alpha_of_krippendorffs_own_example(metric: str) -> None:
    case = ORACLE["krippendorff_2011"]
    assert ALPHAS[metric](matrix(case["ratings"])) == pytest.approx(case["alpha"][metric], abs=1e-9)


# Shrout and Fleiss (1979), table 2: six targets, four judges; table 4 has the coefficients, with two digits
JUDGED = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], float)


def test_the_intraclass_correlation_of_shrout_and_fleiss() -> None:
    crossed = intraclass(JUDGED)
    assert crossed is not None
    assert (crossed.form, crossed.k) == (2, 4)
    assert (crossed.single, crossed.mean) == (pytest.approx(0.29, abs=0.005), pytest.approx(0.62, abs=0.005))
    apart = np.full((6, 5), np.nan)  # the same ratings, and no two units have the same four raters: one-way
    for unit, row in enumerate(JUDGED):
        apart[unit, np.arange(5) != unit % 5] = row
    nested = intraclass(apart)
    assert nested is not None
    assert (nested.form, nested.k) == (1, 4)
    assert (nested.single, nested.mean) == (pytest.approx(0.17, abs=0.005), pytest.approx(0.44, abs=0.005))


def test_an_intraclass_correlation_that_is_not_defined_is_none() -> None:
    assert intraclass(np.full((5, 3), 3.3)) is None
    assert intraclass(np.array([[1.0, 2.0], [3.0, np.nan]])) is None  # one unit that two have rated
    assert agreement(of(JUDGED, Level.STEPS)).icc is None


def test_half_points() -> None:
    case = ORACLE["half_points"]
    compared = agreement(of(matrix(case["ratings"])))
    means = {name: mean.mean for name, mean in compared.means.items()}
    wanted = {
        "pearson": case["pearson"],
        "spearman": case["spearman"],
        "kappa": case["kappa_floor"],
        "kappa_quadratic": case["kappa_quadratic_floor"],
        "alpha_interval": case["alpha_interval_pairwise"],
    }
    assert {name: means[name] for name in wanted} == pytest.approx(wanted, abs=1e-9)
    assert compared.alpha["interval"] == pytest.approx(case["alpha_interval_all"], abs=1e-9)
    above = agreement(of(matrix(case["ratings"])), Categories.ABOVE, 2.5).means["kappa"].mean
    assert above == pytest.approx(case["kappa_above_2_5"], abs=1e-9)


def coincidences(values: np.ndarray, metric: str) -> float | None:
    """Alpha by its definition: the coincidence matrix, made."""
    names = sorted({value for row in values for value in row if not math.isnan(value) and np.isfinite(row).sum() > 1})
    counts = np.zeros((len(names), len(names)))
    for row in values:
        given_here = [value for value in row if not math.isnan(value)]
        for a, b in permutations(given_here, 2):
            counts[names.index(a), names.index(b)] += 1 / (len(given_here) - 1)
    of_name, total = counts.sum(axis=1), counts.sum()
    observed = expected = 0.0
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            low, high = min(i, j), max(i, j)
            between = of_name[low : high + 1].sum() - (of_name[low] + of_name[high]) / 2
            apart = {"nominal": float(i != j), "ordinal": between**2, "interval": (a - b) ** 2}[metric]
            observed += counts[i, j] * apart
            expected += of_name[i] * of_name[j] * apart
    return None if expected == 0 else 1 - (total - 1) * observed / expected


@given(tables())
@FEW
def test_alpha_is_that_of_the_coincidence_matrix(values: np.ndarray) -> None:
    for metric, alpha in ALPHAS.items():
        assert alpha(values) == pytest.approx(coincidences(values, metric), abs=1e-9), metric


@given(tables(), st.randoms())
@FEW
def test_the_order_of_units_and_raters_changes_no_alpha(values: np.ndarray, random) -> None:
    units, raters = list(range(values.shape[0])), list(range(values.shape[1]))
    random.shuffle(units)
    random.shuffle(raters)
    for alpha in ALPHAS.values():
        assert alpha(values[units][:, raters]) == pytest.approx(alpha(values), abs=1e-9)


@given(tables(), st.permutations([1.0, 1.5, 2.0, 3.0, 5.0]))
@FEW
def test_other_names_change_no_nominal_alpha_and_no_kappa(values: np.ndarray, other: list[float]) -> None:
    renamed = values.copy()
    for name, new in zip([1.0, 1.5, 2.0, 3.0, 5.0], other, strict=True):
        renamed[values == name] = new
    before, after = agreement(of(values, Level.NAMES)), agreement(of(renamed, Level.NAMES))
    assert after.alpha["nominal"] == pytest.approx(before.alpha["nominal"], abs=1e-9)
    assert after.means["kappa"].mean == pytest.approx(before.means["kappa"].mean, abs=1e-9)


@given(tables(), st.floats(0.5, 4), st.floats(-1e6, 1e6))
@FEW
def test_scale_and_zero_change_no_interval_alpha_and_only_the_order_an_ordinal_one(values, scale, zero) -> None:
    assert alpha_interval(values * scale + zero) == pytest.approx(alpha_interval(values), abs=1e-6)
    assert alpha_ordinal(np.exp(values)) == pytest.approx(alpha_ordinal(values), abs=1e-9)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=12))
@FEW
def test_pairs_are_as_scipy_and_scikit_learn_have_them(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, np.float64).T
    if min(np.ptp(a), np.ptp(b)) > 0:
        assert pearson(a, b) == pytest.approx(stats.pearsonr(a, b).statistic, abs=1e-9)
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-9)
    else:
        assert pearson(a, b) is None
        assert spearman(a, b) is None
    if len({*a, *b}) > 1:
        steps = [1, 2, 3, 4, 5]
        assert kappa(a, b) == pytest.approx(cohen_kappa_score(a, b), abs=1e-9)
        quadratic = cohen_kappa_score(a, b, labels=steps, weights="quadratic")
        assert kappa_quadratic(a, b) == pytest.approx(quadratic, abs=1e-9)
    else:
        assert kappa(a, b) is None
        assert kappa_quadratic(a, b) is None


def test_a_step_that_nobody_gave_is_a_step_all_the_same() -> None:
    """Kappa by places among the steps that happen to be there would take 2 and 4 for neighbours."""
    a, b = np.array([1.0, 2, 4, 4]), np.array([1.0, 4, 4, 2])
    assert kappa_quadratic(a, b) == pytest.approx(cohen_kappa_score(a, b, labels=[1, 2, 3, 4], weights="quadratic"))


def test_a_rater_who_always_says_the_same_is_counted_and_in_no_mean() -> None:
    compared = agreement(of(np.array([[1.0, 1, 3], [2, 2, 3], [3, 3, 3]])))
    assert [pair.statistics["pearson"] for pair in compared.pairs] == [pytest.approx(1), None, None]
    mean = compared.means["pearson"]
    assert (mean.mean, mean.defined, mean.undefined) == (pytest.approx(1), 1, 2)


def test_where_all_say_the_same_nothing_is_defined() -> None:
    compared = agreement(of(np.full((5, 3), 4.0)))
    assert set(compared.alpha.values()) == {None}
    assert {mean.mean for mean in compared.means.values()} == {None}
    assert not missing(compared.remarks[0], "all ratings that can be")


def test_a_pair_without_a_common_unit() -> None:
    nan = math.nan
    compared = agreement(of(np.array([[1.0, 2, nan], [2, 2, nan], [nan, 3, 1], [nan, 2, 4]])))
    by_pair = {(pair.a, pair.b): pair for pair in compared.pairs}
    assert by_pair["r0", "r2"].units == 0
    assert set(by_pair["r0", "r2"].statistics.values()) == {None}
    assert compared.means["pearson"].undefined == 2  # and r0 with r1, who said 2 both times


@pytest.mark.parametrize(
    ("categories", "classes"),
    [(Categories.FLOOR, [2, 3, 4]), (Categories.ROUND, [3, 4, 4]), (Categories.ABOVE, [0, 1, 1])],
)
def test_what_kappa_makes_of_half_points(categories: Categories, classes: list[int]) -> None:
    values = np.array([[2.5, 2], [3.5, 3], [4.4, 4]])
    others = {Categories.FLOOR: [2, 3, 4], Categories.ROUND: [2, 3, 4], Categories.ABOVE: [0, 1, 1]}[categories]
    wanted = cohen_kappa_score(classes, others)
    assert agreement(of(values), categories).means["kappa"].mean == pytest.approx(wanted)


def test_names_and_steps_have_what_is_defined_of_them() -> None:
    values = np.array([[0.0, 0], [1, 1], [2, 0]])
    assert set(agreement(of(values, Level.NAMES)).means) == {"kappa", "alpha_nominal"}
    steps = agreement(of(values, Level.STEPS))
    assert {"spearman", "kappa_quadratic", "alpha_ordinal"} <= set(steps.means)
    assert not {"pearson", "alpha_interval"} & set(steps.means)
    assert not {name for name in agreement(of(values), Categories.NONE).means if name.startswith("kappa")}


# --- tables ----------------------------------------------------------------------------------------------------------

LONG = "unit,rater,value\ns1,a,1\ns1,b,2\ns2,a,3.5\ns2,b,3\ns3,a,4\n"


def read(folder: Path, text: str | bytes, **how: object) -> Ratings:
    path = folder / "ratings.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_ratings(path, **how)


def refused(folder: Path, text: str | bytes, **how: object) -> str:
    with pytest.raises(TableFaultError) as caught:
        read(folder, text, **how)
    return str(caught.value)


def test_long_and_wide_are_the_same(tmp_path: Path) -> None:
    wide = "unit,a,b\ns1,1,2\ns2,3.5,3\ns3,4,\n"
    for ratings in (read(tmp_path, LONG), read(tmp_path, wide)):
        assert ratings.raters == ("a", "b")
        np.testing.assert_array_equal(ratings.values, [[1, 2], [3.5, 3], [4, math.nan]])


def test_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"unit": [1, 1, 2, 2], "rater": list("abab"), "value": [1, 2, 3, None]})
    frame.to_parquet(tmp_path / "ratings.parquet")
    np.testing.assert_array_equal(read_ratings(tmp_path / "ratings.parquet").values, [[1, 2], [3, math.nan]])
    frame.assign(rater=["a", "a", "b", "b"]).to_parquet(tmp_path / "twice.parquet")
    with pytest.raises(TableFaultError, match=naming("row 3", "row 2")):
        read_ratings(tmp_path / "twice.parquet")


def test_columns_by_other_names_and_some_of_the_raters(tmp_path: Path) -> None:
    text = "story,who,score\n1,a,1\n1,b,2\n1,c,3\n"
    ratings = read(tmp_path, text, unit="story", rater="who", value="score", raters=("c", "a"))
    assert ratings.raters == ("c", "a")
    np.testing.assert_array_equal(ratings.values, [[3, 1]])
    wide = read(
        tmp_path, "id,a,comment,b\n7,1,fine,2\n", raters=("a", "b")
    )  # rows are units; nothing is read of others
    np.testing.assert_array_equal(wide.values, [[1, 2]])
    assert any(not missing(one, "columns that were not read") for one in wide.remarks)


def test_what_spreadsheets_do(tmp_path: Path) -> None:
    ratings = read(tmp_path, "unit;a;b\ns1;1,5;2\n;;\ns2;NA;3\ns3;2;1\n")
    np.testing.assert_array_equal(ratings.values, [[1.5, 2], [math.nan, 3], [2, 1]])
    remarks = "; ".join(ratings.remarks)
    assert "decimal comma" in remarks
    assert "1 empty rows" in remarks
    assert "NA" in remarks


def test_names(tmp_path: Path) -> None:
    ratings = read(tmp_path, "unit,a,b\n1,joy,joy\n2,fear,joy\n3,fear,\n", are_names=True)
    compared = agreement(ratings)
    assert set(compared.alpha) == {"nominal"}
    assert compared.pairs[0].units == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("unit,rater,value\ns1,a,1\ns1,b,high\n", "row 3, column 'value': 'high' is not a number"),
        # an empty line is a row
        ("unit,a,b\ns1,1,1\n\ns2,2,x y\n", "row 4, column 'b': (3 characters) is not a number"),
        ('unit,a,b\n"s\n1",1,1\ns2,2,?\n', "row 3, column 'b'"),  # and a cell of two lines is in one
        ('unit,a,b\ns1,"1,5",1\n', "row 2, column 'a': '1,5' is not a number: write it with a decimal point"),
        ("unit,a,b\ns1,1,5,1\n", "row 2: has 4 fields, the header has 3"),
        ("unit,a,b\ns1,inf,1\n", "row 2, column 'a'"),
        ("sep=;\nunit;a;b\ns1;x;1\n", "row 2, column 'a'"),  # spreadsheets show no such line
        ("unit,a,b\ns1,1_0,1\n", "row 2, column 'a'"),
        ("unit,a,b\ns1,1,1\ns1,2,2\n", "row 3: has the same unit as row 2"),
        (LONG + "s1,a,1\n", "row 7: has the same unit and rater as row 2"),
        ("unit,rater,value\ns1,a,1\ns1,,2\n", "row 3: has a value and no rater"),
        ("unit,rater,value\n,a,1\ns1,b,2\n", "row 2: has a value and no unit"),
        ("unit,a,b\n,1,2\n", "row 2: has no unit"),
        ("unit,rater,value\ns1,a,1\ns2,a,2\n", "has 1 rater ('a'): agreement needs two"),
        ("unit,a\ns1,1\n", "has 1 rater ('a'): agreement needs two"),
        ("unit,a,b\ns1,1,\ns2,,2\n", "none of its 2 units was rated by two raters"),
        ("", "it is empty"),
        ("unit,a,b\n", "no rows below the header"),
        ("unit,a,a\ns1,1,2\n", "the columns 2 and 3 have the same name"),
        ("id,a,b\n1,1,2\n", "there is no column 'unit'"),
        ("Unit,a,b\n1,1,2\n", "is 'Unit' meant?"),
        ("unit,rater,score\ns1,a,1\n", "has a column 'rater' and none 'value'"),
    ],
)
def test_what_is_wrong_is_said_with_its_row(tmp_path: Path, text: str, said: str) -> None:
    message = refused(tmp_path, text)
    assert said in message
    assert message.startswith("ratings.csv: ")


def test_everything_is_said_at_once_and_thousands_are_cut(tmp_path: Path) -> None:
    message = refused(tmp_path, "unit,a,b\n" + "".join(f"s{at},x,y\n" for at in range(50)))
    assert message.count("is not a number") == 20
    assert "and 80 more" in message


def test_names_that_may_be_missing_cells_are_refused(tmp_path: Path) -> None:
    assert not missing(refused(tmp_path, "unit,a,b\n1,NA,x\n2,x,x\n", are_names=True), "row 2", "'a'", "'NA'")


def test_a_rater_that_is_not_there(tmp_path: Path) -> None:
    assert not missing(refused(tmp_path, LONG, raters=("a", "z")), "'z'", "no rater is called")
    assert "there is no column 'z'" in refused(tmp_path, "unit,a,b\n1,1,1\n", raters=("a", "z"))
