"""A label that changes all the time: the study's curves as a feature with a time axis of its own.

There is one such feature for every scheme of the type curve, so its class is made when it is asked for.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np

from storyframes.label_curves import curve_spec
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import Cost, ExtractionError, Extractor, Input, Source
from tasks.extractors.settings import ExtractorSettings
from tasks.study.curves import SPARSE, CurveError, CurveSamples, mean_curve, unlabelled_share


class LabelCurve(Extractor[ExtractorSettings]):
    """The curves of one scheme, or their mean; ``spec`` is that of the scheme (:func:`label_curve`)."""

    version = 2
    inputs = (Input.CURVE,)
    after = ()  # curves have their own times
    needs_frames: ClassVar[bool] = False

    @property
    def cost(self) -> Cost:
        return Cost(0.001, 0.2)

    def extract(self, source: Source, out: FeatureWriter) -> None:
        files = source.curves[self.name]
        try:
            curves = [CurveSamples.read(source.file(kind).path, files.scheme) for kind in files.kinds]
        except CurveError as error:
            raise ExtractionError(str(error)) from None
        mean = mean_curve(curves, files.rule)
        share = unlabelled_share(mean.time_s, mean.value, files.rule)
        out.quality["without_value"] = share
        if share > SPARSE:
            out.caveat(Caveat.SPARSE_CURVE)
        out.write("values", mean.value.astype(np.float32))
        out.write("time", mean.time_s)
        out.write("raters", mean.raters)
        out.attributes |= {
            "scheme": files.scheme.name,
            "minimum": files.scheme.minimum,
            "maximum": files.scheme.maximum,
            "curves": len(curves),
            "between": str(files.rule.between),
            "longest_gap_s": files.rule.longest_gap_s,
        }


@cache
def label_curve(feature: str) -> type[LabelCurve]:
    """The extractor of a curve's feature."""
    return type("LabelCurve", (LabelCurve,), {"spec": curve_spec(feature), "__doc__": LabelCurve.__doc__})
