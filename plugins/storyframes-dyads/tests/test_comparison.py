"""Differences between groups of sessions: how often chance is called one, and how well a planted one is found."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support.messages import naming
from typer.testing import CliRunner

from storyframes_dyads.commands import app
from storyframes_dyads.comparison import ComparisonError, compare, read_groups, session_values
from storyframes_dyads.turns import summaries, turns_of
from storyframes_dyads.written import find_outdated, turn_tables, write_tables
from tasks.study import load_study


def study(
    generator: np.random.Generator, clusters: tuple[int, int], difference: float
) -> tuple[pd.Series, pd.DataFrame]:
    """Sessions of persons who differ: 1 to 5 of each, as many as chance says; the second group varies twice as much."""
    rows = [
        (group, person + 100 * group, group * difference + own + 0.5 * generator.normal())
        for group, count in enumerate(clusters)
        for person in range(count)
        for own in [(1 + group) * generator.normal()] * int(generator.integers(1, 6))
    ]
    groups = pd.DataFrame({"cluster": [row[1] for row in rows]}, index=[f"s{n}" for n in range(len(rows))])
    groups["group"] = pd.Categorical([row[0] for row in rows], [0, 1])
    return pd.Series([row[2] for row in rows], groups.index), groups


@pytest.mark.slow
def test_unrelated_groups_differ_as_often_as_chance_says_and_sessions_alone_would_say_so_too_often() -> None:
    generator = np.random.default_rng(4)
    p, naive, covers = [], [], 0
    for _ in range(200):
        values, groups = study(generator, (6, 6), 0.0)
        result = compare(values, groups)
        p.append(result["p"])
        covers += result["low_95"] <= 0 <= result["high_95"]
        of_group = [values[groups["group"] == level] for level in (0, 1)]
        naive.append(stats.ttest_ind(*of_group, equal_var=False).pvalue)
    assert 2 <= sum(value <= 0.05 for value in p) <= 21  # of a binomial of 200 and 0.05, less often than once in 500
    assert covers >= 179
    assert sum(value <= 0.05 for value in naive) > 30


@pytest.mark.slow
def test_a_planted_difference_is_found_and_its_interval_is_around_it() -> None:
    generator = np.random.default_rng(5)
    results = [compare(*study(generator, (10, 12), 3.0)) for _ in range(20)]
    assert sum(result["p"] <= 0.05 for result in results) >= 18
    assert sum(result["low_95"] <= 3 <= result["high_95"] for result in results) >= 17
    assert all(result["design"] == "between clusters" and result["clusters_2"] == 12 for result in results)


def test_p_is_the_share_of_all_orders_of_clusters_that_differ_as_much() -> None:
    values, groups = study(np.random.default_rng(1), (4, 5), 1.0)
    result = compare(values, groups)
    means = values.groupby(groups["cluster"]).mean()
    orders = [
        stats.ttest_ind(means.drop(means.index[list(first)]), means.iloc[list(first)], equal_var=False).statistic
        for first in itertools.combinations(range(9), 4)
    ]
    above = np.mean(np.array(orders) >= orders[0] - 1e-9)
    assert result["p"] == pytest.approx(2 * min(above, np.mean(np.array(orders) <= orders[0] + 1e-9)))
    assert result["difference"] == pytest.approx(means[means.index >= 100].mean() - means[means.index < 100].mean())


def test_people_who_were_in_both_groups_are_compared_with_themselves() -> None:
    generator = np.random.default_rng(6)
    person = np.repeat(np.arange(8), 4)
    group = np.tile([0, 0, 1, 1], 8)
    values = pd.Series(10.0 * person + 1.0 * group + 0.3 * generator.normal(size=32), [f"s{n}" for n in range(32)])
    groups = pd.DataFrame({"cluster": person, "group": pd.Categorical(group, [0, 1])}, index=values.index)
    result = compare(values, groups)
    assert result["p"] == pytest.approx(2 / 2**8)
    assert result["low_95"] < 1 < result["high_95"]
    assert (result["design"], result["clusters_1"], result["sessions_left_out"]) == ("within clusters", 8, 0)
    without = values.drop([f"s{n}" for n in (2, 3)])  # the first person has no session of the second group
    assert compare(without, groups)["sessions_left_out"] == 4  # two have no value, and two no other group beside them
    with pytest.raises(ComparisonError, match=naming("5 clusters", "have sessions of both")):
        compare(values[person > 2], groups)


def test_values_that_are_all_the_same_do_not_differ() -> None:
    values, groups = study(np.random.default_rng(2), (5, 5), 0.0)
    assert compare(values * 0 + 0.25, groups)["p"] == 1


def test_sessions_that_share_anybody_are_one_cluster(tmp_path: Path) -> None:
    table = tmp_path / "sessions.csv"
    table.write_text("session_id,a,b,x\n1,p1,p2,k\n2,p3,p4,k\n3,p5,p1,k\n4,p4,p6,t\n5,p7,,t\n6,p8,p9,\n")
    groups = read_groups(table, "x", ["a", "b"])
    cluster = groups["cluster"]
    assert cluster["1"] == cluster["3"] != cluster["2"] == cluster["4"] != cluster["5"]
    assert cluster.nunique() == 3
    assert groups["group"].tolist() == ["k", "k", "k", "t", "t"]


def written(folder: Path, persons: int, shift: float) -> list[str]:
    """The arguments of a comparison of two groups of this many persons each, with two sessions of each."""
    generator = np.random.default_rng(0)
    names = [f"{person:02}-{visit}" for person in range(2 * persons) for visit in (1, 2)]
    group = ["control" if number < 2 * persons else "therapy" for number in range(4 * persons)]
    value = generator.normal(size=4 * persons) + shift * (np.arange(4 * persons) >= 2 * persons)
    pd.DataFrame({"session_id": names, "condition": group, "participant_id": [name[:2] for name in names]}).to_csv(
        folder / "groups.csv", index=False
    )
    table = pd.DataFrame({"session_id": names * 2, "first": "openface@a:AU12_r", "second": "openface@b:AU12_r"})
    table["synchrony"] = [*value, *-value]
    table.loc[4 * persons :, "first"] = "openface@a:AU06_r"
    table.loc[0, "synchrony"] = np.nan
    table.to_csv(folder / "measured.csv", index=False)
    return ["compare", str(folder / "measured.csv"), "--value", "synchrony", "--groups", str(folder / "groups.csv")]


@pytest.mark.slow
def test_the_command_compares_each_pair_of_signals(tmp_path: Path) -> None:
    arguments = [*written(tmp_path, 8, 2.0), "--by", "condition"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.output
    smile, cheek = json.loads(result.stdout)["comparison"]
    assert (smile["group_1"], smile["group_2"], smile["sessions_left_out"], smile["sessions"]) == (
        "control", "therapy", 1, 31,
    )  # fmt: skip
    assert smile["difference"] > 1 > -1 > cheek["difference"]
    assert smile["p_holm"] == pytest.approx(2 * max(smile["p"], cheek["p"]))
    assert pd.read_csv(tmp_path / "out/comparison.csv")["p"].tolist() == [smile["p"], cheek["p"]]
    swapped = CliRunner().invoke(app, [*arguments, "--levels", "therapy,control", "--json"])
    assert json.loads(swapped.stdout)["comparison"][0]["difference"] == pytest.approx(-smile["difference"])
    assert "therapy" in CliRunner().invoke(app, arguments).stdout


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--by condition", "'control' has 3 clusters of sessions with a value; at least 4 of each group are needed"),
        ("--by sex", "groups.csv has no column 'sex'; it has session_id, condition, participant_id"),
        ("--by condition --cluster who", "groups.csv has no column 'who'"),
        ("--by condition --levels control,none", "two values of 'condition' are compared, and there is no 'none'"),
        ("--by participant_id", "two values of 'participant_id' are compared, and there are 00, 01, 02, 03, 04, 05"),
        ("--by condition --person a", "measured.csv has no column 'person'"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_sentence(tmp_path: Path, more: str, message: str) -> None:
    result = CliRunner().invoke(app, [*written(tmp_path, 3, 0.0), *more.split()])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_cell_that_is_no_number_is_named_by_its_row_in_the_file(tmp_path: Path) -> None:
    arguments = written(tmp_path, 4, 0.0)
    with (tmp_path / "measured.csv").open("a") as file:
        file.write("\n\n00-1,openface@a:AU12_r,openface@b:AU12_r,high\n")
    result = CliRunner().invoke(app, [*arguments, "--by", "condition"])
    assert result.exit_code == 2
    assert "measured.csv, row 36: synchrony is 'high', not a number" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("name", "value"), [("persons", "latency_s_median"), ("turns", "latency_s"), ("events", "start_s")]
)
def test_a_table_of_turns_that_earlier_rules_made_is_refused_with_the_command_that_makes_it(
    tmp_path: Path, name: str, value: str
) -> None:
    spoken = {"a": np.array([[0.0, 2.0]]), "b": np.array([[1.0, 3.0]])}
    turns, events = turns_of(spoken)
    table = turn_tables({"s1": (summaries(spoken, spoken, turns, events), turns, events)})[name]
    path = tmp_path / f"{name}.csv"
    table.to_csv(path, index=False)
    assert session_values(path, value)[""].notna().all()
    for old in (table.drop(columns="rule"), table.assign(rule=1)):
        old.to_csv(path, index=False)
        with pytest.raises(ComparisonError, match=naming(f"{name}.csv", "storyframes dyads turns STORE")):
            session_values(path, value)


def test_tables_of_turns_below_the_study_that_earlier_rules_made_are_found(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,audio\ns1,p1,a.wav\n")
    spoken = {"a": np.array([[0.0, 2.0]]), "b": np.array([[1.0, 3.0]])}
    turns, events = turns_of(spoken)
    tables = turn_tables({"s1": (summaries(spoken, spoken, turns, events), turns, events)})
    write_tables(tmp_path / "results/new", tables)
    write_tables(tmp_path / "results/old", {name: table.drop(columns="rule") for name, table in tables.items()})
    (tmp_path / "results/other").mkdir()
    (tmp_path / "results/other/persons.csv").write_text("session_id,backchannels,interruptions\n")  # nobody's
    found = sorted(find_outdated(load_study(tmp_path)))
    assert [line.partition(":")[0] for line in found] == [f"results/old/{name}.csv" for name in sorted(tables)]
    assert all("storyframes dyads turns STORE" in line for line in found)
