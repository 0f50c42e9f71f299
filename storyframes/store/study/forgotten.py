"""The forgotten of a store: keyed digests of the ids of sessions, tracks and people that it was told to forget.

No id can be read from ``forgotten.json``; whoever has the file and guesses an id can confirm it. So the store refuses a
session whose folder a backup brings back, and a release is compared with ids that no table has any more.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from storyframes.spec import MAIN, feature_and_track
from storyframes.store.layout import FORGOTTEN, StoreError
from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import Storage

_WORDS = re.compile(r"[^\W_]+")  # an underscore ends a word: names of columns have it between their parts, valence_p01


@dataclass(frozen=True)
class Forgotten:
    """Digests by which a store recognises what it was told to forget.

    Attributes:
        key: of the digests, random.
        sessions, tracks, people: digests of the ids.
        words: digests of the words of these ids, as texts have them.
        longest: the most words of an id.
    """

    key: str = ""
    sessions: frozenset[str] = frozenset()
    tracks: frozenset[str] = frozenset()
    people: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    longest: int = 0

    def __bool__(self) -> bool:
        return bool(self.key)

    def has_session(self, session_id: str) -> bool:
        """Whether the session is forgotten."""
        return bool(self.sessions) and self._digest("session", session_id) in self.sessions

    def has_track(self, session_id: str, track: str) -> bool:
        """Whether the track is forgotten, alone or with its session."""
        is_alone = bool(self.tracks) and self._digest("track", session_id, track) in self.tracks
        return is_alone or self.has_session(session_id)

    def has_feature(self, session_id: str, feature: str) -> bool:
        """Whether the feature is of a session or of a track that is forgotten."""
        if not self.tracks:
            return self.has_session(session_id)
        return self.has_track(session_id, feature_and_track(feature)[1] or MAIN)

    def has_person(self, person_id: str) -> bool:
        """Whether the participant or person is forgotten."""
        return bool(self.people) and self._digest("person", person_id) in self.people

    def has_words(self, words: tuple[str, ...]) -> bool:
        """Whether these words, as :func:`id_words` gives them, are the id of a forgotten session or person."""
        return len(words) <= self.longest and self._digest("words", *words) in self.words

    def with_ids(self, sessions: Iterable[str], people: Iterable[str], tracks: Iterable[tuple[str, str]] = ()) -> Self:
        """These digests, and those of further ids."""
        sessions, people = [*sessions], [*people]
        made = self if self.key else replace(self, key=secrets.token_hex(32))
        words = [id_words(name) for name in (*sessions, *people) if is_distinctive(name)]
        return replace(
            made,
            sessions=made.sessions | {made._digest("session", name) for name in sessions},
            tracks=made.tracks | {made._digest("track", *track) for track in tracks},
            people=made.people | {made._digest("person", name) for name in people},
            words=made.words | {made._digest("words", *of_id) for of_id in words},
            longest=max([made.longest, *map(len, words)]),
        )

    def to_json(self) -> bytes:
        """The content of ``forgotten.json``."""
        fields = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in vars(self).items()}
        return seal(fields)

    @classmethod
    def parse(cls, content: bytes | None) -> Self:
        """What the file has; nothing where there is no file.

        Raises:
            StoreError: it is damaged.
        """
        try:
            record = unseal(content, FORGOTTEN)
            return cls() if record is None else cls(**_typed(record))
        except (RecordError, TypeError, ValueError):
            raise StoreError(
                f"{FORGOTTEN} is damaged, so whom this store was told to forget is not known: 'storyframes forget "
                "STUDY STORE' writes it again"
            ) from None

    def _digest(self, *texts: str) -> str:
        return hmac.new(bytes.fromhex(self.key), "\0".join(texts).encode(), hashlib.sha256).hexdigest()


def _typed(record: dict[str, Any]) -> dict[str, Any]:
    bytes.fromhex(record["key"])
    return {name: frozenset(value) if isinstance(value, list) else value for name, value in record.items()}


def read_forgotten(storage: Storage) -> Forgotten:
    """What a store was told to forget.

    Raises:
        StoreError: the file is damaged.
        StorageError: it cannot be read.
    """
    return Forgotten.parse(storage.read(FORGOTTEN))


def id_words(text: str) -> tuple[str, ...]:
    """The words of a text in small letters: an id is recognised whatever punctuation is between its parts."""
    return tuple(_WORDS.findall(text.casefold()))


def is_distinctive(name: str) -> bool:
    """Whether an id is more than a number or a letter, which any text may contain."""
    return len(name) > 2 or (name.isalnum() and not name.isalpha() and not name.isdigit())
