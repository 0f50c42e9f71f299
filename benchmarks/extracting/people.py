"""How rightly ``people`` attributes faces, on planted scenes: ``python -m benchmarks.extracting.people [SEEDS]``.

The scenes are tests/support/media/people_scenes.py: people made of one portrait move, cross, leave, take each other's
seats. The detector is planted: the true boxes with noise, of which some are lost, and false alarms. So is the model of
faces, of a second row for each kind: how alike the colours of a face are to those of each of the three people.

Then recordings without pictures are simulated (tests/support/media/people_walks.py), whose people look alike or not,
cross and change seats: in how many is a track surely of two people, or a name surely somebody else's.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.media.people_scenes import HEIGHT, NAMES, WIDTH, Scene, planted, planted_embeddings, scenes
from support.media.people_walks import KINDS, people_of, simulated

from storyframes_people.attribution import Person, by_seats, by_themselves, parse_seats, with_names_of_seats
from storyframes_people.detections import Detections, overlap
from storyframes_people.joining import joined
from storyframes_people.pieces import find_pieces

RATE, LIMIT = 10.0, 0.5


def attributed(scene: Scene, detections: Detections, *, with_faces: bool) -> list[Person]:
    """The people of a scene."""
    pieces = find_pieces(detections)
    seats, size = parse_seats(scene.seats), (WIDTH, HEIGHT)
    if with_faces:
        people, _ = joined(pieces, planted_embeddings(scene, pieces), LIMIT)
        return with_names_of_seats(people, seats, size)[0] if seats else people
    return by_seats(pieces, seats, size)[0] if seats else by_themselves(pieces)


def score(detections: Detections, names: list[list[str]], people: list[Person], *, with_faces: bool) -> Counter[str]:
    """Detections of faces: ``all``, and those that are attributed ``right``, ``wrong`` or ``doubtful``.

    Right is the name of the seat. For a track with a number it is who most of the track is; with a model of faces, all
    that is elsewhere of somebody of whom most is in one track is wrong.
    """
    whose = {
        (float(t), *box): name
        for t, boxes, of in zip(detections.time, detections.boxes, names, strict=True)
        for box, name in zip(boxes.tolist(), of, strict=True)
    }
    counts = Counter(all=sum(name != "" for name in whose.values()))
    tracks: list[tuple[str, list[str]]] = []  # name, and whose each sure detection is
    for person in people:
        found: list[str] = []
        for piece in person.pieces:
            seen = [whose[(float(t), *box)] for t, box in zip(piece.time, piece.box.tolist(), strict=True)]
            sure = [name for name, doubtful in zip(seen, piece.doubtful, strict=True) if not doubtful]
            counts["doubtful"] += len(seen) - len(sure)
            found += sure
        tracks.append((person.name, found))
    largest = {name: max((sure.count(name) for _, sure in tracks), default=0) for name in NAMES}
    for track, sure in tracks:
        expected = track if track in NAMES else Counter(sure).most_common(1)[0][0]
        is_right = not with_faces or sure.count(expected) == largest.get(expected)
        counts += Counter("right" if name == expected and is_right else "wrong" for name in sure)
    return counts


def beside(detections: Detections) -> int:
    """How many faces overlap another, and do not only touch it."""
    return sum(
        overlap(box, other) > 0
        for boxes in detections.boxes
        for number, box in enumerate(boxes)
        for other in np.delete(boxes, number, axis=0)
    )


def confusions(kind: str, seeds: int, *, rate: float, equal: bool) -> Counter[str]:
    """In how many simulated recordings people are taken for each other, and how many faces are attributed."""
    counts: Counter[str] = Counter()
    for seed in range(seeds):
        scene = simulated(kind, seed, rate=rate, equal=equal)
        pieces = find_pieces(scene.detections)
        seats = parse_seats(["left=0", "right=1"])
        people = by_seats(pieces, seats, (WIDTH, HEIGHT))[0] if kind in KINDS else by_themselves(pieces)
        is_mixed = is_wrong = False
        for person in people:
            of_all, of_sure = (
                Counter(who for piece in person.pieces for who in people_of(piece, scene.whose, sure=sure).elements())
                for sure in (False, True)
            )
            sure = {who: count for who, count in of_sure.items() if who >= 0}  # no false alarms
            is_mixed |= len(sure) > 1
            is_wrong |= person.name in seats and bool(set(map(str, sure)) - {person.name})
            counts += Counter(sure=sum(sure.values()), doubtful=of_all.total() - of_sure.total())
        counts += Counter(mixed=is_mixed, wrong=is_wrong, faces=sum(who >= 0 for who in scene.whose.values()))
    return counts


def main(seeds: int, recordings: int) -> None:
    """Print two tables: of planted scenes, a row for each kind, and of simulated recordings."""
    totals: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for seed in range(seeds):
        for scene in scenes(seed):
            detections, names = planted(scene, np.random.default_rng(seed), rate=RATE)
            for how, with_faces in (("yes" if scene.seats else "no", False), ("and faces", True)):
                people = attributed(scene, detections, with_faces=with_faces)
                totals[scene.kind, how] += score(detections, names, people, with_faces=with_faces)
                totals[scene.kind, how]["beside"] += beside(detections)
    print("| scene | seats | faces | overlapping | attributed | of these rightly | doubtful | left out |")
    print("|---|---|---|---|---|---|---|---|")
    for (kind, how), counts in totals.items():
        sure = counts["right"] + counts["wrong"]
        rest = counts["all"] - sure - counts["doubtful"]
        shares = [f"{counts['beside'] / counts['all']:.1%}", f"{sure / counts['all']:.1%}"]
        shares += [f"{counts['right'] / sure:.2%}" if sure else "-"]
        shares += [f"{counts['doubtful'] / counts['all']:.1%}", f"{max(rest, 0) / counts['all']:.1%}"]
        print(f"| {kind} | {how} | {counts['all']:,} | {' | '.join(shares)} |", flush=True)
    print(
        "\n| simulated | colours | pictures a second | two people in a track | another's name | attributed | doubtful |"
    )
    print("|---|---|---|---|---|---|---|")
    cases = [(kind, equal, RATE) for kind in KINDS for equal in (False, True)]
    cases += [(kind, True, rate) for rate in (10.0, 5.0, 2.0) for kind in ("walk", "hurry")]
    for kind, equal, rate in cases:
        found = confusions(kind, recordings, rate=rate, equal=equal)
        shares = f"{found['sure'] / found['faces']:.1%} | {found['doubtful'] / found['faces']:.1%}"
        colours = "equal" if equal else "by chance"
        print(f"| {kind} | {colours} | {rate:g} | {found['mixed']} | {found['wrong']} | {shares} |", flush=True)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(seeds=given[0] if given else 8, recordings=100)
