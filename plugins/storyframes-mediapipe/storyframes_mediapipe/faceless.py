"""Bodies that never have a face: what MediaPipe takes for a body may be a title card or a cloud.

A person who turns away has a face before or after; what is a body from its first frame to its last without a face is
probably nobody. Its rows are stored as they are, and the version has a caveat.
"""

from __future__ import annotations

import numpy as np

from storyframes.store import FeatureWriter

CAVEAT = "bodies that never have a face"
SHARE = "body_without_face"
"""The name of the share of frames in the version's quality."""


def faceless(parts: np.ndarray) -> np.ndarray:
    """The frames (T,) bool with a body that has no face from its first frame to its last.

    Args:
        parts: (T, 4), the array ``parts``.
    """
    body, face = parts[:, 0] == 1, parts[:, 1] == 1
    life = np.cumsum(np.diff(body, prepend=False) != 0)  # odd: of a body, even: between two
    has_face = np.bincount(life, weights=face & body) > 0
    return body & ~has_face[life]


def note_faceless(out: FeatureWriter, frames: int) -> None:
    """Give the version the caveat and the share of frames, once its rows are written.

    Args:
        frames: how many rows there will be.
    """
    before, written = out.change_rows, list[np.ndarray]()

    def change(name: str, first: int, rows: np.ndarray) -> np.ndarray:
        rows = before(name, first, rows) if before else rows
        if name == "parts":
            written.append(np.array(rows))
            if first + len(rows) == frames and (share := float(faceless(np.concatenate(written)).mean())):
                out.caveat(CAVEAT)
                out.quality[SHARE] = share
        return rows

    out.change_rows = change
