"""A training job beside the soak: reads random clips and compares each with the undisturbed store's, to the bit.

    python -m benchmarks.soak.reader STORE REFERENCE SEED SECONDS

A version that ``gc --grace-hours 0`` removed under it is opened anew, as any job would have to; other values than the
reference's are never right. Prints one JSON object; ends with 1 where a value was wrong.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter

from storyframes import Axis, ClipDataset, ClipInput, FeatureStore
from storyframes.store.layout import CLIPS, StoreError

# By the feature that each is made of. Per frame: in other units its length would depend on what else is indexed.
_INPUTS = {
    "openface": ClipInput("openface"),
    "resnet50": ClipInput("resnet50"),
    "opensmile": ClipInput("audio", axis=Axis.FRAME),
    "glove": ClipInput("words", axis=Axis.FRAME),
    "sbert": ClipInput("sentence", axis=Axis.FRAME),
}
_NOT_YET = ("no clip", "no session has such a feature")  # which was published first is chance
_BATCH, _BATCHES = 4, 20


def read(store: str, reference: str, dice: random.Random, seconds: float) -> tuple[Counter[str], list[str]]:
    """What was read, by kind, and what was wrong."""
    complete = FeatureStore(reference)
    inputs = [*(_INPUTS[name] for name in complete.features(complete.sessions[0]) if name in _INPUTS), "label"]
    truth = ClipDataset(complete, inputs)
    rows = {clip: row for row, clip in enumerate(truth.clips["clip_id"])}
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not wrong:
        try:
            dataset = ClipDataset(store, inputs, drop_missing=True)
            for _ in range(_BATCHES):
                chosen = [dice.randrange(len(dataset)) for _ in range(_BATCH)]
                wrong += _differences(dataset, truth, chosen, [rows[dataset.clips["clip_id"][row]] for row in chosen])
                counts["clips"] += _BATCH
            counts["times it opened the store"] += 1
        except StoreError as error:
            counts["nothing to read yet" if CLIPS in str(error) else "times a version was gone"] += 1
        except ValueError as error:
            if not any(reason in str(error) for reason in _NOT_YET):
                raise
            counts["nothing to read yet"] += 1
        time.sleep(0.5)
    return counts, wrong


def _differences(dataset: ClipDataset, truth: ClipDataset, chosen: list[int], expected: list[int]) -> list[str]:
    read, right = dataset.read(chosen), truth.read(expected)
    names = [name for name in right if name != "index" and read[name].tobytes() != right[name].tobytes()]
    return [f"{name} of {list(dataset.clips['clip_id'][chosen])}" for name in names]


def main() -> None:
    store, reference, seed, seconds = sys.argv[1:]
    counts, wrong = read(store, reference, random.Random(seed), float(seconds))
    print(json.dumps({"counts": counts, "wrong": wrong}))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
