"""The commands ``report``, ``compare``, ``view`` and ``overlay``, each an application of one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from flows import progress_bar
from flows.cli import (
    LOOK,
    ConfigOption,
    JsonOption,
    StoreArgument,
    StudyArgument,
    cannot_write,
    console,
    error_console,
    fail,
    listed,
    need,
    usage_errors,
)
from storyframes import MAIN

if TYPE_CHECKING:
    from storyframes_report.devices import Device
    from tasks.study import Study

DISTRIBUTION = "storyframes-report"
report_app = typer.Typer(add_completion=False, **LOOK)
compare_app = typer.Typer(add_completion=False, **LOOK)
view_app = typer.Typer(add_completion=False, **LOOK)
overlay_app = typer.Typer(add_completion=False, **LOOK)


@report_app.command(rich_help_panel="Look", epilog="Next: storyframes status STORE")
def report(
    study: StudyArgument,
    store: StoreArgument,
    out: Annotated[Path, typer.Option(help="Folder of the site: a new one, an empty one, or an older report.")],
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Show the transcripts; speakers as in the feature store.")
    ] = False,
    with_video: Annotated[bool, typer.Option("--with-video", help="Show frames with landmarks and poses.")] = False,
    check_sound: Annotated[
        bool, typer.Option("--check-sound", help="Decode every recording's sound to find clipped samples.")
    ] = False,
    recordings: Annotated[
        Literal["choose", "relative"],
        typer.Option(help="What the pages play: a file that the reader chooses, or the study's own by relative links."),
    ] = "choose",
    proxy: Annotated[
        Path | None,
        typer.Option(help="Folder for small H.264 copies of the recordings, which every browser plays; linked."),
    ] = None,
    points: Annotated[
        bool,
        typer.Option("--points", help="Landmarks, joints and people's boxes, drawn over the picture that is played."),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write a site about a study and its features, to open from disk; no frame and no text unless asked for."""
    need("av", "pipeline")
    from flows import load_settings
    from storyframes import FeatureStore
    from storyframes_report.comparison_tables import report_table
    from storyframes_report.report.page import Disclosure
    from storyframes_report.report.pages import ReportError, check_proxy_folder, check_target
    from storyframes_report.report.session_page import ReportOptions
    from storyframes_report.report.site import build_report
    from tasks.study import check_study_record, load_study

    with usage_errors(), progress_bar("reporting") as progress:
        settings, feature_store = load_settings(config), FeatureStore(store)
        loaded = load_study(study, recordings=settings.recording.root)
        check_study_record(feature_store.storage, loaded)
        try:
            check_target(out)
            if proxy is not None:
                check_proxy_folder(proxy, out)
            built = build_report(
                loaded,
                feature_store,
                settings,
                out,
                ReportOptions(
                    Disclosure(with_text, with_video),
                    check_sound,
                    link_recordings=recordings == "relative",
                    proxies=proxy,
                    points=points,
                    rules=settings.labels,
                    sections=settings.sections,
                ),
                progress,
            )
        except ReportError as error:
            fail(str(error), 2)
        except OSError as error:
            cannot_write(out, error)
    shown = console()
    shown.print(report_table(built))
    for person, splits in built.facts.splits.leaked.items():
        where = escape(" and in ".join(splits))
        shown.print(f"[bold red]{escape(person)} is in {where}[/], so it is leaked: write the index again")
    for session_id, problem in built.problems.items():
        shown.print(f"[bold red]{escape(session_id)}[/] {escape(problem)}")
    for fault in built.faults:
        shown.print(f"[bold red]{escape(fault)}[/]")
    for what, wanted, sessions in (
        ("transcripts", with_text, built.quoted),
        ("pictures", with_video, built.pictured),
    ):
        if wanted and not sessions:
            shown.print(f"[yellow]No {what}[/]: no session has any")
    if built.quoted or built.pictured or proxy:
        shown.print("[yellow]It holds recordings of people[/]: keep it private.")
    shown.print(f"Open {escape(str(out / 'index.html'))}", soft_wrap=True)


@compare_app.command(rich_help_panel="Look", epilog="Next: storyframes status STORE_A")
def compare(
    store_a: Annotated[
        str, typer.Argument(metavar="STORE_A", help="A feature store, for instance from before an upgrade.")
    ],
    store_b: Annotated[str, typer.Argument(metavar="STORE_B", help="Another one of the same study.")],
    features: Annotated[
        list[str] | None,
        typer.Option(help="Only these features, of all tracks (FEATURE@TRACK: of one); with commas, or repeated."),
    ] = None,
    tolerance: Annotated[
        list[str] | None, typer.Option(help="FEATURE=NUMBER or FEATURE.COLUMN=NUMBER; repeat for more.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Allow no differences where --tolerance names none.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write a page into this folder.")] = None,
    json: JsonOption = False,
) -> None:
    """Compare two feature stores column by column; exit 0 if they are the same within tolerance, 1 if not."""
    from storyframes import FeatureStore
    from storyframes_report.compare import compare_stores
    from storyframes_report.comparison_tables import comparison_json, comparison_tables
    from storyframes_report.tolerances import ComparisonError, parse_tolerances

    names = listed("--features", features) or None
    with usage_errors(), error_console().status("comparing") as spinner:
        a, b = FeatureStore(store_a), FeatureStore(store_b)
        try:
            allowed = parse_tolerances(tolerance or [], exact=exact)
            compared = compare_stores(a, b, allowed, names, lambda name: spinner.update(f"comparing {escape(name)}"))
        except ComparisonError as error:
            fail(str(error), 2)
    if out:
        from storyframes_report.report.compare_page import write_comparison
        from storyframes_report.report.pages import ReportError

        try:
            write_comparison(compared, _short_name(store_a), _short_name(store_b), out)
        except ReportError as error:
            fail(str(error), 2)
        except OSError as error:
            cannot_write(out, error)
    if json:
        print(comparison_json(compared))  # noqa: T201
    else:
        shown = console()
        for part in comparison_tables(compared):
            shown.print(part)
        if out:
            shown.print(f"Open {escape(str(out / 'index.html'))}", soft_wrap=True)
    if not compared.same:
        raise typer.Exit(1)


def _short_name(location: str) -> str:
    """The end of a store's location: a page may be passed on, so it does not have the whole path."""
    return "/".join(location.rstrip("/").split("/")[-2:])


SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]
TrackOption = Annotated[
    str | None, typer.Option(help="Only this track; 'main' are the session's own files. All tracks otherwise.")
]


@view_app.command(rich_help_panel="Look", epilog="Next: storyframes status STORE")
def view(
    study: StudyArgument,
    store: StoreArgument,
    session: SessionArgument,
    track: TrackOption = None,
    out: Annotated[Path | None, typer.Option(help="The .rrd file; SESSION.rrd here otherwise.")] = None,
    with_video: Annotated[bool, typer.Option("--with-video/--without-video", help="With frames and sound.")] = True,
) -> None:
    """Export a session as a rerun.io recording: frames, sound, landmarks, poses and curves on the session's timeline.

    Every track is under its own name, at the times of its clock.
    """
    need("av", "pipeline")
    need("rerun", "view", DISTRIBUTION)
    from storyframes import FeatureStore
    from storyframes_report.rerun_export import ExportedTrack, export_recording
    from tasks.inspect import has_curves
    from tasks.media import RecordingError
    from tasks.study import check_study_record, load_study

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
    from storyframes_report.devices import devices_of
    from tasks.extractors import ExtractorsSettings
    from tasks.planning import Selection

    Selection((session,), tracks=None if track is None else (track,)).check(study, ExtractorsSettings())
    if session not in study.sessions:
        fail(f"{session!r} are texts, nothing that was recorded: name a session", 2)
    return {name: device for name, device in devices_of(study, session).items() if track in (None, name)}


@overlay_app.command(rich_help_panel="Look", epilog="Next: storyframes status STORE")
def overlay(
    study: StudyArgument,
    store: StoreArgument,
    session: SessionArgument,
    out: Annotated[Path, typer.Option(help="PNG file to write.")],
    frame: Annotated[int, typer.Option(min=0, help="Number of the frame, from 0.")] = 0,
    track: Annotated[str, typer.Option(help="Which camera; 'main' is the session's own video.")] = "main",
) -> None:
    """Draw landmarks and poses on one frame, to look at: writes a picture of the recording to --out."""
    need("av", "pipeline")
    from storyframes import FeatureStore
    from storyframes_report.devices import devices_of
    from storyframes_report.overlay import OverlayError, draw_overlay, write_picture
    from tasks.study import UnusableFileError, check_study_record, load_study

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
    except (OverlayError, UnusableFileError) as error:
        fail(str(error), 2)
    write_picture(picture, out)
    size = f"{picture.shape[1]}x{picture.shape[0]}"
    console().print(f"{escape(str(out))}: a picture of the recording, {size}; keep it private")
