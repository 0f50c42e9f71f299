"""A trace of somebody: what it is, its SHA-256, and how it is removed."""

from __future__ import annotations

import csv
import hashlib
import io
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storyframes.spec import feature_and_track
from storyframes.store.storage.files import sha256_file, write_atomically
from tasks.forgetting.scope import Scope


@dataclass(frozen=True)
class Trace:
    """Something that was made of somebody.

    Attributes:
        what: what it is, for the receipt: without a name.
        where: which it is, for the owner's eyes alone.
        bytes: its size.
        sha256: reads it and gives its digest; empty of rows of a table.
        remove: removes it; removing what is gone already does nothing.
    """

    what: str
    where: str
    bytes: int
    sha256: Callable[[], str]
    remove: Callable[[], None]

    @classmethod
    def of_file(cls, path: Path, what: str) -> Trace:
        """The trace that is a whole file."""
        return cls(
            what, str(path), path.stat().st_size, lambda: sha256_file(path), lambda: path.unlink(missing_ok=True)
        )


@dataclass(frozen=True)
class Asked:
    """What a door of a plug-in is asked: to find what the plug-in made of these sessions.

    Attributes:
        study: the study's folder.
        scope: what is to be forgotten.
        folders: further folders to look through, of runs, tables and reports.
    """

    study: Path
    scope: Scope
    folders: Sequence[Path]

    def table_traces(self, names: Collection[str], what: str) -> Iterator[Trace]:
        """The rows about the forgotten in tables, CSV or Parquet, anywhere below ``self.folders``.

        Args:
            names: of the files; only folders that have all of them are looked at, and never the study's own.
            what: the tables are, for the receipt.
        """
        for folder in self.folders:
            for path in sorted(folder.rglob("*")):
                if path.name not in names or not path.is_file() or path.is_symlink():
                    continue
                is_study = path.parent.resolve() == self.study.resolve()
                if not is_study and all((path.parent / name).is_file() for name in names):
                    count, content = without_rows(path, self.scope)
                    if count:
                        yield _row_trace(path, count, content, what)


def remove_folder(path: Path) -> None:
    """Remove a folder; one that is gone already is no error, one that cannot be removed is.

    Raises:
        OSError: it cannot be removed.
    """
    try:
        if path.exists():
            shutil.rmtree(path)
    except OSError as error:  # which names a file without the folder that it is in
        raise OSError(error.errno, error.strerror, str(path)) from None


def _row_trace(path: Path, count: int, content: bytes, what: str) -> Trace:
    def remove() -> None:
        mode = path.stat().st_mode & 0o777
        write_atomically(path, content)
        path.chmod(mode)

    return Trace(f"{count} rows of {what}", str(path), path.stat().st_size, lambda: sha256_file(path), remove)


def without_rows(path: Path, scope: Scope) -> tuple[int, bytes]:
    """How many rows of a table are about the forgotten, and the table without them."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        kept = pc.invert(rows_about(table, scope))
        left = table.filter(kept)
        written = io.BytesIO()
        if left.num_rows < table.num_rows:
            pq.write_table(left, written)
        return table.num_rows - left.num_rows, written.getvalue()
    with path.open(newline="", encoding="utf-8-sig") as file:
        head, *rows = list(csv.reader(file)) or [[]]
    left_rows = [row for row in rows if not _is_about(dict(zip(head, row, strict=False)), scope)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *left_rows])
    return len(rows) - len(left_rows), text.getvalue().encode()


def _is_about(row: Mapping[str, str], scope: Scope) -> bool:
    """Whether a row names somebody forgotten, also by the track, which may be in place of the person's name."""
    if any(row.get(name) in ids for name, ids in _columns(scope).items()):
        return True
    session, person, feature = (row.get(name, "") for name in ("session_id", "person", "feature"))
    return scope.has(session, person) or (feature != "" and scope.has(session, feature_and_track(feature)[1]))


def rows_about(table: pa.Table, scope: Scope) -> pa.Array:
    """Which rows of a table name a forgotten session or person."""
    about = pa.array([False] * table.num_rows, pa.bool_())
    for name, ids in _columns(scope).items():
        if name in table.schema.names and ids:
            column = table[name].cast(pa.string()).combine_chunks()
            about = pc.or_(about, pc.fill_null(pc.is_in(column, pa.array(sorted(ids), pa.string())), False))
    return about


def _columns(scope: Scope) -> dict[str, frozenset[str]]:
    return {
        "session_id": scope.ids.sessions,
        "participant_id": scope.ids.people,
        "person_id": scope.ids.people,
        "person": scope.ids.people,
    }


def digest_of(content: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(content).hexdigest()
