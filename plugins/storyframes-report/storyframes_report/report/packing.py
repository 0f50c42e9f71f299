"""Numbers as short text in a page: whole numbers, their steps deflated, in Base64; ``assets/report.js`` reads them."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

# At least as many lie between the smallest and the largest value, or what a strip's colours reach from and to.
_LEVELS: dict[str, float] = {"x": 50_000, "base": 1_000_000, "y": 500, "z": 48}
_FINEST_TIMES = 1_000_000  # of bars, whose x are lengths from their base; of curves at most
_MOST_SPANS = 1_000_000  # that values reach beyond a strip's colours: steps are 32 bits
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

    Values are rounded to decimals, as fine as 1/500 of a curve's range, 1/48 of what a strip's colours reach from and
    to, 1/50,000 of their times' and 1/1,000,000 of those of bars, or finer. Times up to 10,000 s are at least as fine
    as the hundredths of a second that tooltips have. Equal arrays are there once.

    Args:
        figure: of ``go.Figure.to_dict``; it is changed.

    Returns:
        It, with a list ``packed``; a trace's array is ``{"packed": number in the list}``.
    """
    packed: dict[str, tuple[int, dict[str, Any]]] = {}
    for trace in figure["data"]:
        for key, levels in _LEVELS.items():
            array = trace.get(key)
            if not isinstance(array, dict) or not array.get("dtype", "").startswith("f"):
                continue
            values = np.frombuffer(base64.b64decode(array["bdata"]), array["dtype"])
            if len(values) < _SMALL:
                continue
            if key == "x":
                hundredths = 99 * _span(values)  # fewer than 100, or rounding might give them a third decimal
                levels = _FINEST_TIMES if trace["type"] == "bar" else min(max(levels, hundredths), _FINEST_TIMES)
            colours = [trace.get("zmin"), trace.get("zmax")] if key == "z" else []
            numbers = pack(values, levels, _span(np.array(colours, np.float64)))
            numbers |= {"shape": array["shape"]} if "shape" in array else {}
            number, _ = packed.setdefault(repr(numbers), (len(packed), numbers))
            trace[key] = {"packed": number}
    return figure | {"packed": [numbers for _, numbers in packed.values()]}


def _span(values: np.ndarray) -> float:
    """From the smallest finite value to the largest; 0 where there is none."""
    exact = np.asarray(values, np.float64)[np.isfinite(values)]
    return float(exact.max() - exact.min()) if len(exact) else 0.0


def pack(values: np.ndarray, levels: float, span: float = 0) -> dict[str, Any]:
    """Values (n,) rounded to decimals; NaN and infinite ones are gaps.

    Args:
        levels: at least as many steps lie in the span.
        span: 0 is from the smallest value to the largest; at least a millionth of that is taken.

    Returns:
        ``decimals``, ``first`` and ``steps``: a value is ``(first + level) / 10 ** decimals``, where the level is the
        sum of the steps so far, and a gap where that is -1. Steps are uint32, twice the step where it is not negative,
        else its complement of that, so that small ones are small; first their lowest bytes.
    """
    finite = np.isfinite(values)
    exact = np.asarray(values, np.float64)[finite]
    low = float(exact.min()) if len(exact) else 0.0
    span = max(span, _span(exact) / _MOST_SPANS) if span else _span(exact)
    decimals = math.ceil(math.log10(levels / (span or abs(low) or 1.0)))
    scale = 10.0**decimals
    first = round(low * scale)
    level = np.full(len(values), -1, np.int64)
    level[finite] = np.round(exact * scale).astype(np.int64) - first
    signed = np.diff(level, prepend=0)
    steps = (2 * signed ^ (signed >> 63)).astype("<u4")
    planes = np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 4).T)
    return {"decimals": decimals, "first": first, "steps": deflate(planes)}
