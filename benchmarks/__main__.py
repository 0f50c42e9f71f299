"""``python -m benchmarks [NAME …]``: these benchmarks, or all of them, one after the other."""

import sys

from benchmarks import clip_index, clips, dope, orchestration, planning

BENCHMARKS = {
    "clip_index": clip_index,
    "planning": planning,
    "clips": clips,
    "orchestration": orchestration,
    "dope": dope,
}


def main() -> None:
    names, sys.argv[1:] = sys.argv[1:] or list(BENCHMARKS), []  # each has options of its own
    if unknown := set(names) - set(BENCHMARKS):
        sys.exit(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    for name in names:
        BENCHMARKS[name].main()
        print()


if __name__ == "__main__":
    main()
