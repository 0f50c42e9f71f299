"""Where everything lies in a feature store, and the Zarr groups that hold it together."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from storyframes.durable import flush_folder, write_once
from storyframes.records import ATTEMPT, CURRENT, STORE_FORMAT

CATALOGUE = "catalogue.parquet"
CLIPS = "clips.parquet"
CHECKSUMS = "checksums.json"
INPUTS = "inputs.json"
ZARR_JSON = "zarr.json"

ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
VERSION_PATTERN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


class StoreError(Exception):
    """The feature store cannot be used as asked; the message says what and why."""


def _group(attributes: dict[str, object]) -> bytes:
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}, indent=2).encode() + b"\n"


ROOT_GROUP = _group({"storyframes": {"format": STORE_FORMAT}})
INNER_GROUP = _group({})


def new_version() -> str:
    """A name for one attempt: when it began, and enough chance that two attempts never share it."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def feature_folder(root: Path, session_id: str, feature: str) -> Path:
    """The folder of a feature's versions.

    Raises:
        StoreError: an id could leave the store.
    """
    for name in (session_id, feature):
        if not ID_PATTERN.fullmatch(name):
            raise StoreError(
                f"{name!r} is no id: letters, digits, '.', '_' and '-', at most 64, first a letter or digit"
            )
    return root / session_id / feature


def current_path(root: Path, session_id: str, feature: str) -> Path:
    return feature_folder(root, session_id, feature) / CURRENT


def attempt_path(root: Path, session_id: str, feature: str) -> Path:
    return feature_folder(root, session_id, feature) / ATTEMPT


def create_store(root: Path) -> None:
    """Make ``root`` a feature store unless it is one already.

    Raises:
        StoreError: it is a file, or a folder that holds something else.
    """
    if is_store(root):
        return
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise StoreError(f"{root} is not a feature store and not empty: give a new or an empty folder")
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_once(root / ZARR_JSON, ROOT_GROUP)


def is_store(root: Path) -> bool:
    """Whether ``root`` is a feature store of a format that this version reads.

    Raises:
        StoreError: it is one of another format.
    """
    try:
        attributes = json.loads((root / ZARR_JSON).read_bytes())["attributes"]
        number = attributes["storyframes"]["format"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if number != STORE_FORMAT:
        raise StoreError(f"{root} has format {number}; this version of storyframes reads format {STORE_FORMAT}")
    return True


def open_root(path: str | os.PathLike[str]) -> Path:
    """The store at ``path`` as a Path.

    Raises:
        StoreError: there is no feature store.
    """
    root = Path(path)
    if not is_store(root):
        raise StoreError(f"{root} is not a feature store (no {ZARR_JSON} of one); 'storyframes extract' makes one")
    return root


def make_feature_folder(root: Path, session_id: str, feature: str) -> Path:
    """The feature's folder, with the Zarr groups above it, made where absent."""
    folder = feature_folder(root, session_id, feature)
    for group in (root / session_id, folder):
        if not group.is_dir():
            group.mkdir(exist_ok=True, mode=0o700)
            flush_folder(group.parent)
        write_once(group / ZARR_JSON, INNER_GROUP)
    return folder


def feature_folders(root: Path) -> Iterator[tuple[str, str, Path]]:
    """Every (session_id, feature, folder) that the store has, in the order of their names."""
    for session in _folders(root):
        for feature in _folders(session):
            yield session.name, feature.name, feature


def version_folders(folder: Path) -> list[Path]:
    """The version folders in a feature's folder, oldest first."""
    return [version for version in _folders(folder) if VERSION_PATTERN.fullmatch(version.name)]


def _folders(parent: Path) -> list[Path]:
    with os.scandir(parent) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return [parent / name for name in names if ID_PATTERN.fullmatch(name)]
