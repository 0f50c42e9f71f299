"""What ``verify`` found in a feature store, which commands repair it, and what ``gc`` removed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from storyframes.spec import MAIN, feature_and_track
from storyframes.store.maintenance import Finding, Removal, is_intact
from storyframes.store.record_status import read_status
from storyframes.store.storage import Storage
from tasks.inspect.formatting import human_bytes


def findings_table(findings: Sequence[Finding]) -> Table:
    """What ``verify`` found."""
    kinds = "damaged, lost or unreadable" if any(finding.lost for finding in findings) else "damaged or unreadable"
    table = Table(title=f"{len(findings)} {kinds}", title_justify="left")
    for heading in ("session", "feature", "file", "problem"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(*(escape(text) for text in (finding.session_id, finding.feature, finding.path, finding.problem)))
    return table


def repair_advice(storage: Storage, findings: Sequence[Finding]) -> list[str]:
    """Which commands to run, as sentences: without --force, an extraction skips files that look untouched."""
    lost = [finding for finding in findings if finding.lost]
    forbidden = any(finding.forbidden for finding in findings)
    findings = [finding for finding in findings if not finding.lost and not finding.forbidden]
    readable = [finding for finding in findings if finding.feature and not finding.unreadable]
    damaged = sorted({(finding.session_id, finding.feature) for finding in readable})
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
    if forbidden:
        lines.append("What the group cannot use, its owner gives to it: 'storyframes share' with the same options.")
    if any(not finding.feature for finding in findings):
        lines.append("'storyframes index' writes the tables again, 'storyframes verify --repair' the Zarr groups.")
    return lines


def _looks_sound(storage: Storage, session_id: str, feature: str) -> bool:
    entry = read_status(storage, session_id, feature)
    return entry is not None and entry.record is not None and is_intact(storage, entry.record)


def removals_table(removals: Sequence[Removal]) -> Table:
    """What ``gc`` removed."""
    table = Table()
    table.add_column("path", overflow="fold")
    table.add_column("kind")
    table.add_column("size", justify="right")
    for removal in removals:
        table.add_row(escape(removal.path), str(removal.kind), human_bytes(removal.bytes))
    return table
