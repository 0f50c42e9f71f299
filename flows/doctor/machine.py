"""Processors, memory, disks: what this process may use of the machine."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flows.doctor.findings import Finding, State
from storyframes.store.layout import StoreError, open_store
from storyframes.store.storage import StorageError, scratch
from tasks.inspect.formatting import human_bytes
from tasks.models.digests import user_cache

_LITTLE = 2 * 2**30  # bytes: a version of a long session, and what is written beside it
_CGROUP = Path("/sys/fs/cgroup")


def look(features: str | None) -> Iterator[Finding]:
    """The machine, and the feature store at ``features`` where one is named."""
    yield Finding("system", State.HERE, f"{platform.system()} {platform.machine()}, Python {platform.python_version()}")
    yield _processors()
    yield _memory()
    yield from _temporary()
    yield _folder("cache", user_cache(), "set XDG_CACHE_HOME to a folder that can be written to, with room")
    if features is not None:
        yield _store(features)


def _temporary() -> Iterator[Finding]:
    """Where Python puts temporary folders: not where TMPDIR says, if it could not write there."""
    named = os.environ.get("TMPDIR", "")
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:  # each was tried; a full disk is enough
        what = "none that can be written to" + (f"; TMPDIR={named}" if named else "")
        yield Finding("temporary folder", State.GAP, what, "make room, or set TMPDIR to a folder on another disk")
        return
    if named and Path(os.path.abspath(named)) != folder:
        what = f"TMPDIR={named} cannot be used, so {folder} is taken: intermediate files of recordings lie there"
        yield Finding("temporary folder", State.GAP, what, "make the folder, make room there, or correct TMPDIR")
    else:
        yield _folder("temporary folder", folder, "set TMPDIR to a folder on another disk")
    if leftovers := scratch.sweep(dry_run=True):
        size = human_bytes(sum(one.bytes for one in leftovers))
        what = f"{len(leftovers)} folders of killed processes in the temporary folder, {size}"
        yield Finding("leftovers", State.GAP, what, "'storyframes gc STORE' removes them, and so does the next run")


def _processors() -> Finding:
    usable, there = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    what = f"{usable} of {there} usable"
    quota = _limit("cpu.max")
    if quota and quota < usable:
        what += f", {quota:g} of them by the limit of its control group"
    threads = os.environ.get("OMP_NUM_THREADS", "")
    what += f"; OMP_NUM_THREADS={threads}" if threads else "; OMP_NUM_THREADS is not set (workers set it to 1)"
    if threads.isdecimal() and int(threads) > usable:
        return Finding("processors", State.GAP, what, "more threads than processors wait for each other: unset it")
    return Finding("processors", State.HERE, what)


def _memory() -> Finding:
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line)
    total, free = (int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    limit = _limit("memory.max")
    what = f"{human_bytes(free)} of {human_bytes(total)} free"
    if limit and limit < total:
        what += f", {human_bytes(int(limit))} by the limit of its control group"
    if min(free, limit or free) < _LITTLE:
        advice = "a worker takes up to 2 GB: fewer at once ([cluster] cpus), or end what else runs here"
        return Finding("memory", State.GAP, what, advice)
    return Finding("memory", State.HERE, what)


def _limit(name: str) -> float | None:
    """A limit of this process's control group (version 2), None where there is none."""
    try:
        words = (_CGROUP / name).read_text().split()
        return int(words[0]) / int(words[1]) if len(words) > 1 else float(int(words[0]))
    except (OSError, ValueError, IndexError):  # "max", or no such file
        return None


def _folder(about: str, folder: Path, advice: str) -> Finding:
    there = next(one for one in (folder, *folder.parents) if one.exists())
    disk = shutil.disk_usage(there)
    what = f"{folder}, {human_bytes(disk.free)} of {human_bytes(disk.total)} free"
    what += "" if there == folder else " (it is made when something is kept)"
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(about, State.GAP, f"{folder} cannot be written to", advice)
    return Finding(about, State.GAP, what, advice) if disk.free < _LITTLE else Finding(about, State.HERE, what)


def _store(features: str) -> Finding:
    """The feature store that was asked after."""
    try:
        folder = open_store(features).local("")
    except (StoreError, StorageError) as error:
        return Finding("feature store", State.FAULT, str(error), "name another place, or extract into this one")
    if folder is None:
        return Finding("feature store", State.HERE, f"{features} can be read")
    found = _folder("feature store", folder, "make room there, or see to its permissions: nothing can be extracted")
    return found if found.state is State.HERE else Finding(found.about, State.FAULT, found.what, found.advice)
