"""Praat's TextGrid in its long text form: seconds with six decimals, so whole microseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from storyframes_release.annotations.tiers import Span, Tier, apart


def write_textgrid(path: Path, tiers: Sequence[Tier], _media: str) -> None:
    """Write the tiers of one recording; a TextGrid does not name it."""
    written = [made for tier in tiers for made in apart(tier)]
    end = max((span.end for tier in written for span in tier.spans), default=0)
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        "xmin = 0",
        f"xmax = {_seconds(end)}",
        "tiers? <exists>",
        f"size = {len(written)}",
        "item []:",
    ]
    for number, tier in enumerate(written, start=1):
        is_points = all(span.start == span.end for span in tier.spans)
        spans = tier.spans if is_points else tuple(_without_gaps(tier.spans, end))
        kind = "points" if is_points else "intervals"
        lines += [
            f"    item [{number}]:",
            f'        class = "{"TextTier" if is_points else "IntervalTier"}"',
            f"        name = {_quoted(tier.name)}",
            "        xmin = 0",
            f"        xmax = {_seconds(end)}",
            f"        {kind}: size = {len(spans)}",
        ]
        for index, span in enumerate(spans, start=1):
            lines.append(f"        {kind} [{index}]:")
            if is_points:
                lines += [f"            number = {_seconds(span.start)}", f"            mark = {_quoted(span.text)}"]
            else:
                lines += [
                    f"            xmin = {_seconds(span.start)}",
                    f"            xmax = {_seconds(span.end)}",
                    f"            text = {_quoted(span.text)}",
                ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _without_gaps(spans: Sequence[Span], end: int) -> Iterator[Span]:
    """The intervals from 0 to ``end`` without a gap: what has no annotation is an interval without text."""
    last = 0
    for span in spans:
        if last < span.start:
            yield Span(last, span.start, "")
        yield span
        last = span.end
    if last < end:
        yield Span(last, end, "")


def _seconds(time: int) -> str:
    return f"{time // 1_000_000}.{time % 1_000_000:06d}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
