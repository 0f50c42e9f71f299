"""ELAN's .eaf: XML with times in whole milliseconds (format 3.0 of the EAF annotation format)."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

from storyframes_release.annotations.tiers import Tier, apart

UNIT = 1000  # microseconds
_XSI = "http://www.w3.org/2001/XMLSchema-instance"
ElementTree.register_namespace("xsi", _XSI)


def write_elan(path: Path, tiers: Sequence[Tier], media: str) -> None:
    """Write the tiers of one recording.

    Args:
        path: of the file.
        media: the recording's path, relative to the file's folder; empty for none.
    """
    named = {f"{{{_XSI}}}noNamespaceSchemaLocation": "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"}
    date = datetime.now(UTC).isoformat(timespec="seconds")
    root = ElementTree.Element(
        "ANNOTATION_DOCUMENT", named, AUTHOR="storyframes", DATE=date, FORMAT="3.0", VERSION="3.0"
    )
    header = ElementTree.SubElement(root, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
    if media:
        kind = mimetypes.guess_type(media)[0] or "unknown"
        ElementTree.SubElement(
            header, "MEDIA_DESCRIPTOR", MEDIA_URL=media, RELATIVE_MEDIA_URL=media, MIME_TYPE=kind, EXTRACTED_FROM=""
        )
    order = ElementTree.SubElement(root, "TIME_ORDER")
    written = [made for tier in tiers for made in apart(tier, UNIT)]
    spans = [span for tier in written for span in tier.spans]
    # Each annotation has its own slots: ELAN moves all annotations of a slot together.
    ends = sorted((time, number, which) for number, span in enumerate(spans) for which, time in enumerate(span[:2]))
    slots = {(number, which): f"ts{place}" for place, (_, number, which) in enumerate(ends, start=1)}
    for time, number, which in ends:
        ElementTree.SubElement(order, "TIME_SLOT", TIME_SLOT_ID=slots[number, which], TIME_VALUE=str(time // UNIT))
    numbers = count()
    for tier in written:
        about = {"PARTICIPANT": tier.person, "ANNOTATOR": tier.rater}
        given = {name: text for name, text in about.items() if text}
        element = ElementTree.SubElement(root, "TIER", given, LINGUISTIC_TYPE_REF="default", TIER_ID=tier.name)
        for span in tier.spans:
            number = next(numbers)
            annotation = ElementTree.SubElement(
                ElementTree.SubElement(element, "ANNOTATION"),
                "ALIGNABLE_ANNOTATION",
                ANNOTATION_ID=f"a{number + 1}",
                TIME_SLOT_REF1=slots[number, 0],
                TIME_SLOT_REF2=slots[number, 1],
            )
            ElementTree.SubElement(annotation, "ANNOTATION_VALUE").text = span.text
    ElementTree.SubElement(
        root, "LINGUISTIC_TYPE", GRAPHIC_REFERENCES="false", LINGUISTIC_TYPE_ID="default", TIME_ALIGNABLE="true"
    )
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
