"""Whether the frames of another track are the clips' own, so that the same rows of both are of the same moments.

Two cameras that are triggered together have them; of others, an input has to say on which grid it is wanted.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from storyframes.clips.inputs import ClipInput, ClipSource
from storyframes.clips.window_spec import nominal_rate
from storyframes.features import CLOCK
from storyframes.times import PER_SECOND, ROUNDING, TrackClock, ticks, usual_rate
from storyframes.tracks import of_track


def check_frames_are_the_clips(source: ClipSource, wanted: ClipInput, device: TrackClock) -> None:
    """Refuse an input whose rows are of other moments than those that the clips name.

    Args:
        source: what to read.
        wanted: the input, which has no rate.
        device: the clock of its track.

    Raises:
        ValueError: a frame of a clip begins more than a millisecond from the track's frame of the same number, or
            there is none; the message says which rate to give.
    """
    if wanted.track == source.track:
        return
    rates: Counter[float] = Counter()
    first = ""
    for session, clips in source.clips.groupby("session_id"):
        used = int(clips["start_frame"].min()), int(clips["stop_frame"].max())
        time = source.store.view(session, of_track(CLOCK, wanted.track), array="time")
        rates[nominal_rate(usual_rate(time, 0.0))] += 1
        first = first or _difference(source, session, used, device.to_session(session, time))
    if first:
        rate = round(rates.most_common(1)[0][0], 2)
        raise ValueError(
            f"the frames of the track {wanted.track!r} are not those of the clips ({first}): say how many rows a "
            f"second {wanted.field!r} is wanted with, rate={rate:g} for about its own; each is then the nearest in time"
        )


def _difference(source: ClipSource, session: str, used: tuple[int, int], time: np.ndarray) -> str:
    """The first frame that a clip uses and that is of another moment, or no frame of the track; empty where none is."""
    of_clips = of_track(CLOCK, source.track)
    if not source.store.has(session, of_clips):
        return f"of {session} it is not known when the clips' are"
    start, stop = used
    own_s = source.store.view(session, of_clips, start, stop, array="time")
    own = ticks(source.clock(source.track).to_session(session, own_s))
    theirs = ticks(time[start:stop])
    off = np.abs(own[: len(theirs)] - theirs) > ROUNDING
    if off.any():
        frame = int(np.argmax(off))
        at, there = own[frame] / PER_SECOND, theirs[frame] / PER_SECOND
        return f"frame {start + frame} of {session} is at {at:.3f} s, the track's at {there:.3f} s of the session"
    if len(theirs) < len(own):
        return f"{session} has clips to frame {stop}, and the track {len(time)} frames"
    return ""
