"""What can be extracted on this machine: asked before any work begins, and shown to a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from storyframes.features import STORIES
from tasks.extractors.base import Cost, ExtractionError, Extractor, Run, Scope
from tasks.extractors.outside.environment import Requirements
from tasks.extractors.outside.extractor import OutsideExtractor
from tasks.extractors.registry import ExtractorsSettings, broken, build_extractors


class MissingToolError(Exception):
    """A feature cannot be extracted on this machine; the message says what is missing, and what to do."""


class NoEnvironmentError(Exception):
    """No extractor of this name has an environment of its own; the message says which have."""


def missing_tools(settings: ExtractorsSettings, features: Iterable[str]) -> list[str]:
    """What the extractors of these features lack here, a sentence for each reason."""
    features_by_reason: dict[str, list[str]] = {}
    extractors = build_extractors(settings, "")
    for feature in features:
        if feature in extractors:
            try:
                extractors[feature].check_tool()
            except ExtractionError as error:
                features_by_reason.setdefault(str(error), []).append(feature)
    return [
        f"{', '.join(lacking)} cannot be extracted here: {reason}" for reason, lacking in features_by_reason.items()
    ]


def check_tools(settings: ExtractorsSettings, only: Iterable[str] | None) -> None:
    """Refuse, before any work, what cannot be done here of these features, or of the settings' own.

    Raises:
        MissingToolError: a program is missing.
    """
    if missing := missing_tools(settings, settings.features if only is None else only):
        raise MissingToolError("; ".join(missing))


@dataclass(frozen=True)
class ExtractorState:
    """One extractor, as it is on this machine."""

    feature: str  # what it writes; ``stories/…`` for a feature of the story texts
    inputs: tuple[str, ...]  # what it reads
    run: Run  # where its work is done
    origin: str  # the distribution that it comes with, and its version; empty for storyframes' own
    missing: str  # why it cannot run here; empty if it can
    condition: str  # of what alone it can be made here; empty if its inputs say all
    cost: Cost  # of one extraction
    private: bool  # whether its errors' texts are withheld, since they could quote somebody's words


def overview(settings: ExtractorsSettings) -> list[ExtractorState]:
    """Every extractor with these settings; nothing is downloaded, and nothing run.

    Raises:
        ModuleNotFoundError: recordings cannot be read, so nothing can be extracted: the pipeline is not installed.
    """
    import_module("av")
    return [_state(extractor) for extractor in _all_extractors(settings)]


def requirements_of(name: str) -> Requirements:
    """The requirements of the environment that has this name, or the feature's.

    Raises:
        NoEnvironmentError: there is none.
    """
    outside = [
        extractor for extractor in _all_extractors(ExtractorsSettings()) if isinstance(extractor, OutsideExtractor)
    ]
    with_environment = [extractor for extractor in outside if extractor.run is Run.VENV]
    for extractor in with_environment:
        if name in (extractor.requirements.name, extractor.name):
            return extractor.requirements
    names = ", ".join(sorted({extractor.requirements.name for extractor in with_environment})) or "none"
    sentence = f"{name!r} has no environment of its own to install; there are: {names}"
    if broken():
        sentence += "; plug-ins that cannot be used: " + "; ".join(f"{point}: {why}" for point, why in broken().items())
    raise NoEnvironmentError(sentence)


def _all_extractors(settings: ExtractorsSettings) -> Iterator[Extractor[Any]]:
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
        condition=extractor.condition,
        cost=extractor.cost,
        private=extractor.is_private,
    )


def _missing(extractor: Extractor[Any]) -> str:
    """Why the extractor cannot run here. A plug-in's own fault is reported as well, and affects no other extractor."""
    try:
        extractor.check_tool()
        extractor.models()
        extractor.tools()
    except ExtractionError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
