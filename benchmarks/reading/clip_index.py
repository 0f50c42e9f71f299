"""The clip index at the paper's scale, beside the loop over windows that one would write first."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from support.clip_indexes import build_index

from benchmarks.measure import interleave
from storyframes.clips.splits import assign_splits
from storyframes.clips.window_spec import WindowSpec

SESSIONS, PARTICIPANTS, SHARE_WINDOWS, REFLECTION_WINDOWS = 269, 41, 33_119, 28_235


def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Sessions, phases and ratings of a study whose phases hold the paper's numbers of windows."""
    spec = WindowSpec()
    sessions, phases, ratings = [], [], []
    for number in range(SESSIONS):
        session_id, clock = f"s{number:03d}", 0
        sessions.append((session_id, f"p{number % PARTICIPANTS:02d}"))
        for phase, total in (("story_share", SHARE_WINDOWS), ("reflection", REFLECTION_WINDOWS)):
            windows = total // SESSIONS + (number < total % SESSIONS)
            frames = spec.window + spec.stride * (windows - 1)
            phases.append((session_id, phase, clock / spec.fps, (clock + frames) / spec.fps))
            clock += frames
        ratings += [(session_id, f"story{position}", position, 1 + number % 5) for position in (1, 2, 3)]
    return (
        pd.DataFrame(sessions, columns=["session_id", "participant_id"]),
        pd.DataFrame(phases, columns=["session_id", "phase", "start_s", "end_s"]),
        pd.DataFrame(ratings, columns=["session_id", "story_id", "position", "empathy"]),
    )


def plain_loop(sessions: pd.DataFrame, phases: pd.DataFrame, ratings: pd.DataFrame) -> pd.DataFrame:
    """The same rows, one at a time."""
    spec = WindowSpec()
    participant = dict(sessions.itertuples(index=False))
    splits = assign_splits(list(participant.values()), spec)
    by_session = {session_id: group.to_dict("records") for session_id, group in ratings.groupby("session_id")}
    rows = []
    for phase in phases.to_dict("records"):
        first, stop = round(phase["start_s"] * spec.fps), round(phase["end_s"] * spec.fps)
        for start in range(first, stop - spec.window + 1, spec.stride):
            for rating in by_session[phase["session_id"]]:
                person = participant[phase["session_id"]]
                rows.append(
                    {
                        "clip_id": f"{phase['session_id']}:{phase['phase']}:{start:06d}:{rating['position']}",
                        **rating,
                        "phase": phase["phase"],
                        "participant_id": person,
                        "split": splits[person],
                        "start_frame": start,
                        "stop_frame": start + spec.window,
                    }
                )
    return pd.DataFrame(rows).sort_values(["session_id", "phase", "start_frame", "position"], ignore_index=True)


def main() -> None:
    study = tables()
    ours, theirs = build_index(*study, WindowSpec()), plain_loop(*study)
    assert len(ours) == len(theirs) == 184_062
    assert (ours["clip_id"] == theirs["clip_id"]).all()
    measured = interleave(
        {"build_index": lambda: build_index(*study, WindowSpec()), "plain loop": lambda: plain_loop(*study)}
    )
    print(f"clip index of {SESSIONS} sessions, {len(ours)} rows (median of 5, interleaved)")
    for name, result in measured.items():
        ratio = measured["plain loop"].cpu_s / result.cpu_s
        print(f"  {name:<12} {result.cpu_s:6.2f} CPU-s {result.wall_s:6.2f} s  {ratio:5.2f} x the plain loop's speed")


if __name__ == "__main__":
    main()
