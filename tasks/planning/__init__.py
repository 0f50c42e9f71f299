"""Before anything is started: what is due, in which order, and what it will cost.

``plan`` compares the study with the store: of the ``selection`` that is asked for, ``sources`` gives the files of each
session, and ``units`` makes of what is due the units that begin in order, with what they need and cost. ``sample`` →
``rates`` → ``forecast`` measure how long a whole study will take here.

``parts`` deals the sessions to processes that run apart.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.planning.plan import ExpectedVersion, expected_versions
    from tasks.planning.selection import Selection

__all__ = ["ExpectedVersion", "Selection", "expected_versions"]

__getattr__, __dir__ = exports(
    __name__,
    {
        "plan": "ExpectedVersion expected_versions",
        "selection": "Selection",
    },
)
