"""Building the report of a study: one page for the study, one for each session, one session in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from storyframes.features import STORIES
from storyframes.store.feature_store import FeatureStore
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.findings import Rule
from tasks.inspect.formatting import counted
from tasks.inspect.report.facts import StudyFacts, read_clips, read_facts
from tasks.inspect.report.folder import new_site
from tasks.inspect.report.matrix import CellState, Matrix
from tasks.inspect.report.pages import render
from tasks.inspect.report.plug_in_pages import ReportContext, write_plug_in_pages
from tasks.inspect.report.session_page import Pages, ReportOptions, write_session
from tasks.inspect.report.study_charts import findings_chart, study_charts
from tasks.study.load import Study


@dataclass(frozen=True)
class ReportSummary:
    """What was built.

    Attributes:
        facts: the study page's content.
        findings: how many data-quality findings each session has.
        quoted, pictured: how many sessions' transcripts, and pictures of how many, the pages hold.
        problems: by session, why its page has no curves.
        faults: of plug-ins' pages that could not be made.
    """

    facts: StudyFacts
    findings: dict[str, int]
    quoted: int
    pictured: int
    problems: dict[str, str]
    faults: list[str]


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
        settings: of all extractors; they decide which versions are stale, and how captions are read.
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
        prefixes = settings.transcript.speaker_prefixes
        pages = Pages(study, store, facts.matrix, read_clips(store), options, site, prefixes)
        (site / "sessions").mkdir()
        session_ids = [session_id for session_id in facts.matrix.sessions if session_id != STORIES]
        for number, session_id in enumerate(session_ids, start=1):
            progress(session_id, number, len(session_ids))
            write_session(pages, session_id)
        context = ReportContext(study=study, store=store, sections=options.sections, disclosure=options.disclosure)
        more_pages, faults = write_plug_in_pages(context, site, pages.name)
        _write_study(pages, facts, more_pages, faults)
    counts = {session_id: len(found) for session_id, found in pages.findings.items()}
    return ReportSummary(facts, counts, len(pages.quoted), len(pages.pictured), pages.problems, faults)


def _write_study(pages: Pages, facts: StudyFacts, more_pages: dict[str, str], faults: list[str]) -> None:
    page = render(
        "study.html",
        root="",
        name=pages.name,
        facts=facts,
        charts=study_charts(facts),
        pages=set(pages.findings),
        findings={session_id: len(found) for session_id, found in pages.findings.items()},
        quality=findings_chart(pages.findings),
        not_looked_at={session_id: sorted(rules) for session_id, rules in pages.not_looked_at.items()},
        unjudged=_unjudged(pages),
        reasons=gather_reasons(facts.matrix),
        notes=list(_notes(pages)),
        more_pages=more_pages,
        faults=faults,
    )
    (pages.site / "index.html").write_text(page, encoding="utf-8")


def _unjudged(pages: Pages) -> list[str]:
    """Each rule that some session has nothing for, with the number of these sessions."""
    counts = Counter(rule for rules in pages.not_looked_at.values() for rule in rules)
    return [f"{rule} in {counts[rule]} of {counted(len(pages.findings), 'session')}" for rule in Rule if counts[rule]]


def _notes(pages: Pages) -> Iterator[str]:
    """What of the recordings is in the pages; of what was asked for and is not, that it is not."""
    asked = pages.options.disclosure
    sessions = counted(len(pages.findings), "session")
    for what, wanted, having in (("transcripts", asked.text, pages.quoted), ("pictures", asked.video, pages.pictured)):
        if wanted and having:
            yield f"This report holds {what} of {len(having)} of {sessions}."
        elif wanted:
            yield f"This report holds no {what}: they were asked for, and no session has any."


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
