"""Looking at a study, its recordings and its features.

``study_check`` opens every file of a study.

Curves: a ``stored_feature`` is a feature as the store describes it. ``track_curves`` makes the ``session_curves`` of a
track from them, with ``array_curves`` for features without a special view. ``quality`` judges the curves by rules.

``key_tables`` are what a run shows of a study on the Prefect server. ``formatting`` writes numbers for people and texts
in Markdown.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.inspect.formatting import (
        counted,
        human_bytes,
        human_time,
        markdown_table,
        measured_rows,
        measured_share,
        plain_markdown,
    )
    from tasks.inspect.key_tables import SplitRow, leaked_participants, participants_of, split_rows
    from tasks.inspect.quality import Quality, QualityFinding, Rule, Span, check_quality, total_s
    from tasks.inspect.session_curves import (
        ACTION_UNITS,
        CHOSEN_UNITS,
        CurveSummary,
        SessionCurves,
        Utterances,
        named_curves,
        summarize,
        summarize_curves,
    )
    from tasks.inspect.stored_feature import StoredFeature
    from tasks.inspect.track_curves import has_curves, read_curves

__all__ = [
    "ACTION_UNITS",
    "CHOSEN_UNITS",
    "CurveSummary",
    "Quality",
    "QualityFinding",
    "Rule",
    "SessionCurves",
    "Span",
    "SplitRow",
    "StoredFeature",
    "Utterances",
    "check_quality",
    "counted",
    "has_curves",
    "human_bytes",
    "human_time",
    "leaked_participants",
    "markdown_table",
    "measured_rows",
    "measured_share",
    "named_curves",
    "participants_of",
    "plain_markdown",
    "read_curves",
    "split_rows",
    "summarize",
    "summarize_curves",
    "total_s",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "formatting": "counted human_bytes human_time markdown_table measured_rows measured_share plain_markdown",
        "key_tables": "SplitRow leaked_participants participants_of split_rows",
        "quality": "Quality QualityFinding Rule Span check_quality total_s",
        "session_curves": "ACTION_UNITS CHOSEN_UNITS CurveSummary SessionCurves Utterances named_curves summarize "
        "summarize_curves",
        "stored_feature": "StoredFeature",
        "track_curves": "has_curves read_curves",
    },
)
