"""How rightly ``people`` attributes faces, on planted scenes: ``python -m benchmarks.extracting.people [SEEDS]``.

The scenes are tests/support/media/people_scenes.py: people made of one portrait move, cross, leave, take each other's
seats. The detector is planted: the true boxes with noise, of which some are lost, and false alarms; or a real one, by
``--detector``. Planted is the model of faces, of a second row for each kind: how alike the colours of a face are to
those of each of the three people.

With ``--real`` the pictures are of real people (tests/support/media/real_faces.py; ``make voices`` fetches them), and
the detector is MediaPipe's unless another is named. ``--same-face dlib=0.04`` joins them by a real model of faces.

Then recordings without pictures are simulated (tests/support/media/people_walks.py), whose people look alike or not,
cross and change seats: in how many is a track surely of two people, or a name surely somebody else's. On 2026-11-26,
with 4 seeds and 100 recordings of each of 14 kinds, a track was of two people in 1 of 1,400 and no name was wrong.
Attributed were 6.5 % (equal colours, both leave and come back) to 95.5 % (two cross and stay).

Recorded is the sum of all scenes for each way, and its worst kind of scene; the others are printed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.media.people_scenes import HEIGHT, WIDTH, Scene, picture, planted, planted_embeddings, scenes
from support.media.people_walks import KINDS, people_of, simulated
from support.media.real_faces import Clip, real_clips

from benchmarks.performance_page import record, show
from flows.settings import Settings
from storyframes_people.attribution import Person, by_seats, by_themselves, parse_seats, with_names_of_seats
from storyframes_people.boxes import region, regions_of
from storyframes_people.detections import Detections, detect_faces, overlap
from storyframes_people.detectors import Pictures, choose_detector, choose_pictures, evenly, least_confidence
from storyframes_people.joining import SameFace, embed_pieces, frame_by_frame, joined
from storyframes_people.pieces import find_pieces

RATE, LIMIT = 10.0, 0.5
_COME_BACK = ("bar", "beach", "shots", "beside each other", "places exchanged")  # the first and the fourth as others


def attributed(scene: Scene | Clip, detections: Detections, *, with_faces: bool) -> list[Person]:
    """The people of a scene; a model of faces is planted, so it is for planted scenes."""
    pieces = find_pieces(detections, also_short=with_faces or bool(scene.seats))
    seats, size = parse_seats(scene.seats), scene.size
    if with_faces and isinstance(scene, Scene):
        pieces = frame_by_frame(pieces, scene.time)
        people, _ = joined(pieces, planted_embeddings(scene, pieces), LIMIT)
        return with_names_of_seats(people, seats, size)[0] if seats else people
    return by_seats(pieces, seats, size)[0] if seats else by_themselves(pieces)


def by_faces(clip: Clip, pictures: Pictures, detections: Detections, same_face: SameFace) -> list[Person]:
    """The people of a clip, whose pieces a real model of faces joins."""
    pieces = frame_by_frame(find_pieces(detections, also_short=True), pictures.clock)
    people, _ = joined(pieces, embed_pieces(pictures, pieces, same_face.model), same_face.limit)
    return with_names_of_seats(people, parse_seats(clip.seats), clip.size)[0] if clip.seats else people


def score(scene: Scene | Clip, people: list[Person], *, with_faces: bool) -> Counter[str]:
    """Frames of faces that can be seen: ``all``, and those that are attributed ``right``, ``wrong`` or ``doubtful``.

    A track shows the person whose face its box without margin overlaps most, and by more than 0.3 of their union.
    Right is the name of the seat. For a track with a number it is who most of the track is; with a model of faces, all
    that is elsewhere of somebody of whom most is in one track is wrong.
    """
    size, frame_s, time = scene.size, 1 / scene.fps, scene.time
    regions = regions_of(people, size, frame_s)
    truth = {name: [scene.truth(name, float(t)) for t in time] for name in scene.people}
    right, wrong, doubtful = ({name: np.zeros(len(time), bool) for name in truth} for _ in range(3))
    sure: dict[str, dict[str, np.ndarray]] = {}  # of each track the frames that surely show each person
    for person in people:
        face = region(person, size, frame_s, margin=0).at(time, frame_s) * (*size, *size)
        boxes, sure[person.name] = regions[person.name], {}
        is_sure = ~boxes.doubtful[np.clip(np.searchsorted(boxes.time_s, time + 1e-6) - 1, 0, None)]
        common = np.array(
            [
                [0 if at is None else overlap(box, at) for box, at in zip(face, truth[name], strict=True)]
                for name in truth
            ]
        )
        for name, of_face in zip(truth, common, strict=True):
            shown = (of_face > 0.3) & (of_face == common.max(axis=0))
            sure[person.name][name] = shown & is_sure
            doubtful[name] |= shown & ~is_sure
    most = {name: max((frames[name].sum() for frames in sure.values()), default=0) for name in truth}
    for track, frames in sure.items():
        expected = track if track in scene.people else max(frames, key=lambda name: frames[name].sum())
        has_most = not with_faces or frames[expected].sum() == most[expected]
        for name, seen in frames.items():
            (right if has_most and name == expected else wrong)[name] |= seen
    counts: Counter[str] = Counter()
    for name, places in truth.items():
        counts["all"] += sum(at is not None for at in places)
        counts["wrong"] += int(wrong[name].sum())
        counts["right"] += int((right[name] & ~wrong[name]).sum())
        counts["doubtful"] += int((doubtful[name] & ~wrong[name] & ~right[name]).sum())
    return counts


def false_boxes(clip: Clip, people: list[Person]) -> int:
    """How many boxes of tracks, counted in each frame, are of no face."""
    size, frame_s = clip.size, 1 / clip.fps
    count = 0
    faces = [[face * (*size, *size) for face in clip.faces(float(t)).values()] for t in clip.time]
    for person in people:
        shown = region(person, size, frame_s, margin=0).at(clip.time, frame_s) * (*size, *size)
        for box, real in zip(shown, faces, strict=True):
            count += bool(np.isfinite(box[0])) and all(overlap(box, face) <= 0.3 for face in real)
    return count


@dataclass(frozen=True)
class Drawn(Pictures):
    """The pictures of a scene, for a real detector."""

    scene: Scene = field(kw_only=True)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (picture(self.scene, float(t)) for t in self.time)


def faces_of(scene: Scene, seed: int, detector: str | None) -> Detections:
    """What a detector finds in a scene; a planted one without a name."""
    if detector is None:
        return planted(scene, np.random.default_rng(seed), rate=RATE)[0]
    settings = Settings()
    name, finder = choose_detector(settings, detector)
    frames = evenly(len(scene.time), 1 / scene.fps, RATE)
    drawn = Drawn(Path(scene.kind), scene.time, frames, WIDTH, HEIGHT, scene=scene)
    return detect_faces(drawn, finder, getattr(settings, name), least_confidence(finder))


def confusions(kind: str, seeds: range, *, rate: float, equal: bool) -> Counter[str]:
    """In how many simulated recordings people are taken for each other, and how many faces are attributed."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        scene = simulated(kind, seed, rate=rate, equal=equal)
        pieces = find_pieces(scene.detections, also_short=kind in KINDS)
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


def measure_real(detector: str, same_face: str | None) -> None:
    """Record the table of clips of real people; with a model of faces show those who come back."""
    settings, rows, totals = Settings(), [], Counter[str]()
    joining = SameFace.parse(same_face, settings) if same_face else None
    name, finder = choose_detector(settings, detector)
    with TemporaryDirectory() as folder:
        for clip in real_clips(Path(folder)):
            if joining and clip.kind not in _COME_BACK:
                continue
            pictures = choose_pictures(clip.path, RATE)
            detections = detect_faces(pictures, finder, getattr(settings, name), least_confidence(finder))
            if joining:
                people = by_faces(clip, pictures, detections, joining)
            else:
                people = attributed(clip, detections, with_faces=False)
            counts = score(clip, people, with_faces=bool(joining))
            counts += Counter(frames=len(clip.time), false=false_boxes(clip, people))
            totals += counts
            rows.append(_real_row(clip.kind, same_face or ("seats" if clip.seats else "nothing"), counts))
    rows.append(_real_row("all of them", "", totals))
    columns = ("clip", "by", "frames", "faces", "found", "false", "right", "doubtful", "wrong")
    record("real-people-by-faces" if joining else "real-people", columns, rows)


def _real_row(kind: str, how: str, counts: Counter[str]) -> list[str]:
    in_tracks = counts["right"] + counts["wrong"] + counts["doubtful"]
    shares = [f"{number / counts['all']:.1%}" if counts["all"] else "" for number in (in_tracks, counts["right"])]
    rest = [f"{counts[name]:,}" for name in ("false", "doubtful", "wrong")]
    return [kind, how, f"{counts['frames']:,}", f"{counts['all']:,}", shares[0], rest[0], shares[1], *rest[1:]]


def main(seeds: int, recordings: int, detector: str | None, first: int) -> None:
    """Record two tables: of planted scenes, a row for each kind, and of simulated recordings."""
    totals: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for seed in range(first, first + seeds):
        for scene in scenes(seed):
            detections = faces_of(scene, seed, detector)
            for how, with_faces in (("seats" if scene.seats else "nothing", False), ("faces too", True)):
                people = attributed(scene, detections, with_faces=with_faces)
                counts = score(scene, people, with_faces=with_faces)
                totals[scene.kind, how] += counts
                totals["all of them", how] += counts
    rows = []
    for (kind, how), counts in sorted(totals.items(), key=lambda row: row[0][0] == "all of them"):
        of_all = [counts["right"], counts["wrong"], counts["doubtful"]]
        shares = [f"{number / counts['all']:.1%}" for number in (*of_all, counts["all"] - sum(of_all))]
        rows.append([kind, how, f"{counts['all']:,}", *shares])
    columns = ("scene", "by", "faces in frames", "right", "wrong", "doubtful", "left out")
    show(columns, rows)
    summary = []
    for way in ("seats", "faces too", "nothing"):
        of_way = {kind: counts["right"] / counts["all"] for (kind, how), counts in totals.items() if how == way}
        worst = min(of_way.keys() - {"all of them"}, key=of_way.__getitem__)
        summary += [row for kind in ("all of them", worst) for row in rows if row[:2] == [kind, way]]
    record("several-people-in-one-picture", columns, summary)
    if not recordings:
        return
    rows = []
    cases = [(kind, equal, RATE) for kind in KINDS for equal in (False, True)]
    cases += [(kind, True, rate) for rate in (10.0, 5.0, 2.0) for kind in ("walk", "hurry")]
    for kind, equal, rate in cases:
        found = confusions(kind, range(first, first + recordings), rate=rate, equal=equal)
        shares = [f"{found[name] / found['faces']:.1%}" for name in ("sure", "doubtful")]
        colours = "equal" if equal else "by chance"
        rows.append([kind, colours, f"{rate:g}", str(found["mixed"]), str(found["wrong"]), *shares])
    columns = ("simulated", "colours", "pictures/s", "two people in a track", "a wrong name", "attributed", "doubtful")
    show(columns, rows)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("seeds", type=int, nargs="?", default=4)
    options.add_argument(
        "--recordings", type=int, default=100, help="that are simulated of each kind; 0: only the first table"
    )
    options.add_argument("--first", type=int, default=0, help="the first seed: others than 0 to 3 are new to the rules")
    options.add_argument("--detector", help="one that is here, such as mediapipe, in place of the planted one")
    options.add_argument("--real", action="store_true", help="clips of real people, and nothing else")
    options.add_argument("--same-face", help="with --real, a model of faces and its limit: dlib=0.04")
    given = vars(options.parse_args())
    if given.pop("real"):
        measure_real(given["detector"] or "mediapipe", given["same_face"])
    else:
        del given["same_face"]
        main(**given)
