"""What a notebook shows of each public class says what it is, in a few lines."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import local
from support.synthetic_features import StudySpec, write_features

import storyframes
from storyframes.clips.window_spec import WindowSpec
from storyframes.one_file import ExtractedFile
from storyframes.speaking import Attribution, Speech
from storyframes.store import record_status
from storyframes.store.publish import record_attempt
from storyframes.store.records import Status


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, str]]:
    """Of each class an object, and what is to be read of it."""
    root: Path = write_features(tmp_path_factory.mktemp("study") / "features", StudySpec(sessions=10)).root
    record_attempt(local(root), "s01", "openface", Status.FAILED, "the tool died", "")
    store = storyframes.FeatureStore(root)
    dataset = storyframes.ClipDataset(store, [storyframes.ClipInput("openface", ["gaze"]), "words", "label"])
    train = storyframes.ClipDataset(store, ["label"], "split == 'train'")
    done, failed = (
        next(entry for entry in record_status.scan(store.storage, session) if entry.feature == "openface")
        for session in ("s00", "s01")
    )
    objects = [
        (store, f"{root}: 10 sessions"),
        (store, "openface: 10 sessions"),
        (store, "stories: sbert"),
        (
            store.session("s00"),
            "openface/values: ArraySpec(frame x 714 column, float32, columns frame face_id timestamp …",
        ),
        (store.spec("s00", "openface"), "mask: valid"),
        (store.spec("s00", "openface"), "groups: bookkeeping, gaze"),
        (store.spec("s00", "opensmile").arrays["time"], "ArraySpec(audio_frame, float64, s)"),
        (dataset, f"240 clips of 10 sessions in {root}, of ClipInput('openface', ['gaze']), ClipInput('words')"),
        (dataset, "openface: (13, 8) float32"),
        (
            storyframes.ClipDataset(store, ["label"], split=storyframes.SplitSpec(3, (0.5, 0.3, 0.2))),
            "split anew: SplitSpec(seed=3, shares=(0.5, 0.3, 0.2))",
        ),
        (storyframes.SplitSpec(), "SplitSpec(seed=0, shares=(0.7, 0.2, 0.1))"),
        (dataset.fields["openface"], "Field((13, 8), float32, columns gaze_0_x"),
        (storyframes.ClipInput("audio", axis="frame"), "ClipInput('audio', axis='frame')"),
        (
            storyframes.ClipLoader(dataset, 10),
            "24 batches of 10 of 240 clips for cpu, 2 threads; SequentialSampler(seed=0",
        ),
        (storyframes.SequentialSampler(dataset), "rank 0, epoch 0, 0 of 240 given"),
        (storyframes.UniformSampler(dataset, seed=7), "UniformSampler(seed=7, world_size=1, total=240)"),
        (storyframes.SessionBlockSampler(dataset, block=6), "block=6"),
        (storyframes.OversamplingSampler(train), "OversamplingSampler(seed=0"),
        (done, "FeatureStatus(s00/openface: done, Current(s00/openface/20"),
        (done.record, "values (60, 714) float32, valid (60,) uint8"),
        (failed, "FeatureStatus(s01/openface: failed (the tool died), Current("),
        (
            ExtractedFile(store, "s00", "talk.avi", ["openface"], ["frames", "openface"], {"dope": "no model"}),
            "ExtractedFile talk.avi: openface\n  frames/time: ArraySpec(frame, float64, s)",
        ),
        (WindowSpec(), "window=120"),
        (store.storage, str(root)),
        (storyframes.Clock("lapel", (0.0, 9.0), (2.0, 11.0)), "session_s=(2.0, 11.0)"),
        (Speech(np.zeros(1), np.ones(1)), "probability=array([1.])"),
        (Attribution("anna", 0.98), "Attribution(track='anna', probability=0.98)"),
        (storyframes.CurveRule(longest_gap_s=2.0), "longest_gap_s=2.0"),
        (storyframes.Derivation(store.spec("s00", "openface"), ("frames",)), "features=('frames',)"),
        (storyframes.ColumnTable(("pitch", "yaw")), "ColumnTable(pitch yaw)"),
    ]
    return {f"{type(one).__name__} {number}": (one, text) for number, (one, text) in enumerate(objects)}


def test_it_says_what_it_is(shown) -> None:
    for name, (one, text) in shown.items():
        assert text in repr(one), f"{name}: {one!r}"
        assert " object at 0x" not in repr(one)
        assert len(repr(one)) < 3_000, name


def test_every_public_class_is_among_them(shown) -> None:
    public = [getattr(storyframes, name) for name in storyframes.__all__]
    classes = {one for one in public if inspect.isclass(one) and not inspect.isabstract(one)}
    concrete = {one for one in classes if not issubclass(one, Exception)}
    of_no_data = {storyframes.Axis, storyframes.FeatureName, storyframes.PlugIns}
    assert concrete - of_no_data <= {type(one) for one, _ in shown.values()}
