"""Recordings that several sessions name: the same file, or a copy of it under another name.

Clips of one recording in two splits would be in training and in test. A copy is a file with the same bytes: one that
was encoded again is another file. Only files of equal size are read, and of these as little as shows that they differ.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from storyframes.store.storage.files import sha256_file
from storyframes.times import ticks
from tasks.models.digests import DigestCache
from tasks.study.labels import listed
from tasks.study.load import Phase, Study, StudyFileError, recording_names
from tasks.study.study_identity import digest_of_ends

Digests = Callable[[], DigestCache]
COLUMNS = ("video", "audio")
"""Whose files are recordings; transcripts of two sessions may be alike because both are silent."""


@dataclass(frozen=True)
class Use:
    """One track of a session that names a recording."""

    session_id: str
    track: str
    relative: str


@dataclass(frozen=True)
class SharedRecording:
    """A recording that several sessions name."""

    uses: tuple[Use, ...]  # by whom, in the order of the table of sessions
    # whether the sessions are parts of one long file on purpose: all name the same path, and the phases of each are
    # before or after those of every other
    is_cut: bool

    @property
    def sessions(self) -> list[str]:
        return list(dict.fromkeys(use.session_id for use in self.uses))

    def participants(self, study: Study) -> list[str]:
        """Those of its sessions, each once."""
        return list(dict.fromkeys(study.sessions[session].participant_id for session in self.sessions))


def find_shared_recordings(study: Study, digests: Digests | None = None) -> list[SharedRecording]:
    """The recordings that several sessions of a study name; a file that cannot be read is compared by its path alone.

    Args:
        digests: gives SHA-256 of its files as a store knows them, also of files that are not on this machine any more.
            Called only where a file is not here, or two have the same size.
    """
    uses: dict[str, list[Use]] = {}
    for session_id in study.sessions:
        for track in study.tracks.get(session_id, {}).values():
            for relative in dict.fromkeys(getattr(track, column) for column in COLUMNS):
                for file in recording_names(study.folder_of(relative), relative) if relative else ():
                    uses.setdefault(file, []).append(Use(session_id, track.name, relative))
    found, order = [], {session: number for number, session in enumerate(study.sessions)}
    for same in _same_content(study, uses, digests):
        of_file = [use for relative in same for use in uses[relative]]
        if len({use.session_id for use in of_file}) > 1:
            of_file.sort(key=lambda use: order[use.session_id])
            is_one = len(same) == 1 and len({use.relative for use in of_file}) == 1  # so their clocks are one
            found.append(SharedRecording(tuple(of_file), is_one and _are_apart(study, of_file)))
    return list(dict.fromkeys(found))  # a recording of several files once


def shared_recording_remarks(study: Study, shared: Iterable[SharedRecording]) -> Iterator[str]:
    """What the clip index says of them: a sentence each."""
    for recording in shared:
        people = recording.participants(study)
        if not recording.is_cut:
            yield (
                f"the sessions {listed(recording.sessions)} have the same recording, {recording.uses[0].relative}: "
                "clips of it are in the index more than once, in one split; 'storyframes check' says more"
            )
        elif len(people) > 1:
            yield (
                f"the sessions {listed(recording.sessions)} are parts of one recording, {recording.uses[0].relative}, "
                "so their participants are in one split"
            )


def _same_content(study: Study, files: Iterable[str], digests: Digests | None) -> list[list[str]]:
    """The files in groups of the same content; most files are a group of their own."""
    sizes: dict[str, int | str] = {}
    gone: dict[str, str] = {}
    for relative in files:
        try:
            sizes[relative] = study.path(relative).stat().st_size or relative
        except (StudyFileError, OSError):
            remembered = map(digests().remembered, (folder / relative for folder in study.folders)) if digests else ()
            sizes[relative], gone[relative] = next(filter(None, remembered), (relative, ""))

    def ends(relative: str) -> str:
        # extraction has read the file as a whole already, or will, where digests are kept
        return "" if digests else digest_of_ends(study.path(relative))

    def content(relative: str) -> str:
        path = study.folder_of(relative) / relative
        return gone.get(relative) or (digests().sha256(path) if digests else sha256_file(path))

    groups = [list(sizes)]
    for tell_apart in (sizes.__getitem__, ends, content):
        groups = [part for group in groups for part in _parts(group, tell_apart)]
    return groups


def _parts(group: list[str], tell_apart: Callable[[str], int | str]) -> list[list[str]]:
    """A group in parts that are alike; a file that cannot be read is like no other."""
    if len(group) == 1:
        return [group]
    parts: dict[int | str, list[str]] = defaultdict(list)
    for relative in group:
        try:
            parts[tell_apart(relative)].append(relative)
        except OSError:
            parts[relative].append(relative)
    return list(parts.values())


def _are_apart(study: Study, uses: Iterable[Use]) -> bool:
    """Whether each of the sessions has phases, from whose first to whose last no other session's is in the file."""
    phases: dict[str, list[Phase]] = defaultdict(list)
    for phase in study.phases:
        phases[phase.session_id].append(phase)
    spans = []
    for use in uses:
        of_session = phases[use.session_id]
        clock = study.tracks[use.session_id][use.track].clock
        if not of_session or (clock is not None and clock not in study.clocks.get(use.session_id, {})):
            return False
        edges = [min(phase.start_s for phase in of_session), max(phase.end_s for phase in of_session)]
        start, end = ticks(study.clock(use.session_id, use.track).to_device(edges)).tolist()
        spans.append((start, end, use.session_id))
    return all(one[2] == other[2] or other[0] >= one[1] for one, other in itertools.combinations(sorted(spans), 2))
