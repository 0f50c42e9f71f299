"""What a session's page is made of, beside its curves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from storyframes.tracks import MAIN
from tasks.inspect.report.label_facts import value_text
from tasks.study.load import Phase


@dataclass(frozen=True)
class Clip:
    """One window with everything that labels it; seconds and frames, stop exclusive.

    Attributes:
        track: whose frames these are.
        labels: of each column of labels that has a value here, its name, and the value; where it is about something (a
            story), for each of these.
    """

    phase: str
    start_s: float
    stop_s: float
    start_frame: int
    stop_frame: int
    split: str
    labels: tuple[tuple[str, str], ...]
    face_tracked: float | None
    words: int | None
    track: str = MAIN

    @property
    def name(self) -> str:
        return f"{self.phase}, frames {self.frames}"

    @property
    def frames(self) -> str:
        whose = "" if self.track == MAIN else f" of {self.track}"
        return f"{self.start_frame} to {self.stop_frame}{whose}"

    @property
    def about(self) -> list[tuple[str, str]]:
        """Terms and texts for a person."""
        lines = [("phase", self.phase), ("time", f"{self.start_s:.2f} s to {self.stop_s:.2f} s")]
        lines.append(("frames", self.frames))
        lines.append(("split", self.split))
        lines += self.labels
        if self.face_tracked is not None:
            lines.append(("face tracked", f"{self.face_tracked:.1%}"))
        if self.words is not None:
            lines.append(("words", str(self.words)))
        return lines


def session_clips(index: pd.DataFrame, schemes: Iterable[str], track: str = MAIN) -> list[Clip]:
    """The windows of one session's rows of the clip index.

    Args:
        index: the rows.
        schemes: the columns of labels that the index has.
        track: whose frames were cut into clips.
    """
    columns = [name for name in schemes if name in index]
    clips = []
    for _, rows in index.groupby(["phase", "start_frame"], sort=False):
        row = rows.iloc[0]
        labels = [(name, _label(rows, name)) for name in columns]
        clips.append(
            Clip(
                phase=str(row.phase),
                start_s=float(row.start_s),
                stop_s=float(row.stop_s),
                start_frame=int(row.start_frame),
                stop_frame=int(row.stop_frame),
                split=str(row.split),
                labels=tuple((name, text) for name, text in labels if text),
                face_tracked=None if pd.isna(row.face_tracked) else float(row.face_tracked),
                words=None if pd.isna(row.words) else int(row.words),
                track=track,
            )
        )
    return sorted(clips, key=lambda clip: (clip.start_s, clip.phase))


def _label(rows: pd.DataFrame, column: str) -> str:
    """What a window is labelled in a column: ``st-garden: 4, st-mother: 2``, or ``high``; empty where it is not."""
    said = rows[rows[column].notna()]
    targets = said["target"] if "target" in said else said["story_id"]  # format 1 had no target
    texts = [value_text(value) for value in said[column]]
    return ", ".join(
        text if pd.isna(target) else f"{target}: {text}" for target, text in zip(targets, texts, strict=True)
    )


@dataclass(frozen=True)
class Spoken:
    """One utterance with its text: only on pages that were asked for it."""

    speaker: str
    start_s: float
    end_s: float
    text: str


@dataclass(frozen=True)
class Timetable:
    """What the study's tables say about a session: its phases in order, and the windows inside them."""

    phases: tuple[Phase, ...] = ()
    clips: tuple[Clip, ...] = ()
    spoken: tuple[Spoken, ...] = ()
