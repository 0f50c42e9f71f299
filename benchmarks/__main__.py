"""``python -m benchmarks``: every benchmark, one after the other."""

from benchmarks import clip_index, dope, orchestration, planning


def main() -> None:
    for benchmark in (clip_index, planning, orchestration, dope):
        benchmark.main()
        print()


if __name__ == "__main__":
    main()
