"""openSMILE as the extractor runs it, on sound that streams, beside one call of the library on the whole signal.

    python -m benchmarks.extracting.opensmile [--runs 5]

Processor time on two minutes of the demo study's speech; memory on 29 minutes of it, each in a process of its own.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import opensmile

from benchmarks.measure import interleave, peak_memory_gb, print_machine
from tasks.extractors.opensmile.feature_sets import SAMPLE_RATE, FeatureSet
from tasks.extractors.opensmile.stream import DescriptorStream
from tasks.media.sound import read_audio

_OURS, _LIBRARY = "streaming", "one call"


def spoken(minutes: float) -> Iterator[np.ndarray]:
    """The demo study's recordings over and over, in blocks as they are decoded."""
    videos = sorted((Path(__file__).parents[2] / "demo/study/videos").glob("*.avi"))
    left = round(60 * minutes * SAMPLE_RATE)
    for video in itertools.cycle(videos):
        for block in read_audio(video, SAMPLE_RATE):
            yield block.samples[:left]
            left -= len(block.samples)
            if left <= 0:
                return


def one_call(sound: Iterator[np.ndarray]) -> np.ndarray:
    """The library's rows for the whole signal."""
    smile = opensmile.Smile(opensmile.FeatureSet.ComParE_2016, opensmile.FeatureLevel.LowLevelDescriptors)
    return smile.process_signal(np.concatenate(list(sound)), SAMPLE_RATE).to_numpy(np.float32)


def streaming(sound: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Ours, in blocks."""
    return DescriptorStream(FeatureSet.COMPARE_2016).describe(sound)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments, _ = parser.parse_known_args()
    jobs = {_LIBRARY: one_call, _OURS: streaming}
    if arguments.memory_of:
        for _ in jobs[arguments.memory_of](spoken(29)):
            pass
        status = Path("/proc/self/status").read_text()
        print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))
        return
    print_machine()
    sound = list(spoken(2))
    np.testing.assert_array_equal(np.concatenate(list(streaming(iter(sound)))), one_call(iter(sound)))
    measured = interleave({name: lambda job=job: list(job(iter(sound))) for name, job in jobs.items()}, arguments.runs)
    print("openSMILE, ComParE 2016   CPU-s/min  x one call  peak GB of 29 minutes")
    for name, result in measured.items():
        ratio = result.cpu_s / measured[_LIBRARY].cpu_s
        memory = peak_memory_gb("benchmarks.extracting.opensmile", name)
        print(f"  {name:<22} {result.cpu_s / 2:10.2f} {ratio:11.2f} {memory:8.2f}")


if __name__ == "__main__":
    main()
