"""A part of a feature by its name: a group of columns, an array, several whose names begin alike, one kind of row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from storyframes.spec import MAIN_ARRAY, FeatureSpec
from storyframes.store.frames import pandas_frame
from storyframes.store.layout import StoreError
from storyframes.store.tables import MASK, chosen_table

if TYPE_CHECKING:
    import pandas as pd

    from storyframes.store.feature_store import FeatureStore


@dataclass(frozen=True)
class Part:
    """What is meant of a feature.

    Attributes:
        rows: what a row stands for; None as in the feature's main array.
        arrays: these; empty for all of such rows.
        columns: of the main array these; empty for all.
    """

    rows: str | None = None
    arrays: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def part_of(spec: FeatureSpec, name: str) -> Part:
    """The part of this name; the whole where it is empty.

    Raises:
        StoreError: there is none, or its arrays have not the same rows.
    """
    if not name:
        return Part()
    if name in spec.groups:
        return Part(str(spec.arrays[MAIN_ARRAY].axis), (MAIN_ARRAY,), spec.columns[spec.groups[name]])
    arrays = (name,) if name in spec.arrays else tuple(one for one in spec.arrays if one.startswith(f"{name}_"))
    axes = {str(spec.arrays[one].axis) for one in arrays}
    if len(axes) > 1:
        raise StoreError(f"{spec.name}: {', '.join(arrays)} have not the same rows: name one of them")
    if arrays:
        return Part(axes.pop(), arrays)
    kinds = list(dict.fromkeys(str(array.axis) for array in spec.arrays.values()))
    if name in kinds:
        return Part(name)
    raise StoreError(f"{spec.name} has no part {name!r}; it has {', '.join((*spec.groups, *spec.arrays, *kinds))}")


def part_frame(
    store: FeatureStore, session_id: str, feature: str, name: str, rate: float | None, *, unmeasured: bool
) -> pd.DataFrame:
    """A part of a feature as a data frame; see :meth:`storyframes.store.explore.SessionView.to_pandas`.

    Args:
        store: where it is.
        session_id: the session.
        feature: as the store calls it.
        name: of the part; see :func:`part_of`.
        rate: rows a second; None takes them as they are stored.
        unmeasured: also the numbers of rows that are no measurement; else they are NaN, so that no mean is made of
            them. Whole numbers stay.

    Raises:
        StoreError: there is no such feature or part.
    """
    part = part_of(store.spec(session_id, feature), name)
    table = chosen_table(store, session_id, feature, part.rows, rate)
    if part.arrays:  # times are no values: a part that is one has them as its index alone
        table = replace(table, arrays={one: spec for one, spec in table.arrays.items() if one in part.arrays})
    frame = pandas_frame(table)
    values = [column.name for column in table.columns]
    if part.columns:
        places = {column.place: column.name for column in table.columns}
        kept = [places[table.arrays[MAIN_ARRAY].columns.index(one)] for one in part.columns]
        frame = frame.drop(columns=[one for one in values if one not in set(kept)])
        values = kept
    if not unmeasured and not frame[MASK].all():
        floats = [one for one in values if np.issubdtype(frame[one].dtype, np.floating)]
        frame[floats] = frame[floats].where(frame[MASK])
    return frame
