"""``python -m benchmarks [GROUP or NAME ...]``: all benchmarks, those of a group, or some; each in its own process."""

import subprocess
import sys
from pathlib import Path

# The cheap ones first. Processes of their own, because threads of one library would go on while the next is measured.
NAMES = (
    "scaling.imports",
    "extracting.one_file",
    "reading.clip_index",
    "empathy.agreement",
    "empathy.coverage",
    "scaling.planning",
    "empathy.scores",
    "empathy.train",
    "extracting.openface_csv",
    "reading.clips",
    "reading.clip_grids",
    "reading.far_clips",
    "reading.long_page",
    "extracting.opensmile",
    "extracting.resnet50",
    "extracting.bfloat16",
    "extracting.gpu",
    "extracting.embed_image",
    "extracting.embed_audio",
    "extracting.speaking",
    "extracting.people",
    "extracting.dope",
    "extracting.dope_layers",
    "extracting.in_process",
    "extracting.study",
    "extracting.long_session",
    "scaling.orchestration",
    "scaling.scale",
    "scaling.catalogue",
)


def selected(arguments: list[str]) -> list[str]:
    """The benchmarks of groups and names, in the order of the arguments; all without arguments."""
    names = []
    for argument in arguments:
        matches = [name for name in NAMES if argument in (name, *name.split("."))]
        if not matches:
            known = sorted({part for name in NAMES for part in name.split(".")})
            sys.exit(f"there is no benchmark or group {argument!r}; there are {', '.join(known)}")
        names += matches
    return list(dict.fromkeys(names)) or list(NAMES)


def main() -> None:
    failed = []
    for name in selected(sys.argv[1:]):
        print(f"== {name}", flush=True)
        ended = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=Path(__file__).parents[1])
        failed += [name] if ended.returncode else []
        print(flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
