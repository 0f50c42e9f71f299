"""The folder in which an external program works for one session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from storyframes.store.storage.scratch import scratch_folder
from tasks.extractors.base import ExtractionError
from tasks.tools.disk_space import NO_ROOM, no_room_for_temporary_files
from tasks.tools.tool_process import Reaper, reaper


@contextmanager
def tool_folder(purpose: str, *folders: str) -> Iterator[tuple[Path, Reaper]]:
    """A private folder with these folders in it, which is removed afterwards, also when this process is killed.

    Raises:
        ExtractionError: the disk is full.
    """
    with ExitStack() as stack:
        with room_for_temporary_files():
            root = stack.enter_context(scratch_folder(purpose))
            for name in folders:
                (root / name).mkdir()
            reap = stack.enter_context(reaper(root))
        yield root, reap


@contextmanager
def room_for_temporary_files() -> Iterator[None]:
    """Makes a full disk an ExtractionError that says which."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise ExtractionError(no_room_for_temporary_files()) from None
        raise
