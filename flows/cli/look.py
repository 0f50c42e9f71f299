"""The commands that look at one session: ``show``, ``view``, ``overlay``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import (
    JsonOption,
    StoreArgument,
    StudyArgument,
    cannot_write,
    console,
    error_console,
    fail,
    need,
    usage_errors,
)

if TYPE_CHECKING:
    from tasks.inspect.devices import Device
    from tasks.study.load import Study

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]
TrackOption = Annotated[
    str | None, typer.Option(help="Only this track; 'main' are the session's own files. All tracks otherwise.")
]


def show(
    store: StoreArgument,
    session: SessionArgument,
    track: TrackOption = None,
    json: JsonOption = False,
) -> None:
    """Show one session: its features, and of each track curves as sparklines and what looks wrong, with times.

    Times are in seconds of the track's own recording.
    """
    from flows.cli.tables.session import session_json, session_tables
    from storyframes.spec import MAIN, feature_and_track
    from storyframes.store import record_status
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.read_curves import has_curves, read_curves

    with usage_errors():
        feature_store = FeatureStore(store)
        entries = list(record_status.scan(feature_store.storage, session))
        if not entries:
            feature_store.session(session)  # says which session is unknown, and of how many
        tracks = dict.fromkeys([MAIN, *sorted(feature_and_track(entry.feature)[1] for entry in entries)])
        if track is not None:
            if track not in tracks:
                fail(f"{session} has no track {track!r} in {store}; it has {', '.join(tracks)}", 2)
            tracks = {track: None}
            entries = [entry for entry in entries if feature_and_track(entry.feature)[1] == track]
        curves = {
            name: read_curves(feature_store, session, name) if has_curves(feature_store, session, name) else None
            for name in tracks
        }
    if json:
        print(session_json(session, entries, curves))  # noqa: T201
        return
    shown = console()
    for part in session_tables(entries, curves):
        shown.print(part)


def view(
    study: StudyArgument,
    store: StoreArgument,
    session: SessionArgument,
    track: TrackOption = None,
    out: Annotated[Path | None, typer.Option(help="The .rrd file; SESSION.rrd here otherwise.")] = None,
    with_video: Annotated[bool, typer.Option("--with-video/--without-video", help="With frames and sound.")] = True,
) -> None:
    """Export a session as a rerun.io recording: frames, sound, landmarks, poses and curves on the session's timeline.

    Every track is below its own name, at the times that its clock gives.
    """
    need("av", "pipeline,view")
    need("rerun", "view")
    from storyframes.spec import MAIN
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.read_curves import has_curves
    from tasks.inspect.rerun_export import ExportedTrack, export_recording
    from tasks.media.container import RecordingError
    from tasks.study.load import load_study
    from tasks.study.study_identity import check_study_record

    target = out or Path(f"{session}.rrd")
    with usage_errors(), error_console().status("exporting") as spinner:
        loaded = load_study(study)
        devices = _devices(loaded, session, track)
        feature_store = FeatureStore(store)
        check_study_record(feature_store.storage, loaded)
        nothing = [name for name in devices if len(devices) > 1 and not has_curves(feature_store, session, name)]
        chosen = [device for name, device in devices.items() if name not in nothing] or list(devices.values())
        exported = [
            ExportedTrack(
                device.track,
                loaded.path(device.files.video) if with_video and device.files.video else None,
                loaded.path(device.files.audio) if with_video and device.files.audio else None,
                device.clock,
            )
            for device in chosen
        ]
        try:
            frames = export_recording(
                feature_store,
                session,
                exported,
                target,
                lambda done, count: spinner.update(f"{done} of {count} frames"),
            )
        except RecordingError as error:
            fail(str(error), 2)
        except OSError as error:
            cannot_write(target, error)
    is_private = any(track.video or track.sound for track in exported)
    private = "; it holds pictures and sound of the recording, keep it private" if is_private else ""
    counts = {name: f"{count} frames" if count else "no picture" for name, count in frames.items()}
    what = counts.get(MAIN, "") if set(counts) == {MAIN} else ", ".join(f"{name} {of}" for name, of in counts.items())
    console().print(f"{escape(str(target))}: {escape(what)}{private}", soft_wrap=True)
    if nothing:
        console().print(f"Left out, as there is nothing of it to draw: {escape(', '.join(nothing))}.", soft_wrap=True)
    console().print(f"Look at it with: rerun {escape(str(target))}", soft_wrap=True)


def _devices(study: Study, session: str, track: str | None) -> dict[str, Device]:
    """The tracks of a session that are asked for, by name.

    Raises:
        SelectionError: there is no such session or track.
    """
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.inspect.devices import devices_of
    from tasks.planning.selection import Selection, SelectionError, check_selection

    check_selection(study, ExtractorsSettings(), Selection((session,), tracks=None if track is None else (track,)))
    if session not in study.sessions:
        raise SelectionError(f"{session!r} are texts, nothing that was recorded: name a session")
    return {name: device for name, device in devices_of(study, session).items() if track in (None, name)}


def overlay(
    study: StudyArgument,
    store: StoreArgument,
    session: SessionArgument,
    out: Annotated[Path, typer.Option(help="PNG file to write.")],
    frame: Annotated[int, typer.Option(min=0, help="Which frame of the track, from 0.")] = 0,
    track: Annotated[str, typer.Option(help="Which camera; 'main' is the session's own video.")] = "main",
) -> None:
    """Draw landmarks and poses on one frame, to look at: writes a picture of the recording to --out."""
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.devices import devices_of
    from tasks.inspect.overlay import OverlayError, draw_overlay, write_picture
    from tasks.study.load import StudyFileError, load_study
    from tasks.study.study_identity import check_study_record

    with usage_errors():
        loaded = load_study(study)
        video = _devices(loaded, session, track)[track].files.video
        if video is None:
            cameras = ", ".join(name for name, device in devices_of(loaded, session).items() if device.files.video)
            fail(f"the track {track!r} of {session} has no video; its cameras are {cameras or 'none'}", 2)
        feature_store = FeatureStore(store)
        check_study_record(feature_store.storage, loaded)
    try:
        picture = draw_overlay(loaded.path(video), feature_store, session, frame, track)
    except (OverlayError, StudyFileError) as error:
        fail(str(error), 2)
    write_picture(picture, out)
    size = f"{picture.shape[1]}x{picture.shape[0]}"
    console().print(f"{escape(str(out))}: a picture of the recording, {size}; keep it private")
