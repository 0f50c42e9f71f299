"""The study page of as many sessions as one likes, of which nothing was extracted; without the sessions' own pages."""

from __future__ import annotations

from pathlib import Path

from storyframes.features import FEATURES
from storyframes.store.feature_store import FeatureStore
from storyframes_report.report.facts import study_facts
from storyframes_report.report.matrix import build_matrix
from storyframes_report.report.pages import new_site
from storyframes_report.report.session_page import Pages, ReportOptions
from storyframes_report.report.site import write_study
from storyframes_report.report.study_page.summary import SessionSummary
from tasks.planning.plan import ExpectedVersion
from tasks.study.load import Session, Study


def session_ids(count: int) -> list[str]:
    return [f"p{number // 7:03d}-s{number:04d}" for number in range(count)]


def write_study_page(store: Path, out: Path, count: int) -> str:
    """Write a site with the page alone; give its text.

    Every file of every session is missing, each under its name; of the first session sbert was not asked for.
    """
    ids = session_ids(count)
    sessions = {one: Session.model_construct(session_id=one, participant_id=one[:4], video="v.avi") for one in ids}
    wanted = [ExpectedVersion(one, feature, "", f"{one}.avi is missing") for one in ids for feature in FEATURES]
    wanted.remove(ExpectedVersion(ids[0], "sbert", "", f"{ids[0]}.avi is missing"))
    study = Study(out, sessions)
    facts = study_facts(study, [], None, build_matrix(ids, [], wanted))
    with new_site(out) as site:
        pages = Pages(study, FeatureStore(store), facts.matrix, None, ReportOptions(), site)
        pages.summaries = {one: SessionSummary(typical={"loudness (dB)": -20.0 + 7 * (one < "p001")}) for one in ids}
        write_study(pages, facts, None, {}, [])
    return (out / "index.html").read_text()
