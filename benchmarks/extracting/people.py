"""How rightly ``storyframes people`` attributes faces, on planted scenes: ``python -m benchmarks extracting.people``.

The scenes are tests/support/media/people_scenes.py: people made of one portrait move, cross, leave, take each other's
seats. The detector is planted: the true boxes with noise, of which some are lost, and false alarms.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.media.people_scenes import HEIGHT, WIDTH, Scene, planted, scenes

from tasks.people.attribution import Person, by_seats, by_themselves, parse_seats
from tasks.people.detections import Detections
from tasks.people.pieces import Rules, find_pieces

RATE = 10.0


def attributed(scene: Scene, detections: Detections) -> list[Person]:
    """The people of a scene."""
    pieces = find_pieces(detections, Rules())
    if not scene.seats:
        return by_themselves(pieces)
    return by_seats(pieces, parse_seats(scene.seats), (WIDTH, HEIGHT), Rules())[0]


def score(scene: Scene, detections: Detections, names: list[list[str]], people: list[Person]) -> Counter[str]:
    """Detections of faces: ``all``, and those that are attributed ``right``, ``wrong`` or ``doubtful``.

    With seats right is the name of the seat; without them it is who most of the piece is.
    """
    whose = {
        (float(t), *box): name
        for t, boxes, of in zip(detections.time, detections.boxes, names, strict=True)
        for box, name in zip(boxes.tolist(), of, strict=True)
    }
    counts = Counter(all=sum(name != "" for name in whose.values()))
    for person in people:
        for piece in person.pieces:
            found = [whose[(float(t), *box)] for t, box in zip(piece.time, piece.box.tolist(), strict=True)]
            sure = [name for name, doubtful in zip(found, piece.doubtful, strict=True) if not doubtful]
            expected = person.name if scene.seats else Counter(sure).most_common(1)[0][0]
            counts += Counter("right" if name == expected else "wrong" for name in sure)
            counts["doubtful"] += len(found) - len(sure)
    return counts


def main(seeds: int) -> None:
    """Print a table, a row for each kind of scene."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for seed in range(seeds):
        for scene in scenes(seed):
            detections, names = planted(scene, np.random.default_rng(seed), rate=RATE)
            totals[scene.kind] += score(scene, detections, names, attributed(scene, detections))
    print("| scene | faces | attributed | of these rightly | doubtful | nobody's |\n|---|---|---|---|---|---|")
    for kind, counts in totals.items():
        sure = counts["right"] + counts["wrong"]
        rest = counts["all"] - sure - counts["doubtful"]
        shares = [f"{sure / counts['all']:.1%}", f"{counts['right'] / sure:.2%}" if sure else "-"]
        shares += [f"{counts['doubtful'] / counts['all']:.1%}", f"{max(rest, 0) / counts['all']:.1%}"]
        print(f"| {kind} | {counts['all']:,} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main(seeds=8)
