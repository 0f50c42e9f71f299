"""Models' ratings beside people's: the oracle, the published rows, and tables that are not as they should be."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.messages import missing
from typer.testing import CliRunner

from storyframes_empathy.commands.app import app
from storyframes_empathy.statistics.comparison import compare, compare_ratings, holm, implied_pairs, t_of
from storyframes_empathy.statistics.rating_table import TableFaultError

ORACLE = json.loads((Path(__file__).parents[1] / "data/statistics.json").read_text())["comparison"]
RATINGS = st.lists(st.tuples(st.floats(1, 5), st.floats(1, 5)), min_size=3, max_size=30)


def test_the_oracle() -> None:
    found = compare(np.array(ORACLE["human"], float), np.array(ORACLE["model"], float))
    assert (found.rmse, found.mean_difference, found.wasserstein, found.t) == pytest.approx(
        (ORACLE["rmse"], ORACLE["mean_diff"], ORACLE["wasserstein"], ORACLE["t_paired"]), abs=1e-9
    )
    test = stats.ttest_rel(ORACLE["human"], ORACLE["model"])
    assert (found.t, found.p) == pytest.approx((test.statistic, test.pvalue), abs=1e-9)


def test_the_published_rows_are_of_one_number_of_pairs() -> None:
    """So their t is paired: RMSE, mean difference and t of all 24 rows imply the same n, but for rounding."""
    rows = ORACLE["paired_rows"]
    assert len(rows) == 24
    for rmse, difference, t in rows:
        assert implied_pairs(rmse, difference, t) == pytest.approx(ORACLE["implied_n"], abs=30)
        assert t_of(rmse, difference, ORACLE["implied_n"]) == pytest.approx(t, rel=0.01)


@given(RATINGS)
@settings(deadline=None, max_examples=60)
def test_it_is_as_scipy_has_it(pairs: list[tuple[float, float]]) -> None:
    human, model = np.array(pairs).T
    found = compare(human, model)
    assert found.wasserstein == pytest.approx(stats.wasserstein_distance(human, model), abs=1e-9)
    if math.isfinite(found.t) and found.sd_difference > 1e-6:
        test = stats.ttest_rel(human, model)
        assert (found.t, found.p) == pytest.approx((test.statistic, test.pvalue), rel=1e-6, abs=1e-12)
        assert t_of(found.rmse, found.mean_difference, found.pairs) == pytest.approx(found.t, rel=1e-6, abs=1e-9)


@given(RATINGS, st.randoms())
@settings(deadline=None, max_examples=30)
def test_the_order_of_rows_changes_nothing_and_changing_sides_the_sign(pairs, random) -> None:
    human, model = np.array(pairs).T
    found, swapped = compare(human, model), compare(model, human)
    random.shuffle(pairs)
    again = compare(*np.array(pairs).T)
    assert (again.rmse, again.wasserstein) == pytest.approx((found.rmse, found.wasserstein), abs=1e-9)
    assert swapped.mean_difference == pytest.approx(-found.mean_difference, abs=1e-12)
    assert swapped.rmse == pytest.approx(found.rmse)


@pytest.mark.parametrize(
    ("human", "model"), [([1, 2, 3], [2, 3, 4]), ([4, 4], [4, 4]), ([0.3, 0.4, 0.7], [0.1, 0.2, 0.5])]
)
def test_differences_that_are_all_the_same_have_no_t(human: list[float], model: list[float]) -> None:
    found = compare(np.array(human, float), np.array(model, float))
    assert math.isnan(found.t)
    assert math.isnan(found.p)
    assert not missing(found.remark, "all differences are the same")


def test_ratings_that_have_nothing_in_common_may_be_on_another_scale() -> None:
    found = compare(np.array([1.0, 3, 5]), np.array([0.2, 0.9, 0.4]))
    assert not missing(found.remark, "every one of people's ratings")
    assert math.isfinite(found.t)
    assert compare(np.array([1.0, 3, 5]), np.array([0.2, 1, 0.4])).remark == ""


def test_a_difference_that_is_nearly_the_same_keeps_its_t() -> None:
    """RMSE² - d² is lost in rounding here; t is not."""
    human = np.array([1e6, 1e6 + 1e-6, 1e6 - 1e-6, 1e6])
    found = compare(human, np.zeros(4))
    assert found.t == pytest.approx(stats.ttest_rel(human, np.zeros(4)).statistic, rel=1e-9)


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # R: p.adjust(…, "holm")
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    adjusted = holm([0.01, math.nan, 0.02])  # what is not a number is not counted among them
    assert adjusted[::2] == pytest.approx([0.02, 0.02])
    assert math.isnan(adjusted[1])


# --- tables ----------------------------------------------------------------------------------------------------------

TABLE = "unit,question,human,big,small\ns1,q1,1,2,5\ns2,q1,3,3,\ns3,q1,5,2,4\ns1,q2,1,1,1\ns2,q2,2,2,3\ns3,q2,3,3,5\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "model.csv"
    path.write_text(text)
    return path


def test_every_model_in_every_group(tmp_path: Path) -> None:
    compared = compare_ratings(written(tmp_path, TABLE), by=["question"])
    rows = {(row.group["question"], row.model): row for row in compared.rows}
    assert list(rows) == [("q1", "big"), ("q1", "small"), ("q2", "big"), ("q2", "small")]
    assert (rows["q1", "small"].pairs, rows["q1", "small"].missing) == (2, 1)
    assert rows["q1", "small"].mean_difference == pytest.approx(-1.5)
    assert rows["q2", "big"].remark == "all differences are the same: no t-test"
    adjusted = holm([row.p for row in compared.rows])
    assert [row.p_holm for row in compared.rows] == pytest.approx(adjusted, nan_ok=True)


def test_models_that_are_named_and_a_comma(tmp_path: Path) -> None:
    path = written(tmp_path, "id;people;bot;other\n1;1,5;2;x\n2;2;2,5;y\n3;4;3;z\n")
    compared = compare_ratings(path, human="people", models=["bot"])
    assert compared.rows[0].mean_difference == pytest.approx(0)
    assert any(not missing(one, "columns that were not read") for one in compared.remarks)


@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        (TABLE, {}, "row 5: has the same unit as row 2"),
        (TABLE.replace("q2,3", ",3"), {"by": ["question"]}, "row 7: has no question"),
        (TABLE.replace("5,2,4", "5,two,4"), {"by": ["question"]}, "row 4, column 'big': 'two' is not a number"),
        (TABLE, {"human": "people"}, "there is no column 'people'"),
        (TABLE, {"models": ["larg"]}, "there is no column 'larg'"),
        (TABLE, {"models": ["human"]}, "cannot be people's and a model's"),
        ("unit,human\n1,2\n", {}, "there is no model's column beside 'human'"),
        ("human,bot\n1,\n,2\n", {}, "no row has both"),
        ("human,bot\n", {}, "no rows below the header"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, how: dict[str, object], said: str) -> None:
    with pytest.raises(TableFaultError) as caught:
        compare_ratings(written(tmp_path, text), **how)
    assert said in str(caught.value)


def test_the_command(tmp_path: Path) -> None:
    path = written(tmp_path, TABLE)
    done = CliRunner().invoke(app, ["statistics", "compare-ratings", str(path), "--by", "question"])
    assert done.exit_code == 0
    assert not missing(done.stdout, "q2 big", "all differences are the same")
    assert not missing(done.stdout, "q1 small", "1 row")
    done = CliRunner().invoke(
        app, ["statistics", "compare-ratings", str(path), "--by", "question", "--model", "big", "--json"]
    )
    rows = json.loads(done.stdout)["rows"]
    assert [row["group"]["question"] for row in rows] == ["q1", "q2"]
    assert rows[1]["t"] is None
    done = CliRunner().invoke(app, ["statistics", "compare-ratings", str(path)])
    assert done.exit_code == 2
    assert not missing(done.stderr, "model.csv", "row 5", "row 2")
