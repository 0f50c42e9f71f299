"""Tables 2 and 3: what the paper printed comes out as it was printed, and numbers of two things are never mixed."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from empathy_support.runs import leave_run, leave_runs, predicted
from support.messages import missing, naming, unlike

from storyframes_empathy.scores.evaluation import Evaluation, ScoredRun, evaluate
from storyframes_empathy.scores.metrics import Metrics
from storyframes_empathy.scores.run_record import Level, Run, RunError, TrainLabels
from storyframes_empathy.scores.scored_rows import Scored
from storyframes_empathy.scores.table_formats import Format, cell_text, content, written
from storyframes_empathy.scores.tables import Cell, Row, Table, build_tables, published_tables

PUBLISHED = json.loads((Path(__file__).parents[1] / "data/published_tables.json").read_text())
MODELS = {"AMER": "amer", "TFN": "tfn", "EF-LSTM": "ef_lstm", "LF-LSTM": "lf_lstm", "EmpathicStoriesBART": "bart"}
# model and modalities of the best and of the second of each column, read off the printed numbers
BEST = {
    ("T2", "r"): (["GPT-4 t"], ["TFN t"]),
    ("T2", "rho"): (["GPT-4 t"], ["TFN t"]),
    ("T2", "acc"): (["GPT-4 t"], ["EmpathicStoriesBART t"]),
    ("T2", "f1"): (["GPT-4 t"], ["AMER v+a+t"]),
    ("T2", "mse"): (["TFN v+a+t"], ["TFN t"]),
    ("T3", "r"): (["LF-LSTM v+t"], ["GPT-4 t"]),
    ("T3", "rho"): (["LF-LSTM v+t"], ["GPT-4 t"]),
    ("T3", "acc"): (["EmpathicStoriesBART t", "GPT-4 t"], ["AMER a+t"]),
    ("T3", "f1"): (["EmpathicStoriesBART t"], ["GPT-4 t"]),
    ("T3", "mse"): (["AMER v+t"], ["AMER v+a", "AMER a+t", "AMER v+a+t"]),
}
COLUMNS = ("r", "rho", "acc", "f1", "mse")


def lines(text: str) -> list[list[str]]:
    """The cells of every line of the tables in Markdown, without headings."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith(("| ---", "| model"))
    ]


def printed(table: str) -> list[list[str]]:
    """The lines that are expected: decimal arithmetic on the printed numbers, marks by the list above."""
    expected = []
    for row in PUBLISHED[table]:
        name, cells = f"{row['model']} {row['modalities']}", []
        for column in COLUMNS:
            mean, sd = (Decimal(str(number)).quantize(Decimal("0.001")) for number in row[column])
            best, second = BEST[table, column]
            mark = "**{}**" if name in best else "<u>{}</u>" if name in second else "{}"
            cells.append(mark.format(f"{mean} ± {sd}"))
        expected.append([row["model"], row["modalities"], *cells])
    return expected


def made_up(run: Run, **values: float) -> ScoredRun:
    """A run with these metrics."""
    names = ("r", "rho", "acc", "f1", "mse", "rmse", "mse_binary", "phi", "prevalence", "acc_missing_wrong")
    counts = {"n": 100, "tp": 0, "fp": 0, "fn": 0, "tn": 0, "missing": 0}
    metrics = Metrics(**(dict.fromkeys(names, math.nan) | counts | values))  # type: ignore[arg-type]
    none = np.empty(0)
    return ScoredRun(Path("x"), Scored(run, Level.CLIP, none, 0.5, none, none, none, none, none, 0), metrics, None)


def of(runs: Sequence[ScoredRun]) -> Evaluation:
    return Evaluation(Level.CLIP, "test", runs, [], [])


def test_the_44_lines_come_out_of_runs_digit_for_digit() -> None:
    runs = []
    for phase, name in (("story_share", "T2"), ("reflection", "T3")):
        for row in PUBLISHED[name]:
            model = MODELS.get(row["model"], row["model"])
            for seed, sign in enumerate((-1, 0, 1)):  # three seeds with this mean and this standard deviation
                run = Run(phase=phase, model=model, modalities=row["modalities"], seed=seed)
                runs.append(
                    made_up(run, **{column: (row[column][0] + sign * row[column][1]) / 100 for column in COLUMNS})
                )
    evaluation = of(runs[::-1])
    found = lines(written(build_tables(evaluation), evaluation, Format.MD))
    assert len(found) == 44
    assert [[*line[:2], *line[3:8]] for line in found] == printed("T2") + printed("T3")
    assert {line[2] for line in found} == {"3"}


def test_the_published_tables_are_shown_as_they_were_printed() -> None:
    found = lines(written(published_tables(), of([]), Format.MD))
    assert found == printed("T2") + printed("T3")
    assert [table.title for table in published_tables(["reflection"])] == ["reflection: the paper's Table 3 as printed"]
    assert published_tables(["warm_up"]) == []


def test_latex_has_the_same_numbers_and_marks() -> None:
    text = written(published_tables(["story_share"]), of([]), Format.TEX)
    body = text.split("\\midrule\n")[1].split("\n\\bottomrule")[0].splitlines()
    found = [line.removesuffix(" \\\\").split(" & ") for line in body]
    marks = (("**{}**", "\\textbf{{{}}}"), ("<u>{}</u>", "\\underline{{{}}}"))
    expected = []
    for line in printed("T2"):
        cells = []
        for cell in line[2:]:
            plain = cell.strip("*").removeprefix("<u>").removesuffix("</u>").replace("±", "$\\pm$")
            tex = [tex for markdown, tex in marks if cell.startswith(markdown[:2])]
            cells.append(tex[0].format(plain) if tex else plain)
        expected.append([*line[:2], *cells])
    assert found == expected


def test_mean_and_sd_are_over_the_seeds_in_which_a_number_is_defined() -> None:
    runs = [
        made_up(Run(phase="p", model="m", modalities="t", seed=seed), r=r, acc=0.5)
        for seed, r in enumerate((0.1, math.nan, 0.3))
    ]
    (table,) = build_tables(of(runs))
    (row,) = table.rows
    assert cell_text(row, "r") == "20.000 ± 14.142 (2 of 3 seeds)"
    assert cell_text(row, "acc") == "50.000 ± 0.000"
    assert cell_text(row, "rho") == "–"
    (table,) = build_tables(of(runs[:1]))
    assert cell_text(table.rows[0], "r") == "10.000"


@pytest.mark.parametrize(("value", "text"), [(-1e-9, "0.000"), (-0.047, "-4.700"), (0.105, "10.500"), (1.0, "100.000")])
def test_how_a_number_is_written(value: float, text: str) -> None:
    assert cell_text(Row("m", "t", None, 1, {"r": Cell(value, math.nan, 1, 1)}), "r") == text


def test_only_rows_with_runs_are_shown(tmp_path: Path) -> None:
    done = evaluate(leave_runs(tmp_path))
    found = lines(written(build_tables(done), done, Format.MD))
    assert [line[1] for line in found] == ["v+a+t"]
    assert all(cell for cell in found[0])


def test_levels_are_ranked_apart_and_marked(tmp_path: Path) -> None:
    leave_runs(tmp_path, model="ridge", modalities="a")
    leave_runs(tmp_path, model="llm", modalities="t", level="story")
    done = evaluate(tmp_path)
    text = written(build_tables(done), done, Format.MD)
    assert "| model | modalities | level | seeds |" in text
    by_model = {line[0]: line for line in lines(text)}
    assert (by_model["ridge"][2], by_model["LLM"][2]) == ("clip", "story")
    assert "**" in by_model["ridge"][4]
    assert "**" in by_model["LLM"][4]
    stories = evaluate(tmp_path, Level.STORY)
    text = written(build_tables(stories), stories, Format.MD)
    assert "| level |" not in text
    assert "; story level" in text


def test_baselines_are_in_every_table_and_never_the_best(tmp_path: Path) -> None:
    train = {"n": 900, "mean": 4.0, "prevalence": 0.7}
    leave_runs(tmp_path, model="ridge", modalities="t", train=train)
    leave_runs(tmp_path, model="untrained cosine", modalities="t", seeds=1, is_baseline=True)
    done = evaluate(tmp_path)
    (table,) = build_tables(done)
    assert [row.model for row in table.rows] == ["ridge", "untrained cosine", "majority of train", "mean of train"]
    assert table.places("r") == {0: 1}
    prevalence = done.runs[0].metrics.prevalence
    majority, mean = table.rows[2].cells, table.rows[3].cells
    assert (majority["acc"].mean, majority["prevalence"].mean) == pytest.approx((prevalence, prevalence))
    assert majority["f1"].mean == pytest.approx(2 * prevalence / (1 + prevalence))
    assert math.isnan(majority["r"].mean)
    ratings = done.runs[0].scored.ratings
    assert mean["mse"].mean == pytest.approx(np.mean((0.75 - (ratings - 1) / 4) ** 2))
    assert mean["acc"].mean == pytest.approx(prevalence)  # a mean of 4 is above 3


def test_only_what_beats_every_baseline_is_bold() -> None:
    rows = [
        Row(name, "", Level.CLIP, 1, {"mse": Cell(mse, math.nan, 1, 1), "r": Cell(r, math.nan, 1, 1)}, is_baseline=base)
        for name, mse, r, base in (
            ("good", 0.05, 0.4, False),
            ("as the mean", 0.06, -0.1, False),
            ("worse", 0.07, -0.2, False),
            ("mean of train", 0.06, math.nan, True),
            ("majority of train", 0.3, math.nan, True),
        )
    ]
    assert Table("", rows).places("mse") == {0: 1}
    assert Table("", rows).places("r") == {0: 1}
    assert Table("", rows[1:]).places("mse") == Table("", rows[1:]).places("r") == {}


def test_errors_are_on_the_label_s_own_scale_too(tmp_path: Path) -> None:
    leave_runs(
        tmp_path, model="ridge", scheme="warmth", minimum=0, maximum=100, train={"n": 9, "mean": 50, "prevalence": 0.5}
    )
    done = evaluate(tmp_path)
    (table,) = build_tables(done)
    row, *_, mean = table.rows
    scored = [one.scored for one in done.runs]
    errors = [np.sqrt(np.mean((one.scores * 100 - one.ratings) ** 2)) for one in scored]
    assert row.cells["rmse"].mean == pytest.approx(np.mean(errors))
    assert mean.cells["rmse"].mean == pytest.approx(np.sqrt(np.mean((50 - scored[0].ratings) ** 2)))
    assert (row.n, row.sessions, row.people) == ((72, 72), (12, 12), (4, 4))


def test_training_labels_are_taken_from_training_predictions(tmp_path: Path) -> None:
    run = Run(phase="reflection", model="ridge", modalities="a")
    table = predicted(run)
    train = table.assign(split="train", participant_id="q" + table["participant_id"], rating=[2.0, 5.0] * 36)
    leave_run(tmp_path / "one", run, pd.concat([train, table]))
    (one,) = evaluate(tmp_path).runs
    assert one.train == TrainLabels(n=72, mean=3.5, prevalence=0.5)


def test_constants_are_cut_as_ratings_are_and_count_copies(tmp_path: Path) -> None:
    run = Run(phase="story_share", model="ridge", modalities="a", threshold=4)
    table = predicted(run).iloc[:4].assign(rating=[5.0, 4.0, 4.0, 4.0], copies=[6, 1, 1, 1])
    train = predicted(run).assign(split="train", participant_id="q", rating=[4.0, 4.0, 3.0, 5.0] * 18)  # .25 above 4
    train["clip_id"] = "q" + train["clip_id"]
    leave_run(tmp_path / "one", run, pd.concat([train, table]))
    done = evaluate(tmp_path)
    assert done.runs[0].train == TrainLabels(n=72, mean=4.0, prevalence=0.25)
    majority, mean = (row.cells for row in build_tables(done)[0].rows[1:])
    assert majority["acc"].mean == pytest.approx(3 / 9)  # "no" is right of three of nine
    assert mean["acc"].mean == pytest.approx(3 / 9)  # a mean of 4 is not above 4, although .75 is above .5
    assert mean["mse"].mean == pytest.approx(6 / 9 * 0.25**2)
    assert (mean["prevalence"].mean, mean["f1"].mean) == (pytest.approx(6 / 9), 0)


def test_text_scorers_and_trained_models_are_rows_of_one_table_of_stories(tmp_path: Path) -> None:
    """Of the same stories nothing is said; of others the table says so."""
    leave_runs(tmp_path, seeds=1)
    for name in ("EmpathicStoriesBART", "LLM stub"):
        run = Run(phase="story_share", model=name, modalities="t", level=Level.STORY)
        table = predicted(run, clips=1)
        leave_run(tmp_path / name, run, table.assign(clip_id=table["session_id"] + ":@" + table["story_id"]))
    done = evaluate(tmp_path, Level.STORY)
    text = written(build_tables(done), done, Format.MD)
    shown = {line[0]: line for line in lines(text) if line[2]}
    assert list(shown) == ["EF-LSTM", "EmpathicStoriesBART", "LLM stub"]
    assert {tuple(line[-3:]) for line in shown.values()} == {("36", "12", "4")}
    assert "; story level" in text
    assert done.notes == []
    run = Run(phase="story_share", model="LLM other", modalities="t", level=Level.STORY)
    leave_run(tmp_path / "other", run, predicted(run, clips=1).iloc[1:])
    (note,) = evaluate(tmp_path, Level.STORY).notes
    assert not missing(note, "not of the same stories")


def test_other_schemes_and_thresholds_are_other_tables(tmp_path: Path) -> None:
    leave_runs(tmp_path / "a", model="ridge")
    leave_runs(tmp_path / "b", model="ridge", scheme="valence", minimum=-1, maximum=1)
    leave_runs(tmp_path / "c", model="ridge", threshold=4)
    leave_runs(tmp_path / "d", model="ridge", phase="reflection")
    done = evaluate(tmp_path)
    titles = [table.title for table in build_tables(done)]
    assert titles == [
        "story_share: empathy 1 to 5, positive above 3; test",
        "story_share: empathy 1 to 5, positive above 4; test",
        "story_share: valence -1 to 1, positive above 0; test",
        "reflection: empathy 1 to 5, positive above 3; test",
    ]
    assert done.notes == []


# --- what must not go unsaid ---


def test_a_run_that_breaks_a_rule_takes_nothing_else_down(tmp_path: Path) -> None:
    root = leave_runs(tmp_path)
    folders = sorted(path.parent for path in root.rglob("run.json"))
    (folders[0] / "run.json").write_text("{")
    (folders[1] / "predictions.parquet").unlink()
    (root / "begun").mkdir()
    (root / "begun" / "state.json").write_text("{}")
    (root / "strange").mkdir()
    (root / "strange" / "predictions.parquet").write_bytes(b"")
    done = evaluate(root)
    assert [one.run.seed for one in done.runs] == [2]
    for said in (
        f"{folders[0]}/run.json: is not what decided a run",
        f"{folders[1]}/predictions.parquet: is missing",
        f"{root}/begun: has no run.json: the run has not come to its end",
        f"{root}/strange: has no run.json: nothing says whose they are",
    ):
        assert any(fault.startswith(said) for fault in done.faults), said
    assert len(done.faults) == 4


def test_one_run_twice_is_not_two_seeds(tmp_path: Path) -> None:
    leave_runs(tmp_path / "first", seeds=1)
    leave_runs(tmp_path / "second", seeds=1)
    done = evaluate(tmp_path)
    assert len(done.runs) == 1
    assert "is the same run as" in done.faults[0]
    assert f"{tmp_path}/first" in done.faults[0]


def test_runs_of_other_clips_are_said_to_be_so(tmp_path: Path) -> None:
    leave_runs(tmp_path, model="ridge", modalities="t")
    run = Run(phase="story_share", model="ridge", modalities="a", seed=1)
    leave_run(tmp_path / "less", run, predicted(run).iloc[1:])
    (note,) = evaluate(tmp_path).notes
    assert not missing(note, "not of the same clips")
    assert "seed 1" in note


def test_a_leaked_participant_is_said_to_be_so(tmp_path: Path) -> None:
    run = Run(phase="story_share", model="ridge", modalities="a")
    table = predicted(run)
    table.loc[table["clip_id"] == table["clip_id"][0], "split"] = "train"
    leave_run(tmp_path / "one", run, table)
    (note,) = evaluate(tmp_path).notes
    assert not missing(note, "LEAKED", "p0", "test and in train")


def test_seeds_with_other_settings_are_said_to_be_so(tmp_path: Path) -> None:
    for seed, settings in enumerate(({"epochs": 10, "split_seed": 0}, {"epochs": 1, "split_seed": 1})):
        run = Run(phase="story_share", model="ridge", modalities="a", seed=seed, settings=settings)
        leave_run(tmp_path / str(seed), run)
    (note,) = evaluate(tmp_path).notes
    assert not missing(note, "its seeds were not run")


def test_caveats_and_missing_answers_are_under_the_table(tmp_path: Path) -> None:
    run = Run(phase="reflection", model="llm", modalities="t", level=Level.STORY, may_be_missing=True, caveats=("a_b",))
    table = predicted(run, clips=1)
    table["score"] = np.array([None, *table["score"][1:]], object)
    leave_run(tmp_path / "one", run, table)
    done = evaluate(tmp_path)
    text = written(build_tables(done), done, Format.MD)
    assert "- reflection, llm, t, seed 0: a\\_b" in text
    assert "1 of 36 answers are missing and left out; Acc would be" in text


def test_what_is_true_of_many_runs_is_said_once(tmp_path: Path) -> None:
    leave_runs(tmp_path, model="ridge", caveats=["untrained weights"])
    assert not unlike(evaluate(tmp_path).notes, ("story_share, ridge", "2 more", "untrained weights"))


def test_names_of_others_stay_text(tmp_path: Path) -> None:
    leave_runs(tmp_path, model="a|b <i>_&%$", modalities="t")
    done = evaluate(tmp_path)
    tables = build_tables(done)
    markdown = written(tables, done, Format.MD)
    assert "| a\\|b &lt;i&gt;\\_&amp;%$ | t |" in markdown
    assert r"a|b <i>\_\&\%\$ & t" in written(tables, done, Format.TEX)
    assert next(csv.DictReader(io.StringIO(written(tables, done, Format.CSV))))["model"] == "a|b <i>_&%$"


def test_csv_and_plain_data_hold_fractions(tmp_path: Path) -> None:
    done = evaluate(leave_runs(tmp_path, model="ridge"), intervals=True)
    tables = build_tables(done)
    (row,) = csv.DictReader(io.StringIO(written(tables, done, Format.CSV)))
    values = [one.metrics.r for one in done.runs]
    assert float(row["r_mean"]) == pytest.approx(np.mean(values))
    assert float(row["r_sd"]) == pytest.approx(np.std(values, ddof=1))
    assert (row["seeds"], row["level"], row["r_defined"], row["n_fewest"]) == ("3", "clip", "3", "72")
    plain = content(tables, done)
    assert plain["tables"][0]["rows"][0]["cells"]["r"]["place"] == 1
    for one in plain["runs"]:
        interval = one["intervals"]["r"]
        assert interval["low"] < one["metrics"]["r"] < interval["high"]
        assert 0 < one["p_permutation"] <= 1
        assert one["participants"] == 4


def test_no_column_compares_with_the_paper() -> None:
    for table in published_tables():
        assert isinstance(table, Table)
        assert "differ" not in written([table], of([]), Format.MD)


def test_a_folder_without_runs_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=naming("run.json", "in it or below")):
        evaluate(tmp_path)
    with pytest.raises(FileNotFoundError):
        evaluate(tmp_path / "nowhere")
