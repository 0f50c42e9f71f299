"""How clips are cut: the section ``[clips]`` of a configuration, and what :mod:`storyframes.clips.windows` is given."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar


@dataclass(frozen=True)
class WindowSpec:
    """How clips are cut.

    Attributes:
        window: frames of a clip (120: 8 s at 15 fps).
        stride: frames from one clip's start to the next one's (15: 1 s at 15 fps).
        fps: frames per second assumed where a session's true frame times are not known.
        phases: the phases that give clips; None takes all.
        split_shares: shares of the participants in train, val and test.
        split_seed: seeds the assignment of participants to splits.

    Raises:
        ValueError: a value breaks a rule; every one that does is named.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}  # pydantic reads [clips] into this class

    window: int = 120
    stride: int = 15
    fps: float = 15.0
    phases: tuple[str, ...] | None = None
    split_shares: tuple[float, float, float] = (0.7, 0.2, 0.1)
    split_seed: int = 0

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise ValueError("; ".join(faults))

    def _faults(self) -> Iterator[str]:
        for name in ("window", "stride"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                yield f"{name} = {value!r}: a whole number of frames, at least 1"
        if not 0 < self.fps < math.inf:
            yield f"fps = {self.fps!r}: more than 0 frames per second"
        if isinstance(self.phases, str):
            yield f"phases = {self.phases!r}: a list of phases, also of one"
        if len(self.split_shares) != 3 or not all(0 <= share < math.inf for share in self.split_shares):
            yield f"split_shares = {list(self.split_shares)}: three shares, of train, val and test, none negative"
        elif sum(self.split_shares) <= 0:
            yield f"split_shares = {list(self.split_shares)}: not all of them zero"
