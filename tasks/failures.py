"""Why an extraction failed, as far as the reason may be stored: no text of an error may quote a participant."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from storyframes.installation import install_line
from storyframes.store.publish import PublishError
from storyframes.store.storage import Storage, StorageError
from tasks.extractors.base import ExtractionError, Extractor, MissingInputError
from tasks.tools.disk_space import NO_ROOM, no_room_for_temporary_files

_OURS = ("storyframes", "tasks")  # packages whose own messages never quote what an input says


def explain(storage: Storage, extractor: Extractor[Any], error: Exception) -> str:
    """Why an extractor gave nothing, as far as the reason may be stored.

    Of a private feature's errors only texts that this program has written itself are given: any other may quote what a
    participant said.
    """
    may_tell = not extractor.is_private or _is_ours(error)
    match error:
        case MissingInputError() | ExtractionError() | PublishError() | StorageError() if may_tell:
            return str(error)
        case ModuleNotFoundError(name=str(library)):
            return f"the library {library!r} is not installed where it was extracted: {install_line('pipeline')}"
        case OSError():
            return _explain_os_error(error, storage, name_file=may_tell)
        case _ if extractor.is_private:
            return f"{_where(error)} (its text is withheld: {extractor.name} reads words, and it may quote them)"
        case _:
            return f"{_where(error)}: {str(error)[:300]}"


def _explain_os_error(error: OSError, storage: Storage, *, name_file: bool) -> str:
    if error.errno in NO_ROOM:
        folder = storage.local("")
        if folder is None:  # a version is made on this machine and sent when it is whole
            return f"{no_room_for_temporary_files()}; nothing was published"
        return f"the disk of the feature store is full: make room at {folder} and extract again; nothing was published"
    where = f"{Path(error.filename).name}: " if name_file and isinstance(error.filename, str) else ""
    own_words = str(error)[:300] if name_file else ""
    return f"{where}{os.strerror(error.errno) if error.errno else own_words or error_kind(error)}"


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in reversed(frames) if Path(frame.filename).is_file()), frames[0])
    return f"unexpected {error_kind(error)} at {Path(frame.filename).name}:{frame.lineno}"


def error_kind(error: BaseException) -> str:
    """What error it is, by a name that is Python's or ours: one of a plug-in's own may be made of words."""
    return next(cls.__name__ for cls in type(error).__mro__ if _root(cls.__module__) in ("builtins", *_OURS))


def _is_ours(error: Exception) -> bool:
    """Whether this program itself raised it, with no other code on the way: so it wrote its text."""
    step: TracebackType | None = error.__traceback__
    if step is None:
        return False
    while step:
        if _root(str(step.tb_frame.f_globals.get("__name__", ""))) not in _OURS:
            return False
        step = step.tb_next
    return True


def _root(module: str) -> str:
    return module.partition(".")[0]
