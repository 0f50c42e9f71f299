"""motion: how much a person moves, frame by frame, by what changes in the picture (motion energy analysis).

The difference of grey values between consecutive frames of a still camera, in the whole picture or in a region of it:
Ramseyer, F. and Tschacher, W. (2011), "Nonverbal synchrony in psychotherapy", Journal of Consulting and Clinical
Psychology 79(3), 284-295; Paulick, J. and others (2018), "Diagnostic features of nonverbal synchrony in psychotherapy:
comparing depression and anxiety", Cognitive Therapy and Research 42(5), 539-551. It needs no face and no model, and
sees all that changes: light, and whoever walks through the picture.
"""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np
from pydantic import Field

from storyframes import ArraySpec, Axis, FeatureSpec, ticks
from storyframes.store import FeatureWriter
from tasks.extractors import ExtractorSettings, FrameClock, FrameConsumer, FrameExtractor, MissingInputError, Source
from tasks.media import FrameBatch

REGULAR = (0.5, 1.5)
"""Frames that follow sooner or later than this, in median intervals, have no value: more time, more change."""


class MotionSettings(ExtractorSettings):
    """``[motion]``: a pixel has changed if its grey value, 0 to 255, differs by more than ``threshold``."""

    threshold: float = Field(default=10.0, ge=0, lt=255)


class Motion(FrameExtractor[MotionSettings]):
    """The ``motion`` extractor. Grey is OpenCV's, 0.299 red + 0.587 green + 0.114 blue."""

    spec = FeatureSpec(
        name="motion",
        about="how much changes in the picture since the frame before (motion energy)",
        arrays={
            "values": ArraySpec(
                Axis.FRAME,
                "float32",
                "mean absolute difference of grey values (0 to 255) from the frame before, and the share of pixels "
                "that differ by more than the threshold; per frame interval; NaN where valid is 0",
                (2,),
                ("column",),
                columns=("mean_change", "changed_share"),
            ),
            "valid": ArraySpec(
                Axis.FRAME,
                "uint8",
                "1 where the frame follows another by 0.5 to 1.5 median intervals; 0 for the first, and after a gap",
                fill=0,
            ),
        },
        mask="valid",
    )
    Settings = MotionSettings
    version = 2  # intervals in whole microseconds

    def open(self, source: Source, out: FeatureWriter) -> FrameConsumer:
        if source.region is not None and source.region.box is None:
            raise MissingInputError(
                "the boxes of this region move, and a picture that moves would count as movement: give the person's "
                "track a region that does not move ('x y w h' in the table of tracks), or a camera of its own"
            )
        interval = np.diff(ticks(FrameClock.read(source, out).time))
        usual = float(np.median(interval)) if len(interval) else 0.0
        shortest, longest = (share * usual for share in REGULAR)
        self._is_regular = np.append(False, (interval >= shortest) & (interval <= longest))
        out.attributes |= {"interval_s": float(usual / ticks(1)), "threshold": self.settings.threshold}
        self._quality, self._same = out.quality, np.zeros(2, np.int64)
        return super().open(source, out)

    def rows(self, batch: FrameBatch) -> Mapping[str, np.ndarray]:
        values = np.full((len(batch), 2), np.nan, np.float32)
        valid = self._is_regular[batch.first : batch.first + len(batch)]
        before = None if batch.previous is None else cv2.cvtColor(batch.previous, cv2.COLOR_RGB2GRAY)
        for row, picture in enumerate(batch.rgb):
            grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
            if before is not None and valid[row]:
                change = cv2.absdiff(grey, before)
                values[row] = change.mean(), np.count_nonzero(change > self.settings.threshold) / change.size
            before = grey
        self._same += np.count_nonzero(values[:, 0] == 0), np.count_nonzero(valid)
        # Repeated frames, or a frozen picture.
        self._quality["unchanged"] = float(self._same[0] / max(self._same[1], 1))
        return {"values": values, "valid": valid.astype(np.uint8)}
