"""Forgetting people: everything that storyframes made of a session or a person is removed, and what remains is named.

``scope`` says what is to be forgotten, ``traces`` what a trace is and how it is removed. ``in_store`` finds those of a
feature store, ``beside`` those in archives, caches, reports and through the doors of plug-ins, and what cannot be
reached. ``owner`` has the rows and files that are the study owner's. ``forget`` does it in an order that a later call
can finish.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.forgetting.traces import Asked, Trace

__all__ = ["Asked", "Trace"]

__getattr__, __dir__ = exports(
    __name__,
    {
        "traces": "Asked Trace",
    },
)
