"""``storyframes people``: propose regions for several people in one picture, as tracks of a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from flows.cli import (
    LOOK,
    ConfigOption,
    JsonOption,
    StudyArgument,
    console,
    error_console,
    fail,
    refused_if,
    show_json,
    usage_errors,
)
from tasks.inspect import counted

if TYPE_CHECKING:
    from storyframes_people.proposal import Proposal


app = typer.Typer(add_completion=False, **LOOK)


@app.command(rich_help_panel="Study", epilog="Next: storyframes check STUDY")
def people(
    study: StudyArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only this session. Repeatable.")] = None,
    seat: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SEAT=NAME",
            help="Who sits where: left=participant; left, middle, right, top, bottom, a corner (top-left), or x,y,w,h. "
            "Repeatable. Without it each stretch in which a face is seen is a track of its own.",
        ),
    ] = None,
    same_face: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=DISTANCE",
            help="Join what a model of faces, an [[embed]] with crop = 'face', finds nearer than this cosine distance.",
        ),
    ] = None,
    track: Annotated[str, typer.Option(help="Look at this track's video instead of the session's own.")] = "",
    detector: Annotated[str | None, typer.Option(help="The face detector, if several are installed.")] = None,
    rate: Annotated[
        float, typer.Option(min=0.5, max=240, help="Pictures a second in which faces are looked for.")
    ] = 10.0,
    margin: Annotated[
        float, typer.Option(min=0, max=3, help="Added on each side of the face, in its own width and height.")
    ] = 0.4,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Leave out less certain faces; by default the detector's own limit.",
        ),
    ] = None,
    preview: Annotated[
        Path | None, typer.Option(help="Folder for a picture of each session with its regions drawn on it (private).")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace boxes that this command made before.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be written, and write nothing into the study.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Find the people in each picture, and propose a region for each as a track of the study."""
    from flows import load_settings
    from storyframes_people.attribution import SeatError, parse_seats
    from storyframes_people.detectors import DetectorError, choose_detector
    from storyframes_people.joining import JoiningError, SameFace
    from storyframes_people.proposal import Options, propose_people, write_preview, write_proposals
    from tasks.extractors import ExtractionError
    from tasks.media import RecordingError
    from tasks.study import TableChangeError, UnusableFileError, load_study

    proposals, failed = [], False
    with usage_errors(), refused_if(SeatError, DetectorError, JoiningError):
        settings = load_settings(config)
        loaded = load_study(study, recordings=settings.recording.root)
        joining = SameFace.parse(same_face, settings) if same_face else None
        options = Options(parse_seats(seat or []), joining, rate, margin, min_confidence)
        if unknown := [name for name in session or [] if name not in loaded.sessions]:
            fail(f"the study has no session {', '.join(unknown)}", 2)
        videos = {
            name: tracks[track or "main"].video
            for name, tracks in loaded.tracks.items()
            if (track or "main") in tracks and (not session or name in session)
        }
        chosen = [name for name, video in videos.items() if video]
        if not chosen:
            fail(f"no session that was asked for has a video{f' of the track {track}' if track else ''}", 2)
        name, finder = choose_detector(settings, detector)
        with error_console().status("looking for faces") as spinner:
            for session_id in chosen:

                def show(done: int, total: int, session_id: str = session_id) -> None:
                    spinner.update(f"looking for faces: {escape(session_id)}, {done} of {total} pictures")

                try:
                    proposals.append(
                        propose_people(
                            loaded,
                            session_id,
                            finder,
                            getattr(settings, name, None),
                            options,
                            of=track,
                            streams=settings.recording.streams,
                            progress=show,
                        )
                    )
                except (ExtractionError, RecordingError, UnusableFileError) as error:
                    failed = True
                    error_console().print(f"[bold red]failed[/] {escape(session_id)}: {escape(str(error))}")
        if not json:
            _show(proposals)
        try:
            if not dry_run:
                write_proposals(loaded, proposals, replace=replace)
            pictures = [write_preview(proposal, preview) for proposal in proposals] if preview else []
        except TableChangeError as error:
            fail(str(error), 2)
    if json:
        show_json({"detector": name, "written": not dry_run, "recordings": [_as_json(each) for each in proposals]})
    else:
        tracks = sum(len(proposal.regions) for proposal in proposals)
        shown = console()
        for path in pictures:
            shown.print(f"preview: {escape(str(path))}", soft_wrap=True) if path else None
        if dry_run:
            shown.print(f"not written: {counted(tracks, 'track')}; without --dry-run they would be")
        else:
            shown.print(f"written: {counted(tracks, 'track')} into the table tracks of {escape(str(study))}")
    if failed:
        raise typer.Exit(1)


def _show(proposals: list[Proposal]) -> None:
    """A row for each track, and what is not sure."""
    from storyframes_people.pieces import AT_LEAST_S

    table = Table()
    for heading in ("session", "track", "seen", "doubtful", "when"):
        table.add_column(heading, justify="right" if heading in ("seen", "doubtful") else "left", overflow="fold")
    for proposal in proposals:
        for track, boxes in proposal.regions.items():
            seen_s = boxes.seconds(boxes.seen)
            table.add_row(
                escape(proposal.session_id),
                escape(track),
                f"{seen_s:.1f} s ({seen_s / proposal.length_s:.0%})",
                f"{boxes.seconds(boxes.doubtful):.1f} s",
                f"{boxes.time_s[0]:.1f} to {boxes.time_s[-1]:.1f} s",
            )
        if not proposal.regions:
            table.add_row(escape(proposal.session_id), "nobody", "", "", "")
    console().print(table)
    for proposal in proposals:
        if proposal.too_short_s:
            console().print(
                f"left out {escape(proposal.session_id)}: {proposal.too_short_s:.1f} s of faces that were followed for "
                f"less than {AT_LEAST_S:g} s each"
            )
        for reason in proposal.apart:
            console().print(f"[yellow]apart[/] {escape(proposal.session_id)}: {escape(reason)}")


def _as_json(proposal: Proposal) -> dict[str, object]:
    tracks = {
        track: {
            "region": proposal.file(track),
            "seen_s": boxes.seconds(boxes.seen),
            "doubtful_s": boxes.seconds(boxes.doubtful),
        }
        for track, boxes in proposal.regions.items()
    }
    return {
        "session_id": proposal.session_id,
        "of": proposal.of,
        "tracks": tracks,
        "apart": proposal.apart,
        "too_short_s": proposal.too_short_s,
    }
