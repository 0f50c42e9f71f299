"""One recording in one line, in a process of its own: the first call, the second, and openSMILE by itself beside them.

``--study`` measures ``storyframes extract`` of a study of the same recording as well, with its server and its workers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import interleave, print_machine
from tasks.media.synthesize import SyntheticStudy, write_study

HERE = Path(__file__).parents[2]
SECONDS = 5
ONE_LINE = "import sys, storyframes; storyframes.extract(sys.argv[1], 'opensmile').to_pandas()"
BY_ITSELF = """
import sys, av, numpy, opensmile
with av.open(sys.argv[1]) as file:
    resampler = av.AudioResampler("flt", "mono", 16000)
    blocks = [part.to_ndarray()[0] for frame in file.decode(audio=0) for part in resampler.resample(frame)]
smile = opensmile.Smile(opensmile.FeatureSet.ComParE_2016, opensmile.FeatureLevel.LowLevelDescriptors)
smile.process_signal(numpy.concatenate(blocks), 16000)
"""


def _run(arguments: list[str], cache: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
    subprocess.run(arguments, cwd=HERE, check=True, env=environment, stdout=subprocess.DEVNULL)


def _candidates(folder: Path, study: bool) -> dict[str, Callable[[], object]]:
    write_study(folder / "study", SyntheticStudy(sessions=1, seconds=SECONDS))
    (video,) = (folder / "study").rglob("*.avi")
    python, cache, fresh = sys.executable, folder / "cache", folder / "fresh"

    def first() -> None:
        _run([python, "-c", ONE_LINE, str(video)], fresh)
        shutil.rmtree(fresh)

    found: dict[str, Callable[[], object]] = {
        "imports alone": lambda: _run([python, "-c", "import flows.one_file"], cache),
        "first call": first,
        "second call": lambda: _run([python, "-c", ONE_LINE, str(video)], cache),
        "openSMILE by itself": lambda: _run([python, "-c", BY_ITSELF, str(video)], cache),
    }
    if study:

        def extract() -> None:
            command = [
                "-m",
                "flows.cli",
                "extract",
                str(folder / "study"),
                str(folder / "store"),
                "--features",
                "opensmile",
            ]
            _run([python, *command], cache)
            shutil.rmtree(folder / "store")

        found["storyframes extract of a study"] = extract
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--study", action="store_true")
    arguments = parser.parse_args()
    print_machine()
    print(f"opensmile of {SECONDS} s, processes of their own, median of {arguments.runs}, interleaved")
    with tempfile.TemporaryDirectory() as folder:
        for name, took in interleave(_candidates(Path(folder), arguments.study), arguments.runs).items():
            print(f"  {name:<32} {took.wall_s:6.2f} s, {took.cpu_s:6.2f} CPU-s")


if __name__ == "__main__":
    main()
