"""JSON for scripts: with null for the numbers that JSON has not."""

from __future__ import annotations

import json
import math
from typing import Any


def finite_json(content: Any) -> str:
    """``content`` as JSON; NaN and the infinities are null."""
    return json.dumps(_finite(content), indent=1, ensure_ascii=False, allow_nan=False)


def _finite(content: Any) -> Any:
    """``content`` with None for numbers that JSON has not."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
