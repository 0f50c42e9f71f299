"""Threads that run one at a time, in an order that a test chooses: every way in which writers and gc can meet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from obstore.store import MemoryStore

from storyframes.features import FEATURES
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage import FileInfo, Storage, Update
from storyframes.store.storage.local_folder import LocalStorage
from storyframes.store.storage.object_store import ObjectStorage
from support.processes import HANG_S

_here = threading.local()
changes = [0]  # how often any of the stores was changed


def changing() -> None:
    """A turn before a change."""
    turn()
    changes[0] += 1


def turn() -> None:
    """A place where another thread may go on."""
    if actor := getattr(_here, "actor", None):
        actor.pause()


class _Actor(threading.Thread):
    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self.answer: Any = None
        self.ended = False

    def run(self) -> None:
        _here.actor = self
        self._go.acquire()
        try:
            self.answer = self._work()
        except Exception as error:
            self.answer = error
        self.ended = True
        self._paused.release()

    def pause(self) -> None:
        self._paused.release()
        self._go.acquire()

    def step(self) -> None:
        self._go.release()
        assert self._paused.acquire(timeout=HANG_S), "it waits for another that does not run"


def take_turns(
    works: list[Callable[[], Any]], choose: Callable[[list[int]], int], check: Callable[[], None] = lambda: None
) -> list[Any]:
    """Do all the works; ``choose`` says which of those that have not ended goes on. Gives what they gave or raised.

    ``check`` is called after every change.
    """
    seen = changes[0]
    actors = [_Actor(work) for work in works]
    for actor in actors:
        actor.start()
    while running := [number for number, actor in enumerate(actors) if not actor.ended]:
        actors[choose(running)].step()
        if changes[0] != seen:
            seen = changes[0]
            check()
    return [actor.answer for actor in actors]


def in_order(order: Iterable[int]) -> Callable[[list[int]], int]:
    """Who goes on, in this order; those that have ended are passed over, at last whoever is first."""
    order = iter(order)

    def choose(running: list[int]) -> int:
        return next((number for number in order if number in running), running[0])

    return choose


class TurnsInAFolder(LocalStorage):
    """A folder where every access is a turn; but not within an update, whose lock others would wait for."""

    def read(self, path: str) -> bytes | None:
        turn()
        return super().read(path)

    def replace(self, path: str, data: bytes) -> None:
        changing()
        super().replace(path, data)

    def update(self, path: str, change: Update, *, wait_s: float | None = None) -> None:
        changing()
        actor, _here.actor = getattr(_here, "actor", None), None
        try:
            super().update(path, change, wait_s=wait_s)
        finally:
            _here.actor = actor
        turn()

    def info(self, path: str) -> FileInfo | None:
        turn()
        return super().info(path)

    def files(self, prefix: str = "", unreadable: Any = None) -> dict[str, FileInfo]:
        turn()
        return super().files(prefix, unreadable)

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            changing()
            super().remove([path])

    def work_folder(self, path: str) -> Path:
        turn()
        folder = super().work_folder(path)
        turn()
        return folder

    def commit(self, folder: Path, path: str) -> None:
        changing()
        super().commit(folder, path)


class TurnsInMemory(ObjectStorage):
    """An object store in memory where every request is a turn, and of whose writers nobody knows whether they live."""

    def __init__(self) -> None:
        self.location = "memory://"
        self._store: Any = MemoryStore()

    def unused(self, path: str, newest_ns: int) -> Any:
        return nullcontext(True)

    def _get(self, path: str) -> Any:
        turn()
        return super()._get(path)

    def _put(self, path: str, data: Any, mode: Any = "overwrite") -> None:
        changing()
        super()._put(path, data, mode)

    def info(self, path: str) -> FileInfo | None:
        turn()
        return super().info(path)

    def _list(self, prefix: str = "") -> Any:
        turn()
        return super()._list(prefix)

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            changing()
            super().remove([path])

    def commit(self, folder: Path, path: str) -> None:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            self._put(f"{path}/{file.relative_to(folder).as_posix()}", file)


def publish(storage: Storage, number: int, session_id: str = "a") -> str:
    """A version whose values, and whose length, are its number."""
    with FeatureWriter(storage, session_id, FEATURES["frames"]) as out:
        out.write("time", np.full(number, float(number)))
        return out.publish(str(number), {}).version
