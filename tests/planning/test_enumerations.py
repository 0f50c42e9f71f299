"""A choice given by its name is that choice, and a name that there is not is an error: never silently the default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storyframes.clips.inputs import ClipInput
from storyframes.features import FEATURES, Axis
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Attempt, Status
from storyframes.store.shards import Compression, ShardWriter
from storyframes.store.storage.local_folder import LocalStorage
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.options import GroupingRule, PpiOptions
from tasks.extractors.dope.settings import DopeSettings, PostProcessing
from tasks.extractors.image.preprocessing import ExactCropper, FastCropper, cropper_class
from tasks.extractors.settings import Precision


def _attempt(root: Path, status: Any) -> Status:
    record_attempt(LocalStorage(root), "a", "frames", status, "why", "")
    attempt = Attempt.parse((root / "a/frames/attempt.json").read_bytes(), "attempt.json")
    assert attempt is not None
    return attempt.status


CHOICES: list[tuple[str, Callable[[Path, Any], Any], Any]] = [
    ("nms", lambda _, name: DopeSettings(post_processing=name).post_processing, PostProcessing.NMS),
    ("hand", lambda _, name: PpiOptions(name, 5, 0.5).part, Part.HAND),
    ("torso", lambda _, name: PpiOptions(Part.BODY, 5, 0.5, rule=name).rule, GroupingRule.TORSO),
    ("frame", lambda _, name: ClipInput("words", axis=name).axis, Axis.FRAME),
    ("zstd", lambda root, name: ShardWriter(root / "x", (1,), "f4", 0, name).compression, Compression.ZSTD),
    (
        "zstd",
        lambda root, name: FeatureWriter(LocalStorage(root), "a", FEATURES["frames"], name).compression,
        Compression.ZSTD,
    ),
    ("missing", _attempt, Status.MISSING),
]  # fmt: skip


@pytest.mark.parametrize(("name", "made", "choice"), CHOICES)
def test_a_name_is_the_choice(store_root: Path, name: str, made: Callable[[Path, Any], Any], choice: Any) -> None:
    assert made(store_root, name) is choice
    with pytest.raises(ValueError, match="nonsense"):
        made(store_root, "nonsense")


@pytest.mark.parametrize(("name", "kind"), [("float32", ExactCropper), ("float16", FastCropper)])
def test_the_network_s_crops_follow_a_precision_s_name(name: Any, kind: type) -> None:
    assert cropper_class(name) is kind
    assert cropper_class(Precision(name)) is kind
