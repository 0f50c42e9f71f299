"""Files that annotation programs write, and what becomes of them in a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pympi  # type: ignore[import-untyped]
from storyframes_labels.annotation_file import AnnotationFile, ImportFaultError
from storyframes_labels.import_labels import Import, import_labels
from storyframes_labels.label_table import SheetOptions
from storyframes_labels.mapping import parse_map
from storyframes_labels.read_annotations import read_annotations


def found(file: AnnotationFile) -> list[tuple[str, str, float | None, float | None]]:
    return [(one.tier, one.value, one.start_s, one.end_s) for one in file.annotations]


def refused(path: Path, unit: str | None = None) -> str:
    """Why the file, or a tier of it, cannot be imported."""
    try:
        return "; ".join(read_annotations(path, SheetOptions(unit)).faults.values())
    except ImportFaultError as error:
        return str(error)


def run(study: Path, path: Path, *pairs: str, **how: Any) -> str:
    """Import; what is refused, or empty."""
    try:
        import_labels([read_annotations(path)], Import(targets=parse_map(pairs)[0], **how), study)
    except ImportFaultError as error:
        return str(error)
    return ""


def eaf(path: Path, **tiers: list[tuple[int, int, str]]) -> Path:
    """An .eaf by pympi."""
    document = pympi.Elan.Eaf(author="x")
    document.remove_tier("default")
    for name, spans in tiers.items():
        document.add_tier(name)
        for start_ms, end_ms, value in spans:
            document.add_annotation(name, start_ms, end_ms, value)
    document.to_file(str(path))
    return path


def by_hand(tiers: str, *, units: str = "milliseconds", media: str = "", slots: str = "", more: str = "") -> str:
    slots = slots or '<TIME_SLOT TIME_SLOT_ID="t1" TIME_VALUE="1000"/><TIME_SLOT TIME_SLOT_ID="t2" TIME_VALUE="2500"/>'
    return (
        f'<ANNOTATION_DOCUMENT VERSION="3.0"><HEADER TIME_UNITS="{units}">{media}</HEADER>'
        f"<TIME_ORDER>{slots}</TIME_ORDER>{tiers}{more}</ANNOTATION_DOCUMENT>"
    )


def a_tier(name: str = "mood", value: str = "sad", identity: str = "a1", first: str = "t1", last: str = "t2") -> str:
    return (
        f'<TIER TIER_ID="{name}" LINGUISTIC_TYPE_REF="l"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="{identity}" '
        f'TIME_SLOT_REF1="{first}" TIME_SLOT_REF2="{last}"><ANNOTATION_VALUE>{value}</ANNOTATION_VALUE>'
        "</ALIGNABLE_ANNOTATION></ANNOTATION></TIER>"
    )
