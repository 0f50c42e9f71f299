"""Which commands repair the damage that ``storyframes verify`` found."""

from __future__ import annotations

from collections.abc import Sequence

from storyframes.store.maintenance import Finding, is_intact
from storyframes.store.record_status import read_status
from storyframes.store.storage import Storage
from storyframes.tracks import MAIN, feature_and_track


def repair_advice(storage: Storage, findings: Sequence[Finding]) -> list[str]:
    """What to run, as sentences: an extraction passes by what looks untouched unless it is told by name."""
    lost = [one for one in findings if one.lost]
    findings = [one for one in findings if not one.lost]
    damaged = sorted({(one.session_id, one.feature) for one in findings if one.feature and not one.unreadable})
    untouched = [name for name in damaged if _looks_sound(storage, *name)]
    lines = []
    if lost:
        lines.append(
            "What is lost comes back from a backup, or the next 'storyframes extract' makes it again; what was removed "
            "on purpose is forgotten by 'storyframes index', and not before."
        )
    if len(untouched) < len(damaged):
        lines.append("The next 'storyframes extract' makes again what is missing or was changed.")
    for session_id, feature in untouched:
        kind, track = feature_and_track(feature)
        only = f"--features {kind} --force" if track == MAIN else f"--track {track} --features {kind} --force"
        lines.append(
            f"Sizes and times of {session_id}/{feature} are as they were published, so only force makes it again: "
            f"'storyframes extract' with {only if session_id == 'stories' else f'--session {session_id} {only}'}."
        )
    if any(not one.feature for one in findings):
        lines.append("'storyframes index' writes the tables again, 'storyframes verify --repair' the Zarr groups.")
    return lines


def _looks_sound(storage: Storage, session_id: str, feature: str) -> bool:
    entry = read_status(storage, session_id, feature)
    return entry is not None and entry.record is not None and is_intact(storage, entry.record)
