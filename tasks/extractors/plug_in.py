"""A plug-in's class: refused with a sentence where it would fail later or harm others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storyframes.features import FeatureSpec
from storyframes.plug_ins import PlugInError, describe_error
from tasks.extractors.base import CommonSettings, Cost, Extractor, Input
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.settings import ExtractorSettings, RecordingSettings, TranscriptSettings


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
        raise PlugInError(
            f"{cls.__name__} cannot be made with its default settings ({describe_error(error)})"
        ) from None
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
