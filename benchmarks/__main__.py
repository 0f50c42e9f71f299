"""``python -m benchmarks``: every benchmark, one after the other."""

from benchmarks import clip_index, clips, dope


def main() -> None:
    for benchmark in (clip_index, clips, dope):
        benchmark.main()
        print()


if __name__ == "__main__":
    main()
