"""openSMILE's feature sets, and which of their numbers are no values.

The library writes 0 or a floor where it has no value; the store has NaN. The columns are those of the library's
configuration files (``core/config`` of the package ``opensmile``):

- The fundamental frequency is 0 in a row that is not voiced (``cPitchSmootherViterbi``, and ``cValbasedSelector`` where
  it is too quiet). Jitter, shimmer, HNR and harmonic differences are 0 there too, and in voiced rows in which no
  periods are found. A formant's frequency and bandwidth are 0 where no formant is found, voiced or not.
- ``logHNR`` is -100 and a formant's amplitude is -201 in a row that is not voiced; H1-A3 is -201 in a voiced row
  without a third formant. The smoother (``cContourSmoother``, 3 rows) leaves out 0, but takes these floors for values,
  so the rows beside such a row are means of values and a floor.
- ``voicingFinalUnclipped`` is a probability; it has a value in every row, as all other columns have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from tasks.extractors.base import ExtractorSettings

SAMPLE_RATE = 16_000


class FeatureSet(StrEnum):
    """openSMILE's feature sets; their low-level descriptors are taken."""

    COMPARE_2016 = "ComParE_2016"  # 65 descriptors
    EGEMAPS_V02 = "eGeMAPSv02"  # 25 descriptors


class OpenSmileSettings(ExtractorSettings):
    """``[opensmile]``"""

    feature_set: FeatureSet = FeatureSet.COMPARE_2016


@dataclass(frozen=True)
class UndefinedValues:
    """Where the numbers of a feature set are no values."""

    pitch: str  # the column of the fundamental frequency; a row is voiced where it is not 0
    zero: Sequence[str]  # columns in which 0 means that there is no value
    needs_voice: Sequence[str]  # columns with a floor in rows that are not voiced, and beside these
    # columns with a floor in voiced rows in which this formant's frequency is 0, and beside these
    needs_formant: Mapping[str, str] = field(default_factory=dict)
    # columns in which 0 means no value only where this formant's frequency is 0; elsewhere 0 dB
    zero_with_formant: Mapping[str, str] = field(default_factory=dict)

    def blank(self, blocks: Iterable[np.ndarray], columns: Sequence[str]) -> Iterator[np.ndarray]:
        """The same rows with NaN where there is no value.

        Args:
            blocks: consecutive rows as the library gives them, each (n, columns) float32, n > 0.

        Yields:
            (m, columns) float32; the rows of all blocks, in order.
        """
        kept = np.empty((0, len(columns)), np.float32)  # the last row, whose neighbour is to come, and the one before
        for block in blocks:
            rows = np.concatenate([kept, block])
            if len(rows) > 1:
                yield self._blanked(rows, columns)[max(len(kept) - 1, 0) : -1]
            kept = rows[-2:]
        if len(kept):
            yield self._blanked(kept, columns)[-1:]

    def _blanked(self, rows: np.ndarray, columns: Sequence[str]) -> np.ndarray:
        index_of = {name: number for number, name in enumerate(columns)}
        is_zero = rows == 0
        unvoiced = is_zero[:, index_of[self.pitch]]
        blanked = rows.copy()
        for name in self.zero:
            blanked[is_zero[:, index_of[name]], index_of[name]] = np.nan
        for name in self.needs_voice:
            blanked[_with_neighbours(unvoiced), index_of[name]] = np.nan
        for name, formant in self.needs_formant.items():
            blanked[_with_neighbours(~unvoiced & is_zero[:, index_of[formant]]), index_of[name]] = np.nan
        for name, formant in self.zero_with_formant.items():
            blanked[is_zero[:, index_of[formant]], index_of[name]] = np.nan
        return blanked


def _with_neighbours(flags: np.ndarray) -> np.ndarray:
    """(n,) where a row or one beside it has the flag."""
    around = np.pad(flags, 1)
    return around[:-2] | flags | around[2:]


_FORMANTS = (1, 2, 3)
UNDEFINED: Mapping[FeatureSet, UndefinedValues] = {
    FeatureSet.COMPARE_2016: UndefinedValues(
        pitch="F0final_sma",
        zero=("F0final_sma", "jitterLocal_sma", "jitterDDP_sma", "shimmerLocal_sma", "logHNR_sma"),
        needs_voice=("logHNR_sma",),
    ),
    FeatureSet.EGEMAPS_V02: UndefinedValues(
        pitch="F0semitoneFrom27.5Hz_sma3nz",
        zero=(
            *"F0semitoneFrom27.5Hz_sma3nz jitterLocal_sma3nz shimmerLocaldB_sma3nz HNRdBACF_sma3nz".split(),
            *"logRelF0-H1-H2_sma3nz logRelF0-H1-A3_sma3nz".split(),
            *(f"F{number}{what}_sma3nz" for number in _FORMANTS for what in ("frequency", "bandwidth")),
        ),
        needs_voice=tuple(f"F{number}amplitudeLogRelF0_sma3nz" for number in _FORMANTS),
        needs_formant={"logRelF0-H1-A3_sma3nz": "F3frequency_sma3nz"},
        zero_with_formant={f"F{number}amplitudeLogRelF0_sma3nz": f"F{number}frequency_sma3nz" for number in _FORMANTS},
    ),
}
"""By feature set."""
