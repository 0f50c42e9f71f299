"""Schemes, raters, labels and curves: their rows checked against each other, and what they describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from storyframes.store.layout import ID_PATTERN
from tasks.study.labels import (
    EMPATHY,
    LABEL_KEY,
    Label,
    Scheme,
    SchemeType,
    alike,
    did_you_mean,
    listed,
    undecided_remark,
)
from tasks.study.missing_values import is_one_of, possibly_missing
from tasks.study.references import LONGEST_S, check_track_of, exclude
from tasks.study.rows import Curve, Rater, SchemeRow
from tasks.study.strict_tables import as_words, with_decimal_point
from tasks.study.table_rows import Placed, TableRows, named_rows, repeated


def schemes_of(tables: TableRows) -> dict[str, Scheme]:
    """The schemes of the tables ``schemes`` and ``ratings``, and undeclared ones whose type is beyond doubt."""
    tables.check_unique("schemes", "scheme")
    schemes = {EMPATHY.name: EMPATHY} if tables.has("ratings") else {}
    for placed in tables.rows["schemes"]:
        row = placed.row
        scheme = _declared(row)
        if fault := _scheme_fault(row):
            column, rule = fault
            tables.problem("schemes", placed, column, rule, rule)
        elif row.scheme == EMPATHY.name and tables.has("ratings") and _without_choices(scheme) != EMPATHY:
            rule = "is the scheme of the table 'ratings', which is ordinal from 1 to 5: name this one otherwise"
            tables.problem("schemes", placed, "scheme", rule)
        else:
            schemes[row.scheme] = scheme
    declared = tables.ids("schemes", "scheme")
    if declared is not None:
        _infer(tables, {name for (name,) in declared} | set(schemes), schemes)
    return schemes


def _declared(row: SchemeRow) -> Scheme:
    private = row.type is SchemeType.TEXT if row.private is None else row.private
    return Scheme(row.scheme, row.type, row.min, row.max, row.labels, private, row.missing, row.not_missing)


def _without_choices(scheme: Scheme) -> Scheme:
    """The scheme without what a study may choose for any of its schemes."""
    return replace(scheme, private=False, missing=(), not_missing=())


def _scheme_fault(row: SchemeRow) -> tuple[str, str] | None:
    """The column with a fault, and the rule."""
    is_bounded = row.min is not None or row.max is not None
    if row.labels and row.type not in (SchemeType.NOMINAL, SchemeType.ORDINAL):
        return "labels", f"belongs to a nominal or ordinal scheme, and this one is {row.type}"
    if is_bounded and row.type in (SchemeType.NOMINAL, SchemeType.TEXT):
        return ("max" if row.min is None else "min"), f"belongs to numbers, and this scheme is {row.type}"
    if both := [code for code in row.missing if is_one_of(code, (*row.not_missing, *row.labels))]:
        return "missing", f"has {both[0]!r}, and so has not_missing or labels: keep it in one of them"
    if is_bounded and row.labels:
        return "labels", "says which values there are, and so do min and max: keep one of them"
    if row.min is not None and row.max is not None and row.max <= row.min:
        return "max", f"must be above min, which is {row.min:g}"
    return None


def _infer(tables: TableRows, declared: set[str], schemes: dict[str, Scheme]) -> None:
    """Add schemes that are used and not declared to ``schemes``, where their values allow one type only."""
    uses: dict[str, list[tuple[str, Placed]]] = {}
    for table in ("labels", "curves"):
        for placed in tables.rows[table]:
            if placed.row.scheme not in declared:
                uses.setdefault(placed.row.scheme, []).append((table, placed))
    for name, rows in uses.items():
        table, first = rows[0]
        values = {placed.row.value for owner, placed in rows if owner == "labels"}
        rule = "is not in the table 'schemes'"
        if close := did_you_mean(name, declared):
            tables.problem(table, first, "scheme", rule + close, "undeclared")
        elif table == "curves":
            schemes[name] = Scheme(name, SchemeType.CURVE)
            tables.remarks.append(f"curves: the scheme {name} is not in the table 'schemes': taken for a curve")
        elif all(ID_PATTERN.fullmatch(value) and not _is_number(value) for value in values):
            schemes[name] = Scheme(name, SchemeType.NOMINAL, labels=tuple(sorted(values)))
            tables.remarks.append(
                f"labels: the scheme {name} is not in the table 'schemes': taken for nominal, with {len(values)} labels"
            )
            if codes := possibly_missing(sorted(values)):
                tables.remarks.append(f"labels: {undecided_remark(name, codes)}")
        else:
            kinds = ", ".join(kind for kind in SchemeType if kind is not SchemeType.CURVE)
            rule += f", and its type does not follow from its values: declare it there as one of {kinds}"
            tables.problem(table, first, "scheme", rule, "undeclared")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def raters_of(tables: TableRows) -> dict[str, Rater]:
    """The raters by id: those of the table, or, without this table, those that labels and curves name."""
    tables.check_unique("raters", "rater_id")
    if tables.has("raters"):
        for table in ("labels", "curves"):
            tables.check_known(table, "rater_id", "raters", hint=True)
        return {row.rater_id: row for row in tables.of("raters")}
    named = [row.rater_id for table in ("labels", "curves") for row in tables.of(table) if row.rater_id]
    return {rater_id: Rater(rater_id=rater_id) for rater_id in named}


def labels_of(tables: TableRows, schemes: Mapping[str, Scheme]) -> tuple[Label, ...]:
    """All labels: those of the table ``ratings``, then those of the table ``labels``."""
    tables.check_known("labels", "session_id", "sessions", hint=True)
    tables.check_known("labels", ("session_id", "person_id"), "persons", hint=True)
    check_track_of(tables, "labels")
    ratings = [
        Label(row.session_id, EMPATHY.name, float(row.empathy), target=row.story_id) for row in tables.of("ratings")
    ]
    rated = {label.key for label in ratings}
    labels: list[Placed] = []
    missing: dict[str, list[int]] = {}
    for placed in tables.rows["labels"]:
        if not _has_span(tables, placed) or placed.row.scheme not in schemes:
            continue
        if is_one_of(placed.row.value, schemes[placed.row.scheme].missing):
            missing.setdefault(placed.row.scheme, []).append(placed.number)
        elif label := _label(tables, placed, schemes[placed.row.scheme]):
            labels.append(placed._replace(row=label))
    for key, first, others in repeated(labels, lambda label: label.key):
        columns = [name for name, value in zip(LABEL_KEY, key, strict=True) if value is not None]
        rule = f"is labelled twice: {named_rows(others)} the same {' and '.join(columns)}"
        tables.problem("labels", first, "scheme", rule, "twice")
    tables.remarks += [
        f"labels: {len(rows)} of the scheme {name} say that a value is missing, from row {rows[0]} on: left out"
        for name, rows in missing.items()
    ]
    _note_doubts(tables, schemes, [placed.row for placed in labels])
    for placed in labels:
        if placed.row.key in rated:
            rule = f"is in the table 'ratings' already, for {placed.row.target}: keep one of the two"
            tables.problem("labels", placed, "scheme", rule, "rated")
    return (*ratings, *(placed.row for placed in labels))


_ALIKE = "differ in case or Unicode form alone"


def _note_doubts(tables: TableRows, schemes: Mapping[str, Scheme], labels: Sequence[Label]) -> None:
    """Remark on values, raters and people that may say that there is none, or that may be the same in other letters."""
    values: dict[str, dict[str, None]] = {}
    for label in labels:
        values.setdefault(label.scheme, {})[str(as_words(label.value))] = None
    for name, different in values.items():
        scheme = schemes[name]
        if codes := scheme.undecided(different):
            tables.remarks.append(f"labels: {undecided_remark(name, codes)}")
        groups = [] if scheme.type is SchemeType.TEXT else alike([*scheme.labels, *different])
        for group in groups[:1] if scheme.private else groups:
            shown = f"{len(groups)} values" if scheme.private else " and ".join(map(repr, group))
            cure = "write them the same, or take their rows out and import them again with --fold-case"
            tables.remarks.append(f"labels: {shown} of the scheme {name} {_ALIKE}: {cure}")
    raters = [label.rater_id for label in labels if label.rater_id]
    if not tables.has("raters") and (codes := possibly_missing(raters)):
        tables.remarks.append(
            f"labels: the rater {listed([*map(repr, codes)])} may say that nobody is named: empty these cells, or list "
            "all raters in a table raters"
        )
    persons = [row.person_id for row in tables.of("persons")]
    for kind, names in (("raters", raters), ("persons", persons)):
        tables.remarks += [
            f"{kind}: {' and '.join(map(repr, group))} {_ALIKE}: are they one?" for group in alike(names)
        ]


def _has_span(tables: TableRows, placed: Placed) -> bool:
    row = placed.row
    if (row.start_s is None) != (row.end_s is None):
        given, absent = ("start_s", "end_s") if row.end_s is None else ("end_s", "start_s")
        rule = f"is given without {absent}: a part has both, the whole session neither, and a moment the same twice"
        tables.problem("labels", placed, given, rule, "half a span")
        return False
    if row.start_s is None:
        return True
    if row.end_s > LONGEST_S:
        exclude(tables, "labels", placed)
        return False
    if row.end_s < row.start_s:
        tables.problem("labels", placed, "end_s", f"must not be before start_s, which is {row.start_s}", "backwards")
        return False
    return True


def _label(tables: TableRows, placed: Placed, scheme: Scheme) -> Label | None:
    row = placed.row
    if scheme.type is SchemeType.CURVE:
        rule = f"belongs to the scheme {scheme.name!r}, which is a curve: name its file in the table 'curves'"
        tables.problem("labels", placed, "scheme", rule, "curve")
        return None
    try:
        is_comma = scheme.is_numeric and "labels" in tables.decimal_commas
        value = scheme.read(str(with_decimal_point(row.value)) if is_comma else row.value)
    except ValueError as error:
        private = scheme.private or scheme.type is SchemeType.TEXT
        tables.problem("labels", placed, "value", str(error), private=private)
        return None
    return Label(**row.model_dump() | {"value": value})


def curves_of(tables: TableRows, schemes: Mapping[str, Scheme]) -> tuple[Curve, ...]:
    """The curves, in the table's order."""
    tables.check_known("curves", "session_id", "sessions", hint=True)
    check_track_of(tables, "curves")
    for placed in tables.rows["curves"]:
        scheme = schemes.get(placed.row.scheme)
        if scheme and scheme.type is not SchemeType.CURVE:
            rule = f"is {scheme.type}, not a curve: its values belong into the table 'labels'"
            tables.problem("curves", placed, "scheme", rule, "no curve")
    tables.check_unique("curves", "session_id", "rater_id", "track", "scheme")
    return tuple(tables.of("curves"))
