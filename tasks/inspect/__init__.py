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
        human_time,
        markdown_table,
    )
    from tasks.inspect.key_tables import StudySplits
    from tasks.inspect.quality import Quality, QualityFinding, Rule
    from tasks.inspect.session_curves import (
        SessionCurves,
    )
    from tasks.inspect.stored_feature import StoredFeature
    from tasks.inspect.track_curves import has_curves, read_curves

__all__ = [
    "Quality",
    "QualityFinding",
    "Rule",
    "SessionCurves",
    "StoredFeature",
    "StudySplits",
    "counted",
    "has_curves",
    "human_time",
    "markdown_table",
    "read_curves",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "key_tables": "StudySplits",
        "formatting": "counted human_time markdown_table",
        "quality": "Quality QualityFinding Rule",
        "session_curves": "SessionCurves",
        "stored_feature": "StoredFeature",
        "track_curves": "has_curves read_curves",
    },
)
