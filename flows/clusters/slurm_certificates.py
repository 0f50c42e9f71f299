"""The certificates of one run on Slurm: in files on the file system that the nodes share, readable by nobody else.

The jobs' command lines, which everybody can see, name the files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from flows.clusters.needs import ClusterError

if TYPE_CHECKING:
    from distributed.security import Security

_PREFIX = "storyframes-tls-"
_OLD_S = 3600  # a folder younger than that may be of a run that has not locked it yet


@contextlib.contextmanager
def certificates_in_files(shared_directory: str | None) -> Iterator[Security]:
    """New certificates, in a folder of their own that goes with the block; folders of runs that were killed go as well.

    Args:
        shared_directory: where to make the folder; None for ``.storyframes`` in the home.

    Raises:
        ClusterError: they cannot be written there.
    """
    from distributed.security import Security

    shared = Path(shared_directory) if shared_directory else Path.home() / ".storyframes"
    temporary = Security.temporary()
    try:
        shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        _sweep(shared)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=shared))
    except OSError as error:
        raise ClusterError(
            f"{shared}: the certificates of this run cannot be written there ({error.strerror}): name a folder that "
            "the nodes share as shared_directory in the cluster's file"
        ) from None
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, lock)
        with contextlib.suppress(OSError):  # a file system without locks: nobody sweeps there either
            fcntl.flock(lock, fcntl.LOCK_EX)
        cert = _write(folder / "cert.pem", temporary.tls_ca_file)
        key = _write(folder / "key.pem", temporary.tls_client_key)
        roles = {f"tls_{role}_{kind}": path for role in _ROLES for kind, path in (("cert", cert), ("key", key))}
        yield Security(require_encryption=True, tls_ca_file=cert, **roles)


_ROLES = ("client", "scheduler", "worker")


def _write(path: Path, text: str) -> str:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return str(path)


def _sweep(shared: Path) -> None:
    """Remove what runs that were killed have left: nobody holds its lock any more."""
    for folder in shared.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime < _OLD_S:
                continue
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
