"""Admitting workers to a run: each is asked whether it can do the work, those that are there and those that join later.

Dask has a new worker run the set-up of a plug-in before it hears of any task. One that cannot do the work leaves then.

An :class:`Installation` is what a process works with: the code, Python, the libraries that decide values. A version's
name does not say which code it is: two checkouts, or a wheel and a checkout, share it.
"""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import platform
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from distributed import Worker, WorkerPlugin
from distributed.core import Status

import storyframes
from flows.clusters.connection import ClusterError, Connection
from storyframes.store.storage.files import sha256_file
from tasks.extractors.base import distribution_version

Ask = Callable[[Worker], list[str]]
"""Runs in a worker; gives in words why it cannot do the work, nothing where it can."""

_ROOMS = ("storyframes", "tasks", "flows")
# What decides values; not the report's pages, nor what editors leave.
_CODE = {".py", ".conf", ".inc", ".json", ".toml"}


@dataclass(frozen=True)
class Installation:
    """What a process works with."""

    version: str  # of storyframes
    code: str  # SHA-256 over the names and contents of its files as they are on the disk
    python: str  # major and minor version: tasks travel pickled
    # versions by distribution, without the part that names a build (``+cu124``): a GPU's is another
    libraries: Mapping[str, str]
    # by package of a plug-in that does the work, the digest of its code; "" where it is not installed
    plug_ins: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_this_process(cls, libraries: Iterable[str], plug_ins: Iterable[str] = ()) -> Self:
        versions = {name: distribution_version(name).partition("+")[0] for name in sorted(set(libraries))}
        python = ".".join(platform.python_version_tuple()[:2])
        plug_in_code = {package: _package_digest(package) for package in plug_ins}
        return cls(storyframes.__version__, _code_digest(), python, versions, plug_in_code)

    def differences_here(self) -> list[str]:
        """In what this process differs from the one that this describes, which is the flow's."""
        here = self.of_this_process(self.libraries, self.plug_ins)
        found = []
        if here.version != self.version:
            found.append(f"it has storyframes {here.version}, the flow has {self.version}: install the same there")
        elif here.code != self.code:
            found.append(
                f"its storyframes {here.version} is other code than the flow's (digest {here.code[:12]}, the flow's is "
                f"{self.code[:12]}): install the same wheel or commit there"
            )
        if here.python != self.python:
            found.append(f"it has Python {here.python}, the flow has {self.python}")
        for name, version in self.libraries.items():
            if here.libraries[name] != version:
                found.append(
                    f"it has {name} {here.libraries[name]}, the flow has {version}: values depend on it, install the "
                    "same there (constraints.txt)"
                )
        for package, code in self.plug_ins.items():
            if not here.plug_ins[package]:
                found.append(f"it lacks the plug-in {package}: install the same as the flow's there")
            elif here.plug_ins[package] != code:
                found.append(
                    f"its plug-in {package} is other code than the flow's (digest {here.plug_ins[package][:12]}, the "
                    f"flow's is {code[:12]}): install the same wheel or commit there"
                )
        return found


def plug_in_problems(installation: Installation, question: bytes, worker: Worker) -> list[str]:
    """Why this worker cannot do a plug-in's work; for :func:`flows.clusters.admission.admit_workers`.

    Args:
        question: a pickled function without arguments that gives such reasons; only a worker that has the plug-in can
            read it.
    """
    problems = installation.differences_here()
    try:
        ask = pickle.loads(question)  # noqa: S301 - the flow packed it
    except ImportError as error:
        return problems or [f"it lacks {error.name}: install the same as the flow's there"]
    return problems + list(ask())


@cache
def _package_digest(package: str) -> str:
    """Of the code of an installed package; "" where there is none."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return _digest(Path(folders[0]), (".",)) if folders else ""


@cache
def _code_digest() -> str:
    return _digest(Path(storyframes.__file__).parent.parent, _ROOMS)


def _digest(root: Path, folders: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*") if path.suffix in _CODE):
        digest.update(f"{path.relative_to(root).as_posix()} {sha256_file(path)}\n".encode())
    return digest.hexdigest()


@contextmanager
def admit_workers(connection: Connection, ask: Ask, warn: Callable[[str], None]) -> Iterator[None]:
    """Ask the workers that are there, and while the block runs each that joins.

    Args:
        ask: what they are asked; sent to them.
        warn: called with each problem of a worker that joined later, once; from a thread of its own.

    Raises:
        ClusterError: a worker that is there cannot do the work; with every problem and who has it.
    """
    with connection.client() as client:
        answers = client.run(_answer, ask, on_error="return")
        refuse({worker: answer[1] if isinstance(answer, tuple) else answer for worker, answer in answers.items()})
        name = f"storyframes-{secrets.token_hex(8)}"
        said: set[str] = set()

        def refused(event: tuple[float, tuple[str, list[str]]]) -> None:
            worker, problems = event[1]
            for problem in problems:
                if problem not in said:
                    said.add(problem)
                    warn(f"a worker that joined takes no work: {problem} ({worker})")

        client.subscribe_topic(name, refused)
        admitted = frozenset(answer[0] for answer in answers.values())
        client.register_plugin(_Admission(name, ask, admitted, client.id), name=name)
        try:
            yield
        finally:
            with suppress(Exception):  # the scheduler is gone, and the plug-in with it
                client.unregister_worker_plugin(name)


def refuse(answers: Mapping[str, object]) -> None:
    """Raise what the workers answered, each problem once, with the workers that have it."""
    problems: dict[str, list[str]] = {}
    for worker, answer in sorted(answers.items()):
        for problem in answer if isinstance(answer, list) else [_not_asked(answer)]:
            problems.setdefault(problem, []).append(worker)
    if problems:
        lines = [f"  {problem} ({_shown(workers)})" for problem, workers in problems.items()]
        raise ClusterError("\n".join(["this cluster's workers cannot do the work:", *lines]))


def _not_asked(answer: object) -> str:
    return f"it cannot be asked: {type(answer).__name__} (has it another version of storyframes?)"


def _shown(workers: list[str]) -> str:
    return workers[0] if len(workers) == 1 else f"{workers[0]} and {len(workers) - 1} more"


def _answer(ask: Ask, dask_worker: Worker) -> tuple[str, list[str]]:
    """Which process this is, and why it cannot do the work."""
    return dask_worker.id, ask(dask_worker)


class _Admission(WorkerPlugin):
    """Lets a worker that joins do the run's work, or makes it leave.

    Args:
        topic: of the events that the run receives.
        ask: see :data:`Ask`.
        admitted: the processes that were asked already.
        client: of the run; where the scheduler has lost it, the run has ended without removing the plug-in.
    """

    def __init__(self, topic: str, ask: Ask, admitted: frozenset[str], client: str) -> None:
        self.topic = topic
        self.ask = ask
        self.admitted = admitted
        self.client = client

    async def setup(self, worker: Worker) -> None:
        if worker.id in self.admitted:
            return
        try:
            problems = await asyncio.to_thread(self.ask, worker)
        except Exception as error:
            problems = [_not_asked(error)]
        if not problems or await self._has_ended(worker):
            return
        worker.status = Status.closing_gracefully  # it begins no task from now on
        worker.log_event(self.topic, (worker.address, problems))
        # Not waited for: the worker's nanny answers no request before the worker is set up.
        worker.loop.add_callback(_leave, worker)

    async def _has_ended(self, worker: Worker) -> bool:
        events = await worker.scheduler.events(topic=self.client)
        return bool(events) and events[-1][1].get("action") == "remove-client"


async def _leave(worker: Worker) -> None:
    """Give back the tasks that the scheduler may have given to the worker already, without counting them as failed."""
    await worker.scheduler.retire_workers(workers=[worker.address], close_workers=False, remove=True)
    await worker.close(nanny=True, reason="it cannot do the work of a run of storyframes")
