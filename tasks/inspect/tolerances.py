"""How far two extractions of the same thing may lie apart and still be the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from storyframes.features import FEATURES


class ToleranceError(ValueError):
    """A tolerance cannot be understood; the message says how one is written."""


@dataclass(frozen=True)
class Tolerance:
    """``|a - b| <= absolute + relative * |a|``."""

    absolute: float = 0.0
    relative: float = 0.0


# OpenFace, by the beginning of the column's name: what two builds on two machines differ by without meaning anything.
_OPENFACE = {
    "pose_T": Tolerance(1.0),  # mm
    "pose_R": Tolerance(0.01),  # rad
    "gaze": Tolerance(0.01),  # rad, or parts of a unit vector
    "eye_lmk_": Tolerance(0.5),  # pixels or mm
    "x_": Tolerance(0.5),  # pixels
    "y_": Tolerance(0.5),
    "X_": Tolerance(1.0),  # mm
    "Y_": Tolerance(1.0),
    "Z_": Tolerance(1.0),
    "p_t": Tolerance(0.5),  # pixels
    "p_r": Tolerance(0.01),  # rad
    "p_s": Tolerance(0.01),
    "p_": Tolerance(0.5),
    "confidence": Tolerance(0.01),
    "timestamp": Tolerance(0.001),  # s
}
_FEATURES = {
    "frames": Tolerance(1e-4),  # s
    "resnet50": Tolerance(0.01),
    "dope": Tolerance(0.01),
    "opensmile": Tolerance(1e-4, 1e-3),
    "glove": Tolerance(1e-6),
    "sbert": Tolerance(1e-4),
}


@dataclass(frozen=True)
class Tolerances:
    """The tolerance of every column.

    Attributes:
        exact: no differences at all, save where ``given`` says otherwise.
        given: by ``feature`` or ``feature.column``, instead of the defaults.
    """

    exact: bool = False
    given: Mapping[str, float] = field(default_factory=dict)

    def of(self, feature: str, array: str, column: str, *, whole: bool) -> Tolerance:
        """The tolerance of one column; ``whole`` numbers are the same or they are not."""
        for key in (f"{feature}.{column}", feature):
            if key in self.given:
                return Tolerance(self.given[key])
        if self.exact or whole:
            return Tolerance()
        if feature == "openface":
            return self._of_openface(array, column)
        if feature == "dope" and array.endswith("_2d"):
            return Tolerance(0.5)  # pixels
        return _FEATURES.get(feature, Tolerance())

    def _of_openface(self, array: str, column: str) -> Tolerance:
        if column.startswith("AU"):
            return Tolerance(0.1) if column.endswith("_r") else Tolerance()
        name = array if array == "confidence" else column
        return next((tolerance for start, tolerance in _OPENFACE.items() if name.startswith(start)), Tolerance())


def parse_tolerances(texts: list[str], *, exact: bool = False) -> Tolerances:
    """Tolerances as a person writes them: ``openface=0.1``, ``openface.AU12_r=0.2``.

    Raises:
        ToleranceError: one is no such text, or names a feature or column that does not exist.
    """
    given: dict[str, float] = {}
    for text in texts:
        key, _, number = text.partition("=")
        feature, _, column = key.partition(".")
        if feature not in FEATURES:
            raise ToleranceError(f"{text!r}: there is no feature {feature!r}; there are {', '.join(FEATURES)}")
        if column and not any(column in spec.columns or column == name for name, spec in _arrays(feature)):
            raise ToleranceError(f"{text!r}: {feature} has no column {column!r}")
        try:
            value = float(number)
        except ValueError:
            raise ToleranceError(f"{text!r}: write FEATURE=NUMBER or FEATURE.COLUMN=NUMBER") from None
        if not (math.isfinite(value) and value >= 0):
            raise ToleranceError(f"{text!r}: a tolerance is 0 or more")
        given[key] = value
    return Tolerances(exact, given)


def _arrays(feature: str):  # type: ignore[no-untyped-def]
    return FEATURES[feature].arrays.items()
