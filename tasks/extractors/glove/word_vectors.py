"""GloVe's published text form, read once into a memory-mapped gensim KeyedVectors that all workers share.

The text form is one word and its numbers a line. A word may itself hold spaces (``. . .`` in glove.840B), so a line is
split from its right end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from storyframes.store.storage.files import flush_tree
from storyframes.store.storage.locks import locked
from storyframes.store.storage.scratch import scratch_beside
from tasks.models.digests import model_digest, user_cache

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

_CONVERSION_S = 3600  # of the largest vectors on a slow disk
_FILE = "vectors.kv"


class WordVectorsError(Exception):
    """The vector file is damaged; the message names the line."""


def load_word_vectors(path: Path, progress: Callable[[int, int], None] = lambda *_: None) -> KeyedVectors:
    """The vectors of a GloVe text file, mapped from a binary form that is made on first use.

    Args:
        path: ``glove.*.txt``.
        progress: called with (bytes read, bytes in all) while the binary form is made.

    Raises:
        WordVectorsError: a line has another number of values than the first, or something that is no number.
    """
    from gensim.models import KeyedVectors

    digest = model_digest(path)
    folder = user_cache() / "word-vectors" / digest[:32]
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not folder.is_dir():
        with locked(
            folder.parent / f".{folder.name}.lock", _CONVERSION_S
        ):  # one worker converts, the others wait for it
            if not folder.is_dir():
                _convert(path, folder, progress)
    return KeyedVectors.load(str(folder / _FILE), mmap="r")


def _convert(path: Path, folder: Path, progress: Callable[[int, int], None]) -> None:
    from gensim.models import KeyedVectors

    with scratch_beside(folder) as scratch:
        count, width = _measure(path)
        vectors = np.lib.format.open_memmap(scratch / "raw.npy", mode="w+", dtype=np.float32, shape=(count, width))
        words = _fill(path, vectors, progress)
        keyed = KeyedVectors(width)
        keyed.index_to_key = list(words)
        keyed.key_to_index = words
        keyed.vectors = vectors[: len(words)]
        keyed.save(str(scratch / _FILE), sep_limit=0)
        del keyed, vectors
        (scratch / "raw.npy").unlink()
        flush_tree(scratch)
        os.rename(scratch, folder)


def _measure(path: Path) -> tuple[int, int]:
    """Lines of the file, and values of a line (its first: every further one must agree)."""
    with path.open("rb") as file:
        first = file.readline().rstrip().split(b" ")
        width = 0
        while width < len(first) and _is_number(first[-1 - width]):
            width += 1
        width = min(width, len(first) - 1)  # the word may be a number itself
        if width < 2:
            raise WordVectorsError(f"{path.name}, line 1: is not a word and its numbers")
        return 1 + sum(1 for _ in file), width


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fill(path: Path, vectors: np.ndarray, progress: Callable[[int, int], None]) -> dict[str, int]:
    width, total, done = vectors.shape[1], path.stat().st_size, 0
    words: dict[str, int] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            done += len(line)
            word, *values = line.rstrip(b"\n").rstrip().rsplit(b" ", width)
            try:
                row = np.array(values, dtype=np.float32)
            except ValueError:
                raise WordVectorsError(f"{path.name}, line {number}: has something that is no number") from None
            if len(row) != width:
                raise WordVectorsError(f"{path.name}, line {number}: has {len(row)} values, line 1 has {width}")
            text = word.decode("utf-8", errors="replace")
            if text not in words:  # a repeated word keeps its first vector
                vectors[len(words)] = row
                words[text] = len(words)
            if number % 20_000 == 0:
                progress(done, total)
    return words
