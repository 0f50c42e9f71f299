"""Which points of a track's features lie on its picture: landmarks and joints, in pixels of the frame.

Any per-frame array with columns x and y in pixels is one, whichever feature it is of, and so are columns that are
called as OpenFace calls its landmarks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from storyframes.features import BODY_JOINTS, CLOCK, HAND_JOINTS
from storyframes.spec import MAIN_ARRAY, Axis
from storyframes.store.feature_store import FeatureStore
from storyframes.tracks import MAIN, of_track
from tasks.extractors.dope.joints import BODY_BONES, HAND_BONES
from tasks.inspect.stored_feature import StoredFeature

Colour = tuple[int, int, int]

_BONES = {BODY_JOINTS: BODY_BONES, HAND_JOINTS: HAND_BONES}
_COLOURS: tuple[Colour, ...] = ((255, 160, 0), (255, 0, 120), (120, 0, 255), (0, 200, 255), (240, 228, 66))
_LANDMARKS: Colour = (0, 220, 0)
LOST: Colour = (128, 128, 128)
_SIDES = ("left", "right")


@dataclass(frozen=True)
class PicturePoints:
    """Points that belong together: a face's landmarks, a body's joints, one hand's.

    Attributes:
        name: of what they are, a path: ``landmarks``, ``hands/left``.
        feature, array: where they are stored.
        place: which entries of a row: (k, 2) of its indices when flattened.
        bones: pairs of points that are joined by a line.
        colour: RGB.
    """

    name: str
    feature: StoredFeature
    array: str
    place: np.ndarray
    bones: tuple[tuple[int, int], ...]
    colour: Colour

    def at(self, frame: int) -> np.ndarray:
        """The points of one frame, (k, 2) pixels; NaN where there is none."""
        return self.feature.read(self.array, frame, frame + 1).reshape(-1)[self.place]

    def colour_at(self, frame: int) -> Colour:
        """The colour to draw them in: grey where the row is no measurement."""
        mask = self.feature.mask_of(self.array)
        lost = mask is not None and not self.feature.read(mask, frame, frame + 1)[0]
        return LOST if lost else self.colour


def picture_points(store: FeatureStore, session_id: str, track: str = MAIN) -> list[PicturePoints]:
    """Everything of a track that can be drawn on its frames.

    Raises:
        StoreError: a feature does not say what it holds.
    """
    names = [name for name in store.features(session_id, track) if name != CLOCK]
    features = [StoredFeature.of(store, session_id, of_track(name, track)) for name in names]
    colours = (_COLOURS[number % len(_COLOURS)] for number in count())
    points = [one for feature in features for one in (*_landmarks(feature), *_joints(feature, colours))]
    return _told_apart(points)


def _landmarks(feature: StoredFeature) -> Iterator[PicturePoints]:
    """Columns ``x_0``, ``x_1``, …, ``y_0``, …, as OpenFace writes them."""
    columns = feature.spec.columns
    if MAIN_ARRAY not in feature.spec.arrays or feature.spec.arrays[MAIN_ARRAY].axis is not Axis.FRAME:
        return
    places = {name: number for number, name in enumerate(columns) if re.fullmatch(r"[xy]_\d+", name)}
    pairs = [
        (places[f"x_{n}"], places[f"y_{n}"]) for n in range(len(places) // 2) if {f"x_{n}", f"y_{n}"} <= set(places)
    ]
    if pairs:
        yield PicturePoints("landmarks", feature, MAIN_ARRAY, np.array(pairs), (), _LANDMARKS)


def _joints(feature: StoredFeature, colours: Iterator[Colour]) -> Iterator[PicturePoints]:
    """Arrays of (…, joints, 2) in pixels: one set of points for each entry of the dimensions before the joints."""
    for name, spec in feature.spec.arrays.items():
        of_frames = spec.axis is Axis.FRAME and len(spec.shape) > 1 and spec.columns == ("x", "y")
        if not of_frames or not spec.units.startswith("pixels"):
            continue
        what = name.removesuffix("_2d")
        places = np.arange(int(np.prod(spec.shape))).reshape(-1, *spec.shape[-2:])
        for number, place in enumerate(places):
            side = _SIDES[number] if spec.dims[:1] == ("side",) and len(places) == len(_SIDES) else str(number)
            one = what if len(places) == 1 else f"{what}/{side}"
            yield PicturePoints(one, feature, name, place, _BONES.get(spec.joints, ()), next(colours))


def _told_apart(points: list[PicturePoints]) -> list[PicturePoints]:
    """The same, with the feature in the names that two features have."""
    names = [one.name for one in points]
    return [
        one if names.count(one.name) == 1 else replace(one, name=f"{one.feature.name}/{one.name}") for one in points
    ]
