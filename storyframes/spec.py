"""The specification of a feature: its arrays, what a row of each stands for, and the names of columns and joints.

A feature of a track other than ``main`` is called ``<feature>@<track>`` in the store, and a label's curve
``label.<scheme>``.

A specification may come from anybody's plug-in, and its names become folders of the store, columns of tables and words
of a filter. So it is checked when it is made, and an error says what is wrong with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}")
LABEL_PREFIX = "label."
LABEL_PATTERN = re.compile(r"label\.[A-Za-z0-9][A-Za-z0-9._-]{0,57}")
_RESERVED = frozenset("vision audio words sentence story stories label index aux con nul prn".split()) | {
    f"{device}{number}" for device in ("com", "lpt") for number in range(10)
}  # what clip inputs and their fields are called, and devices on Windows, where no folder can have such a name
_CLOCK = ("time", "start", "end")
FACE_PART = "face"
"""The column of the face, in an array with a column for each part of a person."""
MAIN_ARRAY = "values"
"""The array that is used where none is named."""
MAIN = "main"
"""The track of the files that the table of sessions names."""
TRACK_SIGN = "@"
"""Between feature and track. No feature, session or track has it in its name."""


class SpecError(ValueError):
    """A feature's specification is not valid; the message says where and why.

    Example:
        >>> FeatureSpec("brightness", "How bright each frame is.", {})
        Traceback (most recent call last):
        storyframes.spec.SpecError: brightness: a feature has at least one array
    """


class Axis(StrEnum):
    """What one row of an array stands for: the name of its first dimension in the store (Zarr's ``dimension_names``).

    A function that takes an axis also takes its text.

    Example:
        >>> from storyframes import FEATURES, Axis
        >>> FEATURES["glove"].arrays["values"].axis
        <Axis.WORD: 'word'>
        >>> Axis("frame") is Axis.FRAME
        True
    """

    FRAME = "frame"  # one decoded video frame
    AUDIO_FRAME = "audio_frame"  # one step of the sound: openSMILE's hop (10 ms), another extractor's own
    WINDOW = "window"  # one window of the video, seconds long
    WORD = "word"  # one word of the transcript
    UTTERANCE = "utterance"  # one utterance of the transcript
    MOMENT = "moment"  # one moment of a label's curve
    STORY = "story"  # one story of the study
    FRAME_EDGE = "frame_edge"  # where a frame's rows start in arrays of all persons: T + 1 of them
    BODY = "body"  # one detected body, in any frame
    HAND = "hand"  # one detected hand
    FACE = "face"  # one detected face


def may_be_called(name: str) -> bool:
    """Whether a feature may have this name: it has the form of one and no other meaning."""
    return NAME_PATTERN.fullmatch(name) is not None and name not in _RESERVED


def of_track(feature: str, track: str) -> str:
    """How a feature of a track is called in the store: its folder is ``<session>/<feature>@<track>``.

    Example:
        >>> of_track("openface", "child_b"), of_track("openface", "main")
        ('openface@child_b', 'openface')
    """
    return feature if track == MAIN else f"{feature}{TRACK_SIGN}{track}"


def feature_and_track(name: str) -> tuple[str, str]:
    """What a feature of the store is, and of which track.

    Example:
        >>> feature_and_track("openface@child_b"), feature_and_track("openface")
        (('openface', 'child_b'), ('openface', 'main'))
    """
    feature, _, track = name.partition(TRACK_SIGN)
    return feature, track or MAIN


def of_scheme(scheme: str) -> str:
    """The feature of a scheme's curves (:mod:`storyframes.label_curves`).

    Example:
        >>> of_scheme("valence")
        'label.valence'
    """
    return f"{LABEL_PREFIX}{scheme}"


def is_label_curve(feature: str) -> bool:
    """Whether a feature, without the track in its name, is a curve."""
    return LABEL_PATTERN.fullmatch(feature) is not None


def column_of(feature: str) -> str:
    """The column of the clip index that says whether a session has the feature; the name is valid in a filter.

    Example:
        >>> column_of("openface"), column_of("label.valence")
        ('has_openface', 'has_label_valence')
    """
    return f"has_{feature.replace('.', '_')}" if is_label_curve(feature) else f"has_{feature}"


@dataclass(frozen=True)
class ArraySpec:
    """One array of a feature.

    Attributes:
        axis: what a row stands for.
        dtype: numpy dtype of the stored values: integers or floats of at most 64 bits.
        about: one sentence, written into the store beside the values.
        shape: the dimensions after the first.
        dims: a name for each of those dimensions.
        fill: the value where there is none.
        columns: a name for each entry of the last dimension, or empty.
        joints: a name for each entry of the dimension before it, where that is joints or landmarks.
        optional: stored only if a setting asks for it.
        units: the unit, if all columns share one.

    Example:
        >>> ArraySpec(Axis.FRAME, "float32", "Where she looks.", (2,), ("angle",), columns=("x", "y"), units="rad")
        ArraySpec(frame x 2 angle, float32, rad, columns x y)
    """

    axis: Axis
    dtype: str
    about: str
    shape: tuple[int, ...] = ()
    dims: tuple[str, ...] = ()
    fill: float | int = math.nan
    columns: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    optional: bool = False
    units: str = ""

    def __repr__(self) -> str:
        sizes = "".join(f" x {size} {dim}" for dim, size in zip(self.dims, self.shape, strict=True))
        labels = shown_names(", columns ", self.columns) + shown_names(", joints ", self.joints)
        return f"ArraySpec({self.axis}{sizes}, {self.dtype}{f', {self.units}' if self.units else ''}{labels})"

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The names of its dimensions, as the store has them."""
        return (str(self.axis), *self.dims)


@dataclass(frozen=True)
class FeatureSpec:
    """One feature: a Zarr group of arrays that one extractor writes in one go.

    Attributes:
        name: lower-case letters, digits and underscores, a letter first: it is a folder of the store, ``has_<name>`` in
            the clip index, and the name of a clip's arrays. A label's curve is ``label.`` and the scheme's name.
        about: one sentence, written into the store.
        arrays: by name, which has the same form; ``values`` is used where no array is named.
        groups: by name, columns of ``values`` that belong together.
        mask: name of the array that is 1 where a row is a measurement; empty where the feature has none.
        face: name of the array with a row for each frame that says in which frames a face is tracked: whole numbers
            that are not 0 there, one a frame or in a column ``face``; or floats that are not NaN there, with a mask
            that is 0 in frames that were not analysed. Empty where the feature tracks no face, or has landmarks that
            say so (:mod:`storyframes.face_tracking`).

    Raises:
        SpecError: it is not valid: a name of another form, dimensions that disagree, and the like.

    Example:
        >>> brightness = ArraySpec(Axis.FRAME, "float32", "Mean brightness of the picture.")
        >>> FeatureSpec("brightness", "How bright each frame is.", {"values": brightness})
        FeatureSpec brightness: How bright each frame is.
          values: ArraySpec(frame, float32)
          mask: none
    """

    name: str
    about: str
    arrays: Mapping[str, ArraySpec]
    groups: Mapping[str, slice] = field(default_factory=dict)
    mask: str = ""
    face: str = ""

    def __repr__(self) -> str:
        lines = [f"FeatureSpec {self.name}: {self.about}"]
        lines += [f"  {name}: {array!r}" for name, array in self.arrays.items()]
        lines += [f"  groups: {', '.join(self.groups)}"] if self.groups else []
        return "\n".join([*lines, f"  mask: {self.mask or 'none'}"])

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and is_label_curve(self.name)):
            _check_name(self.name, "a feature's name")
        if self.name in _RESERVED:
            raise SpecError(f"no feature can be called {self.name!r}: that name has a meaning of its own")
        if not self.arrays:
            raise SpecError(f"{self.name}: a feature has at least one array")
        for name, spec in self.arrays.items():
            _check_name(name, f"{self.name}: an array's name")
            _check_array(f"{self.name}/{name}", name, spec)
        self._check_dimensions()
        self._check_groups()
        self._check_mask()
        self._check_face()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of ``values``."""
        return self.arrays[MAIN_ARRAY].columns if MAIN_ARRAY in self.arrays else ()

    def _check_dimensions(self) -> None:
        """A dimension has one size and the same names along it in all arrays, and is not called like an array."""
        for name, spec in self.arrays.items():
            if taken := [dim for dim in spec.dims if dim in self.arrays]:
                raise SpecError(f"{self.name}/{name}: a dimension and an array cannot both be called {taken[0]!r}")
        sizes: dict[str, tuple[str, int]] = {}
        labels: dict[str, tuple[str, tuple[str, ...]]] = {}
        for name, spec in self.arrays.items():
            for dim, size in zip(spec.dims, spec.shape, strict=True):
                first, first_size = sizes.setdefault(dim, (name, size))
                if size != first_size:
                    raise SpecError(
                        f"{self.name}/{name}: the dimension {dim!r} has {size} entries, but {first_size} in {first}; "
                        "give one of the two another name"
                    )
            for along, names in ((spec.dims[-1:], spec.columns), (spec.dims[-2:-1], spec.joints)):
                if not names:
                    continue
                other, other_names = labels.setdefault(along[0], (name, tuple(names)))
                if tuple(names) != other_names:
                    raise SpecError(
                        f"{self.name}/{name}: the entries of the dimension {along[0]!r} have other names than in "
                        f"{other}; give one of the two another name"
                    )

    def _check_groups(self) -> None:
        for name, group in self.groups.items():
            where = f"{self.name}: the group {name!r}"
            _check_name(name, f"{self.name}: a group's name")
            if name in self.columns:
                raise SpecError(f"{where} is called like a column: nobody could choose the one or the other")
            if not isinstance(group, slice) or group.step not in (None, 1):
                raise SpecError(f"{where} is {group!r}; it has to be a slice of neighbouring columns")
            bounds = (group.start, group.stop)
            if not all(_is_whole(bound) for bound in bounds) or not 0 <= bounds[0] < bounds[1] <= len(self.columns):
                raise SpecError(f"{where} is {group!r}, but 'values' has {len(self.columns)} columns with names")

    def _check_mask(self) -> None:
        if not self.mask:
            return
        if self.mask not in self.arrays or self.mask == MAIN_ARRAY:
            raise SpecError(f"{self.name}: the mask {self.mask!r} is none of its arrays ({', '.join(self.arrays)})")
        mask = self.arrays[self.mask]
        if mask.shape or _dtype(mask.dtype).kind not in "iu" or mask.optional:
            raise SpecError(
                f"{self.name}/{self.mask}: a mask is one integer a row (1 where the row is a measurement), and always "
                f"there; this is {(*mask.dimension_names,)} of {mask.dtype}"
            )
        if MAIN_ARRAY in self.arrays and mask.axis is not self.arrays[MAIN_ARRAY].axis:
            raise SpecError(
                f"{self.name}/{self.mask}: the mask has a row for each {mask.axis}, but 'values' for each "
                f"{self.arrays[MAIN_ARRAY].axis}"
            )

    def _check_face(self) -> None:
        if not self.face:
            return
        if self.face not in self.arrays:
            raise SpecError(f"{self.name}: face={self.face!r} is none of its arrays ({', '.join(self.arrays)})")
        array = self.arrays[self.face]
        is_whole = _dtype(array.dtype).kind in "iu"
        if array.axis is not Axis.FRAME or (is_whole and array.shape and FACE_PART not in array.columns):
            raise SpecError(
                f"{self.name}/{self.face}: what says in which frames a face is tracked has a row for each frame: one "
                f"integer, or a column {FACE_PART!r} of integers, or floats; this is {(*array.dimension_names,)} of "
                f"{array.dtype}"
            )


def shown_names(before: str, names: Sequence[str]) -> str:
    """Names for display: all of a few, of many the first and the last; an empty text for none."""
    shown = list(names) if len(names) <= 8 else [*names[:3], "…", names[-1], f"({len(names)})"]
    return f"{before}{' '.join(shown)}" if names else ""


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
        raise SpecError(
            f"{what} cannot be {name!r}: lower-case letters, digits and '_', at most 64, a letter first (it is a "
            "folder of the store and a word of filters)"
        )


def _check_array(where: str, name: str, spec: ArraySpec) -> None:
    if not isinstance(spec.axis, Axis):
        raise SpecError(f"{where}: there is no axis {spec.axis!r}; there are {', '.join(Axis)}")
    dtype = _check_dtype(where, spec)
    if name in _CLOCK and (dtype != _dtype("float64") or spec.shape):
        raise SpecError(f"{where}: the array {name!r} holds seconds on the recording's clock, one float64 a row")
    if not isinstance(spec.shape, tuple) or not all(_is_whole(size) and size > 0 for size in spec.shape):
        raise SpecError(f"{where}: shape {spec.shape!r} is not a tuple of whole numbers above 0 (without the rows)")
    if len(spec.dims) != len(spec.shape):
        raise SpecError(f"{where}: shape {spec.shape} needs {len(spec.shape)} names of dimensions, not {spec.dims!r}")
    for dim in spec.dims:
        _check_name(dim, f"{where}: a dimension's name")
    if len(set(spec.dimension_names)) < len(spec.dimension_names):
        raise SpecError(f"{where}: two dimensions have one name: {', '.join(spec.dimension_names)}")
    _check_labels(where, "columns", spec.columns, spec.shape[-1:])
    _check_labels(where, "joints", spec.joints, spec.shape[-2:-1])


def _dtype(name: str) -> np.dtype:
    import numpy as np  # takes long to import, and the names of features need none of it

    return np.dtype(name)


def _check_dtype(where: str, spec: ArraySpec) -> np.dtype:
    try:
        dtype = _dtype(spec.dtype)
    except TypeError:
        raise SpecError(f"{where}: numpy has no dtype {spec.dtype!r}") from None
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise SpecError(f"{where}: dtype {spec.dtype!r} is not stored; take integers or floats of at most 64 bits")
    if dtype.kind == "f":
        return dtype
    least = 0 if dtype.kind == "u" else -(2 ** (8 * dtype.itemsize - 1))
    if not _is_whole(spec.fill) or not least <= spec.fill < least + 2 ** (8 * dtype.itemsize):
        raise SpecError(
            f"{where}: fill={spec.fill!r} is no {dtype.name}; give the value for rows without one (0, say, or -1)"
        )
    return dtype


def _check_labels(where: str, what: str, names: Sequence[str], sizes: Iterable[int]) -> None:
    if not names:
        return
    if isinstance(names, str) or not _are_printable(names):
        raise SpecError(f"{where}: {what} are to be printable names, one for each entry")
    size = next(iter(sizes), 0)
    if len(names) != size:
        raise SpecError(f"{where}: {len(names)} {what} for a dimension of {size}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise SpecError(f"{where}: {what} has {twice!r} twice")


def _are_printable(names: Iterable[object]) -> bool:
    """Whether these are texts, none of them empty; without a call for each, as an array may have thousands."""
    try:
        return all(map(str.isprintable, names)) and all(names)  # type: ignore[arg-type]  # others raise TypeError
    except TypeError:
        return False


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
