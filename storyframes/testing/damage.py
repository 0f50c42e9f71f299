"""Spoiling a recording's files, as broken copies, dying disks and wrong files do."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "cut off in the middle": lambda content: content[: len(content) // 2],
    "garbage": lambda content: Random(len(content)).randbytes(len(content)),
    "zero bytes": lambda content: bytes(len(content)),
    "empty": lambda _: b"",
}


def damaged(files: Mapping[str, Path], kind: str, damage: str, folder: Path) -> dict[str, Path]:
    """The files with a damaged copy of one of them.

    Args:
        files: by kind.
        kind: which is damaged.
        damage: how, one of :data:`DAMAGES`.
        folder: where the copy is made.
    """
    target = folder / files[kind].name
    target.write_bytes(DAMAGES[damage](files[kind].read_bytes()))
    os.utime(target, ns=(0, 0))
    return {**files, kind: target}
