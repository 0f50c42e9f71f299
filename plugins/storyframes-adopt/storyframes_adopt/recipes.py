"""Recipes: how the CSV of a program that measures faces becomes rows, one for each frame of the recording.

A recipe knows the program's columns from the code that writes them, so it refuses a file that is of another program,
version, unit or recording. Frames of which the file has no row were not measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from storyframes_adopt.adopted_files import AdoptError, Adoption, Rows, column_numbers, columns_of, rows_of

_MAY_DIFFER = 0.01  # of the recording: times of a program that counts frames at a rate


@dataclass(frozen=True)
class Recipe:
    """The CSV of one program.

    Attributes:
        about: the program, and what its numbers are; stored with the feature.
        frame: the column with each row's frame.
        first: the number of the first frame.
        time: the column with seconds since the first frame; empty for none.
        clock: the column with the same as MM:SS, which may be absent; empty for none.
        has_gaps: frames without a face may have no row.
        groups: columns that have to be there, those of a group in this order.
        left_out: a pattern of columns that are not adopted: texts, paths, what counts rows.
        mask: the column that is 1 where a face was measured; empty where every row with a value is measured.
        lists: by column of lists, how many numbers each has.
        frame_steps: how many frames a time may differ from that of its frame; None for a hundredth of the recording.
    """

    about: str
    frame: str
    groups: tuple[tuple[str, ...], ...]
    first: int = 0
    time: str = ""
    clock: str = ""
    has_gaps: bool = False
    left_out: str = ""
    mask: str = ""
    lists: tuple[tuple[str, int], ...] = ()
    frame_steps: float | None = None


def _names(text: str, pattern: str = "{}") -> tuple[str, ...]:
    return tuple(pattern.format(name) for name in text.split())


def _numbered(prefixes: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}_{number}" for prefix in prefixes.split() for number in range(count))


_OPENFACE_AUS = "01 02 04 05 06 07 09 10 12 14 15 17 20 23 25 26 45"
_OPENFACE_FOUND = "01 02 04 05 06 07 09 10 12 14 15 17 20 23 25 26 28 45"
_FEAT_AUS = "01 02 04 05 06 07 09 10 11 12 14 15 17 20 23 24 25 26 28 43"

RECIPES: Mapping[str, Recipe] = {
    "openface-431": Recipe(
        "OpenFace before 2.0: gaze, head pose, landmarks, shape, action units (AUnn_r 0 to 5, AUnn_c 0 or 1)",
        frame="frame",
        first=1,
        time="timestamp",
        mask="success",
        groups=(
            (
                *("confidence", "success", *_names("0_x 0_y 0_z 1_x 1_y 1_z", "gaze_{}")),
                *_names("Tx Ty Tz Rx Ry Rz", "pose_{}"),
                *_numbered("x y X Y Z", 68),
                *_names("scale rx ry rz tx ty", "p_{}"),
                *_numbered("p", 34),
                *_names(_OPENFACE_AUS, "AU{}_r"),
                *_names(_OPENFACE_FOUND, "AU{}_c"),
            ),
        ),
    ),
    "libreface": Recipe(
        "LibreFace: head pose, action units (au_n 0 or 1, au_n_intensity 0 to 5), face mesh, gaze in degrees",
        frame="frame_idx",
        time="frame_time_in_ms",  # its writer divides the frame's number by the rate: seconds
        has_gaps=True,
        frame_steps=1.5,  # ffmpeg repeats and drops frames to reach the rate, which moves all later ones
        left_out="facial_expression",
        groups=(
            ("pitch", "yaw", "roll"),
            _names("1 2 4 6 7 10 12 14 15 17 23 24", "au_{}"),
            _names("1 2 4 5 6 9 12 15 17 20 25 26", "au_{}_intensity"),
        ),
    ),
    "py-feat": Recipe(
        "py-feat: face, action units and emotions as probabilities 0 to 1, landmarks, head pose; without identities",
        frame="frame",
        clock="approx_time",
        has_gaps=True,
        left_out=r"input|Identity(_\d+)?",  # Identity_1 to _512 recognise a face again
        groups=(
            _names("X Y Width Height", "FaceRect{}"),
            _names(_FEAT_AUS, "AU{}"),
            _names("anger disgust fear happiness sadness surprise neutral"),
        ),
    ),
    "pyfaceau": Recipe(
        "pyfaceau: action units 0 to 5 by OpenFace's models; smoothed over three frames",
        frame="frame",
        time="timestamp",
        mask="success",
        groups=tuple((f"AU{unit}_r",) for unit in _OPENFACE_AUS.split()),
    ),
    "openface-3": Recipe(
        "OpenFace 3: emotion as a class, gaze, action units, all as the network gives them",
        frame="frame_index",
        left_out="timestamp|video_path|face_id|landmarks",
        lists=(("face_detection", 5), ("action_units", 8)),
        groups=(("face_id", "face_detection", "landmarks", "emotion", "gaze_yaw", "gaze_pitch", "action_units"),),
    ),
}


def read_by_recipe(file: Path, how: Adoption, frames: np.ndarray) -> Rows:
    """The rows of a program's CSV, one for each frame.

    Args:
        how: with the name of a recipe.
        frames: when the recording's frames are, in seconds.

    Raises:
        AdoptError: the file is not of the recipe or of the recording; the message names column, row and frame.
        OSError: the system cannot read it.
    """
    if not len(frames):
        raise AdoptError("the recording has no frames")
    recipe = RECIPES[how.recipe]
    table = columns_of(file, has_times=True)
    _check_columns(table, recipe, how.recipe)
    places = _places(column_numbers(recipe.frame, table[recipe.frame]), recipe, len(frames))
    if recipe.time:
        _check_times(column_numbers(recipe.time, table[recipe.time]), places, recipe, frames - frames[0])
    if recipe.clock in table:
        _check_clock(table[recipe.clock].to_pylist(), places, recipe.clock, frames - frames[0])
    for column, length in recipe.lists:
        table |= {f"{column}_{number}": part for number, part in enumerate(_listed(column, table.pop(column), length))}
    own = rf"{recipe.frame}|{recipe.time}|{recipe.clock}|{recipe.mask}|{recipe.left_out}"
    columns = tuple(name for name in table if not re.fullmatch(own, name))
    read = rows_of(table, replace(how, columns=columns, mask=recipe.mask, time="", per_frame=True))
    values = np.full((len(frames), len(columns)), np.nan, np.float32)
    values[places] = read.values
    mask = np.zeros(len(frames), np.uint8)
    mask[places] = read.mask
    return Rows(read.columns, values, None, mask)


def _check_columns(table: Mapping[str, Any], recipe: Recipe, name: str) -> None:
    needed = [*filter(None, (recipe.frame, recipe.time)), *chain.from_iterable(recipe.groups)]
    if absent := [column for column in needed if column not in table]:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        raise AdoptError(f"lacks {', '.join(map(repr, absent[:3]))}{more}, which the recipe {name!r} needs")
    order = [*table]
    for group in recipe.groups:
        for before, after in pairwise(group):
            if order.index(before) > order.index(after):
                raise AdoptError(
                    f"has {after!r} before {before!r}, and the recipe {name!r} has them the other way round"
                )


def _places(frame: np.ndarray, recipe: Recipe, count: int) -> np.ndarray:
    """(n,) which frame of the recording each row is."""
    for row, number in enumerate(frame.tolist(), start=1):
        if not number.is_integer() or not 0 <= number - recipe.first < count:
            raise AdoptError(
                f"row {row}: {recipe.frame!r} is {number:g}, and the recording's frames are {recipe.first} to "
                f"{count - 1 + recipe.first}"
            )
    if wrong := np.flatnonzero(np.diff(frame) <= 0).tolist():
        row, before, after = wrong[0] + 2, frame[wrong[0]], frame[wrong[0] + 1]
        what = "a second face? Keep one person's rows" if before == after else "frames have to increase"
        raise AdoptError(f"row {row}: frame {after:g} comes after frame {before:g}: {what}")
    if not recipe.has_gaps and len(frame) != count:
        raise AdoptError(f"has {len(frame)} rows, and the recording has {count} frames")
    return np.asarray(frame, np.int64) - recipe.first


def _check_times(time: np.ndarray, places: np.ndarray, recipe: Recipe, frames: np.ndarray) -> None:
    """Refuse times that are not those of the frames: of another unit, recording or rate."""
    step = float(np.median(np.diff(frames))) if len(frames) > 1 else 1.0
    may_differ = _MAY_DIFFER * frames[-1] + step if recipe.frame_steps is None else recipe.frame_steps * step
    if wrong := np.flatnonzero(~(np.abs(time - frames[places]) <= may_differ)).tolist():
        row = wrong[0]
        raise AdoptError(
            f"row {row + 1}: {recipe.time!r} is {time[row]:g}, and the recording's frame {places[row]} is at "
            f"{frames[places[row]]:g} s: the times are of another recording or unit, or frames were repeated or dropped"
        )


def _check_clock(cells: Sequence[Any], places: np.ndarray, column: str, frames: np.ndarray) -> None:
    """Refuse times as MM:SS that are not those of the frames, to a second and a hundredth of the recording."""
    for row, (cell, frame) in enumerate(zip(cells, places.tolist(), strict=True), start=1):
        if cell is None:
            continue
        match = re.fullmatch(r"(\d{1,6}):([0-5]\d)(:00)?", str(cell))  # Arrow reads 00:01 as 00:01:00
        if match is None:
            raise AdoptError(f"row {row}: {column!r} must be a time as MM:SS")
        seconds = 60 * int(match[1]) + int(match[2])
        if abs(frames[frame] - seconds) > 1 + _MAY_DIFFER * frames[-1]:
            raise AdoptError(
                f"row {row}: {column!r} is {match[1]}:{match[2]}, and the recording's frame {frame} is at "
                f"{frames[frame]:g} s: the times are of another recording or rate"
            )


def _listed(column: str, cells: Any, length: int) -> Iterator[np.ndarray]:
    """The numbers of a column of lists that are written as text, NaN where a cell is empty."""
    rows = np.full((len(cells), length), np.nan)
    for row, cell in enumerate(cells.to_pylist()):
        try:
            values = np.ravel(json.loads(cell)) if cell else rows[row]
            if len(values) != length:
                raise ValueError(column)
            rows[row] = values
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise AdoptError(f"row {row + 1}: {column!r} must be a list of {length} numbers") from None
    yield from rows.T
