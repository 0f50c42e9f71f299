"""One extractor on one recording, in a store of its own: what ``storyframes.testing`` runs.

It is the entry point ``trial`` of ``storyframes.pipeline``, since the light floor cannot import it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av

from storyframes.plug_ins import PlugInError
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter, PublishError
from storyframes.store.records import Status
from storyframes.store.storage import Storage
from storyframes.store.storage.files import sha256_file
from storyframes.testing.trial import SESSION, Trial
from tasks.extractors.base import (
    CommonSettings,
    ExtractionError,
    Extractor,
    ExtractorSettings,
    InputFile,
    MissingInputError,
    Source,
)
from tasks.extractors.plug_ins import check_class
from tasks.extractors.registry import check_name, registered


@dataclass(frozen=True)
class _Overheard(Source):
    """A source that notes what is asked of it."""

    asked: set[str] = field(default_factory=set)

    def file(self, kind: str) -> InputFile:
        self.asked.add(str(kind))
        return super().file(kind)


def why_unusable(cls: type[Extractor[Any]]) -> list[str]:
    """What the registry would refuse the class for."""
    try:
        check_class(cls)
        check_name(cls)
    except PlugInError as error:
        return [str(error)]
    return []


def inputs(cls: type[Extractor[Any]], settings: ExtractorSettings) -> tuple[str, ...]:
    """The kinds of input that it declares."""
    return tuple(str(kind) for kind in cls(settings, CommonSettings()).inputs)


def fingerprint(
    cls: type[Extractor[Any]], files: Mapping[str, Path], settings: ExtractorSettings, changed: str = ""
) -> str:
    """The digest of the fingerprint, as if the content of the file ``changed`` were another."""
    return cls(settings.resolved(), CommonSettings()).fingerprint(_source(files, changed)).digest


def try_out(cls: type[Extractor[Any]], files: Mapping[str, Path], settings: ExtractorSettings, store: Path) -> Trial:
    """Extract the feature from these files, and what it needs first, into the store."""
    storage = create_store(store)
    source = _source(files)
    for feature in _before(cls):
        needed = registered()[feature]
        _extract(storage, source, needed(needed.Settings().resolved(), CommonSettings()))
    source.asked.clear()
    return _extract(storage, source, cls(settings.resolved(), CommonSettings()))


def _before(cls: type[Extractor[Any]]) -> Iterator[str]:
    """The features that have to be there first, in the order in which they are extracted."""
    found: dict[str, None] = {}
    for feature in cls.after:
        found |= dict.fromkeys((*_before(registered()[feature]), feature))
    yield from found


def _extract(storage: Storage, source: _Overheard, extractor: Extractor[Any]) -> Trial:
    digest, reason, error, status = "", "", "", Status.FAILED
    caveats: frozenset[str] = frozenset()
    try:
        decided_by = extractor.fingerprint(source)
        digest = decided_by.digest
        with FeatureWriter(storage, SESSION, extractor.spec) as out:
            extractor.extract(source, out)
            caveats = frozenset(out.publish(digest, decided_by.provenance(extractor.libraries)).caveats)
        status = Status.DONE
    except MissingInputError as told:
        status, reason = Status.MISSING, str(told)
    except (ExtractionError, PublishError) as told:
        reason = str(told)
    except Exception as unforeseen:
        reason, error = str(unforeseen), type(unforeseen).__name__
    return Trial(status, reason, error, digest, frozenset(source.asked), caveats)


def _source(files: Mapping[str, Path], changed: str = "") -> _Overheard:
    return _Overheard(SESSION, {kind: _input(path, other=kind == changed) for kind, path in files.items()})


def _input(path: Path, *, other: bool) -> InputFile:
    status = path.stat()  # before it is read
    digest = sha256_file(path)
    if other:
        digest = hashlib.sha256(digest.encode()).hexdigest()
    return InputFile(path, path.name, digest, status.st_size, status.st_mtime_ns)


def lengthen(path: Path, target: Path, times: int) -> None:
    """The same recording ``times`` in a row, every packet as it is."""
    with av.open(str(target), "w") as out:
        ends: dict[int, int] = {}
        with av.open(str(path)) as container:
            streams = {stream.index: out.add_stream_from_template(stream) for stream in container.streams}
        for _ in range(times):
            _append(path, out, streams, ends)


def _append(path: Path, out: av.container.OutputContainer, streams: Mapping[int, Any], ends: dict[int, int]) -> None:
    """Copy every packet behind those that are there; ``ends`` says where each stream ends."""
    starts = dict(ends)
    with av.open(str(path)) as container:
        for packet in container.demux():
            if packet.dts is None:  # the end of a stream
                continue
            index = packet.stream.index
            start = starts.get(index, 0)
            packet.pts = (packet.dts if packet.pts is None else packet.pts) + start
            packet.dts += start
            ends[index] = max(ends.get(index, 0), packet.dts + (packet.duration or 1))
            packet.stream = streams[index]
            out.mux(packet)
