"""Fields of colours: the heat map of a feature of many columns, and a band for each label of a model's scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.stores import local, publish_openface

from storyframes import FeatureStore
from storyframes.features import FEATURES, feature_spec
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes_report.report.timeline import timeline
from storyframes_report.report.timetable import Timetable
from tasks.inspect.array_curves import MOST_CELLS, MOST_SHOWN
from tasks.inspect.session_curves import ArrayCurves, HeatMap
from tasks.inspect.track_curves import read_curves

ROWS = 5_001  # several blocks; cells of 16 rows, the last one not full
TIME = np.arange(ROWS) / 15 + 0.4


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """A session with frames, openface that lost the face for a while, and resnet50 with a column that never changes."""
    root = tmp_path_factory.mktemp("heat") / "features"
    create_store(root)
    generator = np.random.default_rng(0)
    valid = np.ones(ROWS, np.uint8)
    valid[100:200] = 0
    pictures = generator.normal(3, 2, size=(ROWS, 2048)).astype(np.float16)
    pictures[:, 2047] = 1
    arrays = {
        "frames": {"time": TIME},
        "openface": {
            "values": generator.normal(5, 3, size=(ROWS, 714)).astype(np.float32),
            "valid": valid,
            "confidence": np.ones(ROWS, np.float32),
        },
        "resnet50": {"values": pictures},
    }
    for feature, values in arrays.items():
        with FeatureWriter(local(root), "s", feature_spec("s", feature)) as out:
            for name, rows in values.items():
                out.write(name, rows)
            out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(root))
    return FeatureStore(root)


def by_hand(values: np.ndarray, columns: np.ndarray, rows: int) -> np.ndarray:
    some = values[:, columns].astype(np.float64)
    scores = (some - np.nanmean(some, axis=0)) / np.nanstd(some, axis=0)
    return np.stack([_mean(scores[start : start + rows]) for start in range(0, len(some), rows)])


def _mean(rows: np.ndarray) -> np.ndarray:
    there = ~np.isnan(rows)
    return np.where(there, rows, 0).sum(0) / there.sum(0)


def of(store: FeatureStore) -> dict[str, HeatMap]:
    return {one.feature: one for one in read_curves(store, "s").heat_maps}


@pytest.mark.slow
def test_cells_are_means_of_their_rows_in_standard_deviations(store: FeatureStore) -> None:
    maps = of(store)
    assert set(maps) == {"openface", "resnet50"}
    for feature, one in maps.items():
        assert (len(one.names), one.rows, one.values.shape) == (MOST_SHOWN, 16, (313, MOST_SHOWN))
        assert len(one.time) <= MOST_CELLS
        np.testing.assert_allclose(one.time, TIME[::16])
        values = store.read("s", feature).astype(np.float64)
        if feature == "openface":
            values[100:200] = np.nan
        columns = np.linspace(0, values.shape[1] - 1, MOST_SHOWN).round().astype(int)
        assert one.names == tuple(np.array(store.columns("s", feature))[columns])
        with np.errstate(invalid="ignore"):
            expected = by_hand(values, columns, 16)
        np.testing.assert_allclose(one.values, expected, atol=1e-6)
    assert np.isnan(maps["openface"].values[7:12]).all()  # rows 112 to 191: no face
    assert np.isnan(maps["resnet50"].values[:, -1]).all()


def test_the_timeline_has_it_with_names_that_are_no_templates(store: FeatureStore) -> None:
    curves = read_curves(store, "s")
    curves.heat_maps.append(HeatMap("%{x}<b>", ("%{y}", "<i>"), 2, TIME[:3], np.zeros((3, 2)), 1, TIME[3]))
    chart = timeline(curves, Timetable())
    assert chart is not None
    drawn = {trace.name: trace for trace in chart.figure.data if trace.type == "heatmap"}
    assert len(drawn["resnet50"].y) == MOST_SHOWN
    assert "mean of 16 rows" in drawn["resnet50"].hovertemplate
    edges = np.append(TIME[::16], TIME[-1] + 1 / 15)  # a cell lies where its rows are, not around its first one
    np.testing.assert_allclose(drawn["resnet50"].x, edges, rtol=1e-6)
    np.testing.assert_allclose(drawn["%&#123;x}&lt;b&gt;"].x, TIME[:3], rtol=1e-6)  # of one row each
    assert list(drawn["%&#123;x}&lt;b&gt;"].y) == ["%&#123;y}", "&lt;i&gt;"]
    assert "48 of 2048 columns" in chart.alt


@pytest.mark.parametrize("has_middles", [True, False])
def test_cells_of_windows_lie_around_their_middles(store_root: Path, has_middles: bool) -> None:
    """Several to a cell begin half a stride before the first one's middle; a foreign feature may have starts alone."""
    start = np.arange(1_000) * 0.5
    times = {"start": start, "end": start + 2.0} | ({"time": start + 1.0} if has_middles else {})
    window = FeatureSpec(
        "motion",
        "of windows",
        {"values": ArraySpec(Axis.WINDOW, "float32", "numbers", (40,), ("column",))}
        | {name: ArraySpec(Axis.WINDOW, "float64", "when", units="s") for name in times},
    )
    with FeatureWriter(local(store_root), "s", FEATURES["frames"]) as out:
        out.write("time", np.arange(7_515) / 15)
        out.publish("f" * 64, {"inputs": {}})
    with FeatureWriter(local(store_root), "s", window) as out:
        out.write("values", np.random.default_rng(0).normal(size=(len(start), 40)).astype(np.float32))
        for name, moments in times.items():
            out.write(name, moments)
        out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(store_root))
    curves = read_curves(FeatureStore(store_root), "s")
    (heat_map,) = curves.heat_maps
    assert heat_map.rows == 4
    chart = timeline(curves, Timetable())
    assert chart is not None
    (drawn,) = (trace for trace in chart.figure.data if trace.type == "heatmap")
    np.testing.assert_allclose(drawn.x, np.append(start[::4], 500.0) + (0.75 if has_middles else 0.0))


def test_what_is_drawn_is_called_what_it_is(store_root: Path) -> None:
    """Every line, and every row of a field of colours, beside the store's own column of that name."""
    rows = 60
    publish_openface(store_root, "s", rows)
    with FeatureWriter(local(store_root), "s", FEATURES["frames"]) as out:
        out.write("time", TIME[:rows])
        out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(store_root))
    reader = FeatureStore(store_root)
    curves = read_curves(reader, "s")
    three = np.arange(3.0 * rows).reshape(rows, 3)
    curves.others.append(ArrayCurves("other", "values", ("one", "two", "three"), "", TIME[:rows], three))
    curves.body, curves.hands = np.repeat([-1, 0, 1], 20), np.repeat([2, 1, 0], 20)
    chart = timeline(curves, Timetable())
    assert chart is not None
    drawn = {trace.name: trace for trace in chart.figure.data}
    stored = dict(zip(FEATURES["openface"].columns, reader.read("s", "openface").T, strict=True))
    lines = {"pitch": "pose_Rx", "yaw": "pose_Ry", "roll": "pose_Rz", "sideways": "gaze_angle_x"}
    for name, column in (lines | {"vertical": "gaze_angle_y"}).items():
        np.testing.assert_allclose(drawn[name].y, np.degrees(stored[column]), rtol=1e-5)
        np.testing.assert_allclose(drawn[name].x, TIME[:rows], rtol=1e-6)
    for name in ("AU04", "AU06", "AU12"):
        np.testing.assert_allclose(drawn[name].y, stored[f"{name}_r"])
    for name, values in zip(("one", "two", "three"), three.T, strict=True):
        np.testing.assert_allclose(drawn[name].y, values)
    for name, values in zip(drawn["action units"].y, drawn["action units"].z, strict=True):
        np.testing.assert_allclose(values, stored[f"{name}_r"])
    for name, values in zip(drawn["openface"].y, drawn["openface"].z, strict=True):
        column = stored[name].astype(np.float64)
        np.testing.assert_allclose(values, (column - column.mean()) / column.std(), atol=1e-4)
    poses = dict(zip(drawn["poses"].y, drawn["poses"].z, strict=True))
    np.testing.assert_array_equal(poses["body"], np.repeat([np.nan, 0, 1], 20))  # below 0 nobody has looked
    np.testing.assert_array_equal(poses["hands"], np.repeat([np.nan, 0.5, 0], 20))


# --- the scores of a model's head ---

HOSTILE = "<b>%{x}</b>"
TIMES = {
    Axis.FRAME: {},
    Axis.WINDOW: {"time": [1.0, 2.0, 3.0], "start": [0.0, 1.0, 2.0], "end": [2.0, 3.0, 4.0]},
    Axis.UTTERANCE: {"start": [0.5, 1.0, 3.0], "end": [1.5, 2.0, 4.0]},
}


def scored(root: Path, axis: Axis, values: np.ndarray, labels: tuple[str, ...], activation: str, hidden: int = 0):
    """The curves of a session with a feature of a model's scores, behind so many columns of its layers."""
    columns = (*(f"h{number}" for number in range(hidden)), *labels)
    times = {name: ArraySpec(axis, "float64", "when", units="s") for name in TIMES[axis]}
    main = ArraySpec(axis, "float32", "scores", (len(columns),), ("column",), columns=columns, units="0 to 1")
    groups = {"hidden": slice(0, hidden), "scores": slice(hidden, len(columns))} if hidden else {}
    with FeatureWriter(local(root), "s", FEATURES["frames"]) as out:
        out.write("time", np.arange(3) / 2)
        out.publish("f" * 64, {"inputs": {}})
    with FeatureWriter(local(root), "s", FeatureSpec("mood", "scores", {"values": main} | times, groups)) as out:
        out.attributes["model"] = {"activation": activation}
        out.write("values", np.hstack([np.ones((3, hidden)), values]).astype(np.float32))
        for name in times:
            out.write(name, np.array(TIMES[axis][name]))
        out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(root))
    return read_curves(FeatureStore(root), "s")


@pytest.mark.parametrize(
    ("axis", "edges", "shown"),
    [
        (Axis.FRAME, [0, 0.5, 1, 1.5], [0.9, 0.2, 0.4]),
        (Axis.WINDOW, [0.5, 1.5, 2.5, 3.5], [0.9, 0.2, 0.4]),
        (Axis.UTTERANCE, [0.5, 1, 2, 3, 4], [0.9, 0.2, np.nan, 0.4]),
    ],
)
def test_a_label_is_a_band_at_the_times_of_its_rows(store_root: Path, axis: Axis, edges: list, shown: list) -> None:
    happy = np.array([0.9, 0.2, 0.4])
    curves = scored(store_root, axis, np.column_stack([happy, 1 - happy]), (HOSTILE, "calm"), "softmax")
    assert (curves.others, curves.heat_maps) == ([], [])
    chart = timeline(curves, Timetable())
    assert chart is not None
    highest, bands = chart.figure.data
    assert list(bands.y) == ["&lt;b&gt;%&#123;x}&lt;/b&gt;", "calm"]
    np.testing.assert_allclose(bands.x, edges)
    np.testing.assert_allclose(bands.z[0], shown, rtol=1e-6)
    assert (bands.zmin, bands.zmax) == (0, pytest.approx(0.9))
    assert list(highest.text)[:2] == [bands.y[0], "calm"]
    assert highest.base[1] == edges[1]
    assert ("mood calm, 0 to 1", "", "", "0.1", "0.6", "0.8", "in 100.0% of the rows") in chart.rows


def test_of_many_labels_the_highest_are_bands_and_layers_beside_them_are_not(store_root: Path) -> None:
    values = np.zeros((3, 40))
    values[1, 7], values[2, 31] = 0.5, 0.75
    curves = scored(store_root, Axis.FRAME, values, tuple(f"l{label}" for label in range(40)), "sigmoid", hidden=20)
    (scores,) = curves.scores
    assert (scores.names[:2], len(scores.names), scores.of) == (("l31", "l7"), 12, 40)
    assert [(array.feature, array.names) for array in curves.others] == [("mood", ("change",))]
    assert "highest 12 of 40 labels, 0 to 0.75" in timeline(curves, Timetable()).alt


def test_a_regression_is_coloured_from_its_lowest_to_its_highest(store_root: Path) -> None:
    curves = scored(store_root, Axis.WINDOW, np.array([[-1.0], [0.5], [2.0]]), ("valence",), "none")
    (bands,) = timeline(curves, Timetable()).figure.data
    assert (bands.zmin, bands.zmax) == (-1, 2)
