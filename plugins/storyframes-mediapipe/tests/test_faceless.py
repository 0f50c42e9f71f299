"""A body that never has a face is a caveat of the version, with the share of frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from storyframes_mediapipe.extractor import SPEC
from storyframes_mediapipe.faceless import CAVEAT, SHARE, faceless, note_faceless

from storyframes.store.layout import open_storage
from storyframes.store.publish import FeatureWriter

BODY, BOTH, NONE = (1, 0, 0, 0), (1, 1, 0, 0), (0, 0, 0, 0)


def test_a_body_with_a_face_in_one_of_its_frames_is_somebody() -> None:
    parts = np.array([BODY, BODY, NONE, BODY, BOTH, BODY, NONE, (0, 1, 0, 0), BODY], np.uint8)
    assert np.flatnonzero(faceless(parts)).tolist() == [0, 1, 8]
    assert not faceless(np.zeros((0, 4), np.uint8)).any()


@pytest.mark.parametrize(("rows", "share"), [([BODY, NONE, BOTH, NONE], 0.25), ([BOTH, BODY, BODY, NONE], None)])
def test_the_version_has_the_caveat_and_the_share(
    tmp_path: Path, rows: list[tuple[int, ...]], share: float | None
) -> None:
    """The rows come in blocks, and a region's mask is before it: who is masked has no body."""
    with FeatureWriter(open_storage(tmp_path), "s1", SPEC) as out:
        out.change_rows = lambda name, first, block: block * (np.arange(first, first + len(block)) < 4)[:, None]
        note_faceless(out, 5)
        parts = out.array("parts")
        for block in np.split(np.array([*rows, BODY], np.uint8), [2]):
            parts.append(block)
        assert (CAVEAT in out.caveats) == (share is not None)
        assert out.quality.get(SHARE) == (None if share is None else pytest.approx(share * 4 / 5))
