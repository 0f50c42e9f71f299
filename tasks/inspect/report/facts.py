"""What there is to say about a study and its features: plain numbers, no text of anybody."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from storyframes.features import CLOCK
from storyframes.store import record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.record_status import FeatureStatus
from storyframes.store.records import Current
from storyframes.tracks import MAIN, feature_and_track
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.report.label_facts import LabelColumn, SchemeFacts, label_columns, scheme_facts
from tasks.inspect.report.matrix import Matrix, build_matrix
from tasks.inspect.report.track_facts import TrackFacts, length_s, track_facts
from tasks.label_rules import LabelRule
from tasks.planning.wanted import wanted_versions
from tasks.study.load import Study, Timepoint


@dataclass(frozen=True)
class VersionRow:
    """What made the versions of one feature, and their caveats; several rows where not all are alike."""

    feature: str
    made_by: str
    caveats: str
    sessions: int
    first: str
    last: str
    bytes: int


@dataclass(frozen=True)
class SplitRow:
    """One split: its participants and its clips."""

    split: str
    participants: int
    sessions: int
    clips: int


@dataclass(frozen=True)
class StudyFacts:
    """The study page's content.

    Attributes:
        lengths_s, words: by session; of those sessions whose features tell.
        schemes: what labels the study's tables give.
        ages: of the participants, where the study knows them.
        traits: by scale, the scores of scales taken at one timepoint only.
        states: by scale and timepoint, the scores of scales taken more than once.
        clips: how many.
        clips_of: the track whose frames were cut into clips.
        phases: clips by phase (index) and split (columns).
        labels: the columns of labels that the clip index has.
        tracks: what there is of each track, where there are others than the sessions' own files.
        splits: one row for each split.
        leaked: participants that appear in more than one split, be it as whom a session is of or as another person in
            it, with those splits.
    """

    matrix: Matrix
    sessions: int
    participants: int
    bytes: int
    lengths_s: Mapping[str, float]
    words: Mapping[str, int]
    schemes: tuple[SchemeFacts, ...]
    ages: tuple[float, ...]
    traits: Mapping[str, tuple[float, ...]]
    states: Mapping[str, Mapping[str, tuple[float, ...]]]
    clips: int
    clips_of: str
    phases: pd.DataFrame
    labels: tuple[LabelColumn, ...]
    tracks: tuple[TrackFacts, ...]
    splits: tuple[SplitRow, ...]
    leaked: Mapping[str, tuple[str, ...]]
    versions: tuple[VersionRow, ...]

    @property
    def hours(self) -> float:
        return sum(self.lengths_s.values()) / 3600


def read_facts(
    study: Study,
    store: FeatureStore,
    settings: ExtractorsSettings,
    rules: Mapping[str, LabelRule] = MappingProxyType({}),
) -> StudyFacts:
    """The study page's content, from records and tables alone; ``rules`` say of which raters curves are features."""
    entries = list(record_status.scan(store.storage))
    matrix = build_matrix(study.sessions, entries, wanted_versions(study, store.storage, settings, rules))
    return study_facts(study, entries, read_clips(store), matrix)


def read_clips(store: FeatureStore) -> pd.DataFrame | None:
    """The clip index, None where the store has none that can be read."""
    try:
        return store.clips()
    except StoreError:
        return None  # none yet, or damaged: the page says that there is none and how to write it


def study_facts(study: Study, entries: list[FeatureStatus], clips: pd.DataFrame | None, matrix: Matrix) -> StudyFacts:
    """Everything the study page says.

    Args:
        study: a valid study.
        entries: what the store knows.
        clips: the clip index; None where the store has none.
        matrix: sessions x features.
    """
    current = [entry.record for entry in entries if entry.record]
    frames = {one.session_id: one for one in current if one.feature == CLOCK}
    scores = scores_of(study)
    people = _people(study)
    return StudyFacts(
        matrix=matrix,
        sessions=len(study.sessions),
        participants=len(set().union(*people.values())),
        bytes=sum(one.nbytes for one in current),
        lengths_s={session: length_s(one) for session, one in frames.items()},
        words={one.session_id: one.arrays["start"].shape[0] for one in current if _of_words(one, frames)},
        schemes=scheme_facts(study),
        ages=_ages(study),
        traits={scale: next(iter(taken.values())) for scale, taken in scores.items() if len(taken) == 1},
        states={scale: taken for scale, taken in scores.items() if len(taken) > 1},
        clips=0 if clips is None else len(clips),
        clips_of=MAIN if clips is None else clips.attrs.get("track", MAIN),
        phases=_by_phase(clips),
        labels=label_columns(clips),
        tracks=track_facts(study, current),
        splits=_splits(clips, people),
        leaked=_leaked(clips, people),
        versions=tuple(_versions(current)),
    )


def _of_words(one: Current, frames: Mapping[str, Current]) -> bool:
    """Whether the rows of a session's feature are the words of its own transcript, not of another track's."""
    _, track = feature_and_track(one.feature)
    return track == MAIN and one.session_id in frames and {"start", "frame_word"} <= set(one.arrays)


def _ages(study: Study) -> tuple[float, ...]:
    ages = pd.Series([(person.model_extra or {}).get("age") for person in study.participants], dtype=object)
    return tuple(pd.to_numeric(ages, errors="coerce").dropna().astype(float).tolist())


def scores_of(study: Study) -> dict[str, dict[str, tuple[float, ...]]]:
    gathered: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for survey in study.surveys:
        gathered[survey.scale][str(survey.timepoint)].append(survey.score)
    in_order = {str(point): place for place, point in enumerate(Timepoint)}  # then a study's own, as they come
    return {
        scale: {point: tuple(taken[point]) for point in sorted(taken, key=lambda point: in_order.get(point, 3))}
        for scale, taken in sorted(gathered.items())
    }


def _by_phase(clips: pd.DataFrame | None) -> pd.DataFrame:
    return pd.DataFrame() if clips is None or clips.empty else pd.crosstab(clips["phase"], clips["split"])


def _people(study: Study) -> dict[str, set[str]]:
    """The participants who are in each session: whom it is of, and the others that the table ``persons`` names."""
    people = {session_id: {session.participant_id} for session_id, session in study.sessions.items()}
    for person in study.persons:
        if person.participant_id and person.session_id in people:
            people[person.session_id].add(person.participant_id)
    return people


def _splits(clips: pd.DataFrame | None, people: Mapping[str, set[str]]) -> tuple[SplitRow, ...]:
    if clips is None or clips.empty:
        return ()
    rows = [
        SplitRow(str(split), len(_in_clips(of, people)), of["session_id"].nunique(), len(of))
        for split, of in clips.groupby("split", sort=False)
    ]
    order = {"train": 0, "val": 1, "test": 2}
    return tuple(sorted(rows, key=lambda row: (order.get(row.split, 3), row.split)))


def _leaked(clips: pd.DataFrame | None, people: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    if clips is None or clips.empty:
        return {}
    splits: dict[str, set[str]] = defaultdict(set)
    for split, of in clips.groupby("split"):
        for person in _in_clips(of, people):
            splits[person].add(str(split))
    return {person: tuple(sorted(of)) for person, of in sorted(splits.items()) if len(of) > 1}


def _in_clips(clips: pd.DataFrame, people: Mapping[str, set[str]]) -> set[str]:
    """Everybody who is in these clips."""
    named = {str(person) for person in clips["participant_id"].unique()}
    return named.union(*(people.get(session_id, set()) for session_id in clips["session_id"].unique()))


def _versions(current: Iterable[Current]) -> Iterable[VersionRow]:
    alike: dict[tuple[str, str, str], list[Current]] = defaultdict(list)
    for one in current:
        alike[one.feature, _made_by(one), "; ".join(one.caveats)].append(one)
    for (feature, made_by, caveats), of in sorted(alike.items()):
        dates = sorted(one.created_at[:10] for one in of)
        yield VersionRow(feature, made_by, caveats, len(of), dates[0], dates[-1], sum(one.nbytes for one in of))


def _short(digest: str) -> str:
    """A digest by its beginning; whatever else stands in its place (``untrained``) as it is."""
    return digest[:12] if re.fullmatch(r"[0-9a-f]{64}", digest) else digest


def _made_by(one: Current) -> str:
    """Code, extractor, tools and models in one line: what could differ between two versions of a feature."""
    provenance = one.provenance
    parts = [str(provenance.get("code", "unknown code")), f"extractor {provenance.get('extractor', '?')}"]
    parts += [f"{name} {version}" for name, version in sorted(provenance.get("tools", {}).items())]
    parts += [f"{name} {_short(str(digest))}" for name, digest in sorted(provenance.get("models", {}).items())]
    return ", ".join(parts)
