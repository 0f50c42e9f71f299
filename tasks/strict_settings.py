"""The base of every section of a configuration: unknown keys, infinite numbers, and true for a number are errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, model_validator


class StrictSettings(BaseModel):
    """A section of a configuration, which nothing changes after it was made."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _true_is_no_number(cls, content: Any) -> Any:
        """Pydantic takes true for 1, also in the fields of a dataclass, which are looked at here."""
        for name, value in content.items() if isinstance(content, dict) else ():
            if name in cls.model_fields:
                for key in _misplaced(value, cls.model_fields[name].annotation, name):
                    raise ValueError(f"{key}: true and false mean nothing here")
        return content


def _misplaced(value: Any, annotation: Any, key: str) -> Iterator[str]:
    """The keys of booleans where none belongs, with the value."""
    leaves = list(_leaves(annotation))
    if isinstance(value, bool):
        if not any(leaf in (bool, Any) or isinstance(leaf, bool) for leaf in leaves):
            yield f"{key} = {value}"
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _misplaced(each, annotation, key)
    elif isinstance(value, Mapping) and not any(_is_model(leaf) for leaf in leaves):  # a model looks by itself
        fields: dict[str, Any] = {}
        for leaf in leaves:
            fields |= get_type_hints(leaf) if is_dataclass(leaf) else {}
        for name, each in value.items():
            yield from _misplaced(each, fields.get(name, annotation), f"{key}.{name}")


def _is_model(leaf: Any) -> bool:
    return isinstance(leaf, type) and issubclass(leaf, BaseModel)


def _leaves(annotation: Any) -> Iterator[Any]:
    """The types that a type is made of: of ``dict[str, tuple[int, ...]] | None``, str, int, ... and None."""
    parts = get_args(annotation)
    if not parts:
        yield annotation
    for part in parts:
        yield from _leaves(part)


def anchor_paths(model: type[BaseModel], section: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A section, as a file has it, with relative paths in it made absolute."""
    paths = [name for name, field in model.model_fields.items() if field.annotation in (Path, Path | None)]
    return {**section, **{name: str(folder / section[name]) for name in paths if isinstance(section.get(name), str)}}


def suggest_key(model: Any, path: Sequence[int | str]) -> str:
    """A question after the known key that is most like an unknown one; empty where none is like it.

    Args:
        model: of the whole configuration, or a union of models.
        path: of the unknown key, as pydantic's errors have it (``loc``).
    """
    beside = list(_leaves(model))
    for part in path[:-1]:
        inside = [_field_types(leaf)[part] for leaf in beside if part in _field_types(leaf)]
        tagged = [leaf for leaf in beside if any(part in _leaves(of_key) for of_key in _field_types(leaf).values())]
        # The number of an item is no key, and the tag of a union only says which of its models was meant.
        beside = [leaf for annotation in inside for leaf in _leaves(annotation)] or tagged or beside
    known = sorted({key for leaf in beside for key in _field_types(leaf)})
    close = difflib.get_close_matches(str(path[-1]), known, n=1)
    return f": is {close[0]!r} meant?" if close else ""


def _field_types(leaf: Any) -> Mapping[Any, Any]:
    """The keys of a model or a dataclass, with their types."""
    if _is_model(leaf):
        return {name: field.annotation for name, field in leaf.model_fields.items()}
    return get_type_hints(leaf) if isinstance(leaf, type) and is_dataclass(leaf) else {}
