"""The address of values: a feature, a part of one, or several side by side, spelled alike wherever features are named.

| name | what it selects |
|---|---|
| `openface` | a feature |
| `openface.gaze` | a group of its columns |
| `openface.AU12_r` | a column |
| `opensmile.per_frame` | an array |
| `dope.body_2d.head` | of an array that is named, a column, or those of a joint |
| `mediapipe.face` | the arrays whose names begin with it and an underscore |
| `glove.frame` | its rows of this kind |
| `vision` | features side by side, see :data:`storyframes.features.SIDE_BY_SIDE` |
| `openface@child_b.gaze`, `openface.gaze@child_b` | the same of another track |
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from storyframes.array_roles import column_names
from storyframes.features import SIDE_BY_SIDE
from storyframes.mistakes import unknown
from storyframes.spec import MAIN, MAIN_ARRAY, TRACK_SIGN, ArraySpec, FeatureSpec, is_label_curve, of_track
from storyframes.store.layout import StoreError


class AddressError(StoreError, ValueError):
    """No feature, or no part of one, has this name; the message has the nearest names.

    Example:
        >>> from storyframes import FeatureStore
        >>> FeatureStore("STORE").read("s00", "openface.gazes")
        Traceback (most recent call last):
        storyframes.store.named.address.AddressError: openface has no part 'gazes': is 'gaze' or ...
    """


class Address(NamedTuple):
    """A name in its pieces.

    Attributes:
        feature: the feature, or the name of several side by side, without the track.
        part: what follows the feature's name; empty for the whole feature.
    """

    feature: str
    part: str
    track: str

    @property
    def name(self) -> str:
        """The name in one spelling, without the track."""
        return f"{self.feature}.{self.part}" if self.part else self.feature

    @property
    def stored(self) -> tuple[str, ...]:
        """The features that it needs, as the store calls them."""
        members = [member.partition(".")[0] for member in SIDE_BY_SIDE.get(self.feature, ())]
        return tuple(of_track(member, self.track) for member in members or [self.feature])  # a curve's name has a dot


def parse_address(name: str, stored: Collection[str] = ()) -> Address:
    """The pieces of a name.

    Args:
        stored: features as the store calls them; they say where a track's name ends that has a dot in it.

    Raises:
        AddressError: it is not a text, or is spelled in the way of folders.
    """
    if not isinstance(name, str):
        raise AddressError(
            f"{name!r} is not the name of a feature: give one text, as 'openface.gaze'; features have rows at other "
            "times, and are read one by one"
        )
    if "/" in name:
        raise AddressError(f"{name!r}: a part follows its feature after a dot, {name.replace('/', '.')!r}")
    head, _, track = name.partition(TRACK_SIGN)
    known = [other for other in SIDE_BY_SIDE if head == other or head.startswith(f"{other}.")]
    feature = max(known, key=len) if known else head if is_label_curve(head) else head.partition(".")[0]
    part, track = head[len(feature) + 1 :], track or MAIN
    address = Address(feature, part, track)
    pieces = track.split(".")
    for count in range(len(pieces), 0, -1):
        shorter = Address(feature, ".".join([*filter(None, [part]), *pieces[count:]]), ".".join(pieces[:count]))
        if set(shorter.stored) <= {*stored}:
            return shorter
    return address


@dataclass(frozen=True)
class Part:
    """Which rows, arrays and columns of a feature a name selects.

    Attributes:
        rows: the kind of row; None for that of the feature's main array.
        arrays: the arrays; empty for all with such rows.
        name: as it follows the feature's name; empty for the whole feature.
        places: of the only array, places in its flattened row; empty for all.
        is_column: whether the name is that of one column, which is then in ``places``.
    """

    rows: str | None = None
    arrays: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    is_column: bool = False
    name: str = ""

    @property
    def index(self) -> slice | list[int]:
        """The places as an index, which copies nothing where they are neighbours."""
        first, last = self.places[0], self.places[-1]
        return slice(first, last + 1) if self.places == tuple(range(first, last + 1)) else list(self.places)

    def groups_of(self, spec: FeatureSpec) -> list[str]:
        """The groups of the feature's columns that are chosen whole."""
        places = {*self.places}
        return [name for name, group in spec.groups.items() if not places or {group.start, group.stop - 1} <= places]

    def of_array(self, spec: ArraySpec) -> ArraySpec:
        """The array with the chosen columns alone."""
        if not self.places:
            return spec
        names = column_names(spec)
        columns = tuple(names[place] for place in self.places) if spec.columns or spec.joints else ()
        return replace(spec, shape=(len(self.places),), dims=spec.dims[-1:], columns=columns, joints=())


def part_of(spec: FeatureSpec, name: str) -> Part:
    """The part of this name; an empty name is the whole feature.

    Raises:
        AddressError: the feature has no such part, or its arrays have different kinds of row.
    """
    return replace(_part(spec, name), name=name)


def _part(spec: FeatureSpec, name: str) -> Part:
    if not name:
        return Part()
    if name in spec.groups:
        group = spec.groups[name]
        return Part(str(spec.arrays[MAIN_ARRAY].axis), (MAIN_ARRAY,), tuple(range(group.start, group.stop)))
    if name in spec.arrays:
        return Part(str(spec.arrays[name].axis), (name,))
    first, _, rest = name.partition(".")
    for array, column in ((MAIN_ARRAY, name), (first, rest)):
        if array in spec.arrays and column:
            names = column_names(spec.arrays[array])
            places = [place for place, own in enumerate(names) if own == column]
            places = places or [place for place, own in enumerate(names) if own.startswith(f"{column}.")]
            if places:
                axis = str(spec.arrays[array].axis)
                return Part(axis, (array,), tuple(places), is_column=names[places[0]] == column)
    arrays = tuple(array for array in spec.arrays if array.startswith(f"{name}_"))
    axes = {str(spec.arrays[array].axis) for array in arrays}
    if len(axes) > 1:
        raise AddressError(f"{spec.name}: {', '.join(arrays)} have different kinds of row: name one of them")
    if arrays:
        return Part(axes.pop(), arrays)
    kinds = list(dict.fromkeys(str(array.axis) for array in spec.arrays.values()))
    if name in kinds:
        return Part(name)
    names = [column for array in spec.arrays.values() for column in column_names(array)]
    raise AddressError(unknown(spec.name, "part", name, (*spec.groups, *spec.arrays, *kinds, *names)))


def locate(address: Address, spec_of: Callable[[str], FeatureSpec]) -> list[tuple[str, Part]]:
    """The features of an address, as the store calls them, each with the part that is selected.

    Args:
        spec_of: gives the specification of a feature, and an error where the feature does not exist.

    Raises:
        AddressError: as of :func:`part_of`.
    """
    if address.feature not in SIDE_BY_SIDE:
        (feature,) = address.stored
        return [(feature, part_of(spec_of(feature), address.part))]
    whole = [
        (feature, part_of(spec_of(feature), member.partition(".")[2]))
        for feature, member in zip(address.stored, SIDE_BY_SIDE[address.feature], strict=True)
    ]
    if not address.part:
        return whole
    names: list[str] = []
    for feature, part in whole:
        spec = spec_of(feature)
        names += [*part.groups_of(spec), *part.of_array(spec.arrays[MAIN_ARRAY]).columns]
        if address.part == feature.partition(TRACK_SIGN)[0]:
            return [(feature, part)]
        name = address.part if not part.arrays or address.part in spec.groups else f"{part.arrays[0]}.{address.part}"
        try:
            chosen = part_of(spec, name)
        except AddressError:
            continue
        if not part.places or {*chosen.places} <= {*part.places}:
            return [(feature, chosen)]
    raise AddressError(unknown(address.feature, "part", address.part, names))
