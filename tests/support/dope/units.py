"""The post-processing's unit cases: synthetic inputs and what the original DOPE code makes of them.

tests/data/dope_units.npz is a copy of what reference.npz holds under ``unit/``, so these tests need no shared folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasks.extractors.dope.joints import JOINT_COUNT, Part
from tasks.extractors.dope.network import PartPoses
from tasks.extractors.dope.options import PpiOptions, ppi_options
from tasks.extractors.dope.postprocessing import Candidates, candidates_above

UNITS = Path(__file__).parents[2] / "data" / "dope_units.npz"


@cache
def arrays() -> Mapping[str, np.ndarray]:
    with np.load(UNITS) as archive:
        return dict(archive)


@dataclass(frozen=True)
class UnitCase:
    """One call of PPI."""

    part: Part
    number: int
    kwargs: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.part.value}-{self.number}"

    @property
    def options(self) -> PpiOptions:
        return ppi_options(self.kwargs, self.part, self._input("scores").shape[1] - 1)

    @property
    def candidates(self) -> Candidates:
        poses = PartPoses(*(torch.from_numpy(self._input(name)) for name in ("scores", "pose2d", "pose3d")))
        return candidates_above(poses, torch.from_numpy(self._input("boxes")), self.options.score_th)

    def expected(self, name: str) -> np.ndarray:
        return arrays()[f"unit/J{JOINT_COUNT[self.part]}/{self.number}/{name}"]

    def _input(self, name: str) -> np.ndarray:
        return arrays()[f"unit/J{JOINT_COUNT[self.part]}/{name}"]


def unit_cases() -> list[UnitCase]:
    part_of = {joints: part for part, joints in JOINT_COUNT.items()}
    cases = json.loads(str(arrays()["meta_json"]))["unit_cases"]
    return [UnitCase(part_of[case["J"]], case["case"], case["kwargs"]) for case in cases]
