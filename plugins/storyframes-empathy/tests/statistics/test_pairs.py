"""Scores of story pairs: both orders, cosines, the published files, and metrics as scikit-learn has them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, mean_squared_error, precision_recall_fscore_support
from support.messages import missing, naming
from typer.testing import CliRunner

from storyframes_empathy.commands.app import app
from storyframes_empathy.pairs.metrics import evaluate
from storyframes_empathy.pairs.score import score_pairs, write_table
from storyframes_empathy.pairs.table import Aspect, CosineScale, PairTable, Scores, both_orders, read_pairs
from storyframes_empathy.statistics.rating_table import TableFaultError

STEPS = st.sampled_from([1.0, 1.5, 2.0, 2.5, 3.0, 4.0])


@given(st.lists(st.tuples(STEPS, STEPS), min_size=2, max_size=15))
@settings(deadline=None, max_examples=50)
def test_metrics(pairs: list[tuple[float, float]]) -> None:
    labels, scores = np.array(pairs).T
    (row,) = evaluate(PairTable({Aspect.EMPATHY: labels}, (Scores("x", scores),))).rows
    wanted, said = labels > 2.5, scores > 2.5  # 2.5 is not above 2.5
    macro = precision_recall_fscore_support(wanted, said, average="macro", zero_division=0)[:3]
    assert (row.precision, row.recall, row.f1) == pytest.approx(macro)
    assert (row.acc, row.mse) == pytest.approx((accuracy_score(wanted, said), mean_squared_error(labels, scores)))
    if min(np.ptp(labels), np.ptp(scores)) > 0:
        correlations = (stats.pearsonr(labels, scores).statistic, stats.spearmanr(labels, scores).statistic)
        assert (row.r, row.rho) == pytest.approx(correlations)
    else:
        assert (row.r, row.rho) == (None, None)


def test_both_orders_count_and_their_gap_is_told() -> None:
    """A model that favours the first story: .7 of the scale one way, .3 the other."""
    labels = np.array([1.0, 2, 3, 4])
    scores = both_orders(np.full(4, 1 + 3 * 0.7), np.full(4, 1 + 3 * 0.3), "llm")
    assert scores.values == pytest.approx(np.full(4, 2.5))
    (row,) = evaluate(PairTable({Aspect.EMPATHY: labels}, (scores,))).rows
    assert row.order_gap == pytest.approx(1.2)  # .4 of the scale
    assert row.r is None


def test_what_lacks_one_order_is_missing() -> None:
    scores = both_orders(np.array([1, math.nan, 3]), np.array([2, 2, math.nan]), "llm")
    (row,) = evaluate(PairTable({Aspect.MORAL: np.array([1.0, 2, math.nan])}, (scores,))).rows
    assert (row.pairs, row.missing, row.order_gap) == (1, 1, 1)


def test_without_any_score_nothing_is_defined() -> None:
    (row,) = evaluate(PairTable({Aspect.EVENT: np.array([1.0, 2])}, (Scores("x", np.full(2, math.nan)),))).rows
    assert (row.pairs, row.missing, row.mse, row.f1, row.r) == (0, 2, None, None, None)


def test_cosines() -> None:
    cosines = np.array([-0.5, 0, 0.5, 1])
    np.testing.assert_allclose(CosineScale.CLIPPED.score(cosines), [1, 1, 2.5, 4])
    np.testing.assert_allclose(CosineScale.TIMES4.score(cosines), [-2, 0, 2, 4])


# --- tables ----------------------------------------------------------------------------------------------------------


def published(folder: Path) -> Path:
    """A file with the columns of the published ones: texts over several lines, and the index of a data frame."""
    frame = pd.DataFrame(
        {
            "pairs": ["(0, 5)", "(1, 7)", "(2, 9)"],
            "binned": [0, 1, 2],
            "story_A": ['She said "no", then left.\n\nI stayed.', "One line", "Two,\nlines"],
            "story_B": ["a", "b\nc", "d"],
            "Empathic Similarity (gpt3.5)": [1, 3, 4],
            **{aspect.published: [1.5, 2.5, 3.0] for aspect in Aspect},
        }
    )
    path = folder / "PAIRS (test).csv"
    frame.to_csv(path)
    return path


def test_the_published_columns_are_read_as_they_are(tmp_path: Path) -> None:
    table = read_pairs(published(tmp_path), scores=["Empathic Similarity (gpt3.5)"])
    assert set(table.labels) == set(Aspect)
    evaluated = evaluate(table)
    assert evaluated.labels[Aspect.EMPATHY] == {1: 1, 2: 1, 3: 1, 4: 0}
    assert [row.pairs for row in evaluated.rows] == [3] * 4
    assert evaluated.rows[0].acc == pytest.approx(2 / 3)


def letters(texts: Sequence[str]) -> tuple[np.ndarray, list[int]]:
    """Vectors of how often a, b and c are in a text."""
    vectors = np.array([[text.count(letter) for letter in "abc"] for text in texts], np.float32)
    return vectors, [1 + ("c" in text) for text in texts]


def test_pairs_are_scored_by_their_texts_and_no_text_is_written(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text('story_a,story_b,summary_a,summary_b,empathy\naaa,a,b,a,4\n\n"a\nb",b,b,b,1.5\na,bc,b,b,\n')
    scored = score_pairs(path, encode=letters)
    assert scored.table["sbert"].tolist() == pytest.approx([1, math.sqrt(0.5), 0], abs=1e-6)
    assert scored.table["row"].tolist() == [2, 4, 5]
    assert (scored.texts, scored.in_chunks) == (5, 1)
    write_table(scored.table, tmp_path / "scores.csv")
    write_table(scored.table, tmp_path / "scores.parquet")
    assert (tmp_path / "scores.csv").stat().st_mode & 0o077 == 0
    assert (tmp_path / "scores.csv").read_text().splitlines()[0] == "row,empathy,sbert"
    for name in ("scores.csv", "scores.parquet"):
        (row,) = evaluate(read_pairs(tmp_path / name, cosines=["sbert"])).rows
        assert (row.pairs, row.mse) == (2, pytest.approx(((1 + 3 * math.sqrt(0.5) - 1.5) ** 2) / 2))
    assert score_pairs(path, summaries=True, encode=letters).table["sbert"].tolist() == pytest.approx([0, 1, 1])


def test_the_published_texts_are_found(tmp_path: Path) -> None:
    seen: list[str] = []

    def encode(texts: Sequence[str]) -> tuple[np.ndarray, list[int]]:
        seen.extend(texts)
        return np.ones((len(texts), 1)), [1] * len(texts)

    scored = score_pairs(published(tmp_path), encode=encode)
    assert 'She said "no", then left.\n\nI stayed.' in seen
    assert list(scored.table.columns) == ["row", *Aspect, "sbert"]


def test_what_cannot_be_scored(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("story_a,story_b\na,b\na,\n")
    with pytest.raises(TableFaultError, match="row 3: has no story_b"):
        score_pairs(path, encode=letters)
    with pytest.raises(TableFaultError, match=naming("summary_a", "summary_b")):
        score_pairs(path, summaries=True, encode=letters)
    told = CliRunner().invoke(app, ["pairs", "score", str(path), "--out", str(tmp_path / "new.csv")])
    assert told.exit_code == 2
    assert "row 3: has no story_b" in told.stderr
    assert not (tmp_path / "new.csv").exists()
    for out in (path, tmp_path / "scores.txt"):
        assert CliRunner().invoke(app, ["pairs", "score", str(path), "--out", str(out)]).exit_code == 2


def refused(folder: Path, text: str, **how: object) -> str:
    path = folder / "pairs.csv"
    path.write_text(text)
    with pytest.raises(TableFaultError) as caught:
        read_pairs(path, **how)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        ("story_a,x\na,1\n", {"scores": ["x"]}, "has no labels"),
        ("empathy,x\n5,2\n", {"scores": ["x"]}, "row 2: empathy = 5 is outside 1 to 4"),
        ("empathy,x\n3,2\nhigh,1\n", {"scores": ["x"]}, "row 3, column 'empathy': 'high' is not a number"),
        ("empathy,x\n3,1.2\n", {"cosines": ["x"]}, "row 2: x = 1.2 is outside -1 to 1"),
        ("empathy,x\n3,.2\n4,1\n", {"scores": ["x"]}, "nowhere above 1: name cosines with --cosine"),
        ("empathy,x\n3,2\n", {"scores": ["y"]}, "there is no column 'y'"),
        ("empathy,x\n3,2\n", {"scores": ["empathy"]}, "asked for twice, or is a label"),
        ("empathy,similarity_empathy_human_AGG,x\n3,3,2\n", {"scores": ["x"]}, "keep one of them"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, how: dict[str, object], said: str) -> None:
    assert said in refused(tmp_path, text, **how)


def pairs(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["pairs", "evaluate", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("empathy,event,cos,ab,ba\n1,2,.1,1,2\n4,3,1,4,4\n3,1,-.2,3,\n")
    code, out, _ = pairs(path, "--cosine", "cos", "--ab", "ab", "--ba", "ba", "--json")
    assert code == 0
    rows = {(row["scores"], row["aspect"]): row for row in json.loads(out)["rows"]}
    assert rows["cos", "empathy"]["mse"] == pytest.approx((0.3**2 + 0 + 2**2) / 3)
    assert rows["ab + ba", "event"]["missing"] == 1
    assert rows["cos", "event"]["order_gap"] is None
    code, out, _ = pairs(path, "--cosine", "cos", "--times4")
    assert code == 0
    assert not missing(out, "2 scores", "are outside")
    assert pairs(path)[0] == 2
    assert "--ab and --ba belong together" in pairs(path, "--ab", "ab")[2]
    assert pairs(path, "--score", "none")[0] == 2
