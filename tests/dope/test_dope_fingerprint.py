"""What decides the values of dope: stores that were made with this version still count as up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.messages import naming

from tasks.extractors.base import InputFile, Source
from tasks.extractors.registry import ExtractorsSettings, build_extractors

EVERY_SETTING: dict[str, Any] = {
    "every_n_frames": 3,
    "people": "all",
    "rival_score": 0.25,
    "post_processing": "nms",
    "nms_min_score": 0.5,
    "min_size": 64,
    "max_size": 96,
    "rpn_pre_nms_top_n": 5,
    "rpn_post_nms_top_n": 4,
    "batch_norm_eps": 1e-3,
    "roi_border": "repeat",
}
WHERE_AND_HOW_FAST = {"device": "cpu", "frames_per_pass": 2, "boxes_per_pass": 7}


def digest(folder: Path, *, truncated: bool = False, **dope: Any) -> str:
    """The fingerprint of a video and a model that are always the same."""
    model = folder / "model.pth.tgz"
    model.write_bytes(b"weights")
    source = Source("s", {"video": InputFile(folder / "video.avi", "video.avi", "a" * 64, 1, 1)})
    settings = ExtractorsSettings(dope={"model": model, **dope}, recording={"allow_truncated": truncated})
    return build_extractors(settings, "s")["dope"].fingerprint(source).digest


@pytest.mark.parametrize("more", [{}, WHERE_AND_HOW_FAST])
@pytest.mark.parametrize(
    ("values", "truncated", "known"),
    [
        ({}, False, "ff4338b6b0566ffb21634bfa3b406e35c5657050c5f7d33f3c9bdae7eca87914"),
        ({}, True, "c3aba9698045082107d7645c0abf91d31f53e1c5a7e3175d43b310d0be4adf1b"),
        (EVERY_SETTING, False, "1012d53f3c8ceec53caba22f2623a8cd3f9646081c57dd918ba7b8652c833792"),
        (EVERY_SETTING, True, "f337f03b1b6e371731b29cc372f55ce78de6f526aee9ee559469d54444899335"),
    ],
)
def test_it_is_what_it_was(
    tmp_path: Path, values: dict[str, Any], truncated: bool, known: str, more: dict[str, Any]
) -> None:
    assert digest(tmp_path, truncated=truncated, **values, **more) == known


@pytest.mark.parametrize(("name", "value"), EVERY_SETTING.items())
def test_every_setting_that_decides_values_changes_it(tmp_path: Path, name: str, value: Any) -> None:
    assert digest(tmp_path, **{name: value}) != digest(tmp_path)


@pytest.mark.parametrize("other", [{"engine": "torch"}, {"precision": "bfloat16"}])
def test_so_do_engine_and_precision_as_planning_settles_them(tmp_path: Path, other: dict[str, Any]) -> None:
    assert digest(tmp_path, **other) != digest(tmp_path)
    assert digest(tmp_path, engine="openvino", precision="float32") == digest(tmp_path)


def test_tf32_is_of_its_own_and_only_where_a_gpu_was_asked_for(tmp_path: Path) -> None:
    assert digest(tmp_path, device="cuda", precision="tf32") != digest(tmp_path, device="cuda", precision="float32")
    for device in ("auto", "cpu"):
        with pytest.raises(ValidationError, match=naming("precision = 'tf32'", "device = 'cuda'")):
            digest(tmp_path, device=device, precision="tf32")
