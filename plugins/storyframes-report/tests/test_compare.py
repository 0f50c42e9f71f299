"""Two feature stores side by side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing
from support.stores import local
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes_report.compare import compare_stores
from storyframes_report.tolerances import ToleranceError, Tolerances, parse_tolerances

COLUMNS = FEATURES["openface"].columns
AU12 = COLUMNS.index("AU12_r")


def make(root: Path, change=lambda values, valid: None, *, session_id: str = "a", rows: int = 90) -> FeatureStore:
    """A store with a session's frames and openface, its values changed as asked."""
    create_store(root)
    values = np.random.default_rng(3).uniform(1, 2, (rows, 714)).astype(np.float32)
    valid = np.ones(rows, np.uint8)
    change(values, valid)
    with FeatureWriter(local(root), session_id, FEATURES["frames"]) as out:
        out.write("time", np.arange(rows) / 15)
        out.publish("f", {})
    with FeatureWriter(local(root), session_id, FEATURES["openface"]) as out:
        out.write("values", values)
        out.write("valid", valid)
        out.write("confidence", np.full(rows, 0.98, np.float32))
        out.publish("f", {})
    catalogue.compact(local(root))
    return FeatureStore(root)


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in ("compare", *arguments)])


def test_the_same_values_are_the_same(tmp_path: Path) -> None:
    compared = compare_stores(make(tmp_path / "a"), make(tmp_path / "b"), Tolerances(exact=True))
    assert compared.same
    assert (compared.sessions, compared.mismatches) == (1, [])
    assert sum(column.compared for column in compared.columns) == 90 * (1 + 714 + 1 + 1)
    result = run(tmp_path / "a", tmp_path / "b", "--exact")
    assert result.exit_code == 0
    assert not missing(result.stdout, "1 session in both", "717 columns compared")


def test_one_column_beyond_its_tolerance_is_named_with_its_worst_frame(tmp_path: Path) -> None:
    def raise_au12(values, valid) -> None:
        values[10:20, AU12] += 0.05
        values[42, AU12] += 0.5

    a, b = make(tmp_path / "a"), make(tmp_path / "b", raise_au12)
    compared = compare_stores(a, b, Tolerances())
    (column,) = [one for one in compared.columns if not one.same]
    assert (column.column, column.beyond, column.one_sided, column.worst) == ("AU12_r", 1, 0, ("a", 42))
    assert column.largest == pytest.approx(0.5, abs=1e-6)
    assert column.mean == pytest.approx((0.5 + 10 * 0.05) / 90, abs=1e-6)
    (worst,) = compared.worst_rows["openface"]
    assert (worst.session_id, worst.row, worst.columns) == ("a", 42, 1)
    assert worst.time_s == pytest.approx(42 / 15)
    exact = compare_stores(a, b, Tolerances(exact=True))
    assert [one.beyond for one in exact.columns if not one.same] == [11]
    assert run(tmp_path / "a", tmp_path / "b").exit_code == 1
    assert run(tmp_path / "a", tmp_path / "b", "--tolerance", "openface.AU12_r=0.6").exit_code == 0
    assert run(tmp_path / "a", tmp_path / "b", "--features", "frames").exit_code == 0


def test_rows_without_a_face_are_no_measurements(tmp_path: Path) -> None:
    def lose(values, valid) -> None:
        values[5] = 1e6
        valid[5] = 0

    compared = compare_stores(make(tmp_path / "a"), make(tmp_path / "b", lose), Tolerances())
    assert [(one.array, one.beyond) for one in compared.columns if not one.same] == [("valid", 1)]


def test_values_that_only_one_has(tmp_path: Path) -> None:
    def forget(values, valid) -> None:
        values[7, AU12] = np.nan

    compared = compare_stores(make(tmp_path / "a"), make(tmp_path / "b", forget), Tolerances())
    (column,) = [one for one in compared.columns if not one.same]
    assert (column.column, column.one_sided, column.beyond) == ("AU12_r", 1, 0)
    assert not compared.same


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    make(tmp_path / "a", session_id="only-a")
    make(tmp_path / "a"), make(tmp_path / "b", rows=80)
    result = run(tmp_path / "a", tmp_path / "b", "--json")
    assert result.exit_code == 1
    content = json.loads(result.stdout)
    assert not content["same"]
    told = {(one["session_id"], one["feature"], one["what"]) for one in content["mismatches"]}
    assert ("only-a", "openface", "only in A") in told
    assert ("a", "openface", "values is 90 x 714 in A and 80 x 714 in B") in told


@pytest.mark.parametrize("damaged", ["a", "b", "ab"])
def test_a_record_that_cannot_be_read_is_not_the_same(tmp_path: Path, damaged: str) -> None:
    """Two stores with the same damage have nothing of the feature in common that anybody could compare."""
    for name in "ab":
        make(tmp_path / name)
        record = tmp_path / name / "a/openface/current.json"
        if name in damaged:
            record.write_bytes(record.read_bytes().replace(b'"a"', b'"b"'))
    for only in ((), ("--features", "openface")):
        result = run(tmp_path / "a", tmp_path / "b", *only, "--json")
        assert result.exit_code == 1
        told = {(one["feature"], one["what"]) for one in json.loads(result.stdout)["mismatches"]}
        for side in damaged:
            place = "a/openface/current.json: damaged, its checksum does not match"
            assert [what for feature, what in told if what.startswith(f"in {side.upper()}: {place}")]
        assert len(told) == len(damaged)
    assert run(tmp_path / "a", tmp_path / "b", "--features", "frames").exit_code == 0


def test_an_archive_is_the_same_as_its_store(tmp_path: Path) -> None:
    from storyframes.store.maintenance.archive import archive

    store = make(tmp_path / "a")
    list(archive(store.storage, create_store(tmp_path / "b")))
    catalogue.compact(local(tmp_path / "b"))
    compared = compare_stores(store, FeatureStore(tmp_path / "b"), Tolerances(exact=True))
    assert compared.same
    assert compared.columns


def test_the_page_names_the_column_and_shows_hostile_names_as_text(tmp_path: Path) -> None:
    from storyframes_report.report.compare_page import write_comparison

    def raise_au12(values, valid) -> None:
        values[42, AU12] += 0.5

    compared = compare_stores(make(tmp_path / "a"), make(tmp_path / "b", raise_au12), Tolerances())
    write_comparison(compared, "<script>alert(1)</script>", "b", tmp_path / "page")
    page = (tmp_path / "page/index.html").read_text()
    assert "AU12_r" in page
    assert "They differ" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("openfaces=1", "there is no feature 'openfaces'"),
        ("openface.AU99_r=1", "has no column 'AU99_r'"),
        ("openface.x=1", "has no column 'x'"),
        ("dope.x=1", "has no column 'x'"),
        ("openface", "write FEATURE=NUMBER"),
        ("openface=nan", "0 or more"),
        ("openface=-1", "0 or more"),
    ],
)
def test_a_tolerance_that_is_none(text: str, message: str, tmp_path: Path) -> None:
    store = make(tmp_path / "a")
    with pytest.raises(ToleranceError, match=message):
        compare_stores(store, store, parse_tolerances([text]))
    result = run(tmp_path / "a", tmp_path / "a", "--tolerance", text)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_feature_that_neither_store_has_is_not_the_same(tmp_path: Path) -> None:
    make(tmp_path / "a")
    for feature in ("dope", "openfaces"):
        result = run(tmp_path / "a", tmp_path / "a", "--features", feature)
        assert result.exit_code == 2
        told = f"there is no feature '{feature}' in the two stores; they have frames, openface"
        assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("array", "column", "expected"),
    [
        ("values", "AU12_r", 0.1),
        ("values", "AU12_c", 0.0),
        ("values", "pose_Tx", 1.0),
        ("values", "p_rx", 0.01),
        ("values", "p_3", 0.5),
        ("confidence", "confidence", 0.01),
    ],
)
def test_what_an_extractor_declares_holds(array: str, column: str, expected: float) -> None:
    assert Tolerances().of("a", "openface", array, column, whole=False).absolute == expected
    assert Tolerances(exact=True).of("a", "openface", array, column, whole=False).absolute == 0
    given = Tolerances(exact=True, given={"openface": 3.0, f"openface.{column}": 2.0})
    assert given.of("a", "openface", array, column, whole=True).absolute == 2


def test_a_tolerance_of_all_columns_is_not_one_of_whole_numbers() -> None:
    def of(*place: str, whole: bool) -> float:
        return Tolerances().of("a", *place, whole=whole).absolute

    assert of("dope", "body_3d", "body_3d.head.X", whole=False) == 0.01
    assert of("dope", "body_2d", "body_2d.head.x", whole=False) == 0.5
    assert of("dope", "sampled", "sampled", whole=True) == 0
    assert Tolerances().of("stories", "sbert", "values", "sbert_000", whole=False).absolute == 1e-4


def stored(root: Path, change: float, said: object) -> FeatureStore:
    """A store with an embedding of which no class here knows, and what it says of its tolerance."""
    create_store(root)
    spec = FeatureSpec("tiny", "numbers", {"values": ArraySpec(Axis.UTTERANCE, "float32", "a", (2,), ("column",))})
    with FeatureWriter(local(root), "s", spec) as out:
        out.write("values", np.full((3, 2), 1 + change, np.float32))
        out.attributes["tolerance"] = said
        out.publish("f", {})
    catalogue.compact(local(root))
    return FeatureStore(root)


@pytest.mark.parametrize(
    ("of_a", "of_b", "same", "known"),
    [
        ({"*": [1e-2, 0]}, {"*": [1e-2, 0]}, True, True),
        ({"*": [1e-2, 0]}, {"*": [1e-4, 0]}, False, True),  # the stricter
        ({"*": [1e-2, 0]}, {}, False, True),
        ({"*": [1e-2, 0]}, None, False, False),
        ({"*": [-1, 0]}, {"*": [1e-2, 0]}, False, False),
        ({"*": "wide"}, {"*": [1e-2, 0]}, False, False),
    ],
)
def test_stores_are_compared_by_the_tolerance_that_they_state(
    tmp_path: Path, of_a: object, of_b: object, same: bool, known: bool
) -> None:
    a, b = stored(tmp_path / "a", 0, of_a), stored(tmp_path / "b", 1e-3, of_b)
    compared = compare_stores(a, b, Tolerances())
    assert (compared.same, compared.unknown == []) == (same, known)
    assert not compare_stores(a, b, Tolerances(exact=True)).same
    assert compare_stores(a, b, Tolerances(given={"tiny": 0.1})).same


def test_each_track_is_compared_by_the_tolerance_of_its_feature(tmp_path: Path) -> None:
    """A difference in one camera is of that one alone."""
    stores = []
    for name, number in (("a", 0.5), ("b", 0.5625)):
        create_store(tmp_path / name)
        for track, value in (("main", 0.5), ("child_b", number)):
            with FeatureWriter(local(tmp_path / name), "dyad", FEATURES["openface"], track=track) as out:
                out.write("values", np.full((30, 714), value, np.float32))
                out.write("valid", np.ones(30, np.uint8))
                out.write("confidence", np.ones(30, np.float32))
                out.publish("f", {})
        catalogue.compact(local(tmp_path / name))
        stores.append(FeatureStore(tmp_path / name))
    compared = compare_stores(*stores, parse_tolerances([]))
    assert (compared.unknown, compared.mismatches) == ([], [])
    assert {column.feature for column in compared.columns if not column.same} == {"openface@child_b"}
    assert {column.feature for column in compared.columns} == {"openface", "openface@child_b"}
    wide = compare_stores(*stores, parse_tolerances(["openface=0.1"]))
    assert all(column.same for column in wide.columns)


@pytest.mark.parametrize("given", [" ", "frames,"])
def test_a_feature_without_a_name_is_bad_usage(tmp_path: Path, given: str) -> None:
    result = CliRunner().invoke(app, ["compare", str(tmp_path), str(tmp_path), "--features", given])
    assert result.exit_code == 2
    assert f"--features {given!r}: a name is missing" in result.stderr
