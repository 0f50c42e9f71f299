"""Levels, intervals and p: against their definitions, written out participant by participant."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from empathy_support.simulated_scores import POPULATIONS, Population, simulate
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from support.messages import missing

from storyframes_empathy.scores import intervals
from storyframes_empathy.scores.intervals import participant_intervals, permutation_p
from storyframes_empathy.scores.metrics import pearson, score
from storyframes_empathy.scores.predictions import Predictions
from storyframes_empathy.scores.run_record import Level, Run, RunError
from storyframes_empathy.scores.scored_rows import Scored, at_level

ORACLE = json.loads((Path(__file__).parents[1] / "data/metrics.json").read_text())["story_level"]
RUN = Run(phase="reflection", model="tfn", modalities="v")


def predictions(run: Run = RUN, **columns: object) -> Predictions:
    n = len(next(iter(columns.values())))  # type: ignore[arg-type]
    rows = {
        "clip_id": [f"c{number}" for number in range(n)],
        "session_id": ["s"] * n,
        "participant_id": ["p"] * n,
        "story_id": ["a"] * n,
        "phase": [run.phase] * n,
        "rating": [3.0] * n,
        "split": ["test"] * n,
        "score": [0.5] * n,
        "copies": [1] * n,
    }
    return Predictions(run, Path("runs/one"), pd.DataFrame(rows | columns))


def of_oracle(run: Run = RUN, **columns: object) -> Predictions:
    there = {"session_id": ORACLE["session"], "story_id": ORACLE["story"], "score": ORACLE["p"]}
    return predictions(run, **there, rating=ORACLE["ratings"], participant_id=ORACLE["session"], **columns)


def some(seed: int, people: int, *, n: int = 60, levels: int = 9) -> Scored:
    """Clips of people with up to three stories each, scores with ties, some clips counting twice."""
    generator = np.random.default_rng(seed)
    who = generator.integers(0, people, n)
    story = who * 3 + generator.integers(0, 3, n)
    ratings = generator.integers(1, 6, people * 3)[story].astype(float)
    scores = generator.integers(0, levels, n) / 8
    copies = generator.integers(1, 3, n)
    return Scored(RUN, Level.CLIP, scores, 0.5, ratings, copies, who, story, who, 0)


def test_a_storys_score_is_the_mean_of_its_clips() -> None:
    clips, stories = at_level(of_oracle(), Level.CLIP, "test"), at_level(of_oracle(), Level.STORY, "test")
    for scored, expected in ((clips, ORACLE["clip"]), (stories, ORACLE["story_expect"])):
        found = dataclasses.asdict(scored.metrics())
        assert {key: found[key] for key in expected} == pytest.approx(expected, abs=1e-9)
    assert (clips.level, stories.level) == (Level.CLIP, Level.STORY)
    assert stories.participants.tolist() == [0, 0, 1, 1]


def test_a_story_is_one_sessions_and_the_mean_of_all_its_clips() -> None:
    sessions, stories = ["s1"] * 4 + ["s2"] * 3, ["a", "a", "a", "b", "a", "a", "a"]
    ratings = [2.0, 2, 2, 4, 5, 5, 5]  # the same person rates the same story otherwise in another session
    scores = [0.1, 0.2, 0.9, 0.5, 0.3, 0.3, 0.9]
    scored = at_level(
        predictions(session_id=sessions, story_id=stories, rating=ratings, score=scores), Level.STORY, "test"
    )
    assert scored.scores == pytest.approx([0.4, 0.5, 0.5])  # medians would be .2, .5 and .3
    assert scored.ratings.tolist() == [2, 4, 5]
    assert scored.participants.tolist() == [0, 0, 0]
    assert len(set(scored.stories.tolist())) == 3


def test_stories_are_known_by_session_and_story_whoever_scored_them() -> None:
    """A text scorer has rows of stories, a trained model rows of clips: of the same stories they are of the same."""
    of_text = RUN.model_copy(update={"level": Level.STORY})
    columns = {"session_id": ["s", "s", "r"], "story_id": ["a", "b", "a"]}
    told = at_level(predictions(of_text, clip_id=["s:@a", "s:@b", "r:@a"], **columns), Level.STORY, "test").clips
    twice = {name: each * 2 for name, each in columns.items()}
    assert at_level(predictions(**twice), Level.STORY, "test").clips == told
    less = {name: each[:2] for name, each in columns.items()}
    assert at_level(predictions(**less), Level.STORY, "test").clips != told
    assert at_level(predictions(of_text, **less), Level.STORY, "test").clips != told


def test_predictions_of_stories_stay_stories() -> None:
    run = RUN.model_copy(update={"level": Level.STORY})
    scored = at_level(predictions(run, score=[0.1, 0.7], story_id=["a", "b"]), Level.CLIP, "test")
    assert scored.level is Level.STORY
    assert len(scored.scores) == 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"rating": [2.0, 4.0]}, "clip c1 has the rating 4, another clip of its session and story 2: there are no"),
        ({"story_id": ["a", None]}, "clip c1 has no story_id: there are no stories to score"),
        ({"copies": [1, 3]}, r"clip c1 counts 3 times: .*\(--each-once\)"),
        ({"split": ["val", "val"]}, "has no predictions of the split 'test'; it has val"),
    ],
)
def test_what_has_no_stories_is_not_scored_by_them(columns: dict, said: str) -> None:
    with pytest.raises(RunError, match=said):
        at_level(predictions(**columns), Level.STORY, "test")


def test_clips_that_count_several_times_can_be_counted_once() -> None:
    many = of_oracle(copies=[5, 1, 1, 1, 1, 1, 1, 1])
    assert at_level(many, Level.CLIP, "test").metrics().n == 12
    once = at_level(many, Level.CLIP, "test", each_once=True)
    assert dataclasses.asdict(once.metrics())["r"] == pytest.approx(ORACLE["clip"]["r"])
    assert at_level(many, Level.STORY, "test", each_once=True).metrics().n == 4


def test_scores_on_other_scales_are_scored_as_the_same() -> None:
    expected = at_level(of_oracle(), Level.CLIP, "test").metrics()
    scores = np.array(ORACLE["p"])
    for label, given_scores in (("rating", 1 + 4 * scores), ("unit", (1 + 4 * scores) / 5)):
        run = Run.model_validate({"phase": RUN.phase, "model": "m", "modalities": "v", "label": label})
        content = of_oracle(run)
        content.table["score"] = given_scores
        found = at_level(content, Level.CLIP, "test").metrics()
        assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(expected), abs=1e-9)


def test_which_clips_were_scored_is_told_whatever_their_order() -> None:
    one = of_oracle()
    shuffled = Predictions(RUN, one.folder, one.table.iloc[::-1].reset_index(drop=True))
    less = Predictions(RUN, one.folder, one.table.iloc[1:].reset_index(drop=True))
    for level in Level:
        same = at_level(one, level, "test").clips
        assert at_level(shuffled, level, "test").clips == same
        assert (at_level(less, level, "test").clips == same) is (level is Level.STORY)


# --- intervals ---


def by_definition(scored: Scored, name: str) -> tuple[float, float] | None:
    """The interval of a metric from rows that are written out, or None where there is none."""
    rows = np.repeat(np.arange(len(scored.scores)), scored.copies)
    who = scored.participants[rows]
    people = np.unique(who)

    def without(person: int | None) -> float:
        kept = rows[who != person]
        return getattr(score(scored.scores[kept], scored.ratings[kept]), name)

    all_in, left_out = without(None), [without(person) for person in people]
    if any(math.isnan(value) for value in (all_in, *left_out)) or np.ptp([all_in, *left_out]) < 1e-12:
        return None
    effective: float = len(people)
    if name in ("r", "rho", "phi"):
        if max(map(abs, (all_in, *left_out))) == 1:
            return None
        there, back = (lambda v: 0.5 * math.log((1 + v) / (1 - v))), (lambda z: 2 / (1 + math.exp(-2 * z)) - 1)
    else:
        counts = np.array([np.sum(who == person) for person in people])
        effective = counts.sum() ** 2 / (counts**2).sum()
        if name in ("mse", "mse_binary"):
            there, back = (lambda v: -(v**-0.5)), (lambda z: z**-2 if z < 0 else math.inf)
        else:
            if min(all_in, *left_out) == 0 or max(all_in, *left_out) == 1:
                return None
            there, back = (lambda v: math.log(v / (1 - v))), (lambda z: 1 / (1 + math.exp(-z)))
    n = len(people)
    error = math.sqrt((n - 1) / n * sum((there(value) - there(all_in)) ** 2 for value in left_out))
    reach = student.ppf(0.975, max(effective - 1, 1)) * error
    return back(there(all_in) - reach), back(there(all_in) + reach)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(4, 7), st.sampled_from([2, 9]))
def test_an_interval_is_the_jackknife_over_participants(seed: int, people: int, levels: int) -> None:
    scored = some(seed, people, levels=levels)
    if len(np.unique(scored.participants)) < 4:
        return
    found = participant_intervals(scored)
    assert list(found) == ["r", "rho", "acc", "f1", "mse", "mse_binary", "phi", "prevalence"]
    for name, interval in found.items():
        expected = by_definition(scored, name)
        if expected is None:
            assert math.isnan(interval.low), name
            assert math.isnan(interval.high), name
            assert interval.reason, name
        else:
            assert (interval.low, interval.high) == pytest.approx(expected, rel=1e-6, abs=1e-9), name
            assert bool(interval.reason) is math.isinf(interval.high), name


@pytest.mark.parametrize("population", POPULATIONS[:5], ids=lambda one: one.name)
def test_intervals_of_four_participants_hold_the_true_value(population: Population) -> None:
    """Intervals from percentiles of participants drawn again hold it in 72 to 85 of 100 test sets."""
    generator = np.random.default_rng(5)
    truth = dataclasses.asdict(simulate(population, 4_000, generator).metrics())
    held: dict[str, list[bool]] = {name: [] for name in ("r", "acc", "f1", "mse")}
    for _ in range(600):
        found = participant_intervals(simulate(population, 4, generator))
        for name, each in held.items():
            if not math.isnan(found[name].low):
                each.append(found[name].low <= truth[name] <= found[name].high)
    for name, each in held.items():
        assert len(each) > 520, name
        assert 0.9 < np.mean(each) < 0.985, name


def test_many_participants_are_ranked_one_by_one_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scored = some(3, 5)
    at_once = participant_intervals(scored)
    monkeypatch.setattr(intervals, "_MOST", 1)
    one_by_one = participant_intervals(scored)
    assert (one_by_one["rho"].low, one_by_one["rho"].high) == pytest.approx((at_once["rho"].low, at_once["rho"].high))


def test_three_participants_are_too_few_for_an_interval() -> None:
    scored = some(2, 3)
    assert len(np.unique(scored.participants)) == 3
    for interval in participant_intervals(scored).values():
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)
        assert not missing(interval.reason, "too few participants", "3, and 4")


def test_participants_who_do_not_differ_have_no_interval_of_no_width() -> None:
    """Every answer of four participants is right: that is no proof that every answer of every participant is."""
    who = np.repeat(np.arange(4), 5)
    ratings = np.tile([1.0, 2.0, 5.0, 4.0, 5.0], 4)
    sound = Scored(RUN, Level.CLIP, (ratings - 1) / 4.5, 0.5, ratings, np.ones(20, int), who, who, who, 0)
    found = participant_intervals(sound)
    assert sound.metrics().acc == 1
    for name in ("acc", "f1", "prevalence", "mse"):
        assert math.isnan(found[name].low), name
        assert not missing(found[name].reason, "the same whichever participant is"), name


# --- ratings dealt out again ---


def by_sessions(
    people: int, stories: int, clips: int, seed: int, *, leaning: float, knowing: float, sessions: int = 1
) -> Scored:
    """Sessions that are rated high or low throughout (``leaning``), and scores that know each story (``knowing``)."""
    generator = np.random.default_rng(seed)
    session = np.repeat(np.arange(people * sessions), stories)
    who = session // sessions
    level = generator.normal(size=people * sessions)[session] * leaning
    ratings = np.clip(np.round(3 + level + generator.normal(size=len(who))), 1, 5)
    scores = 0.3 * level + knowing * ratings + generator.normal(size=len(who)) * 0.1
    unit = np.repeat(np.arange(len(who)), clips)
    noise = generator.normal(size=len(unit)) * 0.05
    ones = np.ones(len(unit), int)
    return Scored(RUN, Level.CLIP, scores[unit] + noise, 0.5, ratings[unit], ones, who[unit], unit, session[unit], 0)


def test_knowing_who_rates_high_is_not_knowing_stories() -> None:
    knows = by_sessions(12, 6, 4, 0, leaning=2, knowing=1)
    leans = [by_sessions(12, 6, 4, seed, leaning=2, knowing=0) for seed in range(6)]
    assert permutation_p(knows) == 1 / 1001
    assert min(pearson(one.scores, one.ratings) for one in leans) > 0.5
    assert np.mean([permutation_p(one) for one in leans]) > 0.2


def test_knowing_which_session_is_rated_high_is_not_knowing_stories() -> None:
    """Both depend on the session, by chance of their own: one of twenty test sets has a p of at most 0.05."""
    found = []
    for seed in range(200):
        ratings = by_sessions(4, 3, 2, seed, leaning=1.5, knowing=0, sessions=3)
        scores = by_sessions(4, 3, 2, seed + 1_000, leaning=1.5, knowing=0, sessions=3).scores
        found.append(permutation_p(dataclasses.replace(ratings, scores=scores), draws=99))
    assert np.mean(np.array(found) <= 0.05) < 0.09  # 0.19 where ratings are dealt among a participant's sessions
    knows = by_sessions(4, 3, 2, 0, leaning=1.5, knowing=1, sessions=3)
    assert permutation_p(knows) == 1 / 1001


def test_dealing_out_is_within_sessions_and_whole_stories() -> None:
    # each session rated one story only, so that nothing can be dealt out
    alone = by_sessions(9, 1, 3, 1, leaning=1, knowing=1, sessions=2)
    assert math.isnan(permutation_p(alone))
    # two sessions of one participant, two stories each, of 3, 1, 1 and 2 clips: four dealings, the true one the best
    unit = np.array([0, 0, 0, 1, 2, 3, 3])
    ratings, scores = np.array([5.0, 1, 4, 2])[unit], np.array([0.9, 0.1, 0.8, 0.3])[unit]
    sessions = np.array([0, 0, 1, 1])[unit]
    scored = Scored(RUN, Level.CLIP, scores, 0.5, ratings, np.ones(7, int), np.zeros(7, int), unit, sessions, 0)
    assert permutation_p(scored, draws=4000) == pytest.approx(0.25, abs=0.03)
    dealings = [[5, 1, 4, 2], [1, 5, 4, 2], [5, 1, 2, 4], [1, 5, 2, 4]]
    third = sorted(dealings, key=lambda one: -pearson(scores, np.array(one, float)[unit]))[2]
    changed = dataclasses.replace(scored, ratings=np.array(third, float)[unit])
    assert permutation_p(changed, draws=4000) == pytest.approx(0.75, abs=0.03)


def test_copies_count_in_p_as_rows_do() -> None:
    scored = some(5, 4)
    rows = np.repeat(np.arange(len(scored.scores)), scored.copies)
    written = Scored(
        RUN,
        Level.CLIP,
        scored.scores[rows],
        0.5,
        scored.ratings[rows],
        np.ones(len(rows), int),
        scored.participants[rows],
        scored.stories[rows],
        scored.sessions[rows],
        0,
    )
    assert permutation_p(scored) == permutation_p(written)


def test_ratings_that_are_not_of_stories_have_no_p() -> None:
    parts = predictions(score=[0.1, 0.7, 0.2], rating=[1.0, 5.0, 2.0], story_id=[None, None, None])
    assert math.isnan(permutation_p(at_level(parts, Level.CLIP, "test")))
    assert math.isnan(permutation_p(at_level(predictions(score=[0.1, 0.7]), Level.CLIP, "test")))  # one rating for all


def test_missing_answers_are_left_out_of_both() -> None:
    scored = some(8, 5)
    holes = scored.scores.copy()
    holes[::5] = np.nan
    kept = ~np.isnan(holes)
    names = ("scores", "ratings", "copies", "participants", "stories", "sessions")
    less = {name: getattr(scored, name)[kept] for name in names}
    with_holes, without = dataclasses.replace(scored, scores=holes), dataclasses.replace(scored, **less)
    assert participant_intervals(with_holes) == participant_intervals(without)
    assert permutation_p(with_holes, draws=50) == permutation_p(without, draws=50)
