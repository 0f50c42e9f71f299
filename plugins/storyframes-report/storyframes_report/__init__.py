"""Looking at a study, its recordings and its features.

``commands`` are ``storyframes report``, ``compare``, ``view`` and ``overlay``. ``report`` makes a site of pages.
``compare`` compares two stores within ``tolerances``, and ``comparison_tables`` shows the result. ``overlay`` draws
landmarks and joints on a frame, ``rerun_export`` writes a session for rerun.io. ``devices`` are the cameras and
microphones of a session.

Other plug-ins import these names: a page of the report is a function of a ``ReportContext`` that returns a
``ReportPage``, and a site of their own is made with ``new_site`` and ``render``.
"""

from typing import TYPE_CHECKING

from storyframes import exports

if TYPE_CHECKING:
    from storyframes_report.report.chart import COLOURS, Chart, label
    from storyframes_report.report.page import Disclosure, ReportContext, ReportPage, ReportTable
    from storyframes_report.report.pages import ReportError, check_target, new_site, render
    from storyframes_report.report.session_page import ReportOptions
    from storyframes_report.report.site import build_report

__all__ = [
    "COLOURS",
    "Chart",
    "Disclosure",
    "ReportContext",
    "ReportError",
    "ReportOptions",
    "ReportPage",
    "ReportTable",
    "build_report",
    "check_target",
    "label",
    "new_site",
    "render",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "report.chart": "COLOURS Chart label",
        "report.page": "Disclosure ReportContext ReportPage ReportTable",
        "report.pages": "ReportError check_target new_site render",
        "report.session_page": "ReportOptions",
        "report.site": "build_report",
    },
)
