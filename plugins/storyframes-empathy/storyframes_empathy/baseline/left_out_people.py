"""Ridge and logistic regression that predict each person from the others, and labels dealt out between people.

Everything that is fitted (the columns' means and spreads, the strength of the penalty, the weights) is fitted without
the person who is predicted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Of the penalty, for each column of the feature; the best of them inside the training people is taken."""
FEWEST = 3
"""People: one to predict, and two to choose the strength by."""
_EXCHANGING = 5  # people who exchange labels, at least
_FOLDS = 5  # of the training people at most, by which the strength is chosen


def ridge(features: np.ndarray, labels: np.ndarray, people: np.ndarray) -> np.ndarray:
    """(n, targets) float64: what ridge regression on the other people predicts of each row.

    Args:
        features: (n, columns) float64; NaN is the mean of the training people.
        labels: (n, targets) float64; each target is learned by itself, with its own strength.
        people: (n,) who each row is of, FEWEST at least.
    """
    strengths = np.array(STRENGTHS) * features.shape[1]
    predicted = np.empty(labels.shape)
    for train, test, of_train, of_test in _each_person(features, people):
        folds = list(_folds(people[train]))
        errors = np.zeros((len(strengths), labels.shape[1]))
        for fit, held_out in folds:
            for place, strength in enumerate(strengths):
                model = Ridge(alpha=strength).fit(of_train[fit], labels[train][fit])
                guess = model.predict(of_train[held_out]).reshape(len(held_out), -1)
                errors[place] += np.mean((guess - labels[train][held_out]) ** 2, axis=0)
        best = errors.argmin(axis=0)
        for place in np.unique(best):
            own = best == place
            model = Ridge(alpha=strengths[place]).fit(of_train, labels[train][:, own])
            predicted[np.ix_(test, own)] = model.predict(of_test).reshape(len(test), -1)
    return predicted


def logistic(features: np.ndarray, classes: np.ndarray, people: np.ndarray) -> np.ndarray:
    """(n,) int64: the class that logistic regression on the other people predicts of each row.

    Args:
        features: (n, columns) float64; NaN is the mean of the training people.
        classes: (n,) int64, from 0.
        people: (n,) who each row is of, FEWEST at least.
    """
    strengths = np.array(STRENGTHS) * features.shape[1]
    predicted = np.empty(len(classes), np.int64)
    for train, test, of_train, of_test in _each_person(features, people):
        right = np.zeros(len(strengths))
        for fit, held_out in _folds(people[train]):
            for place, strength in enumerate(strengths):
                guess = _classify(of_train[fit], classes[train][fit], of_train[held_out], strength)
                right[place] += np.mean(guess == classes[train][held_out])
        best = strengths[::-1][right[::-1].argmax()]  # of equally good ones the strongest
        predicted[test] = _classify(of_train, classes[train], of_test, best)
    return predicted


def mean_of_others(labels: np.ndarray, people: np.ndarray) -> np.ndarray:
    """(n, targets) the mean of the other people's labels."""
    means = np.empty(labels.shape)
    for person in np.unique(people):
        means[people == person] = labels[people != person].mean(axis=0)
    return means


def mode_of_others(classes: np.ndarray, people: np.ndarray) -> np.ndarray:
    """(n,) the most frequent class of the other people."""
    return np.array([np.bincount(classes[people != person]).argmax() for person in people])


def dealt(people: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """(draws, n) int64: whose label each row is given, when people exchange all their labels.

    A person's labels stay together and keep their order, so that what sessions of one person have in common stays, and
    so does what first and later sessions have in common. People exchange with those who have nearly as many rows, in
    groups of at least five; whoever has more rows than the labels that are given begins with these again, and whoever
    has fewer takes the first. Exact where all have as many; otherwise p is somewhat too large rather than too small.
    """
    _, who = np.unique(people, return_inverse=True)
    rows = sorted((np.flatnonzero(who == person) for person in range(who.max() + 1)), key=len)
    groups = np.array_split(np.arange(len(rows)), max(1, len(rows) // _EXCHANGING))
    random = np.random.default_rng(seed)
    given = np.empty((draws, len(people)), np.int64)
    for draw in given:
        for group in groups:
            for own, giver in zip(group, random.permutation(group), strict=True):
                draw[rows[own]] = np.resize(rows[giver], len(rows[own]))
    return given


def _each_person(
    features: np.ndarray, people: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """By person: the rows of the others, those of the person, and the features of both, scaled by the others.

    More columns than rows are turned into as many as rows, in which ridge and logistic regression say the same.
    """
    for person in np.unique(people):
        train, test = np.flatnonzero(people != person), np.flatnonzero(people == person)
        known = np.isfinite(features[train]).any(axis=0)
        scaler = StandardScaler().fit(features[train][:, known])
        scaled = np.nan_to_num(scaler.transform(features[:, known]))
        if scaled.shape[1] > len(train):
            scaled = scaled @ np.linalg.svd(scaled[train], full_matrices=False)[2].T
        yield train, test, scaled[train], scaled[test]


def _folds(people: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    count = min(_FOLDS, len(np.unique(people)))
    return GroupKFold(count).split(people, groups=people)


def _classify(features: np.ndarray, classes: np.ndarray, of_test: np.ndarray, strength: float) -> np.ndarray:
    if len(np.unique(classes)) == 1:
        return np.full(len(of_test), classes[0])
    guess: np.ndarray = LogisticRegression(C=1 / strength, max_iter=1000).fit(features, classes).predict(of_test)
    return guess
