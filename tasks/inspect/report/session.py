"""What a session's page is made of, beside its curves."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tasks.study.load import Phase


@dataclass(frozen=True)
class Clip:
    """One window with every rating that labels it; seconds and frames, stop exclusive."""

    phase: str
    start_s: float
    stop_s: float
    start_frame: int
    stop_frame: int
    split: str
    ratings: tuple[tuple[str, int], ...]
    face_tracked: float | None
    words: int | None

    @property
    def name(self) -> str:
        return f"{self.phase}, frames {self.start_frame} to {self.stop_frame}"

    @property
    def about(self) -> list[tuple[str, str]]:
        """Terms and texts for a person."""
        lines = [("phase", self.phase), ("time", f"{self.start_s:.2f} s to {self.stop_s:.2f} s")]
        lines.append(("frames", f"{self.start_frame} to {self.stop_frame}"))
        lines.append(("split", self.split))
        if self.ratings:
            lines.append(("ratings", ", ".join(f"{story}: {empathy}" for story, empathy in self.ratings)))
        if self.face_tracked is not None:
            lines.append(("face tracked", f"{self.face_tracked:.1%}"))
        if self.words is not None:
            lines.append(("words", str(self.words)))
        return lines


def session_clips(index: pd.DataFrame) -> list[Clip]:
    """The windows of one session's rows of the clip index."""
    clips = []
    for _, rows in index.groupby(["phase", "start_frame"], sort=False):
        row = rows.iloc[0]
        rated = rows[rows.story_id.notna() & rows.empathy.notna()]
        ratings = tuple(
            (str(story), int(empathy)) for story, empathy in zip(rated.story_id, rated.empathy, strict=True)
        )
        clips.append(
            Clip(
                phase=str(row.phase),
                start_s=float(row.start_s),
                stop_s=float(row.stop_s),
                start_frame=int(row.start_frame),
                stop_frame=int(row.stop_frame),
                split=str(row.split),
                ratings=ratings,
                face_tracked=None if pd.isna(row.face_tracked) else float(row.face_tracked),
                words=None if pd.isna(row.words) else int(row.words),
            )
        )
    return sorted(clips, key=lambda clip: (clip.start_s, clip.phase))


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
