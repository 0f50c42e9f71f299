"""openSMILE on a stream of sound: the library's descriptors, to the bit, in memory that does not grow.

The library's Python interface takes a whole signal at once and holds it in five copies, and its configuration keeps
every row for the functionals, which are not used here. The engine under it works sample by sample anyway, in a
thread of its own here: it is fed through a source that holds ten seconds, and its rows are taken away as they come.
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

from tasks.extractors.opensmile.feature_sets import SAMPLE_RATE, FeatureSet

_CONF = Path(__file__).with_name("conf")
_DESCRIPTORS = {  # the library's own files
    FeatureSet.COMPARE_2016: {"descriptors": "compare/ComParE_2016_core.lld.conf.inc"},
    FeatureSet.EGEMAPS_V02: {
        "basis": "gemaps/v01b/GeMAPSv01b_core.lld.conf.inc",
        "descriptors": "egemaps/v02/eGeMAPSv02_core.lld.conf.inc",
    },
}
_PIECE = 16_000  # samples offered at once; the source takes none of what it cannot hold
_ROWS = 1000  # given on at once
_FULL_S = 0.02  # pause before offering sound again to an engine that has enough of it


class DescriptorStream:
    """The low-level descriptors of a mono signal at 16 kHz.

    Attributes:
        columns: the descriptors' names.
        samples: fed so far.
        clipped: those of them that were beyond full scale.
    """

    def __init__(self, feature_set: FeatureSet) -> None:
        self._feature_set = feature_set
        self._smile = opensmile.Smile(
            feature_set=opensmile.FeatureSet[str(feature_set)],
            feature_level=opensmile.FeatureLevel.LowLevelDescriptors,
        )
        self.columns: list[str] = list(self._smile.feature_names)
        self.samples = self.clipped = 0

    def describe(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The rows of the signal that ``blocks`` make together.

        Args:
            blocks: (n,) float32 samples in [-1, 1]; larger values are clipped (the library would wrap them round).

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
        """The engine with the library's descriptors; it appends its rows to ``rows``."""
        root = Path(self._smile.default_config_root)
        options = {
            "source": _CONF / "source.conf.inc",
            **{name: root / path for name, path in _DESCRIPTORS[self._feature_set].items()},
            "bufferModeConf": _CONF / "ring.conf.inc",
            "bufferModeRbConf": root / "shared/BufferModeRb.conf.inc",
            "sink": root / config.EXTERNAL_OUTPUT_SINGLE_CONFIG,
            "sinkLevel": self._smile.feature_level.value,
            "sampleRate": SAMPLE_RATE,
            "nBits": 16,
        }

        def take(row: np.ndarray, meta: FrameMetaData) -> None:
            rows.append(row.copy())

        engine = OpenSMILE()
        conf = _CONF / f"{self._feature_set}.conf"
        engine.initialize(str(conf), options, loglevel=self._smile.loglevel)
        engine.external_sink_set_callback_ex(config.EXTERNAL_OUTPUT_COMPONENT, take)
        return engine

    def _feed(self, engine: OpenSMILE, block: np.ndarray, running: Future[None]) -> None:
        self.clipped += int(np.count_nonzero(np.abs(block) > 1))
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
    """The rows so far; the engine's thread may be appending."""
    return np.concatenate([rows.popleft() for _ in range(len(rows))])
