"""The configuration: one TOML file, with sections for extractors, clips, labels, the cluster and plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, Field, SkipValidation, ValidationError

from flows.clusters.settings import ClusterSettings, LocalCluster, anchor_certificates
from storyframes.clips.window_spec import WindowSpec
from storyframes.config_file import ConfigFileError, read_toml
from storyframes.installation import FEATURE_COMPANIONS, SECTION_COMPANIONS, install_line
from storyframes.plug_ins import SETTINGS, PlugInError, installed_plug_ins, load_plug_in, origin, plug_in
from tasks.clip_index.label_rules import LabelRule, label_rule_faults
from tasks.extractors.registry import ExtractorsSettings, anchored
from tasks.strict_settings import anchor_paths, suggest_key
from tasks.study.load import Study

_MOST_FAULTS = 50  # in a message
_SECTIONS = FEATURE_COMPANIONS | SECTION_COMPANIONS


class SettingsError(Exception):
    """The configuration cannot be used; the message lists every problem in it."""


@dataclass(frozen=True)
class PlugInSections(Mapping[str, Any]):
    """The sections of plug-ins by name; a plug-in is imported when its section is read."""

    # the sections that the file has, unvalidated; the others have their defaults
    content: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """The validated section.

        Raises:
            KeyError: no plug-in has such a section.
            PlugInError: the plug-in cannot be used.
        """
        return _section_class(name).model_validate(self.content.get(name, {}))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({point.name for point in installed_plug_ins(SETTINGS)}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Settings(ExtractorsSettings):
    """Everything that can be configured; unknown keys are errors."""

    clips: WindowSpec = Field(default_factory=WindowSpec)
    labels: dict[str, LabelRule] = Field(default_factory=dict)
    cluster: ClusterSettings = Field(default_factory=LocalCluster)
    sections: SkipValidation[PlugInSections] = Field(default_factory=PlugInSections)


def _section_class(name: str) -> type[BaseModel]:
    """The model of a plug-in's section.

    Raises:
        KeyError: no plug-in has such a section.
        PlugInError: the plug-in cannot be used.
    """
    point = plug_in(SETTINGS, name)
    if point is None:
        raise KeyError(name)
    try:
        section = load_plug_in(point)
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            raise PlugInError(f"{section!r} is not a pydantic model")
        if section.model_config.get("extra") != "forbid":
            raise PlugInError(f"{section.__name__} accepts unknown keys: derive it from StrictSettings")
        if required := [key for key, about in section.model_fields.items() if about.is_required()]:
            raise PlugInError(f"{section.__name__}.{required[0]} has no default value")
    except PlugInError as error:
        raise PlugInError(f"{origin(point)}: the section [{name}]: {error}") from None
    return section


def check_labels(settings: Settings, study: Study) -> None:
    """Make sure that the study's labels can be columns of its clip index.

    Raises:
        SettingsError: they cannot; every reason is named.
    """
    if faults := label_rule_faults(study, settings.labels):
        raise SettingsError("\n".join(["labels cannot become clips:", *(f"  {fault}" for fault in faults)]))


def load_settings(path: Path | None, sections: Mapping[str, Any] = MappingProxyType({})) -> Settings:
    """The settings of the TOML file at ``path``; paths in it are relative to its folder. None gives the defaults.

    Args:
        sections: by name, sections whose keys replace those of the file; paths in them are relative to the current
            folder.

    Raises:
        SettingsError: the file cannot be read, is no TOML, or something has unknown keys or bad values.
    """
    content = {} if path is None else _read(path)
    for name, section in _anchored(sections, Path.cwd()).items():
        before = content.get(name)
        content[name] = {**before, **section} if isinstance(before, dict) and isinstance(section, dict) else section
    unknown = content.keys() - Settings.model_fields.keys()
    given = {name: content.pop(name) for name in (unknown & set(PlugInSections()) if unknown else ())}
    faults = ["sections: there is no such key"] if content.pop("sections", None) is not None else []
    settings = Settings()
    try:
        settings = Settings.model_validate(content)
    except ValidationError as error:
        faults += _described(error, Settings)
    for name, section in given.items():
        try:
            _section_class(name).model_validate(section)
        except PlugInError as error:
            faults.append(str(error))
        except ValidationError as error:
            faults += _described(error, _section_class(name), name)
    if len(faults) > _MOST_FAULTS:
        faults = [*faults[:_MOST_FAULTS], f"and {len(faults) - _MOST_FAULTS:,} more"]
    if faults:
        where = "the settings" if path is None else str(path)
        raise SettingsError("\n".join([f"{where}:", *(f"  {fault}" for fault in faults)]))
    return settings.model_copy(update={"sections": PlugInSections(given)})


def _read(path: Path) -> dict[str, Any]:
    """The content of a TOML file, paths in it made absolute."""
    try:
        content = read_toml(path)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except ConfigFileError as error:
        raise SettingsError(f"{path}: {error}") from None
    folder = path.resolve().parent
    anchor_certificates(content.get("cluster"), folder)
    return _anchored(content, folder)


def _anchored(sections: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The sections with paths as text, the relative ones in settings of extractors and plug-ins made absolute."""
    written = {
        name: {key: str(value) if isinstance(value, Path) else value for key, value in section.items()}
        if isinstance(section, Mapping)
        else section
        for name, section in sections.items()
    }
    unknown = written.keys() - Settings.model_fields.keys()
    for name in unknown & set(PlugInSections()) if unknown else ():  # load_settings names the others
        with suppress(KeyError, PlugInError):
            if isinstance(written[name], Mapping):
                written[name] = anchor_paths(_section_class(name), written[name], folder)
    return anchored(written, folder)


def _described(error: ValidationError, model: type[BaseModel], section: str = "") -> Iterator[str]:
    """A sentence for each fault, with its key; which known key is like an unknown one only for as many as are shown."""
    for number, fault in enumerate(error.errors(include_url=False)):
        key = ".".join([*([section] if section else []), *map(str, fault["loc"])])
        message = fault["msg"].removeprefix("Value error, ")
        if key in _SECTIONS and fault["type"] == "extra_forbidden":
            yield f"[{key}] comes with {_SECTIONS[key]}: {install_line(name=_SECTIONS[key])}"
        elif fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            yield f"{key}: there is no such key{suggest_key(model, fault['loc']) if number < _MOST_FAULTS else ''}"
        elif not fault["loc"]:  # of several keys
            yield f"{section}: {message}" if section else message
        elif isinstance(fault["input"], dict):
            yield f"{key}: {message}"
        else:
            yield f"{key} = {fault['input']!r}: {message}"
