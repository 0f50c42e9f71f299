"""A plug-in's class: loaded, and refused with a sentence where it would fail later or harm others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

from storyframes.features import FeatureSpec
from tasks.extractors.base import CommonSettings, Cost, Extractor, Input
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.settings import ExtractorSettings, RecordingSettings, TranscriptSettings

_TOLD = 300  # characters of an error of a plug-in's own


class PlugInError(Exception):
    """A plug-in's class is no extractor that can be used; the message says why."""


def origin(point: EntryPoint) -> str:
    """Name and version of the distribution that an entry point is of."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def load_class(point: EntryPoint) -> Any:
    """What the entry point names.

    Raises:
        PlugInError: it cannot be imported, whatever that ended with.
    """
    try:
        return point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may raise anything, and must take nothing else down
        raise PlugInError(f"cannot be loaded ({_told(error)})") from None


def check_class(cls: Any) -> None:
    """Refuse what would fail later.

    Raises:
        PlugInError: with the first thing that is wrong.
    """
    if not (isinstance(cls, type) and issubclass(cls, Extractor)):
        raise PlugInError(f"{cls!r} is not a class derived from tasks.extractors.base.Extractor")
    if abstract := sorted(getattr(cls, "__abstractmethods__", ())):
        raise PlugInError(f"{cls.__name__} lacks {', '.join(abstract)}")
    if issubclass(cls, FrameExtractor) and (cls.rows, cls.open) == (FrameExtractor.rows, FrameExtractor.open):
        raise PlugInError(f"{cls.__name__} needs rows(), or open() where that is not enough")
    if not isinstance(getattr(cls, "spec", None), FeatureSpec):
        raise PlugInError(f"{cls.__name__} needs spec, a FeatureSpec")
    if not isinstance(getattr(cls, "version", None), int):
        raise PlugInError(f"{cls.__name__} needs version, a whole number")
    _check_settings(cls)
    _check_object(cls)


def _check_object(cls: type[Extractor[Any]]) -> None:
    """Ask one that is made with its default settings what planning asks."""
    try:
        made = cls(cls.Settings(), CommonSettings())
        asked = {name: getattr(made, name) for name in ("inputs", "after", "needs", "cost")}
    except Exception as error:
        raise PlugInError(f"{cls.__name__} cannot be made with its default settings ({_told(error)})") from None
    for name in ("inputs", "after"):
        if isinstance(asked[name], str) or not isinstance(asked[name], Sequence):
            raise PlugInError(f"{cls.__name__}.{name} is {asked[name]!r}; give a tuple of names")
    if unknown := [kind for kind in asked["inputs"] if kind not in list(Input)]:
        raise PlugInError(f"{cls.__name__}.inputs has {unknown[0]!r}; there are {', '.join(Input)}")
    if not isinstance(asked["cost"], Cost) or not isinstance(asked["needs"], Mapping):
        raise PlugInError(f"{cls.__name__}: cost is a Cost, and needs says how much of each resource: {{'CPU': 1}}")


def _check_settings(cls: type[Extractor[Any]]) -> None:
    if not (isinstance(cls.Settings, type) and issubclass(cls.Settings, ExtractorSettings)):
        raise PlugInError(f"{cls.__name__}.Settings is not a class derived from ExtractorSettings")
    if shared := cls.Settings.model_fields.keys() & {*RecordingSettings.model_fields, *TranscriptSettings.model_fields}:
        raise PlugInError(f"{cls.__name__}.Settings has {min(shared)!r}, which [recording] or [transcript] has already")
    if required := [name for name, field in cls.Settings.model_fields.items() if field.is_required()]:
        raise PlugInError(f"{cls.__name__}.Settings.{required[0]} has no default value")


def _told(error: BaseException) -> str:
    """Kind and text of an error, on one line."""
    text = " ".join(str(error).split())[:_TOLD]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
