"""ELAN's .eaf: tiers of annotations in milliseconds, in XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from storyframes_labels.annotation_file import (
    Annotation,
    AnnotationFile,
    ImportFaultError,
    PersonIds,
    Tier,
    backwards,
    overlaps,
    places,
    read_xml,
    without_empty,
)


@dataclass(frozen=True)
class _Raw:
    """An annotation as it is written: with its own times, or with the annotation that it belongs to."""

    tier: str
    place: str
    value: str
    start_ms: int | None
    end_ms: int | None
    parent: str = ""
    rater: str | None = None
    person: str | None = None


def read_elan(path: Path) -> AnnotationFile:
    """The annotations of an .eaf file; an annotation that belongs to another one has its times.

    Raises:
        ImportFaultError: it is no .eaf, its times are not in milliseconds, or an annotation has no time.
        OSError: it cannot be read.
    """
    root = read_xml(path, "no .eaf: can ELAN open it?")
    if root.tag != "ANNOTATION_DOCUMENT":
        raise ImportFaultError(f"{path.name}: is XML, but no .eaf: its first element is not ANNOTATION_DOCUMENT")
    header = root.find("HEADER")
    units = "milliseconds" if header is None else header.get("TIME_UNITS", "milliseconds")
    if units != "milliseconds":
        raise ImportFaultError(f"{path.name}: its times are {units}, not milliseconds: save it with a newer ELAN")
    try:
        raw, remarks = _annotations(path.name, root)
        tiers = _tiers(root)
        origins = [int(media.get("TIME_ORIGIN") or 0) / 1000 for media in root.iterfind("HEADER/MEDIA_DESCRIPTOR")]
    except (KeyError, ValueError) as error:
        raise ImportFaultError(f"{path.name}: is no whole .eaf: {type(error).__name__} of {error}") from None
    timed, faults = _timed(path.name, raw)
    annotations, empty = without_empty(timed)
    return AnnotationFile(
        path.name,
        "milliseconds",
        tiers,
        annotations,
        (*remarks, *empty, *overlaps(annotations)),
        backwards(annotations) | faults,
        tuple(dict.fromkeys(origins)) if any(origins) else (),
        media=tuple(media.get("MEDIA_URL", "") for media in root.iterfind("HEADER/MEDIA_DESCRIPTOR")),
        names_persons=True,
    )


def _annotations(name: str, root: ElementTree.Element) -> tuple[dict[str, _Raw], list[str]]:
    """The annotations by their ids, and remarks on tiers whose participants give no ids."""
    slots = {slot.attrib["TIME_SLOT_ID"]: slot.get("TIME_VALUE") for slot in root.iterfind("TIME_ORDER/TIME_SLOT")}
    raw: dict[str, _Raw] = {}
    remarks: list[str] = []
    persons = PersonIds(name, "PARTICIPANT")
    for tier in root.iterfind("TIER"):
        tier_name, rater = tier.attrib["TIER_ID"], (tier.get("ANNOTATOR") or "").strip() or None
        try:
            person = persons.id(tier.get("PARTICIPANT") or "", f"tier {tier_name!r}")
        except ImportFaultError:
            person = None
            remarks.append(f"tier {tier_name!r}: its PARTICIPANT gives no id, or that of another: nobody is named")
        for number, annotation in enumerate(tier.iterfind("ANNOTATION/*"), start=1):
            value = annotation.findtext("ANNOTATION_VALUE") or ""
            place = f"tier {tier_name!r}, annotation {number}"
            identity = annotation.attrib["ANNOTATION_ID"]
            if identity in raw:
                raise ImportFaultError(f"{name}: {place}: has the ANNOTATION_ID of {raw[identity].place}")
            if annotation.tag == "REF_ANNOTATION":
                parent = annotation.attrib["ANNOTATION_REF"]
                raw[identity] = _Raw(tier_name, place, value, None, None, parent, rater, person)
            else:
                times = [slots[annotation.attrib[f"TIME_SLOT_REF{which}"]] for which in (1, 2)]
                start_ms, end_ms = (None if time is None else int(time) for time in times)
                raw[identity] = _Raw(tier_name, place, value, start_ms, end_ms, rater=rater, person=person)
    return raw, remarks


def _timed(name: str, raw: Mapping[str, _Raw]) -> tuple[list[Annotation], dict[str, str]]:
    """The annotations that have times, those of another annotation included; by tier, why others have none."""
    sharing = Counter((child.tier, child.parent) for child in raw.values() if child.parent)
    timed: list[Annotation] = []
    shared: dict[str, list[str]] = {}
    timeless: dict[str, list[str]] = {}
    for annotation in raw.values():
        tier, place = annotation.tier, annotation.place
        owner, is_shared, steps = annotation, False, 0
        while owner.parent:
            is_shared = is_shared or sharing[owner.tier, owner.parent] > 1
            if owner.parent not in raw or steps > len(raw):
                raise ImportFaultError(f"{name}: {place}: belongs to an annotation that is not there, or to itself")
            owner, steps = raw[owner.parent], steps + 1
        if is_shared:
            shared.setdefault(tier, []).append(place)
        elif owner.start_ms is None or owner.end_ms is None:
            timeless.setdefault(tier, []).append(place)
        else:
            start_s, end_s = owner.start_ms / 1000, owner.end_ms / 1000
            timed.append(
                Annotation(
                    tier,
                    annotation.value,
                    start_s,
                    end_s,
                    place,
                    rater_id=annotation.rater,
                    person_id=annotation.person,
                )
            )
    faults = {tier: f"{places(names)}: has no time of its own: give it one in ELAN" for tier, names in timeless.items()}
    rule = "are several in one annotation of another tier, so none has a time of its own: give them times in ELAN"
    return timed, faults | {tier: f"{places(names)}: {rule}" for tier, names in shared.items()}


def _tiers(root: ElementTree.Element) -> tuple[Tier, ...]:
    vocabularies = {
        vocabulary.attrib["CV_ID"]: _entries(vocabulary)
        for vocabulary in root.iterfind("CONTROLLED_VOCABULARY")
        if vocabulary.get("CV_ID")
    }
    types = {
        kind.attrib["LINGUISTIC_TYPE_ID"]: kind.get("CONTROLLED_VOCABULARY_REF", "")
        for kind in root.iterfind("LINGUISTIC_TYPE")
    }
    return tuple(
        Tier(tier.attrib["TIER_ID"], vocabularies.get(types.get(tier.get("LINGUISTIC_TYPE_REF", ""), ""), ()))
        for tier in root.iterfind("TIER")
    )


def _entries(vocabulary: ElementTree.Element) -> tuple[str, ...]:
    """The values of a controlled vocabulary; of several languages the first."""
    old = [entry.text or "" for entry in vocabulary.iterfind("CV_ENTRY")]
    new = [entry.findtext("CVE_VALUE") or "" for entry in vocabulary.iterfind("CV_ENTRY_ML")]
    return tuple(dict.fromkeys(entry.strip() for entry in old + new if entry.strip()))
