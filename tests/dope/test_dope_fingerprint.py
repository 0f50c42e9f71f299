"""What decides the values of dope: stores that were made with this version still count as up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
        ({}, False, "fdee995157b7905c013232dbb5713efe6e0ce973b920da46710aedae65bdf1b7"),
        ({}, True, "249b25793162a6d1d13dce45b626190e9f98aa428299b6edeeecb5edf788e2b4"),
        (EVERY_SETTING, False, "91284bc682285d5d7ca61158f168a6a9357568ac52d05047d3949b58cfeb5216"),
        (EVERY_SETTING, True, "624a5d7b63c45110007c99b855452f07ffcf6f513f2cfd09e61a246e01f5f5f3"),
    ],
)
def test_it_is_what_it_was(
    tmp_path: Path, values: dict[str, Any], truncated: bool, known: str, more: dict[str, Any]
) -> None:
    assert digest(tmp_path, truncated=truncated, **values, **more) == known


@pytest.mark.parametrize(("name", "value"), EVERY_SETTING.items())
def test_every_setting_that_decides_values_changes_it(tmp_path: Path, name: str, value: Any) -> None:
    assert digest(tmp_path, **{name: value}) != digest(tmp_path)
