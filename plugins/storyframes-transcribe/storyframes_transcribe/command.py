"""``storyframes transcribe``: the words of a study's recordings, into the study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli import (
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
from tasks.inspect import counted

if TYPE_CHECKING:
    from storyframes_transcribe.models import Model
    from storyframes_transcribe.recordings import Recording, SessionPlan
    from storyframes_transcribe.session import Outcome, Transcriber
    from storyframes_transcribe.settings import TranscribeSettings
    from tasks.media import StreamChoice
    from tasks.study import Study

app = typer.Typer(add_completion=False, **LOOK)


@app.command(rich_help_panel="Study", epilog="Next: storyframes check STUDY")
def transcribe(
    study: StudyArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only this session. Repeatable.")] = None,
    track: Annotated[
        list[str] | None, typer.Option(help="Only this track; main: the session's own. Repeatable.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="large-v3, large-v2, or a model's folder (CTranslate2).")] = None,
    language: Annotated[
        str | None, typer.Option(help="A code such as en; the column language of the tables comes first.")
    ] = None,
    speakers: Annotated[
        str | None,
        typer.Option(
            metavar="STORE",
            help="The store whose feature `speaking` gives the speakers of a shared microphone; with --voices, names.",
        ),
    ] = None,
    voices: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Say who speaks there by voice: a model's file, or RTTM ([voices] model)."),
    ] = None,
    voice: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PERSON=FILE[,FROM,TO]",
            help="Sound in which a person speaks alone; or PERSON=SPEAKER: whose voice speaker_1, or a speaker of the "
            "RTTM, is. Repeatable.",
        ),
    ] = None,
    recordings: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Write the first tables from these files, as init does.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Transcribe on a cluster: its YAML file, or tls://host:port of a Dask scheduler.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; write nothing.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write transcripts of recordings that have none, by Whisper on this machine, and name them in the tables.

    They are files of the study, STUDY/transcripts/SESSION[@TRACK].json; words go nowhere else. Existing ones are not
    made again.
    """
    need("faster_whisper", "", "storyframes-transcribe")
    from flows import load_settings, promise
    from storyframes import FeatureStore
    from storyframes_transcribe.models import ModelError, find_model
    from storyframes_transcribe.one_microphone.enrolment import Enrolment, VoiceError
    from storyframes_transcribe.one_microphone.naming import VoiceNaming
    from storyframes_transcribe.one_microphone.voice_models import VoiceModelError
    from storyframes_transcribe.recordings import SelectionError, plan_sessions, refuse_handed_in
    from storyframes_transcribe.session import Transcriber
    from storyframes_transcribe.speakers import name_speakers
    from storyframes_transcribe.whisper import Whisper
    from tasks.study import TableChangeError, check_study_record, load_study

    with usage_errors(), refused_if(ModelError, SelectionError, TableChangeError, VoiceError, VoiceModelError):
        given = {name: value for name, value in (("model", model), ("language", language)) if value is not None}
        of_voices = {"model": voices} if voices is not None else {}
        configured = load_settings(config, {"transcribe": given, "voices": of_voices})
        streams = configured.recording.streams
        settings: TranscribeSettings = configured.sections["transcribe"]
        if recordings:
            _write_first_tables(study, recordings)
        loaded = load_study(study)
        if voice and not configured.sections["voices"].model:
            raise VoiceError("--voice: give the model that compares voices, or RTTM, with --voices or [voices] model")
        store = FeatureStore(speakers) if speakers else None
        if store:
            check_study_record(store.storage, loaded)
        sessions, tracks = listed("--session", session), listed("--track", track)
        plans = plan_sessions(loaded, sessions, tracks)
        refuse_handed_in(loaded, plans, sessions, tracks)
        _remark_on_clocks(loaded, plans)
        _name(loaded, plans, is_dry=True)  # a table that cannot be changed is reported before hours of work
        found = find_model(settings.model)
        attribute: Callable[[Outcome], Outcome] | None = (
            partial(name_speakers, loaded, store, settings) if store else None
        )
        if (by_voice := configured.sections["voices"]).model:
            enrolments = [Enrolment.parse(text) for text in voice or ()]
            naming = VoiceNaming(loaded, plans, settings, by_voice, enrolments=enrolments, store=store, streams=streams)
            attribute = naming.name
            if voices and not naming.has_recordings:
                error_console().print("[yellow]look at[/] --voices: no recording is of a microphone of several people")
        load = cache(lambda: Whisper(found, settings))  # only where something is due
        transcriber = Transcriber(
            loaded,
            settings,
            found,
            hear=lambda piece, language: load().hear(piece, language),
            listen=lambda samples: load().listen(samples),
            streams=streams,
        )
        if dry_run:
            _show_plan(plans, transcriber)
            return
        promise("the same command goes on with what is not transcribed")
        if cluster and any(_is_due(transcriber, one) for plan in plans for one in plan.recordings):
            work: Callable[[], Iterable[Outcome]] = partial(
                _on_cluster, loaded, plans, tracks, settings, streams, found, cluster
            )
        else:
            work = partial(_here, loaded, plans, streams, transcriber)
        outcomes, named = _transcribe(loaded, plans, lambda: map(attribute, work()) if attribute else work())
    _remark_on_languages(outcomes)
    _remark_on_damage(outcomes)
    for outcome in outcomes:
        for doubt in outcome.doubts:
            error_console().print(f"[yellow]look at[/] {escape(outcome.name)}: {escape(doubt)}")
    if json:
        show_json({"transcripts": [asdict(outcome) for outcome in outcomes], "named": named})
    else:
        _show(outcomes, named, study)
    if any(outcome.failed for outcome in outcomes):
        raise typer.Exit(1)


def _write_first_tables(root: Path, glob: str) -> None:
    """The tables of a study that has none."""
    from tasks.study import UnusableFileError, make_sessions

    if any((root / f"sessions.{suffix}").exists() for suffix in ("csv", "parquet")):
        error_console().print("[yellow]look at[/] there is a table of sessions: --recordings is not used")
        return
    with refused_if(UnusableFileError):
        made = make_sessions(root, {"recording": glob})
    for remark in made.remarks:
        error_console().print(f"[yellow]look at[/] {escape(remark)}")


def _remark_on_clocks(study: Study, plans: Sequence[SessionPlan]) -> None:
    """Crosstalk is found by time alone, so a microphone whose clock nobody measured may keep all of it."""
    without = [
        one.name for plan in plans for one in plan.microphones if study.tracks[plan.session_id][one.track].clock is None
    ]
    if without:
        error_console().print(
            f"[yellow]look at[/] {counted(len(without), 'microphone')} without a clock, first {escape(without[0])}: "
            "taken to be in time with the session; 'storyframes sync STUDY --write' measures clocks"
        )


def _remark_on_languages(outcomes: Sequence[Outcome]) -> None:
    """A transcript in the wrong language is wrong as a whole, so a guess is named each time."""
    for outcome in outcomes:
        if outcome.language and outcome.language.is_guess:
            error_console().print(
                f"[yellow]look at[/] {escape(outcome.name)}: its language, {outcome.language.code}, is a guess "
                f"({outcome.language.probability:.2f}): give it in the column language of the table sessions or "
                "tracks, or with --language, and the same command transcribes it again"
            )


def _remark_on_damage(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.damaged:
            error_console().print(
                f"[yellow]look at[/] {escape(outcome.name)}: {counted(outcome.damaged, 'packet')} of its sound cannot "
                "be decoded and counted as silence: what was said there is missing"
            )


def _transcribe(
    study: Study, plans: Sequence[SessionPlan], work: Callable[[], Iterable[Outcome]]
) -> tuple[list[Outcome], int]:
    """What became of each transcript, and how many cells of the tables name one now; also where it is interrupted."""
    from storyframes_transcribe.transcript_file import writing

    with writing(study.root):
        try:
            outcomes = list(work())
        finally:  # what is there is named, also where the run is interrupted
            named = _name(study, plans, is_dry=False)
    return outcomes, named


def _here(
    study: Study, plans: Sequence[SessionPlan], streams: StreamChoice, transcriber: Transcriber
) -> Iterator[Outcome]:
    from flows import progress_bar

    lengths = {one.name: one.length_s(study, streams) for plan in plans for one in plan.recordings}
    done: dict[str, float] = {}
    with progress_bar("seconds of sound") as bar:

        def progress(name: str, seconds: float) -> None:
            done[name] = min(max(seconds, 0.0), lengths[name])
            bar(name, int(sum(done.values())) + 1, max(int(sum(lengths.values())), 1))

        transcriber.progress = progress
        for plan in plans:
            yield from transcriber.transcribe(plan)
            done |= {one.name: lengths[one.name] for one in plan.recordings}


def _on_cluster(
    study: Study,
    plans: Sequence[SessionPlan],
    tracks: Sequence[str],
    settings: TranscribeSettings,
    streams: StreamChoice,
    model: Model,
    cluster: str,
) -> Sequence[Outcome]:
    from flows.cli import run_work
    from storyframes_transcribe.models import PUBLISHED
    from storyframes_transcribe.on_cluster import SessionUnit, TranscriptionResult, go_on, transcription

    shown = error_console()
    if settings.model not in PUBLISHED:  # a path, and workers have other working directories
        settings = settings.model_copy(update={"model": str(model.folder.resolve())})
    units = [
        SessionUnit(study.root, plan.session_id, tuple(tracks), settings, model.sha256, streams)
        for plan in plans
        if plan.recordings or plan.joins
    ]
    work = transcription(units, cluster, lambda line: shown.print(escape(str(line))))
    return run_work(work, lambda run_id: go_on(run_id, return_state=True), TranscriptionResult).outcomes


def _is_due(transcriber: Transcriber, recording: Recording) -> bool:
    from storyframes_transcribe.transcript_file import KeptError

    try:
        return transcriber.is_due(recording)
    except (KeptError, OSError):
        return False


def _name(study: Study, plans: Sequence[SessionPlan], *, is_dry: bool) -> int:
    """Name the transcripts in the tables: those that may be made, or (unless dry) those that are there."""
    from storyframes import MAIN
    from storyframes_transcribe.recordings import transcript_path
    from storyframes_transcribe.transcript_file import is_made
    from tasks.study import ChangedTables

    paths = {}
    for plan in plans:
        for track in (*(one.track for one in plan.recordings), *([MAIN] if plan.joins else [])):
            path = transcript_path(plan.session_id, track)
            if is_dry or is_made(study.root / path):
                paths[plan.session_id, track] = path
    return ChangedTables(study.root).name_transcripts(paths, is_dry=is_dry)


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
        where = escape(outcome.name)
        if outcome.reason:
            colour = "bold red" if outcome.status == "failed" else "yellow"
            error_console().print(f"[{colour}]{outcome.status}[/] {where}: {escape(outcome.reason)}")
            continue
        counts = [
            f"{outcome.attributed} with a speaker" if outcome.attributed is not None else "",
            f"not named yet: {', '.join(outcome.unnamed)} (--voice)" if outcome.unnamed else "",
            f"{counted(outcome.unheard, 'person')} of whom the store has no usable speaking" if outcome.unheard else "",
            f"joined from {counted(outcome.joined, 'microphone')}" if outcome.joined else "",
            f"{outcome.crosstalk} heard better by another microphone and removed" if outcome.crosstalk else "",
            "none is left: does this person say nothing, or is the other microphone's gain higher?"
            if outcome.crosstalk and not outcome.words
            else "",
            f"{outcome.uncertain} about as loud on another one, kept and marked" if outcome.uncertain else "",
            f"{outcome.outside} before or after the recording left out" if outcome.outside else "",
        ]
        shown.print("; ".join([f"{where}: {outcome.status}, {counted(outcome.words, 'word')}", *filter(None, counts)]))
    of_each = Counter(str(outcome.status) for outcome in outcomes)
    shown.print(", ".join(f"{count} {status}" for status, count in of_each.items()) or "nothing to transcribe")
    if named:
        shown.print(f"{counted(named, 'cell')} of the tables name them now")
    if any(outcome.is_there for outcome in outcomes):
        shown.print(f"next: storyframes extract {escape(str(study))} STORE --features glove,sbert")
