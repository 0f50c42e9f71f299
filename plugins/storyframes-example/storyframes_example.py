"""brightness: how bright each frame of a recording is, and how much moves in it."""

import numpy as np
from pydantic import Field

from storyframes import ArraySpec, Axis, FeatureSpec
from tasks.extractors import ExtractorSettings, FrameExtractor
from tasks.media import FrameBatch

COLUMNS = ("brightness", "motion")


class BrightnessSettings(ExtractorSettings):
    """``[brightness]``: ``noise`` is the largest change of a pixel, 0..255, that is not yet motion."""

    noise: float = Field(default=4.0, ge=0, le=255)


class Brightness(FrameExtractor[BrightnessSettings]):
    """Brightness is the mean of all pixels, 0..255; motion their mean squared change since the frame before."""

    spec = FeatureSpec(
        name="brightness",
        about="how bright each frame is, and how much moves in it",
        arrays={
            "values": ArraySpec(Axis.FRAME, "float32", "0..255, and 0..255 squared", (2,), ("column",), columns=COLUMNS)
        },
    )
    Settings = BrightnessSettings
    version = 1

    def rows(self, batch: FrameBatch) -> np.ndarray:
        grey = batch.rgb.mean(axis=3, dtype=np.float32)
        before = grey[0] if batch.previous is None else batch.previous.mean(axis=2, dtype=np.float32)
        change = np.diff(grey, axis=0, prepend=before[None])
        change[np.abs(change) <= self.settings.noise] = 0
        return np.stack([grey.mean(axis=(1, 2)), np.square(change).mean(axis=(1, 2))], axis=1)
