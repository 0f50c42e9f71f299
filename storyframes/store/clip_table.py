"""What a clip index says of itself, in the metadata of its Parquet file: its format, what its label columns are, and
how the clocks of tracks run, so that who reads clips needs no study.

Format 1 said nothing. Since format 2 windows without a rating are rows with missing values, schemes of labels have
columns, and ``target``, ``split_group``, ``frames_expected`` and ``longest_gap_s`` are there. Format 3 is written only
where the windows are of another track's frames, because a reader of format 2 would take them for the session's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from storyframes.clocks import StoredClocks
from storyframes.store.layout import CLIPS, StoreError

FORMAT = 3
_KEY = b"storyframes"


class ClipFormatError(StoreError):
    """The store's clip index is of a newer format."""


def to_table(index: pd.DataFrame) -> pa.Table:
    """The index as it is stored, with its ``attrs``.

    ``schemes`` are what its label columns are; ``raters`` whose ids stand in the names of labels and curves, by these
    names, where any do; ``clocks`` are those of the tracks (:data:`storyframes.clocks.StoredClocks`), where there are
    any; ``track`` is whose frames the windows are of, where they are not the sessions' own.
    """
    about = {"format": 2, "schemes": index.attrs.get("schemes", {})}
    about |= {name: index.attrs[name] for name in ("raters", "clocks") if index.attrs.get(name)}
    if track := index.attrs.get("track"):
        about |= {"format": FORMAT, "track": track}
    table = pa.Table.from_pandas(index, preserve_index=False)
    return table.replace_schema_metadata({_KEY: json.dumps(about, sort_keys=True)})


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The stored index, with ``attrs["schemes"]``, and ``raters``, ``clocks`` and ``track`` where there are such.

    Raises:
        ClipFormatError: newer code wrote it.
    """
    about = _about(table.schema.metadata)
    number = int(about["format"])
    if number > FORMAT:
        raise ClipFormatError(
            f"{CLIPS} has format {number}, of a newer storyframes; this one reads up to {FORMAT}: update it"
        )
    index = table.replace_schema_metadata(None).to_pandas()
    index.attrs["schemes"] = dict(about.get("schemes", {}))
    index.attrs |= {name: about[name] for name in ("raters", "clocks", "track") if about.get(name)}
    return index


def clocks_of(content: bytes) -> StoredClocks:
    """How the clocks of tracks run, of the bytes of an index, without reading its rows.

    Raises:
        StoreError: it is damaged.
    """
    try:
        about = _about(pq.read_schema(pa.BufferReader(content)).metadata)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"{CLIPS} is damaged ({type(error).__name__}); 'storyframes index' writes it again") from None
    return dict(about.get("clocks", {}))


def check_replaceable(content: bytes) -> None:
    """Refuse to write over an index that newer code wrote; a damaged one may be.

    Raises:
        ClipFormatError: newer code wrote it.
    """
    try:
        number = int(_about(pq.read_schema(pa.BufferReader(content)).metadata)["format"])
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        return
    if number > FORMAT:
        raise ClipFormatError(
            f"{CLIPS} has format {number}, of a newer storyframes, and this one writes {FORMAT}: it was left as it is; "
            "update storyframes here, or delete the file"
        )


def _about(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    stored = (metadata or {}).get(_KEY)
    return {"format": 1, "schemes": {"empathy": "ordinal"}} if stored is None else dict(json.loads(stored))
