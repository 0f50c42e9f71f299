"""Writing the first tables of a study from the files in a folder: ids and groups of files follow from their names.

Nothing is silently guessed: a file that belongs to no session or to two is listed, and a name that matches a pattern in
two ways is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from storyframes.spec import MAIN
from storyframes.store.storage.files import sha256_file, write_atomically
from storyframes.store.storage.scratch import scratch_folder
from tasks.media.container import SOUND_SUFFIXES, VIDEO_SUFFIXES, RecordingError
from tasks.media.video_header import Streams, read_streams
from tasks.study.changed_tables import ChangedTables
from tasks.study.csv_text import csv_bytes
from tasks.study.first_tables.first_settings import first_settings
from tasks.study.first_tables.recording_names import FilesError, Named, continues, proposed, read_names
from tasks.study.first_tables.recording_parts import leave_out_singles, name_of_parts, parts_of, with_parts_joined
from tasks.study.forgotten_ids import NAME
from tasks.study.labels import listed
from tasks.study.load import SETTINGS_FILE, read_study
from tasks.study.problems import shortened

_FILES = ("video", "audio", "transcript", "openface")
_BY_SUFFIX = {
    "video": VIDEO_SUFFIXES,
    "audio": SOUND_SUFFIXES,
    "transcript": ".vtt .srt .json".split(),
}
_OF_OURS = ("zarr.json", "index.html")  # of feature stores and reports, in whose folders no recordings lie
RECORDING_SUFFIXES = frozenset((*_BY_SUFFIX["video"], *_BY_SUFFIX["audio"]))
"""How the names of recordings end, in small letters."""
_ENDINGS = tuple(RECORDING_SUFFIXES)
_NAMED = 5  # files that a message lists


@dataclass(frozen=True)
class Made:
    """What was written.

    Attributes:
        sessions, participants: their numbers.
        remarks: what was left out, or should be checked.
        tracks: the number of other cameras and microphones, in the table of tracks.
        has_settings: whether a configuration was written as well.
        set_aside: the recordings that are in no table, each with the reason and the next step.
        labels: the number of labels, in the table of labels.
    """

    sessions: int
    participants: int
    remarks: tuple[str, ...]
    tracks: int = 0
    has_settings: bool = False
    set_aside: tuple[str, ...] = ()
    labels: int = 0


@dataclass
class _Session:
    """A session: what its names say, the device of each name, and the files of each device, by column."""

    named: Named
    keys: dict[str, str] = field(default_factory=dict)
    devices: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def main(self) -> str:
        """The device that is the session's own: one that is called so, or the first camera, or the first of all."""
        if MAIN in self.devices:
            return MAIN
        return next((name for name, files in self.devices.items() if "video" in files), next(iter(self.devices)))

    @property
    def row(self) -> dict[str, str]:
        named = self.named
        row = {"session_id": named.session_id, "participant_id": named.participant_id, "video": ""}
        dated = {"recorded_at": named.recorded_at} if named.recorded_at else {}
        return row | self.devices[self.main] | dated

    @property
    def tracks(self) -> list[dict[str, str]]:
        main, session = self.main, {"session_id": self.named.session_id}
        return [session | {"track": name} | files for name, files in self.devices.items() if name != main]


def make_sessions(
    root: Path,
    globs: Mapping[str, str],
    names: str | None = None,
    *,
    update: bool = False,
    join: Callable[[Sequence[str]], bool] = lambda _: False,
) -> Made:
    """Write ``sessions.csv`` into ``root`` from the files there, and ``storyframes.toml``, a configuration that fits.

    Sessions with several cameras or microphones are in ``tracks.csv`` as well.

    Args:
        root: the study's folder, which contains the files.
        globs: by column, which files, as ``videos/*.mp4``. The files of the first one are the sessions: ``recording``
            (videos, sounds and transcripts alike), video, audio or transcript; those of the others belong to them.
        names: the pattern of a recording's name without its suffix: ``{participant}_{session}_{date}``, ``{track}`` for
            its camera or microphone, ``*`` for any text.
        update: add the recordings that no table of sessions or tracks names yet; the other rows stay as they are.
        join: whether files that by their names are parts of one recording become one, given the joined names.

    Raises:
        FilesError: the folder has a table already, a glob finds nothing, or names give no id, or two.
        TableChangeError: a table that is there cannot be changed.
        OSError: the folder cannot be read, or a table cannot be written.
    """
    there = [
        name for name in ("sessions.csv", "sessions.parquet", "tracks.csv", "tracks.parquet") if (root / name).exists()
    ]
    if there and not update:
        raise FilesError(f"{root / there[0]} is there already: --update adds the recordings that are not in it")
    remarks: list[str] = []
    files = {column: _find(root, column, glob, remarks) for column, glob in globs.items()}
    first = next(iter(files))
    headers: dict[PurePosixPath, Streams] = {}
    known: Mapping[str, str] = ChangedTables(root).files_named() if update else {}
    of_columns = [unusable_recordings(root, paths, headers, known) for paths in files.values()]
    set_aside = {path: why for of_column in of_columns for path, why in of_column.items()}
    files = {column: [path for path in paths if path not in set_aside] for column, paths in files.items()}
    for column in files.keys() - {"transcript", "openface"}:
        files[column] = with_parts_joined(root, files[column], headers, known, join, remarks)
    columns = _columns(first, files[first], headers, remarks)
    recordings = [path for path, column in columns.items() if column != "transcript"] or list(columns)
    aside = tuple(f"{path}: {why}" for path, why in set_aside.items())
    if not recordings and aside:
        raise FilesError(f"no recording can be used:\n{listed(aside, _NAMED, chr(10))}")
    if not recordings:
        raise FilesError(f"--{_option(first)} {globs[first]}: finds no video, sound or transcript in {root}")
    is_deep = "/" in (names or "") or _need_folders(recordings, columns, remarks)
    keys = _keys(recordings, globs[first], is_deep)
    named = _ids_of_their_own(read_names(keys, names, remarks), remarks)
    sessions = _sessions(recordings, keys, named, columns, names)
    texts = [path for path in columns if path not in recordings]
    others = {column: (files[column], globs[column]) for column in list(files)[1:]}
    if texts:
        others["transcript"] = (others.get("transcript", ([], ""))[0] + texts, globs[first])
    singles = _keys([part for path in recordings for part in parts_of(path)], globs[first], is_deep)
    for column, (paths, glob) in others.items():
        keys_of = dict(zip(paths, _keys(paths, glob, is_deep), strict=True))
        leave_out_singles(column, keys_of, singles, known, remarks)
        _add(sessions, column, keys_of, remarks)
    if names is None or "{participant}" not in names:
        remarks.append(
            "the names have no participant: every session counts as a participant of its own; where one person is in "
            "several, say it in the column participant_id, or --names '{participant}_…'"
            + (f" ({fitting})" if (fitting := proposed(keys, but=names, field="{participant}")) else "")
        )
    rows = [session.row for session in sessions]
    tracks = [track for session in sessions for track in session.tracks]
    tables = {"sessions.csv": _table(rows, ("session_id", "participant_id", "video"), ("recorded_at",))}
    if tracks:
        tables["tracks.csv"] = _table(tracks, ("session_id", "track"))
    check_tables(tables, rows)
    participants = {row["participant_id"] for row in rows}
    if update:
        remarks += ChangedTables(root).add_recordings({"tracks": tracks, "sessions": rows})
        sessions_now = read_study(root).study.sessions.values()
        rows = [vars(session) for session in sessions_now]
        participants = {session.participant_id for session in sessions_now}
    else:
        for name in reversed(tables):  # the sessions last: without them there is no study
            write_atomically(root / name, tables[name])
    has_settings = not (root / SETTINGS_FILE).exists()
    if has_settings:
        content = first_settings(list(headers.values()), [*rows, *tracks])
        write_atomically(root / SETTINGS_FILE, content.encode())
    else:
        remarks.append(f"{SETTINGS_FILE} is there already and stays as it is")
    return Made(len(rows), len(participants), tuple(dict.fromkeys(remarks)), len(tracks), has_settings, aside)


def _need_folders(paths: Sequence[PurePosixPath], columns: Mapping[PurePosixPath, str], remarks: list[str]) -> bool:
    """Whether files of one name in several folders are several sessions: not where a folder is of one kind of file."""
    folders: dict[str, dict[PurePosixPath, str]] = {}
    for path in paths:
        folders.setdefault(_stem(path), {})[path.parent] = columns[path]
    shared = {stem: of_stem for stem, of_stem in folders.items() if len(of_stem) > 1}
    kinds = {(path.parent, columns[path]) for path in paths}
    if len(kinds) > len({folder for folder, _ in kinds}):
        return bool(shared)
    if any(len({*of_stem.values()}) < len(of_stem) for of_stem in shared.values()):
        return True
    if shared:
        remarks.append(
            f"files of one name in folders of video and of sound are one session: {listed([*shared], _NAMED)}"
        )
    return False


def unusable_recordings(
    root: Path, paths: Sequence[PurePosixPath], headers: dict[PurePosixPath, Streams], known: Collection[str]
) -> dict[PurePosixPath, str]:
    """The recordings that cannot be opened or are copies of others: why, and the next step. Fills ``headers``.

    Args:
        known: the files that rows of the tables name; a copy of one is set aside, whatever the two are called.
    """
    why: dict[PurePosixPath, str] = {}
    originals: dict[str, PurePosixPath] = {}
    recordings = [path for path in paths if _kind(path) in ("video", "audio")]
    sizes = Counter((root / path).stat().st_size for path in recordings)
    for path in sorted(recordings, key=lambda path: (str(path) not in known, len(str(path)), path)):  # copies last
        file = root / path
        try:
            header = read_streams(file)
        except RecordingError as error:
            reason = str(error).removeprefix(f"{file.name}: ")
            why[path] = f"{reason}; put a whole copy of it in its place, and run this again"
            continue
        if sizes[file.stat().st_size] > 1 and (original := originals.setdefault(sha256_file(file), path)) != path:
            why[path] = f"is the same recording as {original}; remove one of the two"
            continue
        headers[path] = header
    return why


def _kind(path: PurePosixPath) -> str:
    """The column of a file by its name: video, audio or transcript; else empty."""
    return next((name for name, suffixes in _BY_SUFFIX.items() if path.suffix.lower() in suffixes), "")


def _columns(
    first: str, paths: Sequence[PurePosixPath], headers: Mapping[PurePosixPath, Streams], remarks: list[str]
) -> dict[PurePosixPath, str]:
    """The column of each file; files that are neither recordings nor transcripts are left out."""
    if first != "recording":
        return dict.fromkeys(paths, first)
    columns: dict[PurePosixPath, str] = {}
    for path in paths:
        header = headers.get(path)
        if column := ("video" if header.has_video else "audio") if header else _kind(path):
            columns[path] = column
    if left_out := [str(path) for path in paths if path not in columns]:
        remarks.append(f"neither recordings nor transcripts, left out: {listed(left_out, _NAMED)}")
    return columns


def _ids_of_their_own(named: Sequence[Named], remarks: list[str]) -> list[Named]:
    """The names, where sessions of several participants are called alike (``first``, ``2``) with both in the id."""
    people: dict[str, set[str]] = {}
    for name in named:
        people.setdefault(name.session_id, set()).add(name.participant_id)
    if all(len(of_session) == 1 for of_session in people.values()):
        return list(named)
    remarks.append("several participants have sessions of one name: session ids are participant-session")
    return [replace(name, session_id=f"{name.participant_id}-{name.session_id}") for name in named]


def _sessions(
    paths: Sequence[PurePosixPath],
    keys: Sequence[str],
    named: Sequence[Named],
    columns: Mapping[PurePosixPath, str],
    names: str | None,
) -> list[_Session]:
    """The recordings by session.

    Raises:
        FilesError: recordings of one session cannot be distinguished, or contradict each other.
    """
    sessions: dict[str, _Session] = {}
    wrong: dict[str, list[str]] = {}
    contradictions = []
    for path, key, name in zip(paths, keys, named, strict=True):
        session = sessions.setdefault(name.session_id, _Session(name))
        files = session.devices.setdefault(name.track, {})
        if columns[path] in files:
            wrong.setdefault(f"{name.session_id}", [files[columns[path]]]).append(str(path))
        files[columns[path]] = str(path)
        session.keys[key] = name.track
        about = session.named
        if (about.participant_id, about.recorded_at) != (name.participant_id, name.recorded_at):
            contradictions.append(f"{key!r}: another participant or date than {next(iter(session.keys))!r} has")
    if contradictions:
        raise FilesError(listed(contradictions, _NAMED, "\n"))
    if wrong:
        how = (
            "say --names with {session}, and with {track} where they are several cameras or microphones of one session"
        )
        same = [f"{listed(files, _NAMED, ' and ')} would all be the session {name}" for name, files in wrong.items()]
        raise FilesError(f"{listed(same, _NAMED, '; ')}: {how}")
    return list(sessions.values())


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
    made = tuple(f"{path.rpartition('/')[0]}/" for path in files if path.rpartition("/")[2] in _OF_OURS and "/" in path)
    if inside := [path for path in files if path.startswith(made) and path.lower().endswith(_ENDINGS)]:
        where = "in folders of feature stores or reports, which have a zarr.json or an index.html"
        remarks.append(f"{where}, left out: {listed(inside, _NAMED)}")
    files = [path for path in files if path != NAME and not path.startswith(made)]
    shown = [path for path in files if not any(part.startswith(".") for part in path.split("/"))]
    if len(shown) < len(files):
        remarks.append(f"{column}: {len(files) - len(shown)} hidden files, left out")
    if not shown:
        raise FilesError(f"--{_option(column)} {glob}: finds no file in {root}{_elsewhere(root)}")
    return [PurePosixPath(path) for path in shown]


def _elsewhere(root: Path) -> str:
    """Where in the folder recordings are, as a pattern that finds most of them; empty where there are none."""
    recordings = [
        path
        for depth in ("*", "*/*", "*/*/*")
        for path in root.glob(depth)
        if path.suffix.lower() in RECORDING_SUFFIXES
    ]
    folders = Counter(path.parent.relative_to(root) for path in recordings)
    return f"; perhaps --recordings '{folders.most_common(1)[0][0] / '*'}'" if folders else ""


def _option(column: str) -> str:
    return column if column in ("audio", "openface") else f"{column}s"


def _keys(paths: Sequence[PurePosixPath], glob: str, is_deep: bool) -> list[str]:
    """Each file's name; where names are not unique, its path below the fixed part of the glob."""
    if not is_deep:
        return [_stem(path) for path in paths]
    parts = PurePosixPath(glob).parts
    fixed = next((index for index, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts) - 1)
    return ["/".join([*path.parts[fixed:-1], _stem(path)]) for path in paths]


def _stem(path: PurePosixPath) -> str:
    """The name without its suffix; of a compressed table without both suffixes, of joined files what all are of."""
    if files := parts_of(path):
        return name_of_parts([file.stem for file in files])
    return PurePosixPath(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def _add(sessions: Sequence[_Session], column: str, files: Mapping[PurePosixPath, str], remarks: list[str]) -> None:
    """Give each session its file of this column: of the recording whose name it has, or continues."""
    owners: dict[tuple[int, str], list[PurePosixPath]] = {}
    unused = []
    for path, key in files.items():
        fitting = [
            (name, index)
            for index, session in enumerate(sessions)
            for name in (*session.keys, session.named.session_id)
            if continues(key, name)
        ]
        if not fitting:
            unused.append(str(path))
            continue
        name, index = max(fitting, key=lambda owner: len(owner[0]))
        session = sessions[index]
        owners.setdefault((index, session.keys.get(name, session.main)), []).append(path)
    several = [
        f"{next(iter(sessions[index].devices[device].values()))} has {len(paths)} files for {column}: "
        f"{', '.join(map(str, paths[:_NAMED]))}"
        for (index, device), paths in owners.items()
        if len(paths) > 1
    ]
    if several:
        raise FilesError(f"{listed(several, _NAMED, '; ')}: let the glob find one")
    for (index, device), paths in owners.items():
        sessions[index].devices[device][column] = str(paths[0])
    if unused:
        remarks.append(f"{column}: of no recording's name, left out: {listed(unused, _NAMED)}")
    if without := len(sessions) - len({index for index, _ in owners}):
        remarks.append(f"{column}: {without} sessions have none")


def _table(rows: Sequence[Mapping[str, str]], begin: tuple[str, ...], end: tuple[str, ...] = ()) -> bytes:
    columns = [*begin, *(name for name in (*_FILES, *end) if name not in begin and any(name in row for row in rows))]
    return csv_bytes(columns, ([row.get(name, "") for name in columns] for row in rows))


def check_tables(tables: Mapping[str, bytes], rows: Sequence[Mapping[str, str]]) -> None:
    """Refuse tables that would not be valid, or whose file names would be read as other names."""
    with scratch_folder("init") as folder:
        for name, content in tables.items():
            (folder / name).write_bytes(content)
        reading = read_study(folder)
    if reading.problems:
        shown = "\n".join(f"  {problem}" for problem in shortened(reading.problems))
        raise FilesError(f"the table would not be valid; nothing is written:\n{shown}")
    for row in rows:
        session = reading.study.sessions[row["session_id"]]
        for column in _FILES:
            path = row.get(column)
            if path and getattr(session, column) != path:  # it ends with a tab or the like, which a table does not keep
                raise FilesError(f"the name {path!r} is another one in a table: rename the file")
