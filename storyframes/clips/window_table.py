"""What was found of each session when the clip index was last made, so that an index of many sessions reads only what
changed since.

A row is a session: when it was recorded, and its windows before anything labels them. It is compared, never believed:
``seen`` stands for everything that the row was made of. Who deletes the table loses time and nothing else.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from storyframes.clips.windows import WINDOW_COLUMNS
from storyframes.store.catalogue import is_proved, parse_table, replace_table
from storyframes.store.layout import WINDOWS, StoreError
from storyframes.store.storage import Storage
from storyframes.store.validation import InvalidError, parse_json

if TYPE_CHECKING:
    import pyarrow as pa

_SESSIONS_OF_A_GROUP = 2_048  # of the file: a group is the least that is read of it


@cache
def window_type() -> pa.DataType:
    """A window: :data:`storyframes.clips.windows.WINDOW_COLUMNS` but its session's id."""
    import pyarrow as pa

    types = {name: pa.string() if kind == "str" else kind.lower() for name, kind in WINDOW_COLUMNS.items()}
    return pa.struct([(name, types[name]) for name in types if name != "session_id"])


@cache
def schema() -> pa.Schema:
    """The columns; times are in seconds of the session."""
    import pyarrow as pa

    return pa.schema(
        [
            ("session_id", pa.string()),
            ("seen", pa.binary(16)),  # the same only while all is that the row was made of
            ("frames", pa.int64()),  # of the track that is cut; null where their times are not known, as those below
            ("first_s", pa.float64()),  # when the first frame is; null where there is none
            ("last_s", pa.float64()),
            ("rate", pa.float64()),  # frames per second; null of fewer than two frames
            ("sound_first_s", pa.float64()),  # when the first row of sound is; null where there is none
            ("sound_last_s", pa.float64()),
            ("recorded", pa.string()),  # JSON: {track: [from, to]}, where there are other tracks
            ("windows", pa.list_(window_type())),
        ]
    )


def read(storage: Storage) -> pa.Table:
    """What is known; nothing where that is damaged, or of another make.

    Raises:
        StorageError: the store cannot be read.
    """
    content = storage.read(WINDOWS)
    try:
        if content is not None and is_proved(storage, WINDOWS, content):
            table = parse_table(content, WINDOWS)
            if table.schema.equals(schema()) and all(map(_is_recorded, table["recorded"].drop_null().to_pylist())):
                return table
    except StoreError:
        pass  # it is written again
    return schema().empty_table()


def _is_recorded(text: str) -> bool:
    """Whether it says of tracks from when to when they are."""
    try:
        tracks = parse_json(text)
    except InvalidError:
        return False
    return isinstance(tracks, dict) and all(
        isinstance(span, list) and len(span) == 2 and all(isinstance(end, int | float) for end in span)
        for span in tracks.values()
    )


def write(storage: Storage, table: pa.Table) -> None:
    """Make ``table`` what is known.

    Raises:
        StorageError: the store cannot be written.
    """
    replace_table(storage, WINDOWS, lambda: table, _SESSIONS_OF_A_GROUP)
