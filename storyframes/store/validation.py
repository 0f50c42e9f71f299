"""Ids, paths, JSON, shapes and attributes of a store, checked before anything uses them.

A store may come from strangers. Every reader checks what it reads here, so that no name leads out of the store, and
nothing is allocated that the files could not hold. The rules are those by which stores are written.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from storyframes.spec import MAIN, TRACK_SIGN, feature_and_track, of_track

ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
VERSION_PATTERN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}", re.ASCII)
ARRAY_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FILE_PATTERN = re.compile(
    rf"({ARRAY_PATTERN.pattern}/)?zarr\.json|{ARRAY_PATTERN.pattern}/c(/\d{{1,9}}){{1,8}}", re.ASCII
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
MOST_JSON_BYTES = 2**28
"""The largest JSON file of a store: ``inputs.json`` of half a million sessions has this size."""
_MOST_LEVELS = 64  # of JSON; records have 5
_MOST_ROW_BYTES = 2**31
_MOST_ROWS = 2**40
_MOST_ZSTD_RATIO = 2**15  # a block of 128 KiB takes at least 4 bytes
_INDEX_ENTRY_BYTES = 16
_ITEM_BYTES = {f"{kind}int{8 * size}": size for kind in ("", "u") for size in (1, 2, 4, 8)} | {
    f"float{8 * size}": size for size in (2, 4, 8)
}
_TEXTS = ("feature", "session_id", "track", "about", "mask", "face", "feature_set")
_LISTS_OF_TEXTS = ("stamps", "speakers", "story_ids")
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


class InvalidError(ValueError):
    """A value in a store is not one that is written there; the message is one line with the value and the rule."""


def shown(value: Any) -> str:
    """A value for a message: in one line, and short."""
    return _short.repr(value)


def parse_json(data: bytes | str) -> Any:
    """The content of JSON.

    Raises:
        InvalidError: it is damaged, larger than 256 MiB, or deeper than 64 levels.
    """
    if len(data) > MOST_JSON_BYTES:
        raise InvalidError(f"{len(data)} bytes of JSON, and at most {MOST_JSON_BYTES} are read")
    try:
        content = json.loads(data)
    except RecursionError:
        raise InvalidError(f"JSON of more than {_MOST_LEVELS} levels") from None
    except ValueError:
        raise InvalidError("damaged JSON") from None
    text = data if isinstance(data, bytes) else data.encode(errors="replace")
    if text.count(b"[") + text.count(b"{") > _MOST_LEVELS:  # else it cannot be that deep
        _check_levels(content)
    return content


def _check_levels(content: Any) -> None:
    nodes = [content]
    for _ in range(_MOST_LEVELS):
        inner = [node.values() if isinstance(node, dict) else node for node in nodes if isinstance(node, dict | list)]
        nodes = [child for children in inner for child in children]
        if not nodes:
            return
    if any(isinstance(node, dict | list) for node in nodes):
        raise InvalidError(f"JSON of more than {_MOST_LEVELS} levels")


def is_whole(value: Any, least: int = 0) -> bool:
    """Whether it is an integer of at least ``least`` that fits 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def check_names(session_id: Any, feature: Any) -> None:
    """Check the names of a session (or ``stories``) and of a feature, which may have a track.

    Raises:
        InvalidError: one is not a valid name.
    """
    if not isinstance(session_id, str) or not isinstance(feature, str):
        raise InvalidError(f"{shown(session_id)} and {shown(feature)} are to be the names of a session and a feature")
    kind, track = feature_and_track(feature)
    if TRACK_SIGN in feature and track.lower() == MAIN:
        raise InvalidError(f"{shown(feature)}: the features of the track {MAIN!r} are called without it, {shown(kind)}")
    for name in (session_id, kind, track):
        if not ID_PATTERN.fullmatch(name):
            raise InvalidError(
                f"{shown(name)} is no id: letters, digits, '.', '_' and '-', at most 64, first a letter or digit"
            )


def are_names(folder: str) -> bool:
    """Whether ``<session>/<feature>`` are valid names; other folders are not read."""
    session_id, _, feature = folder.partition("/")
    try:
        check_names(session_id, feature)
    except InvalidError:
        return False
    return True


def check_version(version: Any) -> str:
    """The name of a version's folder, checked.

    Raises:
        InvalidError: it is not a valid name.
    """
    if not isinstance(version, str) or not VERSION_PATTERN.fullmatch(version):
        raise InvalidError(f"{shown(version)} is no version: it is a time and 8 digits, 20260131T120000Z-0123abcd")
    return version


def check_file(name: Any, size: Any, sha256: Any, mtime_ns: Any) -> None:
    """Check the record of a file of a version.

    Raises:
        InvalidError: no version has such a file, for instance because its name leads out of the version.
    """
    if not isinstance(name, str) or not _FILE_PATTERN.fullmatch(name):
        raise InvalidError(f"{shown(name)} is no file of a version: zarr.json, <array>/zarr.json or <array>/c/0…")
    if not is_whole(size) or not is_whole(mtime_ns, -(2**63)):
        raise InvalidError(f"{name}: {shown(size)} bytes at {shown(mtime_ns)} ns are to be whole numbers")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise InvalidError(f"{name}: {shown(sha256)} is no SHA-256, 64 hexadecimal digits")


def check_array(name: Any, shape: Any, dtype: Any, chunk_rows: Any) -> None:
    """Check the name, shape, dtype and chunks of an array.

    Raises:
        InvalidError: no array has them.
    """
    if not isinstance(name, str) or not ARRAY_PATTERN.fullmatch(name):
        raise InvalidError(f"{shown(name)} is no array: lower-case letters, digits and '_', at most 64, a letter first")
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        raise InvalidError(f"{name}: dtype {shown(dtype)} is not stored; there are {', '.join(_ITEM_BYTES)}")
    is_shape = isinstance(shape, list | tuple) and 1 <= len(shape) <= 8 and is_whole(shape[0])
    if not is_shape or not all(is_whole(size, 1) for size in shape[1:]) or not is_whole(chunk_rows, 1):
        raise InvalidError(
            f"{name}: shape {shown(shape)} in chunks of {shown(chunk_rows)} rows: whole numbers, rows first"
        )
    if shape[0] > _MOST_ROWS or _row_bytes(shape, dtype) > _MOST_ROW_BYTES:
        raise InvalidError(f"{name}: shape {shown(shape)}: a row has at most {_MOST_ROW_BYTES} bytes")


def check_fits(name: str, shape: Sequence[int], dtype: str, chunk_rows: int, file_bytes: int) -> None:
    """Check that an array fits into a file of this size, however well it is compressed.

    Args:
        shape: checked by :func:`check_array`, as ``dtype`` and ``chunk_rows``.
        file_bytes: size of its shard.

    Raises:
        InvalidError: it does not fit.
    """
    chunks = -(-shape[0] // chunk_rows)
    stored = chunks * chunk_rows * _row_bytes(shape, dtype)
    if chunks * _INDEX_ENTRY_BYTES > file_bytes or stored > file_bytes * _MOST_ZSTD_RATIO:
        raise InvalidError(
            f"{name}: {'x'.join(map(str, shape))} {dtype} are {stored} bytes in {chunks} chunks, more than a file of "
            f"{file_bytes} bytes can hold"
        )


def _row_bytes(shape: Sequence[int], dtype: str) -> int:
    size = _ITEM_BYTES[dtype]
    for length in shape[1:]:
        size *= length
    return size


def shard_name(shape: Sequence[int]) -> str:
    """The file of an array's rows, below its folder."""
    return "/".join(["c", *("0" for _ in shape)])


def check_array_metadata(
    document: Any, name: str, shape: Sequence[int], dtype: str, chunk_rows: int
) -> Mapping[str, Any]:
    """The ``zarr.json`` of an array, checked against what was published.

    Raises:
        InvalidError: it has another shape or dtype, or its chunks are larger than the array.
    """
    if not isinstance(document, dict) or document.get("node_type", "array") != "array":
        raise InvalidError(f"{name} is no Zarr array")
    stored: Any = document.get("shape")
    stored_dtype = document.get("data_type")
    if (stored, stored_dtype) != (list(shape), dtype):
        is_valid = isinstance(stored, list) and isinstance(stored_dtype, str) and stored_dtype in _ITEM_BYTES
        what = f"{shown(tuple(stored))} {stored_dtype}" if is_valid else f"{shown(stored)} {shown(stored_dtype)}"
        raise InvalidError(f"{name} is {what}, but was published as {tuple(shape)} {dtype}")
    most = [max(-(-shape[0] // chunk_rows), 1) * chunk_rows, *shape[1:]]
    nodes: list[Any] = [document.get("chunk_grid"), document.get("codecs")]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            chunk = node.get("chunk_shape", most)
            is_chunk = isinstance(chunk, list) and len(chunk) == len(most) and all(is_whole(size, 1) for size in chunk)
            if not is_chunk or any(size > limit for size, limit in zip(chunk, most, strict=True)):
                raise InvalidError(f"{name} has chunks of {shown(chunk)}; the largest are {most}")
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node
    _attributes(document)
    names = document.get("dimension_names")
    if names is not None and not _are_texts(names):
        raise InvalidError(f"{name}: dimension_names {shown(names)} are to be texts")
    return document


def check_group_metadata(document: Any, session_id: str, feature: str) -> dict[str, Any]:
    """The attributes in the ``zarr.json`` of a version of this feature of this session, checked.

    Raises:
        InvalidError: it is another's, or an attribute is not of the type that is written.
    """
    if not isinstance(document, dict) or document.get("node_type", "group") != "group":
        raise InvalidError("it is no Zarr group")
    attributes = _attributes(document)
    for name in _TEXTS:
        if not isinstance(attributes.get(name, ""), str):
            raise InvalidError(f"the attribute {name} is {shown(attributes[name])}, and is to be a text")
    for name in _LISTS_OF_TEXTS:
        if not _are_texts(attributes.get(name, [])):
            raise InvalidError(f"the attribute {name} is {shown(attributes[name])}, and is to be a list of texts")
    for name in ("provenance", "groups"):
        if not isinstance(attributes.get(name, {}), dict):
            raise InvalidError(f"the attribute {name} is {shown(attributes[name])}, and is to be an object")
    kind, track = feature_and_track(feature)
    if "feature" in attributes:
        track = attributes.get("track", MAIN)
    whose = attributes.get("session_id", session_id), of_track(attributes.get("feature", kind), track)
    if whose != (session_id, feature):
        raise InvalidError(f"it is of {shown('/'.join(whose))}: its folder was copied or renamed")
    return attributes


def _attributes(document: Mapping[str, Any]) -> dict[str, Any]:
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        raise InvalidError(f"its attributes are {shown(attributes)}, and are to be an object")
    return attributes


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
