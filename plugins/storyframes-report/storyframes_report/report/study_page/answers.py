"""The questions that the study page answers, each in one sentence with numbers and the worst by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from urllib.parse import quote

import numpy as np

from storyframes import MAIN, STORIES, FeatureName
from storyframes_report.report.chart import Chart
from storyframes_report.report.matrix import Cell, CellState
from storyframes_report.report.study_page.charts import clocks_chart, findings_chart, spread_chart
from storyframes_report.report.study_page.columns import StudyPage
from storyframes_report.report.study_page.summary import FindingSummary, moment
from tasks.inspect import Rule, counted
from tasks.study import Label, Scheme, SchemeType, Study

_NAMED = 3  # sessions named in a sentence or a cell; the page's table has all
_LISTED = 12  # rows of a table
_PARTICIPANTS = 5  # fewer are too few to say who differs
OUTLIER = 3.5  # modified z-scores (Iglewicz and Hoaglin, 1993)
_SPREAD_FLOOR = 0.01  # of the median: where most have the same value, smaller differences are none


@dataclass(frozen=True)
class Link:
    """A cell of a table that leads somewhere; without an address it is text."""

    text: str
    address: str = ""


@dataclass(frozen=True)
class Answer:
    """A question, its answer in one sentence, and what is behind it."""

    key: str  # of its section on the page
    question: str
    answer: str
    good: bool | None = None  # None where it is neither good nor bad
    chart: Chart | None = None
    headings: tuple[str, ...] = ()
    rows: Sequence[tuple[object, ...]] = ()  # a cell is a text, a number, a link or a list of links


def answers(page: StudyPage, study: Study) -> list[Answer]:
    """Every question but that about the last report."""
    return [_training(page), _coverage(page), _quality(page), _differing(page), _clocks(page, study), _raters(study)]


def show(query: str) -> str:
    """The address that shows the sessions of which the page's table says ``query``."""
    return f"#show={quote(query)}"


def _sessions(page: StudyPage, sessions: Sequence[str], query: str = "") -> list[Link]:
    """The first sessions, and a link that shows all of them in the page's table."""
    links = [Link(session, moment(session) if session in page.summaries else "") for session in sessions[:_NAMED]]
    more = len(sessions) - _NAMED
    return links + ([Link(f"and {more} more", show(query))] if more > 0 else [])


def _names(sessions: Sequence[str]) -> str:
    more = f" and {len(sessions) - _NAMED} more" if len(sessions) > _NAMED else ""
    return ", ".join(sessions[:_NAMED]) + more


def _lacks(cell: Cell) -> bool:
    """Whether the session has no values of a feature that was asked for, though it has the input."""
    return cell.state is CellState.NOT_EXTRACTED or (cell.state is CellState.FAILED and not cell.kept)


# --- which sessions cannot be trained on ---


def _training(page: StudyPage) -> Answer:
    question = "Which sessions cannot be trained on, and why?"
    obstacles = defaultdict(list)
    for session in page.participants:
        if reason := page.obstacle(session):
            obstacles[reason].append(session)
    rows: list[tuple[object, ...]] = [
        ("no clips", reason, len(sessions), _sessions(page, sessions, reason))
        for reason, sessions in sorted(obstacles.items(), key=lambda item: -len(item[1]))
    ]
    without, stale, no_input, reasons = set(), set(), set(), defaultdict(list)
    for (session, feature), cell in page.facts.matrix.cells.items():
        if cell.reason or _lacks(cell):
            reasons[cell.state, feature, cell.reason].append(session)
        if session in page.participants and _lacks(cell):
            without.add(session)
        elif session in page.participants and cell.state is CellState.STALE:
            stale.add(session)
        elif session in page.participants and cell.state is CellState.NO_INPUT:
            no_input.add(session)
    order = [CellState.FAILED, CellState.STALE, CellState.NOT_EXTRACTED, CellState.NO_INPUT, CellState.DONE]
    rows += [
        (
            f"{feature} {state}",
            reason or "not extracted yet",
            len(sessions),
            _sessions(page, sessions, f"{feature} {state}{': ' if reason else ''}{reason}"),
        )
        for (state, feature, reason), sessions in sorted(
            reasons.items(), key=lambda item: (order.index(item[0][0]), -len(item[1]))
        )
    ]
    total, hindered = len(page.participants), [session for sessions in obstacles.values() for session in sessions]
    if page.clips is None:
        said = f"None of {counted(total, 'session')} can be trained on yet: 'storyframes index' writes the clip index"
    elif hindered:
        said = f"{len(hindered)} of {counted(total, 'session')} have no clips: {_names(hindered)}"
    else:
        said = f"Each of {counted(total, 'session')} has clips"
    for sessions, what in ((without, "without a feature that was asked for"), (stale, "with a stale feature")):
        if sessions:
            said += f"; {counted(len(sessions), 'session')} {what}: {_names(sorted(sessions))}"
    if no_input:
        said += f"; no input for a feature, which is no fault, in {counted(len(no_input), 'session')}"
    if len(rows) > _LISTED:
        rows = [*rows[:_LISTED], ("…", f"{len(rows) - _LISTED} more reasons are in the table of sessions", "", [])]
    return Answer(
        "training", question, f"{said}.", not (hindered or without or stale), None,
        ("what", "why", "sessions", "which"), rows,
    )  # fmt: skip


# --- is any feature missing somewhere ---


def _coverage(page: StudyPage) -> Answer:
    question, matrix = "Is any feature missing somewhere?", page.facts.matrix
    rows, missing, worst, without_input = [], [], None, 0
    shares: list[float] = []
    sessions = [session for session in matrix.sessions if session != STORIES]
    for stored in matrix.features:
        cells = {session: matrix.cells[session, stored] for session in sessions}
        asked = {session: cell for session, cell in cells.items() if cell.state is not CellState.NOT_ASKED}
        lacking = [session for session, cell in asked.items() if _lacks(cell)]
        no_input = sum(cell.state is CellState.NO_INPUT for cell in asked.values())
        without_input += no_input
        measured = {session: cell.measured for session, cell in asked.items() if cell.measured is not None}
        feature, track = FeatureName(stored).feature, FeatureName(stored).track
        name = feature if track == MAIN else f"{feature} of {track}"
        shares += measured.values()
        least: object = ""
        if measured:
            session = min(measured, key=lambda each: measured[each] or 0.0)
            least = [Link(f"{session}: {measured[session]:.1%}", moment(session) if session in page.summaries else "")]
            worst = min(filter(None, (worst, (measured[session], session, name))))
        mean = f"{np.mean(list(measured.values())):.1%}" if measured else ""
        with_input = len(asked) - no_input
        rows.append((name, f"{with_input - len(lacking)} of {with_input}", mean, least, no_input or ""))
        if lacking:
            missing.append(f"{name} in {len(lacking)}")
    if not rows:
        return Answer("coverage", question, "Nothing was asked for and nothing has been extracted.")
    said = "No: every feature that was asked for is there"
    if missing:
        more = f" and {len(missing) - 5} more features" if len(missing) > 5 else ""
        said = f"Yes, of {counted(len(sessions), 'session')}: {', '.join(missing[:5])}{more}"
    if worst:
        share, session, name = worst
        fewest = f", the fewest in {session} ({name}: {share:.1%})" if share < 1 else ""
        said += f"; on average {np.mean(shares):.1%} of a feature's rows are measurements{fewest}"
    if without_input:
        said += f"; without input in the session, which is no fault: {counted(without_input, 'cell')}"
    headings = ("feature", "sessions with it", "measured, mean", "measured, least", "without input")
    return Answer("coverage", question, f"{said}.", not missing, None, headings, rows)


# --- what is wrong with the recordings ---


def _quality(page: StudyPage) -> Answer:
    question = "What is wrong with the recordings?"
    by_rule: dict[Rule, dict[str, list[FindingSummary]]] = {}
    for session, summary in page.summaries.items():
        for finding in summary.findings:
            by_rule.setdefault(finding.rule, {}).setdefault(session, []).append(finding)
    total = len(page.summaries)
    unlooked = {
        rule: sum(rule in summary.not_looked_at for summary in page.summaries.values()) for rule in Rule
    }  # fmt: skip
    left = ", ".join(f"{rule} in {count} of {counted(total, 'session')}" for rule, count in unlooked.items() if count)
    unjudged = f" Not looked at, because a track lacks what the rule judges: {left}." if left else ""
    if blank := [session for session, summary in page.summaries.items() if summary.unjudged]:
        unjudged += f" Of {counted(len(blank), 'session')} a track was not judged at all: {_names(blank)}."
    if not by_rule:
        if not page.facts.bytes:
            return Answer("quality", question, "Nothing has been extracted, and nothing was judged.")
        if not unjudged:
            return Answer("quality", question, "No rule is broken in any session.", good=True)
        return Answer("quality", question, f"No finding by the rules that had something to look at.{unjudged}")
    ordered = sorted(by_rule.items(), key=lambda item: -len(item[1]))
    affected = {session for sessions in by_rule.values() for session in sessions}
    parts = ", ".join(f"{rule} in {len(sessions)}" for rule, sessions in ordered)
    said = f"{len(affected)} of {counted(total, 'session')} with a finding: {parts}."
    rows = []
    for rule, sessions in ordered:
        findings = [finding for of_session in sessions.values() for finding in of_session]
        seconds = sum(finding.seconds for finding in findings)
        rows.append((rule, len(sessions), len(findings), f"{seconds:.1f}", _moments(sessions)))
    headings = ("rule", "sessions", "findings", "seconds listed", "worst moments")
    chart = findings_chart({rule: len(sessions) for rule, sessions in ordered}, total, said)
    return Answer("quality", question, said + unjudged, False, chart, headings, rows)


def _moments(sessions: Mapping[str, Sequence[FindingSummary]]) -> list[Link]:
    """The longest stretch of each session, the longest three of these; a session where findings have no times."""
    spans = [
        (stop - start, session, finding, (start, stop))
        for session, findings in sessions.items()
        for finding in findings
        for start, stop in finding.worst
    ]
    longest = sorted(spans, key=lambda span: -span[0])[:_NAMED]
    links = [
        Link(
            f"{session}{'' if finding.track == MAIN else f' {finding.track}'} {span[0]:.2f} – {span[1]:.2f} s",
            moment(session, finding.chart, span),
        )
        for _, session, finding, span in longest
    ]
    return links or [Link(session, moment(session)) for session in list(sessions)[:_NAMED]]


# --- who differs from the others ---


def _differing(page: StudyPage) -> Answer:
    question = "Who differs from the others?"
    by_measure: dict[str, dict[str, list[tuple[float, str]]]] = defaultdict(lambda: defaultdict(list))
    for session, summary in page.summaries.items():
        values = dict(summary.typical)
        if seconds := page.facts.lengths_s.get(session):
            values = {"length (min)": seconds / 60, **values}
            if session in page.facts.words:
                values["words a minute"] = 60 * page.facts.words[session] / seconds
        for measure, value in values.items():
            by_measure[measure][page.participants.get(session, session)].append((value, session))
    people = {person for of_person in by_measure.values() for person in of_person}
    if len(people) < _PARTICIPANTS:
        few = f"{counted(len(people), 'participant')} with features: too few to say, it takes {_PARTICIPANTS}."
        return Answer("people", question, few)
    drawn, rows, far = {}, [], []
    for measure, of_person in by_measure.items():
        typical = {person: float(np.median([value for value, _ in values])) for person, values in of_person.items()}
        scores = modified_z(typical)
        if len(typical) < _PARTICIPANTS or not scores:
            continue
        outliers = sorted((one for one in scores if abs(scores[one]) > OUTLIER), key=lambda one: -abs(scores[one]))
        low, middle, high = np.percentile(list(typical.values()), (25, 50, 75))
        links = []
        for person in outliers[:_NAMED]:
            sign = np.sign(scores[person])
            value, session = max(of_person[person], key=lambda each: sign * each[0])
            links.append(Link(f"{person}: {typical[person]:.3g} ({session}: {value:.3g})", moment(session)))
            far.append(
                (
                    abs(scores[person]),
                    f"{person} by {measure}: {typical[person]:.3g}, half of them {low:.3g} to {high:.3g}",
                )
            )
        drawn[measure] = scores
        quartiles = (f"{low:.3g}", f"{middle:.3g}", f"{high:.3g}")
        rows.append((measure, len(typical), *quartiles, len(outliers), links))
    rows.sort(key=lambda row: -row[5])
    odd = {person for scores in drawn.values() for person, score in scores.items() if abs(score) > OUTLIER}
    if not drawn:
        return Answer(
            "people",
            question,
            f"No measure can be compared: it takes {_PARTICIPANTS} participants and values that differ.",
        )
    said = f"Nobody of {counted(len(people), 'participant')} by {counted(len(drawn), 'measure')}."
    if far:
        said = f"{len(odd)} of {counted(len(people), 'participant')}, most of all {max(far)[1]}."
    headings = ("measure", "participants", "25 %", "median", "75 %", "outliers", "the farthest")
    chart = spread_chart(drawn, OUTLIER, said)
    return Answer("people", question, said, None if far else True, chart, headings, rows)


def modified_z(values: Mapping[str, float]) -> dict[str, float]:
    """How far each value is from the median, in robust standard deviations: 1.4826 median absolute deviations.

    Where more than half of the values are equal that is 0, and 1.2533 mean absolute deviations take its place (Iglewicz
    and Hoaglin). The deviation is at least a hundredth of the median, so that among equal values a trifle is no
    outlier; empty where all are 0.
    """
    numbers = np.array(list(values.values()))
    middle = float(np.median(numbers))
    deviations = np.abs(numbers - middle)
    robust = 1.4826 * float(np.median(deviations)) or 1.2533 * float(np.mean(deviations))
    spread = max(robust, _SPREAD_FLOOR * abs(middle))
    return {name: (value - middle) / spread for name, value in values.items()} if spread else {}


# --- do the clocks agree ---


def _clocks(page: StudyPage, study: Study) -> Answer:
    question = "Do the clocks agree?"
    others = [(session, track) for session, tracks in study.tracks.items() for track in tracks if track != MAIN]
    tracks = []  # offset (s), largest drift (ppm), standard error (s), track: of those on another clock
    for session, track in others:
        clock = study.clock(session, track)
        if not clock.is_the_sessions:
            drift = max(clock.drifts_ppm, key=abs, default=0.0)
            error = study.clock_errors.get(session, {}).get(clock.name)
            link = Link(f"{session} {track}", moment(session) if session in page.summaries else "")
            tracks.append((float(clock.to_session(0.0)), drift, "" if error is None else f"{error:.4f}", link))
    tracks.sort(key=lambda track: -abs(track[1]))
    if tracks:
        late, fast = max(tracks, key=lambda track: abs(track[0])), tracks[0]
        parts = [
            f"{len(tracks)} of {counted(len(others), 'track')} beside the sessions' own files run on another clock and "
            f"are converted: the largest offset is {late[0]:.3f} s ({late[3].text}), the largest drift {fast[1]:.0f} "
            f"ppm, {abs(fast[1]) * 3600e-6:.2f} s an hour ({fast[3].text})"
        ]
    elif others:
        parts = [f"All {counted(len(others), 'track')} are said to run on the clock of their sessions"]
    else:
        parts = ["No session has a second camera or microphone, so there is one clock"]
    doubts = {
        "picture and sound do not begin or end together": _with_rule(page, Rule.LENGTHS),
        "frame times jump": _with_rule(page, Rule.JUMP),
    }
    parts += [f"{what} in {counted(len(odd), 'session')}: {_names(odd)}" for what, odd in doubts.items() if odd]
    said = "; ".join(parts) + "."
    chart = clocks_chart([(link.text, offset, drift) for offset, drift, _, link in tracks], said) if tracks else None
    rows = [([link], f"{offset:.3f}", f"{drift:.1f}", error) for offset, drift, error, link in tracks[:_LISTED]]
    headings = ("track", "its second 0 (s)", "drift (ppm)", "standard error (s)")
    return Answer("clocks", question, said, not any(doubts.values()), chart, headings, rows)


def _with_rule(page: StudyPage, rule: Rule) -> list[str]:
    """The sessions with a finding by this rule."""
    return [
        session
        for session, summary in page.summaries.items()
        if any(finding.rule is rule for finding in summary.findings)
    ]


# --- do the raters agree ---


def _raters(study: Study) -> Answer:
    question = "Do the raters agree?"
    rows, shares = [], []
    for name, scheme in sorted(study.schemes.items()):
        if scheme.private or scheme.type in (SchemeType.TEXT, SchemeType.CURVE):
            continue
        pairs = [
            (_distance(scheme, one, other), label, f"{_said(one)} and {_said(other)}")
            for label, values in _units(study, name)
            for one, other in combinations(values.values(), 2)
        ]
        if not pairs:
            continue
        distances = [distance for distance, *_ in pairs]
        same = distances.count(0) / len(pairs)
        shares.append((same, f"{name} {same:.0%} of {counted(len(pairs), 'pair')}"))
        raters = {label.rater_id for label in study.labels if label.scheme == name} - {None}
        mean = "" if scheme.type is SchemeType.NOMINAL else f"{np.mean(distances):.2f}"
        rows.append((name, len(raters), len(pairs), f"{same:.1%}", mean, _farthest(pairs)))
    if not rows:
        said = "Nothing to compare: no two raters labelled the same part of a session in a scheme that is not private."
        return Answer("raters", question, said)
    said = "The same value was given, least often first, in " + ", ".join(text for _, text in sorted(shares)[:4])
    headings = ("scheme", "raters", "pairs of labels", "the same value", "mean difference", "farthest apart")
    return Answer("raters", question, f"{said}; not corrected for chance.", None, None, headings, rows)


def _distance(scheme: Scheme, one: float | str, other: float | str) -> float:
    """How far two values are apart: of numbers their difference, of steps with names theirs, of names 1."""
    if isinstance(one, str) or isinstance(other, str):
        steps = scheme.labels if scheme.type is SchemeType.ORDINAL else ()
        return abs(steps.index(str(one)) - steps.index(str(other))) if steps else float(one != other)
    return abs(one - other)


def _farthest(pairs: Sequence[tuple[float, Label, str]]) -> Link | str:
    """The pair of values that are farthest apart, and where; empty where all are the same."""
    distance, label, values = max(pairs, key=lambda pair: pair[0])
    if not distance:
        return ""
    on_timeline = label.start_s is not None and label.end_s is not None and label.track is None
    times = (label.start_s or 0.0, label.end_s or 0.0) if on_timeline else ()
    return Link(f"{label.session_id}: {values}", moment(label.session_id, "timeline", times))


def _said(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _units(study: Study, scheme: str) -> Iterator[tuple[Label, dict[str, float | str]]]:
    """Each part of a session that two raters labelled, as one of its labels, with the value of each rater."""
    units: dict[tuple[object, ...], tuple[Label, dict[str, float | str]]] = {}
    for label in study.labels:
        if label.scheme == scheme and label.rater_id is not None:
            key = (label.session_id, label.target, label.start_s, label.end_s, label.track, label.person_id)
            units.setdefault(key, (label, {}))[1][label.rater_id] = label.value
    return (unit for unit in units.values() if len(unit[1]) > 1)
