"""openSMILE on a stream of sound: the library's own configuration and numbers, in memory that does not grow.

The library's Python interface takes a whole signal at once and holds it in five copies. The engine under it works
sample by sample anyway, in a thread of its own here: it is fed through a source that holds ten seconds, and its rows
are taken away as they come.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import opensmile
from opensmile.core.config import config
from opensmile.core.lib import FrameMetaData, OpenSMILE

from tasks.opensmile import SAMPLE_RATE

_SOURCE = Path(__file__).with_name("opensmile_stream.conf.inc")
_PIECE = 16_000  # samples offered at once; the source takes none of what it cannot hold
_ROWS = 1000  # given on at once
_FULL_S = 0.02  # pause before offering sound again to an engine that has enough of it


class DescriptorStream:
    """The low-level descriptors of a mono signal at 16 kHz.

    Args:
        feature_set: as the library names it, e.g. ``ComParE_2016``.

    Attributes:
        columns: the descriptors' names.
        samples: fed so far.
    """

    def __init__(self, feature_set: str) -> None:
        self._smile = opensmile.Smile(
            feature_set=opensmile.FeatureSet[feature_set],
            feature_level=opensmile.FeatureLevel.LowLevelDescriptors,
        )
        self.columns: list[str] = list(self._smile.feature_names)
        self.samples = 0

    def describe(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The rows of the signal that ``blocks`` make together.

        Args:
            blocks: (n,) float32 samples in [-1, 1]; what lies outside is clipped (the library would wrap it round).

        Yields:
            (m, descriptors) float32, one row per 10 ms.
        """
        rows: deque[np.ndarray] = deque()
        engine = self._engine(rows)
        try:
            with ThreadPoolExecutor(max_workers=1) as thread:
                running = thread.submit(engine.run)
                try:
                    for block in blocks:
                        self._feed(engine, block, running)
                        if len(rows) >= _ROWS:
                            yield _taken(rows)
                finally:
                    engine.external_audio_source_set_eoi(config.EXTERNAL_SOURCE_COMPONENT)  # the run ends with it
                running.result()
        finally:
            engine.free()
        if rows:
            yield _taken(rows)

    def _engine(self, rows: deque[np.ndarray]) -> OpenSMILE:
        """The engine as the library sets it up, but for the source; it appends its output to ``rows``."""
        root = Path(self._smile.default_config_root)
        options = {
            "source": _SOURCE,
            "sink": root / config.EXTERNAL_OUTPUT_SINGLE_CONFIG,
            "sinkLevel": self._smile.feature_level.value,
            "bufferModeRbConf": root / "shared/BufferModeRb.conf.inc",
            "frameModeFunctionalsConf": root / "shared/FrameModeFunctionals.conf.inc",
            "sampleRate": SAMPLE_RATE,
            "nBits": 16,
        }

        def take(row: np.ndarray, meta: FrameMetaData) -> None:
            rows.append(row.copy())

        engine = OpenSMILE()
        engine.initialize(self._smile.config_path, options, loglevel=self._smile.loglevel)
        engine.external_sink_set_callback_ex(config.EXTERNAL_OUTPUT_COMPONENT, take)
        return engine

    def _feed(self, engine: OpenSMILE, block: np.ndarray, running: Future[None]) -> None:
        samples = (block * 32768).clip(-32768, 32767).astype(np.int16)
        for first in range(0, len(samples), _PIECE):
            piece = samples[first : first + _PIECE].tobytes()
            while not engine.external_audio_source_write_data(config.EXTERNAL_SOURCE_COMPONENT, piece):
                if running.done():
                    running.result()
                    raise RuntimeError("openSMILE stopped before the sound ended")
                time.sleep(_FULL_S)
        self.samples += len(block)


def _taken(rows: deque[np.ndarray]) -> np.ndarray:
    """What is there by now; the engine's thread may be appending."""
    return np.concatenate([rows.popleft() for _ in range(len(rows))])
