"""Which extractors there are, for a person: what each reads, where it runs, whether it can run here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from storyframes.features import STORIES
from tasks.extractors.base import Cost, ExtractionError, Extractor, Run, Scope
from tasks.extractors.outside.environment import Requirements
from tasks.extractors.outside.extractor import OutsideExtractor
from tasks.extractors.registry import ExtractorsSettings, broken, build_extractors
from tasks.extractors.required_tools import RunsTool


class NoEnvironmentError(Exception):
    """No extractor of this name has an environment of its own; the message says which have."""


@dataclass(frozen=True)
class ExtractorState:
    """One extractor, as it is on this machine.

    Attributes:
        feature: what it writes; ``stories/…`` for a feature of the story texts.
        inputs: what it reads.
        run: where its work is done.
        origin: the distribution that it comes with, and its version; empty for storyframes' own.
        missing: why it cannot run here; empty where it can.
        cost: of one extraction.
        private: whether its errors' texts are withheld, since they could quote somebody's words.
    """

    feature: str
    inputs: tuple[str, ...]
    run: Run
    origin: str
    missing: str
    cost: Cost
    private: bool


def overview(settings: ExtractorsSettings) -> list[ExtractorState]:
    """Every extractor with these settings; nothing is downloaded, and nothing run."""
    return [_state(extractor) for extractor in _extractors(settings)]


def requirements_of(name: str) -> Requirements:
    """What the environment is made of that has this name, or the feature's.

    Raises:
        NoEnvironmentError: there is none.
    """
    outside = [extractor for extractor in _extractors(ExtractorsSettings()) if isinstance(extractor, OutsideExtractor)]
    own = [extractor for extractor in outside if extractor.run is Run.VENV]
    for extractor in own:
        if name in (extractor.requirements.name, extractor.name):
            return extractor.requirements
    names = ", ".join(sorted({extractor.requirements.name for extractor in own})) or "none"
    sentence = f"{name!r} has no environment of its own to install; there are: {names}"
    if broken():
        sentence += "; plug-ins that cannot be used: " + "; ".join(f"{point}: {why}" for point, why in broken().items())
    raise NoEnvironmentError(sentence)


def _extractors(settings: ExtractorsSettings) -> Iterator[Extractor[Any]]:
    for session_id in ("", STORIES):
        yield from build_extractors(settings, session_id, may_download=False).values()


def _state(extractor: Extractor[Any]) -> ExtractorState:
    of_stories = extractor.scope is Scope.STORIES
    return ExtractorState(
        feature=f"stories/{extractor.name}" if of_stories else extractor.name,
        inputs=tuple(str(kind) for kind in extractor.inputs),
        run=extractor.run,
        origin=extractor.distribution,
        missing=_missing(extractor),
        cost=extractor.cost,
        private=extractor.is_private,
    )


def _missing(extractor: Extractor[Any]) -> str:
    """Why the extractor cannot run here; a plug-in's own fault is told as well, and takes nothing else down."""
    try:
        if isinstance(extractor, RunsTool):
            extractor.check_tool()
        extractor.models()
        extractor.tools()
    except ExtractionError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
