"""The commands to begin with: ``doctor`` (what is on this machine), ``plan`` (what a study will take).

And those about a study's tables: ``init``, ``check``, ``synthesize``.
"""

from __future__ import annotations

import json as jsonlib
import os
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import filesize
from rich.markup import escape
from rich.table import Table

from flows.cli.terminal import (
    ConfigOption,
    JsonOption,
    Partly,
    StudyArgument,
    console,
    error_console,
    fail,
    fail_with_problems,
    finite_json,
    listed,
    not_read,
    problems_table,
    show_json,
    usage_errors,
)
from flows.doctor.findings import Finding, State
from flows.progress import progress_bar
from storyframes.spec import MAIN
from tasks.inspect.formatting import counted
from tasks.media.synthetic_study import Shape

if TYPE_CHECKING:
    from tasks.planning.forecast import Forecast
    from tasks.study.first_tables.sessions_from_files import Made
    from tasks.study.labels import Label
    from tasks.study.load import Study
    from tasks.study.rows import Curve


def plan(
    study: Annotated[Path, typer.Argument(help="Folder of the study's tables (docs/study.md).")],
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processors that will extract; by default those of this machine."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=2, help="Seconds of a session to measure.")] = 10,
    session: Annotated[list[str] | None, typer.Option(help="Only this session; repeat for more.")] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Only these features, with commas between them; repeat for more.")
    ] = None,
    track: Annotated[
        list[str] | None, typer.Option(help="Only this track, main for the sessions' own files; repeat for more.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Predict how long a study takes here, and how much disk it needs.

    The rates are measured now, on the first seconds of a complete session and of each other track, in a temporary
    folder that is removed. Nothing is written to a feature store.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in a worker; read when torch is imported
    from flows.clusters.gpu_sharing import processes_of
    from flows.settings import load_settings
    from tasks.planning.forecast import forecast, measure_study
    from tasks.planning.parts import gpu_needs
    from tasks.planning.sample import SampleError
    from tasks.planning.selection import Selection
    from tasks.study.load import StudyFileError, load_study

    with usage_errors():
        settings = load_settings(config)
        loaded = load_study(study, recordings=settings.recording.root)
        loaded.require_recordings()
    if not loaded.sessions:
        fail(f"{study} has no sessions: there is nothing to plan", 2)

    def fault(whose: str, reason: str) -> None:
        error_console().print(f"[yellow]{escape(whose)}:[/] {escape(reason)}")

    names = listed("--features", features) or None
    selection = Selection(tuple(session) if session else None, names, tracks=tuple(track) if track else None)
    with usage_errors(), progress_bar("measuring") as progress:
        try:
            measured = measure_study(loaded, settings, seconds, progress, fault, selection)
        except (SampleError, StudyFileError) as error:
            fail(str(error), 1)
    result = forecast(measured.rates, measured.recordings, workers or len(os.sched_getaffinity(0)))
    on_gpu = gpu_needs(settings, names or settings.features)
    sharing = processes_of(settings.cluster, on_gpu) if on_gpu else 0
    if json:
        print(jsonlib.dumps(asdict(result) | {"processes_per_gpu": sharing}, indent=2))  # noqa: T201
        return
    shown = console()
    shown.print(forecast_table(result))
    shown.print(summary(result))
    if sharing:
        shown.print(f"Extraction runs in {counted(sharing, 'worker')} for each GPU ([cluster] gpus, sessions_per_gpu).")
    for feature in result.features:
        if feature.reason:
            shown.print(f"[yellow]{escape(feature.feature)} is not in these sums:[/] {escape(feature.reason)}")


def forecast_table(forecast: Forecast) -> Table:
    """Feature by feature."""
    table = Table()
    table.add_column("feature")
    for heading in ("CPU-s per minute", "CPU time, all sessions", "disk"):
        table.add_column(heading, justify="right")
    for feature in forecast.features:
        if feature.reason:
            table.add_row(escape(feature.feature), "not measured", "-", "-")
        else:
            rate = f"{feature.cpu_s_per_minute:.2f}"
            table.add_row(escape(feature.feature), rate, duration(feature.cpu_s), filesize.decimal(feature.bytes))
    return table


def summary(forecast: Forecast) -> str:
    """The answer in two sentences."""
    sessions, workers = counted(forecast.sessions, "session"), counted(forecast.workers, "worker")
    tracks = f" and {counted(forecast.tracks, 'track')} besides their own files" if forecast.tracks else ""
    return (
        f"{sessions}{tracks}, {duration(forecast.recorded_s)} of recordings: about {duration(forecast.wall_s)} with "
        f"{workers}, if nothing else runs here;\n{duration(forecast.cpu_s)} of processor time and "
        f"{filesize.decimal(forecast.bytes)} of disk."
    )


def duration(seconds: float) -> str:
    """As a person says it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def doctor(
    store: Annotated[str | None, typer.Argument(metavar="STORE", help="A feature store to look at as well.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List installed engines, models, programs and disks, and how to install or repair what is missing.

    Nothing is downloaded, started or written. The exit code is 1 if a feature of the configuration or the feature store
    cannot be used here.
    """
    if not hasattr(os, "sched_getaffinity"):
        fail("doctor examines what extraction needs, and that is done on Linux alone (docs/install.md)", 2)
    from flows.doctor.machine import examine

    with usage_errors(), error_console().status("looking"):
        findings = examine(store, config)
    if json:
        print(doctor_json(findings))  # noqa: T201
    else:
        console().print(doctor_table(findings))
    if any(finding.is_fault for finding in findings):
        raise typer.Exit(1)


_STYLE = {State.HERE: "green", State.GAP: "yellow", State.FAULT: "bold red"}


def doctor_table(findings: Sequence[Finding]) -> Table:
    """One row for each thing that was looked at; below a gap what to do about it."""
    table = Table()
    for heading in ("", "about", "what there is"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        advice = f"\n[bold]→[/] {escape(finding.advice)}" if finding.advice else ""
        state = f"[{_STYLE[finding.state]}]{finding.state}[/]"
        table.add_row(state, escape(finding.about), f"{escape(finding.what)}{advice}")
    return table


def doctor_json(findings: Sequence[Finding]) -> str:
    """The same for scripts."""
    works = not any(finding.is_fault for finding in findings)
    return finite_json({"works": works, "findings": [finding.to_json() for finding in findings]})


def check(
    study: StudyArgument,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Check the tables only; open no other file.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Show every finding; by default similar ones share a line.")
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="A feature store of the study; name its sessions that the study lacks.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Validate a study's tables and open every file that they name; report every problem at once.

    Findings that differ only in names and numbers are shown as one, with how many there are; --json has every one.
    The exit code is 2 if the tables are not valid, and 1 if a file cannot be used.
    """
    from flows.settings import load_settings
    from storyframes.store.layout import open_store
    from storyframes.store.study import Forgotten, describe_left, read_forgotten
    from tasks.inspect.study_check import check_study, label_problems
    from tasks.study.load import StudyError, in_order, read_study

    with usage_errors(), progress_bar("checking") as progress:
        settings = load_settings(config)
        if tables_only:
            reading = read_study(study)
            loaded, problems = reading.study, in_order([*reading.problems, *reading.session_problems])
        else:
            loaded, problems = check_study(study, settings, progress, settings.labels)
        problems += label_problems(loaded, settings.labels, problems)
        is_valid = all(problem.is_of_file for problem in problems)
        if not is_valid:
            if json:
                show_json({"valid": False, "problems": [asdict(problem) for problem in problems]})
                raise typer.Exit(2)
            for line in not_read(loaded, every=every):  # the column that was meant, perhaps
                error_console().print(line)
            fail_with_problems(StudyError(study, problems), every=every)
        left = _left_in(store, loaded.sessions) if store is not None else {}
    if json:
        content = {"sessions": len(loaded.sessions), "excluded": loaded.excluded, "remarks": loaded.remarks}
        content["problems"] = [asdict(problem) for problem in problems]
        content |= {"not_in_study": left} if store is not None else {}
        show_json({"valid": True, **content, "not_read": loaded.unread})
        if problems:
            raise typer.Exit(1)
        return
    shown = console()
    shown.print(f"[green]valid[/] {escape(str(study))}{' (its tables; no file was opened)' if tables_only else ''}")
    shown.print(study_table(loaded, every=every))
    forgotten = read_forgotten(open_store(store)) if store is not None else Forgotten()
    for line in describe_left(left, forgotten):
        shown.print(f"[yellow]{escape(line)}[/]")
    if problems:
        said = "what needs a broken or missing file is not extracted; a doubled recording is, for each of its sessions"
        error_console().print(f"[bold yellow]set aside[/]: {said}")
        error_console().print(problems_table(problems, every=every))
        error_console().print("put a whole copy of each in its place, or take its row out of the table")
        raise typer.Exit(1)


def _left_in(store: str, of_study: Collection[str]) -> dict[str, str]:
    """The sessions of a store that the study does not have."""
    from storyframes.store.layout import open_store
    from storyframes.store.record_status import scan
    from storyframes.store.study import sessions_left

    storage = open_store(store)
    return sessions_left(storage, {status.session_id for status in scan(storage)}, of_study)


def study_table(study: Study, *, every: bool = True) -> Table:
    """What a study holds, and what should be looked at: every remark, or those that are alike as one."""
    from tasks.study.problems import grouped_remarks

    table = Table(show_header=False)
    ratings = Counter(rating.session_id for rating in study.ratings)
    without = {
        "video": "no frames, and windows in seconds",
        "audio": "sound from the video's own track",
        "transcript": "no glove, no sbert",
        "openface": "no recorded OpenFace values",
    }
    people = {session.participant_id for session in study.sessions.values()}
    people |= {person.participant_id for person in study.persons if person.participant_id}
    counts = {
        "sessions": len(study.sessions),
        "participants": len(people),
        "phases": len(study.phases),
        "stories": len(study.stories),
        "ratings": len(study.ratings),
        "survey scores": len(study.surveys),
        "persons": len(study.persons),
        "clocks": sum(map(len, study.clocks.values())),
    }
    for name, count in counts.items():
        if count:
            table.add_row(name, str(count))
    for name, what in _labels(study):
        table.add_row(name, escape(what))
    if tracks := Counter(track for of_session in study.tracks.values() for track in of_session if track != MAIN):
        table.add_row("tracks", ", ".join(f"{name} of {counted(count, 'session')}" for name, count in tracks.items()))
    for column, meaning in without.items():
        having = [session for session in study.sessions.values() if session.video or column != "audio"]
        count = sum(getattr(session, column) is None for session in having)
        if count:
            table.add_row(f"without {column}", f"{count} ({meaning})")
    unrated = sum(session_id not in ratings for session_id in study.sessions)
    if unrated and study.ratings:
        table.add_row(
            "without ratings", f"{unrated} (their clips have none, and are left out where nothing labels them)"
        )
    phased = {phase.session_id for phase in study.phases}
    unphased = sum(session_id not in phased for session_id in study.sessions)
    if unphased:
        clips = "no clips: a clip lies inside a phase" if study.phases else "all of a session is one phase"
        table.add_row("without phases", f"{unphased} ({clips})")
    for name, columns in study.unread.items():
        table.add_row(f"not read of {name}", escape(", ".join(columns)))
    for remark in study.remarks if every else grouped_remarks(study.remarks):
        table.add_row("look at", escape(remark))
    if kept := sum(study.schemes[curve.scheme].private for curve in study.curves):
        table.add_row("private curves", f"{kept} (they stay out of the feature store)")
    return table


def _labels(study: Study) -> Iterator[tuple[str, str]]:
    """For each scheme with labels (the table ratings is counted separately), its type and how many labels it has."""
    labels: list[Label | Curve] = [*study.labels[len(study.ratings) :], *study.curves]
    for name in dict.fromkeys(label.scheme for label in labels):
        of_scheme = [label for label in labels if label.scheme == name]
        sessions = counted(len({label.session_id for label in of_scheme}), "session")
        raters = len({label.rater_id for label in of_scheme if label.rater_id})
        by = f", by {counted(raters, 'rater')}" if raters else ""
        yield f"labels of {name}", f"{len(of_scheme)} ({study.schemes[name].type}) of {sessions}{by}"


def synthesize(
    folder: Annotated[Path, typer.Argument(help="A new folder for the study.")],
    sessions: Annotated[int, typer.Option(min=1, help="How many sessions.")] = 4,
    seconds: Annotated[float, typer.Option(min=1, help="Length of each.")] = 30,
    seed: Annotated[int, typer.Option(help="Seeds everything that is drawn.")] = 0,
    shape: Annotated[
        Shape, typer.Option(help="A robot and its visitor; or two people, with cameras and microphones on own clocks.")
    ] = Shape.EMPATHIC_STORIES,
) -> None:
    """Make a study of synthetic recordings, for tests, benchmarks and tutorials."""
    from tasks.media.synthesize import SynthesisError, SyntheticStudy, write_study

    errors = error_console()
    plan = SyntheticStudy(sessions=sessions, seconds=seconds, seed=seed, shape=shape)
    with errors.status("synthesizing") as spinner:
        try:
            write_study(folder, plan, lambda name: spinner.update(f"synthesizing {name}"))
        except SynthesisError as error:
            fail(str(error), 2)
    console().print(f"{counted(sessions, 'session')} of {seconds:g} s in {escape(str(folder))}")


def _is_joined(given: bool | None, names: Sequence[str]) -> bool:
    """Whether these files are one recording each, as the option says or the person at the terminal."""
    if given is not None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return bool(given)
    return typer.confirm(f"one recording each: {', '.join(names)}?", default=True, err=True)


def _made_of_data_set(folder: Path, data: Path) -> Made:
    """The study of a BIDS data set, which a plug-in reads."""
    from storyframes.installation import OPTION_COMPANIONS, install_line
    from storyframes.plug_ins import DATA_SETS, PlugInError, PlugIns
    from tasks.study.first_tables.sessions_from_data_set import make_study_of

    try:
        read = PlugIns(DATA_SETS)["bids"]
    except KeyError:
        fail(f"init --bids comes with {OPTION_COMPANIONS['bids']}: {install_line(name=OPTION_COMPANIONS['bids'])}", 2)
    except PlugInError as error:
        fail(f"init --bids: {error}", 2)
    return make_study_of(folder, data, read)


def init(
    folder: Annotated[Path, typer.Argument(help="The study's folder, which has the files; created if absent.")],
    recordings: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Videos, sounds and transcripts together: 'media/*'.")
    ] = None,
    videos: Annotated[str | None, typer.Option(metavar="GLOB", help="Videos only: 'videos/*.mp4'.")] = None,
    audio: Annotated[str | None, typer.Option(metavar="GLOB", help="Sound files with the videos' names.")] = None,
    transcripts: Annotated[str | None, typer.Option(metavar="GLOB", help="Transcripts with the videos' names.")] = None,
    openface: Annotated[str | None, typer.Option(metavar="GLOB", help="OpenFace's output for the videos.")] = None,
    names: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="How recordings are named: '{participant}_{session}_{date}', {track} for a camera or microphone, "
            "* for anything.",
        ),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Add recordings to an existing table; its rows stay as they are.")
    ] = False,
    join: Annotated[
        bool | None,
        typer.Option(
            "--join/--no-join",
            help="Join files with the names of parts (GX010001 and GX020001, x_part1 and x_part2) to one recording; "
            "at a terminal it is asked.",
            show_default=False,
        ),
    ] = None,
    bids: Annotated[
        Path | None,
        typer.Option(metavar="ROOT", help="A BIDS data set (BEP047), whose files stay there; --bids alone."),
    ] = None,
) -> object:
    """Write a study's table of sessions, and a configuration that fits them, from a folder of recordings."""
    from tasks.study.changed_tables import TableChangeError
    from tasks.study.first_tables.sessions_from_files import make_sessions
    from tasks.study.load import SETTINGS_FILE
    from tasks.study.problems import UnusableFileError

    given = {"recording": recordings, "video": videos, "audio": audio, "transcript": transcripts, "openface": openface}
    globs = {column: glob for column, glob in given.items() if glob is not None}
    if bids is not None and (globs or names or update or join is not None):
        fail("--bids ROOT: the data set says which files there are: give no other option", 2)
    if recordings and videos:
        fail("give either --recordings or --videos", 2)
    if not globs or next(iter(globs)) == "openface":
        globs = {"recording": "media/*"} | globs
    first = next(iter(globs.values()))
    errors = error_console()
    with usage_errors():
        if bids is not None:
            folder.mkdir(parents=True, exist_ok=True)
        if not folder.exists():
            media = folder / next(iter(Path(first).parts[:-1]), "")
            media.mkdir(parents=True)
            console().print(f"made {escape(str(media))}: put the recordings there")
            return shlex.join(["storyframes", "init", str(folder), "--recordings", first])
        if not folder.is_dir():
            fail(f"{folder} is not a folder", 2)
        try:
            if bids is not None:
                made = _made_of_data_set(folder, bids)
            else:
                made = make_sessions(folder, globs, names, update=update, join=partial(_is_joined, join))
        except (UnusableFileError, TableChangeError) as error:
            fail(str(error), 2)
    for remark in made.remarks:
        errors.print(f"[yellow]look at[/] {escape(remark)}")
    for line in made.set_aside:
        errors.print(f"[bold yellow]set aside[/] {escape(line)}")
    sessions, people = counted(made.sessions, "session"), counted(made.participants, "participant")
    shown, where = console(), escape(str(folder))
    shown.print(f"{escape(str(folder / 'sessions.csv'))}: {sessions} of {people}")
    if made.tracks:
        tracks = f"{counted(made.tracks, 'track')} of other cameras and microphones"
        shown.print(f"{escape(str(folder / 'tracks.csv'))}: {tracks}; 'storyframes sync {where}' measures their clocks")
    if made.labels:
        shown.print(f"{escape(str(folder / 'labels.csv'))}: {counted(made.labels, 'label')}")
    settings = escape(str(folder / SETTINGS_FILE))
    if made.has_settings:
        shown.print(f"{settings}: a configuration that fits them; read it before extraction")
    if made.set_aside:
        raise Partly(made)
    return made
