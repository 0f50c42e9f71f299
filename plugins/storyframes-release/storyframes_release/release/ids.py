"""New numbers for ids, in a random order, and the refusal of texts, labels and columns that name somebody.

The key that leads back to the ids is a file of its own, readable by its owner alone.

Texts are compared with every id that the store knows: of sessions and participants that are released, left out or
withdrawn, of participants without a session, and of raters; of those who were forgotten by their keyed digests. Ids of
stories are compared where they cannot be ordinary words. An id is found as a whole word, in capitals or not, and with
any punctuation between its parts: ``p-01`` is named by ``P_01``.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import random
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from storyframes import STORIES, FeatureName, FeatureStore
from storyframes.store import CLIPS, Forgotten, write_atomically
from storyframes_release.release.provenance import SOURCE
from storyframes_release.release.released_features import ReleasedFeature
from storyframes_release.release.settings import ReleaseError, ReleaseSettings
from storyframes_release.study_sessions import StudySessions

KEY = "storyframes_release_key"
"""The JSON key that identifies a key file, wherever it is."""
_SIGNS = {"sessions": "s", "participants": "p", "stories": "story", "targets": "target", "phases": "phase"}


@dataclass
class Key:
    """The number of each id.

    Attributes:
        seed: 32 random bytes in hexadecimal digits; without it nobody can reconstruct the order.
        names: by kind and id, the new name.
    """

    seed: str = field(default_factory=lambda: secrets.token_hex(32))
    names: dict[str, dict[str, str]] = field(default_factory=lambda: {kind: {} for kind in _SIGNS})

    def number(self, kind: str, ids: Iterable[str]) -> None:
        """Give a name to each id that has none yet, in a random order."""
        names = self.names[kind]
        new = sorted({name for name in ids if name not in names})
        random.Random(f"{self.seed}:{kind}:{len(names)}").shuffle(new)
        for number, name in enumerate(new, len(names) + 1):
            names[name] = f"{_SIGNS[kind]}{number:04d}"

    def digest(self, *texts: str) -> str:
        """64 hexadecimal digits that are the same for the same texts, and mean nothing without the key."""
        return hmac.new(bytes.fromhex(self.seed), "\0".join(texts).encode(), hashlib.sha256).hexdigest()

    def write(self, path: Path) -> None:
        """Write the key file durably, with mode 0600."""
        content = {KEY: 1, "seed": self.seed, "names": self.names}
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")


def read_key(path: Path) -> Key:
    """The key of an earlier release, so that the same ids get the same numbers again; a new key without a file.

    Raises:
        ReleaseError: the file is something else.
        OSError: it cannot be read.
    """
    try:
        content = json.loads(path.read_bytes())
        if content[KEY] != 1:
            raise ReleaseError(f"{path}: is the key of a newer storyframes: update it")
        names = {kind: {str(old): str(new) for old, new in content["names"][kind].items()} for kind in _SIGNS}
        bytes.fromhex(content["seed"])
    except FileNotFoundError:
        return Key()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ReleaseError(f"{path}: is no key of a release; give another --key") from None
    return Key(content["seed"], names)


_NO_WORD = re.compile(r"[\d._-]")


def check_names(
    store: FeatureStore,
    settings: ReleaseSettings,
    key: Key,
    planned: Mapping[tuple[str, str], ReleasedFeature],
    known: StudySessions,
) -> list[str]:
    """Refuse texts, labels, features and columns of a release that name somebody.

    Args:
        store: the store, with its clip index where it has one.
        key: the names of everything that is or was released.
        planned: by session and feature, what is released.
        known: the ids of the study, and who was forgotten.

    Returns:
        A sentence for each thing that could not be checked.

    Raises:
        ReleaseError: one of them names an id.
    """
    clips = store.clips() if store.storage.info(CLIPS) is not None else None
    sessions = {session for session, _ in planned}
    raters = () if settings.allow_rater_ids or known.record is None else known.record.raters
    ids = _ids_by_words(store, clips, {*known.names(), *raters}, key, sessions)

    def check(what: str, texts: Iterable[str], cure: str) -> None:
        matches = (_named(ids, known.forgotten, text) for text in texts)
        if match := min(itertools.chain.from_iterable(matches), default=None):
            whose = "is not released" if not match.is_released else "is released under a new name"
            raise ReleaseError(f"{what} {match.name!r}, which is an id of the study and {whose}: {cure}")

    texts = [settings.title, settings.description, settings.version, settings.url, settings.license]
    check("the title, the description or the phases name", [*texts, *settings.phases], "say it without the id")
    for session, feature in planned:
        provenance = store.attributes(session, feature).get("provenance", {})
        source = str(dict(provenance.get("settings") or {}).get("source", ""))
        if SOURCE.fullmatch(source):
            check(f"the model of the feature {feature!r}, {source!r}, names", [source], "leave the feature out")
    columns: dict[str, set[str]] = {}
    for (session, feature), released in planned.items():
        if not released.is_known or FeatureName(feature).is_label_curve:
            requested = settings.features[f"{STORIES}/{feature}" if session == STORIES else feature] or ()
            named = (name for array in released.arrays.values() if array.pieces for name in array.spec.columns)
            columns.setdefault(feature, set()).update([feature, *requested, *named])
    for feature, names in columns.items():
        check(f"the feature {feature!r} or a column of it names", names, "leave it out")
    if clips is not None:
        _check_raters(settings, clips.attrs.get("raters", {}))
        of_release = clips[clips["session_id"].isin(sessions)]
        for label in settings.labels:
            column = of_release[label].dropna()
            values = () if pd.api.types.is_numeric_dtype(column) else map(str, column.unique())
            check(f"the label {label!r} names", [label, *values], "take it off the list")
    if known.people or (known.record is not None and known.record.people is not None):
        return []
    return [
        "texts and labels were not compared with the ids of participants who have no clips: the store does not list "
        "them; 'storyframes index STUDY STORE' adds them to it"
    ]


@dataclass(frozen=True, order=True)
class _Id:
    """An id; ids that are not released sort first."""

    is_released: bool
    name: str


def _ids_by_words(
    store: FeatureStore,
    clips: pd.DataFrame | None,
    of_study: Collection[str],
    key: Key,
    sessions: Collection[str],
) -> dict[tuple[str, ...], _Id]:
    """Every id that no text may have, by its words."""
    released = {*sessions}
    names = {*store.sessions, *key.names["sessions"], *key.names["participants"], *of_study}
    stories = {*key.names["stories"], *key.names["targets"]}
    if clips is not None:
        released |= {*clips.loc[clips["session_id"].isin(sessions), "participant_id"].dropna().astype(str)}
        names |= {*clips["session_id"], *clips["participant_id"].dropna().astype(str)}
        stories |= {*clips["story_id"].dropna().astype(str), *clips["target"].dropna().astype(str)}
    names |= {story for story in stories if _NO_WORD.search(story)}
    ids = sorted((_Id(name in released, name) for name in names), reverse=True)
    return {Forgotten.id_words(study_id.name): study_id for study_id in ids if Forgotten.is_distinctive(study_id.name)}


def _named(ids: Mapping[tuple[str, ...], _Id], forgotten: Forgotten, text: str) -> Iterator[_Id]:
    """The ids that a text contains as whole words, in their order."""
    words = Forgotten.id_words(text)
    longest = max(forgotten.longest, *map(len, ids)) if ids else forgotten.longest
    for start in range(len(words)):
        for stop in range(start + 1, min(start + longest, len(words)) + 1):
            if match := ids.get(words[start:stop]):
                yield match
            elif forgotten.has_words(words[start:stop]):
                yield _Id(False, "-".join(words[start:stop]))


def _check_raters(settings: ReleaseSettings, raters: Mapping[str, str]) -> None:
    """Refuse labels and curves of one rater, whose id is in their names, unless the configuration allows them."""
    if settings.allow_rater_ids:
        return
    of_features = [feature for feature in settings.features if feature.removeprefix("label.") in raters]
    for name in (*(label for label in settings.labels if label in raters), *of_features):
        raise ReleaseError(
            f"{name!r} has the id of the rater {raters[name.removeprefix('label.')]!r} in its name: take it off "
            'the list, release the mean of all raters (raters = "mean" in the [labels] section of the study\'s '
            "configuration), or set allow_rater_ids = true if this id tells nobody who it is"
        )
