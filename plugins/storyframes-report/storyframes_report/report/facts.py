"""Facts about a study, its features and its tracks for the study page: plain numbers, no text of transcripts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd

from storyframes import CLOCK, FEATURES, MAIN, STORIES, FeatureName, FeatureStore
from storyframes.store import Current, FeatureStatus, StoreError
from storyframes_report.report.label_facts import LabelColumn, SchemeFacts, label_columns, scheme_facts
from storyframes_report.report.matrix import Matrix, build_matrix
from tasks.extractors import ExtractorsSettings
from tasks.inspect import StudySplits
from tasks.planning import expected_versions
from tasks.study import Study


@dataclass(frozen=True)
class VersionRow:
    """Versions of one feature with the same provenance and caveats."""

    feature: str
    made_by: str
    caveats: str
    sessions: int
    first: str
    last: str
    bytes: int


@dataclass(frozen=True)
class StudyFacts:
    """The study page's content."""

    matrix: Matrix
    sessions: int
    participants: int
    bytes: int
    # lengths_s, words: by session, where its features have them
    lengths_s: Mapping[str, float]
    words: Mapping[str, int]
    schemes: tuple[SchemeFacts, ...]
    ages: tuple[float, ...]  # of the participants, where the study has them
    traits: Mapping[str, tuple[float, ...]]  # by scale, the scores of scales taken at one timepoint only
    # by scale and timepoint, the scores of scales taken more than once
    states: Mapping[str, Mapping[str, tuple[float, ...]]]
    clips: int  # their number
    clips_of: str  # the track whose frames were cut into clips
    phases: pd.DataFrame  # clips by phase (index) and split (columns)
    labels: tuple[LabelColumn, ...]  # the columns of labels in the clip index
    tracks: tuple[TrackFacts, ...]  # empty where sessions have only their own files
    # participants count as a session's participant or as another person in it
    splits: StudySplits
    versions: tuple[VersionRow, ...]

    @property
    def hours(self) -> float:
        return sum(self.lengths_s.values()) / 3600


def read_facts(
    study: Study,
    store: FeatureStore,
    settings: ExtractorsSettings,
    rules: Mapping[str, Any] = MappingProxyType({}),
) -> StudyFacts:
    """The study page's content, from records and tables alone; ``rules`` name the raters whose curves are features."""
    return facts_with_clips(study, store, settings, rules, read_clips(store))


def facts_with_clips(
    study: Study,
    store: FeatureStore,
    settings: ExtractorsSettings,
    rules: Mapping[str, Any],
    clips: pd.DataFrame | None,
) -> StudyFacts:
    """The same, where the clip index has been read."""
    entries = list(store.read_statuses())
    matrix = build_matrix(study.sessions, entries, expected_versions(study, store.storage, settings, rules))
    return study_facts(study, entries, clips, matrix)


# Columns that the pages do not show: of many sessions they take a third of the index's memory.
_OF_TRAINING_ALONE = [
    "clip_id", "audio_start", "audio_stop", "sound_covered", "face_confidence", "frames_expected", "longest_gap_s",
    "position", "split_group", *(f"has_{feature}" for feature in FEATURES),
]  # fmt: skip


def read_clips(store: FeatureStore) -> pd.DataFrame | None:
    """The clip index; None where it is missing or damaged, which the page says with the command that writes it."""
    try:
        return store.clips().drop(columns=_OF_TRAINING_ALONE, errors="ignore")
    except StoreError:
        return None


def study_facts(study: Study, entries: list[FeatureStatus], clips: pd.DataFrame | None, matrix: Matrix) -> StudyFacts:
    """The study page's content, from a valid study, the store's entries, the clip index and the matrix."""
    current = [entry.record for entry in entries if entry.record]
    frames = {version.session_id: version for version in current if version.feature == CLOCK}
    scores = scores_of(study)
    splits = StudySplits.of(study, clips)
    return StudyFacts(
        matrix=matrix,
        sessions=len(study.sessions),
        participants=len(set().union(*splits.participants.values())),
        bytes=sum(version.nbytes for version in current),
        lengths_s={session: length_s(version) for session, version in frames.items()},
        words={each.session_id: each.arrays["start"].shape[0] for each in current if _has_words(each, frames)},
        schemes=scheme_facts(study),
        ages=_ages(study),
        traits={scale: next(iter(taken.values())) for scale, taken in scores.items() if len(taken) == 1},
        states={scale: taken for scale, taken in scores.items() if len(taken) > 1},
        clips=0 if clips is None else len(clips),
        clips_of=MAIN if clips is None else clips.attrs.get("track", MAIN),
        phases=_by_phase(clips),
        labels=label_columns(clips),
        tracks=track_facts(study, current),
        splits=splits,
        versions=tuple(_versions(current)),
    )


def _has_words(version: Current, frames: Mapping[str, Current]) -> bool:
    """Whether the rows of a version are the words of the session's own transcript, not of another track's."""
    track = FeatureName(version.feature).track
    return track == MAIN and version.session_id in frames and {"start", "frame_word"} <= set(version.arrays)


def _ages(study: Study) -> tuple[float, ...]:
    ages = pd.Series([(person.model_extra or {}).get("age") for person in study.participants], dtype=object)
    return tuple(pd.to_numeric(ages, errors="coerce").dropna().astype(float).tolist())


def scores_of(study: Study) -> dict[str, dict[str, tuple[float, ...]]]:
    """The scores by scale and timepoint: ours in their order, then the study's own."""
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for survey in study.surveys:
        scores[survey.scale][str(survey.timepoint)].append(survey.score)
    order = {"pre": 0, "mid": 1, "post": 2}
    return {
        scale: {point: tuple(by_point[point]) for point in sorted(by_point, key=lambda point: order.get(point, 3))}
        for scale, by_point in sorted(scores.items())
    }


def _by_phase(clips: pd.DataFrame | None) -> pd.DataFrame:
    return pd.DataFrame() if clips is None or clips.empty else pd.crosstab(clips["phase"], clips["split"])


def _versions(current: Iterable[Current]) -> Iterable[VersionRow]:
    groups: dict[tuple[str, str, str], list[Current]] = defaultdict(list)
    for version in current:
        groups[version.feature, _made_by(version), "; ".join(version.caveats)].append(version)
    for (feature, made_by, caveats), versions in sorted(groups.items()):
        dates = sorted(version.created_at[:10] for version in versions)
        size = sum(version.nbytes for version in versions)
        yield VersionRow(feature, made_by, caveats, len(versions), dates[0], dates[-1], size)


def _short(digest: str) -> str:
    """The beginning of a digest; other texts in its place (``untrained``) unchanged."""
    return digest[:12] if re.fullmatch(r"[0-9a-f]{64}", digest) else digest


def _made_by(version: Current) -> str:
    """Code, extractor, tools and models in one line."""
    provenance = version.provenance
    parts = [str(provenance.get("code", "unknown code")), f"extractor {provenance.get('extractor', '?')}"]
    if isinstance(adopted := provenance.get("adopted"), dict):
        parts[1] = f"adopted from a file {_short(str(adopted.get('sha256')))}"
    parts += [f"{name} {version}" for name, version in sorted(provenance.get("tools", {}).items())]
    parts += [f"{name} {_short(str(digest))}" for name, digest in sorted(provenance.get("models", {}).items())]
    return ", ".join(parts)


@dataclass(frozen=True)
class TrackFacts:
    """One track; ``main`` are the sessions' own files."""

    name: str
    sessions: int  # with this track, in the study or in the store
    roles: str  # of the people that it records; empty where the study does not name them
    pictures: str  # hours extracted from all sessions; empty where none were
    sound: str


def track_facts(study: Study, current: Sequence[Current]) -> tuple[TrackFacts, ...]:
    """Every track of a valid study and of the store's versions, ``main`` first; empty where there is no other."""
    sessions: dict[str, set[str]] = {MAIN: set(study.sessions)}
    pictures_s: dict[str, float] = {}
    sound_s: dict[tuple[str, str], float] = {}
    for session_id, tracks in study.tracks.items():
        for track in tracks:
            sessions.setdefault(track, set()).add(session_id)
    for version in current:
        if version.session_id == STORIES:
            continue
        feature, track = FeatureName(version.feature).feature, FeatureName(version.feature).track
        sessions.setdefault(track, set()).add(version.session_id)
        if feature == CLOCK:
            pictures_s[track] = pictures_s.get(track, 0.0) + length_s(version)
        if "audio_s" in version.quality:  # of several features of the same sound, the longest
            longest = sound_s.get((version.session_id, track), 0.0)
            sound_s[version.session_id, track] = max(longest, version.quality["audio_s"])
    if len(sessions) == 1:
        return ()
    return tuple(
        TrackFacts(
            track,
            len(with_track),
            _roles(study, track),
            _hours(pictures_s.get(track, 0.0)),
            _hours(sum(seconds for (_, name), seconds in sound_s.items() if name == track)),
        )
        for track, with_track in sorted(sessions.items(), key=lambda item: (item[0] != MAIN, item[0]))
    )


def length_s(frames: Current) -> float:
    """Seconds from the first frame to the end of the last, from a version of ``frames``."""
    fps = frames.quality.get("fps", 0.0)
    return frames.quality.get("duration_s", 0.0) + (1 / fps if fps else 0.0)


def _roles(study: Study, track: str) -> str:
    roles = {(person.session_id, person.person_id): person.role or person.person_id for person in study.persons}
    devices = [tracks[track] for tracks in study.tracks.values() if track in tracks]
    recorded = {roles.get((device.session_id, device.person_id), "") for device in devices if device.person_id}
    return ", ".join(sorted(recorded - {""}))


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.2f}" if seconds else ""
