"""Importing a file of annotations into a study: all of it is written to the tables labels and schemes, or nothing.

The user says which tier is which scheme, and of which session a file is; nothing is guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from storyframes.store.layout import ID_PATTERN
from tasks.study.changed_tables import TableChangeError, open_table, problems_with, put_in_place
from tasks.study.importers.annotation_file import (
    NO_TIMES,
    Annotation,
    AnnotationFile,
    ImportFaultError,
    places,
)
from tasks.study.importers.elan import read_elan
from tasks.study.importers.label_table import UNITS, TimeColumns, no_header, read_label_table
from tasks.study.importers.praat import read_textgrid
from tasks.study.labels import EMPATHY, Scheme, SchemeType
from tasks.study.load import Study, load_study
from tasks.study.problems import shortened
from tasks.study.strict_tables import with_decimal_point
from tasks.study.table_rows import TableRows

READERS: dict[str, Callable[[Path], AnnotationFile]] = {
    ".eaf": read_elan,
    ".textgrid": read_textgrid,
    ".csv": read_label_table,
}
"""By suffix in small letters, the function that reads such a file."""
ALL_OTHERS = "*"
_LABEL_COLUMNS = ("session_id", "scheme", "value", "start_s", "end_s")


def read_annotations(path: Path, unit: str | None = None, time_columns: TimeColumns | None = None) -> AnnotationFile:
    """The annotations at ``path``.

    Args:
        path: .eaf, .TextGrid or .csv.
        unit: of a CSV's times: s or ms; None where the user gives none.
        time_columns: the columns of a CSV that are times; None where they have the usual names.

    Raises:
        ImportFaultError: it has another suffix, or is not as a file of this format should be.
        OSError: it cannot be read.
    """
    suffix = path.suffix.lower()
    if unit is not None and unit not in UNITS:
        raise ImportFaultError(f"--unit {unit}: there are {' and '.join(UNITS)}")
    if suffix == ".csv":
        return read_label_table(path, unit, time_columns)
    if unit is not None:
        raise ImportFaultError(f"{path.name}: its format says the unit of its times: leave --unit out")
    if time_columns is not None:
        raise ImportFaultError(f"{path.name}: has no columns: leave --start, --end and --duration out")
    if suffix not in READERS:
        raise ImportFaultError(f"{path.name}: labels are read from .eaf (ELAN), .TextGrid (Praat) and .csv")
    return READERS[suffix](path)


# --- what the user says of the file ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """The scheme of a tier's values; ``type`` is None where the study's tables have it."""

    scheme: str
    type: SchemeType | None = None


def parse_map(pairs: Sequence[str]) -> dict[str, Target]:
    """The targets by tier, of ``--map tier=scheme`` and ``--map tier=scheme:type``.

    Raises:
        ImportFaultError: an option has another form, or a tier is mapped twice.
    """
    targets: dict[str, Target] = {}
    for pair in pairs:
        tier, sign, target = pair.rpartition("=")
        scheme, _, type_ = target.partition(":")
        kinds = [kind.value for kind in SchemeType if kind is not SchemeType.CURVE]
        if not sign or not tier or not ID_PATTERN.fullmatch(scheme) or (type_ and type_ not in kinds):
            raise ImportFaultError(
                f"--map {pair}: write tier=scheme, or tier=scheme:type with one of {', '.join(kinds)}"
            )
        if tier in targets:
            raise ImportFaultError(f"--map {pair}: the tier {tier!r} is mapped already")
        targets[tier] = Target(scheme, SchemeType(type_) if type_ else None)
    return targets


def check_tiers(file: AnnotationFile, targets: Mapping[str, Target], skip: Sequence[str]) -> None:
    """Check that every tier of the file is mapped or skipped, and that every mapped or skipped tier exists.

    Raises:
        ImportFaultError: naming the tiers.
    """
    counts = Counter(tier.name for tier in file.tiers)
    absent = [name for name in (*targets, *skip) if name not in counts and name != ALL_OTHERS]
    if absent:
        tiers = ", ".join(map(repr, counts)) or "none"
        raise ImportFaultError(f"{file.name}: has no tier {', '.join(map(repr, absent))}; its tiers are {tiers}")
    both = [name for name in targets if name in skip]
    if both:
        raise ImportFaultError(f"{file.name}: mapped and skipped: {', '.join(map(repr, both))}")
    twice = [name for name, count in counts.items() if count > 1 and name in targets]
    if twice:
        raise ImportFaultError(
            f"{file.name}: has several tiers of the name {', '.join(map(repr, twice))}: give each a name of its own"
        )
    if ALL_OTHERS not in skip and (unmapped := [name for name in counts if name not in (*targets, *skip)]):
        raise ImportFaultError(
            f"{file.name}: not mapped: {', '.join(map(repr, unmapped))}. "
            f"Say --map TIER=SCHEME or --skip TIER for each, or --skip '{ALL_OTHERS}' for all others"
        )


def session_from(pattern: str, name: str) -> str:
    """The session's id in a file's name.

    Args:
        pattern: with ``{session}`` in the place of the session's id, and ``*`` for any text; it is compared with the
            whole path where it has a ``/``, else with the path's last part.
        name: the path.

    Raises:
        ImportFaultError: the name does not match.
    """
    if pattern.count("{session}") != 1:
        raise ImportFaultError(f"--session-from {pattern}: write {{session}} once, in the place of the session's id")
    path = name.replace("\\", "/")
    against = path if "/" in pattern else PurePosixPath(path).name
    before, after = (re.escape(part).replace(r"\*", ".*") for part in pattern.split("{session}"))
    match = re.fullmatch(f"{before}({ID_PATTERN.pattern}){after}", against)
    if match is None:
        raise ImportFaultError(f"--session-from {pattern}: does not fit {against!r}")
    return match.group(1)


@dataclass(frozen=True)
class Import:
    """The user's options for a file.

    Attributes:
        targets: by tier, its scheme.
        skip: tiers that are left out; ``*``: all that are not mapped.
        session_id, session_from: which session; at most one of them. Without them the file's rows must name it.
        rater_id, person_id, track: of all labels; None where the file names them, or nobody does.
        offset_s: is added to every time; None where the user gives none.
        no_times: the labels are of whole sessions, although columns may look like times.
    """

    targets: Mapping[str, Target]
    skip: Sequence[str] = ()
    session_id: str | None = None
    session_from: str | None = None
    rater_id: str | None = None
    person_id: str | None = None
    track: str | None = None
    offset_s: float | None = None
    no_times: bool = False


@dataclass(frozen=True)
class Imported:
    """What was written: the number of labels by scheme, the new schemes, and the sessions."""

    labels: Mapping[str, int]
    schemes: tuple[Scheme, ...]
    sessions: tuple[str, ...]


def import_labels(file: AnnotationFile, how: Import, root: Path) -> Imported:
    """Add a file's labels to the study at ``root``.

    Raises:
        ImportFaultError: an option is missing or wrong, or the study would not be valid with these labels; nothing is
            changed.
        StudyError: the study is not valid now.
        OSError: the tables cannot be written.
    """
    check_tiers(file, how.targets, how.skip)
    study = load_study(root)
    if ids := [number for number, column in enumerate(file.columns, start=1) if column in study.sessions]:
        raise no_header(file.name, ids[0], "is a session of the study")
    _check_times(file, how)
    if file.origins_s and how.offset_s is None:
        begins = ", ".join(f"{origin:g} s" for origin in file.origins_s)
        raise ImportFaultError(
            f"{file.name}: its media begin at {begins} (TIME_ORIGIN), so its seconds are not theirs: say with --offset "
            "what is to be added to each time to make it a second of the session, 0 if nothing"
        )
    if faults := [fault for tier, fault in file.faults.items() if tier in how.targets]:
        raise ImportFaultError(f"{file.name}: {'; '.join(faults)}, or skip the tier")
    chosen = [annotation for annotation in file.annotations if annotation.tier in how.targets]
    if not chosen:
        raise ImportFaultError(f"{file.name}: the tiers that are mapped have no annotation with a value")
    if file.decimal_commas:
        chosen = [_with_point(annotation, how.targets[annotation.tier], study) for annotation in chosen]
    new = _new_schemes(file, how, root, study, chosen)
    rows = [_row(file, how, annotation) for annotation in chosen]
    added = {"schemes": [_scheme_row(scheme) for scheme in new]} if new else {}
    added["labels"] = rows
    try:
        tables = [open_table(root, table) for table in added]
    except TableChangeError as error:
        raise ImportFaultError(str(error)) from None
    for changed in tables:
        changed.add(added[changed.table])
    content = {changed.name: changed.content() for changed in tables}
    if wrong := problems_with(root, content):
        shown = "\n".join(f"  {problem}" for problem in shortened(wrong))
        raise ImportFaultError(
            f"{file.name}: with its labels the study would not be valid; nothing is written:\n{shown}"
        )
    put_in_place(root, content)  # schemes first: one without labels is a valid study
    counts = Counter(row["scheme"] for row in rows)
    return Imported(counts, tuple(new), tuple(dict.fromkeys(row["session_id"] for row in rows)))


def _check_times(file: AnnotationFile, how: Import) -> None:
    """Refuse to make labels of whole sessions where the file may have times."""
    if how.no_times and file.unit != NO_TIMES:
        raise ImportFaultError(f"{file.name}: has times ({file.unit}): leave --no-times out")
    doubtful = [
        column
        for column, why in file.possible_times.items()
        if column not in how.targets and ("" in why or (column not in how.skip and {*why} - {*how.targets}))
    ]
    if doubtful and not how.no_times:
        raise ImportFaultError(
            f"{file.name}: {', '.join(map(repr, doubtful))} may be times, and the labels would be of whole sessions: "
            "say --start COLUMN and --end COLUMN (or --duration COLUMN) with --unit, or --no-times if they are none"
        )


def _with_point(annotation: Annotation, target: Target, study: Study) -> Annotation:
    """With a decimal point, if the value is a number; a comma in a name stays."""
    scheme = study.schemes.get(target.scheme) or (Scheme(target.scheme, target.type) if target.type else None)
    if not scheme or not scheme.is_numeric:
        return annotation
    return replace(annotation, value=str(with_decimal_point(annotation.value)))


def _new_schemes(
    file: AnnotationFile, how: Import, root: Path, study: Study, chosen: Sequence[Annotation]
) -> list[Scheme]:
    """The schemes that the study does not declare yet; values that their scheme does not allow are refused."""
    declared = _declared(root, study)
    vocabularies = {tier.name: tier.vocabulary for tier in file.tiers}
    new: dict[str, Scheme] = {}
    for tier, target in how.targets.items():
        vocabulary = vocabularies[tier]
        if target.scheme in declared:
            scheme = study.schemes[target.scheme]
            if target.type not in (None, scheme.type):
                raise ImportFaultError(
                    f"--map {tier}={target.scheme}:{target.type}: the study says it is {scheme.type}"
                )
        elif vocabulary and target.type in (None, SchemeType.NOMINAL, SchemeType.ORDINAL):
            kind = target.type or SchemeType.NOMINAL
            labels = tuple(dict.fromkeys((*getattr(new.get(target.scheme), "labels", ()), *vocabulary)))
            scheme = new[target.scheme] = Scheme(target.scheme, kind, labels=labels)
        elif target.type is None:
            raise ImportFaultError(
                f"{file.name}: what is the scheme {target.scheme!r}? The study does not declare it: say --map "
                f"{tier}={target.scheme}:nominal, or :ordinal, :interval, :text"
            )
        else:
            scheme = new.setdefault(target.scheme, Scheme(target.scheme, target.type))
        _check_values(file.name, scheme, [annotation for annotation in chosen if annotation.tier == tier])
    if unsafe := [scheme.name for scheme in new.values() if any("|" in label for label in scheme.labels)]:
        raise ImportFaultError(f"{file.name}: a label of {', '.join(unsafe)} has a '|' in it: name it otherwise")
    return list(new.values())


def _declared(root: Path, study: Study) -> set[str]:
    """The schemes of the table; the type of a study's other schemes follows from their values alone."""
    tables = TableRows(root)
    tables.find_tables()
    tables.read("schemes")
    return {row.scheme for row in tables.of("schemes")} | ({EMPATHY.name} if study.ratings else set())


def _check_values(name: str, scheme: Scheme, chosen: Sequence[Annotation]) -> None:
    wrong, rule = [], ""
    for annotation in chosen:
        try:
            scheme.read(annotation.value.strip())
        except ValueError as error:
            wrong.append(annotation.place)
            rule = rule or str(error).split(": is ")[0]
    if wrong:
        raise ImportFaultError(f"{name}: {places(wrong)}: its value {rule}")


def _row(file: AnnotationFile, how: Import, annotation: Annotation) -> dict[str, str]:
    session_id = annotation.session_id or how.session_id
    if annotation.session_id and how.session_id not in (None, annotation.session_id):
        raise ImportFaultError(
            f"{file.name}: {annotation.place}: is of another session than --session {how.session_id}"
        )
    if how.session_from and not annotation.session_id:
        session_id = session_from(how.session_from, annotation.file or file.name)
    if not session_id:
        raise ImportFaultError(f"{file.name}: of which session is it? Say --session ID or --session-from PATTERN")
    offset_s = how.offset_s or 0.0
    cells = {
        "session_id": session_id,
        "scheme": how.targets[annotation.tier].scheme,
        "value": annotation.value.strip(),
        "start_s": "" if annotation.start_s is None else repr(round(annotation.start_s + offset_s, 9)),
        "end_s": "" if annotation.end_s is None else repr(round(annotation.end_s + offset_s, 9)),
        "track": how.track or "",
        "person_id": annotation.person_id or how.person_id or "",
        "rater_id": annotation.rater_id or how.rater_id or "",
        "confidence": annotation.confidence or "",
    }
    return {name: cell for name, cell in cells.items() if cell or name in _LABEL_COLUMNS}


def _scheme_row(scheme: Scheme) -> dict[str, str]:
    return {"scheme": scheme.name, "type": scheme.type, "labels": "|".join(scheme.labels)}
