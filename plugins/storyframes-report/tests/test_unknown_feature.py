"""Looking at features that nobody here knows: the store says all that is needed of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing, unlike
from support.stores import local
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.record_status import WHOLE_SESSION, FeatureStatus
from storyframes_report.compare import compare_stores
from storyframes_report.tolerances import Tolerances, parse_tolerances
from tasks.inspect.session_curves import ArrayCurves
from tasks.inspect.stored_feature import StoredFeature
from tasks.inspect.track_curves import read_curves
from tasks.planning.plan import ExpectedVersion

ROWS, HOPS, WORDS, BODIES = 60, 90, 7, 11
UNMEASURED = slice(20, 30)
HOSTILE = "<b>%{x}</b> a/b [/] [red]"

BRIGHTNESS = FeatureSpec(
    "glimmer",
    "how bright the picture is",
    {
        "values": ArraySpec(Axis.FRAME, "float32", "mean and motion", (2,), ("column",), columns=("mean", HOSTILE)),
        "known": ArraySpec(Axis.FRAME, "uint8", "1 where the frame was looked at", fill=0),
        "level": ArraySpec(Axis.FRAME, "int16", "0 to 9", fill=-1, units="steps <i>"),
    },
    mask="known",
)
EMBEDDING = FeatureSpec(
    "embedding", "a vector", {"values": ArraySpec(Axis.FRAME, "float16", "no names", (40,), ("column",))}
)
MELODY = FeatureSpec(
    "melody",
    "of the voice",
    {
        "values": ArraySpec(Axis.AUDIO_FRAME, "float32", "", (2,), ("column",), columns=("pitch", "level"), units="dB"),
        "time": ArraySpec(Axis.AUDIO_FRAME, "float64", "when", units="s"),
    },
)
STRESS = FeatureSpec(
    "stress",
    "of each word",
    {
        "values": ArraySpec(Axis.WORD, "float32", "how strong"),
        "start": ArraySpec(Axis.WORD, "float64", "begins", units="s"),
        "end": ArraySpec(Axis.WORD, "float64", "ends", units="s"),
    },
)
CROWD = FeatureSpec("crowd", "bodies without a time", {"height": ArraySpec(Axis.BODY, "float32", "", units="m")})
MESH = FeatureSpec(
    "mesh",
    "points on the picture",
    {
        "points": ArraySpec(
            Axis.FRAME,
            "float32",
            "a face",
            (5, 2),
            ("point", "xy"),
            columns=("x", "y"),
            joints=("a", "b", "c", "d", HOSTILE),
            units="pixels of the frame, x to the right",
        )
    },
)
SPECS = (BRIGHTNESS, EMBEDDING, MELODY, STRESS, CROWD, MESH)
LENGTHS = {Axis.FRAME: ROWS, Axis.AUDIO_FRAME: HOPS, Axis.WORD: WORDS, Axis.BODY: BODIES}
ARRAYS = [(spec, name) for spec in SPECS for name in spec.arrays]


def example(spec: FeatureSpec) -> dict[str, np.ndarray]:
    """Values of a feature, the same at every call."""
    generator = np.random.default_rng(7)
    arrays = {}
    for name, array in spec.arrays.items():
        shape = (LENGTHS[array.axis], *array.shape)
        values = generator.uniform(1, 9, shape).astype(array.dtype)
        if name in ("time", "start", "end"):
            values = np.linspace(0, 3.5, len(values)) + (0.1 if name == "end" else 0)
        elif name == "known":
            values[:] = 1
            values[UNMEASURED] = 0
        arrays[name] = values
    return arrays


def write(root: Path, *specs: FeatureSpec, change=lambda feature, arrays: None, session_id: str = "a") -> FeatureStore:
    """A store of one session with its clock and features that nobody knows."""
    create_store(root)
    clock = FEATURES["frames"]
    for spec in (clock, *specs):
        arrays = {"time": np.arange(ROWS) / 15} if spec is clock else example(spec)
        change(spec.name, arrays)
        with FeatureWriter(local(root), session_id, spec) as out:
            for name, values in arrays.items():
                out.write(name, values)
            out.publish("f", {})
    catalogue.compact(local(root))
    return FeatureStore(root)


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def curves_of(store: FeatureStore) -> dict[tuple[str, str], ArrayCurves]:
    return {(one.feature, one.array): one for one in read_curves(store, "a").others}


# --- curves ---


def test_few_columns_have_a_curve_each_and_gaps_where_nothing_was_measured(tmp_path: Path) -> None:
    store = write(tmp_path / "f", *SPECS)
    curves = curves_of(store)
    values = example(BRIGHTNESS)["values"].astype(np.float64)
    values[UNMEASURED] = np.nan
    shown = curves["glimmer", "values"]
    assert shown.names == ("mean", HOSTILE)
    np.testing.assert_array_equal(shown.time, np.arange(ROWS) / 15)
    np.testing.assert_array_equal(shown.values, values)
    known = curves["glimmer", "known"]  # the mask itself is no measurement of itself
    np.testing.assert_array_equal(known.values[:, 0], example(BRIGHTNESS)["known"])
    assert (known.names, known.title) == (("known",), "glimmer known")


def test_an_infinite_number_is_left_out_of_the_change(tmp_path: Path) -> None:
    """And does not make the rest of the session look frozen."""

    def change(feature: str, arrays: dict[str, np.ndarray]) -> None:
        if feature == "embedding":
            arrays["values"][30, 3] = np.inf

    change_of = curves_of(write(tmp_path / "f", EMBEDDING, change=change))["embedding", "values"].values[:, 0]
    assert (change_of[1:] > 0.1).all()


def test_many_columns_have_one_curve_of_how_much_they_change(tmp_path: Path) -> None:
    store = write(tmp_path / "f", EMBEDDING)
    (shown,) = read_curves(store, "a").others
    values = example(EMBEDDING)["values"].astype(np.float64)
    expected = np.linalg.norm(np.diff(values, axis=0), axis=1) / np.linalg.norm(values, axis=1).mean()
    assert shown.names == ("change",)
    assert np.isnan(shown.values[0, 0])
    np.testing.assert_allclose(shown.values[1:, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("block", [7, 20, 4096])
def test_the_change_leaves_out_what_is_not_there_in_one_of_two_rows(tmp_path: Path, monkeypatch, block: int) -> None:
    def some_missing(feature: str, arrays: dict[str, np.ndarray]) -> None:
        if feature == "embedding":
            arrays["values"][10, :30] = np.nan
            arrays["values"][40] = np.nan

    store = write(tmp_path / "f", EMBEDDING, change=some_missing)
    monkeypatch.setattr("tasks.inspect.array_curves._BLOCK", block)
    change = read_curves(store, "a").others[0].values[:, 0]
    assert np.flatnonzero(np.isnan(change)).tolist() == [0, 40, 41]
    values = example(EMBEDDING)["values"].astype(np.float64)
    norms = np.linalg.norm(values, axis=1)
    norms[10] = np.linalg.norm(values[10, 30:])
    expected = np.linalg.norm(values[10, 30:] - values[9, 30:]) / np.delete(norms, 40).mean()
    np.testing.assert_allclose(change[10], expected, rtol=1e-3)


@pytest.mark.parametrize("block", [2, 7, 4096])
def test_of_every_third_frame_the_change_is_between_those(tmp_path: Path, monkeypatch, block: int) -> None:
    sampled = ArraySpec(Axis.FRAME, "uint8", "1 where every_n_frames took it", fill=0)
    spec = dataclasses.replace(EMBEDDING, arrays=EMBEDDING.arrays | {"sampled": sampled}, mask="sampled")

    def every_third(feature: str, arrays: dict[str, np.ndarray]) -> None:
        if feature == "embedding":
            arrays["sampled"] = (np.arange(ROWS) % 3 == 0).astype(np.uint8)
            arrays["values"][arrays["sampled"] == 0] = np.nan
            arrays["values"][33] = arrays["values"][30]
            arrays["sampled"][45] = 0  # it could not be read

    store = write(tmp_path / "f", spec, change=every_third)
    monkeypatch.setattr("tasks.inspect.array_curves._BLOCK", block)
    shown = {one.array: one.values[:, 0] for one in read_curves(store, "a").others}["values"]
    values = example(EMBEDDING)["values"].astype(np.float64)
    values[33] = values[30]
    rows = np.delete(np.arange(0, ROWS, 3), 15)
    steps = np.linalg.norm(values[3:] - values[:-3], axis=1) / np.linalg.norm(values[rows], axis=1).mean()
    of_step = np.repeat([np.nan, *steps[::3], np.nan], 3)[2 : ROWS + 2]  # each row has that of the step in which it is
    of_step[[*range(43, 49), 58, 59]] = np.nan  # nothing is known of what lies beside 45, nor behind the last
    np.testing.assert_allclose(shown, of_step, rtol=1e-3)
    assert (shown[31:34] == 0).all()


def test_rows_have_the_times_that_the_store_gives_them(tmp_path: Path) -> None:
    curves = curves_of(write(tmp_path / "f", *SPECS))
    np.testing.assert_array_equal(curves["melody", "values"].time, example(MELODY)["time"])
    np.testing.assert_array_equal(curves["stress", "values"].time, example(STRESS)["start"])
    assert curves["crowd", "height"].time is None
    assert ("stress", "start") not in curves


def test_whole_numbers_that_stand_for_no_value_are_gaps(tmp_path: Path) -> None:
    def gap(feature: str, arrays: dict[str, np.ndarray]) -> None:
        if feature == "glimmer":
            arrays["level"][5] = -1

    shown = curves_of(write(tmp_path / "f", BRIGHTNESS, change=gap))["glimmer", "level"]
    assert np.isnan(shown.values[5, 0])
    assert np.isfinite(shown.values[6, 0])


def test_a_feature_of_an_older_recording_is_not_drawn_over_a_newer_one(tmp_path: Path) -> None:
    def shorter(feature: str, arrays: dict[str, np.ndarray]) -> None:
        if feature == "frames":
            arrays["time"] = arrays["time"][:-1]

    curves = read_curves(write(tmp_path / "f", BRIGHTNESS, MELODY, change=shorter), "a")
    assert {one.feature for one in curves.others} == {"melody"}
    assert not unlike(curves.troubles, ("glimmer has 60 rows", "59 frames"))


def test_columns_like_openfaces_are_shown_as_a_face_whatever_the_feature_is_called(tmp_path: Path) -> None:
    spec = dataclasses.replace(FEATURES["openface"], name="other_tracker")

    def face(feature: str, arrays: dict[str, np.ndarray]) -> None:
        if feature == "other_tracker":
            arrays["valid"] = np.arange(ROWS) > 3

    curves = read_curves(write(tmp_path / "f", spec, change=face), "a")
    assert curves.others == []
    assert curves.tracked.sum() == ROWS - 4
    assert curves.action_units.shape == (ROWS, 17)


# --- show, report, view, overlay ---


def test_show_says_what_there_is(tmp_path: Path) -> None:
    write(tmp_path / "f", *SPECS)
    result = run("show", tmp_path / "f", "a", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert {one["feature"] for one in content["features"]} == {"frames", *(spec.name for spec in SPECS)}
    names = {one["name"]: one for one in content["curves"]}
    assert {"glimmer mean", f"glimmer {HOSTILE}", "embedding change", "melody pitch", "stress"} <= set(names)
    assert {"crowd height", "mesh points a.x"} <= set(names)
    assert names["melody level"]["unit"] == "dB"
    assert names["glimmer mean"]["present"] == pytest.approx(50 / 60)
    assert run("show", tmp_path / "f", "a").exit_code == 0


def test_the_timeline_has_a_row_for_each_array_with_a_time(tmp_path: Path) -> None:
    from storyframes_report.report.timeline import timeline
    from storyframes_report.report.timetable import Timetable

    chart = timeline(read_curves(write(tmp_path / "f", *SPECS), "a"), Timetable())
    titles = " ".join(annotation.text for annotation in chart.figure.layout.annotations)
    for title in (
        "glimmer",
        "glimmer level",
        "embedding",
        "melody, dB",
        "stress",
        "mesh points, pixels of the frame:",
    ):
        assert title in titles
    assert "crowd" not in titles  # nobody knows when
    assert "<b>" not in titles
    assert "<i>" not in titles
    templates = [trace.hovertemplate for trace in chart.figure.data]
    assert not any("%{x}</b>" in template or "<b>" in template for template in templates)
    assert "steps &lt;i&gt;" in titles
    assert "steps <i>" in chart.alt  # plain text, which the page escapes


def test_the_report_shows_it_among_the_others(tmp_path: Path) -> None:
    from storyframes_report.report.facts import study_facts
    from storyframes_report.report.matrix import CellState, build_matrix
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.study.load import Study

    assert ExtractorsSettings()
    store = write(tmp_path / "f", *SPECS)
    entries = list(record_status.scan(store.storage))
    matrix = build_matrix(["a"], entries, [])
    assert matrix.features == ("frames", *sorted(spec.name for spec in SPECS))
    assert {matrix.cells["a", spec.name].state for spec in SPECS} == {CellState.DONE}
    study = Study(root=tmp_path, sessions={}, phases=[], ratings=[], stories={}, surveys=[], participants=[])
    facts = study_facts(study, entries, None, matrix)
    assert {row.feature for row in facts.versions} == {"frames", *(spec.name for spec in SPECS)}


def test_a_session_that_cannot_be_read_has_failed_and_is_no_feature() -> None:
    from storyframes_report.report.matrix import CellState, build_matrix

    entries = [FeatureStatus.of("a", WHOLE_SESSION, None, None, "a: Permission denied")]
    matrix = build_matrix(["a"], entries, [ExpectedVersion("a", "glimmer", "f")])
    assert matrix.features == ("glimmer",)
    cell = matrix.cells["a", "glimmer"]
    assert (cell.state, cell.reason) == (CellState.FAILED, "a: Permission denied")


@pytest.mark.needs("rerun")
def test_points_in_pixels_are_drawn_and_exported(tmp_path: Path) -> None:
    from rerun.chunk import RrdReader

    from storyframes_report.overlay import picture_points
    from storyframes_report.rerun_export import ExportedTrack, export_recording

    store = write(tmp_path / "f", *SPECS)
    (points,) = picture_points(store, "a")
    np.testing.assert_array_equal(points.at(4), example(MESH)["points"][4])
    assert export_recording(store, "a", [ExportedTrack()], tmp_path / "a.rrd") == {"main": ROWS}
    paths = RrdReader(tmp_path / "a.rrd").store().schema().entity_paths()
    assert {"/video/points", "/curves/glimmer/values/mean", "/curves/melody/values/pitch"} <= set(paths)
    assert not any("crowd" in path for path in paths)


# --- compare ---


def test_the_same_is_the_same(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", *SPECS), write(tmp_path / "b", *SPECS)
    compared = compare_stores(a, b, Tolerances())
    assert compared.same
    assert {column.feature for column in compared.columns} == {"frames", *(spec.name for spec in SPECS)}


@pytest.fixture(scope="module")
def of_all(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return write(tmp_path_factory.mktemp("all") / "a", *SPECS)


@pytest.mark.parametrize(("spec", "array"), ARRAYS, ids=lambda one: getattr(one, "name", one))
def test_one_value_of_any_array_is_found(tmp_path: Path, of_all: FeatureStore, spec: FeatureSpec, array: str) -> None:
    def one_value(feature: str, arrays: dict[str, np.ndarray]) -> None:
        if feature == spec.name:
            arrays[array].reshape(len(arrays[array]), -1)[5, -1] += 1

    changed = write(tmp_path / "b", spec, change=one_value)
    compared = compare_stores(of_all, changed, Tolerances(), [spec.name])
    (column,) = [one for one in compared.columns if not one.same]
    assert (column.feature, column.array, column.beyond, column.worst) == (spec.name, array, 1, ("a", 5))
    named = spec.arrays[array].columns[-1:] or (("39",) if spec is EMBEDDING else (array,))
    assert column.column.endswith(named[0])
    (worst,) = compared.worst_rows[spec.name]
    expected = {Axis.FRAME: 5 / 15, Axis.AUDIO_FRAME: 3.5 * 5 / 89, Axis.WORD: 3.5 * 5 / 6}
    when = expected.get(spec.arrays[array].axis)
    assert worst.time_s == (None if when is None else pytest.approx(when))


def test_values_that_are_no_measurements_are_left_out_but_not_the_mask(tmp_path: Path) -> None:
    def stale(feature: str, arrays: dict[str, np.ndarray]) -> None:
        if feature == "glimmer":
            arrays["values"][UNMEASURED] = 1e6
            arrays["known"][UNMEASURED.start] = 1

    compared = compare_stores(
        write(tmp_path / "a", BRIGHTNESS), write(tmp_path / "b", BRIGHTNESS, change=stale), Tolerances()
    )
    assert [(one.array, one.beyond) for one in compared.columns if not one.same] == [("known", 1)]


def test_numbers_beside_the_values_are_compared_where_the_mask_is_0_too(tmp_path: Path) -> None:
    """A face's confidence, the times of words without a vector: they are used, so they must not be left out."""

    def other_level(feature: str, arrays: dict[str, np.ndarray]) -> None:
        if feature == "glimmer":
            arrays["level"][UNMEASURED.start] += 1

    compared = compare_stores(
        write(tmp_path / "a", BRIGHTNESS), write(tmp_path / "b", BRIGHTNESS, change=other_level), Tolerances()
    )
    assert [(one.array, one.beyond) for one in compared.columns if not one.same] == [("level", 1)]


def test_columns_with_other_names_are_not_compared_one_by_one(tmp_path: Path) -> None:
    values = BRIGHTNESS.arrays["values"]
    swapped = dataclasses.replace(values, columns=values.columns[::-1])
    other = dataclasses.replace(BRIGHTNESS, arrays={**BRIGHTNESS.arrays, "values": swapped})
    compared = compare_stores(write(tmp_path / "a", BRIGHTNESS), write(tmp_path / "b", other), Tolerances(exact=True))
    assert not compared.same
    (mismatch,) = compared.mismatches
    assert not missing(mismatch.what, "2 columns", HOSTILE)
    assert "values" not in {column.array for column in compared.columns}


def slightly(feature: str, arrays: dict[str, np.ndarray]) -> None:
    if feature == "glimmer":
        arrays["values"][5, 0] += 1e-3


def test_nobody_knows_how_far_its_values_may_differ_so_not_at_all_and_that_is_said(tmp_path: Path) -> None:
    from storyframes_report.report.compare_page import write_comparison

    a, b = write(tmp_path / "a", BRIGHTNESS, MELODY), write(tmp_path / "b", BRIGHTNESS, MELODY, change=slightly)
    compared = compare_stores(a, b, Tolerances())
    assert compared.unknown == ["glimmer", "melody"]
    assert [one.column for one in compared.columns if not one.same] == ["mean"]
    told = "No extractor installed here writes glimmer, melody: the values had to be exactly the same"
    result = run("compare", tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 1
    assert told in " ".join(result.stdout.split())
    assert json.loads(run("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)["unknown"] == compared.unknown
    write_comparison(compared, "a", "b", tmp_path / "page")
    assert told in (tmp_path / "page/index.html").read_text()


def test_a_tolerance_can_be_given_for_it(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", BRIGHTNESS), write(tmp_path / "b", BRIGHTNESS, change=slightly)
    for tolerance, same in (("glimmer=0.01", True), ("glimmer.mean=0.01", True), ("glimmer.known=9", False)):
        assert compare_stores(a, b, parse_tolerances([tolerance], exact=False)).same == same, tolerance
    for feature, same in (("glimmer", False), ("frames", True)):
        assert compare_stores(a, b, Tolerances(), [feature]).same == same, feature
    result = run("compare", tmp_path / "a", tmp_path / "b", "--tolerance", "glimmer.mean_=9")
    assert result.exit_code == 2
    assert "glimmer has no column 'mean_'" in " ".join(result.stderr.split())


# --- the whole report ---


@pytest.mark.slow
def test_a_report_of_a_study_with_it(tmp_path: Path) -> None:
    """The pages are made, and names out of the store are text on them."""
    from tasks.media.synthesize import SyntheticStudy, write_study

    study, features = tmp_path / "study", tmp_path / "features"
    write_study(study, SyntheticStudy(sessions=1, seconds=2))
    write(features, *SPECS, session_id="s0001")
    result = run("report", study, features, "--out", tmp_path / "report")
    assert result.exit_code == 0, result.output
    study_page = (tmp_path / "report/index.html").read_text()
    session_page = (tmp_path / "report/sessions/s0001.html").read_text()
    for spec in SPECS:
        assert spec.name in study_page
        assert spec.name in session_page
    assert "<b>" not in session_page
    assert "<i>" not in session_page
    assert "melody, dB" in session_page


def test_what_is_read_says_what_it_is(tmp_path: Path) -> None:
    store = write(tmp_path / "f", BRIGHTNESS, MELODY)
    curves = read_curves(store, "a")
    assert repr(curves) == "a: 4.00 s, 60 frames; curves of glimmer, melody"
    assert repr(curves.others[0]) == f"glimmer: 60 rows of mean, {HOSTILE}"
    assert repr(StoredFeature.of(store, "a", "glimmer")) == "a/glimmer: values, known, level"
    assert repr(compare_stores(store, store, Tolerances())) == "the same; 1 session in both, 8 columns compared"
