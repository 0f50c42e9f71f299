"""Building the report of a study: a page for the study, one for each session, and the pages of plug-ins.

One session is in memory at a time. Plug-ins give data, which is written as HTML here, everything escaped.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from storyframes import STORIES, FeatureName, FeatureStore, PlugInError, PlugIns
from storyframes_report.report.chart import Chart
from storyframes_report.report.facts import StudyFacts, facts_with_clips, read_clips
from storyframes_report.report.packing import deflate_json
from storyframes_report.report.page import ReportContext, ReportPage, ReportTable
from storyframes_report.report.pages import add_whole_plotly, new_site, render
from storyframes_report.report.session_page import Pages, ReportOptions, write_session
from storyframes_report.report.study_page.answers import answers
from storyframes_report.report.study_page.changes import what_changed
from storyframes_report.report.study_page.charts import study_charts
from storyframes_report.report.study_page.columns import StudyPage, read_columns, session_columns
from tasks.extractors import ExtractorsSettings
from tasks.inspect import counted
from tasks.study import Study

_PAGES = "storyframes.report_pages"

_COLLECTED_EACH = 2  # sessions: plotly's figures refer to themselves, so their arrays stay until a full collection


@dataclass(frozen=True)
class ReportSummary:
    """Numbers of a report, and what is missing in it."""

    facts: StudyFacts
    findings: dict[str, int]  # the number of findings of each session
    quoted: int  # the number of sessions with their transcripts in the report
    pictured: int
    problems: dict[str, str]  # by session, why its page is incomplete
    faults: list[str]  # of plug-ins' pages that could not be made


def build_report(
    study: Study,
    store: FeatureStore,
    settings: ExtractorsSettings,
    out: Path,
    options: ReportOptions | None = None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> ReportSummary:
    """Write the site into ``out``; an older report is replaced when the new one is complete.

    Args:
        settings: of all extractors, for which versions are stale and how captions are read.
        options: without them the report contains no text and no pictures of the recordings.
        progress: called with (session_id, number, number of sessions) before each session.

    Raises:
        ReportError: ``out`` holds something else.
        StoreError: a table of the store is damaged.
        OSError: the site cannot be written.
    """
    with new_site(out) as site:
        options = options or ReportOptions()
        clips = read_clips(store)
        facts = facts_with_clips(study, store, settings, options.rules, clips)
        pa.default_memory_pool().release_unused()  # what tables were decoded in is several times as large as they are
        prefixes = settings.transcript.speaker_prefixes
        pages = Pages(study, store, facts.matrix, clips, options, site, prefixes, settings.recording.streams)
        (site / "sessions").mkdir()
        session_ids = [session_id for session_id in facts.matrix.sessions if session_id != STORIES]
        for number, session_id in enumerate(session_ids, start=1):
            progress(session_id, number, len(session_ids))
            write_session(pages, session_id)
            store.let_go(session_id)
            if number % _COLLECTED_EACH == 0:
                gc.collect()
        context = ReportContext(study=study, store=store, sections=options.sections, disclosure=options.disclosure)
        more_pages, faults = _write_plug_in_pages(context, site, pages.name)
        write_study(pages, facts, read_columns(out), more_pages, faults)
    counts = {session_id: len(summary.findings) for session_id, summary in pages.summaries.items()}
    return ReportSummary(facts, counts, len(pages.quoted), len(pages.pictured), pages.problems, faults)


def write_study(
    pages: Pages, facts: StudyFacts, before: Mapping[str, Any] | None, more_pages: dict[str, str], faults: list[str]
) -> None:
    """Write the study page from what the sessions' pages left; ``before`` are the last report's columns."""
    clips = None if pages.clips is None else pages.clips["session_id"].value_counts().to_dict()
    participants = {name: session.participant_id for name, session in pages.study.sessions.items()}
    study_page = StudyPage(facts, participants, pages.study.excluded, clips, pages.summaries)
    columns = session_columns(study_page)
    page = render(
        "study.html",
        root="",
        name=pages.name,
        facts=facts,
        columns=deflate_json(columns),
        sessions=[session for session in facts.matrix.sessions if session in pages.summaries],
        answers=[*answers(study_page, pages.study), what_changed(before, columns)],
        charts=study_charts(facts),
        notes=list(_notes(pages)),
        more_pages=more_pages,
        faults=faults,
    )
    (pages.site / "index.html").write_text(page, encoding="utf-8")


def _notes(pages: Pages) -> Iterator[str]:
    """The requested transcripts and pictures that the pages contain, or that they contain none."""
    disclosure = pages.options.disclosure
    sessions = counted(len(pages.summaries), "session")
    kinds = (("transcripts", disclosure.text, pages.quoted), ("pictures", disclosure.video, pages.pictured))
    for kind, is_requested, with_kind in kinds:
        if is_requested and with_kind:
            yield f"This report holds {kind} of {len(with_kind)} of {sessions}."
        elif is_requested:
            yield f"This report holds no {kind}: they were asked for, and no session has any."


def _write_plug_in_pages(context: ReportContext, site: Path, name: str) -> tuple[dict[str, str], list[str]]:
    """Write the pages of all plug-ins into the folder ``plug-ins`` of a site.

    Returns:
        By file the title of each page; and for each page that could not be made, a sentence.
    """
    titles: dict[str, str] = {}
    faults: list[str] = []
    for page_name in PlugIns(_PAGES):
        try:
            page = _made(page_name, context)
        except PlugInError as error:
            faults.append(f"page {page_name}: {error}")
            continue
        if page is not None:
            file = f"plug-ins/{page_name}.html"
            (site / "plug-ins").mkdir(exist_ok=True)
            is_usual = all(part.is_cartesian for part in page.parts if isinstance(part, Chart))
            library = {} if is_usual else {"library": add_whole_plotly(site)}
            html = render("plug_in.html", root="../", name=name, page=page, parts=list(_drawn(page)), **library)
            (site / file).write_text(html, encoding="utf-8")
            titles[file] = page.title
    return titles, faults


def _made(name: str, context: ReportContext) -> ReportPage | None:
    """The page of this name.

    Raises:
        PlugInError: the plug-in cannot be used. Of its own error the message has only the class, since the text may
            quote a transcript.
    """
    if not FeatureName(name).is_allowed:
        raise PlugInError("a name has lower-case letters, digits and underscores")
    make = PlugIns(_PAGES)[name]
    try:
        page = make(context)
    except Exception as error:
        raise PlugInError(f"{PlugIns(_PAGES).origin(name)} failed with {type(error).__name__}") from None
    if page is not None and not isinstance(page, ReportPage):
        raise PlugInError(f"{PlugIns(_PAGES).origin(name)} gave a {type(page).__name__}, not a ReportPage")
    return page


def _drawn(page: ReportPage) -> Iterator[tuple[str, object]]:
    """The parts with their kinds, each chart under a key of its own."""
    for number, part in enumerate(page.parts):
        if isinstance(part, Chart):
            yield "chart", replace(part, key=f"chart-{number}")
        else:
            yield ("table" if isinstance(part, ReportTable) else "text"), part
