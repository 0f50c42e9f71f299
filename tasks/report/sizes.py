"""Bytes for a person."""

from __future__ import annotations


def human_bytes(count: float) -> str:
    """``count`` bytes for a person."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
