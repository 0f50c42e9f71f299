"""Numbers as short text in a page: whole numbers, their steps deflated, in Base64; ``assets/report.js`` reads them."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# At least as many lie between the smallest and the largest value; of bars, x are lengths from their base.
_LEVELS = {"x": 50_000, "base": 1_000_000, "y": 500, "z": 48}
_LEVELS_OF_BARS = _LEVELS | {"x": 1_000_000}
_SMALL = 256  # arrays of fewer values stay as they are


def deflate(values: np.ndarray) -> str:
    """The bytes of an array, deflated, in Base64."""
    return base64.b64encode(zlib.compress(values.tobytes(), 9)).decode("ascii")


def deflate_blocks(blocks: Iterable[np.ndarray]) -> str:
    """The same of an array in blocks, of which one is in memory at a time."""
    deflater = zlib.compressobj(6)  # of points over two hours, 9 takes 17 times as long and saves 5 %
    parts = [deflater.compress(block.tobytes()) for block in blocks]
    return base64.b64encode(b"".join([*parts, deflater.flush()])).decode("ascii")


def deflate_json(content: object) -> dict[str, str]:
    """JSON in UTF-8, deflated, in Base64, as ``{"deflated": text}``."""
    deflated = zlib.compress(json.dumps(content, allow_nan=False).encode(), 9)
    return {"deflated": base64.b64encode(deflated).decode("ascii")}


def pack_figure(figure: dict[str, Any]) -> dict[str, Any]:
    """Plotly's figure with the large arrays of its curves and strips packed.

    Values are rounded to decimals, as fine as 1/500 of a curve's range, 1/48 of a strip's, 1/50,000 of their times'
    and 1/1,000,000 of those of bars, or finer. Equal arrays are there once.

    Args:
        figure: of ``go.Figure.to_dict``; it is changed.

    Returns:
        It, with a list ``packed``; a trace's array is ``{"packed": number in the list}``.
    """
    packed: dict[str, tuple[int, dict[str, Any]]] = {}
    for trace in figure["data"]:
        for key, levels in (_LEVELS_OF_BARS if trace["type"] == "bar" else _LEVELS).items():
            array = trace.get(key)
            if not isinstance(array, dict) or not array.get("dtype", "").startswith("f"):
                continue
            values = np.frombuffer(base64.b64decode(array["bdata"]), array["dtype"])
            if len(values) < _SMALL:
                continue
            multiples = (5, 2, 1) if key == "z" else (1,)
            numbers = pack(values, levels, multiples) | ({"shape": array["shape"]} if "shape" in array else {})
            number, _ = packed.setdefault(repr(numbers), (len(packed), numbers))
            trace[key] = {"packed": number}
    return figure | {"packed": [numbers for _, numbers in packed.values()]}


def pack(values: np.ndarray, levels: int, multiples: Sequence[int] = (1,)) -> dict[str, Any]:
    """Values (n,) rounded to multiples of a decimal; NaN and infinite ones are gaps.

    Args:
        levels: at least as many steps lie between the smallest and the largest value.
        multiples: of the decimal, the coarsest first: the first with so many levels is taken, else the last.

    Returns:
        ``decimals``, ``multiple``, ``first`` and ``steps``: a value is ``(first + level) * multiple / 10 ** decimals``,
        where the level is the sum of the steps so far, and a gap where that is -1. Steps are uint32, twice the step
        where it is not negative, else its complement of that, so that small ones are small; first their lowest bytes.
    """
    finite = np.isfinite(values)
    exact = np.asarray(values, np.float64)[finite]
    low, high = (float(exact.min()), float(exact.max())) if len(exact) else (0.0, 0.0)
    span = high - low or abs(high) or 1.0
    decimals = math.ceil(math.log10(levels / span))
    multiple = next((each for each in multiples if span * 10.0**decimals >= each * levels), multiples[-1])
    scale = 10.0**decimals / multiple
    first = round(low * scale)
    level = np.full(len(values), -1, np.int64)
    level[finite] = np.round(exact * scale).astype(np.int64) - first
    signed = np.diff(level, prepend=0)
    steps = (2 * signed ^ (signed >> 63)).astype("<u4")
    planes = np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 4).T)
    return {"decimals": decimals, "multiple": multiple, "first": first, "steps": deflate(planes)}
