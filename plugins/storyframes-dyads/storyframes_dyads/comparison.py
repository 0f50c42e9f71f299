"""Do two groups of sessions differ in synchrony, or in how people take turns? Sessions of one person are one cluster.

Two sessions of the same person are not two observations, so a session's value is averaged within its cluster: the
sessions that share a participant, directly or by way of others. Groups that differ between clusters are compared by
Welch's t of the clusters' means, and p is its rank among permutations of whole clusters (Winkler, A. M. and others
(2015), "Multi-level block permutation", NeuroImage 123, 253-268; studentised, so that groups may have other variances:
Chung, E. and Romano, J. P. (2013), Annals of Statistics 41(2), 484-507). Where a cluster has sessions of both groups,
clusters are compared with themselves, and groups are exchanged within them. The interval is Student's or Welch's over
clusters (Hayes, R. J. and Moulton, L. H. (2017), Cluster Randomised Trials, chapter 10).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import permutation_test, ttest_ind, ttest_rel

from storyframes_dyads.synchrony import holm
from storyframes_dyads.written import EARLIER_RULES, is_of_earlier_rules
from tasks.study import Table

FEWEST_OF_GROUP = 4
FEWEST_OF_BOTH = 6
"""With 3 clusters in each group, or 5 that have both, the smallest p is above 0.05: 2 / C(6, 3) and 2 / 2^5."""
PERMUTATIONS = 9999


class ComparisonError(ValueError):
    """Groups that cannot be compared; the message names the table, the value and the rule."""


def read_cells(path: Path, needed: Sequence[str]) -> pd.DataFrame:
    """A table of text, by the number that a spreadsheet shows for each row.

    Raises:
        ComparisonError: it cannot be read, or lacks a column.
    """
    table = Table.read(path)
    if table.faults:
        raise ComparisonError(table.faults[0].text(path.name))
    if missing := [name for name in needed if name not in table.columns]:
        raise ComparisonError(f"{path.name} has no column {missing[0]!r}; it has {', '.join(table.columns)}")
    numbers = [row.number for row in table.rows]
    cells = pd.DataFrame([row.values for row in table.rows], numbers, list(table.columns), dtype=object)
    return cells.fillna("").astype(str).apply(lambda column: column.str.strip())


def session_values(path: Path, value: str, person: str | None = None) -> dict[str, pd.Series]:
    """By pair of signals ("" where the table has none), the mean of a column over each session's rows, NaN for none.

    Args:
        path: a table that ``synchrony`` or ``turns`` has written.
        person: only that person's rows.

    Raises:
        ComparisonError: a cell is not a number, no row is of that person, or earlier rules made the table.
    """
    cells = read_cells(path, ["session_id", value, *(["person"] if person else [])])
    if is_of_earlier_rules(cells):
        raise ComparisonError(f"{path.name}: {EARLIER_RULES}")
    if person:
        cells = cells[cells["person"] == person]
    if not len(cells):
        raise ComparisonError(f"{path.name} has no row{f' of {person!r}' if person else ''}")
    numbers = pd.to_numeric(cells[value].replace("", np.nan), errors="coerce")
    if len(wrong := cells.index[numbers.isna() & (cells[value] != "")]):
        raise ComparisonError(f"{path.name}, row {wrong[0]}: {value} is {cells[value][wrong[0]]!r}, not a number")
    signals = [name for name in ("first", "second") if name in cells]
    pair = cells[signals].agg(" and ".join, axis=1) if signals else pd.Series("", cells.index)
    return {str(name): of.groupby(cells["session_id"]).mean() for name, of in numbers.groupby(pair, sort=False)}


def read_groups(path: Path, by: str, cluster: Sequence[str], levels: Sequence[str] = ()) -> pd.DataFrame:
    """By session, its ``group`` (of two levels) and its ``cluster``, from a table with rows for sessions.

    Args:
        cluster: columns that name people; sessions that share one, in whatever of the columns, are one cluster.
        levels: the two values of ``by`` that are compared; by default all, in the order of the alphabet.

    Raises:
        ComparisonError: a session has two values of ``by`` or nobody, or there are not two levels.
    """
    cells = read_cells(path, ["session_id", by, *cluster])
    levels = levels or sorted({name for name in cells[by] if name})
    if len(levels) != 2 or (absent := [name for name in levels if name not in set(cells[by])]):
        found = f"there are {', '.join(levels) or 'none'}" if len(levels) != 2 else f"there is no {absent[0]!r}"
        raise ComparisonError(f"{path.name}: two values of {by!r} are compared, and {found}: name two in --levels")
    cells = cells[cells[by].isin(levels)]
    several = cells.groupby("session_id")[by].nunique()
    if len(several := several[several > 1]):
        raise ComparisonError(f"{path.name}: session {several.index[0]} has both values of {by!r}")
    people = cells.melt("session_id", list(cluster), value_name="who").query("who != ''")
    if alone := sorted(set(cells["session_id"]) - set(people["session_id"])):
        raise ComparisonError(f"{path.name}: session {alone[0]} has no {' or '.join(cluster)}, so no cluster")
    sessions, session_names = pd.factorize(people["session_id"])
    persons, _ = pd.factorize(people["who"])
    count = len(session_names) + int(persons.max()) + 1
    edges = coo_array((np.ones(len(people)), (sessions, persons + len(session_names))), shape=(count, count))
    _, component = connected_components(edges, directed=False)
    groups = pd.DataFrame(
        {"cluster": component[: len(session_names)]}, index=pd.Index(session_names, name="session_id")
    )
    groups["group"] = pd.Categorical(cells.groupby("session_id")[by].first().reindex(groups.index), levels)
    return groups


def compare(values: pd.Series, groups: pd.DataFrame, seed: int = 0) -> dict[str, object]:
    """The difference between two groups of sessions, the second less the first, with its interval and its p.

    Args:
        values: by session; NaN where it has none.
        groups: see :func:`read_groups`.

    Raises:
        ComparisonError: there are too few clusters.
    """
    table = groups.join(values.rename("value"), how="inner").dropna(subset="value")
    means = table.groupby(["cluster", "group"], observed=False)["value"].mean().unstack("group")
    first, second = means.columns
    has_both = means.notna().all(axis=1)
    if has_both.any():
        means = means[has_both]
        x, y = means[first].to_numpy(), means[second].to_numpy()
        if len(x) < FEWEST_OF_BOTH:
            raise ComparisonError(
                f"{len(x)} clusters have sessions of both {first!r} and {second!r}; at least {FEWEST_OF_BOTH} are "
                "needed. To compare people who were in one group alone, leave the others out of --groups"
            )
        tested = permutation_test((x, y), _difference, permutation_type="samples", **_options(seed))
        test = partial(ttest_rel, y, x)
    else:
        x, y = means[first].dropna().to_numpy(), means[second].dropna().to_numpy()
        for name, count in ((first, len(x)), (second, len(y))):
            if count < FEWEST_OF_GROUP:
                raise ComparisonError(
                    f"{name!r} has {count} clusters of sessions with a value; at least {FEWEST_OF_GROUP} of each group "
                    "are needed"
                )
        tested = permutation_test((x, y), _welch, permutation_type="independent", **_options(seed))
        test = partial(ttest_ind, y, x, equal_var=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that all values are the same
        interval = test().confidence_interval()
    used = table["cluster"].isin(means.index)
    return {
        "group_1": first,
        "group_2": second,
        "mean_1": float(x.mean()),
        "mean_2": float(y.mean()),
        "difference": float(y.mean() - x.mean()),
        "low_95": float(interval.low),
        "high_95": float(interval.high),
        "p": float(tested.pvalue),
        "design": "within clusters" if has_both.any() else "between clusters",
        "clusters_1": len(x),
        "clusters_2": len(y),
        "sessions": int(used.sum()),
        "sessions_left_out": len(values.index.union(groups.index)) - int(used.sum()),
    }


def comparison_table(rows: Mapping[str, Mapping[str, object]]) -> pd.DataFrame:
    """A row for each pair of signals; Holm's correction is over them."""
    table = pd.DataFrame([{"signals": name, **row} for name, row in rows.items()])
    table.insert(table.columns.get_loc("p") + 1, "p_holm", holm(table["p"].to_numpy()))
    return table


def _options(seed: int) -> dict[str, object]:
    return {"n_resamples": PERMUTATIONS, "vectorized": True, "rng": np.random.default_rng(seed)}


def _difference(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(y.mean(axis=axis) - x.mean(axis=axis))


def _welch(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """Welch's t, which is 0 where nothing differs at all."""
    variance = sum(sample.var(axis=axis, ddof=1) / sample.shape[axis] for sample in (x, y))
    return np.asarray(_difference(x, y, axis) / np.maximum(np.sqrt(variance), 1e-12))
