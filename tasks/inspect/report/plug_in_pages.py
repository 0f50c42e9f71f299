"""Pages of plug-ins in the report: a plug-in gives data, which is written as HTML here, everything escaped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from storyframes.plug_ins import REPORT_PAGES, PlugInError, load, origin, plug_in, plug_ins
from storyframes.spec import may_be_called
from tasks.inspect.report.chart import Chart
from tasks.inspect.report.page import ReportContext, ReportPage, ReportTable
from tasks.inspect.report.pages import render


def write_plug_in_pages(context: ReportContext, site: Path, name: str) -> tuple[dict[str, str], list[str]]:
    """Write the pages of all plug-ins into the folder ``plug-ins`` of a site.

    Args:
        context: what they are made of.
        site: the site's folder.
        name: of the study, for the link back.

    Returns:
        By file the title of each page; and for each page that could not be made, a sentence.
    """
    titles: dict[str, str] = {}
    faults: list[str] = []
    for page_name in dict.fromkeys(point.name for point in plug_ins(REPORT_PAGES)):
        try:
            page = _made(page_name, context)
        except PlugInError as error:
            faults.append(f"page {page_name}: {error}")
            continue
        if page is not None:
            file = f"plug-ins/{page_name}.html"
            (site / "plug-ins").mkdir(exist_ok=True)
            html = render("plug_in.html", root="../", name=name, page=page, parts=list(_drawn(page)))
            (site / file).write_text(html, encoding="utf-8")
            titles[file] = page.title
    return titles, faults


def _made(name: str, context: ReportContext) -> ReportPage | None:
    """The page of this name.

    Raises:
        PlugInError: the plug-in cannot be used. Of its own error only the class is told, since the text may quote what
            somebody said.
    """
    if not may_be_called(name):
        raise PlugInError("a name has lower-case letters, digits and underscores")
    point = plug_in(REPORT_PAGES, name)
    assert point is not None
    make = load(point)
    try:
        page = make(context)
    except Exception as error:
        raise PlugInError(f"{origin(point)} failed with {type(error).__name__}") from None
    if page is not None and not isinstance(page, ReportPage):
        raise PlugInError(f"{origin(point)} gave a {type(page).__name__}, not a ReportPage")
    return page


def _drawn(page: ReportPage) -> Iterator[tuple[str, object]]:
    """The parts with their kinds, each chart under a key of its own."""
    for number, part in enumerate(page.parts):
        if isinstance(part, Chart):
            yield "chart", replace(part, key=f"chart-{number}")
        else:
            yield ("table" if isinstance(part, ReportTable) else "text"), part
