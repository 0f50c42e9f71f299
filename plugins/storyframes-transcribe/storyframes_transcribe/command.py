"""``storyframes transcribe``: the words of a study's recordings, into the study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import (
    LOOK,
    ConfigOption,
    JsonOption,
    StudyArgument,
    console,
    error_console,
    listed,
    need,
    refused_if,
    show_json,
    usage_errors,
)
from tasks.inspect.formatting import counted

if TYPE_CHECKING:
    from storyframes_transcribe.recordings import SessionPlan
    from storyframes_transcribe.session import Outcome, Transcriber
    from storyframes_transcribe.settings import TranscribeSettings
    from tasks.study import Study

app = typer.Typer(add_completion=False, **LOOK)


@app.command()
def transcribe(
    study: StudyArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only this session. Repeatable.")] = None,
    track: Annotated[
        list[str] | None, typer.Option(help="Only this track; main: the session's own. Repeatable.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="large-v3, large-v2, or a model's folder (CTranslate2).")] = None,
    language: Annotated[str | None, typer.Option(help="A code such as en; without it it is detected.")] = None,
    recordings: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Write the first tables from these files, as init does.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; write nothing.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write transcripts of recordings that have none, by Whisper on this machine, and name them in the tables.

    They are files of the study, STUDY/transcripts/SESSION[@TRACK].json; words go nowhere else. What is there is not
    made again.
    """
    need("faster_whisper", "", "storyframes-transcribe")
    from flows.interruption import promise
    from flows.settings import load_settings
    from storyframes_transcribe.models import ModelError, find_model
    from storyframes_transcribe.recordings import SelectionError, plan_sessions
    from storyframes_transcribe.session import Transcriber
    from storyframes_transcribe.whisper import Whisper
    from tasks.study import TableChangeError, load_study

    with usage_errors(), refused_if(ModelError, SelectionError, TableChangeError):
        given = {name: value for name, value in (("model", model), ("language", language)) if value is not None}
        settings: TranscribeSettings = load_settings(config, {"transcribe": given}).sections["transcribe"]
        if recordings:
            _write_first_tables(study, recordings)
        loaded = load_study(study)
        plans = plan_sessions(loaded, listed("--session", session), listed("--track", track))
        _name(loaded, plans, is_dry=True)  # a table that cannot be changed is reported before hours of work
        found = find_model(settings.model)
        load = cache(lambda: Whisper(found, settings))  # only where something is due
        transcriber = Transcriber(loaded, settings, found, lambda piece, language: load().hear(piece, language))
        if dry_run:
            _show_plan(plans, transcriber)
            return
        promise("the same command goes on with what is not transcribed")
        outcomes, named = _transcribe(loaded, plans, transcriber)
    if json:
        show_json({"transcripts": [asdict(outcome) for outcome in outcomes], "named": named})
    else:
        _show(outcomes, named, study)
    if any(outcome.status == "failed" for outcome in outcomes):
        raise typer.Exit(1)


def _write_first_tables(root: Path, glob: str) -> None:
    """The tables of a study that has none."""
    from tasks.study.recording_names import FilesError
    from tasks.study.sessions_from_files import make_sessions

    if any((root / f"sessions.{suffix}").exists() for suffix in ("csv", "parquet")):
        error_console().print("[yellow]look at[/] there is a table of sessions: --recordings is not used")
        return
    with refused_if(FilesError):
        made = make_sessions(root, {"recording": glob})
    for remark in made.remarks:
        error_console().print(f"[yellow]look at[/] {escape(remark)}")


def _transcribe(study: Study, plans: Sequence[SessionPlan], transcriber: Transcriber) -> tuple[list[Outcome], int]:
    """What became of each transcript, and how many cells of the tables name one now; also where it is interrupted."""
    from flows.progress_bar import progress_bar
    from storyframes.store import locked
    from storyframes_transcribe.transcript_file import FOLDER

    folder = study.root / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    outcomes: list[Outcome] = []
    lengths = {one.name: one.length_s(study) for plan in plans for one in plan.recordings}
    done: dict[str, float] = {}
    with locked(folder / ".lock", 0), progress_bar("seconds of sound") as bar:

        def progress(name: str, seconds: float) -> None:
            done[name] = min(max(seconds, 0.0), lengths[name])
            bar(name, int(sum(done.values())) + 1, max(int(sum(lengths.values())), 1))

        transcriber.progress = progress
        try:
            for plan in plans:
                outcomes += transcriber.transcribe(plan)
                done |= {one.name: lengths[one.name] for one in plan.recordings}
        finally:  # what is there is named, also where the run is interrupted
            named = _name(study, plans, is_dry=False)
    return outcomes, named


def _name(study: Study, plans: Sequence[SessionPlan], *, is_dry: bool) -> int:
    """Name the transcripts in the tables: those that may be made, or (unless dry) those that are there."""
    from storyframes.spec import MAIN
    from storyframes_transcribe.recordings import transcript_path
    from tasks.study import name_transcripts

    paths = {}
    for plan in plans:
        for track in (*(one.track for one in plan.recordings), *([MAIN] if plan.joins else [])):
            path = transcript_path(plan.session_id, track)
            if is_dry or (study.root / path).is_file():
                paths[plan.session_id, track] = path
    return name_transcripts(study.root, paths, is_dry=is_dry)


def _show_plan(plans: Sequence[SessionPlan], transcriber: Transcriber) -> None:
    from storyframes_transcribe.transcript_file import KeptError

    for plan in plans:
        for one in plan.recordings:
            try:
                what = "to be transcribed" if transcriber.is_due(one) else "there already"
            except (KeptError, OSError) as error:
                what = str(error)
            console().print(f"{escape(one.name)}: {escape(one.relative)}: {escape(what)}")
        if plan.joins:
            names = ", ".join(one.track for one in plan.microphones)
            console().print(f"{escape(plan.session_id)}: joined from {escape(names)}")
        for track in plan.handed_in:
            console().print(f"{escape(plan.session_id)}, {escape(track)}: has a transcript, which stays")
    console().print("nothing is written; without --dry-run it would be")


def _show(outcomes: Sequence[Outcome], named: int, study: Path) -> None:
    shown = console()
    for outcome in outcomes:
        where = escape(outcome.session_id if outcome.track == "main" else f"{outcome.session_id}@{outcome.track}")
        if outcome.reason:
            colour = "bold red" if outcome.status == "failed" else "yellow"
            error_console().print(f"[{colour}]{outcome.status}[/] {where}: {escape(outcome.reason)}")
            continue
        counts = [
            f"joined from {counted(outcome.joined, 'microphone')}" if outcome.joined else "",
            f"{outcome.crosstalk} heard better by another microphone and removed" if outcome.crosstalk else "",
            f"{outcome.uncertain} as loud on another one and kept" if outcome.uncertain else "",
            f"{outcome.outside} before or after the recording left out" if outcome.outside else "",
        ]
        shown.print("; ".join([f"{where}: {outcome.status}, {counted(outcome.words, 'word')}", *filter(None, counts)]))
    of_each = Counter(str(outcome.status) for outcome in outcomes)
    shown.print(", ".join(f"{count} {status}" for status, count in of_each.items()) or "nothing to transcribe")
    if named:
        shown.print(f"{counted(named, 'cell')} of the tables name them now")
    if any(outcome.is_there for outcome in outcomes):
        shown.print(f"next: storyframes extract {escape(str(study))} STORE --features glove,sbert")
