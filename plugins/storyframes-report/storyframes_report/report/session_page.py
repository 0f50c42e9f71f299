"""One session's page: curves, findings and, where requested, text and pictures of every track, on the track's clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import cv2
import numpy as np
import pandas as pd

from storyframes import CLOCK, MAIN, FeatureName, FeatureStore
from storyframes.store import StoreError
from storyframes_report.devices import Device, devices_of, stored_streams
from storyframes_report.overlay import OverlayError, draw_overlays
from storyframes_report.report.chart import Chart
from storyframes_report.report.label_facts import session_ratings
from storyframes_report.report.matrix import Matrix, without_folders
from storyframes_report.report.packing import deflate_json
from storyframes_report.report.page import Disclosure
from storyframes_report.report.pages import render
from storyframes_report.report.people_chart import people_chart
from storyframes_report.report.player import PlayedTrack, address, study_file
from storyframes_report.report.points import write_points
from storyframes_report.report.previews import write_preview
from storyframes_report.report.study_page.summary import FindingSummary, SessionSummary, typical_values
from storyframes_report.report.timeline import timeline
from storyframes_report.report.timetable import Timetable, read_timetable
from tasks.inspect import Quality, QualityFinding, SessionCurves, read_curves
from tasks.media import NoAudioError, RecordingError, StreamChoice, find_clipped, read_header
from tasks.study import Study, UnusableFileError

_WIDTH, _PICTURES = 320, 8  # pixels, and the most pictures of a track


@dataclass(frozen=True)
class ReportOptions:
    """Options of a report."""

    disclosure: Disclosure = field(default_factory=Disclosure)
    check_sound: bool = False  # decode every recording's sound to find clipped samples
    # recordings that the pages play: chosen by the reader, unless the pages link the study's files or small copies
    link_recordings: bool = False
    proxies: Path | None = None  # folder of the copies
    points: bool = False  # landmarks, joints and boxes of people, which the player draws over the picture
    rules: Mapping[str, Any] = field(default_factory=dict)  # by scheme, which raters' curves are features
    sections: Mapping[str, Any] = field(default_factory=dict)  # of plug-ins in the configuration, for their pages


@dataclass
class Pages:
    """The inputs of all pages of one report, and what the pages report about each session."""

    study: Study
    store: FeatureStore
    matrix: Matrix
    clips: pd.DataFrame | None
    options: ReportOptions
    site: Path
    speaker_prefixes: bool | None = None  # [transcript] speaker_prefixes
    streams: StreamChoice = StreamChoice.FIRST  # [recording] video_stream and sound_stream
    summaries: dict[str, SessionSummary] = field(default_factory=dict)
    quoted: set[str] = field(default_factory=set)  # sessions with their transcripts on the page
    pictured: set[str] = field(default_factory=set)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.study.root.name


@dataclass(frozen=True)
class Picture:
    """A thumbnail: its file beside the page, its frame with time and size in pixels."""

    name: str
    frame: int
    time_s: float
    width: int
    height: int


@dataclass
class TrackPart:
    """One track of a session's page."""

    name: str
    device: Device | None  # None where the study has no such track
    key: str  # of its timeline on the page
    curves: SessionCurves | None = None  # None where nothing can be drawn
    streams: StreamChoice = StreamChoice.FIRST  # of its recording, of which its features were made
    table: Timetable = field(default_factory=Timetable)
    chart: Chart | None = None
    quality: Quality = field(default_factory=Quality)
    pictures: list[Picture] = field(default_factory=list)
    problem: str = ""  # why something is missing

    @property
    def findings(self) -> list[QualityFinding]:
        return self.quality.findings

    @property
    def about_clock(self) -> str:
        return "the study has no such track" if self.device is None else self.device.about_clock


def write_session(pages: Pages, session_id: str) -> None:
    """Write the page, and record in ``pages`` its findings and what it could not show."""
    devices = devices_of(pages.study, session_id)
    names = dict.fromkeys([MAIN, *devices, *pages.store.tracks(session_id)])
    tracks = [_part(pages, session_id, name, devices.get(name), number) for number, name in enumerate(names, start=1)]
    main = tracks[0]
    main.problem = " ".join(part for part in (main.problem, pages.study.excluded.get(session_id, "")) if part)
    session = pages.study.sessions.get(session_id)
    people, people_problem = people_chart(pages.study, session_id)
    main.problem = " ".join(filter(None, (main.problem, people_problem)))
    played = [track for part in tracks if (track := _played(pages, session_id, part, devices))]
    points = f"{session_id}.points.js"
    try:
        with_points = pages.options.points and write_points(
            pages.site / "sessions" / points, pages.study, pages.store, session_id, devices, played
        )
    except (RecordingError, StoreError, UnusableFileError) as error:
        with_points, main.problem = False, f"{main.problem} No points: {without_folders(str(error))}".strip()
    page = render(
        "session.html",
        root="../",
        name=pages.name,
        session_id=session_id,
        participants=_participants(pages.study, session_id) or ([session.participant_id] if session else []),
        tracks=tracks,
        played=played if any(track.playable for track in played) else [],
        points=quote(points) if with_points else "",
        people=people,
        ratings=session_ratings(pages.study, session_id, with_text=pages.options.disclosure.text),
        window_data=deflate_json(
            [{"start": each.start_s, "stop": each.stop_s, "about": each.about} for each in main.table.windows]
        ),
        cells=pages.matrix.by_track(session_id),
    )
    (pages.site / "sessions" / f"{session_id}.html").write_text(page, encoding="utf-8")
    pages.summaries[session_id] = SessionSummary(
        tuple(FindingSummary.of(finding, part.name, part.key) for part in tracks for finding in part.findings),
        frozenset(rule for part in tracks if part.curves for rule in part.quality.not_looked_at),
        tuple(part.name for part in tracks if not part.curves),
        typical_values(main.curves),
    )
    if any(part.table.spoken for part in tracks):
        pages.quoted.add(session_id)
    if any(part.pictures for part in tracks):
        pages.pictured.add(session_id)
    problems = [part.problem if part is main else f"{part.name}: {part.problem}" for part in tracks if part.problem]
    if problems:
        pages.problems[session_id] = " ".join(problems)


def _participants(study: Study, session_id: str) -> list[str]:
    """The session's participants with their roles; empty where the study does not name them."""
    persons = [person for person in study.persons if person.session_id == session_id and person.participant_id]
    return [f"{person.participant_id}{f' ({person.role})' if person.role else ''}" for person in persons]


def _part(pages: Pages, session_id: str, name: str, device: Device | None, number: int) -> TrackPart:
    part = TrackPart(name, device, "timeline" if number == 1 else f"timeline-{number}")
    if name != MAIN and not pages.store.features(session_id, name):
        return part  # not extracted: see the page's table of features
    problem = _read(pages, session_id, part)
    part.table, text_problem = read_timetable(
        pages.study,
        session_id,
        device,
        pages.clips if name == MAIN else None,
        pages.speaker_prefixes,
        with_text=pages.options.disclosure.text,
    )
    part.pictures, picture_problem = _pictures(pages, session_id, name, device)
    part.problem = without_folders(" ".join(filter(None, (problem, text_problem, picture_problem))))
    if part.curves:
        part.quality = Quality.of(part.curves)
        part.chart = timeline(part.curves, part.table, part.key)
    return part


def _read(pages: Pages, session_id: str, part: TrackPart) -> str:
    """Read the curves; the reason why they cannot be read, so that one damaged track does not stop the others."""
    try:
        part.streams = stored_streams(pages.store, session_id, part.name, pages.streams)
        curves = read_curves(pages.store, session_id, part.name)
    except (StoreError, OSError, ValueError) as error:
        return f"{error}" if isinstance(error, StoreError) else f"an array cannot be read ({error})"
    part.curves = curves
    if not pages.options.check_sound or part.device is None:
        return ""
    files, streams = part.device.files, part.streams
    try:
        if files.audio:
            curves.clipped = find_clipped(pages.study.path(files.audio), streams=streams)
        elif files.video:
            video = pages.study.path(files.video)
            curves.clipped = find_clipped(video, read_header(video, streams).start_s, streams=streams)
    except NoAudioError:
        return ""
    except (RecordingError, OSError) as error:
        return f"The sound was not checked: {error}"
    return ""


def _played(pages: Pages, session_id: str, part: TrackPart, devices: dict[str, Device]) -> PlayedTrack | None:
    """How the track is played, or follows another's recording; None where it has no curves."""
    if part.device is None or part.curves is None:
        return None
    video, audio = part.device.files.video, part.device.files.audio
    file = study_file(pages.study, video or audio)
    if file is None:
        return PlayedTrack(part.name, part.key, part.device, part.curves, playable=False)
    if (pages.options.proxies is None or video is None) and (others := _other_streams(pages.study, part)):
        part.problem = f"{part.problem} {others}".strip()
        return PlayedTrack(part.name, part.key, part.device, part.curves, playable=False)
    is_in_study = file.is_relative_to(pages.study.root)  # a link would say where another folder's recordings are
    linked = file if pages.options.link_recordings and is_in_study else None
    sound = study_file(pages.study, audio) if linked and video else None
    sound = sound if sound and sound.is_relative_to(pages.study.root) else None
    if pages.options.proxies is not None and video is not None:
        track = part.device.files.of or part.name  # a region is played within the picture that it is cut from
        name = session_id if track == MAIN else f"{session_id}@{track}"
        linked, sound = pages.options.proxies / f"{name}.mp4", None  # the copy has the sound
        try:
            audio = devices[track].files.audio
            write_preview(file, pages.study.path(audio) if audio else None, linked, part.streams)
        except (RecordingError, UnusableFileError) as error:
            part.problem, linked = f"{part.problem} No preview: {without_folders(str(error))}".strip(), None
    recording, beside = ("" if one is None else address(one, pages.site / "sessions") for one in (linked, sound))
    return PlayedTrack(part.name, part.key, part.device, part.curves, recording=recording, sound=beside)


def _other_streams(study: Study, part: TrackPart) -> str:
    """Why a browser cannot play a track; empty where it plays the picture and the sound of the track's features."""
    if part.device is None:
        return ""
    files, chosen = part.device.files, part.streams
    paths = [path for name in (files.video, files.audio) if (path := study_file(study, name))]
    if joined := [path.name for path in paths if len(chosen.files(path)) > 1]:
        return f"Not played: a browser plays one file, not {', '.join(joined)}: --proxy FOLDER makes a copy of a video."
    if chosen == StreamChoice.FIRST:
        return ""
    sound = StreamChoice(sound=chosen.sound)
    asked = [(files.video, StreamChoice(chosen.video) if files.audio else chosen), (files.audio, sound)]
    there = [(path, streams) for name, streams in asked if (path := study_file(study, name))]
    try:
        others = [path.name for path, streams in there if not streams.are_first(path)]
    except RecordingError:
        return ""  # which what reads it reports
    if not others:
        return ""
    return (
        f"Not played: a browser plays the first streams of {', '.join(others)}, and the features are of others "
        f"([recording] video_stream = {chosen.video}, sound_stream = {chosen.sound}): --proxy FOLDER makes copies of a "
        "video that it plays."
    )


def _pictures(pages: Pages, session_id: str, track: str, device: Device | None) -> tuple[list[Picture], str]:
    if not pages.options.disclosure.video or device is None or device.files.video is None:
        return [], ""
    name = session_id if track == MAIN else f"{session_id}@{track}"
    folder = pages.site / "sessions" / f"{name}.frames"
    try:
        return write_thumbnails(pages.study.path(device.files.video), pages.store, session_id, folder, track), ""
    except (OverlayError, RecordingError, StoreError, UnusableFileError) as error:
        return [], f"No pictures: {error}"


def write_thumbnails(video: Path, store: FeatureStore, session_id: str, folder: Path, track: str) -> list[Picture]:
    """Write a few frames spread evenly over a track's video as JPEG files into a new folder.

    Raises:
        OverlayError: the store has no landmarks and no poses of the track.
        RecordingError: the video cannot be read.
    """
    time = store.read(session_id, FeatureName.of_track(CLOCK, track), array="time")
    if not len(time):
        raise OverlayError(f"{session_id} has no frames")
    frames = np.unique(np.linspace(0, len(time) - 1, min(_PICTURES, len(time)) + 2)[1:-1].round().astype(int)).tolist()
    folder.mkdir(parents=True, mode=0o700)
    pictures = []
    for frame, picture in zip(frames, draw_overlays(video, store, session_id, frames, track), strict=True):
        height = round(picture.shape[0] * _WIDTH / picture.shape[1])
        small = cv2.resize(picture, (_WIDTH, height), interpolation=cv2.INTER_AREA)
        _, content = cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 80])
        name = f"frame-{frame:06d}.jpg"
        (folder / name).write_bytes(content.tobytes())
        pictures.append(Picture(f"{folder.name}/{name}", frame, float(time[frame]), _WIDTH, height))
    return pictures
