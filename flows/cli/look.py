"""The commands that look at one session: ``show``, ``view``, ``overlay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.tables.session import session_json, session_tables
from flows.cli.terminal import (
    FeaturesArgument,
    StudyArgument,
    cannot_write,
    console,
    error_console,
    fail,
    need,
    usage_errors,
)

SessionArgument = Annotated[str, typer.Argument(help="The session.")]
TrackOption = Annotated[
    str | None, typer.Option(help="Only this track; 'main' are the session's own files. All tracks otherwise.")
]


def show(
    features: FeaturesArgument,
    session: SessionArgument,
    track: TrackOption = None,
    json: Annotated[bool, typer.Option("--json", help="For scripts: one object on stdout.")] = False,
) -> None:
    """Show one session: its features, and of each track curves as sparklines and what looks wrong, with times.

    Times are in seconds of the track's own recording.
    """
    from storyframes.store import catalogue
    from storyframes.store.feature_store import FeatureStore
    from storyframes.tracks import MAIN, feature_and_track
    from tasks.inspect.curves.read import has_curves, read_curves

    with usage_errors():
        store = FeatureStore(features)
        entries = [one for one in catalogue.scan(store.storage) if one.session_id == session]
        if not entries:
            store.session(session)  # says which session is unknown, and of how many
        tracks = dict.fromkeys([MAIN, *sorted(feature_and_track(one.feature)[1] for one in entries)])
        if track is not None:
            if track not in tracks:
                fail(f"{session} has no track {track!r} in {features}; it has {', '.join(tracks)}", 2)
            tracks = {track: None}
            entries = [one for one in entries if feature_and_track(one.feature)[1] == track]
        curves = {one: read_curves(store, session, one) if has_curves(store, session, one) else None for one in tracks}
    if json:
        print(session_json(session, entries, curves))  # noqa: T201
        return
    shown = console()
    for part in session_tables(entries, curves):
        shown.print(part)


def view(
    study: StudyArgument,
    features: FeaturesArgument,
    session: SessionArgument,
    out: Annotated[Path | None, typer.Option(help="The .rrd file; SESSION.rrd here otherwise.")] = None,
    with_video: Annotated[bool, typer.Option("--with-video/--without-video", help="With the frames.")] = True,
) -> None:
    """Export a session as a rerun.io recording: frames, landmarks, poses and curves on one timeline."""
    need("rerun", "view")
    from storyframes.store.feature_store import FeatureStore
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.inspect.rerun_export import export_recording
    from tasks.media.container import RecordingError
    from tasks.planning.selection import Selection, check_selection
    from tasks.study.load import load_study
    from tasks.study.record import check_study_record

    target = out or Path(f"{session}.rrd")
    with usage_errors(), error_console().status("exporting") as spinner:
        loaded = load_study(study)
        check_selection(loaded, ExtractorsSettings(), Selection((session,)))
        store = FeatureStore(features)
        check_study_record(store.storage, loaded)
        video = loaded.path(loaded.sessions[session].video) if with_video else None
        try:
            frames = export_recording(
                store,
                session,
                video,
                target,
                lambda done, count: spinner.update(f"{done} of {count} frames"),
            )
        except RecordingError as error:
            fail(str(error), 2)
        except OSError as error:
            cannot_write(target, error)
    private = "; it holds pictures of the recording, keep it private" if with_video else ""
    console().print(f"{escape(str(target))}: {frames} frames{private}", soft_wrap=True)
    console().print(f"Look at it with: rerun {escape(str(target))}", soft_wrap=True)


def overlay(
    study: StudyArgument,
    features: FeaturesArgument,
    session: Annotated[str, typer.Argument(help="The session.")],
    out: Annotated[Path, typer.Option(help="PNG file to write.")],
    frame: Annotated[int, typer.Option(min=0, help="Which frame, from 0.")] = 0,
) -> None:
    """Draw landmarks and poses on one frame, to look at: writes a picture of the recording where you say."""
    from storyframes.store.feature_store import FeatureStore
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.inspect.overlay import OverlayError, draw_overlay, write_picture
    from tasks.planning.selection import Selection, check_selection
    from tasks.study.load import StudyFileError, load_study
    from tasks.study.record import check_study_record

    with usage_errors():
        loaded = load_study(study)
        check_selection(loaded, ExtractorsSettings(), Selection((session,)))
        store = FeatureStore(features)
        check_study_record(store.storage, loaded)
    try:
        picture = draw_overlay(loaded.path(loaded.sessions[session].video), store, session, frame)
    except (OverlayError, StudyFileError) as error:
        fail(str(error), 2)
    write_picture(picture, out)
    console().print(
        f"{escape(str(out))}: a picture of the recording, {picture.shape[1]}x{picture.shape[0]}; keep it private"
    )
