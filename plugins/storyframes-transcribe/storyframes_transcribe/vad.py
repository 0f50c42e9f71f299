"""vad: how probable it is that somebody speaks, for every 32 ms of the sound, by Silero's network (v6, MIT licence).

The weights are an ONNX file in the wheel of faster-whisper, and onnxruntime (MIT) computes them. Neither is imported
before sound is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from storyframes import ArraySpec, Axis, FeatureSpec
from storyframes.store import FeatureWriter
from tasks.extractors import (
    Cost,
    ExtractionError,
    ExtractorSettings,
    FrameRows,
    Sound,
    SoundExtractor,
    Source,
    Tolerance,
)
from tasks.models import model_digest

if TYPE_CHECKING:
    from tasks.extractors import FrameClock

RATE = 16_000
ROW = 512  # samples that a row is made of: 32 ms
COLUMNS = ("speech",)
_BEFORE = 64  # samples before the row that the network sees as well
_WEIGHTS = "assets/silero_vad_v6.onnx"
_ROWS_AT_ONCE = 250  # 8 s; a row's value depends on those before it, not on where they are divided

_VALUES = "probability, 0..1, that somebody speaks"


class Vad(SoundExtractor[ExtractorSettings]):
    """The feature ``vad``."""

    spec = FeatureSpec(
        "vad",
        "voice activity by Silero VAD 6",
        {
            "values": ArraySpec(
                Axis.AUDIO_FRAME, "float32", f"{_VALUES}, for each 32 ms", (1,), ("column",), columns=COLUMNS
            ),
            "time": ArraySpec(
                Axis.AUDIO_FRAME, "float64", "the middle of the row's 32 ms on the recording's clock", units="s"
            ),
            "per_frame": ArraySpec(
                Axis.FRAME,
                "float32",
                f"{_VALUES}: mean of the rows whose time lies in the video frame's interval; NaN where there is none",
                (1,),
                ("column",),
                columns=COLUMNS,
            ),
        },
    )
    version = 1
    libraries = ("faster-whisper", "av")
    tolerance: ClassVar = {Tolerance.ALL: Tolerance(1e-4)}

    @property
    def cost(self) -> Cost:
        return Cost(0.005)

    def models(self) -> Mapping[str, str]:
        return {"silero_vad": model_digest(weights_file())}

    def tools(self) -> Mapping[str, str]:
        return {"onnxruntime": version("onnxruntime")} if find_spec("onnxruntime") else {}

    def write_sound(self, source: Source, clock: FrameClock | None, out: FeatureWriter) -> None:
        sound = Sound.of(source, RATE, streams=self.common.recording.streams)
        values, time = out.array("values"), out.array("time")
        means = FrameRows(clock, COLUMNS, out) if clock else None
        for rows in speech_probability(sound.samples()):
            row_time = sound.start_s + (np.arange(values.rows, values.rows + len(rows)) + 0.5) * (ROW / RATE)
            values.append(rows[:, None])
            time.append(row_time)
            if means:
                means.add(row_time, rows)
        sound.note_extent(clock, out)
        if means:
            means.finish()


def weights_file() -> Path:
    """The network's weights.

    Raises:
        ExtractionError: faster-whisper is not installed, or has other weights.
    """
    installed = find_spec("faster_whisper")
    for folder in (installed and installed.submodule_search_locations) or ():
        if (path := Path(folder) / _WEIGHTS).is_file():
            return path
    raise ExtractionError(f"faster-whisper with {_WEIGHTS} is not installed: pip install 'faster-whisper==1.2.*'")


def speech_probability(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The probability of speech in each 512 samples of a sound; memory does not grow with its length.

    The values are those of faster-whisper's ``SileroVADModel``, except for the last of a sound: that class sets the
    last 64 samples that it is given to 0.

    Args:
        blocks: (n,) float32 each, of one sound at 16 kHz; its last row is filled up with zeros.

    Yields:
        (m,) float32.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # which would keep the memory of the largest batch
    network = onnxruntime.InferenceSession(str(weights_file()), options, providers=["CPUExecutionProvider"])
    state = [np.zeros((1, 1, 128), np.float32)] * 2
    before = np.zeros(_BEFORE, np.float32)
    for samples in _in_rows(blocks):
        ends = np.concatenate([before, samples])
        before = samples[-_BEFORE:]
        rows = np.lib.stride_tricks.sliding_window_view(ends, _BEFORE + ROW)[::ROW]
        probability, *state = network.run(None, {"input": np.ascontiguousarray(rows), "h": state[0], "c": state[1]})
        yield probability.reshape(-1)


def _in_rows(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The same sound in blocks of whole rows."""
    waiting: list[np.ndarray] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += len(block)
        if count < _ROWS_AT_ONCE * ROW:
            continue
        samples = np.concatenate(waiting)
        whole = len(samples) // ROW * ROW
        for first in range(0, whole, _ROWS_AT_ONCE * ROW):
            yield samples[first : min(first + _ROWS_AT_ONCE * ROW, whole)]
        waiting, count = [samples[whole:]], len(samples) - whole
    if count:
        yield np.pad(np.concatenate(waiting), (0, -count % ROW))


def speech_spans(
    probability: np.ndarray, time: np.ndarray, *, threshold: float = 0.5, pause_s: float = 0.1, speech_s: float = 0.0
) -> np.ndarray:
    """When somebody speaks, by the feature ``vad``.

    Speech begins with a row of at least ``threshold``, and goes on until the probability is below ``threshold`` - 0.15
    and not at ``threshold`` again for at least ``pause_s``: Silero's own rule, without its margins.

    Args:
        probability, time: (n,) ``values`` and ``time`` of a session.
        threshold: 0 to 1; a row of it or more is speech.
        pause_s: a shorter pause is part of the speech.
        speech_s: shorter speech is none.

    Returns:
        (k, 2) float64, start and end of each stretch of speech, seconds of the recording. What lies between two is a
        pause, and ``(end - start).sum()`` divided by the length of the recording the share of speech.

    Example:
        >>> time = 0.016 + 0.032 * np.arange(8)
        >>> speech_spans(np.array([0, 0.9, 0.9, 0.1, 0.9, 0, 0, 0]), time, pause_s=0.05).round(3).tolist()
        [[0.032, 0.16]]
    """
    half = ROW / RATE / 2
    spans: list[list[float]] = []
    is_open = False
    for value, middle in zip(probability.tolist(), time.tolist(), strict=True):
        if value >= threshold:
            if is_open or (spans and middle - half - spans[-1][1] < pause_s - 1e-9):
                spans[-1][1] = middle + half
            else:
                spans.append([middle - half, middle + half])
            is_open = True
        elif is_open and value >= max(threshold - 0.15, 0.01):
            spans[-1][1] = middle + half
        else:
            is_open = False
    found = np.array(spans, np.float64).reshape(-1, 2)
    return found[found[:, 1] - found[:, 0] >= speech_s]
