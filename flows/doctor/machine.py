"""What ``storyframes doctor`` looks at; first what needs no pipeline: extras, processors, memory, disks."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from packaging.requirements import Requirement
from rich import filesize

import storyframes
from flows.doctor.findings import Finding, State
from storyframes.installation import install_line
from storyframes.store.layout import StoreError, open_store
from storyframes.store.storage import StorageError, scratch
from tasks.models.digests import user_cache

_LITTLE = 2 * 2**30  # bytes: a version of a long session, and what is written beside it
_CGROUP = Path("/sys/fs/cgroup")
_FOR_DEVELOPERS = {"dev", "docs"}


def examine(store: str | None = None, config: Path | None = None) -> list[Finding]:
    """All findings, in the order in which they are shown; without the pipeline one of them says so.

    Raises:
        SettingsError: the configuration cannot be used.
    """
    findings = [*_extras(), *look_at_machine(store)]
    findings += _with_pipeline(lambda: _extraction(config), "extraction", asked=config is not None)
    findings += _with_pipeline(_prefect, "Prefect", asked=False)
    return [finding.without_home() for finding in findings]


def _with_pipeline(look: Callable[[], Iterable[Finding]], about: str, *, asked: bool) -> list[Finding]:
    """Findings about a part of the pipeline, or one that says that it is not installed."""
    try:
        return list(look())
    except ModuleNotFoundError as error:
        state = State.FAULT if asked else State.GAP
        what = f"the pipeline is not installed ({error.name} is not there): this installation reads and keeps stores"
        return [Finding(about, state, what, f"{install_line('pipeline')}, on the machine that extracts")]


def _extraction(config: Path | None) -> Iterator[Finding]:
    from flows.doctor.extraction import look_at_extraction
    from flows.settings import load_settings

    return look_at_extraction(load_settings(config), asked=config is not None)


def look_at_machine(store: str | None) -> Iterator[Finding]:
    """The machine, and the feature store at ``store`` where one is named."""
    yield Finding("system", State.HERE, f"{platform.system()} {platform.machine()}, Python {platform.python_version()}")
    yield _processors()
    yield _memory()
    yield from _temporary()
    yield _folder("cache", user_cache(), "set XDG_CACHE_HOME to a folder that can be written to, with room")
    if store is not None:
        yield _store(store)


def _extras() -> Iterator[Finding]:
    """The version of storyframes, and its extras: which are whole, and what the others lack."""
    yield Finding("storyframes", State.HERE, storyframes.__version__)
    try:
        own = distribution("storyframes")
    except PackageNotFoundError:
        yield Finding("extras", State.GAP, "storyframes runs from a folder and is not installed", install_line())
        return
    requirements = [Requirement(text) for text in own.requires or ()]
    missing: dict[str, list[str]] = {}
    for extra in own.metadata.get_all("Provides-Extra") or ():
        of_extra = [
            requirement
            for requirement in requirements
            if requirement.marker and requirement.marker.evaluate({"extra": extra})
        ]
        missing[extra] = [requirement.name for requirement in of_extra if not _is_installed(requirement)]
    shown = [extra for extra in missing if extra not in _FOR_DEVELOPERS]
    yield Finding("extras", State.HERE, ", ".join(extra for extra in shown if not missing[extra]) or "none")
    for extra in shown:
        if missing[extra]:
            advice = f"{install_line(extra)}, if you want it"
            yield Finding(f"extra {extra}", State.GAP, f"lacks {', '.join(missing[extra])}", advice)


def _is_installed(requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


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
        what = f"TMPDIR={named} cannot be used, so {folder} is taken: intermediate files of recordings are there"
        yield Finding("temporary folder", State.GAP, what, "make the folder, make room there, or correct TMPDIR")
    else:
        yield _folder("temporary folder", folder, "set TMPDIR to a folder on another disk")
    if leftovers := scratch.sweep(dry_run=True):
        size = filesize.decimal(sum(leftover.bytes for leftover in leftovers))
        what = f"{len(leftovers)} folders of killed processes in the temporary folder, {size}"
        yield Finding("leftovers", State.GAP, what, "'storyframes gc STORE' removes them, and so does the next run")


def _processors() -> Finding:
    usable = len(os.sched_getaffinity(0))
    what = f"{usable} of {os.cpu_count() or 1} usable"
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
    what = f"{filesize.decimal(free)} of {filesize.decimal(total)} free"
    if limit and limit < total:
        what += f", {filesize.decimal(int(limit))} by the limit of its control group"
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
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    disk = shutil.disk_usage(existing)
    what = f"{folder}, {filesize.decimal(disk.free)} of {filesize.decimal(disk.total)} free"
    what += "" if existing == folder else " (it is made when something is kept)"
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding(about, State.GAP, f"{folder} cannot be written to", advice)
    return Finding(about, State.GAP, what, advice) if disk.free < _LITTLE else Finding(about, State.HERE, what)


def _store(store: str) -> Finding:
    """The feature store that is named."""
    try:
        folder = open_store(store).local("")
    except (StoreError, StorageError) as error:
        return Finding("feature store", State.FAULT, str(error), "name another place, or extract into this one")
    if folder is None:
        return Finding("feature store", State.HERE, f"{store} can be read")
    finding = _folder("feature store", folder, "make room there, or correct its permissions: nothing can be extracted")
    return finding if finding.state is State.HERE else replace(finding, state=State.FAULT)


def _prefect() -> Iterator[Finding]:
    """Prefect's profile, and whether the configured server answers; without one, a command starts its own."""
    from flows.server.configured_server import ServerError, check_server, without_password

    os.environ.setdefault("DO_NOT_TRACK", "1")
    try:
        from prefect.context import get_settings_context
        from prefect.settings import PREFECT_API_URL

        profile, configured = get_settings_context().profile.name, PREFECT_API_URL.value()
    except ValueError as error:  # pydantic's
        why = str(error).splitlines()[0]
        yield Finding("Prefect", State.GAP, f"its settings cannot be used: {why}", "correct its profile, or PREFECT_*")
        return
    if not configured:
        what = f"profile {profile}, no server is configured; every command starts one of its own and ends it"
        yield Finding("Prefect", State.HERE, what)
        return
    where = f"profile {profile}, server {without_password(configured)}"
    try:
        check_server(configured)
    except ServerError as error:
        yield Finding("Prefect", State.GAP, f"{where}: it cannot be used", str(error))
    else:
        yield Finding("Prefect", State.HERE, f"{where} answers")
