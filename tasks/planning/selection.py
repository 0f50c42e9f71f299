"""Which sessions and features are asked for, and that they exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from storyframes.features import STORIES
from tasks.extractors.base import Extractor, Scope
from tasks.extractors.registry import ExtractorsSettings, registered, unknown_feature
from tasks.study.load import Study


class SelectionError(ValueError):
    """A session or feature was asked for that does not exist."""


@dataclass(frozen=True)
class Selection:
    """What is asked for.

    Attributes:
        session_ids: these sessions; None takes all of them and the stories.
        only: these features; None takes all.
        force: extract again what is up to date.
    """

    session_ids: tuple[str, ...] | None = None
    only: tuple[str, ...] | None = None
    force: bool = False


def check_selection(study: Study, settings: ExtractorsSettings, selection: Selection) -> None:
    """Refuse a selection that names what does not exist.

    Raises:
        SelectionError: an unknown session or feature.
    """
    if selection.session_ids is not None:
        _check_known("session", selection.session_ids, all_sessions(study))
    if selection.only is not None:
        features = {*registered(), *registered(Scope.STORIES)}
        for feature in selection.only:
            if feature not in features:
                raise SelectionError(unknown_feature(feature))


def all_sessions(study: Study) -> list[str]:
    return [*study.sessions, *([STORIES] if study.stories else [])]


def selected_extractors(extractors: dict[str, Extractor], only: tuple[str, ...]) -> dict[str, Extractor]:
    """The extractors asked for, and those whose features they need first, as the session's clock."""
    wanted, added = set(only), set(only)
    while added := {name for feature in added & extractors.keys() for name in extractors[feature].after} - wanted:
        wanted |= added
    return {name: extractor for name, extractor in extractors.items() if name in wanted}


def _check_known(kind: str, asked: Iterable[str], there: Iterable[str]) -> None:
    there = list(there)
    for name in asked:
        if name not in there:
            close = difflib.get_close_matches(name, there, n=1)
            hint = f": is {close[0]!r} meant?" if close else f"; there are {', '.join(there[:12])}"
            raise SelectionError(f"there is no {kind} {name!r}{hint}")
