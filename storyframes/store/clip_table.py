"""The clip index as a Parquet file: in its metadata are its format, the kinds of its label columns and the clocks of
tracks, so that reading clips needs no study.

Format 1 had no metadata. Since format 2 windows without a rating are rows with missing values, label schemes have
columns, and the columns ``target``, ``split_group``, ``frames_expected`` and ``longest_gap_s`` exist. Format 3 is
written only where the windows are cut from another track's frames, which a reader of format 2 would take for the
session's own.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storyframes.store.layout import CLIPS, ClipFormatError, StoreError
from storyframes.store.storage import Storage
from storyframes.store.table_files import replace_table
from storyframes.store.validation import ID_PATTERN, InvalidError, is_whole, parse_json, shown
from storyframes.times import StoredClocks

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 3
ROW_GROUP = 16_384
"""Rows of the file that are read at the least."""
_KEY = b"storyframes"
_MOST_FRAMES = 2**31  # of a recording: two years at 30 a second
# parts of the metadata that any format has
_WITHOUT_TRACK = ("raters", "ratings", "ranges", "clocks", "clock_errors", "window_s")
_FRAMES = ("start_frame", "stop_frame", "audio_start", "audio_stop")


def to_table(index: pd.DataFrame) -> pa.Table:
    """The index as it is stored, with its ``attrs``.

    ``schemes`` are the kinds of its label columns; ``raters`` the rater of each label or curve that has one in its
    name; ``ratings`` by session and column, for each labelled unit (the same part, track, person and target), what
    each of the raters said whose mean or majority the column is, without their ids; ``ranges`` the lowest and highest
    value that a column's scheme allows, where it says both; ``clocks`` those of the tracks
    (:data:`storyframes.times.StoredClocks`), if there are any; ``clock_errors`` their standard errors in seconds by
    session and track, where they are known; ``track`` the track whose frames the windows are cut from, if it is not
    the main track; ``window_s`` the seconds of a window, if windows count seconds.
    """
    about = {"format": 2, "schemes": index.attrs.get("schemes", {})}
    about |= {name: index.attrs[name] for name in _WITHOUT_TRACK if index.attrs.get(name)}
    if track := index.attrs.get("track"):
        about |= {"format": FORMAT, "track": track}
    table = pa.Table.from_pandas(index, preserve_index=False)
    return table.replace_schema_metadata({_KEY: json.dumps(about, sort_keys=True)})


def write_clips(storage: Storage, index: pd.DataFrame) -> str:
    """Replace the clip index of a store; see :func:`to_table` for its ``attrs``.

    Returns:
        The checksum of the file.
    """
    return replace_table(storage, CLIPS, lambda: to_table(index), ROW_GROUP)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The index of a stored table, with ``attrs["schemes"]``, and what else :func:`to_table` names if it has it.

    Raises:
        StoreError: a row has no valid session, or frames that no recording can have; or the metadata is damaged.
        ClipFormatError: a newer storyframes wrote it.
    """
    try:
        about = _about(table.schema.metadata)
        _check_rows(table)
    except InvalidError as error:
        raise StoreError(f"{CLIPS} is not a clip index ({error}); 'storyframes index' writes it again") from None
    number = about["format"]
    if number > FORMAT:
        raise ClipFormatError(
            f"{CLIPS} has format {number}, of a newer storyframes; this one reads up to {FORMAT}: update it"
        )
    index = table.replace_schema_metadata(None).to_pandas()
    index.attrs["schemes"] = dict(about.get("schemes", {}))
    index.attrs |= {name: about[name] for name in (*_WITHOUT_TRACK, "track") if about.get(name)}
    return index


def clocks_of(content: bytes) -> StoredClocks:
    """The clocks of tracks in the bytes of an index, without reading its rows.

    Raises:
        StoreError: it is damaged.
    """
    try:
        about = _about(pq.read_schema(pa.BufferReader(content)).metadata)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"{CLIPS} is damaged ({type(error).__name__}); 'storyframes index' writes it again") from None
    return dict(about.get("clocks", {}))


def check_replaceable(content: bytes) -> None:
    """Refuse to replace an index that a newer storyframes wrote; a damaged one may be replaced.

    Raises:
        ClipFormatError: a newer storyframes wrote it.
    """
    try:
        number = _about(pq.read_schema(pa.BufferReader(content)).metadata)["format"]
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        return
    if number > FORMAT:
        raise ClipFormatError(
            f"{CLIPS} has format {number}, of a newer storyframes, and this one writes {FORMAT}: it was left as it is; "
            "update storyframes here, or delete the file"
        )


def _check_rows(table: pa.Table) -> None:
    """Check that the rows have sessions, and frames that a recording can have."""
    if "session_id" in table.schema.names:
        sessions = pc.unique(table["session_id"])
        names = sessions.dictionary if pa.types.is_dictionary(sessions.type) else sessions
        for name in names.to_pylist():
            if not isinstance(name, str) or not ID_PATTERN.fullmatch(name):
                raise InvalidError(f"{shown(name)} is no session")
    for name in _FRAMES:
        if name not in table.schema.names:
            continue
        if not pa.types.is_integer(table[name].type) and table[name].null_count < len(table):
            raise InvalidError(f"{name} is {table[name].type}, and is to be whole numbers")
        limits = pc.min_max(table[name]).as_py()
        if (limits["min"] or 0) < 0 or (limits["max"] or 0) > _MOST_FRAMES:
            raise InvalidError(f"{name} is {limits['min']} to {limits['max']}; frames are 0 to {_MOST_FRAMES}")


def _about(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """The metadata of the file."""
    stored = (metadata or {}).get(_KEY)
    if stored is None:
        return {"format": 1, "schemes": {"empathy": "ordinal"}}
    about = parse_json(stored)
    if not isinstance(about, dict) or not is_whole(about.get("format"), 1):
        raise InvalidError(f"{shown(about)} does not say of which format it is")
    if about["format"] > FORMAT:
        return about
    track = about.get("track", "")
    if not isinstance(track, str) or (track and not ID_PATTERN.fullmatch(track)):
        raise InvalidError(f"{shown(track)} is no track")
    for name, is_right, rule in _PARTS:
        if not _all(about.get(name, {}), is_right):
            raise InvalidError(f"{name} {shown(about[name])} are to be {rule}")
    window_s = about.get("window_s")
    if window_s is not None and not (isinstance(window_s, int | float) and 0 < window_s < math.inf):
        raise InvalidError(f"window_s {shown(window_s)} are to be seconds")
    return about


def _all(values: Any, is_right: Callable[[Any], bool]) -> bool:
    """Whether these are values by name that all are right."""
    return isinstance(values, dict) and all(map(is_right, values.values()))


def _is_range(limits: Any) -> bool:
    """Whether it is a lowest and a highest value."""
    return (
        isinstance(limits, list)
        and len(limits) == 2
        and all(isinstance(limit, int | float) for limit in limits)
        and -math.inf < limits[0] < limits[1] < math.inf
    )


def _is_error(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and 0 <= seconds < math.inf


def _is_clock(clock: Any) -> bool:
    """Whether it is increasing moments of a device, and as many of the session."""
    if not isinstance(clock, list) or len(clock) != 2 or not all(isinstance(moments, list) for moments in clock):
        return False
    if not all(isinstance(moment, int | float) and abs(moment) < math.inf for moments in clock for moment in moments):
        return False
    is_increasing = all(before < after for moments in clock for before, after in itertools.pairwise(moments))
    return is_increasing and len(clock[0]) == len(clock[1]) >= 1


_PARTS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("schemes", lambda text: isinstance(text, str), "texts by name"),
    ("raters", lambda text: isinstance(text, str), "texts by name"),
    ("clocks", lambda tracks: _all(tracks, _is_clock), "moments by session and track"),
    ("clock_errors", lambda tracks: _all(tracks, _is_error), "seconds by session and track"),
    ("ranges", _is_range, "the lowest and highest values of labels"),
)
"""The parts of the metadata: their names, what each of their values has to be, and how a message says it."""
