"""The rows of a catalogue, which may come from strangers: of whom each is, and what it says of arrays."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from storyframes.store.layout import CATALOGUE, StoreError
from storyframes.store.records import StoredArray
from storyframes.store.validation import ID_PATTERN, VERSION_PATTERN, InvalidError, parse_json, shown
from storyframes.tracks import MAIN, SIGN

if TYPE_CHECKING:  # whoever reads the records alone needs it not
    import pyarrow as pa

WHOLE_SESSION = "*"  # stands for the features of a session of which not even the names can be read
_AGAIN = "'storyframes index' writes it again"
CHECKED = ["session_id", "feature", "version", "path"]
"""The columns that :func:`check_rows` looks at."""


def check_types(there: pa.Schema, expected: pa.Schema) -> None:
    """See that a catalogue's columns are of the types that they are written with; older ones lack some.

    Raises:
        StoreError: one is not, or those are lacking that every reader needs.
    """
    for field in expected:
        place = there.get_field_index(field.name)
        if place < 0 and field.name in (*CHECKED, "arrays"):
            raise StoreError(f"{CATALOGUE} is not one (it has no column {field.name!r}); {_AGAIN}")
        if place >= 0 and str(there.field(place).type).replace("element:", "item:") != str(field.type).replace(
            "element:", "item:"
        ):
            raise StoreError(f"{CATALOGUE} is not one ({field.name} is {there.field(place).type}); {_AGAIN}")


def check_rows(table: pa.Table) -> None:
    """See that every row of a catalogue names a session, a feature, and a version of theirs in its place.

    Args:
        table: a catalogue, of its columns at least :data:`CHECKED`.

    Raises:
        StoreError: one is not.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if lacking := [name for name in CHECKED if name not in table.schema.names]:
            raise InvalidError(f"it has no column {lacking[0]!r}")
        if wrong := [name for name in CHECKED if table.schema.field(name).type != pa.string()]:
            raise InvalidError(f"the column {wrong[0]!r} is no text")
        _check_all(pc.unique(table["session_id"]), ID_PATTERN.pattern, "is no session")
        names = rf"{ID_PATTERN.pattern}({SIGN}{ID_PATTERN.pattern})?|{re.escape(WHOLE_SESSION)}"
        features = pc.unique(table["feature"])
        _check_all(features, names, "is no feature")
        main = features.filter(pc.match_substring_regex(features, rf"(?i){SIGN}{MAIN}\z"))
        _refuse(main, f"is a feature of the track {MAIN}, which is called without it")
        session, feature, version, path = (table[name].filter(table["version"].is_valid()) for name in CHECKED)
        _check_all(version, VERSION_PATTERN.pattern, "is no version")
        are_right = pc.equal(path, pc.binary_join_element_wise(session, feature, version, "/"))
        _refuse(path.filter(pc.invert(pc.fill_null(are_right, False))), "is another's path")
    except InvalidError as error:
        raise StoreError(f"{CATALOGUE} is not one ({error}); 'storyframes index' writes it again") from None


def _check_all(values: Any, pattern: str, rule: str) -> None:
    """See that every value is as the whole of a pattern says."""
    import pyarrow.compute as pc

    are_right = pc.fill_null(pc.match_substring_regex(values, rf"\A({pattern})\z"), False)
    _refuse(values.filter(pc.invert(are_right)), rule)


def _refuse(values: Any, rule: str) -> None:
    """Refuse the first of these values, if there is one."""
    if len(values):
        raise InvalidError(f"{shown(values[0].as_py())} {rule}")


def parse_arrays(text: str) -> dict[str, StoredArray]:
    """The ``arrays`` column of one row.

    Raises:
        StoreError: it says what no array can be.
    """
    try:
        return StoredArray.parse_all(parse_json(text or ""))
    except InvalidError as error:
        raise StoreError(f"{CATALOGUE}: {error}; 'storyframes index' writes it again") from None
