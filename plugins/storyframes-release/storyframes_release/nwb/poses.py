"""The poses among the arrays of a table: which columns are the positions of a point, their unit and confidence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from storyframes import FeatureName
from storyframes.store import Table

_IN_PICTURE = "(0, 0) is the upper left corner of the upright picture, x to the right, y down"
_FROM_CAMERA = "from the camera, X to the picture's right, Y down, Z away from it; OpenFace guesses the focal length"
_OF_FACE = {"xy": ("pixels", _IN_PICTURE), "XYZ": ("millimeters", _FROM_CAMERA)}
_UNITS = {"pixels": "pixels", "metres": "meters"}
_CONFIDENCES = ("score", "visibility")


@dataclass(frozen=True)
class Pose:
    """Points whose positions are columns of one array.

    Attributes:
        name: unique in the session, as ``dope.body_2d``.
        points: the name of each point.
        places: (points, 2 or 3) of its columns in the array's flattened row.
        unit, frame: of the positions; what (0, 0) is.
        confidence: the array with the confidence of the points; empty for none.
        confidence_places: (points,) in that array's flattened row.
    """

    name: str
    points: tuple[str, ...]
    array: str
    places: np.ndarray
    unit: str
    frame: str
    confidence: str
    confidence_places: np.ndarray


def find_poses(table: Table) -> Iterator[Pose]:
    """The poses of a table: arrays with points and two or three coordinates, and OpenFace's landmarks of the face."""
    for array, spec in table.arrays.items():
        if spec.joints and len(spec.columns) in (2, 3):
            sides = [[str(number) for number in range(size)] for size in spec.shape[:-2]]
            points = tuple(".".join(names) for names in product(*sides, spec.joints))
            places = np.arange(len(points) * len(spec.columns)).reshape(len(points), -1)
            unit = next((unit for text, unit in _UNITS.items() if spec.units.startswith(text)), "not stated")
            frame = _IN_PICTURE if unit == "pixels" else "; ".join(filter(None, (spec.units, spec.about)))
            yield Pose(f"{table.name}.{array}", points, array, places, unit, frame, *_confidence(table, array))
        elif FeatureName(table.feature).feature == "openface" and array == "values":
            of_array = {column.name: column.place for column in table.columns if column.array == array}
            for axes, (unit, frame) in _OF_FACE.items():
                names = [[f"{axis}_{point}" for axis in axes] for point in range(68)]
                if {name for of_point in names for name in of_point} <= of_array.keys():
                    places = np.array([[of_array[name] for name in of_point] for of_point in names])
                    name, points = f"{table.name}.landmarks_{len(axes)}d", tuple(map(str, range(68)))
                    yield Pose(name, points, array, places, unit, frame, "confidence", np.zeros(68, int))


def _confidence(table: Table, array: str) -> tuple[str, np.ndarray]:
    """The array with the confidence of each point, and its place there; of each part or side, that of its points."""
    shape = table.arrays[array].shape[:-1]
    for name in (f"{array.rpartition('_')[0]}_{suffix}" for suffix in _CONFIDENCES):
        if name in table.arrays and table.arrays[name].shape in (shape, shape[:-1]):
            of_points = np.arange(math.prod(table.arrays[name].shape))
            return name, np.repeat(of_points, math.prod(shape) // len(of_points))
    return "", np.zeros(math.prod(shape), int)
