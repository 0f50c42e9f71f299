"""``python -m benchmarks [NAME ...]``: every benchmark, or those named, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

# The cheap ones first. In one process the threads of one library would still be there when the next is measured.
NAMES = (
    "imports",
    "one_file",
    "clip_index",
    "agreement",
    "coverage",
    "planning",
    "scores",
    "train",
    "openface_csv",
    "clips",
    "clip_grids",
    "far_clips",
    "opensmile",
    "resnet50",
    "bfloat16",
    "gpu",
    "embed_image",
    "embed_audio",
    "dope",
    "dope_layers",
    "study",
    "long_session",
    "orchestration",
    "scale",
    "catalogue",
)


def main() -> None:
    asked = sys.argv[1:] or NAMES
    if unknown := [name for name in asked if name not in NAMES]:
        sys.exit(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    failed = []
    for name in asked:
        print(f"== {name}", flush=True)
        ended = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=Path(__file__).parents[1])
        failed += [name] if ended.returncode else []
        print(flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
