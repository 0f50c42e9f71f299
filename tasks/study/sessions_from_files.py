"""Writing a table of sessions from the files in a folder: ids and groups of files follow from their names.

Nothing is silently guessed: a file that belongs to no session or to two is listed, and a name that matches a pattern in
two ways is refused.
"""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePosixPath

from storyframes.store.storage.files import write_atomically
from tasks.study.csv_text import csv_bytes
from tasks.study.labels import listed
from tasks.study.load import read_study
from tasks.study.problems import shortened

_FIELDS = {"session": r"[A-Za-z0-9._-]", "participant": r"[A-Za-z0-9._-]", "date": r"[0-9-]"}
_PLACEHOLDER = re.compile(r"\{(\w+)\}|(\*)")
_NAMED = 5  # files that a message lists


class FilesError(Exception):
    """These files give no table; the message names them and says what to do."""


@dataclass(frozen=True)
class Made:
    """What was written.

    Attributes:
        sessions, participants: their numbers.
        files: by column, the number of sessions that have such a file.
        remarks: what was left out, or should be checked.
    """

    sessions: int
    participants: int
    files: Mapping[str, int]
    remarks: tuple[str, ...]


def make_sessions(root: Path, globs: Mapping[str, str], names: str | None = None) -> Made:
    """Write ``sessions.csv`` into ``root`` from the files there.

    Args:
        root: the study's folder, which contains the files.
        globs: by column (video, and perhaps audio, transcript, openface), which files, as ``videos/*.mp4``.
        names: the pattern of a video's name without its suffix: ``{participant}_{session}_{date}``, ``*`` for any text.

    Raises:
        FilesError: the folder has a table already, a glob finds nothing, or a name gives no id, or two.
        OSError: the folder cannot be read, or the table cannot be written.
    """
    for name in ("sessions.csv", "sessions.parquet"):
        if (root / name).exists():
            raise FilesError(f"{root / name} is there already: this makes a new table and changes none")
    remarks: list[str] = []
    files = {column: _find(root, column, glob, remarks) for column, glob in globs.items()}
    stems = [_stem(path) for path in files["video"]]
    is_deep = len(set(stems)) < len(stems) or "/" in (names or "")
    keys = _keys(files["video"], globs["video"], is_deep)
    rows = [
        _identity(key, names, remarks) | {"video": str(path)} for key, path in zip(keys, files["video"], strict=True)
    ]
    counts: dict[str, int] = {"video": len(rows)}
    for column in list(globs)[1:]:
        named = _keys(files[column], globs[column], is_deep)
        counts[column] = _add(rows, keys, column, dict(zip(files[column], named, strict=True)), remarks)
    if names is None or "{participant}" not in names:
        remarks.append(
            "the names have no participant: every session counts as a participant of its own; where one person is in "
            "several, say it in the column participant_id, or --names '{participant}_…'"
        )
    content = _table(rows)
    _check(content, rows)
    write_atomically(root / "sessions.csv", content)
    return Made(len(rows), len({row["participant_id"] for row in rows}), counts, tuple(dict.fromkeys(remarks)))


def _find(root: Path, column: str, glob: str, remarks: list[str]) -> list[PurePosixPath]:
    """The files of a glob, by name."""
    if PurePosixPath(glob).is_absolute() or ".." in PurePosixPath(glob).parts or not glob.strip():
        raise FilesError(
            f"--{_option(column)} {glob}: is looked for in {root}: write it without the folder, as 'videos/*'"
        )
    try:
        files = sorted(path.relative_to(root).as_posix() for path in root.glob(glob) if path.is_file())
    except ValueError as error:
        raise FilesError(f"--{_option(column)} {glob}: {error}") from None
    shown = [path for path in files if not any(part.startswith(".") for part in path.split("/"))]
    if len(shown) < len(files):
        remarks.append(f"{column}: {len(files) - len(shown)} hidden files, left out")
    if not shown:
        raise FilesError(f"--{_option(column)} {glob}: finds no file in {root}")
    return [PurePosixPath(path) for path in shown]


def _option(column: str) -> str:
    return {"video": "videos", "transcript": "transcripts"}.get(column, column)


def _keys(paths: Sequence[PurePosixPath], glob: str, is_deep: bool) -> list[str]:
    """Each file's name; where names are not unique, its path below the fixed part of the glob."""
    if not is_deep:
        return [_stem(path) for path in paths]
    parts = PurePosixPath(glob).parts
    fixed = next((index for index, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts) - 1)
    return ["/".join([*path.parts[fixed:-1], _stem(path)]) for path in paths]


def _stem(path: PurePosixPath) -> str:
    """The name without its suffix; of a compressed table without both suffixes."""
    return PurePosixPath(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def _identity(key: str, names: str | None, remarks: list[str]) -> dict[str, str]:
    """The ids and the date in a name."""
    fields = _match(names, key) if names else {}
    session_id = fields.get("session") or _as_id(key)
    if not session_id:
        raise FilesError(f"the name {key!r} has nothing that an id may have: rename the file, or say --names")
    if "session" not in fields and session_id != key:
        remarks.append(f"named {session_id}, because {key!r} is no id")
    row = {"session_id": session_id, "participant_id": fields.get("participant") or session_id}
    if "date" in fields:
        try:
            row["recorded_at"] = date.fromisoformat(fields["date"]).isoformat()
        except ValueError:
            raise FilesError(f"{key!r}: {fields['date']} is no date as 2024-05-01 or 20240501") from None
    return row


def _as_id(key: str) -> str:
    plain = unicodedata.normalize("NFKD", key.replace("ß", "ss")).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("._-")[:64]


def _match(names: str, key: str) -> dict[str, str]:
    """The fields of a name by the pattern; a name that matches in two ways is refused."""
    against = key if "/" in names else PurePosixPath(key).name
    ways = []
    for how_many in ("+?", "+"):  # with the shortest and the longest fields: two ways differ in these
        pattern, last = "", 0
        for placeholder in _PLACEHOLDER.finditer(names):
            pattern += re.escape(names[last : placeholder.start()])
            last = placeholder.end()
            field = placeholder.group(1)
            if field and field not in _FIELDS:
                raise FilesError(f"--names {names}: there are {', '.join(f'{{{name}}}' for name in _FIELDS)} and *")
            pattern += f"(?P<{field}>{_FIELDS[field]}{how_many})" if field else "." + how_many.replace("+", "*")
        try:
            match = re.fullmatch(pattern + re.escape(names[last:]), against)
        except re.error:
            raise FilesError(f"--names {names}: has a field twice") from None
        if match is None:
            raise FilesError(f"--names {names}: does not fit {against!r}")
        ways.append(match.groupdict())
    if ways[0] != ways[1]:
        raise FilesError(f"--names {names}: fits {against!r} in more than one way: say more of the name")
    return ways[0]


def _add(
    rows: Sequence[dict[str, str]],
    keys: Sequence[str],
    column: str,
    files: Mapping[PurePosixPath, str],
    remarks: list[str],
) -> int:
    """Give each session its file of this column, and return how many have one."""
    owners: dict[int, list[PurePosixPath]] = {}
    unused = []
    for path, key in files.items():
        fitting = [
            index
            for index, session_key in enumerate(keys)
            if key == session_key or re.match(rf"{re.escape(session_key)}[^A-Za-z0-9]", key)
        ]
        if not fitting:
            unused.append(str(path))
            continue
        owners.setdefault(max(fitting, key=lambda index: len(keys[index])), []).append(path)
    several = {index: paths for index, paths in owners.items() if len(paths) > 1}
    if several:
        index, paths = next(iter(several.items()))
        shown = ", ".join(map(str, paths[:_NAMED]))
        raise FilesError(f"{rows[index]['video']} has {len(paths)} files for {column}: {shown}: let the glob find one")
    for index, paths in owners.items():
        rows[index][column] = str(paths[0])
    if unused:
        remarks.append(f"{column}: of no video's name, left out: {listed(unused, _NAMED)}")
    if len(owners) < len(rows):
        remarks.append(f"{column}: {len(rows) - len(owners)} sessions have none")
    return len(owners)


def _table(rows: Sequence[Mapping[str, str]]) -> bytes:
    order = ("session_id", "participant_id", "video", "audio", "transcript", "openface", "recorded_at")
    columns = [name for name in order if any(name in row for row in rows)]
    twice = [name for name, count in Counter(row["session_id"] for row in rows).items() if count > 1]
    if twice:
        same = [row["video"] for row in rows if row["session_id"] == twice[0]]
        raise FilesError(
            f"{' and '.join(same[:_NAMED])} would all be the session {twice[0]}: without {{session}} a "
            "session has its whole name"
        )
    return csv_bytes(columns, ([row.get(name, "") for name in columns] for row in rows))


def _check(content: bytes, rows: Sequence[Mapping[str, str]]) -> None:
    """Refuse a table that would not be valid, or whose file names would be read as other names."""
    with tempfile.TemporaryDirectory(prefix="storyframes-init-") as folder:
        (Path(folder) / "sessions.csv").write_bytes(content)
        reading = read_study(Path(folder))
    if reading.problems:
        shown = "\n".join(f"  {problem}" for problem in shortened(reading.problems))
        raise FilesError(f"the table would not be valid; nothing is written:\n{shown}")
    for row in rows:
        session = reading.study.sessions[row["session_id"]]
        for column in ("video", "audio", "transcript", "openface"):
            name = row.get(column)
            if name and getattr(session, column) != name:  # it ends with a tab or the like, which a table does not keep
                raise FilesError(f"the name {name!r} is another one in a table: rename the file")
