"""``storyframes dyads``: how two people of a session move together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows import progress_bar
from flows.cli import (
    LOOK,
    JsonOption,
    StoreArgument,
    cannot_write,
    console,
    error_console,
    fail,
    listed,
    refused_if,
    show_json,
    usage_errors,
)

if TYPE_CHECKING:
    import pandas as pd

    from storyframes import FeatureStore
    from storyframes_dyads.circular_null import RankedEstimate
    from storyframes_dyads.signals import SignalName, SignalPair

Between = Annotated[
    list[str],
    typer.Option(
        metavar="SIGNAL",
        help="A signal of one person: <feature>[@<track>]:<column>, such as openface@a:AU12_r; repeat.",
    ),
]
And = Annotated[
    list[str],
    typer.Option(
        "--and", metavar="SIGNAL", help="The other person's signal, one for each --between in the same order."
    ),
]
Sessions = Annotated[list[str] | None, typer.Option(help="Only these sessions: a comma list, or repeat.")]
WindowS = Annotated[float, typer.Option(help="Seconds of a window.", min=0.1)]
StrideS = Annotated[float, typer.Option(help="Seconds from the start of a window to the next one's.", min=0.01)]
MaxLagS = Annotated[float, typer.Option(help="The largest lag in each direction, seconds.", min=0)]
MinShared = Annotated[
    float, typer.Option(help="The smallest share of a window that must be measured for both.", min=0.01, max=1)
]
Rate = Annotated[float | None, typer.Option(help="Points per second; by default the slower feature's rate.", min=0.1)]

app = typer.Typer(
    help="Measure how two people move and speak together.", rich_help_panel="Analyse", no_args_is_help=True, **LOOK
)


@app.command(epilog="Next: storyframes status STORE")
def turns(
    store: StoreArgument,
    speech: Annotated[
        list[str],
        typer.Option(
            metavar="FEATURE",
            help="Words of two speakers (glove), or a feature of each person (glove@a and glove@b, vad@a and vad@b).",
        ),
    ],
    session: Sessions = None,
    column: Annotated[str | None, typer.Option(help="The column of a probability of speech.")] = None,
    threshold: Annotated[float, typer.Option(help="The lowest probability that counts as speech.", min=0, max=1)] = 0.5,
    join_s: Annotated[float, typer.Option(help="Seconds up to which a silence is not a pause.", min=0)] = 0.18,
    backchannel_s: Annotated[float, typer.Option(help="The longest backchannel, seconds.", min=0)] = 1.0,
    interruption_s: Annotated[float, typer.Option(help="The shortest overlap that interrupts.", min=0)] = 0.2,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for persons.csv, turns.csv and events.csv (mode 0600).")
    ] = None,
    as_feature: Annotated[
        bool, typer.Option("--as-feature", help="Also write the feature turns into the store: who speaks, each 0.1 s.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Measure turns, gaps, overlaps, interruptions and backchannels of two people."""
    from storyframes import FeatureStore
    from storyframes.store import compact
    from storyframes_dyads.shown import person_lines
    from storyframes_dyads.signals import SignalError
    from storyframes_dyads.speech import SpeechOptions, speech_of
    from storyframes_dyads.turn_feature import publish_turns
    from storyframes_dyads.turns import summaries, turns_of
    from storyframes_dyads.written import turn_tables

    _check_new(out)
    features = list(listed("--speech", speech))
    options = SpeechOptions(column, threshold, join_s)
    with usage_errors():
        opened = FeatureStore(store)
        chosen = _sessions(opened, features, listed("--session", session), store)
        results, refused = {}, {}
        for name in chosen:
            try:
                spoken = speech_of(opened, name, features, options)
                if as_feature:
                    publish_turns(opened, name, features, options, spoken)
            except SignalError as error:
                refused[name] = str(error)
                continue
            found, events = turns_of(spoken.talkspurts, backchannel_s, interruption_s)
            results[name] = summaries(spoken.talkspurts, spoken.known, found, events), found, events
        if as_feature:
            compact(opened.storage, [(name, "turns") for name in results])
    if not results:
        fail("no session has turns: " + "; ".join(refused.values()), 2)
    tables = turn_tables(results)
    _write(out, tables)
    if json:
        show_json({**{name: table.to_dict("records") for name, table in tables.items()}, "refused": refused})
    else:
        console().print(person_lines(tables["persons"]))
    _end(refused)


@app.command(epilog="Next: storyframes status STORE")
def synchrony(
    store: StoreArgument,
    between: Between,
    and_: And,
    session: Sessions = None,
    window_s: WindowS = 10.0,
    stride_s: StrideS = 1.0,
    max_lag_s: MaxLagS = 3.0,
    min_shared: MinShared = 0.5,
    rate: Rate = None,
    pseudo_dyads: Annotated[
        int, typer.Option(help="Number of random pairings of people from different sessions; 0 for none.", min=0)
    ] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random pairings.")] = 0,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="MEASURE", help="Also average, coherence, recurrence, information: a list, or repeat."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for sessions.csv, windows.csv and study.csv (mode 0600).")
    ] = None,
    workers: Annotated[int, typer.Option(help="Sessions at once.", min=1)] = 1,
    json: JsonOption = False,
) -> None:
    """Compute the windowed lagged cross-correlation of two people's signals, and compare it with chance."""
    from storyframes import FeatureStore
    from storyframes_dyads import synchrony_tables as tables
    from storyframes_dyads.other_measures import MEASURES
    from storyframes_dyads.shown import session_lines, study_lines
    from storyframes_dyads.signals import SignalError
    from storyframes_dyads.synchrony import SessionSynchrony, SynchronySettings, pseudo_dyad_null, synchrony_of
    from storyframes_dyads.written import groups_of, track_clocks

    _check_new(out)
    measures = listed("--also", also)
    if unknown := [name for name in measures if name not in MEASURES]:
        fail(f"--also {unknown[0]}: there is no such measure; there are {', '.join(MEASURES)}", 2)
    settings = SynchronySettings(window_s, stride_s, max_lag_s, min_shared, rate, pseudo_dyads, seed, measures)
    with usage_errors(), refused_if(SignalError), progress_bar("correlating") as progress:
        opened = FeatureStore(store)
        asked, chosen = _asked(opened, between, and_, listed("--session", session), store)
        results: list[SessionSynchrony] = []
        refused: dict[str, str] = {}
        ranked: dict[SignalPair, RankedEstimate] = {}
        for name, found in synchrony_of(opened, chosen, asked, settings, workers, progress):
            if isinstance(found, SignalError):
                refused[name] = str(found)
            else:
                results += found
        if not results:
            fail("no session can be measured: " + "; ".join(refused.values()), 2)
        results.sort(key=lambda result: chosen.index(result.session_id))
        refused |= tables.lacking_pairs(results)
        groups = groups_of(opened)
        measured = dict.fromkeys(result.session_id for result in results)
        if pseudo_dyads and len(measured) > 1:
            if unknown := [name for name in measured if name not in groups]:
                those = f"{', '.join(unknown)} ({len(unknown)} of {len(measured)} sessions) in the null of pseudo-dyads"
                refused[those] = "the clip index does not say who took part; 'storyframes index STUDY STORE' writes it"
            try:
                ranked = pseudo_dyad_null(opened, results, settings, groups, progress, workers)
            except SignalError as error:
                refused["the null of pseudo-dyads"] = str(error)
    sessions = tables.session_table(results, track_clocks(opened))
    study = tables.study_table(sessions[sessions["session_id"].isin(list(groups))], ranked)
    _write(out, {"sessions": sessions, "windows": tables.window_table(results), "study": study})
    if json:
        content = {"sessions": sessions.to_dict("records"), "study": study.to_dict("records")}
        show_json({**content, "refused": refused, "settings": vars(settings)})
    else:
        for part in [*session_lines(sessions), *study_lines(study)]:
            console().print(part)
    _end(refused)


@app.command(epilog="Next: storyframes dyads --help")
def compare(
    table: Annotated[Path, typer.Argument(help="A table written by synchrony or turns.", metavar="TABLE")],
    value: Annotated[str, typer.Option(metavar="COLUMN", help="The column to compare: synchrony, latency_s_median, …")],
    groups: Annotated[Path, typer.Option(metavar="CSV", help="A table with a row for each session_id.")],
    by: Annotated[str, typer.Option(metavar="COLUMN", help="The column of --groups with a session's group.")],
    levels: Annotated[
        list[str] | None, typer.Option(help="The two groups to compare if there are more, with a comma between them.")
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="The columns of --groups with people; sessions that share a person are one cluster."
        ),
    ] = None,
    person: Annotated[str | None, typer.Option(help="Only this person's rows of TABLE.")] = None,
    seed: Annotated[int, typer.Option(help="Of the permutations.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A new folder for comparison.csv (mode 0600).")] = None,
    json: JsonOption = False,
) -> None:
    """Compare two groups of sessions; sessions of the same people are one cluster."""
    from storyframes_dyads import comparison
    from storyframes_dyads.shown import comparison_lines

    _check_new(out)
    people = listed("--cluster", cluster) or ("participant_id",)
    rows, refused = {}, {}
    with usage_errors(), refused_if(comparison.ComparisonError):
        values = comparison.session_values(table, value, person)
        grouped = comparison.read_groups(groups, by, people, listed("--levels", levels))
        for signals, of_sessions in values.items():
            try:
                rows[signals] = comparison.compare(of_sessions, grouped, seed)
            except comparison.ComparisonError as error:
                refused[signals or value] = str(error)
    if not rows:
        fail(f"no groups can be compared: {'; '.join(f'{name}: {reason}' for name, reason in refused.items())}", 2)
    compared = comparison.comparison_table(rows)
    _write(out, {"comparison": compared})
    if json:
        show_json({"comparison": compared.to_dict("records"), "refused": refused})
    else:
        console().print(comparison_lines(compared, value))
    _end(refused)


@app.command("store", epilog="Next: storyframes status STORE")
def store_(
    store: StoreArgument,
    name: Annotated[str, typer.Option(help="The feature is called synchrony_<name>.")],
    between: Between,
    and_: And,
    session: Sessions = None,
    window_s: WindowS = 10.0,
    stride_s: StrideS = 1.0,
    max_lag_s: MaxLagS = 3.0,
    min_shared: MinShared = 0.5,
    rate: Rate = None,
) -> None:
    """Write synchrony into the store as a feature with a row per window; skip what is up to date."""
    from storyframes import FeatureStore
    from storyframes.store import SessionTimes, StoreError, compact
    from storyframes_dyads.signals import SignalError
    from storyframes_dyads.synchrony import SynchronySettings
    from storyframes_dyads.window_feature import derivation, publish_windows

    settings = SynchronySettings(window_s, stride_s, max_lag_s, min_shared, rate)
    refused: dict[str, str] = {}
    published = []
    with usage_errors(), refused_if(SignalError):
        opened = FeatureStore(store)
        asked, chosen = _asked(opened, between, and_, listed("--session", session), store)
        made, clocks = derivation(name, asked, settings), SessionTimes.stored_clocks(opened)
        with progress_bar("correlating") as progress:
            for number, session_id in enumerate(chosen, 1):
                progress(session_id, number, len(chosen))
                try:
                    if made.is_current(opened, session_id, clocks):
                        continue
                    publish_windows(opened, session_id, name, asked, settings)
                    published.append((session_id, made.spec.name))
                except (SignalError, StoreError) as error:
                    refused[session_id] = str(error)
                opened.let_go(session_id)
        compact(opened.storage, published)
    current = len(chosen) - len(published) - len(refused)
    console().print(f"{made.spec.name}: {len(published)} published, {current} up to date", markup=False)
    _end(refused)


def _asked(
    store: FeatureStore, between: Sequence[str], and_: Sequence[str], sessions: Sequence[str], location: str
) -> tuple[list[tuple[SignalName, SignalName]], Sequence[str]]:
    """The pairs of names, and the sessions that were asked for or that have their features."""
    from storyframes_dyads.signals import SignalName

    if len(between) != len(and_):
        fail(f"{len(between)} --between and {len(and_)} --and: each --between needs its --and, in the same order", 2)
    asked = [(SignalName.parse(one), SignalName.parse(other)) for one, other in zip(between, and_, strict=True)]
    return asked, _sessions(store, [name.feature for names in asked for name in names], sessions, location)


def _check_new(out: Path | None) -> None:
    if out is not None and out.exists():
        fail(f"{out} exists: name a folder that does not", 2)


def _sessions(store: FeatureStore, features: Sequence[str], asked: Sequence[str], location: str) -> Sequence[str]:
    """The sessions that were asked for, or all that have the features."""
    chosen = asked or tuple(name for name in store.sessions if all(store.has(name, feature) for feature in features))
    if not chosen:
        fail(f"{location}: no session has all of {', '.join(sorted(set(features)))}", 2)
    return chosen


def _write(out: Path | None, tables: Mapping[str, pd.DataFrame]) -> None:
    from storyframes_dyads.written import write_tables

    if out is not None:
        try:
            write_tables(out, tables)
        except OSError as error:
            cannot_write(out, error)


def _end(refused: Mapping[str, str]) -> None:
    """Name the sessions that are left out; they make the exit code 1."""
    for name, reason in refused.items():
        error_console().print(f"{name} is left out: {reason}", markup=False)
    if refused:
        raise typer.Exit(1)
