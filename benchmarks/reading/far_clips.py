"""Clips from an object store that is 30 ms and 100 MB/s away, with and without a folder that keeps what was read.

The first epoch is beside plain concurrent range requests for the same bytes, the second beside the same store on this
machine's disk; all interleaved. The server has a process of its own and shares the machine's processors.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore

from benchmarks.measure import cpu_seconds, print_machine
from benchmarks.reading.clip_data import ClipData
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


def asked_by(work: Callable[[], None]) -> list[tuple[str, int, int]]:
    """The ranges that it asks for."""
    asked, part = [], ObjectStorage.part

    def counted(self: ObjectStorage, path: str, start: int, stop: int) -> object:
        asked.append((path, start, stop))
        return part(self, path, start, stop)

    ObjectStorage.part = counted  # type: ignore[assignment]
    try:
        work()
    finally:
        ObjectStorage.part = part  # type: ignore[method-assign]
    return asked


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

            ranges = asked_by(fresh)
            kept, near = FeatureStore(URL, options, cache=cache), FeatureStore(data.features)
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
        f"{len(ranges)} requests of {nbytes / 1e6:,.0f} MB in all"
    )
    for name in ways:
        beside, target = {
            "first epoch, cache": ("plain range requests", FIRST),
            "second epoch, cache": ("local store", SECOND),
        }.get(name, ("", None))
        clips = CLIPS / statistics.median(wall[name])
        line = f"  {name:<22} {clips:8,.0f} clips/s {CLIPS / statistics.median(cpu[name]):8,.0f} clips/CPU-s"
        if beside:
            ratio = statistics.median(wall[beside]) / statistics.median(wall[name])
            of_cpu = statistics.median(cpu[beside]) / statistics.median(cpu[name])
            line += f"  {ratio:.2f} of {beside} (CPU {of_cpu:.2f}), wanted {target:.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
