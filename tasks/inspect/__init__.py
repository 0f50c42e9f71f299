"""Looking at a study, its recordings and its features.

``study_check`` opens every file of a study; ``devices`` are the cameras and microphones of a session.

Curves: a ``stored_feature`` is a feature as the store describes it. ``read_curves`` makes the ``session_curves`` of a
track from them, with ``array_curves`` for features without a special view. ``quality`` judges the curves by rules;
``overlay`` draws landmarks and joints on a frame, ``rerun_export`` writes a session for
rerun.io.

``compare`` compares two stores within ``tolerances``. ``formatting`` writes numbers for people and texts in Markdown.
``report`` makes a site of pages.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.inspect.formatting import counted, human_time, markdown_table, plain_markdown

__all__ = [
    "counted",
    "human_time",
    "markdown_table",
    "plain_markdown",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "formatting": "counted human_time markdown_table plain_markdown",
    },
)
