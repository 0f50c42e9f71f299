"""Pages of other plug-ins in the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.messages import missing
from support.tools.plug_ins import write

from storyframes import FeatureStore
from storyframes_report import ReportOptions, build_report
from tasks.extractors.registry import ExtractorsSettings
from tasks.study.load import load_study

PAGES = "storyframes.report_pages"

PAGE = """
from storyframes_report import ReportPage, ReportTable
def page(context):
    count = len(context.store.sessions)
    quoted = context.disclosure.text
    return ReportPage("<b>Titles</b>", [f"<script>{count} {quoted}", ReportTable("<i>", ("<u>",), [("</td>&",)])])
def nothing(context): return None
def fails(context): raise ValueError("what somebody said")
def wrong(context): return "<html>"
"""

CHARTS = """
import plotly.graph_objects as go
from storyframes_report import Chart, ReportPage
def flat(context): return ReportPage("Flat", [Chart("chart", "A bar", "One bar.", go.Figure(go.Bar(y=[1])))])
def globe(context): return ReportPage("Globe", [Chart("chart", "A map", "One place.", go.Figure(go.Scattergeo()))])
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which distributions are installed for this process."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def test_pages_of_plug_ins_are_linked_and_escaped(
    place: Path, tmp_path: Path, demo_study: Path, store_root: Path
) -> None:
    points = {name: f"door_pages:{name}" for name in ("page", "nothing", "fails", "wrong")}
    write(place, "door-pages", {**points, "../../up": "door_pages:page"}, PAGES, door_pages=PAGE)
    store = FeatureStore(store_root)
    site = tmp_path / "site"
    summary = build_report(load_study(demo_study), store, ExtractorsSettings(), site, ReportOptions())
    front = (site / "index.html").read_text()
    assert '<a href="plug-ins/page.html">&lt;b&gt;Titles&lt;/b&gt;</a>' in front
    assert [path.name for path in (site / "plug-ins").iterdir()] == ["page.html"]
    page = (site / "plug-ins/page.html").read_text()
    assert f"&lt;script&gt;{len(store.sessions)} False" in page
    assert "&lt;/td&gt;&amp;" in page
    assert "<b>" not in page
    assert "<u>" not in page
    own = [fault for fault in summary.faults if "storyframes-example" not in fault]  # which has no section here
    faults = " ".join(own)
    assert len(own) == 3
    assert missing(faults, "1.0 failed", "ValueError") == []
    assert missing(faults, "1.0 gave", "ReportPage") == []
    assert "page ../../up: a name has" in faults
    assert "what somebody said" not in faults + front
    assert "failed with ValueError" in front


def test_a_page_with_a_chart_that_the_pages_bundle_cannot_draw_brings_the_whole_plotly(
    place: Path, demo_study: Path, store_root: Path, tmp_path: Path
) -> None:
    write(place, "door-charts", {"flat": "door_charts:flat", "globe": "door_charts:globe"}, PAGES, door_charts=CHARTS)
    site = tmp_path / "site"
    build_report(load_study(demo_study), FeatureStore(store_root), ExtractorsSettings(), site, ReportOptions())
    pages = ("index.html", "plug-ins/flat.html", "plug-ins/globe.html")
    libraries = [re.findall(r'data-plotly="([^"]+)"', (site / page).read_text()) for page in pages]
    usual, whole = "../assets/plotly-cartesian.min.js", "../assets/plotly.min.js"
    assert libraries == [[usual.removeprefix("../")], [usual], [whole]]
    assert b"scattergeo" in (site / "plug-ins" / whole).read_bytes()
    assert b"scattergeo" not in (site / "plug-ins" / usual).read_bytes()
