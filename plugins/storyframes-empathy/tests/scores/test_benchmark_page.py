"""The page of a benchmark: what it draws is what there is, escaped; and what cannot be drawn is said."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from empathy_support.runs import leave_run, leave_runs, predicted
from support.messages import missing
from support.pages.browser import Visit, chromium
from typer.testing import CliRunner

from storyframes_empathy.commands.app import app
from storyframes_empathy.report.benchmark_page import write_benchmark
from storyframes_empathy.scores.evaluation import evaluate
from storyframes_empathy.scores.metrics import score
from storyframes_empathy.scores.run_diagnostics import EPOCHS, Epoch, by_participant, calibration, read_epochs
from storyframes_empathy.scores.run_record import Level, Run
from storyframes_empathy.scores.scored_rows import Scored
from storyframes_empathy.scores.tables import build_tables

RUN = Run(phase="story_share", model="ridge", modalities="t")
HOSTILE = "<script>window.hacked=1</script>"


def run(*arguments: object):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def figures(page: str) -> dict[str, dict]:
    return {
        key: json.loads(content)
        for key, content in re.findall(r'<script type="application/json" id="([\w-]+)-figure">(.*?)</script>', page)
    }


def learned(folder: Path, *lines: object) -> None:
    (folder / EPOCHS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_the_page_draws_what_there_is(tmp_path: Path) -> None:
    root = leave_runs(tmp_path / "RUNS")
    epochs = {"epoch": 1, "train_mse": 0.3, "val_mse": 0.2}, {"epoch": 2, "train_mse": 0.1, "val_mse": 0.25}
    for path in root.rglob("run.json"):
        learned(path.parent, *epochs)
    result = run(root, "--report", tmp_path / "site", "--published")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "site/index.html").read_text()
    drawn = figures(page)
    assert list(drawn) == ["curves-0", "calibration-0", "participants-0"]
    assert [line["y"] for line in drawn["curves-0"]["data"]] == [[0.2, 0.25], [0.3, 0.1]] * 3
    assert "The lowest on validation is at epoch 1." in page
    assert len(drawn["participants-0"]["data"][0]["y"]) == 4 * 3  # participants, seeds
    assert "the paper&#39;s Table 2 as printed" in page
    row = re.search(
        r"<tr><th scope=\"row\">EF-LSTM</th><td>v\+a\+t</td><td>clip</td><td>3</td>.*?</tr>", page, re.DOTALL
    )
    assert row
    r = np.mean([one.metrics.r for one in evaluate(root).runs])
    assert f"<strong>{100 * r:.3f} ±" in row[0]
    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o700
    assert "://" not in page


def test_what_others_wrote_stays_text(tmp_path: Path) -> None:
    hostile = RUN.model_copy(update={"model": HOSTILE, "modalities": HOSTILE, "caveats": (HOSTILE,)})
    folder = leave_run(
        tmp_path / "RUNS" / "one", hostile, predicted(hostile).replace({"participant_id": {"p0": HOSTILE}})
    )
    learned(folder, {"epoch": 1, "val_mse": 0.1})
    (tmp_path / "RUNS" / "two").mkdir()
    (tmp_path / "RUNS" / "two" / "run.json").write_text(json.dumps({"phase": HOSTILE}))
    assert run(tmp_path / "RUNS", "--report", tmp_path / "site").exit_code == 1
    page = (tmp_path / "site/index.html").read_text()
    assert "<script>window" not in page
    assert "&lt;script&gt;window.hacked=1&lt;/script&gt;" in page
    assert str(tmp_path) not in page.replace(
        str(tmp_path / "RUNS" / "two"), ""
    )  # only what was left out names its file


def test_runs_without_curves_have_none(tmp_path: Path) -> None:
    leave_run(tmp_path / "RUNS" / "one", RUN)
    damaged = leave_run(tmp_path / "RUNS" / "two", RUN.model_copy(update={"model": "ef_lstm"}))
    (damaged / EPOCHS).write_text('{"epoch": 1}\n{"epo')
    assert run(tmp_path / "RUNS", "--report", tmp_path / "site").exit_code == 0
    page = (tmp_path / "site/index.html").read_text()
    assert [key for key in figures(page) if key.startswith("curves")] == []
    assert f"{EPOCHS}: line 2: must be an object" in page


def test_a_folder_that_is_no_report_is_left_alone(tmp_path: Path) -> None:
    root = leave_runs(tmp_path / "RUNS", seeds=1)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.txt").write_text("mine")
    result = run(root, "--report", tmp_path / "site")
    assert result.exit_code == 2
    assert not missing(result.stderr, "exists and is not a")
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("line", ["[]", "{}", '{"epoch": "x"}', "null", "{"])
def test_a_line_that_is_no_epoch_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / EPOCHS).write_text(f'{{"epoch": 1, "val_mse": 0.5, "seconds": 3}}\n{line}\n')
    with pytest.raises(ValueError, match="line 2"):
        read_epochs(tmp_path)


def test_epochs_say_what_they_say(tmp_path: Path) -> None:
    assert read_epochs(tmp_path) == []
    learned(tmp_path, {"epoch": 1, "train_mse": 0.5, "val_mse": None})
    (epoch,) = read_epochs(tmp_path)
    assert (epoch.epoch, epoch.train_mse) == (1, 0.5)
    assert math.isnan(epoch.val_mse)
    assert isinstance(epoch, Epoch)


def scored(scores: list[float], ratings: list[float], who: list[int], copies: list[int] | None = None) -> Scored:
    n = len(scores)
    counts = np.array(copies or [1] * n)
    arrays = np.array(scores), np.array(ratings), counts, np.array(who), np.full(n, -1), np.array(who)
    return Scored(RUN, Level.CLIP, arrays[0], 0.5, *arrays[1:], 0, tuple(f"p{one}" for one in range(max(who) + 1)))


def test_groups_of_scores_hold_every_score_once() -> None:
    generator = np.random.default_rng(0)
    scores, ratings = generator.uniform(size=105), generator.integers(1, 6, 105).astype(float)
    copies = generator.integers(1, 4, 105)
    bins = calibration(scored(list(scores), list(ratings), [0] * 105, list(copies)))
    assert len(bins) == 10
    assert sum(one.n for one in bins) == copies.sum()
    assert sum(one.n * one.score for one in bins) == pytest.approx((scores * copies).sum())
    assert sum(one.n * one.rating for one in bins) == pytest.approx(((ratings - 1) / 4 * copies).sum())
    assert [one.score for one in bins] == sorted(one.score for one in bins)


def test_equal_scores_are_one_group_and_missing_ones_in_none() -> None:
    (one,) = calibration(scored([0.4, 0.4, 0.4, math.nan], [1, 5, 3, 5], [0] * 4))
    assert (one.n, one.score, one.rating) == (3, pytest.approx(0.4), 0.5)
    assert calibration(scored([math.nan], [1], [0])) == []


def test_each_participant_is_scored_alone() -> None:
    run = scored([0.1, 0.6, 0.4, 0.9, math.nan], [1, 4, 2, 5, 3], [1, 1, 0, 1, 0], [2, 1, 1, 1, 1])
    zero, one = by_participant(run)
    alone = score(np.array([0.1, 0.6, 0.9]), np.array([1.0, 4, 5]), copies=np.array([2, 1, 1]))
    assert (one.participant, one.n) == ("p1", 4)
    assert (one.r, one.mse) == pytest.approx((alone.r, alone.mse))
    assert (zero.participant, zero.n, zero.mse) == ("p0", 1, pytest.approx(0.15**2))
    assert math.isnan(zero.r)


@pytest.mark.slow
@pytest.mark.needs("chromium", "playwright")
def test_it_is_drawn_in_a_browser(tmp_path: Path) -> None:

    run = Run(phase="reflection", model=HOSTILE, modalities=HOSTILE)
    folder = leave_run(tmp_path / "runs" / "one", run, predicted(run).replace({"participant_id": {"p0": HOSTILE}}))
    (folder / "epochs.jsonl").write_text('{"epoch": 1, "val_mse": 0.2}\n{"epoch": 2, "val_mse": 0.1}\n')
    done = evaluate(tmp_path / "runs")
    write_benchmark(done, build_tables(done), tmp_path / "runs", tmp_path / "site")
    with chromium() as browser, Visit(browser, tmp_path / "site/index.html") as visit:
        assert visit.page.locator(".plot .main-svg").count() >= 3
        assert visit.page.evaluate("window.hacked") is None
        assert visit.wrong == []
