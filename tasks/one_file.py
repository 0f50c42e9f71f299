"""One recording by itself: its features with no study, no Prefect and no Dask, by the same extractors and checks.

``flows.one_file`` says where they are kept, and with which settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from av.stream import Disposition

from storyframes.features import CLOCK
from storyframes.store.records import Status
from storyframes.store.storage import Storage
from tasks.extract import Outcome, Work, extract
from tasks.extractors.base import Extractor, Input, InputFile, MissingInputError, Source
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.media.container import RecordingError, open_container
from tasks.models.digests import DigestCache
from tasks.planning.passes import sharing_a_pass
from tasks.planning.selection import selected_extractors
from tasks.planning.spread import spread_over_processors

SESSION = "file"
"""What the recording is called in its store: its own name may say whose it is."""


@dataclass(frozen=True)
class FileSource(Source):
    """The recording and what was given with it, as an extractor sees it."""

    name: str = ""

    def file(self, kind: str) -> InputFile:
        try:
            return super().file(kind)
        except MissingInputError:
            if kind == Input.VIDEO:
                raise MissingInputError(f"{self.name} has no picture") from None
            raise MissingInputError(
                f"it is made of a {kind}, and none was given: {kind}=PATH, or --{kind} PATH on the command line"
            ) from None


def file_source(recording: Path, others: Mapping[str, Path], digests: DigestCache) -> FileSource:
    """The recording as extractors are given it.

    Args:
        recording: a video, or a file of sound alone.
        others: by kind of input, what comes with it: a transcript, say.
        digests: of files that have not changed.

    Raises:
        RecordingError: it is no recording.
        OSError: a file is not there, or cannot be read.
    """
    for path in (recording, *others.values()):
        path.open("rb").close()  # a file that is not there is its caller's mistake, no fault of a recording
        try:
            str(path.absolute()).encode()
        except UnicodeEncodeError:  # the cache notes in JSON which files it knows
            raise RecordingError(f"{ascii(os.fsencode(path.name))[1:]}: its path is not UTF-8: rename it") from None
    frameless = not _has_picture(recording)
    paths = {str(Input.AUDIO if frameless else Input.VIDEO): recording, **others}
    files = {kind: _input(path.absolute(), digests) for kind, path in paths.items()}
    return FileSource(SESSION, files, frameless=frameless, name=recording.name)


def _has_picture(path: Path) -> bool:
    """Whether it is a video; the cover of a record is none."""
    with open_container(path) as container:
        return any(not stream.disposition & Disposition.attached_pic for stream in container.streams.video)


def _input(path: Path, digests: DigestCache) -> InputFile:
    status = path.stat()  # before it is read: a file that is replaced from here on is not what the extraction finds
    digest = digests.sha256(path)
    return InputFile(path, path.name, digest, status.st_size, status.st_mtime_ns)


def extract_file(
    storage: Storage,
    source: FileSource,
    settings: ExtractorsSettings,
    features: Iterable[str],
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Outcome]:
    """Bring features of one recording up to date, with those that they need first; one that fails leaves the others.

    Args:
        storage: a feature store of this recording alone; nobody else may extract into it meanwhile.
        source: the recording.
        settings: of all extractors.
        features: which; they have to exist.
        progress: told what is under way.

    Returns:
        What came of each, by feature, in the order in which they ran.
    """
    settings = settings.resolved()
    extractors = selected_extractors(build_extractors(settings, SESSION), tuple(features))
    outcomes = {}
    if source.frameless:
        there = _without_picture(extractors)
        reason = f"{source.name} has no picture"
        lacking = (name for name in extractors if name not in there)
        outcomes = {name: Outcome(SESSION, name, Status.MISSING, skipped=True, reason=reason) for name in lacking}
        extractors = there
    due = [Work(storage.location, source, (name,), settings, after=one.after) for name, one in extractors.items()]
    waiting = spread_over_processors(sharing_a_pass(due, extractors), len(os.sched_getaffinity(0)))
    while waiting:
        unit = _next(waiting)
        waiting.remove(unit)
        progress(" and ".join(unit.features))
        outcomes |= {outcome.feature: outcome for outcome in extract(unit)}
    return outcomes


def _without_picture(extractors: Mapping[str, Extractor]) -> dict[str, Extractor]:
    """Those that can do without frames, and without what cannot."""
    there: dict[str, Extractor] = {}
    for name, one in extractors.items():  # in the order in which they run
        needs = one.needs_frames and (Input.VIDEO in one.inputs or CLOCK in (name, *one.after))
        if not needs and set(one.after) - {CLOCK} <= there.keys():
            there[name] = one
    return there


def _next(waiting: list[Work]) -> Work:
    """The first that waits for nothing that is still to be made."""
    unmade = {feature for unit in waiting for feature in unit.features}
    return next(unit for unit in waiting if not unmade.intersection(unit.after))
