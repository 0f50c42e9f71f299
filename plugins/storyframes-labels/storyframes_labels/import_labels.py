"""Importing a file of annotations into a study: all of it is written to the tables labels and schemes, or nothing.

The user says which tier is which scheme, and of which session a file is; nothing is guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from storyframes_labels.annotation_file import (
    NO_TIMES,
    Annotation,
    AnnotationFile,
    ImportFaultError,
    Tier,
    listed,
    places,
)
from storyframes_labels.curve_files import LabelRow, check_curves, curve_files
from storyframes_labels.label_table import no_header
from storyframes_labels.mapping import Target, as_options, proposals, range_in_name
from storyframes_labels.missing import NO_ANSWER, Answer, Missing
from storyframes_labels.owners import Owners, Said
from storyframes_labels.spelling import Spellings
from storyframes_labels.study_tables import answers, changed_tables, new_persons, scheme_row, write_tables
from tasks.study import (
    ChangedTables,
    Scheme,
    SchemeType,
    Study,
    Table,
    TableChangeError,
    load_study,
)

ALL_OTHERS = "*"
_LABEL_COLUMNS = ("session_id", "scheme", "value", "start_s", "end_s")
_NUMBERS = ("start_s", "end_s", "confidence")
_COMPARED = (*_LABEL_COLUMNS, "target", "track", "person_id", "rater_id", "confidence")


# --- what the user says of the file ------------------------------------------------------------------------------


def unmapped_tiers(file: AnnotationFile, targets: Mapping[str, Target], skip: Sequence[str]) -> list[str]:
    """The tiers of the file that are neither mapped nor skipped."""
    names = dict.fromkeys(tier.name for tier in file.tiers)
    return [] if ALL_OTHERS in skip else [name for name in names if name not in (*targets, *skip)]


def check_tiers(files: Sequence[AnnotationFile], targets: Mapping[str, Target], skip: Sequence[str]) -> None:
    """Check that every tier is mapped or skipped, and that every mapped or skipped tier is in one of the files.

    Raises:
        ImportFaultError: naming the tiers.
    """
    every = dict.fromkeys(tier.name for file in files for tier in file.tiers)
    first = files[0].name if len(files) == 1 else f"{len(files)} files"
    if absent := [name for name in (*targets, *skip) if name not in every and name != ALL_OTHERS]:
        tiers = ", ".join(map(repr, every)) or "none"
        raise ImportFaultError(f"{first}: has no tier {', '.join(map(repr, absent))}; its tiers are {tiers}")
    if both := [name for name in targets if name in skip]:
        raise ImportFaultError(f"{first}: mapped and skipped: {', '.join(map(repr, both))}")
    for file in files:
        counts = Counter(tier.name for tier in file.tiers)
        if twice := [name for name, count in counts.items() if count > 1 and name in targets]:
            raise ImportFaultError(
                f"{file.name}: has several tiers of the name {', '.join(map(repr, twice))}: give each a name of its own"
            )
        if unmapped := unmapped_tiers(file, targets, skip):
            raise ImportFaultError(
                f"{file.name}: not mapped: {', '.join(map(repr, unmapped))}. "
                f"Say --map TIER=SCHEME or --skip TIER for each, or --skip '{ALL_OTHERS}' for all others; perhaps "
                f"{as_options(proposals([file], unmapped))}"
            )


@dataclass(frozen=True, kw_only=True)
class Import(Said):
    """The user's options for files.

    Attributes:
        targets: by tier, its scheme.
        skip: tiers that are left out; ``*``: all that are not mapped.
        offset_s: is added to every time; None where the user gives none.
        no_times: the labels are of whole sessions, although columns may look like times.
        answer: which cells say that there is no value.
        fold_case: join labels, raters and people that differ in case or Unicode form alone.
        leave_out_known: labels and curves that the study has already are left out, not refused.
    """

    targets: Mapping[str, Target]
    skip: Sequence[str] = ()
    offset_s: float | None = None
    no_times: bool = False
    answer: Answer = NO_ANSWER
    fold_case: bool = False
    leave_out_known: bool = False

    @property
    def schemes(self) -> tuple[str, ...]:
        """The names of the schemes, each once."""
        return tuple(dict.fromkeys(target.scheme for target in self.targets.values()))


@dataclass(frozen=True)
class Imported:
    """What was written, or would be.

    Attributes:
        labels: the number of labels by scheme; of a curve its moments.
        schemes: the new ones.
        sessions: their ids.
        rows: by table, the new rows.
        remarks: what was found out, or should be checked.
    """

    labels: Mapping[str, int]
    schemes: tuple[Scheme, ...]
    sessions: tuple[str, ...]
    rows: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def import_labels(files: Sequence[AnnotationFile], how: Import, root: Path, *, is_dry: bool = False) -> Imported:
    """Add the labels of files to the study at ``root``: all of them or, where something is wrong, none.

    Args:
        files: as ``read_annotations`` reads them.
        how: the user's options.
        root: the study's folder.
        is_dry: write nothing.

    Raises:
        ImportFaultError: an option is missing or wrong, or the study would not be valid with these labels; nothing is
            changed.
        StudyError: the study is not valid now.
        OSError: the tables cannot be written.
    """
    check_tiers(files, how.targets, how.skip)
    study = load_study(root)
    chosen = {file.name: _chosen(file, how, study) for file in files}
    new = _new_schemes(files, how, study)
    schemes = {name: new.get(name) or study.schemes[name] for name in how.schemes}
    curves = {name for name, scheme in schemes.items() if scheme.type is SchemeType.CURVE}
    scheme_of = {tier: target.scheme for tier, target in how.targets.items()}
    for file in files:
        chosen[file.name] = [
            _as_said(file, how, schemes, annotation)
            for annotation in chosen[file.name]
            if annotation.value or scheme_of[annotation.tier] in curves
        ]
    missing = Missing(schemes, study, how.answer)
    chosen = missing.left_out(chosen, scheme_of)
    spellings = Spellings(missing.schemes, study, join=how.fold_case)
    chosen = spellings.joined(chosen, scheme_of)
    for file in files:
        for scheme in schemes.values():
            of_scheme = [one for one in chosen[file.name] if scheme_of[one.tier] == scheme.name and one.value]
            _check_values(file.name, scheme, of_scheme)
    owners = Owners(study, how)
    owners.remarks += [*missing.remarks, *spellings.remarks]
    for file in files:
        chosen[file.name] = owners.named_by_user(file, chosen[file.name])
        owners.remarks += _unnamed_raters(file, how, chosen[file.name])
    roles = _roles(study)
    made = [
        LabelRow(_row(how, annotation, *owner, roles), f"{file.name}: {annotation.place}")
        for file in files
        for annotation in chosen[file.name]
        if (owner := owners.of(file, annotation))[0]
    ]
    owners.check()
    contents = curve_files(of_curves := [row for row in made if row.cells["scheme"] in curves])
    if any("person_id" in row.cells or "confidence" in row.cells for row in of_curves):
        owners.remarks.append("curves have no person and no confidence: left out of them")
    made = [row for row in made if row.cells["scheme"] not in curves]
    if how.leave_out_known:
        try:
            table = ChangedTables(root).open("labels")
        except TableChangeError as error:
            raise ImportFaultError(str(error)) from None
        known = {_filled(row) for row in table.rows}
        new_rows = [row for row in made if _filled(row.cells) not in known]
        contents = [curve for curve in contents if not _is_there(root / curve.row["path"], curve.content)]
        if count := len(made) - len(new_rows):
            owners.remarks.append(f"{count} labels left out: the study has them already")
        made = new_rows
    rows = [row.cells for row in made]
    new = {name: missing.schemes[name] for name in new}
    answered = {name: scheme for name, scheme in missing.schemes.items() if name not in new and scheme != schemes[name]}
    owners.remarks += [
        f"schemes: {name} keeps the answer: {', '.join(f'{kind} {cell}' for kind, cell in answers(scheme).items())}"
        for name, scheme in missing.schemes.items()
        if scheme != schemes[name]
    ]
    added: dict[str, Sequence[Mapping[str, str]]] = {
        "schemes": [scheme_row(scheme) for scheme in new.values()],
        "persons": new_persons(study, rows, how.person_id) if all(file.names_persons for file in files) else [],
        "labels": rows,
        "curves": [curve.row for curve in contents],  # last: if a table cannot be written, none names removed files
    }
    check_curves(root, contents, missing.schemes)
    changed = changed_tables(root, added, answered, [row.place for row in made])
    if not is_dry:
        write_tables(changed, contents)
    counts = Counter(row["scheme"] for row in rows)
    for curve in contents:
        counts[curve.row["scheme"]] += curve.moments
    sessions = dict.fromkeys(row["session_id"] for row in [*rows, *added["curves"]])
    return Imported(counts, tuple(new.values()), tuple(sessions), added, tuple(dict.fromkeys(owners.remarks)))


def _filled(row: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """The cells of a label that have a value, as text; columns that the owner of the study added do not count."""
    cells = {name: row[name] for name in _COMPARED if not Table.is_empty_cell(row.get(name))}
    cells |= {name: Table.number_in(cell) for name, cell in cells.items() if name in _NUMBERS}
    return frozenset((name, str(Table.as_words(cell)).strip()) for name, cell in cells.items())


def _is_there(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def _chosen(file: AnnotationFile, how: Import, study: Study) -> list[Annotation]:
    """The annotations of the tiers that are mapped.

    Raises:
        ImportFaultError: their times may be wrong, or there are none.
    """
    if ids := [number for number, column in enumerate(file.columns, start=1) if column in study.sessions]:
        raise no_header(file.name, ids[0], "is a session of the study")
    _check_times(file, how)
    if file.origins_s and how.offset_s is None:
        begins = ", ".join(f"{origin:g} s" for origin in file.origins_s)
        raise ImportFaultError(
            f"{file.name}: its media begin at {begins} (TIME_ORIGIN), so its seconds are not theirs: say with --offset "
            "what is to be added to each time to make it a second of the session, 0 if nothing"
        )
    offset_s = how.offset_s or 0.0
    if early := [
        annotation.place
        for annotation in file.annotations
        if annotation.tier in how.targets
        and annotation.start_s is not None
        and round(annotation.start_s + offset_s, 9) < 0
    ]:
        rule = "begins before 0 s: correct it in the file, or say with --offset what is to be added to each time"
        raise ImportFaultError(f"{file.name}: {places(early)}: {rule}")
    if faults := [fault for tier, fault in file.faults.items() if tier in how.targets]:
        raise ImportFaultError(f"{file.name}: {'; '.join(faults)}, or skip the tier")
    chosen = [annotation for annotation in file.annotations if annotation.tier in how.targets]
    if not chosen:
        raise ImportFaultError(f"{file.name}: the tiers that are mapped have no annotation with a value")
    return chosen


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


def _as_said(file: AnnotationFile, how: Import, schemes: Mapping[str, Scheme], annotation: Annotation) -> Annotation:
    """A number with a decimal point, a comma in a name as it is; of several columns of one scheme each is a rater's."""
    scheme = schemes[how.targets[annotation.tier].scheme]
    annotation = replace(annotation, value=annotation.value.strip())
    if file.decimal_commas and scheme.is_numeric:
        annotation = replace(annotation, value=str(Table.with_decimal_point(annotation.value)))
    if file.columns and not (annotation.rater_id or how.rater_id):
        same = [
            column for column in file.columns if column in how.targets and how.targets[column].scheme == scheme.name
        ]
        annotation = replace(annotation, rater_id=annotation.tier if len(same) > 1 else None)
    return annotation


def _unnamed_raters(file: AnnotationFile, how: Import, chosen: Sequence[Annotation]) -> list[str]:
    """A remark on the tiers of one scheme whose annotations name no rater: they may be several raters'."""
    tiers: dict[str, dict[str, None]] = {}
    for annotation in chosen:
        if not (file.columns or annotation.rater_id or how.rater_id):
            tiers.setdefault(how.targets[annotation.tier].scheme, {})[annotation.tier] = None
    how_to = "if they are several raters', name each in the file, or import one tier at a time with --rater"
    several = {scheme: listed([*map(repr, names)]) for scheme, names in tiers.items() if len(names) > 1}
    return [f"{file.name}: {names} are all {scheme}, without a rater: {how_to}" for scheme, names in several.items()]


def _new_schemes(files: Sequence[AnnotationFile], how: Import, study: Study) -> dict[str, Scheme]:
    """The schemes that the study does not declare yet, by name."""
    declared = study.declared | ({"empathy"} if study.ratings else set())
    new: dict[str, Scheme] = {}
    for name in how.schemes:
        targets = {tier: target for tier, target in how.targets.items() if target.scheme == name}
        tiers = [tier for file in files for tier in file.tiers if tier.name in targets]
        if name not in declared:
            new[name] = _scheme(name, targets, tiers, files[0].name)
        scheme = new.get(name) or study.schemes[name]
        for tier, target in targets.items():
            if target.type not in (None, scheme.type):
                says = "the study says it" if name in declared else "another --map says it"
                raise ImportFaultError(f"--map {tier}={name}:{target.type}: {says} is {scheme.type}")
            _check_range(tier, target, [one for one in tiers if one.name == tier], scheme)
    if unsafe := [scheme.name for scheme in new.values() if any("|" in label for label in scheme.labels)]:
        raise ImportFaultError(f"{files[0].name}: a label of {', '.join(unsafe)} has a '|' in it: name it otherwise")
    return new


def _check_range(tier: str, target: Target, tiers: Sequence[Tier], scheme: Scheme) -> None:
    """Refuse values of another range: of the user's, without it of the file's, and of that in a column's name."""
    limits = (scheme.minimum, scheme.maximum)
    ranges = [(target.minimum, target.maximum)]
    if target.minimum is None and limits != (None, None):
        ranges = [range_in_name(tier) or (None, None), *((one.minimum, one.maximum) for one in tiers)]
    if other := [one for one in ranges if one not in ((None, None), limits)]:
        low, high, lowest, highest = ("none" if limit is None else f"{limit:g}" for limit in (*other[0], *limits))
        same = "" if None in limits else f", or say {scheme.name}:{lowest}..{highest} if its values are of that range"
        raise ImportFaultError(
            f"--map {tier}={scheme.name}: its range is {low} to {high}, that of the scheme {lowest} to {highest}: give "
            f"it a scheme of its own{same}"
        )


def _scheme(name: str, targets: Mapping[str, Target], tiers: Sequence[Tier], file: str) -> Scheme:
    """A new scheme, by what the user says, then by what the file says, then by the range in a column's name."""
    labels = tuple(dict.fromkeys(label for tier in tiers for label in tier.vocabulary))
    types = [target.type for target in targets.values() if target.type] + [tier.type for tier in tiers if tier.type]
    limits = [(target.minimum, target.maximum) for target in targets.values()]
    limits += [(tier.minimum, tier.maximum) for tier in tiers]
    limits += [found for tier in targets if (found := range_in_name(tier))]
    low, high = next(((low, high) for low, high in limits if low is not None), (None, None))
    kind = types[0] if types else SchemeType.NOMINAL if labels else SchemeType.INTERVAL if low is not None else None
    if kind is None:
        raise ImportFaultError(
            f"{file}: what is the scheme {name!r}? The study does not declare it: say --map "
            f"{next(iter(targets))}={name}:nominal, or :ordinal, :interval, :text, :curve"
        )
    if kind not in (SchemeType.NOMINAL, SchemeType.ORDINAL):
        labels = ()
    is_numeric = Scheme(name, kind, labels=labels).is_numeric
    return Scheme(name, kind, low if is_numeric else None, high if is_numeric else None, labels)


def _check_values(name: str, scheme: Scheme, chosen: Sequence[Annotation]) -> None:
    wrong, rule, cure = [], "", ""
    for annotation in chosen:
        try:
            scheme.read(annotation.value.strip())
        except ValueError as error:
            wrong.append(annotation.place)
            rule = rule or str(error).split(": is ")[0]
            if Scheme.folded(annotation.value) in map(Scheme.folded, scheme.labels):
                cure = "; --fold-case takes labels that differ in case or Unicode form alone"
    if wrong:
        raise ImportFaultError(f"{name}: {places(wrong)}: its value {rule}{cure}")


def _roles(study: Study) -> dict[tuple[str, str], str]:
    """By session and role, the id of the only person with the role, where it is not the id of another one."""
    ids = {(person.session_id, person.person_id) for person in study.persons}
    counts = Counter((person.session_id, person.role) for person in study.persons)
    return {
        (person.session_id, person.role): person.person_id
        for person in study.persons
        if person.role and counts[key := (person.session_id, person.role)] == 1 and key not in ids
    }


def _row(
    how: Import,
    annotation: Annotation,
    session_id: str,
    track: str,
    rater_id: str,
    roles: Mapping[tuple[str, str], str],
) -> dict[str, str]:
    offset_s = how.offset_s or 0.0
    person = annotation.person_id or how.person_id or ""
    cells = {
        "session_id": session_id,
        "scheme": how.targets[annotation.tier].scheme,
        "value": annotation.value.strip(),
        "start_s": "" if annotation.start_s is None else repr(round(annotation.start_s + offset_s, 9)),
        "end_s": "" if annotation.end_s is None else repr(round(annotation.end_s + offset_s, 9)),
        "track": track,
        "person_id": roles.get((session_id, person), person),
        "rater_id": rater_id,
        "confidence": annotation.confidence or "",
    }
    return {name: cell for name, cell in cells.items() if cell or name in _LABEL_COLUMNS}
