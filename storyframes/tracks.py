"""The names of tracks: a session's devices, and how a feature of one of them is called in the store.

The files that the table of sessions names are the track ``main``; its features are stored in ``<session>/<feature>``.
Those of another track are stored in ``<session>/<feature>@<track>``.
"""

from __future__ import annotations

MAIN = "main"
"""The track of the files that the table of sessions names."""

SIGN = "@"
"""Between feature and track. No feature, session or track has it in its name."""


def of_track(feature: str, track: str) -> str:
    """How a feature of a track is called in the store.

    Example:
        >>> of_track("openface", "child_b"), of_track("openface", "main")
        ('openface@child_b', 'openface')
    """
    return feature if track == MAIN else f"{feature}{SIGN}{track}"


def feature_and_track(name: str) -> tuple[str, str]:
    """What a feature of the store is, and of which track.

    Example:
        >>> feature_and_track("openface@child_b"), feature_and_track("openface")
        (('openface', 'child_b'), ('openface', 'main'))
    """
    feature, _, track = name.partition(SIGN)
    return feature, track or MAIN
