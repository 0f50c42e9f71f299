"""The most important tables about a study as Markdown, for the artifacts of a Prefect run; all texts are escaped."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from rich import filesize

from storyframes.features import in_order
from storyframes.spec import feature_and_track
from storyframes.store import record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.record_status import WHOLE_SESSION
from storyframes.store.records import Status
from tasks.inspect.formatting import markdown_table, plain_markdown
from tasks.study.load import Study

_SPLITS = {"train": 0, "val": 1, "test": 2}  # their order


@dataclass(frozen=True)
class SplitRow:
    """The size of a split."""

    split: str
    participants: int
    sessions: int
    clips: int


@dataclass(frozen=True)
class StudySplits:
    """The participants of a study, and their splits."""

    participants: Mapping[str, set[str]]  # those of each session
    rows: tuple[SplitRow, ...]  # of each split, in their order
    leaked: Mapping[str, tuple[str, ...]]  # the participants who are in several splits, with these

    @classmethod
    def of(cls, study: Study, clips: pd.DataFrame | None) -> StudySplits:
        """Those of a study and its clip index; None where it has none."""
        people = participants_of(study)
        return cls(people, split_rows(clips, people), leaked_participants(clips, people))


def key_tables(study: Study, store: FeatureStore) -> str:
    """Participants in several splits, totals, the features by their status, and the splits."""
    entries = [entry for entry in record_status.scan(store.storage) if entry.feature != WHOLE_SESSION]
    try:
        clips = store.clips()[["session_id", "participant_id", "split"]]
    except StoreError:  # there is none, or it is damaged, which the run itself reports
        clips = None
    splits = StudySplits.of(study, clips)
    size = sum(entry.current.nbytes for entry in entries if entry.current)
    people = len(set().union(*splits.participants.values()))
    totals = (len(study.sessions), people, 0 if clips is None else len(clips), filesize.decimal(size))
    counts = Counter((entry.feature, entry.status) for entry in entries)
    states = [
        (*feature_and_track(feature), *(counts[feature, status] for status in Status))
        for feature in in_order({entry.feature for entry in entries})
    ]
    sizes = [(row.split, row.participants, row.sessions, row.clips) for row in splits.rows]
    parts = [
        *(
            f"**✗ {plain_markdown(person)} is in {plain_markdown(' and in '.join(names))}: leaked**"
            for person, names in splits.leaked.items()
        ),
        markdown_table(("sessions", "participants", "clips", "on disk"), [totals]),
        markdown_table(("feature", "track", *Status), states),
        markdown_table(("split", "participants", "sessions", "clips"), sizes) if sizes else "",
    ]
    return "\n\n".join(part for part in parts if part)


def participants_of(study: Study) -> dict[str, set[str]]:
    """The participants in each session: its own, and the others that the table ``persons`` names."""
    participants = {session_id: {session.participant_id} for session_id, session in study.sessions.items()}
    for person in study.persons:
        if person.participant_id and person.session_id in participants:
            participants[person.session_id].add(person.participant_id)
    return participants


def split_rows(clips: pd.DataFrame | None, participants: Mapping[str, set[str]]) -> tuple[SplitRow, ...]:
    """The splits of a clip index in their order; ``participants`` as of :func:`participants_of`."""
    if clips is None or clips.empty:
        return ()
    rows = [
        SplitRow(str(split), len(_in_clips(rows, participants)), rows["session_id"].nunique(), len(rows))
        for split, rows in clips.groupby("split", sort=False)
    ]
    return tuple(sorted(rows, key=lambda row: (_SPLITS.get(row.split, len(_SPLITS)), row.split)))


def leaked_participants(clips: pd.DataFrame | None, participants: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    """The participants who are in several splits of a clip index, with these splits."""
    if clips is None or clips.empty:
        return {}
    splits: dict[str, set[str]] = defaultdict(set)
    for split, rows in clips.groupby("split"):
        for person in _in_clips(rows, participants):
            splits[person].add(str(split))
    return {person: tuple(sorted(names)) for person, names in sorted(splits.items()) if len(names) > 1}


def _in_clips(clips: pd.DataFrame, participants: Mapping[str, set[str]]) -> set[str]:
    """All participants in these clips."""
    named = {str(person) for person in clips["participant_id"].unique()}
    return named.union(*(participants.get(session_id, set()) for session_id in clips["session_id"].unique()))
