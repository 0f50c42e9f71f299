"""One session's page: of every track what its features say, on its own clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.tracks import MAIN
from tasks.extractors.speech import speaker_labels
from tasks.inspect.devices import Device, devices_of
from tasks.inspect.findings import QualityFinding, Rule
from tasks.inspect.formatting import without_folders
from tasks.inspect.overlay import OverlayError
from tasks.inspect.quality import Quality, check_quality
from tasks.inspect.read_curves import read_curves
from tasks.inspect.report.chart import Chart
from tasks.inspect.report.matrix import Matrix
from tasks.inspect.report.page import Disclosure
from tasks.inspect.report.pages import render
from tasks.inspect.report.session import Clip, Spoken, Timetable, session_clips
from tasks.inspect.report.thumbnails import Picture, write_thumbnails
from tasks.inspect.report.timeline import timeline
from tasks.inspect.session_curves import SessionCurves
from tasks.label_rules import LabelRule
from tasks.media.container import RecordingError
from tasks.media.sound import NoAudioError, find_clipped
from tasks.media.video_header import read_header
from tasks.study.load import Phase, Study, StudyFileError
from tasks.study.transcript import TranscriptError, read_transcript


@dataclass(frozen=True)
class ReportOptions:
    """What a report is made of, beside the features.

    Attributes:
        disclosure: what of the recordings goes in.
        check_sound: decode every recording's sound to find clipped samples.
        rules: by scheme, of which raters its curves are features.
        sections: of plug-ins in the configuration, for their pages.
    """

    disclosure: Disclosure = field(default_factory=Disclosure)
    check_sound: bool = False
    rules: Mapping[str, LabelRule] = field(default_factory=dict)
    sections: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Pages:
    """What all pages of one report share, and what they found."""

    study: Study
    store: FeatureStore
    matrix: Matrix
    clips: pd.DataFrame | None
    options: ReportOptions
    site: Path
    speaker_prefixes: bool | None = None  # of captions: [transcript] speaker_prefixes
    findings: dict[str, list[QualityFinding]] = field(default_factory=dict)
    not_looked_at: dict[str, set[Rule]] = field(default_factory=dict)  # by session, of any of its tracks
    quoted: set[str] = field(default_factory=set)  # sessions whose transcripts are in
    pictured: set[str] = field(default_factory=set)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.study.root.name


@dataclass
class TrackPart:
    """What a session's page has of one track.

    Attributes:
        name: the track's.
        device: of the study; None where it has no such track.
        curves: None where nothing can be drawn.
        table: phases, clips and what was said, in seconds of the track's own recording.
        key: of its timeline on the page.
        problem: why something is not here.
    """

    name: str
    device: Device | None
    key: str
    curves: SessionCurves | None = None
    table: Timetable = field(default_factory=Timetable)
    chart: Chart | None = None
    quality: Quality = field(default_factory=Quality)
    pictures: list[Picture] = field(default_factory=list)
    problem: str = ""

    @property
    def findings(self) -> list[QualityFinding]:
        return self.quality.findings

    @property
    def about_clock(self) -> str:
        return "the study has no such track" if self.device is None else self.device.about_clock


def write_session(pages: Pages, session_id: str) -> None:
    """Write the page, and note how many findings it has and what it could not show."""
    devices = devices_of(pages.study, session_id)
    names = dict.fromkeys([MAIN, *devices, *pages.store.tracks(session_id)])
    tracks = [_part(pages, session_id, name, devices.get(name), place) for place, name in enumerate(names)]
    main = tracks[0]
    main.problem = " ".join(part for part in (main.problem, pages.study.excluded.get(session_id, "")) if part)
    session = pages.study.sessions.get(session_id)
    page = render(
        "session.html",
        root="../",
        name=pages.name,
        session_id=session_id,
        participants=_participants(pages.study, session_id) or ([session.participant_id] if session else []),
        tracks=tracks,
        clip_data=[{"start": clip.start_s, "stop": clip.stop_s, "about": clip.about} for clip in main.table.clips],
        cells=pages.matrix.by_track(session_id),
    )
    (pages.site / "sessions" / f"{session_id}.html").write_text(page, encoding="utf-8")
    pages.findings[session_id] = [finding for one in tracks for finding in one.findings]
    pages.not_looked_at[session_id] = {rule for one in tracks if one.curves for rule in one.quality.not_looked_at}
    if any(one.table.spoken for one in tracks):
        pages.quoted.add(session_id)
    if any(one.pictures for one in tracks):
        pages.pictured.add(session_id)
    problems = [one.problem if one is main else f"{one.name}: {one.problem}" for one in tracks if one.problem]
    if problems:
        pages.problems[session_id] = " ".join(problems)


def _participants(study: Study, session_id: str) -> list[str]:
    """Who is in the session, with what they do there; empty where the study does not say."""
    persons = [one for one in study.persons if one.session_id == session_id and one.participant_id]
    return [f"{one.participant_id}{f' ({one.role})' if one.role else ''}" for one in persons]


def _part(pages: Pages, session_id: str, name: str, device: Device | None, place: int) -> TrackPart:
    part = TrackPart(name, device, "timeline" if not place else f"timeline-{place + 1}")
    if name != MAIN and not pages.store.features(session_id, name):
        return part  # not extracted, which the table of features says
    part.curves, problem = _read(pages, session_id, name, device)
    part.table, text_problem = _timetable(pages, session_id, name, device)
    part.pictures, picture_problem = _pictures(pages, session_id, name, device)
    part.problem = without_folders(" ".join(one for one in (problem, text_problem, picture_problem) if one))
    if part.curves:
        part.quality = check_quality(part.curves)
        part.chart = timeline(part.curves, part.table, part.key)
    return part


def _read(pages: Pages, session_id: str, track: str, device: Device | None) -> tuple[SessionCurves | None, str]:
    """The curves, or why there are none: one damaged track does not cost the others their part."""
    try:
        curves = read_curves(pages.store, session_id, track)
    except (StoreError, OSError, ValueError) as error:
        return None, f"{error}" if isinstance(error, StoreError) else f"an array cannot be read ({error})"
    if not pages.options.check_sound or device is None:
        return curves, ""
    try:
        if device.files.audio:
            curves.clipped = find_clipped(pages.study.path(device.files.audio))
        elif device.files.video:
            video = pages.study.path(device.files.video)
            curves.clipped = find_clipped(video, read_header(video).start_s)
    except NoAudioError:
        return curves, ""
    except (RecordingError, OSError) as error:
        return curves, f"The sound was not checked: {error}"
    return curves, ""


def _timetable(pages: Pages, session_id: str, track: str, device: Device | None) -> tuple[Timetable, str]:
    phases = _phases(pages.study, session_id, device)
    clips = _clips(pages.clips, session_id) if track == MAIN else ()
    transcript = device.files.transcript if device else None
    if not pages.options.disclosure.text or transcript is None:
        return Timetable(phases, clips), ""
    try:
        path = pages.study.path(transcript)
        read = read_transcript(path, allow_malformed=True, speaker_prefixes=pages.speaker_prefixes)
    except (TranscriptError, StudyFileError) as error:
        return Timetable(phases, clips), str(error)
    numbers, labels = speaker_labels([one.speaker for one in read.utterances], pages.study.speakers.get(session_id))
    spoken = tuple(
        Spoken(labels[number], one.start_s, one.end_s, one.text)
        for number, one in zip(numbers, read.utterances, strict=True)
    )
    return Timetable(phases, clips, spoken), ""


def _phases(study: Study, session_id: str, device: Device | None) -> tuple[Phase, ...]:
    """The session's phases in their order, in seconds of the track's own recording."""
    if session_id in study.excluded or device is None:
        return ()  # times that cannot be seconds of the recording would make it a dot on its own timeline
    own = sorted((one for one in study.phases if one.session_id == session_id), key=lambda one: one.start_s)
    times = ({name: float(device.clock.to_device(getattr(one, name))) for name in ("start_s", "end_s")} for one in own)
    return tuple(one.model_copy(update=of_track) for one, of_track in zip(own, times, strict=True))


def _clips(index: pd.DataFrame | None, session_id: str) -> tuple[Clip, ...]:
    if index is None:
        return ()
    own = index[index["session_id"] == session_id]
    schemes: Iterable[str] = index.attrs.get("schemes", {})
    return tuple(session_clips(own, schemes, index.attrs.get("track", MAIN))) if len(own) else ()


def _pictures(pages: Pages, session_id: str, track: str, device: Device | None) -> tuple[list[Picture], str]:
    if not pages.options.disclosure.video or device is None or device.files.video is None:
        return [], ""
    name = session_id if track == MAIN else f"{session_id}@{track}"
    folder = pages.site / "sessions" / f"{name}.frames"
    try:
        return write_thumbnails(pages.study.path(device.files.video), pages.store, session_id, folder, track), ""
    except (OverlayError, RecordingError, StoreError, StudyFileError) as error:
        return [], f"No pictures: {error}"
