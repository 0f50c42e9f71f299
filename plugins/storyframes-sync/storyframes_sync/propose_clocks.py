"""The clocks of a study's tracks, measured by their sound."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from storyframes import MAIN
from storyframes_sync.match_sound import Match, SyncError, match_sound
from storyframes_sync.write_clocks import MeasuredClock
from tasks.media import RecordingError, SoundBands, StreamChoice, read_header
from tasks.study import Study, StudyError, Track, UnusableFileError, read_study

_IN_TIME_S = 0.01  # three metres of air between two microphones


class Outcome(StrEnum):
    """What came of one clock."""

    MEASURED = "measured"
    IN_TIME = "in time"  # the track has no clock and needs none
    KEPT = "kept"  # has rows already, and was not measured
    REFUSED = "refused"


@dataclass(frozen=True)
class Proposal:
    """One clock of a session."""

    # session_id, track, clock: which; a track without a clock gets one of its own name
    session_id: str
    track: str
    clock: str
    outcome: Outcome  # what came of it
    match: Match | None = None  # what was measured; None where nothing could be, or was
    reason: str = ""  # why it was refused; else empty

    @property
    def measured(self) -> MeasuredClock:
        """The rows that it makes.

        Raises:
            ValueError: none were measured.
        """
        if self.match is None:
            raise ValueError(f"the clock of {self.session_id}, {self.track} was not measured")
        match = self.match
        moments = match.device_s, match.session_s
        return MeasuredClock(self.session_id, self.track, self.clock, *moments, error_s=match.error_ms / 1000)


def read_unsynchronised(root: Path) -> Study:
    """The study at ``root``, whose tracks may name clocks that have no rows yet.

    Raises:
        StudyError: anything else is wrong with its tables.
    """
    reading = read_study(root)
    wrong = [problem for problem in reading.problems if (problem.table, problem.kind) != ("tracks", "unknown clock")]
    if wrong:
        raise StudyError(root, wrong)
    return reading.study


def propose_clocks(
    study: Study,
    session_ids: Collection[str],
    *,
    replace: bool = False,
    streams: StreamChoice = StreamChoice.FIRST,
    progress: Callable[[str], None] = lambda _: None,
    damaged: Callable[[str, int], None] = lambda *_: None,
) -> Iterator[Proposal]:
    """The clocks of these sessions, one after the other; what is wrong with one of them costs the others nothing.

    Args:
        study: from :func:`read_unsynchronised`.
        replace: measure clocks as well that have rows already.
        streams: which picture and which sound of files that have several.
        damaged: called with (a recording's path in the study, packets of its sound that do not decode).
    """

    def listen(track: Track) -> SoundBands | str:
        progress(f"{track.session_id}, {track.name}")
        heard = _sound(study, track, streams)
        if isinstance(heard, SoundBands) and heard.damaged:
            damaged(track.audio or track.video or "", heard.damaged)
        return heard

    for session_id in session_ids:
        own: SoundBands | str | None = None
        for clock, tracks in _clocks(study, session_id).items():
            if clock in study.clocks.get(session_id, {}) and not replace:
                yield Proposal(session_id, tracks[0].name, clock, Outcome.KEPT)
                continue
            if own is None:
                own = listen(study.tracks[session_id][MAIN])
            for track in tracks:  # devices that share a clock: the first whose sound matches
                proposal = _propose(own, track, clock, listen)
                if proposal.outcome is not Outcome.REFUSED:
                    break
            yield proposal


def _clocks(study: Study, session_id: str) -> dict[str, list[Track]]:
    """The tracks by their clock, without the session's own files and regions, which have another track's clock."""
    tracks = [track for name, track in study.tracks.get(session_id, {}).items() if name != MAIN and not track.of]
    named = {track.clock for track in tracks} | {*study.clocks.get(session_id, {})}
    clocks: dict[str, list[Track]] = {}
    for track in tracks:
        own = track.name if track.name not in named else f"{track.name}-clock"
        clocks.setdefault(track.clock or own, []).append(track)
    return clocks


def _propose(own: SoundBands | str, track: Track, clock: str, listen: Callable[[Track], SoundBands | str]) -> Proposal:
    def refused(reason: str) -> Proposal:
        return Proposal(track.session_id, track.name, clock, Outcome.REFUSED, reason=reason)

    if isinstance(own, str):
        return refused(f"the session's own files: {own}")
    sound = listen(track)
    if isinstance(sound, str):
        return refused(sound)
    try:
        match = match_sound(own, sound)
    except SyncError as error:
        return refused(str(error))
    is_in_time = track.clock is None and all(
        abs(there - here) <= _IN_TIME_S for here, there in zip(match.device_s, match.session_s, strict=True)
    )
    outcome = Outcome.IN_TIME if is_in_time else Outcome.MEASURED
    return Proposal(track.session_id, track.name, clock, outcome, match)


def _sound(study: Study, track: Track, streams: StreamChoice) -> SoundBands | str:
    """A track's sound, as the extractors take it: its own file, else the video's; or why there is none."""
    try:
        if track.audio:
            return SoundBands.read(study.path(track.audio), None, streams=streams)
        if track.video:
            video = study.path(track.video)
            return SoundBands.read(video, read_header(video, streams).start_s, streams=streams)
    except (RecordingError, UnusableFileError) as error:
        return str(error)
    except OSError as error:
        return f"{track.audio or track.video}: cannot be read: {error.strerror or error}"
    return "names no audio and no video, so there is no sound"


def clocks_to_write(proposals: Sequence[Proposal]) -> list[MeasuredClock]:
    """Those of the proposals that are rows of tables."""
    return [proposal.measured for proposal in proposals if proposal.outcome is Outcome.MEASURED]
