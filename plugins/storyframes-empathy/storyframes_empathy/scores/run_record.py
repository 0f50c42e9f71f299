"""``run.json``: what decided the predictions of a run, and what their scores mean."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from storyframes.store import write_atomically

RECORD = "run.json"
EMPATHY = "empathy"
_MODALITIES = ("v", "a", "t")


class RunError(Exception):
    """A run cannot be scored; the message names the file, the row, the value and the rule."""


class Level(StrEnum):
    """What one prediction is of."""

    CLIP = "clip"
    STORY = "story"  # one of each story that a session rated


class ScoreScale(StrEnum):
    """The scale on which scores estimate a rating between the scheme's smallest and largest."""

    SCALED = "scaled"  # (rating - min) / (max - min)
    UNIT = "unit"  # rating / max
    RATING = "rating"  # the rating itself
    BINARY = "binary"  # 1 where the rating is above the threshold, else 0


def _in_order(modalities: str) -> str:
    parts = modalities.split("+")
    if not all(parts) or len(set(parts)) < len(parts):
        raise ValueError("name each modality once, joined by +, as in v+a+t")
    known = [one for one in _MODALITIES if one in parts]
    return "+".join(known + sorted(set(parts) - set(known)))


class TrainLabels(BaseModel):
    """The labels of the clips that a run was trained on, each clip once: what the constant baselines know.

    Attributes:
        n: clips.
        mean: of their ratings.
        prevalence: the share of them whose rating is above the threshold.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    n: int = Field(gt=0)
    mean: float
    prevalence: float = Field(ge=0, le=1)


class Run(BaseModel):
    """What decided the predictions of one run. Unknown keys are errors; free are ``settings``, ``versions``, ``data``.

    Attributes:
        phase: of which clips.
        model: its name; runs of one model in one table are its seeds.
        variant: what makes it another model than the one of that name ("pca 256"); shown beside the name.
        modalities: what it saw, "v", "a" and "t" joined by + (put into this order); any other name comes after.
        seed: of the run.
        level: what one prediction is of.
        scheme: the scheme of the labels.
        minimum, maximum: the scheme's smallest and largest rating.
        threshold: ratings above it are positive; given None it is 3 for the scheme empathy, else the middle of
            minimum and maximum.
        label: the scale of the scores.
        score_threshold: scores above it are positive, on the scores' own scale; given None it is where the threshold
            of ratings lies on that scale (.5 on the scale "binary").
        may_be_missing: a prediction without a score is an answer that could not be read: counted, and left out.
        is_baseline: of a method that was not trained; it is shown apart and is never the best.
        train: labels of the training clips, for the constant baselines.
        fingerprint: of everything that decided the predictions.
        caveats: what users of the numbers must know; shown under every table with this run.
        settings, versions, data: anything else that decided them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format: Literal[1] = 1
    phase: str = Field(min_length=1)
    model: str = Field(min_length=1)
    variant: str = ""
    modalities: Annotated[str, AfterValidator(_in_order)]
    seed: int = Field(default=0, ge=0)
    level: Level = Level.CLIP
    scheme: str = Field(default=EMPATHY, min_length=1)
    minimum: float
    maximum: float
    threshold: float
    label: ScoreScale = ScoreScale.SCALED
    score_threshold: float
    may_be_missing: bool = False
    is_baseline: bool = False
    train: TrainLabels | None = None
    fingerprint: str = ""
    caveats: tuple[str, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    data: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, content: Any) -> Any:
        """Give the limits and thresholds that are not said."""
        if not isinstance(content, dict):
            return content
        content = dict(content)
        if content.get("scheme", EMPATHY) == EMPATHY:
            for key, value in (("minimum", 1.0), ("maximum", 5.0), ("threshold", 3.0)):
                if content.get(key) is None:
                    content[key] = value
        low, high = content.get("minimum"), content.get("maximum")
        if not _is_number(low) or not _is_number(high):
            return content
        if content.get("threshold") is None:
            content["threshold"] = (low + high) / 2
        if content.get("score_threshold") is None and _is_number(content["threshold"]):
            content["score_threshold"] = {
                ScoreScale.SCALED: (content["threshold"] - low) / (high - low) if high != low else 0.0,
                ScoreScale.UNIT: content["threshold"] / high if high else 0.0,
                ScoreScale.RATING: content["threshold"],
                ScoreScale.BINARY: 0.5,
            }.get(content.get("label", ScoreScale.SCALED), 0.5)
        return content

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.minimum < self.maximum:
            raise ValueError(f"minimum {self.minimum:g} must be below maximum {self.maximum:g}")
        if not self.minimum <= self.threshold < self.maximum:
            raise ValueError(
                f"threshold {self.threshold:g}: must be from minimum {self.minimum:g} to below maximum {self.maximum:g}"
            )
        if self.label is ScoreScale.UNIT and self.maximum <= 0:
            raise ValueError(f'label "unit" is rating / maximum, and maximum is {self.maximum:g}')
        return self

    @property
    def name(self) -> str:
        """Which run it is, for messages."""
        model = f"{self.model} ({self.variant})" if self.variant else self.model
        return f"{self.phase}, {model}, {self.modalities}, seed {self.seed}"


def write_run(folder: Path, run: Run) -> None:
    """Write ``run.json`` into ``folder``, in one step, with mode 0600.

    Raises:
        OSError: it cannot be written.
    """
    write_atomically(folder / RECORD, f"{run.model_dump_json(indent=1)}\n".encode())


def read_run(folder: Path) -> Run:
    """The run of a folder.

    Raises:
        RunError: there is none, or it breaks a rule; every fault is named.
    """
    path = folder / RECORD
    try:
        return Run.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        given = error.errors(include_url=False)
        # without limits there are no thresholds either
        no_limits = any(fault["loc"] in (("minimum",), ("maximum",)) for fault in given)
        faults = [_describe(one) for one in given if not (no_limits and "threshold" in str(one["loc"]))]
        raise RunError("\n".join([f"{path}: is not what decided a run (docs/benchmark.md):", *faults])) from None


def _describe(fault: Any) -> str:
    place = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "missing":
        more = ": give the scheme's smallest and largest rating" if place in ("minimum", "maximum") else ""
        return f"  {place}: is missing{more}"
    if fault["type"] == "extra_forbidden":
        return f"  {place}: there is no such key; what else decided the run goes into settings, versions or data"
    given = repr(fault["input"]) if place and isinstance(fault["input"], str | int | float | bool | None) else ""
    return "  " + ": ".join(part for part in (place, given, fault["msg"].removeprefix("Value error, ")) if part)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
