"""Rows for frames are as many as the session has frames, whoever wrote them, or nothing is published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.media.recordings import write_recording
from support.messages import missing
from support.studies import extract_session, make_study

from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store.records import Status
from tasks.extractors import registry
from tasks.extractors.base import Extractor

FRAMES = 12


class Counting(Extractor):
    """Reads the video by itself, and may count one frame more or less than the session's clock."""

    spec = FeatureSpec(
        "counting",
        "",
        {
            "values": ArraySpec(Axis.FRAME, "int64", "the frame's number", fill=0),
            "heard": ArraySpec(Axis.UTTERANCE, "int64", "of another length", fill=0),
        },
    )
    version = 1
    frames = FRAMES

    def extract(self, source, out) -> None:
        out.write("values", np.arange(self.frames))
        out.write("heard", np.arange(3))


@pytest.mark.parametrize("frames", [0, FRAMES - 1, FRAMES, FRAMES + 1])
@pytest.mark.parametrize("after", [("frames",), ()])
def test_another_number_of_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: int, after: tuple[str, ...]
) -> None:
    study = make_study(tmp_path / "study", video="v.avi")
    write_recording(study / "v.avi", FRAMES)
    monkeypatch.setattr(registry, "_plug_ins", lambda: ((Counting,), {}))
    monkeypatch.setattr(Counting, "frames", frames)
    monkeypatch.setattr(Counting, "after", after)
    extract_session(study, tmp_path / "features", "frames")
    store, outcomes = extract_session(study, tmp_path / "features", "counting")
    if frames == FRAMES:
        assert outcomes["counting"].status is Status.DONE
        np.testing.assert_array_equal(store.read("s", "counting"), np.arange(FRAMES))
        return
    assert outcomes["counting"].status is Status.FAILED
    assert not missing(outcomes["counting"].reason, f"{frames} rows", f"{FRAMES} frames")
    assert "counting" not in store.features("s")
