"""Which extras of storyframes are installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version

from packaging.requirements import Requirement

import storyframes
from flows.doctor.findings import Finding, State
from storyframes.installation import install_line

_FOR_DEVELOPERS = {"dev", "docs"}


def look() -> Iterator[Finding]:
    """The package, and which of its extras are whole; of one that is not, what it lacks."""
    yield Finding("storyframes", State.HERE, storyframes.__version__)
    try:
        own = distribution("storyframes")
    except PackageNotFoundError:
        advice = install_line()
        yield Finding("extras", State.GAP, "storyframes runs from a folder and is not installed", advice)
        return
    whole, lacking = [], {}
    wanted = [Requirement(text) for text in own.requires or ()]
    for extra in own.metadata.get_all("Provides-Extra") or ():
        if extra in _FOR_DEVELOPERS:
            continue
        of_it = [one for one in wanted if one.marker and one.marker.evaluate({"extra": extra})]
        if missing := [one.name for one in of_it if not _is_installed(one)]:
            lacking[extra] = missing
        else:
            whole.append(extra)
    yield Finding("extras", State.HERE, ", ".join(whole) or "none")
    for extra, missing in lacking.items():
        what = f"lacks {', '.join(missing)}"
        yield Finding(f"extra {extra}", State.GAP, what, f"{install_line(extra)}, if you want it")


def _is_installed(wanted: Requirement) -> bool:
    try:
        return wanted.specifier.contains(version(wanted.name), prereleases=True)
    except PackageNotFoundError:
        return False
