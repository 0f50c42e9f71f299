"""The sessions that may be given away: those of the study as it is, never those that happen to be in the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from storyframes import MAIN, STORIES, FeatureName, FeatureStore
from storyframes.store import Forgotten, StoreError, StudyRecord
from storyframes_release.release.settings import ReleaseError

_CURE = "give --study STUDY, or 'storyframes index STUDY STORE' reads its tables again"


@dataclass(frozen=True)
class StudySessions:
    """Which sessions the study has.

    Attributes:
        sessions: their ids; None where no study is known.
        source: what says so, with its date, for people.
        record: the store's record of the study; None where it has none.
        forgotten: what the store was told to forget.
        forgotten_ids: ids of the study's own list of the forgotten, where the study is given.
        people: ids of the study's people, where the study is given.
        tracks: by session, the tracks that the study has, where the study is given.
        participants: by session, its participant, where the study is given.
    """

    sessions: frozenset[str] | None
    source: str
    record: StudyRecord | None
    forgotten: Forgotten
    forgotten_ids: frozenset[str] = field(default=frozenset())
    people: frozenset[str] = field(default=frozenset())
    tracks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    participants: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_tables(cls, store: FeatureStore, study: Path) -> StudySessions:
        """The sessions that a study's tables have now.

        Raises:
            StudyError: the tables are not valid, or name a session that is forgotten.
            StoreError: the store is of another study.
        """
        from tasks.study import check_study_record, load_study

        loaded = load_study(study)
        listed = loaded.forgotten_ids
        check_study_record(store.storage, loaded, may_be_part=True)
        return cls(
            frozenset(loaded.sessions),
            f"the tables of {study.name or study.resolve().name} as they are now",
            store.study_record(),
            store.forgotten().with_ids(listed.sessions, listed.people, listed.tracks),
            frozenset({*listed.sessions, *listed.people}),
            frozenset(loaded.ids_of_people),
            {session: frozenset(tracks) for session, tracks in loaded.tracks.items()},
            {session_id: session.participant_id for session_id, session in loaded.sessions.items()},
        )

    @classmethod
    def of_record(cls, store: FeatureStore) -> StudySessions:
        """The sessions of the store's record of the study.

        Raises:
            StoreError: the record is damaged, or older than the catalogue.
        """
        record, forgotten = store.study_record(), store.forgotten()
        if record is None:
            return cls(None, "a store without a record of its study", None, forgotten)
        if why := record.why_older(store.storage):
            raise StoreError(
                f"{store.storage.location}: which sessions the study has now is not known ({why}): {_CURE}"
            )
        return cls(frozenset(record.sessions), f"the store's study record of {record.date}", record, forgotten)

    def is_forgotten(self, session_id: str) -> bool:
        """Whether the session was forgotten, by the store's digests or the study's list."""
        return session_id in self.forgotten_ids or self.forgotten.has_session(session_id)

    def participant(self, session_id: str) -> str:
        """The participant of a session, of the study's tables before the store's record; empty if none is known."""
        recorded = {} if self.record is None else self.record.sessions.get(session_id, {})
        return self.participants.get(session_id) or str(recorded.get("participant_id", ""))

    def may_share(self, session_id: str) -> bool:
        """Whether the study has the session; any that is not forgotten, where no study is known."""
        is_of_study = self.sessions is None or session_id in self.sessions or session_id == STORIES
        return is_of_study and not self.is_forgotten(session_id)

    def may_share_feature(self, session_id: str, feature: str) -> bool:
        """Whether the feature, of a session that may be given away, is of a track that the study has."""
        track, tracks = FeatureName(feature).track, self.tracks.get(session_id)
        is_of_study = tracks is None or track == MAIN or track in tracks
        return is_of_study and not self.forgotten.has_feature(session_id, feature)

    def shared(self, sessions: Iterable[str]) -> list[str]:
        """Those of the sessions that may be given away."""
        return [session for session in sessions if self.may_share(session)]

    def refuse(self, sessions: Iterable[str]) -> None:
        """Refuse sessions that are asked for by name and were forgotten.

        Raises:
            StoreError: one of them is.
        """
        for session_id in sessions:
            if self.is_forgotten(session_id):
                raise StoreError(
                    f"--session {session_id}: was forgotten ('storyframes forget'), so it is given to nobody; if the "
                    "store has it again, from a backup, 'storyframes forget STUDY STORE' removes it"
                )

    def remarks(self, stored: Iterable[str], chosen: Iterable[str] = ()) -> list[str]:
        """What an export has to say of people: which study its sessions are of, and whose consent may be withdrawn.

        Args:
            stored: the sessions that the store has.
            chosen: the sessions that are asked for by name.
        """
        lines = [f"Sessions are those of {self.source}."]
        if self.sessions is None:
            lines = ["The store has no record of a study, so whether people withdrew is not known."]
        chosen = [*chosen]
        if not chosen and (others := sum(not self.may_share(session) for session in stored)):
            lines.append(f"Left out, as the study does not have them: {others} of the store's sessions.")
        if kept := [session for session in chosen if not self.may_share(session)]:
            lines.append(f"The study does not have {', '.join(kept)}: their people may have withdrawn. Ask before use.")
        return lines

    def require(self) -> None:
        """Refuse a store of which no study is known.

        Raises:
            ReleaseError: there is no record, and no tables were given.
        """
        if self.sessions is None:
            raise ReleaseError(f"the store has no record of its study, so who withdrew is not known: {_CURE}")

    def names(self) -> Iterator[str]:
        """Every id of the study that is known, also of those who left it."""
        record = self.record or StudyRecord({})
        yield from (*(self.sessions or ()), *self.people, *self.forgotten_ids)
        yield from (*record.sessions, *(record.people or ()), *record.left)
        yield from filter(None, (str(of.get("participant_id", "")) for of in record.sessions.values()))


def study_sessions(store: FeatureStore, study: Path | None) -> StudySessions:
    """The sessions of the study's tables; without them, of the store's record of the study.

    Raises:
        StudyError, StoreError: see :meth:`StudySessions.of_tables` and :meth:`StudySessions.of_record`.
    """
    return StudySessions.of_record(store) if study is None else StudySessions.of_tables(store, study)
