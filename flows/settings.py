"""The configuration: one TOML file, with sections for extractors, clips, labels, training and the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import Field, ValidationError

from flows.clusters.settings import ClusterSettings, LocalCluster, anchor_certificates
from storyframes.clips.window_spec import WindowSpec
from storyframes.config_file import ConfigFileError, read_toml
from tasks.empathy.settings import TrainSettings
from tasks.extractors.registry import ExtractorsSettings, anchored
from tasks.label_rules import LabelRule, label_rule_faults
from tasks.study.load import Study


class SettingsError(Exception):
    """The configuration cannot be used; the message lists every problem in it."""


class Settings(ExtractorsSettings):
    """Everything that can be configured; unknown keys are errors."""

    clips: WindowSpec = Field(default_factory=WindowSpec)
    labels: dict[str, LabelRule] = Field(default_factory=dict)
    train: TrainSettings = Field(default_factory=TrainSettings)
    cluster: ClusterSettings = Field(default_factory=LocalCluster)


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
        path: the file.
        sections: by name, what a program says of sections in the file's place, key by key; paths in it are relative to
            the current folder.

    Raises:
        SettingsError: the file cannot be read, is no TOML, or something has unknown keys or bad values.
    """
    content = {} if path is None else _read(path)
    for name, said in _anchored_here(sections).items():
        there = content.get(name)
        content[name] = {**there, **said} if isinstance(there, dict) and isinstance(said, dict) else said
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        faults = [_describe(fault) for fault in error.errors(include_url=False)]
        where = "the settings" if path is None else str(path)
        raise SettingsError("\n".join([f"{where}:", *(f"  {fault}" for fault in faults)])) from None


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
    return anchored(content, folder)


def _anchored_here(sections: Mapping[str, Any]) -> dict[str, Any]:
    """The same with paths as text, made absolute by the current folder."""
    written = {
        name: {key: str(value) if isinstance(value, Path) else value for key, value in said.items()}
        if isinstance(said, Mapping)
        else said
        for name, said in sections.items()
    }
    return anchored(written, Path.cwd())


def _describe(fault: Any) -> str:
    place = ".".join(str(part) for part in fault["loc"])
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{place}: there is no such key"
    what = fault["msg"].removeprefix("Value error, ")
    if not place:  # of several sections
        return what
    return f"{place}: {what}" if isinstance(fault["input"], dict) else f"{place} = {fault['input']!r}: {what}"
