"""Writing imported labels into a study: its tables labels and schemes, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.study.changed_tables import TableChangeError, open_table, problems_with, put_in_place
from tasks.study.importers.annotation_file import (
    NO_TIMES,
    Annotation,
    AnnotationFile,
    ImportFaultError,
    places,
)
from tasks.study.importers.mapping import Target, check_tiers, session_from
from tasks.study.importers.possible_times import no_header
from tasks.study.labels import EMPATHY, Scheme, SchemeType
from tasks.study.load import Study, load_study
from tasks.study.problems import shortened
from tasks.study.spreadsheet_habits import with_decimal_point
from tasks.study.table_rows import TableRows

_LABEL_COLUMNS = ("session_id", "scheme", "value", "start_s", "end_s")


@dataclass(frozen=True)
class Import:
    """What the user says of a file.

    Attributes:
        targets: by tier, its scheme.
        skip: tiers that are left out; ``*``: all that are not mapped.
        session_id, session_from: which session; at most one of them. Without them the file's rows have to say it.
        rater_id, person_id, track: for all labels; None where the file says it or nobody does.
        offset_s: is added to every time; None where nothing is said.
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
    """What was written: how many labels of each scheme, and the schemes that are new."""

    labels: Mapping[str, int]
    schemes: tuple[Scheme, ...]
    sessions: tuple[str, ...]


def import_labels(file: AnnotationFile, how: Import, root: Path) -> Imported:
    """Add a file's labels to the study at ``root``.

    Raises:
        ImportFaultError: something is not said, is not so, or the study would not be valid with these labels; then
            nothing is changed.
        StudyError: it is not valid as it is.
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
    chosen = [one for one in file.annotations if one.tier in how.targets]
    if not chosen:
        raise ImportFaultError(f"{file.name}: the tiers that are mapped have no annotation with a value")
    if file.decimal_commas:
        chosen = [_with_point(one, how.targets[one.tier], study) for one in chosen]
    new = _new_schemes(file, how, root, study, chosen)
    rows = [_row(file, how, one) for one in chosen]
    added = {"schemes": [_scheme_row(scheme) for scheme in new]} if new else {}
    added["labels"] = rows
    content = dict(_extended(root, table, more) for table, more in added.items())
    if wrong := problems_with(root, content):
        shown = "\n".join(f"  {problem}" for problem in shortened(wrong))
        raise ImportFaultError(
            f"{file.name}: with its labels the study would not be valid; nothing is written:\n{shown}"
        )
    put_in_place(root, content)  # schemes first: one without labels is a valid study
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["scheme"]] = counts.get(row["scheme"], 0) + 1
    return Imported(counts, tuple(new), tuple(dict.fromkeys(row["session_id"] for row in rows)))


def _check_times(file: AnnotationFile, how: Import) -> None:
    """Refuse to make labels of the whole session of labels that may have times."""
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


def _with_point(one: Annotation, target: Target, study: Study) -> Annotation:
    """With a decimal point, if the value is a number; the same sign in a name stays what it is."""
    scheme = study.schemes.get(target.scheme) or (Scheme(target.scheme, target.type) if target.type else None)
    return replace(one, value=str(with_decimal_point(one.value))) if scheme and scheme.is_numeric else one


def _new_schemes(
    file: AnnotationFile, how: Import, root: Path, study: Study, chosen: Sequence[Annotation]
) -> list[Scheme]:
    """The schemes that the study does not declare yet; those of the others' values that are wrong are refused."""
    declared = _declared(root, study)
    vocabularies = {tier.name: tier.vocabulary for tier in file.tiers}
    found: dict[str, Scheme] = {}
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
            labels = tuple(dict.fromkeys((*getattr(found.get(target.scheme), "labels", ()), *vocabulary)))
            scheme = found[target.scheme] = Scheme(target.scheme, kind, labels=labels)
        elif target.type is None:
            raise ImportFaultError(
                f"{file.name}: what is the scheme {target.scheme!r}? The study does not declare it: say --map "
                f"{tier}={target.scheme}:nominal, or :ordinal, :interval, :text"
            )
        else:
            scheme = found.setdefault(target.scheme, Scheme(target.scheme, target.type))
        _check_values(file.name, scheme, [one for one in chosen if one.tier == tier])
    if unsafe := [scheme.name for scheme in found.values() if any("|" in label for label in scheme.labels)]:
        raise ImportFaultError(f"{file.name}: a label of {', '.join(unsafe)} has a '|' in it: name it otherwise")
    return list(found.values())


def _declared(root: Path, study: Study) -> set[str]:
    """The schemes that the table has; a study's others are taken for what they are by their values alone."""
    tables = TableRows(root)
    tables.find_tables()
    tables.read("schemes")
    return {row.scheme for row in tables.of("schemes")} | ({EMPATHY.name} if study.ratings else set())


def _check_values(name: str, scheme: Scheme, chosen: Sequence[Annotation]) -> None:
    wrong, rule = [], ""
    for one in chosen:
        try:
            scheme.read(one.value.strip())
        except ValueError as error:
            wrong.append(one.place)
            rule = rule or str(error).split(": is ")[0]
    if wrong:
        raise ImportFaultError(f"{name}: {places(wrong)}: its value {rule}")


def _row(file: AnnotationFile, how: Import, one: Annotation) -> dict[str, str]:
    session_id = one.session_id or how.session_id
    if one.session_id and how.session_id not in (None, one.session_id):
        raise ImportFaultError(f"{file.name}: {one.place}: is of another session than --session {how.session_id}")
    if how.session_from and not one.session_id:
        session_id = session_from(how.session_from, one.file or file.name)
    if not session_id:
        raise ImportFaultError(f"{file.name}: of which session is it? Say --session ID or --session-from PATTERN")
    offset_s = how.offset_s or 0.0
    cells = {
        "session_id": session_id,
        "scheme": how.targets[one.tier].scheme,
        "value": one.value.strip(),
        "start_s": "" if one.start_s is None else repr(round(one.start_s + offset_s, 9)),
        "end_s": "" if one.end_s is None else repr(round(one.end_s + offset_s, 9)),
        "track": how.track or "",
        "person_id": one.person_id or how.person_id or "",
        "rater_id": one.rater_id or how.rater_id or "",
        "confidence": one.confidence or "",
    }
    return {name: cell for name, cell in cells.items() if cell or name in _LABEL_COLUMNS}


def _scheme_row(scheme: Scheme) -> dict[str, str]:
    return {"scheme": scheme.name, "type": scheme.type, "labels": "|".join(scheme.labels)}


def _extended(root: Path, table: str, rows: Sequence[Mapping[str, str]]) -> tuple[str, bytes]:
    """The table's file with more rows: its name and content."""
    try:
        changed = open_table(root, table)
    except TableChangeError as error:
        raise ImportFaultError(str(error)) from None
    changed.add(rows)
    return changed.name, changed.content()
