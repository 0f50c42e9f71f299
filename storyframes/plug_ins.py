"""Plug-ins: entry points of installed distributions, found and loaded in one way for every group of them.

docs/extending.md says what each group is for. An entry point that cannot be loaded is an error with its name, and takes
nothing else down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, entry_points
from typing import Any

from storyframes.installation import install_line

EXTRACTORS = "storyframes.extractors"
COMMANDS = "storyframes.commands"
SETTINGS = "storyframes.settings"
REPORT_PAGES = "storyframes.report_pages"
EXPORT_FORMATS = "storyframes.export_formats"
FORGET = "storyframes.forget"
CHECK = "storyframes.check"
DATA_SETS = "storyframes.data_sets"
PIPELINE = "storyframes.pipeline"

_LONGEST = 300  # characters of a plug-in's own error in a message


class PlugInError(Exception):
    """A plug-in, or a part of one, cannot be used; the message says why.

    Example:
        >>> raise PlugInError("brightness: its class is no Extractor")
        Traceback (most recent call last):
        storyframes.plug_ins.PlugInError: brightness: its class is no Extractor
    """


def installed_plug_ins(group: str) -> list[EntryPoint]:
    """The entry points of a group, of all distributions, by distribution and name; nothing is imported."""
    return sorted(entry_points(group=group), key=lambda point: (origin(point), point.name))


def plug_in(group: str, name: str) -> EntryPoint | None:
    """The one entry point with this name; None where no distribution has it.

    Raises:
        PlugInError: several distributions have it.
    """
    points = [point for point in installed_plug_ins(group) if point.name == name]
    if len({point.value for point in points}) > 1:
        raise PlugInError(f"{' and '.join(map(origin, points))} both name {name!r} under {group}: uninstall one")
    return points[0] if points else None


def origin(point: EntryPoint) -> str:
    """Name and version of the distribution that an entry point belongs to."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def load_plug_in(point: EntryPoint) -> Any:
    """The object that an entry point names.

    Raises:
        PlugInError: it cannot be imported, whatever the reason.
    """
    try:
        return point.load()
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        line = f"; what it needs is installed by '{install_line(name=point.dist.name)}'" if point.dist else ""
        raise PlugInError(f"cannot be loaded ({describe_error(error)}){line}") from None
    except BaseException as error:  # a plug-in may raise anything, and must take nothing else down
        raise PlugInError(f"cannot be loaded ({describe_error(error)})") from None


class PlugIns(Mapping[str, Any]):
    """The plug-ins of a group by their names, each loaded when it is asked for.

    Example:
        >>> [*PlugIns("storyframes.no_such_group")]
        []

    Raises:
        PlugInError: on access, several distributions have the name, or it cannot be loaded.
    """

    def __init__(self, group: str) -> None:
        self.group = group

    def __getitem__(self, name: str) -> Any:
        return load_plug_in(self._point(name))

    def __contains__(self, name: object) -> bool:
        return name in list(iter(self))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(point.name for point in installed_plug_ins(self.group)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def origin(self, name: str) -> str:
        """Name and version of the distribution that has it."""
        return origin(self._point(name))

    def _point(self, name: str) -> EntryPoint:
        point = plug_in(self.group, name)
        if point is None:
            raise KeyError(name)
        return point


def describe_error(error: BaseException) -> str:
    """Class and text of an error, on one line."""
    text = " ".join(str(error).split())[:_LONGEST]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def load_pipeline(name: str) -> Any:
    """A part of storyframes' own pipeline, which is above this floor: ``command``, ``extract`` or ``trial``.

    Raises:
        ImportError: a package that the pipeline needs is not installed, or storyframes itself is not.
    """
    try:
        points = Distribution.from_name("storyframes").entry_points.select(group=PIPELINE, name=name)
        return next(iter(points)).load()
    except (PackageNotFoundError, StopIteration):
        raise ImportError(
            f"storyframes is not installed with its entry point {PIPELINE} {name}: install it again"
        ) from None
