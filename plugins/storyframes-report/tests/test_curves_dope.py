"""DOPE's poses on the timeline and in the rerun recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.stores import local

from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from tasks.inspect.track_curves import read_curves


@pytest.mark.needs("rerun")
def test_body_and_hands_are_counted_drawn_and_exported(store_root: Path, tmp_path: Path) -> None:
    from rerun.chunk import RrdReader

    from storyframes_report.report.timeline import timeline
    from storyframes_report.report.timetable import Timetable
    from storyframes_report.rerun_export import ExportedTrack, export_recording

    with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(60) / 15)
        out.publish("f", {})
    with FeatureWriter(local(store_root), "a", FEATURES["dope"]) as out:
        for name, spec in out.spec.arrays.items():
            if spec.optional:
                continue
            values = np.full((60, *spec.shape), 1, spec.dtype)
            if name == "sampled":
                values[50:] = 0
            elif name.startswith("body"):
                values[10:20] = np.nan
            elif name.startswith("hands"):
                values[:30, 1] = np.nan
            out.write(name, values)
        out.publish("f", {})
    catalogue.compact(local(store_root))
    store = FeatureStore(store_root)
    curves = read_curves(store, "a")
    np.testing.assert_array_equal(curves.body, [1] * 10 + [0] * 10 + [1] * 30 + [-1] * 10)
    np.testing.assert_array_equal(curves.hands, [1] * 30 + [2] * 20 + [-1] * 10)
    chart = timeline(curves, Timetable())
    (strip,) = [trace for trace in chart.figure.data if trace.name == "poses"]
    np.testing.assert_array_equal(strip.z[0][:50], curves.body[:50])
    assert np.isnan(strip.z[:, 50:]).all()
    assert export_recording(store, "a", [ExportedTrack()], tmp_path / "a.rrd") == {"main": 60}
    paths = RrdReader(tmp_path / "a.rrd").store().schema().entity_paths()
    assert {"/video/body", "/video/hands/left", "/video/hands/right"} <= set(paths)
