"""Agreement of 8 raters on 10,000 units: Krippendorff's alpha alone, and everything the command shows."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import interleave, print_machine
from storyframes_empathy.statistics.agreement import agreement
from storyframes_empathy.statistics.krippendorff import alpha_interval, alpha_nominal, alpha_ordinal
from storyframes_empathy.statistics.ratings import Ratings

UNITS, RATERS = 10_000, 8


def main() -> None:
    print_machine()
    random = np.random.default_rng(0)
    steps = random.integers(2, 11, (UNITS, RATERS)) / 2
    numbers = random.normal(size=(UNITS, RATERS))
    for values in (steps, numbers):
        values[random.random(values.shape) < 0.1] = np.nan
    raters = tuple(f"rater-{at}" for at in range(RATERS))
    measured = interleave(
        {
            "three alphas, half points": lambda: [of(steps) for of in (alpha_nominal, alpha_ordinal, alpha_interval)],
            "three alphas, any numbers": lambda: [of(numbers) for of in (alpha_nominal, alpha_ordinal, alpha_interval)],
            "everything, half points": lambda: agreement(Ratings(raters, steps)),
        }
    )
    print(f"{RATERS} raters, {UNITS:,} units, a tenth of the ratings missing; CPU-seconds, median of 5")
    for name, taken in measured.items():
        print(f"  {name:<28} {taken.cpu_s:.3f}")


if __name__ == "__main__":
    main()
