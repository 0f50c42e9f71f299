"""What decides a training run beside the features: the section ``[train]`` of the configuration.

The defaults are the preset ``empathicstories``: the recipe of the paper where it says something, and where it does not,
what docs/benchmark.md says beside each alternative.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from storyframes import Axis, ClipInput, ConfigFileError, FeatureName, SplitSpec, read_toml
from storyframes_empathy.training.models.sizes import AmerSizes, EfLstmSizes, LfLstmSizes, TfnSizes
from tasks import StrictSettings


class TrainSettingsError(Exception):
    """The section [train] cannot be used; the message lists every problem in it."""


class ModelName(StrEnum):
    """The models that there are."""

    AMER = "amer"
    TFN = "tfn"
    EF_LSTM = "ef_lstm"
    LF_LSTM = "lf_lstm"


REFLECTION = "reflection"
"""The phase in which a session reflects on one of the stories that it has rated."""
MODALITIES = ("v", "a", "t")
"""What a model may be given: vision, audio, text; in the order in which names of runs have them."""


class InputSettings(StrictSettings):
    """A part of a modality: an input of clips (:class:`storyframes.ClipInput`).

    It has one row for each frame, unless ``axis`` asks for its own rows (10 ms of sound, words, utterances), of which
    clips have more or fewer.
    """

    input: str
    columns: tuple[str, ...] | None = None
    speakers: tuple[str, ...] | None = None
    rate: Annotated[float, Field(gt=0)] | None = None
    axis: Axis = Axis.FRAME
    # before the z-scores of the training clips: by the session's own median and deviation, or by those of its person
    standardise: Literal["session", "person"] | None = None

    @field_validator("standardise")
    @classmethod
    def _can_be(cls, standardise: str | None, given: ValidationInfo) -> str | None:
        if standardise and given.data.get("speakers"):
            raise ValueError("standardise is of all speakers' rows: leave speakers out")
        return standardise

    def clip_input(self, missing: str = "error") -> ClipInput:
        return ClipInput(
            self.input,
            self.columns,
            self.axis,
            self.speakers,
            self.rate,
            missing=missing,
            standardise=self.standardise,
        )

    @property
    def has_own_rows(self) -> bool:
        """Whether clips have more or fewer rows of it."""
        return self.axis is not Axis.FRAME and self.rate is None

    def deciding(self) -> dict[str, Any]:
        """What it is, as JSON has it; without settings that are newer than runs where they have their defaults."""
        newer = {"axis": self.axis is Axis.FRAME, "standardise": self.standardise is None}
        return self.model_dump(mode="json", exclude={name for name, is_default in newer.items() if is_default})


class PersonalitySettings(StrictSettings):
    """What participants said of themselves, for AMER: scores of the table ``surveys`` of a study."""

    study: Annotated[str, Field(min_length=1)]
    scales: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "absorption",
        "big5_agreeableness",
        "big5_conscientiousness",
        "big5_extraversion",
        "big5_neuroticism",
        "big5_openness",
        "single_item_trait_empathy",
    )
    timepoint: str = "pre"
    missing: Literal["refuse", "mean"] = "refuse"

    @model_validator(mode="after")
    def _once(self) -> PersonalitySettings:
        if twice := sorted({scale for scale in self.scales if self.scales.count(scale) > 1}):
            raise ValueError(f"the scale {twice[0]!r} is named twice")
        return self


VISION = (InputSettings(input="openface", columns=("measurements",)), InputSettings(input="resnet50"))
AUDIO = (InputSettings(input="audio"),)
TEXT = (InputSettings(input="words"),)

PRESETS: dict[str, dict[str, Any]] = {
    "empathicstories": {},
    "paper": {"oversampling": "paper", "v": (InputSettings(input="openface"), InputSettings(input="resnet50"))},
    "regression": {"target": "none", "oversampling": "none"},
}
"""What each preset says otherwise than the defaults.

``paper`` is the paper's own recipe, with OpenFace's bookkeeping (frame numbers among it) and clips that are oversampled
before participants are separated; ``regression`` is for labels that are about no text.
"""


class TrainSettings(StrictSettings):
    """How models are trained; unknown keys are errors."""

    preset: Literal["empathicstories", "paper", "regression"] = "empathicstories"
    # what is learned
    label: str = "empathy"
    label_range: tuple[float, float] | None = None
    label_scale: Literal["scaled", "unit", "binary"] = "scaled"
    similar_above: float | None = None
    score_cut: Literal["middle", "val"] = "middle"
    target: Literal["story", "none"] = "story"
    cosine: Literal["as_is", "rescale"] = "as_is"
    # from which clips
    where: str | None = None
    reflection_story: Literal["all", "chosen"] = "all"  # whose labels the phase reflection has
    keep_partial: bool = False
    missing: Literal["drop", "mask"] = "drop"  # clips whose session lacks an input of the model
    split_seed: int | None = None
    split_shares: tuple[float, float, float] = SplitSpec.shares
    oversampling: Literal["uniform", "paper", "none"] = "uniform"
    # how
    epochs: Annotated[int, Field(ge=1)] = 10
    batch_size: Annotated[int, Field(ge=2)] = 64
    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    step_epochs: Annotated[int, Field(ge=1)] = 5
    step_factor: Annotated[float, Field(gt=0)] = 0.1
    keep: Literal["best", "last"] = "best"
    precision: Literal["float32", "bfloat16"] = "float32"
    bank: Literal["none", "float32", "bfloat16"] = "none"
    pca: Annotated[int, Field(ge=1)] | None = None  # v on so many principal components, another model
    personality: PersonalitySettings | None = None
    onednn: Literal["auto", "on", "off"] = "auto"  # auto follows from the precision alone, see uses_onednn
    # with what; no part of what decides a run
    device: str = "cpu"
    threads: Annotated[int, Field(ge=1)] = 1
    # the modalities
    rate: Annotated[float, Field(gt=0)] | None = None  # rows a second of inputs that have no rate of their own
    v: Annotated[tuple[InputSettings, ...], Field(min_length=1)] = VISION
    a: Annotated[tuple[InputSettings, ...], Field(min_length=1)] = AUDIO
    t: Annotated[tuple[InputSettings, ...], Field(min_length=1)] = TEXT
    # the models
    amer: AmerSizes = AmerSizes()
    tfn: TfnSizes = TfnSizes()
    ef_lstm: EfLstmSizes = EfLstmSizes()
    lf_lstm: LfLstmSizes = LfLstmSizes()

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        if isinstance(given, dict):
            return {**PRESETS.get(str(given.get("preset", "")), {}), **given}
        return given

    @field_validator("onednn", mode="before")
    @classmethod
    def _by_rule(cls, given: Any) -> Any:
        if given == "probe":
            raise ValueError(
                'a stopwatch chose, so one seed could give two results: write "auto" (on in bfloat16, off in float32), '
                '"on" or "off"'
            )
        return given

    @model_validator(mode="after")
    def _fits(self) -> TrainSettings:
        SplitSpec(shares=self.split_shares)
        named = [part.input for name in MODALITIES for part in getattr(self, name)]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise ValueError(f"the input {twice[0]!r} is named twice among v, a and t")
        for name in MODALITIES:
            own = [part.input for part in self.parts(name) if part.has_own_rows]
            if own and len(self.parts(name)) > 1:
                raise ValueError(
                    f"{name} has several inputs, which are joined frame by frame: {own[0]!r} needs no axis"
                )
            if own and self.bank != "none":
                raise ValueError(f'a bank holds a row for each frame, and {own[0]!r} has its own: bank = "none"')
        if self.label_range is not None and not self.label_range[0] < self.label_range[1]:
            raise ValueError(f"label_range={list(self.label_range)}: the first has to be less than the second")
        if self.preset == "regression" and self.label == "empathy":
            raise ValueError("the preset regression needs a label: name the scheme that is learned")
        if FeatureName(self.label).is_label_curve and (self.target != "none" or self.oversampling != "none"):
            raise ValueError(f"the curve {self.label!r} is about no story, and interval: take --preset regression")
        if self.reflection_story == "chosen" and self.target == "none":
            raise ValueError('reflection_story = "chosen" needs labels about a story, and target = "none" has others')
        if self.label_scale == "unit" and self.label_range is not None and self.label_range[1] <= 0:
            raise ValueError("label_scale='unit' divides by the upper end of label_range, which has to be above 0")
        return self

    def parts(self, modality: str) -> tuple[InputSettings, ...]:
        """The inputs of v, a or t, with their rates."""
        named = {"v": self.v, "a": self.a, "t": self.t}[modality]
        if self.rate is None:
            return named
        rate = {"rate": self.rate}
        return tuple(
            part if part.rate or part.axis is not Axis.FRAME else part.model_copy(update=rate) for part in named
        )

    def clip_inputs(self, modalities: Sequence[str]) -> list[ClipInput]:
        """The inputs that clips need to have for these modalities."""
        return [part.clip_input(self.lack) for name in modalities for part in self.parts(name)]

    @property
    def lack(self) -> str:
        """What clips are to have instead of an input that their session lacks, as :class:`ClipInput` calls it."""
        return "mask" if self.missing == "mask" else "error"

    def deciding(self, modalities: Sequence[str] = MODALITIES) -> dict[str, Any]:
        """What decides the numbers of a run with these modalities, as JSON has it: not with which processor.

        What came later and changes nothing is left out, so that runs of before stay done.
        """
        projected = self.components(modalities)
        without: dict[str, Any] = {"device": True, "threads": True, "personality": {"study": True}}
        without |= {"reflection_story": True, "rate": True}  # the phase decides whether it decides; inputs have rates
        if self.missing == "drop":
            without["missing"] = True
        if not projected:
            without["pca"] = True
        if self.personality is None:
            without |= {"personality": True, "amer": {"encoder_p": True}}
        same_bits = {"bank": "none"} if self.bank == "float32" and not projected else {}
        inputs = {name: [part.deciding() for part in self.parts(name)] for name in MODALITIES}
        choices = {"onednn": "on" if self.uses_onednn else "off"}
        return {**self.model_dump(mode="json", exclude=without), **inputs, **same_bits, **choices}

    @property
    def uses_onednn(self) -> bool:
        """Whether LSTMs on a processor are computed with oneDNN, which gives other last bits.

        By a rule that no machine and no clock decides: in bfloat16 it is several times faster everywhere that it was
        measured, in float32 faster on some processors and slower on others (docs/performance.md).
        """
        return self.onednn == "on" or (self.onednn == "auto" and self.precision == "bfloat16")

    def only_chosen(self, phase: str) -> bool:
        """Whether only clips of the story that the session reflected on are taken."""
        return self.reflection_story == "chosen" and phase == REFLECTION

    def components(self, modalities: Sequence[str]) -> int:
        """On how many components v is projected; 0 where it is not, or is not used."""
        return (self.pca or 0) if "v" in modalities else 0


def modalities_of(text: str) -> tuple[str, ...]:
    """The modalities that a text like ``v+a+t`` names, in the order of :data:`MODALITIES`.

    Raises:
        TrainSettingsError: it names one that there is not, one twice, or none.
    """
    named = [name.strip() for name in text.split("+")]
    if sorted(set(named)) != sorted(named) or not set(named) <= set(MODALITIES):
        raise TrainSettingsError(f"modalities {text!r}: join some of {', '.join(MODALITIES)} with +, each once (v+a+t)")
    return tuple(name for name in MODALITIES if name in named)


def load_train_settings(path: Path | None, **over: Any) -> TrainSettings:
    """The settings of the section ``[train]`` of a TOML file; its other sections are others' business.

    Args:
        path: the file; None gives the defaults.
        over: what goes before the file, where it is not None; of a table, key by key.

    Raises:
        TrainSettingsError: it cannot be read, is no TOML, or has unknown keys or bad values.
    """
    content: dict[str, Any] = {}
    if path is not None:
        try:
            content = read_toml(path).get("train", {})
        except OSError as error:
            raise TrainSettingsError(f"{path}: cannot be read: {error.strerror}") from None
        except ConfigFileError as error:
            raise TrainSettingsError(f"{path}: {error}") from None
    try:
        return TrainSettings.model_validate({**content, **_over(content, over)})
    except ValidationError as error:
        faults = [_described(fault) for fault in error.errors(include_url=False)]
        where = f"{path}: " if path is not None else ""
        raise TrainSettingsError(
            "\n".join([f"{where}[train] cannot be used:", *(f"  {one}" for one in faults)])
        ) from None


def _over(content: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    given = {key: one for key, one in over.items() if one is not None}
    tables = {key: {**content[key], **one} for key, one in given.items() if isinstance(content.get(key), dict)}
    return given | tables


def _described(fault: Any) -> str:
    place = ".".join(["train", *(str(part) for part in fault["loc"])])
    if fault["type"] == "extra_forbidden":
        return f"{place}: there is no such key"
    what = fault["msg"].removeprefix("Value error, ")
    return f"{place}: {what}" if isinstance(fault["input"], dict) else f"{place} = {fault['input']!r}: {what}"


TAKES_OWN_ROWS = (ModelName.LF_LSTM, ModelName.TFN)
"""The models whose modalities need not have a row for each frame."""


def misfit(model: ModelName, modalities: Sequence[str], settings: TrainSettings) -> str:
    """Why a model cannot be trained so; empty where it can."""
    if settings.personality is not None and model is not ModelName.AMER:
        return (
            f"{model} takes no personality, only {ModelName.AMER} does: leave it out, or train {ModelName.AMER} alone"
        )
    own = [part for name in modalities for part in settings.parts(name) if part.has_own_rows]
    if own and model not in TAKES_OWN_ROWS:
        why = {
            ModelName.EF_LSTM: "joins the modalities frame by frame",
            ModelName.AMER: "looks from the middle frame of a window",
        }[model]
        return (
            f'{model} {why}, and the input {own[0].input!r} with axis = "{own[0].axis}" has rows of its own: leave '
            f"the axis out, or train {' or '.join(TAKES_OWN_ROWS)}"
        )
    if own and model is ModelName.TFN and settings.tfn.padding_counts:
        return (
            f'[tfn] padding_counts = true, and the input {own[0].input!r} with axis = "{own[0].axis}" is padded to '
            "the longest clip of the study: its mean would depend on clips that nobody trains with"
        )
    return ""
