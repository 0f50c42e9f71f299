"""Mixed models against what has a closed form: balanced and unbalanced stories, the boundary, data without a model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing
from typer.testing import CliRunner

from storyframes_empathy.commands.app import app
from storyframes_empathy.statistics.mixed import OPTIMISERS, CannotFitError, MixedFit, fit_mixed, fit_table
from storyframes_empathy.statistics.rating_table import TableFaultError

ORACLE = json.loads((Path(__file__).parents[1] / "data/statistics.json").read_text())["mixed"]


def made(seed: int, sizes: list[int], tau: float, beta: float = 0.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An outcome, a predictor and the stories."""
    random = np.random.default_rng(seed)
    stories = np.repeat(np.arange(len(sizes)), sizes)
    x = random.normal(size=len(stories)) + random.normal(size=len(sizes))[stories]
    return beta * x + tau * random.normal(size=len(sizes))[stories] + random.normal(size=len(x)), x, stories


def fit(y: np.ndarray, x: np.ndarray, stories: np.ndarray, **how: object) -> MixedFit:
    columns = x if x.ndim == 2 else x[:, None]
    names = [f"x{at}" for at in range(columns.shape[1])]
    return fit_mixed(y, columns, [str(one) for one in stories], names, **{"raw": True, **how})


def centred(x: np.ndarray, stories: np.ndarray) -> np.ndarray:
    return x - (np.bincount(stories, weights=x) / np.bincount(stories))[stories]


def test_the_oracle() -> None:
    found = fit(np.array(ORACLE["y"]), np.array(ORACLE["x"]), np.array(ORACLE["story"]))
    one = found.estimates[0]
    assert (found.intercept, one.beta, one.se, found.sigma2, found.tau2, one.z) == pytest.approx(
        [ORACLE[name] for name in ("intercept", "beta", "se_beta", "sigma2", "tau2", "z")], abs=1e-6
    )
    assert found.converged
    assert not found.boundary
    assert found.optimisers == ("bfgs",)


def test_balanced_stories_have_a_closed_form() -> None:
    stories_count, size = 25, 4
    y, x, stories = made(3, [size] * stories_count, tau=1.0)
    found, x = fit(y, x, stories), centred(x, stories)
    beta = (x @ y) / (x @ x)
    within = centred(y, stories) - beta * x
    sigma2 = (within @ within) / (len(y) - stories_count - 1)
    means = np.bincount(stories, weights=y) / size
    tau2 = (size * means.var(ddof=1) - sigma2) / size
    wanted = (beta, math.sqrt(sigma2 / (x @ x)), sigma2, tau2, y.mean())
    one = found.estimates[0]
    assert (one.beta, one.se, found.sigma2, found.tau2, found.intercept) == pytest.approx(wanted, abs=1e-6)
    assert (one.low, one.high) == pytest.approx((one.beta - 1.959964 * one.se, one.beta + 1.959964 * one.se), abs=1e-6)


@pytest.mark.parametrize("raw", [True, False])
def test_unbalanced_stories_have_one_for_beta_and_its_error(raw: bool) -> None:
    y, x, stories = made(5, [1, 1, 2, 3, 3, 4, 5, 6, 9, 12, 1], tau=0.7)
    found, x = fit(y, x, stories, raw=raw), centred(x, stories)
    if not raw:
        y, x = (y - y.mean()) / y.std(ddof=1), x / x.std(ddof=1)
    one = found.estimates[0]
    assert one.beta == pytest.approx((x @ y) / (x @ x), abs=1e-9)
    assert one.se == pytest.approx(math.sqrt(found.sigma2 / (x @ x)), abs=1e-9)
    assert (found.rows, found.stories, found.single_rows) == (47, 11, 3)


def test_it_is_what_statsmodels_says() -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM

    y, x, stories = made(8, [2, 3, 4, 5, 6, 3, 2, 4, 4, 3], tau=1.2)
    both = np.column_stack([centred(x, stories), centred(np.sin(3 * x), stories)])
    theirs = MixedLM(y, np.column_stack([np.ones(len(y)), both]), groups=stories).fit(reml=True)
    found = fit(y, both, stories)
    assert [one.beta for one in found.estimates] == pytest.approx(theirs.fe_params[1:].tolist(), abs=1e-4)
    assert [one.se for one in found.estimates] == pytest.approx(theirs.bse_fe[1:].tolist(), abs=1e-4)
    assert (found.tau2, found.sigma2) == pytest.approx((theirs.cov_re.item(), theirs.scale), abs=1e-3)


def test_no_variance_between_stories_is_said() -> None:
    """The means of the stories are closer together than chance has them."""
    y, x, stories = made(1, [5] * 12, tau=0.0)
    y = centred(y, stories)
    found = fit(y, x, stories)
    assert found.boundary
    assert found.converged
    assert found.tau2 == 0
    residual = y - y.mean() - found.estimates[0].beta * centred(x, stories)
    assert found.sigma2 == pytest.approx((residual @ residual) / (len(y) - 2))


def test_another_optimiser_is_tried_and_named() -> None:
    y, x, stories = made(3, [4] * 10, tau=1.0)
    found = fit(y, x, stories, optimisers=("no such optimiser", *OPTIMISERS))
    assert found.converged
    assert found.optimisers == ("no such optimiser", "bfgs")
    assert found.tau2 == pytest.approx(fit(y, x, stories).tau2)


def test_without_a_maximum_there_are_no_estimates() -> None:
    """Story and predictor say all there is: the likelihood rises without an end."""
    stories = np.repeat(np.arange(6), 3)
    x = np.tile([0.0, 1, 2], 6)
    found = fit(stories * 1.0 + 2 * x, x, stories)
    assert not found.converged
    assert found.optimisers == OPTIMISERS
    assert math.isnan(found.estimates[0].beta)
    assert math.isnan(found.tau2)


def test_the_order_of_rows_and_the_units_change_nothing() -> None:
    y, x, stories = made(2, [3, 4, 5, 2, 6, 3], tau=1.0)
    found = fit(y, x, stories, raw=False).estimates[0]
    order = np.random.default_rng(0).permutation(len(y))
    again = fit(y[order] * 1e6 + 1e9, x[order] * 1e-6, stories[order], raw=False).estimates[0]
    assert (again.beta, again.se, again.p) == pytest.approx((found.beta, found.se, found.p), abs=1e-5)


def test_rows_that_lack_something_are_left_out_before_centring() -> None:
    y, x, stories = made(4, [4] * 8, tau=1.0)
    lacking = x.copy()
    lacking[[0, 5]] = np.nan
    found, whole = fit(y, lacking, stories), np.isfinite(lacking)
    assert found.missing == 2
    assert found.estimates[0].beta == pytest.approx(fit(y[whole], x[whole], stories[whole]).estimates[0].beta)


@pytest.mark.parametrize(
    ("y", "x", "stories", "said"),
    [
        ([1, 2, 3], [1, 2, 3], [0, 0, 0], "1 stories with 3 rows"),
        ([1, 2, 3], [1, 2, 3], [0, 1, 2], "it takes two stories, one of them with two rows"),
        ([2, 2, 2, 2], [1, 2, 3, 4], [0, 0, 1, 1], "the outcome is the same in every row"),
        ([1, 2, 3, 5], [0.1, 0.1, 0.7, 0.7], [0, 0, 1, 1], "x0 is the same in all rows of every story"),
        ([1, 2, 3, 5], [[1, 2], [2, 4], [3, 6], [5, 10]], [0, 0, 1, 1], "one follows from the others"),
    ],
)
def test_what_has_no_model(y: list, x: list, stories: list, said: str) -> None:
    with pytest.raises(CannotFitError, match=said):
        fit(np.array(y, float), np.array(x, float), np.array(stories))


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Path:
    y, x, stories = made(6, [3] * 12, tau=1.0)
    lines = [f"s{s},{b},{a},{s}" for a, b, s in zip(x, y, stories, strict=True)]
    path = tmp_path / "stories.csv"
    path.write_text("story,empathy,near,number\n" + "\n".join(lines) + "\n")
    return path


def mixed(path: Path, *arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["statistics", "mixed", str(path), "--outcome", "empathy", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_each_predictor_is_a_model_and_one_that_has_none_costs_no_other(table: Path) -> None:
    code, out, _ = mixed(table, "--predictor", "number", "--predictor", "near", "--json")
    assert code == 1
    none, one = json.loads(out)["models"]
    assert none["fit"] is None
    assert not missing(none["reason"], "number is the same in")
    assert one["fit"]["converged"]
    code, out, _ = mixed(table, "--predictor", "near", "--raw")
    assert code == 0
    assert not missing(out, "in the columns' own units")


def test_jointly_rows_need_every_predictor(table: Path) -> None:
    lines = table.read_text().splitlines()
    table.write_text("\n".join([f"{lines[0]},far", *(f"{line},{at % 7 or ''}" for at, line in enumerate(lines[1:]))]))
    apart, joint = (fit_table(table, "empathy", ["near", "far"], joint=joint) for joint in (False, True))
    assert [model.fit.missing for model in apart.models if model.fit] == [0, 6]
    assert [(model.predictors, model.fit.missing) for model in joint.models if model.fit] == [(("near", "far"), 6)]


def test_what_the_command_refuses(table: Path) -> None:
    assert not missing(mixed(table, "--predictor", "ner")[2], "'ner'", "'near'")
    assert not missing(mixed(table, "--predictor", "near", "--predictor", "near")[2], "'near'", "is asked for twice")
    table.write_text(table.read_text() + ",1,2,3\ns9,high,1,2\n")
    code, _, err = mixed(table, "--predictor", "near")
    assert code == 2
    assert "row 38: has no story" in err
    assert not missing(err, "row 39", "'empathy'", "'high'")
    with pytest.raises(TableFaultError):
        fit_table(table, "empathy", ["near"], story="stories")
