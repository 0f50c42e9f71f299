"""Schemes, raters, labels and curves: their rows checked against each other, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from storyframes.store.layout import ID_PATTERN
from tasks.study.devices import check_track_of
from tasks.study.labels import EMPATHY, Curve, Label, Rater, Scheme, SchemeType, did_you_mean
from tasks.study.references import LONGEST_S, exclude
from tasks.study.rows import CurveRow, LabelRow, SchemeRow
from tasks.study.spreadsheet_habits import with_decimal_point
from tasks.study.table_rows import TableRows, named_rows, repeated
from tasks.study.tracks import MAIN

_KEY = ("session_id", "scheme", "target", "rater_id", "start_s", "end_s", "track", "person_id")


def schemes_of(tables: TableRows) -> dict[str, Scheme]:
    """The schemes that are declared, by the tables ``schemes`` and ``ratings``, or that labels and curves leave no
    doubt about.
    """
    tables.check_unique("schemes", "scheme")
    schemes = {EMPATHY.name: EMPATHY} if tables.has("ratings") else {}
    for number, line, row in tables.rows["schemes"]:
        scheme = _declared(row)
        if fault := _scheme_fault(row):
            column, rule = fault
            tables.problem("schemes", (number, line), column, getattr(row, column), rule, rule)
        elif row.scheme == EMPATHY.name and tables.has("ratings") and replace(scheme, private=False) != EMPATHY:
            rule = "is the scheme of the table 'ratings', which is ordinal from 1 to 5: name this one otherwise"
            tables.problem("schemes", (number, line), "scheme", row.scheme, rule)
        else:
            schemes[row.scheme] = scheme
    known = tables.ids("schemes", "scheme")
    if known is not None:
        names = {name for (name,) in known} | set(schemes)
        _infer(tables, names, schemes)
    return schemes


def _declared(row: SchemeRow) -> Scheme:
    private = row.type is SchemeType.TEXT if row.private is None else row.private
    return Scheme(row.scheme, row.type, row.min, row.max, row.labels, private)


def _scheme_fault(row: SchemeRow) -> tuple[str, str] | None:
    """The column that is wrong, and the rule."""
    is_bounded = row.min is not None or row.max is not None
    if row.labels and row.type not in (SchemeType.NOMINAL, SchemeType.ORDINAL):
        return "labels", f"belongs to a nominal or ordinal scheme, and this one is {row.type}"
    if is_bounded and row.type in (SchemeType.NOMINAL, SchemeType.TEXT):
        return ("max" if row.min is None else "min"), f"belongs to numbers, and this scheme is {row.type}"
    if is_bounded and row.labels:
        return "labels", "says which values there are, and so do min and max: keep one of them"
    if row.min is not None and row.max is not None and row.max <= row.min:
        return "max", f"must be above min, which is {row.min:g}"
    return None


def _infer(tables: TableRows, known: set[str], schemes: dict[str, Scheme]) -> None:
    """Add what is used and not declared to ``schemes`` where it can only be one thing."""
    values: dict[str, list[str]] = {}
    first: dict[str, tuple[str, int, int | None]] = {}
    for table in ("labels", "curves"):
        for number, line, row in tables.rows[table]:
            if row.scheme not in known:
                first.setdefault(row.scheme, (table, number, line))
                values.setdefault(row.scheme, []).extend([row.value] if isinstance(row, LabelRow) else [])
    for name, (table, number, line) in first.items():
        rule = "is not in the table 'schemes'"
        if close := did_you_mean(name, known):
            tables.problem(table, (number, line), "scheme", name, rule + close, "undeclared")
        elif table == "curves":
            schemes[name] = Scheme(name, SchemeType.CURVE)
            tables.remarks.append(f"curves: the scheme {name} is not in the table 'schemes': taken for a curve")
        elif all(ID_PATTERN.fullmatch(value) and not _is_number(value) for value in values[name]):
            labels = tuple(sorted(set(values[name])))
            schemes[name] = Scheme(name, SchemeType.NOMINAL, labels=labels)
            tables.remarks.append(
                f"labels: the scheme {name} is not in the table 'schemes': taken for nominal, with {len(labels)} labels"
            )
        else:
            kinds = ", ".join(one for one in SchemeType if one is not SchemeType.CURVE)
            rule += f", and its values do not tell what it is: declare it there as one of {kinds}"
            tables.problem(table, (number, line), "scheme", name, rule, "undeclared")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def raters_of(tables: TableRows) -> dict[str, Rater]:
    """The raters by id: those of the table, or, where there is none, those that labels and curves name."""
    tables.check_unique("raters", "rater_id")
    if tables.has("raters"):
        for table in ("labels", "curves"):
            tables.check_known(table, "rater_id", "raters", hint=True)
        return {row.rater_id: Rater(**row.model_dump()) for row in tables.of("raters")}
    named = [row.rater_id for table in ("labels", "curves") for row in tables.of(table) if row.rater_id]
    return {rater_id: Rater(rater_id) for rater_id in named}


def labels_of(tables: TableRows, schemes: Mapping[str, Scheme]) -> tuple[Label, ...]:
    """All labels: those of the table ``ratings``, then those of the table ``labels``."""
    tables.check_known("labels", "session_id", "sessions", hint=True)
    tables.check_known("labels", ("session_id", "person_id"), "persons", hint=True)
    check_track_of(tables, "labels")
    labels = [
        Label(row.session_id, EMPATHY.name, float(row.empathy), target=row.story_id) for row in tables.of("ratings")
    ]
    rated = {label.key for label in labels}
    placed: list[tuple[int, int | None, Label]] = []
    for number, line, row in tables.rows["labels"]:
        if not _has_span(tables, number, line, row) or row.scheme not in schemes:
            continue
        if label := _label(tables, number, line, row, schemes[row.scheme]):
            placed.append((number, line, label))
    for key, same in repeated(label.key for _, _, label in placed):
        number, line, label = placed[same[0]]
        columns = [name for name, value in zip(_KEY, key, strict=True) if value is not None]
        rule = f"is labelled twice: {named_rows([placed[at][0] for at in same[1:]])} the same {' and '.join(columns)}"
        tables.problem("labels", (number, line), "scheme", label.scheme, rule, "twice")
    for number, line, label in placed:
        if label.key in rated:
            rule = f"is in the table 'ratings' already, for {label.target}: keep one of the two"
            tables.problem("labels", (number, line), "scheme", label.scheme, rule, "rated")
    return (*labels, *(label for _, _, label in placed))


def _has_span(tables: TableRows, number: int, line: int | None, row: LabelRow) -> bool:
    if (row.start_s is None) != (row.end_s is None):
        given, absent = ("start_s", "end_s") if row.end_s is None else ("end_s", "start_s")
        rule = f"is given without {absent}: a part has both, the whole session neither, and a moment the same twice"
        tables.problem("labels", (number, line), given, getattr(row, given), rule, "half a span")
        return False
    if row.start_s is None or row.end_s is None:
        return True
    if row.end_s > LONGEST_S:
        exclude(tables, "labels", (number, line), row.session_id, "end_s", row.end_s)
        return False
    if row.end_s < row.start_s:
        rule = f"must not be before start_s, which is {row.start_s}"
        tables.problem("labels", (number, line), "end_s", row.end_s, rule, "backwards")
        return False
    return True


def _label(tables: TableRows, number: int, line: int | None, row: LabelRow, scheme: Scheme) -> Label | None:
    if scheme.type is SchemeType.CURVE:
        rule = f"belongs to the scheme {scheme.name!r}, which is a curve: name its file in the table 'curves'"
        tables.problem("labels", (number, line), "scheme", row.scheme, rule, "curve")
        return None
    try:
        is_comma = scheme.is_numeric and "labels" in tables.decimal_commas
        value = scheme.read(str(with_decimal_point(row.value)) if is_comma else row.value)
    except ValueError as error:
        private = scheme.private or scheme.type is SchemeType.TEXT
        tables.problem("labels", (number, line), "value", row.value, str(error), private=private)
        return None
    return Label(**row.model_dump() | {"value": value, "track": _track(row)})


def _track(row: LabelRow | CurveRow) -> str | None:
    """The track that a row names; ``main`` is the session itself."""
    return None if row.track == MAIN else row.track


def curves_of(tables: TableRows, schemes: Mapping[str, Scheme]) -> tuple[Curve, ...]:
    """The curves, in the table's order."""
    tables.check_known("curves", "session_id", "sessions", hint=True)
    check_track_of(tables, "curves")
    rows: list[tuple[int, int | None, CurveRow]] = tables.rows["curves"]
    for number, line, row in rows:
        scheme = schemes.get(row.scheme)
        if scheme and scheme.type is not SchemeType.CURVE:
            rule = f"is {scheme.type}, not a curve: its values belong into the table 'labels'"
            tables.problem("curves", (number, line), "scheme", row.scheme, rule, "no curve")
    columns = ("session_id", "rater_id", "track", "scheme")
    keys = [(row.session_id, row.rater_id, _track(row), row.scheme) for _, _, row in rows]
    tables.check_keys("curves", columns, keys)
    return tuple(Curve(**row.model_dump() | {"track": _track(row)}) for _, _, row in rows)
