"""What a store had and has no longer, according to its own tables and the study's.

A folder that was removed leaves no damaged file: only the tables that name it show that it existed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from storyframes.features import STORIES
from storyframes.spec import LABEL_PREFIX, column_of
from storyframes.store.catalogue import named_versions
from storyframes.store.layout import CATALOGUE, CLIPS, STUDY, ZARR_JSON, StoreError, current_path
from storyframes.store.records import CURRENT, RecordError, unseal
from storyframes.store.storage import Storage
from storyframes.store.table_files import stored_table

_MOST_NAMED = 20


@dataclass
class LookedAt:
    """What a store has to verify, and remarks on what could not be compared.

    Attributes:
        published: by session and feature, the current version; empty where the record is damaged.
        unpublished: by session and feature, why it has no version, so that nothing of it can be sound or damaged.
        remarks: what could not be compared, a sentence each.
        is_complete: false where sessions of the study are absent, and no table says whether they ever had features.
    """

    published: dict[tuple[str, str], str] = field(default_factory=dict)
    unpublished: dict[tuple[str, str], str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    is_complete: bool = True


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it was published.

    Attributes:
        session_id, feature: of the damaged file; empty where it belongs to none.
        path: below the feature (or below the store).
        problem: what is wrong.
        unreadable: it cannot be read, so whether it is sound is not known.
        lost: by the store's tables or the study's it existed, and does not now; without a feature: a whole session.
        forbidden: the group with which the store is shared cannot use it.
    """

    session_id: str
    feature: str
    path: str
    problem: str
    unreadable: bool = False
    lost: bool = False
    forbidden: bool = False


def find_losses(
    storage: Storage, looked_at: LookedAt, session_id: str, study_sessions: Collection[str], unread: Collection[str]
) -> Iterator[Finding]:
    """What the catalogue, the clip index or the study names and the store has no longer.

    Args:
        looked_at: what the store has; remarks are added.
        session_id: only this session; empty for all.
        study_sessions: the sessions of the study's tables, where these are known.
        unread: paths that could not be listed: what is below them may exist.
    """
    named = _named_by_catalogue(storage, session_id)
    lost = _gone(storage, looked_at, named or {})
    if lost:  # meanwhile a run may have published, and gc removed: the catalogue is read again
        still = _named_by_catalogue(storage, session_id) or {}
        lost = {key: problem for key, problem in lost.items() if still.get(key) == (named or {}).get(key)}
    if not session_id:
        for key in _named_by_clips(storage):
            if key not in looked_at.published and key not in lost and _is_gone(storage, key):
                lost[key] = f"is gone: {CLIPS} has windows that have it"
    blocked = {"/".join(path.split("/")[:2]) for path in unread}
    lost = {key: problem for key, problem in lost.items() if not {key[0], "/".join(key)} & blocked}
    present = {session for session, _ in (*looked_at.published, *looked_at.unpublished)}
    by_session: dict[str, list[str]] = {}
    for session, feature in sorted(lost):
        by_session.setdefault(session, []).append(feature)
    for session, features in by_session.items():
        if session not in present:
            yield Finding(session, "", "", f"the session is gone, and with it {', '.join(features)}", lost=True)
            continue
        for feature in features:
            yield Finding(session, feature, CURRENT, lost[session, feature], lost=True)
    if named is None and looked_at.published:
        looked_at.remarks.append(
            f"The store has no sound {CATALOGUE}, so features that are lost completely are not known; "
            "'storyframes index' writes it from the records that exist."
        )
    for session in sorted({*study_sessions} - present - by_session.keys() - blocked):
        if session_id in ("", session):
            yield Finding(session, "", "", "nothing of the session is here, and it is in the study's tables", lost=True)
    recorded = set() if session_id or study_sessions else _study_sessions(storage)
    if absent := sorted(recorded - present - by_session.keys() - blocked):
        looked_at.is_complete = named is not None
        shown = ", ".join(absent[:_MOST_NAMED]) + (" …" if len(absent) > _MOST_NAMED else "")
        since = "or lost before the catalogue was last written" if named is not None else "or lost with the catalogue"
        looked_at.remarks.append(
            f"Of {len(absent)} of the study's sessions nothing is here ({shown}): never extracted, {since}."
        )


def _gone(storage: Storage, looked_at: LookedAt, named: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Of what the catalogue names, what does not exist, and why."""
    gone = {}
    for key, version in named.items():
        current = looked_at.published.get(key)
        if current in (version, ""):  # "": the record is damaged, which is a finding of its own
            continue
        if current is None and _is_gone(storage, key):
            gone[key] = f"is gone: the catalogue has the version {version} of it"
        elif current is not None and storage.read(f"{'/'.join(key)}/{version}/{ZARR_JSON}") is None:
            gone[key] = (
                f"the catalogue has the version {version}, which is gone, so readers miss it; {current} is current, "
                "and 'storyframes index' lets them read that"
            )
    return gone


def _is_gone(storage: Storage, key: tuple[str, str]) -> bool:
    """Whether no record exists; it is asked for by its name, because a listing may lag behind."""
    try:
        return (
            storage.info(current_path(*key)) is None
            or (unseal(storage.read(current_path(*key)), "") or {}).get("version") is None
        )
    except (RecordError, OSError):
        return False  # it exists; what is wrong with it is another finding


def _named_by_catalogue(storage: Storage, session_id: str) -> dict[tuple[str, str], str] | None:
    """By session and feature, the version that the catalogue names; None without a sound catalogue."""
    named: dict[tuple[str, str], str] = {}
    try:
        if storage.info(CATALOGUE) is None:
            return None
        for table in named_versions(storage):
            rows = table.filter(pc.equal(table["session_id"], session_id)) if session_id else table
            sessions, features, versions = (rows[name].to_pylist() for name in ("session_id", "feature", "version"))
            named |= zip(zip(sessions, features, strict=True), versions, strict=True)
    except (StoreError, OSError):
        return None
    return named


def _named_by_clips(storage: Storage) -> Iterator[tuple[str, str]]:
    """The sessions and features that the clip index has windows of."""
    try:
        table = stored_table(storage, CLIPS)
    except (StoreError, OSError):
        return
    if table is None or "session_id" not in table.schema.names:
        return
    for column in table.schema:
        if column.name.startswith(column_of("")) and pa.types.is_boolean(column.type):
            name = column.name.removeprefix(column_of(""))
            curve = LABEL_PREFIX.replace(".", "_")
            feature = f"{LABEL_PREFIX}{name.removeprefix(curve)}" if name.startswith(curve) else name
            for session in pc.unique(table["session_id"].filter(table[column.name])).to_pylist():
                yield str(session), feature


def _study_sessions(storage: Storage) -> set[str]:
    """The sessions in the study record of the store."""
    try:
        content = unseal(storage.read(STUDY), STUDY) or {}
    except (RecordError, OSError):
        return set()
    sessions = content.get("sessions", {})
    return {*sessions} - {STORIES} if isinstance(sessions, dict) else set()
