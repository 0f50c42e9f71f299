"""Forgetting, in an order that a later call can finish where this one is killed.

First the study's list and the stores' digests say who is forgotten: from then on nothing of them is published, indexed
or given away. Then every trace is noted in the receipt and removed. A later call removes what is left of everybody who
is in the list, so it also repairs a store that was restored from a backup.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from storyframes.store.layout import GIVEN
from storyframes.store.records import now
from storyframes.store.storage import Storage
from storyframes.store.storage.local_folder import LocalStorage
from storyframes.store.study import without_sessions
from tasks.forgetting.beside import cached_traces, plug_in_traces, report_traces, stores_below, unreachable
from tasks.forgetting.in_store import forgotten_inputs, inputs_of, traces_in
from tasks.forgetting.object_versions import EarlierVersions, VersionsKeptError
from tasks.forgetting.owner import Remaining, check_without, remaining
from tasks.forgetting.scope import ForgetError, Scope
from tasks.forgetting.traces import Asked, Trace
from tasks.inspect.formatting import counted
from tasks.study.changed_tables import put_in_place
from tasks.study.forgotten_ids import note_forgotten, read_forgotten_ids
from tasks.study.load import Study, read_study
from tasks.study.study_identity import difference_from_record


@dataclass
class Forgetting:
    """What was removed, or would be.

    Attributes:
        removed: every trace, in order.
        remaining: rows and files of the study's owner.
        unreachable: what no command can remove, a sentence each.
        kept: what should have been removed and was not, a sentence each.
        receipt: the file that says what was removed; None in a dry run.
    """

    removed: list[Trace] = field(default_factory=list)
    remaining: Remaining = field(default_factory=lambda: Remaining({}, {}, {}))
    unreachable: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    receipt: Path | None = None

    def leave_out_removed(self) -> None:
        """Take what was removed out of the owner's files that remain."""
        gone = {trace.where for trace in self.removed}
        for path in [path for path in self.remaining.files if str(path) in gone]:
            del self.remaining.files[path]

    @property
    def bytes(self) -> int:
        """Of everything that was removed."""
        return sum(trace.bytes for trace in self.removed)


def forget(
    study: Path,
    storages: Sequence[Storage],
    scope: Scope,
    *,
    folders: Sequence[Path] = (),
    tables: bool = False,
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda where: None,
) -> Forgetting:
    """Remove everything that storyframes made of the forgotten.

    Args:
        study: its folder, which gets the list of the forgotten and the receipt.
        storages: its feature stores, archives and restored copies.
        folders: further folders, of runs, tables and reports.
        tables: also take their rows out of the study's tables.
        dry_run: only find.
        progress: called with each place before it is removed.

    Raises:
        ForgetError: a store is of another study, or the tables cannot be changed.
        PlugInError: a plug-in cannot say what it has.
        StoreError, StorageError, OSError: something cannot be read or removed; a later call goes on.
    """
    every, others = _with_archives(storages, read_study(study, with_forgotten=True).study)
    asked = Asked(study, scope, folders)
    done = Forgetting(remaining=remaining(study, scope), unreachable=[*others, *unreachable(every, scope)])
    if tables:
        check_without(study, done.remaining)
    if dry_run:
        done.removed = [trace for _, trace in _traces(every, asked)]
        for storage in every:
            _remove_versions(EarlierVersions(storage, scope), done, done.removed.append)
        done.leave_out_removed()
        return done
    ids = read_forgotten_ids(study).with_ids(scope.ids.sessions, scope.ids.people, scope.ids.tracks)
    ids.with_files(done.remaining.files.values()).write(study)
    for storage in every:
        note_forgotten(storage, scope.ids)
    done.receipt = study / f"forgotten-{now()[:19].replace(':', '').replace('-', '')}Z.jsonl"
    with _opened(done.receipt) as receipt:

        def remove(number: int, trace: Trace) -> None:
            progress(trace.where)
            _note(receipt, {"store": number, "what": trace.what, "bytes": trace.bytes, "sha256": trace.sha256()})
            trace.remove()
            done.removed.append(trace)

        for number, trace in _traces(every, asked):
            remove(number, trace)
        for number, storage in enumerate(every, start=1):
            _remove_versions(EarlierVersions(storage, scope), done, partial(remove, number))
        if tables and done.remaining.tables:
            put_in_place(study, done.remaining.tables)
            _note(receipt, {"what": f"rows of the tables {', '.join(sorted(done.remaining.rows))}"})
        done.leave_out_removed()
        _note(receipt, {"finished": now(), "traces": len(done.removed), "bytes": done.bytes})
    return done


def _with_archives(storages: Sequence[Storage], study: Study) -> tuple[list[Storage], list[str]]:
    """The stores and those below them, and a sentence for each of these that is of another study.

    Raises:
        ForgetError: a store that was named is of another study, whose sessions may have the same ids.
    """
    every: dict[str, Storage] = {storage.location: storage for storage in storages}
    for storage in storages:
        if difference := difference_from_record(storage, study, may_be_part=True):
            raise ForgetError(
                f"{storage.location} is the feature store of another study: {difference}; nothing was removed. If it "
                "is of this study, run 'storyframes index STUDY STORE --replace-study' first"
            )
    others = []
    for storage in storages:
        for below in stores_below(storage.root) if isinstance(storage, LocalStorage) else ():
            if difference := difference_from_record(below, study, may_be_part=True):
                others.append(f"{below.location}: is the feature store of another study ({difference})")
            else:
                every.setdefault(below.location, below)
    return list(every.values()), others


def _traces(storages: Sequence[Storage], asked: Asked) -> Iterator[tuple[int, Trace]]:
    """Every trace, with the number of its store; 0 of what is beside the stores."""
    inputs = [inputs_of(storage, asked.scope) for storage in storages]
    recordings = set().union(*(forgotten_inputs(of_store, asked.scope) for of_store in inputs))
    recordings = recordings - set().union(*(_kept(of_store, asked.scope) for of_store in inputs))
    yield from ((0, trace) for trace in cached_traces(recordings))
    yield from ((0, trace) for trace in report_traces(asked))
    yield from ((0, trace) for trace in plug_in_traces(asked))
    for number, storage in enumerate(storages, start=1):
        yield from ((number, trace) for trace in traces_in(storage, asked.scope, recordings))
        if count := without_sessions(storage.read(GIVEN), asked.scope.ids.sessions)[0]:
            yield number, _given_rows(storage, count, asked.scope)


def _remove_versions(versions: EarlierVersions, done: Forgetting, remove: Callable[[Trace], None]) -> None:
    """Remove the earlier versions of objects; what the bucket does not let go is noted."""
    try:
        of_objects, markers = versions.traces()
    except VersionsKeptError as error:
        done.kept.append(str(error))
        return
    kept = []
    for trace in of_objects:
        try:
            remove(trace)
        except VersionsKeptError as error:
            kept.append(str(error))
    if kept:
        done.kept.append(f"{kept[0]} ({counted(len(kept), 'version')} in all)")
        return
    for trace in markers:
        remove(trace)


def _kept(inputs: dict[str, set[str]], scope: Scope) -> set[str]:
    """The files that what remains was made of."""
    return set().union(*inputs.values()) - forgotten_inputs(inputs, scope) if inputs else set()


def _given_rows(storage: Storage, count: int, scope: Scope) -> Trace:
    return Trace(
        f"names in {count} rows of {GIVEN}",
        f"{storage.location}/{GIVEN}",
        0,
        lambda: storage.digest(GIVEN),
        lambda: storage.update(GIVEN, lambda content: without_sessions(content, scope.ids.sessions)[1]),
    )


def _opened(path: Path) -> IO[str]:
    path.touch(mode=0o600)
    return path.open("a", encoding="utf-8")


def _note(receipt: IO[str], entry: dict[str, object]) -> None:
    receipt.write(json.dumps({"at": now(), **entry}) + "\n")
    receipt.flush()
