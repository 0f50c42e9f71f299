"""The settings of openSMILE, and the sampling rate of the sound that it is given."""

from __future__ import annotations

from enum import StrEnum

from tasks.extractors.base import ExtractorSettings

SAMPLE_RATE = 16_000


class FeatureSet(StrEnum):
    """openSMILE's feature sets; their low-level descriptors are taken."""

    COMPARE_2016 = "ComParE_2016"  # 65 descriptors
    EGEMAPS_V02 = "eGeMAPSv02"  # 25 descriptors


class OpenSmileSettings(ExtractorSettings):
    """``[opensmile]``

    Attributes:
        feature_set: see :class:`FeatureSet`.
    """

    feature_set: FeatureSet = FeatureSet.COMPARE_2016
