"""What a page of a report carries for its script, read as the script reads it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

import numpy as np


def page_data(page: str, key: str) -> Any:
    """The JSON of the element with the id ``key``; of a figure with its arrays, of clips inflated."""
    match = re.search(rf'<script type="application/json" id="{key}">(.*?)</script>', page, re.DOTALL)
    assert match, f"the page has no {key}"
    content = json.loads(match[1])
    if isinstance(content, dict) and "deflated" in content:
        return json.loads(_inflated(content["deflated"]))
    if isinstance(content, dict) and "packed" in content:
        arrays = [_numbers(**one) for one in content.pop("packed")]
        for trace in content["data"]:
            if "words" in (trace.get("meta") or ()):
                trace["meta"]["words"] = json.loads(_inflated(trace["meta"]["words"]["deflated"]))
            for name, array in trace.items():
                if isinstance(array, dict) and "packed" in array:
                    trace[name] = arrays[array["packed"]]
    return content


def _inflated(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def _numbers(decimals: int, first: int, steps: str, shape: str = "") -> np.ndarray:
    planes = np.frombuffer(_inflated(steps), np.uint8).reshape(4, -1)
    coded = np.ascontiguousarray(planes.T).view("<u4").ravel().astype(np.int64)
    levels = np.cumsum((coded >> 1) ^ -(coded & 1), dtype=np.int64)
    values = np.where(levels < 0, np.nan, (first + levels) / 10.0**decimals)
    return values.reshape([int(size) for size in shape.split(",")]) if shape else values
