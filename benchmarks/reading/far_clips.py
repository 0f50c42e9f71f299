"""Clips from an object store that is 30 ms and 100 MB/s away, with and without a folder that keeps what was read.

The first epoch is beside plain concurrent range requests for the same bytes, the second beside the same store on this
machine's disk; all interleaved. The server has a process of its own and shares the machine's processors. Beside the
first epoch is also what it can reach: most bytes are those of the first batches, so that the last ones have only to be
copied, while the line carries nothing.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import obstore

from benchmarks.measure import cpu_seconds, print_machine
from benchmarks.performance_page import record
from benchmarks.reading.clip_data import CHUNK_ROWS, WINDOW, ClipData
from benchmarks.reading.slow_object_store import BUCKET, slow_object_store
from storyframes import ClipDataset, ClipLoader, FeatureStore, SessionBlockSampler, UniformSampler
from storyframes.store.far_rows import REQUESTS_AT_ONCE
from storyframes.store.storage.object_store import ObjectStorage

LATENCY_S, BYTES_PER_S = 0.03, 100e6
BATCH, CLIPS, THREADS, RUNS = 64, 1_024, 4, 3
FIRST, SECOND = 0.90, 0.85
URL = f"s3://{BUCKET}/features"


def epoch(store: FeatureStore, blocks: bool = False) -> None:
    """So many clips of vision, by ClipLoader."""
    dataset = ClipDataset(store, ["vision"])
    sampler = SessionBlockSampler(dataset, seed=0) if blocks else UniformSampler(dataset, seed=0)
    loader = ClipLoader(dataset, BATCH, sampler, threads=THREADS)
    for number, batch in enumerate(loader, 1):
        assert batch["vision"].shape[1:] == (120, 2762)
        if number * BATCH >= CLIPS:
            return


def asked_by(work: Callable[[], None]) -> tuple[list[tuple[str, int, int]], float]:
    """The ranges that it asks for, and after how many seconds it asks for the first."""
    asked, part = [], ObjectStorage.part
    began, first_s = time.perf_counter(), 0.0

    def counted(self: ObjectStorage, path: str, start: int, stop: int) -> object:
        nonlocal first_s
        first_s = first_s or time.perf_counter() - began
        asked.append((path, start, stop))
        return part(self, path, start, stop)

    ObjectStorage.part = counted  # type: ignore[assignment]
    try:
        work()
    finally:
        ObjectStorage.part = part  # type: ignore[method-assign]
    return asked, first_s


def least_s(dataset: ClipDataset, first_s: float, line_s: float, copying_s: float) -> float:
    """How long a first epoch takes at the least: batches in their order, each copied once its bytes are here.

    Args:
        dataset: of the clips.
        first_s: until the first bytes are asked for.
        line_s: what carrying all bytes takes.
        copying_s: what reading all clips takes where the bytes are here.
    """
    chosen = list(islice(UniformSampler(dataset, seed=0), CLIPS))
    clips = list(dataset.clips[["session_id", "start_frame"]].iloc[chosen].itertuples(index=False))
    here: set[tuple[str, int]] = set()
    new = []
    for number in range(0, CLIPS, BATCH):
        before = len(here)
        for session, start in clips[number : number + BATCH]:
            here |= {(session, chunk) for chunk in range(start // CHUNK_ROWS, -(-(start + WINDOW) // CHUNK_ROWS))}
        new.append(len(here) - before)
    carried = copied = first_s
    for chunks in new:
        carried += line_s * chunks / len(here)
        copied = max(copied, carried) + copying_s * BATCH / CLIPS
    return copied


def plain(options: dict[str, object], ranges: list[tuple[str, int, int]]) -> None:
    """The same bytes, by as many threads, and nothing done with them."""
    store = obstore.store.from_url(URL, **options)
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for _ in pool.map(lambda one: obstore.get_range(store, one[0], start=one[1], end=one[2]), ranges):
            pass


def main() -> None:
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        data = ClipData(root)
        data.write()
        with slow_object_store(root, LATENCY_S, BYTES_PER_S) as options:
            cache = root / "cache"

            def fresh() -> None:
                shutil.rmtree(cache, ignore_errors=True)
                epoch(FeatureStore(URL, options, cache=cache))

            ranges, first_s = asked_by(fresh)
            kept, near = FeatureStore(URL, options, cache=cache), FeatureStore(data.features)
            dataset = ClipDataset(near, ["vision"])
            ways: dict[str, Callable[[], None]] = {
                "plain range requests": lambda: plain(options, ranges),
                "first epoch, cache": fresh,
                "local store": lambda: epoch(near),
                "second epoch, cache": lambda: epoch(kept),
                "no cache, random": lambda: epoch(FeatureStore(URL, options)),
                "no cache, blocks": lambda: epoch(FeatureStore(URL, options), blocks=True),
            }
            cpu: dict[str, list[float]] = {name: [] for name in ways}
            wall: dict[str, list[float]] = {name: [] for name in ways}
            for run in range(RUNS + 1):
                for name, work in ways.items():
                    began, used = time.perf_counter(), cpu_seconds()
                    work()
                    if run:  # the first is a warm-up
                        wall[name].append(time.perf_counter() - began)
                        cpu[name].append(cpu_seconds() - used)
    nbytes = sum(stop - start for _, start, stop in ranges)
    print(
        f"{CLIPS} clips of vision, {LATENCY_S * 1000:g} ms, {BYTES_PER_S / 1e6:g} MB/s, "
        f"{len(ranges)} requests of {nbytes / 1e6:,.0f} MB in all; the first after {first_s:.2f} s"
    )
    clock = {name: statistics.median(times) for name, times in wall.items()}
    used_s = {name: statistics.median(times) for name, times in cpu.items()}
    line_s, copying_s = clock["plain range requests"], clock["local store"]
    reachable = line_s / least_s(dataset, first_s, line_s, copying_s)
    rows = []
    for name in ways:
        beside, target = {
            "first epoch, cache": ("plain range requests", f"{FIRST:.2f}; it can be {reachable:.2f}"),
            "second epoch, cache": ("local store", f"{SECOND:.2f}"),
        }.get(name, ("", ""))
        of = f"{clock[beside] / clock[name]:.2f} ({used_s[beside] / used_s[name]:.2f}) of {beside}" if beside else ""
        rows.append([name, f"{CLIPS / clock[name]:,.0f}", f"{CLIPS / used_s[name]:,.0f}", of, target])
        print("  " + " | ".join(rows[-1]), flush=True)
    columns = ("way", "clips/s", "clips per CPU-s", "by the clock (CPU)", "wanted")
    record("clips-from-an-object-store", columns, rows, ["obstore", "torch"])


if __name__ == "__main__":
    main()
