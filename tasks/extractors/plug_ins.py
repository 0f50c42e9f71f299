"""The extractors of plug-ins: loaded, and refused with a sentence if they would fail later or harm others.

A plug-in is any installed distribution that names classes under the entry points ``storyframes.extractors``. One that
cannot be used affects no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from storyframes.features import FeatureSpec
from storyframes.plug_ins import EXTRACTORS, PlugInError, describe_error, installed_plug_ins, load_plug_in, origin
from tasks.extractors.base import CommonSettings, Cost, Extractor, Input, Scope
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.settings import ExtractorSettings, RecordingSettings, TranscriptSettings


def load_plug_ins(
    built_in: Sequence[type[Extractor[Any]]], check_name: Callable[[type[Extractor[Any]]], None]
) -> tuple[tuple[type[Extractor[Any]], ...], Mapping[str, str]]:
    """The extractors of plug-ins that can be used, and by entry point, why others cannot.

    Args:
        check_name: raises :class:`PlugInError` for a feature that cannot have its name.
    """
    classes: dict[tuple[Scope, str], type[Extractor[Any]]] = {(cls.scope, cls.spec.name): cls for cls in built_in}
    usable: dict[str, type[Extractor[Any]]] = {}
    broken: dict[str, str] = {}
    for point in installed_plug_ins(EXTRACTORS):
        name = f"{origin(point)}: {point.name}"
        try:
            cls = load_plug_in(point)
            check_class(cls)
            check_name(cls)
            if taken := classes.get((cls.scope, cls.spec.name)):
                raise PlugInError(f"its feature {cls.spec.name!r} is {taken.distribution or 'storyframes'}'s already")
        except PlugInError as error:
            broken[name] = str(error)
        else:
            cls.distribution = origin(point)
            classes[cls.scope, cls.spec.name] = cls
            usable[name] = cls
    broken |= _never_begin(usable, classes)
    return tuple(cls for name, cls in usable.items() if name not in broken), broken


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


def _never_begin(
    own: Mapping[str, type[Extractor[Any]]], classes: Mapping[tuple[Scope, str], type[Extractor[Any]]]
) -> dict[str, str]:
    """The plug-ins that wait for a feature that does not exist, or in the end for themselves, and why."""
    begin = {(cls.scope, cls.spec.name) for cls in classes.values() if cls not in own.values()}
    waiting = dict(own)
    after = {cls: cls(cls.Settings(), CommonSettings()).after for cls in own.values()}  # may be a property
    while ready := [
        name for name, cls in waiting.items() if all((cls.scope, feature) in begin for feature in after[cls])
    ]:
        begin |= {(cls.scope, cls.spec.name) for cls in map(waiting.pop, ready)}
    reasons = {}
    for name, cls in waiting.items():
        feature = next(feature for feature in after[cls] if (cls.scope, feature) not in begin)
        awaited = classes.get((cls.scope, feature))
        why = f"it waits for {', '.join(map(repr, after[awaited]))} itself" if awaited else "there is no such feature"
        reasons[name] = f"{cls.__name__}.after has {feature!r}: {why}"
    return reasons
