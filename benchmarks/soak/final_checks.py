"""The checks at the end of a soak: a complete and sound store, the undisturbed store's values, nothing left behind."""

from __future__ import annotations

import getpass
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from benchmarks.soak.soak_paths import SoakPaths
from benchmarks.soak.soak_processes import Holdings, of_the_soak
from storyframes.store import record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import ATTEMPT, CLIPS_NOTE, INPUTS, open_store
from storyframes.store.storage.local_folder import LOCK_SUFFIX
from tasks.tools.patience import Patience

_STALLED_S, _LONGEST_S = 60, 600  # reapers, and what notices the loss of its parent, end in some CPU-seconds

# What libraries make once on a machine, for all their processes, and leave there empty.
_LIBRARIES = {f"torchinductor_{getpass.getuser()}"}


def differences(paths: SoakPaths, sessions: tuple[str, ...]) -> Iterator[str]:
    """What is missing in the soaked store, or has other values than in the undisturbed one, array by array."""
    soaked, reference = FeatureStore(paths.store), FeatureStore(paths.reference)
    for session_id in sessions:
        for feature in paths.features:
            if not soaked.has(session_id, feature):
                yield f"{session_id}/{feature} is missing"
    entries = {(each.session_id, each.feature): each for each in record_status.scan(open_store(paths.store))}
    for right in record_status.scan(open_store(paths.reference)):
        name = f"{right.session_id}/{right.feature}"
        entry = entries.pop((right.session_id, right.feature), None)
        if entry is None or entry.record is None or right.record is None:
            yield f"{name} is not in the store"
        elif entry.attempt:
            yield f"{name}: the last attempt {entry.attempt.status}: {entry.attempt.reason}"
        elif entry.record.arrays != right.record.arrays or entry.record.fingerprint != right.record.fingerprint:
            yield f"{name} has other arrays, or another fingerprint"
        else:
            for array in right.record.arrays:
                read, expected = (
                    store.read(right.session_id, right.feature, array=array) for store in (soaked, reference)
                )
                if read.tobytes() != expected.tobytes():
                    yield f"{name}: {array} has OTHER VALUES than the undisturbed extraction"
    for session_id, feature in entries:
        yield f"{session_id}/{feature} is in the store, and not in the undisturbed one"
    try:
        pd.testing.assert_frame_equal(soaked.clips(), reference.clips())
    except AssertionError as error:
        yield f"the clip index is another: {error}"


def stray_files(paths: SoakPaths) -> Iterator[str]:
    """Files of the store, after ``gc``, that the undisturbed store has no counterpart of.

    Caches, and the locks of their updates, are no matter: of files as new as a soak's study no digest may be kept yet,
    and what the clip index was made of is noted by a run that found everything made. Nor is the lock of a failed
    attempt, which outlives its record: locks are kept, and only the disturbed store had attempts that failed.
    """
    caches = {name for cache in (INPUTS, CLIPS_NOTE) for name in (cache, f".{cache}{LOCK_SUFFIX}")}
    for path in sorted((_files(paths.store) ^ _files(paths.reference)) - caches):
        if Path(path).name != f".{ATTEMPT}{LOCK_SUFFIX}":
            yield f"in one of the stores only: {path}"


def _files(root: Path) -> set[str]:
    """The paths of a store, with VERSION for each current version."""
    versions = {entry.record.version for entry in record_status.scan(open_store(root)) if entry.record}
    paths = set()
    for path in root.rglob("*"):
        parts = ["VERSION" if part in versions else part for part in path.relative_to(root).parts]
        paths.add("/".join(parts))
    return paths


def leftovers(paths: SoakPaths, holdings: Holdings) -> Iterator[str]:
    """Processes, listening sockets, temporary files that outlived the soak."""
    patience = Patience(
        lambda: [process.pid for process in of_the_soak(paths.folder)], stalled_s=_STALLED_S, limit_s=_LONGEST_S
    )
    while (processes := of_the_soak(paths.folder)) and not patience.why_over():
        time.sleep(0.2)
    for process in processes:
        yield f"process {process.pid} lives, {process.role}: {process.line[:200]}"
    yield from holdings.left()
    for folder in (paths.temporary, paths.folder / "elsewhere", paths.folder / "run"):
        for path in sorted(folder.rglob("*")):
            if path.relative_to(folder).as_posix() not in _LIBRARIES:
                yield f"left: {path.relative_to(paths.folder)}"
    for path in sorted(paths.folder.rglob("*")):
        if stat.S_ISSOCK(path.lstat().st_mode):
            yield f"socket left: {path.relative_to(paths.folder)}"
    for path in sorted(paths.cache.rglob(".*")):
        if path.is_dir():
            yield f"half-made in the cache: {path.relative_to(paths.folder)}"
