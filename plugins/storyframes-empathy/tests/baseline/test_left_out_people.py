"""Ridge and logistic regression without the person, against scikit-learn called plainly; dealing between people."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.preprocessing import StandardScaler
from support.messages import missing

from storyframes_empathy.baseline.labelled_units import BaselineError, Units
from storyframes_empathy.baseline.left_out_people import STRENGTHS, dealt, logistic, ridge
from storyframes_empathy.baseline.score import FeatureScore, people_needed, score_baseline, sentence

SIZES = (3, 2, 3, 1, 4, 2, 3)


def people_of(sizes: tuple[int, ...] | np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(sizes)), sizes)


def units_of(labels: np.ndarray, people: np.ndarray, classes: tuple[str, ...] = ()) -> Units:
    return Units("session", "warmth", classes, labels, people, [])


def clustered(sizes: np.ndarray, columns: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels that know nothing of each other; half of the variance of both is the person's."""
    people, count = people_of(sizes), int(sizes.sum())
    features = random.normal(size=(len(sizes), columns))[people] + random.normal(size=(count, columns))
    return features, random.normal(size=len(sizes))[people] + random.normal(size=count)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [3, 40])
def test_ridge_is_scikit_learns_on_the_other_people(columns: int) -> None:
    people = people_of(SIZES)
    random = np.random.default_rng(columns)
    features = random.normal(5, 3, (len(people), columns)) * np.arange(1, columns + 1)
    labels = features[:, 0] + random.normal(size=len(people))
    found = ridge(features, np.column_stack([labels, random.permutation(labels)]), people)[:, 0]
    grid = {"alpha": [strength * columns for strength in STRENGTHS]}
    for person in np.unique(people):
        others = people != person
        scaler = StandardScaler().fit(features[others])
        chosen = GridSearchCV(Ridge(), grid, cv=GroupKFold(5), scoring="neg_mean_squared_error")
        chosen.fit(scaler.transform(features[others]), labels[others], groups=people[others])
        expected = chosen.predict(scaler.transform(features[~others]))
        np.testing.assert_allclose(found[~others], expected, atol=1e-9)


@pytest.mark.slow
def test_logistic_regression_is_scikit_learns_on_the_other_people() -> None:
    people = people_of((4,) * 5)
    random = np.random.default_rng(0)
    features = random.normal(size=(20, 2))
    classes = (features[:, 0] + 0.3 * random.normal(size=20) > 0).astype(int)
    found = logistic(features, classes, people)
    grid = {"C": [1 / (2 * strength) for strength in STRENGTHS[::-1]]}
    for person in range(5):
        others = people != person
        scaler = StandardScaler().fit(features[others])
        chosen = GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=GroupKFold(4), scoring="accuracy")
        chosen.fit(scaler.transform(features[others]), classes[others], groups=people[others])
        np.testing.assert_array_equal(found[~others], chosen.predict(scaler.transform(features[~others])))


def test_a_missing_value_is_the_mean_of_the_training_people() -> None:
    people = people_of((2,) * 4)
    features = np.random.default_rng(0).normal(size=(8, 2))
    features[:2, 1] = np.nan  # one person has no value of a column
    labels = features[:, :1].copy()
    filled = features.copy()
    filled[:2, 1] = features[2:, 1].mean()
    found, expected = ridge(features, labels, people), ridge(filled, labels, people)
    np.testing.assert_allclose(found[:2], expected[:2], atol=1e-9)
    features[:, 1] = np.nan
    np.testing.assert_allclose(
        ridge(features, labels, people).argsort(axis=0), ridge(features[:, :1], labels, people).argsort(axis=0)
    )


def test_people_exchange_all_their_labels_in_their_order() -> None:
    people = people_of((2, 2, 3))
    rows = [np.flatnonzero(people == person) for person in range(3)]
    seen = set()
    for given in dealt(people, 50, 0):
        givers = [int(people[given[own[0]]]) for own in rows]
        assert sorted(givers) == [0, 1, 2]
        for own, giver in zip(rows, givers, strict=True):
            np.testing.assert_array_equal(given[own], np.resize(rows[giver], len(own)))
        seen.add(tuple(givers))
    assert len(seen) == 6


@pytest.mark.slow
def test_an_effect_is_found_and_none_is_not() -> None:
    people = people_of((3,) * 12)
    random = np.random.default_rng(1)
    features, labels = clustered(np.full(12, 3), 4, random)
    means = {"knows": features.copy(), "nothing": random.normal(size=(36, 4))}
    means["knows"][:, 2] = labels + 0.3 * random.normal(size=36)
    done = score_baseline(units_of(labels, people), means, draws=200)
    knows, nothing = done.scores
    assert (knows.feature, knows.p, knows.n, knows.people) == ("knows", pytest.approx(1 / 201), 36, 12)
    assert 0.3 < knows.interval.low < knows.saved < knows.interval.high < 1
    assert knows.saved == pytest.approx(1 - (knows.error / knows.error_of_others) ** 2)
    assert nothing.p > 0.05
    assert "knows" in done.sentence
    expected = [labels[people != person].mean() for person in people]
    assert knows.error_of_others == pytest.approx(np.sqrt(np.mean((labels - expected) ** 2)))


@pytest.mark.slow
def test_classes_are_told_by_what_knows_them() -> None:
    people = people_of((3,) * 8)
    random = np.random.default_rng(2)
    classes = random.integers(0, 3, 24)
    means = {"knows": np.eye(3)[classes] + 0.1 * random.normal(size=(24, 3)), "nothing": random.normal(size=(24, 3))}
    done = score_baseline(units_of(classes, people, ("calm", "sad", "glad")), means, draws=100)
    knows, nothing = done.scores
    assert (knows.feature, knows.error, knows.saved, knows.p) == ("knows", 0, 1, pytest.approx(1 / 101))
    assert nothing.p > 0.05
    most = [np.bincount(classes[people != person]).argmax() for person in people]
    assert knows.error_of_others == pytest.approx(np.mean(classes != most))


def test_what_cannot_be_scored_says_why() -> None:
    labels, people = np.arange(8.0), people_of((2,) * 4)
    some = np.random.default_rng(0).normal(size=(8, 2))
    rare = some.copy()
    rare[4:] = np.nan
    means = {"masked": np.full((8, 2), np.nan), "constant": np.ones((8, 2)), "rare": rare, "usual": some}
    done = score_baseline(units_of(labels, people), means, draws=20)
    reasons = {one.feature: one.reason for one in done.scores}
    assert reasons == {
        "usual": "",
        "masked": "it has no measurement",
        "constant": "it is the same everywhere",
        "rare": "2 people have it, and 3 are the fewest",
    }
    assert done.scores[0].feature == "usual"
    with pytest.raises(BaselineError, match=r"'warmth' is of one person.*participant_id"):
        score_baseline(units_of(labels, np.zeros(8, int)), means)
    with pytest.raises(BaselineError, match="one value everywhere"):
        score_baseline(units_of(np.ones(8), people), means)


@pytest.mark.filterwarnings("error")
def test_a_column_without_any_value_changes_nothing_and_three_people_have_no_interval() -> None:
    people, random = people_of((2,) * 3), np.random.default_rng(0)
    labels, some = random.normal(size=6), random.normal(size=(6, 2))
    with_none = np.column_stack([some, np.full(6, np.nan)])
    done = score_baseline(units_of(labels, people), {"some": some, "none": with_none}, draws=20)
    assert {one.reason for one in done.scores} == {""}
    assert [np.isnan(one.interval.low) and "4 people" in one.interval.reason for one in done.scores] == [True, True]
    five = score_baseline(units_of(np.r_[labels, labels], people_of((2,) * 6)), {"some": np.r_[some, some]}, draws=20)
    assert np.isfinite(five.scores[0].interval.low)


@pytest.mark.parametrize(("r", "people"), [(0.3, 85), (0.5, 30), (0.1, 783)])
def test_the_people_that_a_correlation_needs(r: float, people: int) -> None:
    """As in the tables of power: Cohen (1992) has 85, 28 and 783, the second by a less simple way."""
    assert people_needed(r) == people


@pytest.mark.parametrize(
    ("features", "people", "said"),
    [
        (1, 10, ["good tells", "p = 0.01,", "1 feature tried"]),
        (9, 10, ["With 10 people nothing can be said", "p is 0.09,", "9 features tried", "85 people"]),
        (9, 85, ["No feature tells"]),
    ],
)
def test_the_smallest_p_counts_for_every_feature_that_was_tried(features: int, people: int, said: list[str]) -> None:
    scores = [FeatureScore("good", 20, people, p=0.01), FeatureScore("none", 0, 0, reason="it has no measurement")]
    scores += [FeatureScore(f"other{number}", 20, people, p=0.5) for number in range(features - 1)]
    assert not missing(sentence("warmth", people, scores), *said)


def test_what_predicts_no_better_than_a_guess_does_not_tell() -> None:
    worse = FeatureScore("worse", 20, 10, saved=-0.1, p=0.001)
    better = FeatureScore("better", 20, 10, saved=0.1, p=0.01)
    assert "better tells" in sentence("warmth", 10, [worse, better])
    alone = sentence("warmth", 10, [worse])
    assert not missing(alone, "worse", "p = 0.001", "no better than a guess")
    assert "tells" not in alone


@pytest.mark.slow
def test_labels_that_people_exchange_find_nothing_where_shuffled_ones_do() -> None:
    """200 studies of ten people with one to seven sessions, by a correlation; the nightly test fits and chooses."""
    random = np.random.default_rng(0)
    exchanged, shuffled = [], []
    for study in range(200):
        sizes = random.integers(1, 8, 10)
        features, labels = clustered(sizes, 1, random)
        rows = np.arange(len(labels))

        def small(given: np.ndarray, feature: np.ndarray = features[:, 0], own: np.ndarray = labels) -> bool:
            r = np.abs([np.corrcoef(feature, own[places])[0, 1] for places in given])
            return 1 + np.sum(r[1:] >= r[0]) <= 0.05 * len(r)

        exchanged.append(small(np.vstack([rows, dealt(people_of(sizes), 39, study)])))
        shuffled.append(small(np.vstack([rows, *(random.permutation(rows) for _ in range(39))])))
    assert 0 < np.mean(exchanged) <= 0.09
    assert np.mean(shuffled) > 0.1


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["alike", "unlike"])
def test_without_an_effect_p_is_below_5_percent_in_4_to_6_percent(sizes: str) -> None:
    assert 0.035 <= rejected(sizes, 1000) <= 0.065  # 4 to 6 percent, as sure as 1,000 studies are


def rejected(sizes: str, studies: int) -> float:
    """The share of studies without an effect whose p is at most 0.05."""
    random = np.random.default_rng(0)
    small = 0
    for study in range(studies):
        own = np.full(10, 4) if sizes == "alike" else random.integers(1, 8, 10)
        features, labels = clustered(own, 2, random)
        done = score_baseline(units_of(labels, people_of(own)), {"nothing": features}, draws=19, seed=study)
        small += done.scores[0].p <= 0.05
    return small / studies
