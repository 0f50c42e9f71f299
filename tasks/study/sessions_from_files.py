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
from tasks.study.forgotten_ids import NAME
from tasks.study.labels import listed
from tasks.study.load import read_study
from tasks.study.problems import shortened
from tasks.study.recording_names import (
    FilesError,
    Named,
    further_parts,
    name_of_parts,
    parts_of,
    proposed,
    proposed_parts,
    read_names,
)

SETTINGS_FILE = "storyframes.toml"
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
_WINDOWS_S = (8.0, 4.0, 2.0, 1.0, 0.5)
_PER_RECORDING = 4  # windows that fit into the shortest one, side by side


@dataclass(frozen=True)
class Made:
    """What was written.

    Attributes:
        sessions, participants: their numbers.
        remarks: what was left out, or should be checked.
        tracks: the number of other cameras and microphones, in the table of tracks.
        has_settings: whether a configuration was written as well.
        set_aside: the recordings that are in no table, each with the reason and the next step.
    """

    sessions: int
    participants: int
    remarks: tuple[str, ...]
    tracks: int = 0
    has_settings: bool = False
    set_aside: tuple[str, ...] = ()


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
    of_columns = [_unusable(root, paths, headers, known) for paths in files.values()]
    set_aside = {path: why for of_column in of_columns for path, why in of_column.items()}
    files = {column: [path for path in paths if path not in set_aside] for column, paths in files.items()}
    for column in files.keys() - {"transcript", "openface"}:
        files[column] = _with_parts_joined(root, files[column], headers, known, join, remarks)
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
        _leave_out_singles(column, keys_of, singles, known, remarks)
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
    _check(tables, rows)
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
        content = _first_settings(list(headers.values()), [*rows, *tracks])
        write_atomically(root / SETTINGS_FILE, content.encode())
    else:
        remarks.append(f"{SETTINGS_FILE} is there already and stays as it is")
    return Made(len(rows), len(participants), tuple(dict.fromkeys(remarks)), len(tracks), has_settings, aside)


def _with_parts_joined(
    root: Path,
    paths: Sequence[PurePosixPath],
    headers: dict[PurePosixPath, Streams],
    named: Mapping[str, str],
    join: Callable[[Sequence[str]], bool],
    remarks: list[str],
) -> list[PurePosixPath]:
    """The recordings, with those as one that are parts of one by their names; not those that the tables name apart.

    Further parts of a recording that the tables join are left out.

    Args:
        headers: of the recordings, by their paths; those that are joined are replaced.
        named: the session of files and joined files that the tables name, about which nothing is asked.
        join: whether these joined files are one recording each.
        remarks: what should be checked is added here.
    """
    further = further_parts([path for path in paths if path in headers], named)
    for cell, parts in further.items():
        new_cell = "+".join([cell, *(part.name for part in parts)])
        remarks.append(
            f"by their names further parts of a recording, left out: {listed([*map(str, parts)], _NAMED)}: write "
            f"{new_cell} in place of {cell} in the row of session {named[cell]}"
        )
        for part in parts:
            del headers[part]
    left_out = {part for parts in further.values() for part in parts}
    paths = [path for path in paths if path not in left_out]
    joined: dict[PurePosixPath, list[PurePosixPath]] = {}
    opened: dict[PurePosixPath, Streams] = {}
    for parts in proposed_parts(path for path in paths if path in headers):
        whole = parts[0].with_name("+".join(part.name for part in parts))
        if str(whole) not in named and any(str(part) in named for part in parts):
            if new := [str(part) for part in parts if str(part) not in named]:
                remarks.append(
                    f"by their names further parts of a recording, and not joined: {listed(new, _NAMED)}: {whole} in "
                    "one row joins them"
                )
            continue
        try:
            opened[whole] = read_streams(root / whole)
            joined[whole] = parts
        except RecordingError as error:
            remarks.append(f"{whole} is not one recording: {error}")
    asked = [str(whole) for whole in joined if str(whole) not in named]
    if asked and not join(asked):
        names = listed(asked, _NAMED)
        remarks.append(f"by their names parts of one recording, and not joined: {names}: --join joins them")
        joined = {whole: parts for whole, parts in joined.items() if str(whole) in named}
    elif asked:
        remarks.append(
            f"by their names parts of one recording, and joined: {listed(asked, _NAMED)}: a row for each file keeps "
            "them apart"
        )
    whole_of = {part: whole for whole, parts in joined.items() for part in parts}
    for part, whole in whole_of.items():
        headers[whole] = opened[whole]
        del headers[part]
    return list(dict.fromkeys(whole_of.get(path, path) for path in paths))


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


def _unusable(
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


def _continues(key: str, name: str) -> bool:
    """Whether a file has a recording's name, or one that continues it."""
    return key == name or bool(re.match(rf"{re.escape(name)}[^A-Za-z0-9]", key))


def _leave_out_singles(
    column: str,
    files: dict[PurePosixPath, str],
    singles: Sequence[str],
    known: Collection[str],
    remarks: list[str],
) -> None:
    """Leave out what belongs to one file of a recording in several: its times begin anew, or it ends early.

    Args:
        files: names, by path.
        singles: the names of the files of recordings in several.
        known: what the tables name stays.
    """
    left_out = [
        path
        for path, key in files.items()
        if not parts_of(path) and str(path) not in known and any(_continues(key, single) for single in singles)
    ]
    for path in left_out:
        del files[path]
    if left_out:
        remarks.append(
            f"{column}: of single files of a recording in several, whose times begin anew, left out: "
            f"{listed([*map(str, left_out)], _NAMED)}: name one file for the whole recording in the table"
        )


def _add(sessions: Sequence[_Session], column: str, files: Mapping[PurePosixPath, str], remarks: list[str]) -> None:
    """Give each session its file of this column: of the recording whose name it has, or continues."""
    owners: dict[tuple[int, str], list[PurePosixPath]] = {}
    unused = []
    for path, key in files.items():
        fitting = [
            (name, index)
            for index, session in enumerate(sessions)
            for name in (*session.keys, session.named.session_id)
            if _continues(key, name)
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


def _check(tables: Mapping[str, bytes], rows: Sequence[Mapping[str, str]]) -> None:
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


# --- the first configuration -----------------------------------------------------------------------------------------


def _first_settings(recordings: Sequence[Streams], rows: Sequence[Mapping[str, str]]) -> str:
    """The text of a commented TOML file: features that the files can have, and windows that fit the recordings.

    Args:
        recordings: what the headers of the recordings say, of those that could be opened.
        rows: of the tables of sessions and tracks, with the files that each has.
    """
    has_video, has_text = any(row.get("video") for row in rows), any(row.get("transcript") for row in rows)
    has_sound = any(row.get("audio") for row in rows) or any(recording.has_sound for recording in recordings)
    has_openface = any(row.get("openface") for row in rows)
    usable = {"frames": has_video, "openface": has_openface, "opensmile": has_sound, "sbert": has_text}
    features = ", ".join(f'"{name}"' for name, is_usable in usable.items() if is_usable)
    shortest_s = min((recording.seconds for recording in recordings if recording.seconds), default=0.0)
    window_s = next((seconds for seconds in _WINDOWS_S if seconds * _PER_RECORDING <= shortest_s), _WINDOWS_S[-1])
    window_s = window_s if shortest_s else _WINDOWS_S[0]
    lines = [
        "# What is extracted from this study, and how its clips are cut. Every key is in docs/configuration.md.",
        *(f"# {line}" for line in _described(recordings, rows)),
        "",
        "# What these files can have and this installation can make without another program or model:",
        f"features = [{features}]",
        *(f"# {line}" for line in _possible(has_video, has_text, has_openface)),
        "",
        "[clips]",
        "# Windows in seconds are as long in every recording, whatever its frame rate.",
        f"window_s = {window_s}",
        f"stride_s = {min(1.0, window_s / 2)} # from the start of one window to the next one's",
    ]
    return "\n".join(lines) + "\n"


def _described(recordings: Sequence[Streams], rows: Sequence[Mapping[str, str]]) -> list[str]:
    videos = sum(bool(row.get("video")) for row in rows)
    sounds = sum(bool(row.get("audio")) for row in rows)
    texts = sum(bool(row.get("transcript")) for row in rows)
    described = [f"The files: {videos} videos, {sounds} sounds, {texts} transcripts."]
    rates = sorted(
        {f"{recording.fps:.4g}" for recording in recordings if recording.has_video and recording.fps}, key=float
    )
    if rates:
        described.append(f"Frames per second of the videos, by their headers: {listed(rates, 8)}.")
    if silent := sum(recording.has_video and not recording.has_sound for recording in recordings):
        described.append(f"Videos without sound: {silent}.")
    if lengths := [recording.seconds for recording in recordings if recording.seconds]:
        described.append(f"They last {min(lengths):.4g} to {max(lengths):.4g} s.")
    return described


def _possible(has_video: bool, has_text: bool, has_openface: bool) -> list[str]:
    """The features that need something first, and what."""
    possible = []
    if has_video and not has_openface:
        possible.append('"openface" (faces): with [openface] backend = "container" or "binary" (docs/openface.md)')
    if has_video:
        possible.append("\"resnet50\" (pictures as vectors): after 'storyframes models fetch resnet50-v1'")
    if has_text:
        possible.append("\"glove\" (a vector for each word): after 'storyframes models fetch glove-840b'")
    return ["Also possible:", *possible] if possible else []
