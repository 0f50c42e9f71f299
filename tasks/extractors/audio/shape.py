"""The rows of a model of sound, by its configuration files without loading it: how wide, how deep, and when.

A model has a row for each step of its front end, or one for a window of seconds: where its blocks see patches of a
spectrogram (:data:`OF_WINDOWS`), and where its head says something of the whole.

A front end is a chain of convolutions; from their kernels, strides and paddings follows which samples a row is made of.
Of wav2vec 2.0 and its like that is 400 samples, 320 after those of the row before; of Whisper a spectrogram and two
padded convolutions, whose rows are centred at every 320th sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from tasks.extractors.base import ExtractionError

STRIDED = "Wav2Vec2FeatureExtractor"  # what the processor of a model that hears samples is called
WHISPER = "WhisperFeatureExtractor"
WHISPER_CONVOLUTIONS = ((3, 1, 1), (3, 2, 1))  # kernel, stride, padding: not in its configuration
FILTERBANK = "SeamlessM4TFeatureExtractor"
# frames of a filterbank of 25 ms every 10 ms, two of which are a row: kernel, stride, padding in samples of 16 kHz
FILTERBANK_CONVOLUTIONS = ((400, 160, 0), (2, 2, 0))
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")


@dataclass(frozen=True)
class FrontEnd:
    """Which samples a row is made of."""

    step: int  # samples from a row to the next
    field: int  # samples that a row is made of
    first: int  # the first of them, of row 0; below 0 where the sound is padded

    @classmethod
    def of(cls, convolutions: Iterable[tuple[int, int, int]]) -> FrontEnd:
        """Of convolutions one after the other, each its kernel, stride and padding on both sides."""
        step, field, first = 1, 1, 0
        for kernel, stride, padding in convolutions:
            first -= padding * step
            field += (kernel - 1) * step
            step *= stride
        return cls(step, field, first)

    @property
    def centre(self) -> float:
        """The middle of row 0's samples, counted in samples; sample n lasts from n to n + 1."""
        return self.first + self.field / 2

    @property
    def padded(self) -> bool:
        return self.first < 0

    def rows(self, samples: int) -> int:
        """How many rows so many samples give; where the front end pads, those that are centred on one of them."""
        if self.padded:
            return -(-samples // self.step)
        return max((samples - self.field) // self.step + 1, 0)

    def samples(self, rows: int) -> int:
        """How many samples so many rows are made of."""
        return rows * self.step if self.padded else (rows - 1) * self.step + self.field


@dataclass(frozen=True)
class WindowFamily:
    """A family of models that see a window of one length, and give one row of it.

    Attributes:
        window_s: its seconds, by the configuration of its processor.
        width: of its row, by its config.json.
    """

    window_s: Callable[[Mapping[str, Any]], float]
    width: str


OF_WINDOWS: Mapping[str, WindowFamily] = {
    "audio-spectrogram-transformer": WindowFamily(lambda said: said.get("max_length", 1024) / 100, "hidden_size"),
    "clap": WindowFamily(lambda said: said.get("max_length_s", 10), "projection_dim"),
}
"""By ``model_type`` of config.json."""


@dataclass(frozen=True)
class WindowShape:
    """What a model of sound gives of a window.

    Attributes:
        rate: samples a second that it hears.
        longest_s: seconds that it sees at most; None for any number.
        width: numbers of a layer, or of its own row.
        depth: how many blocks it has; None where only its own row can be read.
        front_end: which samples a row of its layers is made of; None where they are not read.
    """

    rate: int
    longest_s: float | None
    width: int
    depth: int | None
    front_end: FrontEnd | None = None

    @staticmethod
    def of(folder: Path | None, config: Mapping[str, Any], where: str, *, hidden: bool) -> WindowShape:
        """The shape of a model.

        Args:
            hidden: whether its layers are read, whose width and number are needed then.

        Raises:
            ExtractionError: its files do not say how it hears, or it has no layers that are known.
        """
        processor, family = _processor(folder, where), OF_WINDOWS.get(str(config.get("model_type")))
        rate = _rate(processor, where)
        if family is not None:
            return WindowShape(rate, family.window_s(processor), _number(config, family.width, where), None)
        if hidden:
            shape = AudioShape.of(folder, config, where)
            longest_s = shape.window_rows * shape.row_s if shape.window_rows else None
            return WindowShape(shape.rate, longest_s, shape.width, shape.depth, shape.front_end)
        is_whisper = config.get("model_type") == "whisper"
        return WindowShape(rate, processor.get("chunk_length", 30) if is_whisper else None, 0, None)


@dataclass(frozen=True)
class AudioShape:
    """What a model of sound gives."""

    width: int  # numbers of one layer's row
    depth: int  # blocks
    rate: int  # samples per second that it hears
    front_end: FrontEnd
    window_rows: int = 0  # of a model whose window is of one length, its rows; 0 of others
    normalises: bool = False  # its processor brings a signal to mean 0 and variance 1
    # something in it is taken over all that it is given at once, beside attention: statistics of a group normalisation,
    # a window's positions and loudest sound. So rows depend on how the sound is cut into chunks
    sees_whole: bool = False
    has_spectrogram: bool = False  # its processor makes a spectrogram of the samples

    @staticmethod
    def of(folder: Path | None, config: Mapping[str, Any], where: str) -> AudioShape:
        """The shape of a model.

        Args:
            folder: with the configuration of its processor.
            config: the content of its config.json.
            where: begins the sentence of an error.

        Raises:
            ExtractionError: it is not an encoder of sound whose rows follow from strides, or its files do not say how
                it hears.
        """
        if config.get("model_type") == "whisper":
            return _whisper(_processor(folder, where, WHISPER), config, where)
        if config.get("model_type") == "wav2vec2-bert":
            return _wav2vec2_bert(_processor(folder, where, FILTERBANK), config, where)
        kernels, strides = config.get("conv_kernel"), config.get("conv_stride")
        if not _whole_numbers(kernels) or not _whole_numbers(strides) or len(kernels) != len(strides):
            raise ExtractionError(
                f"{where} is no encoder of sound with a strided front end (its config.json has no conv_kernel and "
                "conv_stride, and it is not Whisper): the times of its rows cannot be computed"
            )
        _refuse_joined_rows(config, where)
        processor = _processor(folder, where, STRIDED)
        front_end = FrontEnd.of((kernel, stride, 0) for kernel, stride in zip(kernels, strides, strict=True))
        # data2vec's configuration has the key of wav2vec 2.0 where somebody wrote it, but its code knows only one kind.
        group = config.get("feat_extract_norm", "group") == "group" and config.get("model_type") != "data2vec-audio"
        return AudioShape(
            _number(config, "hidden_size", where),
            _number(config, "num_hidden_layers", where),
            _rate(processor, where),
            front_end,
            normalises=bool(processor.get("do_normalize", True)),
            sees_whole=group,
        )

    @property
    def row_s(self) -> float:
        """Seconds from a row to the next."""
        return self.front_end.step / self.rate

    @property
    def centre_s(self) -> float:
        """The middle of row 0, seconds after the first sample."""
        return self.front_end.centre / self.rate


def _refuse_joined_rows(config: Mapping[str, Any], where: str) -> None:
    for key, why in (
        ("squeeze_factor", "it joins rows inside, so layers have other times"),
        ("add_adapter", "an adapter joins its rows: take the model without it"),
        ("is_encoder_decoder", "of models that write text only Whisper's encoder is supported"),
    ):
        if config.get(key):
            raise ExtractionError(f"{where} is not supported ({key} in its config.json): {why}")


def _wav2vec2_bert(processor: Mapping[str, Any], config: Mapping[str, Any], where: str) -> AudioShape:
    _refuse_joined_rows(config, where)
    rate, bins, stride = _rate(processor, where), processor.get("num_mel_bins", 80), processor.get("stride", 2)
    made_for = config.get("feature_projection_input_dim", 160)
    if (rate, stride) != (16_000, 2) or bins * stride != made_for:
        raise ExtractionError(
            f"{where}: its processor gives rows of {stride} x {bins} numbers at {rate} samples a second; supported are "
            f"{made_for} numbers (feature_projection_input_dim), stride 2 and 16000 samples"
        )
    width, depth = _number(config, "hidden_size", where), _number(config, "num_hidden_layers", where)
    return AudioShape(width, depth, rate, FrontEnd.of(FILTERBANK_CONVOLUTIONS), sees_whole=True, has_spectrogram=True)


def _whisper(processor: Mapping[str, Any], config: Mapping[str, Any], where: str) -> AudioShape:
    hop, window = processor.get("hop_length", 160), processor.get("n_fft", 400)
    front_end = FrontEnd.of([(window, hop, window // 2), *WHISPER_CONVOLUTIONS])
    rows, rate = _number(config, "max_source_positions", where), _rate(processor, where)
    window_s = processor.get("chunk_length", 30)
    if window_s * rate != front_end.samples(rows):
        raise ExtractionError(
            f"{where}: its processor gives {window_s} s, but its max_source_positions = {rows} are "
            f"{front_end.samples(rows) / rate:g} s: its files do not belong together"
        )
    width, depth = _number(config, "d_model", where), _number(config, "encoder_layers", where)
    return AudioShape(width, depth, rate, front_end, window_rows=rows, sees_whole=True, has_spectrogram=True)


def _processor(folder: Path | None, where: str, kind: str | None = None) -> Mapping[str, Any]:
    """The configuration of what prepares the sound: by itself, or in that of a processor of sound and text.

    Args:
        kind: what it has to be called; None takes any.
    """
    for name in _PROCESSORS:
        path = (folder or Path()) / name
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ExtractionError(f"{where}: {name} cannot be read ({type(error).__name__})") from None
        processor = content.get("feature_extractor", content) if isinstance(content, dict) else None
        if isinstance(processor, dict) and "sampling_rate" in processor:
            if kind is not None and processor.get("feature_extractor_type", kind) != kind:
                other = processor["feature_extractor_type"]
                raise ExtractionError(f"{where}: its sound is prepared by {other}; {kind} is what is supported")
            return processor
    raise ExtractionError(
        f"{where} has no preprocessor_config.json with its sampling rate and whether sound is normalised: get it "
        "from where the model is from"
    )


def _rate(processor: Mapping[str, Any], where: str) -> int:
    rate = processor["sampling_rate"]
    if not isinstance(rate, int) or rate <= 0:
        raise ExtractionError(f"{where}: sampling_rate = {rate!r} must be a number of samples per second")
    return rate


def _number(config: Mapping[str, Any], key: str, where: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or value <= 0:
        raise ExtractionError(f"{where}: its config.json has no {key}")
    return value


def _whole_numbers(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and bool(values) and all(isinstance(value, int) and value > 0 for value in values)
