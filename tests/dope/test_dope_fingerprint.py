"""What decides the values of dope: stores that were made before still count as up to date."""

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
        ({}, False, "21d0239e494b2c92785e8c01747ae02e32ca8a344501aa2fa7f727725e177195"),
        ({}, True, "e0a2bddef84bb13ab098053941ff799cf2eeb032dc8c754f849ea022c3a4376a"),
        (EVERY_SETTING, False, "c72554d6532f33a773ed016fa1d4e15658c0af6c67d5305a19f7d660be0a14c4"),
        (EVERY_SETTING, True, "748be02b54bf5806c56964559380fa4733635b2d16ac348d16f72c07ff06c79d"),
    ],
)
def test_it_is_what_it_was(
    tmp_path: Path, values: dict[str, Any], truncated: bool, known: str, more: dict[str, Any]
) -> None:
    assert digest(tmp_path, truncated=truncated, **values, **more) == known


@pytest.mark.parametrize(("name", "value"), EVERY_SETTING.items())
def test_every_setting_that_decides_values_changes_it(tmp_path: Path, name: str, value: Any) -> None:
    assert digest(tmp_path, **{name: value}) != digest(tmp_path)
