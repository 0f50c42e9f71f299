"""Checking a study: its tables, and every file that they name, opened but not decoded to the end.

This finds what headers, transcripts and the ends of tables show, before a night of extraction. Damage that only
decoding shows (a frame in the middle) is found by the extraction.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import MappingProxyType

import numpy as np

from storyframes.plug_ins import CHECK, PlugInError, describe_error, installed_plug_ins, load_plug_in, origin
from storyframes.spec import MAIN
from storyframes.store.storage import reason_of
from storyframes.times import usual_rate
from tasks.clip_index.label_rules import LabelRule, label_rule_faults
from tasks.clip_index.labels import sessions_of_several_persons
from tasks.clip_index.shared_recordings import find_shared_recordings
from tasks.extractors.base import Input
from tasks.extractors.openface.csv_output import LastRow, OpenFaceOutputError, last_frame_and_rows, peek_openface_csv
from tasks.extractors.openface.several_faces import count_faces, has_several_faces, is_of_one_lost_face
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.extractors.text.speech import SLACK_S
from tasks.inspect.formatting import counted
from tasks.media.container import (
    RecordingError,
    StreamChoice,
    chosen_video,
    file_names,
    open_container,
    recording_files,
)
from tasks.media.sound import read_audio, sound_length_s
from tasks.media.streams import stream_remarks
from tasks.media.video_header import VideoHeader, first_packet_times, length_s, read_header
from tasks.study.boxes import Boxes, BoxesError, in_words
from tasks.study.curves import SPARSE, CurveError, CurveSamples, unlabelled_share
from tasks.study.load import NamedFile, NamedPart, Problem, Study, StudyFileError, in_order, read_study
from tasks.study.rows import fixed_box
from tasks.study.transcript import TranscriptError, read_transcript

_CURVE = "path"  # the column of the table curves, which no extractor reads: the study's labels come from it
UNEVEN = 0.25
"""A frame rate varies where the standard deviation of the steps between frames is above this share of their mean."""
_FEWEST_STEPS = 10
_SAME_RATE = 0.02
_ALWAYS_S = 1e6  # later than any recording's end
_ANY_RATE = 16_000  # samples a second for decoding the beginning of the sound
# A container may count frames that do not decode. A table with fewer rows than this share belongs to another recording.
_FEWER = 0.9
_SAME_TIME, _SAME_TIME_S = 0.005, 0.1  # by which OpenFace's last timestamp may differ from the video's
_OLDER_S = 3600.0  # files that are copied together have times that are nearer than this


def check_study(
    root: Path,
    settings: ExtractorsSettings,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    rules: Mapping[str, LabelRule] = MappingProxyType({}),
) -> tuple[Study, list[Problem]]:
    """The study at ``root`` as far as it is right, and everything that is wrong with its tables and files.

    Args:
        root: the study's folder.
        settings: of all extractors; recordings and tables that none of them reads are not looked at.
        progress: called with (session_id, number, how many) before each session's files.
        rules: by scheme, what its curves have between their moments.
    """
    reading = read_study(root, recordings=settings.recording.root)
    problems = [*reading.problems, *reading.session_problems]
    try:
        reading.study.require_recordings()
    except StudyFileError as error:
        problems.append(Problem("study", None, "", "", str(error), is_of_file=True))
    remarks = [*reading.study.remarks]
    lengths_s: dict[tuple[str, str], float] = {}
    rates: Counter[str] = Counter()
    for number, files in enumerate(reading.files, start=1):
        progress(files[0].session_id if files else "", number, len(reading.files))
        problems += _check_session(reading.study, files, settings, rules, remarks, lengths_s, rates)
    if len(rates) > 1:
        (most, count), *others = rates.most_common()
        counts = [
            f"{most} a second in {counted(count, 'recording')}",
            *(f"{each} a second in {n}" for each, n in others),
        ]
        remarks.append(
            f"sessions: recordings of different frame rates: {', '.join(counts)}: windows in seconds (window_s, "
            "stride_s) are as long in all of them, and an input's rate gives it as many rows"
        )
    problems += _parts_beyond_the_end(reading.parts, lengths_s)
    problems += _apart_from_the_session(reading.files, reading.study, lengths_s)
    problems += _shared_recordings(reading.files, reading.study, remarks)
    remarks += _overlapping_regions(reading.study)
    remarks += _plug_in_remarks(reading.study)
    return replace(reading.study, remarks=tuple(remarks)), in_order(problems)


def _plug_in_remarks(study: Study) -> Iterator[str]:
    """The remarks of plug-ins about files of theirs, each asked through its entry point ``storyframes.check``."""
    for point in installed_plug_ins(CHECK):
        try:
            yield from load_plug_in(point)(study)
        except PlugInError as error:
            yield f"{origin(point)}: {error}"
        except Exception as error:
            yield f"{origin(point)} cannot check its files ({describe_error(error)})"


def label_problems(study: Study, rules: Mapping[str, LabelRule], problems: Sequence[Problem]) -> list[Problem]:
    """Why the study's labels cannot be columns of its clip index, whose rules are the sections ``[labels.<scheme>]``.

    Args:
        study: its valid rows.
        rules: by scheme.
        problems: of its tables; where they may be the cause, this returns none.
    """
    if any(each.table in _LABEL_TABLES and each.column not in _VALUE_COLUMNS for each in problems):
        return []
    faults = label_rule_faults(study, rules)
    of_several = () if faults else sorted(sessions_of_several_persons(study, rules).items())
    return [
        *(Problem("clip index", None, "", "", fault) for fault in faults),
        *(Problem("clip index", None, "", "", f"{session}: {why}") for session, why in of_several),
    ]


_LABEL_TABLES = ("schemes", "raters", "persons", "labels", "curves")
_VALUE_COLUMNS = ("value", "path", "start_s", "end_s", "confidence")  # their problems lose no scheme and no rater


def _check_session(
    study: Study,
    files: list[NamedFile],
    settings: ExtractorsSettings,
    rules: Mapping[str, LabelRule],
    remarks: list[str],
    lengths_s: dict[tuple[str, str], float],
    rates: Counter[str],
) -> Iterator[Problem]:
    """What is wrong with the files of one row.

    How long its recording is by its header, that of the video or else of the sound, goes into ``lengths_s``; its frame
    rate, if it has one, into ``rates``.
    """
    header: VideoHeader | None = None
    video: Path | None = None
    kinds = (kind for extractor in build_extractors(settings, "").values() for kind in extractor.inputs)
    read = {_CURVE, Input.REGION, *kinds}
    streams = settings.recording.streams
    for file in files:
        if file.column not in read:
            continue
        key = file.session_id, file.track or MAIN
        try:
            path = study.path(file.relative)
        except StudyFileError as error:
            yield file.problem(str(error).removeprefix(f"{file.relative}: "))
            continue
        try:
            match file.column:
                case Input.VIDEO:
                    own_sound = Input.AUDIO in read and all(other.column != Input.AUDIO for other in files)
                    remarks += stream_remarks(path, file.relative, picture=True, sound=own_sound, streams=streams)
                    header, video = read_header(path, streams), path
                    lengths_s[key] = length_s(header.fps, header.promised_frames, header.promised_s)
                    remarks += _check_rate(path, file.relative, header, streams, rates)
                case Input.AUDIO:
                    remarks += stream_remarks(path, file.relative, picture=False, sound=True, streams=streams)
                    next(read_audio(path, _ANY_RATE, streams=streams))
                    lengths_s[key] = lengths_s.get(key) or sound_length_s(path)
                case Input.TRANSCRIPT:
                    remarks += _check_transcript(path, file.relative, lengths_s.get(key, 0.0), settings)
                case Input.OPENFACE:
                    track = study.tracks.get(file.session_id, {}).get(file.track or MAIN)
                    is_region = track is not None and track.of is not None
                    remarks += _check_openface(path, header, video, streams, is_region=is_region)
                case Input.REGION:
                    boxes = Boxes.read(path)
                    remarks += [f"tracks: {remark}" for remark in boxes.remarks]
                    if boxes.doubtful_s:
                        remarks.append(f"{file.relative}: may show somebody else at {in_words(boxes.doubtful_s)}")
                case _:  # a curve
                    remarks += _check_curve(path, file.relative, study, rules)
        except (RecordingError, TranscriptError, OpenFaceOutputError, CurveError, BoxesError) as error:
            yield file.problem(str(error).removeprefix(f"{path.name}: "))
        except OSError as error:
            yield file.problem(f"cannot be read: {reason_of(error)}")


def _parts_beyond_the_end(parts: list[NamedPart], lengths_s: Mapping[tuple[str, str], float]) -> Iterator[Problem]:
    """Phases and labels that end well after their recording: its times are another's, or in another unit."""
    for part in parts:
        length_s = lengths_s.get((part.session_id, part.track or MAIN), 0.0)
        if length_s and part.end_s > length_s + SLACK_S:
            recording = part.session_id if part.track in (None, MAIN) else f"{part.session_id}, track {part.track}"
            rule = (
                f"is after the end of the recording of {recording}, which is {length_s:.2f} s long by its header: are "
                "these its times, in seconds?"
            )
            yield Problem(part.table, part.row, "end_s", repr(str(part.end_s)), rule, part.line, "beyond")


def _apart_from_the_session(
    files: list[list[NamedFile]], study: Study, lengths_s: Mapping[tuple[str, str], float]
) -> Iterator[Problem]:
    """Tracks that by their clock recorded nothing while the session was recorded: nothing could be read together."""
    checked = set()
    for file in (file for of_row in files for file in of_row if file.table == "tracks" and file.track):
        track = str(file.track)
        key = file.session_id, track
        length_s, session_s = lengths_s.get(key, 0.0), lengths_s.get((file.session_id, MAIN), 0.0)
        if key in checked or not (length_s and session_s) or track not in study.tracks.get(file.session_id, {}):
            continue
        checked.add(key)
        clock = study.tracks[file.session_id][track].clock
        if clock is not None and clock not in study.clocks.get(file.session_id, {}):
            continue  # a problem already
        first_s, last_s = study.clock(*key).to_session([0.0, length_s])
        if first_s >= session_s or last_s <= 0:
            yield file.problem(
                f"by its clock it was recorded from {first_s:.2f} to {last_s:.2f} s of the session, which is from 0 to "
                f"{session_s:.2f} s: they share nothing in time. Is the clock right? 'storyframes sync' measures it",
                is_of_file=False,
            )


def _overlapping_regions(study: Study) -> Iterator[str]:
    """Of regions of one picture that overlap by more than half of the smaller: one face may be taken for both."""
    for session_id, tracks in study.tracks.items():
        regions: dict[str, Boxes] = {}
        for name, track in tracks.items():
            with suppress(StudyFileError, BoxesError, OSError):  # problems already
                if track.box_file:
                    regions[name] = Boxes.read(study.path(track.box_file))
                elif track.region:
                    box = np.tile(fixed_box(track.region), (2, 1))
                    regions[name] = Boxes(np.array([0, _ALWAYS_S]), box, np.zeros(2, bool))
        for (name, one), (other_name, other) in combinations(regions.items(), 2):
            if tracks[name].of != tracks[other_name].of:
                continue
            time_s = np.union1d(one.time_s, other.time_s)
            is_shared = one.shares(other, time_s)
            if is_shared.any():
                stretches = Boxes(time_s, one.at(time_s, 0), is_shared).doubtful_s
                when = "all times" if stretches == [(0, _ALWAYS_S)] else in_words(stretches)
                yield (
                    f"tracks: the regions {name} and {other_name} of {session_id} overlap by more than half at {when}: "
                    "what finds a face by itself may take the same one in both"
                )


def _shared_recordings(files: list[list[NamedFile]], study: Study, remarks: list[str]) -> Iterator[Problem]:
    """Recordings that several sessions name, each in the first row that names it again."""
    for recording in find_shared_recordings(study):
        sessions = " and ".join(
            f"{session} ({study.sessions[session].participant_id})" for session in recording.sessions
        )
        if recording.is_cut:
            remarks.append(
                f"sessions: {sessions} are parts of one recording, {recording.uses[0].relative}, at different times "
                "of it: their participants are in one split"
            )
            continue
        again = {use.relative for use in recording.uses if use.session_id == recording.sessions[1]}
        rows = itertools.chain.from_iterable(files)
        row = next(row for row in rows if row.session_id.strip() == recording.sessions[1] and row.relative in again)
        paths = dict.fromkeys(use.relative for use in recording.uses)
        long, same = "file", "is the same recording"
        if len(paths) > 1 and any(len(file_names(path)) > 1 for path in paths):
            same = f"has a file in common with another ({', '.join(paths)})"
            long = "recording, all its files in each cell"
        elif len(paths) > 1:
            same += f" ({', '.join(paths)} have the same SHA-256)"
        yield row.problem(
            f"{same} in the sessions {sessions}, so its clips would count more than once: give each session its own "
            f"recording, or, where sessions are parts of one long {long}, phases at different times of it. Until then "
            "their participants are in one split"
        )


def _check_curve(path: Path, relative: str, study: Study, rules: Mapping[str, LabelRule]) -> list[str]:
    """Read a curve, whose values are held to its scheme's minimum and maximum; what should be known about it."""
    scheme = next((study.schemes.get(curve.scheme) for curve in study.curves if curve.path == relative), None)
    curve = CurveSamples.read(path, scheme)
    name = scheme.name if scheme else ""
    share = unlabelled_share(curve.time_s, curve.value, rules.get(name, LabelRule()).curve)
    remarks = list(curve.remarks)
    if share > SPARSE:
        remarks.append(
            f"{relative}: {share:.0%} of the frames from its first moment to its last have no value, because its "
            f'moments are apart or empty: [labels.{name}] between = "hold" or "linear", with longest_gap_s in seconds, '
            "says what holds between them"
        )
    return [f"curves: {remark}" for remark in remarks]


def _check_rate(
    path: Path, relative: str, header: VideoHeader, streams: StreamChoice, rates: Counter[str]
) -> list[str]:
    """A remark where the first frames are not evenly spaced; else their rate is counted."""
    times = first_packet_times(path, streams)
    steps = np.diff(times)
    if len(steps) < _FEWEST_STEPS or steps.std() <= UNEVEN * steps.mean():
        rates[f"{usual_rate(times, header.fps):.3g}"] += 1
        return []
    mean, usual = 1 / steps.mean(), usual_rate(times, header.fps)
    camera = f", {usual:.3g} where none is left out" if abs(usual / mean - 1) > _SAME_RATE else ""
    return [
        f"{relative}: its frame rate varies ({mean:.3g} frames a second on average{camera}): windows in seconds "
        "(window_s, stride_s) have the frames of their seconds, windows in frames last differently"
    ]


def _check_transcript(path: Path, relative: str, length_s: float, settings: ExtractorsSettings) -> list[str]:
    """Read a transcript; what of it should be looked at."""
    how = settings.transcript
    transcript = read_transcript(path, allow_malformed=how.allow_malformed_cues, speaker_prefixes=how.speaker_prefixes)
    end_s = max((utterance.end_s for utterance in transcript.utterances), default=0.0)
    if length_s and end_s > length_s + SLACK_S:
        raise TranscriptError(
            f"{path.name}: ends at {end_s:.2f} s, but the recording is {length_s:.2f} s long by its header: is it "
            "another session's transcript?"
        )
    remarks = [f"{relative}: {remark}" for remark in transcript.remarks]
    if transcript.guessed_language:
        remarks.append(
            f"{relative}: its language is a guess: give it in the column language of the table sessions or tracks, and "
            "'storyframes transcribe' makes it again"
        )
    if not transcript.words():
        remarks.append(
            f"{relative}: has no words{' besides sounds and notes' if transcript.events else ''}: if something was "
            "said in the recording, transcribe it again or name another transcript"
        )
    if transcript.uncertain_speakers:
        remarks.append(
            f"{relative}: {transcript.uncertain_speakers} of {len(transcript.utterances)} captions may begin with a "
            "speaker's name ('Name: ...', '[Name] ...', 'Name - ...', or on a line of its own) that is not read as "
            "one, or have none where others do: set [transcript] speaker_prefixes = true if such beginnings are "
            "speakers, false if they are not"
        )
    return remarks


def _check_openface(
    path: Path, header: VideoHeader | None, video: Path | None, streams: StreamChoice, *, is_region: bool
) -> list[str]:
    """Look at the beginning and the end of OpenFace's output; of several faces, how long each is in it."""
    last = peek_openface_csv(path)
    rows = last.frame if last else None
    remarks = _of_another_video(path, last, header, video, streams) if header and video else []
    if is_region or has_several_faces(path):
        faces = ", ".join(f"face_id {face} in {seconds:.1f} s" for face, seconds in count_faces(path).items())
        if not is_region:
            raise OpenFaceOutputError(
                f"{path.name}: has several faces ({faces}), and their ids may change from frame to frame: give each "
                "person a row in the table tracks, with this file as openface and, as region, the part of the picture "
                "where she is (docs/two-people.md)"
            )
        return [f"tracks: {path.name}: {faces}: of each frame the face in the track's region is taken", *remarks]
    if is_lost_at_times := is_of_one_lost_face(path):
        remarks.append(f"{path.name}: one face, as FaceLandmarkVidMulti writes it: frames without a row are masked")
    promised = header.promised_frames if header else None
    if rows is None or promised is None or video is None or rows == promised:
        return remarks
    with open_container(video) as container:
        packets = sum(packet.size > 0 for packet in container.demux(chosen_video(container, video.name, streams)))
    if rows > max(packets, promised) or (rows < _FEWER * min(packets, promised) and not is_lost_at_times):
        raise OpenFaceOutputError(
            f"{path.name}: ends with frame {rows}, but the video holds {packets}: it is cut, or another video's output"
        )
    return remarks


def _of_another_video(
    path: Path, last: LastRow | None, header: VideoHeader, video: Path, streams: StreamChoice
) -> list[str]:
    """Remarks where OpenFace's output may be of a video that was replaced, by its timestamps or the files' times."""
    last = last or last_frame_and_rows(path)[0]  # of a CSV.gz
    remarks, cure = [], "is it of an earlier video? If so, run OpenFace on this one"
    if last.frame > 1:
        rates = {header.fps, usual_rate(first_packet_times(video, streams), header.fps)} - {0.0}
        expected_s = [(last.frame - 1) / rate for rate in sorted(rates)]
        if header.promised_s and header.promised_frames:  # of a rate that varies
            expected_s.append(header.promised_s * (last.frame - 1) / header.promised_frames)
        is_other = (abs(last.timestamp - time_s) > _SAME_TIME_S + _SAME_TIME * time_s for time_s in expected_s)
        if expected_s and all(is_other):
            remarks.append(
                f"{path.name}: its frame {last.frame} is at {last.timestamp:.2f} s, that of the video at "
                f"{expected_s[0]:.2f} s: {cure}"
            )
    older_s = max(file.stat().st_mtime for file in recording_files(video)) - path.stat().st_mtime
    if older_s > _OLDER_S:
        remarks.append(f"{path.name}: by the files' times it is {older_s / 3600:.1f} h older than its video: {cure}")
    return remarks
