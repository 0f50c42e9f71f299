"""Building the report of a study: one page for the study, one for each session, one session in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from storyframes.features import STORIES
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.curves.read import read_curves
from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.overlay import OverlayError
from tasks.inspect.quality.check import find_problems
from tasks.inspect.quality.findings import QualityFinding
from tasks.inspect.report.agreement import agreement_rows
from tasks.inspect.report.chart import Chart
from tasks.inspect.report.facts import StudyFacts, read_clips, read_facts
from tasks.inspect.report.folder import new_site
from tasks.inspect.report.matrix import CellState, Matrix
from tasks.inspect.report.pages import render
from tasks.inspect.report.session import Spoken, Timetable, session_clips
from tasks.inspect.report.study_charts import study_charts
from tasks.inspect.report.thumbnails import Picture, write_thumbnails
from tasks.inspect.report.timeline import timeline
from tasks.label_rules import LabelRule
from tasks.media.clipping import find_clipped
from tasks.media.container import RecordingError
from tasks.media.sound import NoAudioError
from tasks.media.video_header import read_header
from tasks.study.load import Study, StudyFileError
from tasks.study.transcript import TranscriptError, read_transcript


@dataclass(frozen=True)
class Disclosure:
    """What of the recordings themselves goes into the pages: nothing, unless asked for.

    Attributes:
        text: the transcripts, with the speakers' names as they stand there.
        video: thumbnails with landmarks and poses.
    """

    text: bool = False
    video: bool = False


@dataclass(frozen=True)
class ReportOptions:
    """What a report is made of, beside the features.

    Attributes:
        disclosure: what of the recordings goes in.
        check_sound: decode every recording's sound to find clipped samples.
        rules: by scheme, of which raters its curves are features.
    """

    disclosure: Disclosure = field(default_factory=Disclosure)
    check_sound: bool = False
    rules: Mapping[str, LabelRule] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportSummary:
    """What was built.

    Attributes:
        facts: the study page's content.
        findings: how many data-quality findings each session has.
        problems: by session, why its page has no curves.
    """

    facts: StudyFacts
    findings: dict[str, int]
    problems: dict[str, str]


@dataclass
class _Pages:
    """What all pages of one report share."""

    study: Study
    store: FeatureStore
    matrix: Matrix
    clips: pd.DataFrame | None
    options: ReportOptions
    site: Path
    findings: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.study.root.name


def build_report(
    study: Study,
    store: FeatureStore,
    settings: ExtractorsSettings,
    out: Path,
    options: ReportOptions | None = None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> ReportSummary:
    """Write the site into ``out``; a report that is there already is replaced when the new one is whole.

    Args:
        study: a valid study.
        store: its features.
        settings: of all extractors; they decide which versions are stale.
        out: a new or empty folder, or an older report.
        options: what else it is made of; nothing of the recordings themselves by default.
        progress: called with (session_id, number, how many) before each session.

    Raises:
        ReportError: ``out`` holds something else.
        StoreError: a table of the store is damaged.
        OSError: the site cannot be written.
    """
    with new_site(out) as site:
        options = options or ReportOptions()
        facts = read_facts(study, store, settings, options.rules)
        pages = _Pages(study, store, facts.matrix, read_clips(store), options, site)
        (site / "sessions").mkdir()
        session_ids = [session_id for session_id in facts.matrix.sessions if session_id != STORIES]
        for number, session_id in enumerate(session_ids, start=1):
            progress(session_id, number, len(session_ids))
            _write_session(pages, session_id)
        _write_study(pages, facts)
    return ReportSummary(facts, pages.findings, pages.problems)


def _write_study(pages: _Pages, facts: StudyFacts) -> None:
    page = render(
        "study.html",
        root="",
        name=pages.name,
        facts=facts,
        charts=study_charts(facts),
        agreement=agreement_rows(pages.study),
        pages=set(pages.findings),
        findings=pages.findings,
        reasons=gather_reasons(facts.matrix),
        notes=_notes(pages.options.disclosure),
    )
    (pages.site / "index.html").write_text(page, encoding="utf-8")


def _notes(disclosure: Disclosure) -> list[str]:
    inside = [what for what, there in (("transcripts", disclosure.text), ("pictures", disclosure.video)) if there]
    return [f"This report holds {' and '.join(inside)} of the recordings."] if inside else []


def gather_reasons(matrix: Matrix) -> list[tuple[CellState, str, str, str]]:
    """Each reason once, with the sessions it holds for."""
    gathered: dict[tuple[CellState, str, str], list[str]] = {}
    for (session_id, feature), cell in matrix.cells.items():
        if cell.reason:
            gathered.setdefault((cell.state, feature, cell.reason), []).append(session_id)
    order = [CellState.FAILED, CellState.STALE, CellState.ABSENT, CellState.SKIPPED, CellState.DONE]
    return [
        (state, feature, reason, _named(sessions))
        for (state, feature, reason), sessions in sorted(gathered.items(), key=lambda item: order.index(item[0][0]))
    ]


def _named(sessions: list[str]) -> str:
    return ", ".join(sessions) if len(sessions) <= 6 else f"{', '.join(sessions[:5])} and {len(sessions) - 5} more"


# --- one session ---


def _write_session(pages: _Pages, session_id: str) -> None:
    curves, problem = _read(pages, session_id)
    findings: list[QualityFinding] = find_problems(curves) if curves else []
    table, text_problem = _timetable(pages, session_id)
    pictures, picture_problem = _pictures(pages, session_id)
    chart: Chart | None = timeline(curves, table) if curves else None
    session = pages.study.sessions.get(session_id)
    excluded = pages.study.excluded.get(session_id, "")
    problem = " ".join(part for part in (problem, excluded, text_problem, picture_problem) if part)
    page = render(
        "session.html",
        root="../",
        name=pages.name,
        session_id=session_id,
        participant=session.participant_id if session else "",
        curves=curves,
        problem=problem,
        findings=findings,
        table=table,
        one_timeline=chart,
        clip_data=[{"start": clip.start_s, "stop": clip.stop_s, "about": clip.about} for clip in table.clips],
        cells=pages.matrix.row(session_id),
        pictures=pictures,
    )
    (pages.site / "sessions" / f"{session_id}.html").write_text(page, encoding="utf-8")
    pages.findings[session_id] = len(findings)
    if problem:
        pages.problems[session_id] = problem


def _read(pages: _Pages, session_id: str) -> tuple[SessionCurves | None, str]:
    """The curves, or why there are none: one damaged session does not cost the others their pages."""
    try:
        curves = read_curves(pages.store, session_id)
    except (StoreError, OSError, ValueError) as error:
        return None, f"{error}" if isinstance(error, StoreError) else f"an array cannot be read ({error})"
    session = pages.study.sessions.get(session_id)
    if not pages.options.check_sound or session is None:
        return curves, ""
    try:
        video = pages.study.path(session.video)
        if session.audio:
            curves.clipped = find_clipped(pages.study.path(session.audio))
        else:
            curves.clipped = find_clipped(video, read_header(video).start_s)
    except NoAudioError:
        return curves, ""
    except (RecordingError, OSError) as error:
        return curves, f"The sound was not checked: {error}"
    return curves, ""


def _timetable(pages: _Pages, session_id: str) -> tuple[Timetable, str]:
    own_phases = (phase for phase in pages.study.phases if phase.session_id == session_id)
    # Times that cannot be seconds of the recording would make it a dot on its own timeline.
    phases = () if session_id in pages.study.excluded else tuple(sorted(own_phases, key=lambda one: one.start_s))
    own = pages.clips[pages.clips["session_id"] == session_id] if pages.clips is not None else None
    clips = tuple(session_clips(own, _schemes(pages.clips))) if own is not None and len(own) else ()
    if not pages.options.disclosure.text:
        return Timetable(phases, clips), ""
    session = pages.study.sessions.get(session_id)
    if session is None or session.transcript is None:
        return Timetable(phases, clips), ""
    try:
        transcript = read_transcript(pages.study.path(session.transcript), allow_malformed=True)
    except (TranscriptError, StudyFileError) as error:
        return Timetable(phases, clips), str(error)
    spoken = tuple(Spoken(one.speaker, one.start_s, one.end_s, one.text) for one in transcript.utterances)
    return Timetable(phases, clips, spoken), ""


def _schemes(clips: pd.DataFrame | None) -> Iterable[str]:
    return () if clips is None else clips.attrs.get("schemes", {})


def _pictures(pages: _Pages, session_id: str) -> tuple[list[Picture], str]:
    session = pages.study.sessions.get(session_id)
    if not pages.options.disclosure.video or session is None:
        return [], ""
    folder = pages.site / "sessions" / f"{session_id}.frames"
    try:
        return write_thumbnails(pages.study.path(session.video), pages.store, session_id, folder), ""
    except (OverlayError, RecordingError, StoreError, StudyFileError) as error:
        return [], f"No pictures: {error}"
