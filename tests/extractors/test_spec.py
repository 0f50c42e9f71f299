"""A specification is checked when it is made: it may come from a stranger, and its names become paths."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from support.messages import naming

from storyframes.features import FEATURES, STORY_FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec, SpecError


def spec(**changes: Any) -> FeatureSpec:
    arrays = {
        "values": ArraySpec(Axis.FRAME, "float32", "two numbers", (2,), ("column",), columns=("mean", "motion")),
        "known": ArraySpec(Axis.FRAME, "uint8", "1 where they are known", fill=0),
    }
    return FeatureSpec(
        **{"name": "brightness", "about": "how bright it is", "arrays": arrays, "mask": "known", **changes}
    )


def with_array(name: str = "extra", **changes: Any) -> FeatureSpec:
    array = ArraySpec(**{"axis": Axis.FRAME, "dtype": "float32", "about": "more", **changes})
    return spec(arrays={**spec().arrays, name: array})


def test_one_that_is_right_is_taken() -> None:
    assert spec(groups={"both": slice(0, 2), "first": slice(0, 1)}).columns == ("mean", "motion")
    assert with_array(shape=(3, 2), dims=("joint", "xy"), columns=("x", "y"), joints=("a", "b", "c"))
    assert with_array("time", dtype="float64").mask == "known"


@pytest.mark.parametrize("of", [*FEATURES.values(), *STORY_FEATURES.values()], ids=lambda each: each.name)
def test_the_built_in_ones_are_right(of: FeatureSpec) -> None:
    assert dataclasses.replace(of) == of


NO_NAMES = (
    *(
        "",
        "..",
        ".",
        "../../etc",
        "a/b",
        "a\\b",
        "/a",
        "C:a",
        "a b",
        "a\n",
        "a\0",
        "Ä",
        "ａ",
        "Brightness",
        "9lives",
        "_a",
    ),
    *("a-b", "a.b", "current.json", "a" * 65, "con", "lpt1", "vision", "audio", "label", "index", "stories"),
)


@pytest.mark.parametrize("name", NO_NAMES, ids=repr)
def test_a_feature_cannot_have_a_name_that_leads_elsewhere_or_means_something_else(name: str) -> None:
    with pytest.raises(SpecError, match="name"):
        spec(name=name)


@pytest.mark.parametrize("name", [name for name in NO_NAMES if not name.isidentifier() or not name.islower()], ids=repr)
def test_nor_can_an_array_a_dimension_or_a_group(name: str) -> None:
    with pytest.raises(SpecError, match=naming("brightness", "array's name")):
        with_array(name)
    with pytest.raises(SpecError, match=naming("brightness/extra", "dimension's name")):
        with_array(shape=(2,), dims=(name,))
    with pytest.raises(SpecError, match=naming("brightness", "group's name")):
        spec(groups={name: slice(0, 1)})


@pytest.mark.parametrize("name", [None, 5, b"a"])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(SpecError, match="feature's name cannot be"):
        spec(name=name)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"axis": "frames"}, "there is no axis 'frames'; there are frame, audio_frame"),
        ({"dtype": "flaot32"}, "numpy has no dtype 'flaot32'"),
        ({"dtype": "U8"}, "dtype 'U8' is not stored"),
        ({"dtype": "object"}, "dtype 'object' is not stored"),
        ({"dtype": "complex64"}, "dtype 'complex64' is not stored"),
        ({"dtype": "bool"}, "dtype 'bool' is not stored"),
        ({"dtype": "datetime64[s]"}, "is not stored"),
        ({"dtype": "longdouble"}, "is not stored"),
        ({"dtype": "uint8"}, "fill=nan is no uint8; give the value for rows without one"),
        ({"dtype": "uint8", "fill": -1}, "fill=-1 is no uint8"),
        ({"dtype": "int16", "fill": 40_000}, "fill=40000 is no int16"),
        ({"dtype": "int16", "fill": 0.5}, "fill=0.5 is no int16"),
        ({"shape": (0,), "dims": ("a",)}, r"shape \(0,\) is not"),
        ({"shape": (2.5,), "dims": ("a",)}, r"shape \(2.5,\) is not"),
        ({"shape": [2], "dims": ("a",)}, r"shape \[2\] is not"),
        ({"shape": (2,)}, r"shape \(2,\) needs 1 names of dimensions, not \(\)"),
        ({"shape": (2,), "dims": ("a", "b")}, "needs 1 names of dimensions"),
        ({"shape": (2, 2), "dims": ("a", "a")}, "two dimensions have one name: frame, a, a"),
        ({"shape": (2,), "dims": ("known",)}, "a dimension and an array cannot both be called 'known'"),
        ({"shape": (2,), "dims": ("frame",)}, "two dimensions have one name: frame, frame"),
        ({"shape": (2,), "dims": ("a",), "columns": ("x",)}, "1 columns for a dimension of 2"),
        ({"columns": ("x",)}, "1 columns for a dimension of 0"),
        ({"shape": (2,), "dims": ("a",), "columns": ("x", "x")}, "columns has 'x' twice"),
        ({"shape": (2,), "dims": ("a",), "columns": "xy"}, "columns are to be printable names"),
        ({"shape": (2,), "dims": ("a",), "columns": ("x", 1)}, "columns are to be printable names"),
        ({"shape": (2,), "dims": ("a",), "columns": ("x", "\x1b[2J")}, "columns are to be printable names"),
        ({"shape": (2,), "dims": ("a",), "joints": ("l", "r")}, "2 joints for a dimension of 0"),
        ({"shape": (2, 3), "dims": ("a", "b"), "joints": ("l", "m", "r")}, "3 joints for a dimension of 2"),
        ({"shape": (3,), "dims": ("column",)}, "the dimension 'column' has 3 entries, but 2 in values"),
        (
            {"shape": (2,), "dims": ("column",), "columns": ("mean", "other")},
            "the entries of the dimension 'column' have other names than in values",
        ),
    ],
)
def test_an_array_that_contradicts_itself_is_told(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint) as told:
        with_array(**changes)
    assert str(told.value).startswith("brightness/extra: ")


@pytest.mark.parametrize(("name", "dtype"), [("time", "float32"), ("start", "float16"), ("end", ">f8")])
def test_a_clock_is_in_seconds(name: str, dtype: str) -> None:
    with pytest.raises(SpecError, match=naming(f"'{name}'", "float64")):
        with_array(name, dtype=dtype)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mask": "knwon"}, r"the mask 'knwon' is none of its arrays \(values, known\)"),
        ({"mask": "values"}, "the mask 'values' is none of its arrays"),
        ({"arrays": {}}, "a feature has at least one array"),
        ({"groups": {"a": slice(0, 3)}}, r"the group 'a' is slice\(0, 3, None\), but 'values' has 2 columns"),
        ({"groups": {"a": slice(1, 1)}}, "the group 'a' is"),
        ({"groups": {"a": slice(-1, 2)}}, "the group 'a' is"),
        ({"groups": {"a": slice(None)}}, "the group 'a' is"),
        ({"groups": {"a": slice(0, 2, 2)}}, "it has to be a slice of neighbouring columns"),
        ({"groups": {"a": [0, 1]}}, "it has to be a slice of neighbouring columns"),
        ({"groups": {"mean": slice(0, 2)}}, "the group 'mean' is called like a column"),
    ],
)
def test_a_feature_that_contradicts_itself_is_told(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint) as told:
        spec(**changes)
    assert str(told.value).startswith("brightness")


@pytest.mark.parametrize(
    "mask",
    [
        ArraySpec(Axis.FRAME, "float32", "a share"),
        ArraySpec(Axis.FRAME, "uint8", "two", (2,), ("side",), fill=0),
        ArraySpec(Axis.FRAME, "uint8", "at times", fill=0, optional=True),
        ArraySpec(Axis.WORD, "uint8", "of words", fill=0),
    ],
)
def test_a_mask_has_one_whole_number_for_each_row(mask: ArraySpec) -> None:
    with pytest.raises(SpecError, match="mask"):
        spec(arrays={"values": spec().arrays["values"], "known": mask})


def test_dtypes_are_read_as_numpy_does() -> None:
    for dtype in ("float16", "f4", "float64", "int8", "u8", "<i4"):
        assert with_array(dtype=dtype, fill=0).arrays["extra"].dtype == dtype
        assert np.dtype(dtype).itemsize <= 8
