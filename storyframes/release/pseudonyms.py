"""New numbers for ids, in a random order; the key that leads back is a file of its own, for its owner alone."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from storyframes.release.settings import ReleaseError
from storyframes.store.storage.durable import write_atomically

KEY = "storyframes_release_key"
"""The key of the JSON by which a key file is known, wherever it lies."""
_SIGNS = {"sessions": "s", "participants": "p", "stories": "story", "targets": "target", "phases": "phase"}


@dataclass
class Key:
    """Which number each id has.

    Attributes:
        seed: 32 random bytes in hexadecimal digits; without it nobody can tell the order.
        names: by kind and id the new name.
    """

    seed: str = field(default_factory=lambda: secrets.token_hex(32))
    names: dict[str, dict[str, str]] = field(default_factory=lambda: {kind: {} for kind in _SIGNS})

    def number(self, kind: str, ids: Iterable[str]) -> None:
        """Give a name to each id that has none yet, in a random order."""
        there = self.names[kind]
        new = sorted({one for one in ids if one not in there})
        random.Random(f"{self.seed}:{kind}:{len(there)}").shuffle(new)
        for number, one in enumerate(new, len(there) + 1):
            there[one] = f"{_SIGNS[kind]}{number:04d}"

    def digest(self, *texts: str) -> str:
        """64 hexadecimal digits that are always the same for these texts, and tell nobody without the key anything."""
        return hmac.new(bytes.fromhex(self.seed), "\0".join(texts).encode(), hashlib.sha256).hexdigest()

    def write(self, path: Path) -> None:
        """Keep it, durable and for the owner alone."""
        content = {KEY: 1, "seed": self.seed, "names": self.names}
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")


def read_key(path: Path) -> Key:
    """The key of an earlier release, so that the same ids get the same numbers again; a new one where there is none.

    Raises:
        ReleaseError: something else is there.
        OSError: it cannot be read.
    """
    try:
        content = json.loads(path.read_bytes())
        if content[KEY] != 1:
            raise ReleaseError(f"{path}: is the key of a newer storyframes: update it")
        names = {kind: {str(one): str(name) for one, name in content["names"][kind].items()} for kind in _SIGNS}
        bytes.fromhex(content["seed"])
    except FileNotFoundError:
        return Key()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ReleaseError(f"{path}: is no key of a release; give another --key") from None
    return Key(content["seed"], names)
