"""``predictions.parquet``: one score for each clip (or story), beside what it is scored against.

================  =======================================================================================
column            what
================  =======================================================================================
clip_id           text; no two rows of a split have the same
session_id        text
participant_id    text; who is resampled together
story_id          text; none where ratings are not of stories
phase             text; that of the run
rating            number from the scheme's minimum to its maximum
split             text: train, val, test
score             number on the scale that the run's ``label`` says; none only where a run may miss an answer
copies            how many times the row counts, 1 or more; without the column, once
================  =======================================================================================
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storyframes.store import write_atomically
from storyframes_empathy.scores.run_record import RECORD, Run, RunError, ScoreScale

FILE = "predictions.parquet"
SCHEMA = pa.schema(
    [
        pa.field("clip_id", pa.string(), nullable=False),
        pa.field("session_id", pa.string(), nullable=False),
        pa.field("participant_id", pa.string(), nullable=False),
        pa.field("story_id", pa.string()),
        pa.field("phase", pa.string(), nullable=False),
        pa.field("rating", pa.float64(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("score", pa.float64()),
        pa.field("copies", pa.int64(), nullable=False),
    ]
)
_OPTIONAL = {"copies"}
_RUN = b"storyframes.run"  # in the file's metadata: the fingerprint of the run that wrote it
_MAY_BE_EMPTY = {"story_id", "score"}


@dataclass(frozen=True)
class Predictions:
    """The predictions of one run, checked.

    Attributes:
        run: what decided them.
        folder: where they lie.
        table: the columns of ``SCHEMA``, in its types; a missing score is NaN (and only that is).
    """

    run: Run
    folder: Path
    table: pd.DataFrame


def write_predictions(folder: Path, run: Run, table: pd.DataFrame) -> None:
    """Write ``predictions.parquet`` into ``folder``, in one step, with mode 0600, after the checks of reading.

    Args:
        folder: of the run.
        run: what decided them.
        table: the columns of ``SCHEMA``, others are not written; a missing score, if the run may miss any, is None or
            NA, never NaN.

    Raises:
        RunError: the table breaks a rule.
        OSError: it cannot be written.
    """
    path = folder / FILE
    known = [field for field in SCHEMA if field.name in table.columns]
    content = {field.name: _as_given(table[field.name], is_text=field.type == pa.string()) for field in known}
    whole = _checked(pa.table(content), run, path)
    buffer = io.BytesIO()
    pq.write_table(whole.replace_schema_metadata({_RUN: run.fingerprint.encode()}), buffer)
    write_atomically(path, buffer.getvalue())


def read_predictions(folder: Path, run: Run) -> Predictions:
    """The predictions of a run.

    Args:
        folder: of the run.
        run: as ``read_run`` gives it.

    Raises:
        RunError: there are none, they are of another run, or a row breaks a rule; the message names the first such row.
    """
    path = folder / FILE
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"{path}: is missing: the run has no predictions") from None
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        content = pq.read_table(pa.BufferReader(stored))
    except (OSError, pa.ArrowException):  # Arrow has no error of its own for a footer that is none
        raise RunError(f"{path}: is not a whole Parquet file") from None
    written_by = (content.schema.metadata or {}).get(_RUN, b"").decode(errors="replace")
    if run.fingerprint and written_by and run.fingerprint != written_by:
        raise RunError(
            f"{path}: is of another run than the {RECORD} beside it: their fingerprints differ; run it again"
        )
    return Predictions(run, folder, _checked(content, run, path).to_pandas())


def scaled_scores(scores: np.ndarray, run: Run) -> np.ndarray:
    """Scores on the scale 0 to 1 of the scheme, whatever scale the run's are on; those for "binary" stay as they are.

    Args:
        scores: (n,) on the scale that ``run.label`` says.
        run: which also has the scheme's limits.
    """
    span = run.maximum - run.minimum
    match run.label:
        case ScoreScale.UNIT:
            return (scores * run.maximum - run.minimum) / span
        case ScoreScale.RATING:
            return (scores - run.minimum) / span
    return scores


def score_limits(run: Run) -> tuple[float, float]:
    """The smallest and the largest rating of the scheme, on the scale of the run's scores."""
    match run.label:
        case ScoreScale.UNIT:
            return run.minimum / run.maximum, 1.0
        case ScoreScale.RATING:
            return run.minimum, run.maximum
    return 0.0, 1.0


def _as_given(column: pd.Series, *, is_text: bool) -> pa.Array:
    """The column as Arrow's; of numbers a NaN stays one, so that it is never taken for an answer that is missing."""
    if is_text:
        return pa.array(column, from_pandas=True)
    values = column.to_numpy() if column.dtype.kind in "fiu" else [None if one is pd.NA else one for one in column]
    return pa.array(values, from_pandas=False)


def _checked(table: pa.Table, run: Run, path: Path) -> pa.Table:
    """The table in the types of ``SCHEMA``, its columns in that order, after every rule was held."""
    if missing := [name for name in SCHEMA.names if name not in table.column_names and name not in _OPTIONAL]:
        raise RunError(f"{path}: has no column {', '.join(missing)} (docs/benchmark.md has the columns)")
    columns = {}
    for field in SCHEMA:
        if field.name not in table.column_names:
            columns[field.name] = pa.array(np.ones(len(table), np.int64))
            continue
        columns[field.name] = column = _typed(table[field.name], field, path)
        if field.name not in _MAY_BE_EMPTY and column.null_count:
            row = _first(pc.is_null(column))
            more = ": leave out clips without a rating" if field.name == "rating" else ""
            raise RunError(f"{path}: row {row} (from 0): {field.name} is empty{more}")
    whole = pa.table(columns, schema=SCHEMA)
    _check_values(whole, run, path)
    return whole


def _typed(column: pa.ChunkedArray, field: pa.Field, path: Path) -> pa.Array:
    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    wanted_text = field.type == pa.string()
    if pa.types.is_null(column.type) or (is_text if wanted_text else is_number):
        try:
            return column.cast(field.type)
        except pa.ArrowInvalid as error:  # a number that is no whole one
            raise RunError(f"{path}: column {field.name}: {error}") from None
    raise RunError(f"{path}: column {field.name} is {column.type}: must be {'text' if wanted_text else 'numbers'}")


def _check_values(table: pa.Table, run: Run, path: Path) -> None:
    """Hold the rules about values; the first row that breaks one is named, with its clip."""

    def refuse(broken: np.ndarray, message: Callable[[int], str]) -> None:
        if broken.any():
            row = int(np.argmax(broken))
            raise RunError(f"{path}: row {row} (from 0), clip {table['clip_id'][row]}: {message(row)}")

    phase = _flags(pc.not_equal(table["phase"], run.phase))
    refuse(phase, lambda row: f"phase {str(table['phase'][row])!r}, and the run is of {run.phase!r}")
    rating = table["rating"].to_numpy()
    outside = ~((rating >= run.minimum) & (rating <= run.maximum))
    limits = f"{run.minimum:g} to {run.maximum:g}"
    refuse(outside, lambda row: f"rating {rating[row]:g}: the scheme {run.scheme!r} goes from {limits}")
    copies = table["copies"].to_numpy()
    refuse(copies < 1, lambda row: f"copies {copies[row]}: must be 1 or more")
    is_missing = _flags(pc.is_null(table["score"]))
    scores = table["score"].to_numpy()
    wrong = ~np.isfinite(scores) & ~is_missing
    refuse(wrong, lambda row: f"score {scores[row]}: every score of a run must be finite")
    if not run.may_be_missing:
        rule = 'every clip needs one, save in runs whose run.json says "may_be_missing": true'
        refuse(is_missing, lambda row: f"has no score (pandas writes NaN as none, too): {rule}")
    keys = pd.DataFrame({"clip_id": table["clip_id"].to_pandas(), "split": table["split"].to_pandas()})
    again = keys.duplicated().to_numpy()
    refuse(again, lambda row: "is there twice: say how often a row counts in the column copies")


def _flags(condition: pa.ChunkedArray) -> np.ndarray:
    return condition.to_numpy(zero_copy_only=False).astype(bool)


def _first(condition: pa.Array) -> int:
    return int(np.argmax(condition.to_numpy(zero_copy_only=False)))
