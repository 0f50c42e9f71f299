"""Which sessions and features are asked for, and that they exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from storyframes.features import CLOCK, STORIES
from storyframes.spec import LABEL_PREFIX, MAIN
from tasks.extractors.base import Extractor, Input, Scope
from tasks.extractors.registry import ExtractorsSettings, registered, unknown_feature
from tasks.study.load import Study
from tasks.study.rows import Track


class SelectionError(ValueError):
    """A session or feature was asked for that does not exist."""


@dataclass(frozen=True)
class Selection:
    """What is asked for."""

    session_ids: tuple[str, ...] | None = None  # these sessions; None takes all of them and the stories
    only: tuple[str, ...] | None = None  # these features; None takes all
    force: bool = False  # extract again what is up to date
    # of the sessions' tracks these; None takes all of them. The stories go with ``main``
    tracks: tuple[str, ...] | None = None

    def check(self, study: Study, settings: ExtractorsSettings, curves: Iterable[str] = ()) -> None:
        """Refuse names of what does not exist; ``curves`` are the study's, as features.

        Raises:
            SelectionError: an unknown session, track or feature.
        """
        if self.session_ids is not None:
            _check_known("session", self.session_ids, all_sessions(study))
        if self.tracks is not None:
            asked = self.session_ids or study.sessions
            tracks = dict.fromkeys(track for session_id in asked for track in (MAIN, *study.tracks.get(session_id, ())))
            _check_known("track", self.tracks, tracks)
        if self.only is not None:
            curves = sorted(curves)
            models = [model.name for model in settings.embed]
            features = {*registered(), *registered(Scope.STORIES), *models, *curves}
            for feature in self.only:
                if feature.startswith(LABEL_PREFIX) and feature not in features:
                    raise SelectionError(_unknown_curve(study, feature, curves))
                if feature not in features:
                    raise SelectionError(unknown_feature(feature, models))


def _unknown_curve(study: Study, feature: str, curves: list[str]) -> str:
    scheme = study.schemes.get(feature.removeprefix(LABEL_PREFIX))
    why = "; the scheme is private, and its curves stay out of the store" if scheme and scheme.private else ""
    return f"there is no feature {feature!r}{why}; the study's curves are {', '.join(curves) or 'none'}"


def all_sessions(study: Study) -> list[str]:
    return [*study.sessions, *([STORIES] if study.stories else [])]


def selected_tracks(study: Study, session_id: str, selection: Selection) -> list[str]:
    """The tracks of a session that are asked for, its own files first; the stories have none but ``main``."""
    tracks = dict.fromkeys((MAIN, *study.tracks.get(session_id, ())))
    return [track for track in tracks if selection.tracks is None or track in selection.tracks]


def track_extractors(
    extractors: dict[str, Extractor[Any]], study: Study, session_id: str, track: str, selection: Selection
) -> dict[str, Extractor[Any]]:
    """The extractors of a track: of the session's own files all, of another track those that it has the inputs for.

    What is asked for by name of tracks that are asked for by name is attempted all the same: why it cannot be made is
    then said.
    """
    if track == MAIN:
        return extractors
    possible = possible_extractors(extractors, study.tracks[session_id][track])
    named = set(selection.only or ()) if selection.tracks is not None else set()
    return {name: extractor for name, extractor in extractors.items() if name in possible or name in named}


def possible_extractors(extractors: dict[str, Extractor[Any]], track: Track) -> dict[str, Extractor[Any]]:
    """Those of which the track has all inputs, and what they have to wait for as well.

    A track without a video has no frames: only what can do without them is made of it.
    """
    if track.video is None:
        extractors, own = without_frames(extractors), {Input.VIDEO}
    else:
        own = set() if track.audio or track.of else {Input.AUDIO}  # the video's own sound, which no region has
    return _that_can_begin(
        {
            name: extractor
            for name, extractor in extractors.items()
            if all(getattr(track, kind, None) for kind in set(extractor.inputs) - own - _heard_by(extractor, track))
        },
        needs_no_clock=track.video is None,
    )


def _heard_by(extractor: Extractor[Any], track: Track) -> set[str]:
    """Inputs that an extractor of microphones does without: a region's sound is that of the whole picture."""
    if Input.MICROPHONES not in extractor.inputs:
        return set()
    return {Input.MICROPHONES, Input.TURNS, *([Input.AUDIO] if track.video else [])}


def without_frames(extractors: Mapping[str, Extractor[Any]]) -> dict[str, Extractor[Any]]:
    """Those that can do without frames, and without what cannot."""
    return _that_can_begin(
        {
            name: extractor
            for name, extractor in extractors.items()
            if not (extractor.needs_frames and (Input.VIDEO in extractor.inputs or CLOCK in (name, *extractor.after)))
        },
        needs_no_clock=True,
    )


def _that_can_begin(extractors: dict[str, Extractor[Any]], *, needs_no_clock: bool) -> dict[str, Extractor[Any]]:
    """Those of which all that they wait for is among them."""
    made = {*extractors, *((CLOCK,) if needs_no_clock else ())}
    while waiting := [name for name in extractors if not made.issuperset(extractors[name].after)]:
        extractors = {name: extractor for name, extractor in extractors.items() if name not in waiting}
        made -= {*waiting}
    return extractors


def selected_extractors(extractors: dict[str, Extractor[Any]], only: tuple[str, ...]) -> dict[str, Extractor[Any]]:
    """The extractors asked for, and those whose features they need first, as the session's clock."""
    wanted, added = set(only), set(only)
    while added := {name for feature in added & extractors.keys() for name in extractors[feature].after} - wanted:
        wanted |= added
    return {name: extractor for name, extractor in extractors.items() if name in wanted}


def _check_known(kind: str, asked: Iterable[str], existing: Iterable[str]) -> None:
    existing = list(existing)
    for name in asked:
        if name not in existing:
            close = difflib.get_close_matches(name, existing, n=1)
            hint = f": is {close[0]!r} meant?" if close else f"; there are {', '.join(existing[:12])}"
            raise SelectionError(f"there is no {kind} {name!r}{hint}")
