"""Checks, before any extraction begins, that the programs that the extractors run are installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from tasks.extractors.base import ExtractionError
from tasks.extractors.registry import ExtractorsSettings, build_extractors


class MissingToolError(Exception):
    """A feature cannot be extracted on this machine; the message says what is missing, and what to do."""


@runtime_checkable
class TriesOut(Protocol):
    """An extractor that can show, on a short clip, that what it runs works here."""

    def try_out(self, video: Path) -> Mapping[str, str]:
        """Run it on the first seconds of ``video``, which has a face in it.

        Returns:
            What that showed, by what it is about: of the tool, never of the video.

        Raises:
            ExtractionError: it does not work here.
        """


@runtime_checkable
class RunsTool(Protocol):
    """An extractor that runs a program."""

    name: str

    def check_tool(self) -> None:
        """Look for the program, without running it on anything.

        Raises:
            ExtractionError: it cannot be run here.
        """


def missing_tools(settings: ExtractorsSettings, features: Iterable[str]) -> list[str]:
    """What the extractors of these features lack here, a sentence for each."""
    found: list[str] = []
    extractors = build_extractors(settings, "")
    for feature in features:
        extractor = extractors.get(feature)
        if isinstance(extractor, RunsTool):
            try:
                extractor.check_tool()
            except ExtractionError as error:
                found.append(f"{feature} cannot be extracted here: {error}")
    return found


def check_tools(settings: ExtractorsSettings, only: Iterable[str] | None) -> None:
    """Refuse what cannot be done here.

    Args:
        settings: of all extractors.
        only: the features asked for; None for those of the settings.

    Raises:
        MissingToolError: a program is missing.
    """
    if missing := missing_tools(settings, settings.features if only is None else only):
        raise MissingToolError("; ".join(missing))
