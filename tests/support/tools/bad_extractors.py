"""Extractors of which each breaks one rule of the contract, and ``Good``, which breaks none.

They are in a module of their own because a process of its own has to import them.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, Field

from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store.publish import FeatureWriter
from tasks.extractors.base import (
    ExtractionError,
    Extractor,
    ExtractorSettings,
    Input,
    InputFile,
    MissingInputError,
    Source,
)
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.frames import FrameClock


def one_array(name: str, axis: Axis = Axis.FRAME, dtype: str = "float32", **more: Any) -> FeatureSpec:
    fill: dict[str, Any] = {} if dtype.startswith("f") else {"fill": 0}
    return FeatureSpec(name, "a test's", {"values": ArraySpec(axis, dtype, "a test's", **fill, **more)})


class ScaleSettings(ExtractorSettings):
    scale: float = 1.0
    batch: int = 8


class Good(FrameExtractor[Any]):
    spec = one_array("good")
    version = 1
    Settings = ScaleSettings

    def value_settings(self) -> Mapping[str, Any]:
        return {"scale": self.settings.scale}

    def rows(self, batch: Any) -> np.ndarray:
        return self.settings.scale * batch.rgb.mean(axis=(1, 2, 3), dtype=np.float32)


class NoFeatureSpec(Good):
    spec = "brightness"  # type: ignore[assignment]


class ReservedName(Good):
    spec = one_array("recording")


class UnknownInput(Good):
    inputs = ("vidoe",)


class NeedsASetting(Good):
    class Settings(ExtractorSettings):
        scale: float


class ForgetfulSettings(ScaleSettings):
    scale: float = Field(default=1.0, exclude=True)


class Forgetful(Good):
    Settings = ForgetfulSettings


class TolerantSettings(ScaleSettings):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Tolerant(Good):
    Settings = TolerantSettings


class Unwilling(Good):
    def rows(self, batch: Any) -> np.ndarray:
        raise ExtractionError(f"frame {batch.first}: I would rather not")


class OneRowTooMany(Good):
    def extract(self, source: Source, out: FeatureWriter) -> None:
        out.write("values", np.zeros(len(FrameClock.read(source, out)) + 1))


class Fractions(Good):
    spec = one_array("fractions", dtype="uint8")

    def rows(self, batch: Any) -> np.ndarray:
        return np.full(len(batch), 0.5)


class OtherShape(Good):
    def rows(self, batch: Any) -> np.ndarray:
        return np.zeros((len(batch), 2))


class OtherArray(Good):
    def rows(self, batch: Any) -> dict[str, np.ndarray]:  # type: ignore[override]
        return {"brightness": np.zeros(len(batch))}


class Random(Good):
    def rows(self, batch: Any) -> np.ndarray:
        return np.frombuffer(secrets.token_bytes(len(batch)), np.uint8).astype(np.float32)


class ByHash(Good):
    def rows(self, batch: Any) -> np.ndarray:
        return np.full(len(batch), hash("the order of a set") % 1000, np.float32)


class ElsewhereNothing(Good):
    def rows(self, batch: Any) -> np.ndarray:
        if os.environ.get("PYTHONHASHSEED") == "1":
            raise ExtractionError("not in this process")
        return super().rows(batch)


class AlwaysNew(Good):
    def value_settings(self) -> Mapping[str, Any]:
        return {"scale": self.settings.scale, "made": secrets.token_hex()}


class SettingForgotten(Good):
    def value_settings(self) -> Mapping[str, Any]:
        return {}


class OpaqueSettings(ScaleSettings):
    table: dict[str, int] = Field(default_factory=dict)


class Opaque(Good):
    Settings = OpaqueSettings

    def value_settings(self) -> Mapping[str, Any]:
        return self.settings.model_dump(include={"scale", "table"})


class Blind(Good):
    def file(self, source: Source, kind: str) -> InputFile:
        return replace(super().file(source, kind), sha256="0" * 64)


class Undeclared(Good):
    def extract(self, source: Source, out: FeatureWriter) -> None:
        source.file(Input.TRANSCRIPT).path.read_bytes()
        super().extract(source, out)


class Lines(Extractor[Any]):
    """Good as well: the length of each line of a transcript that is a list of texts."""

    spec = one_array("lines", Axis.UTTERANCE, "int64")
    version = 1
    inputs: tuple[str, ...] = (Input.TRANSCRIPT,)
    after = ()

    def extract(self, source: Source, out: FeatureWriter) -> None:
        out.write("values", self.lengths(source.file(Input.TRANSCRIPT).path))

    def lengths(self, path: Path) -> np.ndarray:
        try:
            lines = json.loads(path.read_bytes())
        except ValueError:
            raise ExtractionError(f"{path.name}: is not JSON") from None
        return np.array([len(line) for line in lines], np.int64)


class MissingIsFailure(Lines):
    def file(self, source: Source, kind: str) -> InputFile:
        try:
            return super().file(source, kind)
        except MissingInputError:
            raise ExtractionError("there is no transcript") from None


class MissingIsZero(Lines):
    def file(self, source: Source, kind: str) -> InputFile:
        return InputFile(Path(os.devnull), "none", "0" * 64, 0, 0) if kind not in source.files else source.file(kind)

    def extract(self, source: Source, out: FeatureWriter) -> None:
        there = Input.TRANSCRIPT in source.files
        out.write("values", self.lengths(source.file(Input.TRANSCRIPT).path) if there else np.zeros(1, np.int64))

    def fingerprint(self, source: Source) -> Any:  # type: ignore[misc]
        if Input.TRANSCRIPT in source.files:
            return super().fingerprint(source)
        return replace(super().fingerprint(source), inputs={})


class AnyBytes(Lines):
    def lengths(self, path: Path) -> np.ndarray:
        return np.array([len(path.read_bytes())])


class RawError(Lines):
    def lengths(self, path: Path) -> np.ndarray:
        return np.array([len(line) for line in json.loads(path.read_bytes())], np.int64)


class EmptyIsMissing(Lines):
    def lengths(self, path: Path) -> np.ndarray:
        if not path.stat().st_size:
            raise MissingInputError("there is nothing in it")
        return super().lengths(path)


class Hoarder(Good):
    """Keeps all frames."""

    def rows(self, batch: Any) -> np.ndarray:
        self.kept = [*getattr(self, "kept", []), batch.rgb]
        return super().rows(batch)
