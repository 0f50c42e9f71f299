"""Who is in a recording, as regions: from the video to files of boxes and rows of the table of tracks."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from storyframes import MAIN
from storyframes.store import write_atomically
from storyframes_people.attribution import Person, Seats, by_seats, by_themselves, free_numbers, with_names_of_seats
from storyframes_people.boxes import MARGIN, RULES, csv_of, regions_of
from storyframes_people.detections import detect_faces
from storyframes_people.detectors import FaceDetector, choose_pictures, least_confidence
from storyframes_people.joining import SameFace, embed_pieces, frame_by_frame, joined
from storyframes_people.pieces import AT_LEAST_S, Piece, find_pieces
from tasks.forgetting import Asked, Trace
from tasks.media import RecordingError, StreamChoice, read_frames
from tasks.study import Boxes, ChangedTables, Study, TableChangeError

FOLDER = "regions"
_COLOURS = ((255, 160, 0), (255, 0, 120), (120, 0, 255), (0, 200, 255), (240, 228, 66))  # of boxes, RGB
_SAME_TIME_S = 1e-6


@dataclass(frozen=True)
class Options:
    """How people are looked for.

    Attributes:
        seats: areas of the picture by name of who sits there; without any, each piece is a track of its own.
        same_face: the model that joins pieces of one face; who has no seat is a track all the same.
        rate: pictures a second in which faces are looked for; boxes between them are interpolated.
        margin: see ``boxes.region``.
        min_confidence: faces of which the detector is less sure are left out; None: as the detector declares. Between
            a lower one and the detector's own a face gets no name, and ends no surer face's piece.
    """

    seats: Seats = field(default_factory=dict)
    same_face: SameFace | None = None
    rate: float = 10.0
    margin: float = MARGIN
    min_confidence: float | None = None


@dataclass(frozen=True)
class Proposal:
    """The people of one recording."""

    session_id: str
    of: str  # the track of the recording; empty for the session's own
    video: Path
    regions: Mapping[str, Boxes]  # by track
    length_s: float
    seats: tuple[str, ...] = ()  # names that its tracks may have beside p1, p2, …, found or not
    apart: tuple[str, ...] = ()  # why a model of faces did not join pieces, or why people have no seat's name
    streams: StreamChoice = StreamChoice.FIRST  # which picture of the video
    too_short_s: float = 0.0  # of faces that were followed for less than :data:`AT_LEAST_S`, and are nobody's

    def file(self, track: str) -> str:
        """The file of boxes of a track, as the tables name it."""
        return f"{FOLDER}/{self.session_id}@{track}.csv"


def propose_people(
    study: Study,
    session_id: str,
    detector: FaceDetector,
    settings: Any,
    options: Options,
    *,
    of: str = "",
    streams: StreamChoice = StreamChoice.FIRST,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Proposal:
    """Look for the people of one recording.

    Args:
        settings: of the detector.
        of: the track whose video it is; empty for the session's own.
        streams: which picture of a file that has several.

    Raises:
        UnusableFileError: the recording has no video, or it is not there.
        ExtractionError: the detector or the model of faces failed.
        RecordingError: the recording does not decode.
    """
    named = study.tracks[session_id][of or MAIN].video
    assert named is not None  # the caller has looked
    video = study.path(named)
    pictures = choose_pictures(video, options.rate, streams)
    own = least_confidence(detector)
    least = own if options.min_confidence is None else options.min_confidence
    faces = detect_faces(pictures, detector, settings, least, progress)
    found = find_pieces(faces.within(max(least, own)), also_short=True)
    unsure = find_pieces(faces.within(least, own))
    pieces = [piece for piece in found if piece.sure_s >= AT_LEAST_S]
    size = pictures.width, pictures.height
    people, apart = by_themselves(pieces), list[str]()
    if options.same_face and pieces:
        closely = frame_by_frame(found, pictures.clock)
        embeddings = embed_pieces(pictures, closely, options.same_face.model)
        people, apart = joined(closely, embeddings, options.same_face.limit)
    if options.seats:
        if len(people) < len(pieces) or (options.same_face and not apart):
            people, without_seat = with_names_of_seats(people, options.seats, size)
        else:  # nothing was joined by faces
            people, without_seat = by_seats(found, options.seats, size)
        apart += without_seat
    numbers = free_numbers({*options.seats, *(person.name for person in people)})
    for piece in unsure:
        people.append(Person(next(numbers), (piece,)))
        when = f"{piece.time[0]:.1f} to {piece.time[-1]:.1f} s"
        apart.append(f"{people[-1].name}, {when}: the detector is never as sure as {own:g} that it is a face")
    regions = regions_of(people, size, pictures.frame_s, options.margin)
    length_s = float(pictures.time[-1]) + pictures.frame_s
    return Proposal(
        session_id,
        of,
        video,
        regions,
        length_s,
        tuple(options.seats),
        tuple(apart),
        streams,
        too_short_s=sum(piece.sure_s for piece in found if piece.sure_s < AT_LEAST_S and not _is_kept(piece, people)),
    )


def _is_kept(piece: Piece, people: Sequence[Person]) -> bool:
    """Whether a piece is part of a person's, as a model of faces joins short ones."""
    time, box = piece.time[~piece.doubtful][0], piece.box[~piece.doubtful][0]
    return any((own.box[own.time == time] == box).all(axis=1).any() for person in people for own in person.pieces)


def write_proposals(study: Study, proposals: Sequence[Proposal], *, replace: bool = False) -> None:
    """Write the files of boxes, then add their tracks to the study's table of tracks.

    Raises:
        TableChangeError: the table has such a track already (unless ``replace``, and this command made it of the same
            recording), a file is there that it would overwrite, a track that it made before is not found any more, the
            table cannot be changed, or the study would not be valid; then nothing is changed.
        OSError: a file cannot be written.
    """
    changed = ChangedTables(study.root)
    table = changed.open("tracks")
    existing = {table.key_of(row, "track"): row for row in table.rows}
    files = {(row.get("region") or "").strip() for row in table.rows}
    rows = []
    for proposal in proposals:
        for track in proposal.regions:
            row, file = existing.get((proposal.session_id, track)), proposal.file(track)
            if row is None:
                if file in files or (not replace and (study.root / file).exists()):
                    raise TableChangeError(
                        f"{file}: is there already: nothing is written; "
                        + (
                            "it is the region of a track with another name: rename the file, and in its row"
                            if file in files
                            else "--replace writes it anew"
                        )
                    )
                cells = {"session_id": proposal.session_id, "track": track, "region": file}
                rows.append(cells | ({"of": proposal.of} if proposal.of else {}))
            elif not _made(proposal, track, row):
                raise TableChangeError(
                    f"{table.name}: {proposal.session_id} has a track {track} that was not made by this command of "
                    "this recording: nothing is written; choose another name with --seat"
                )
            elif not replace:
                raise TableChangeError(
                    f"{table.name}: {proposal.session_id} has the track {track} already: nothing is written; --replace "
                    "writes its boxes anew"
                )
        if replace:
            _refuse_old_tracks(table.name, proposal, existing)
    contents = {p.file(track): csv_of(boxes) for p in proposals for track, boxes in p.regions.items()}
    if rows:
        table.add(rows)
        changed.take(table)
        changed.check("tracks")
    folder = study.root / FOLDER
    if folder.is_symlink():
        raise TableChangeError(f"{FOLDER}: is a link, through which files would be written elsewhere: make it a folder")
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, content in contents.items():  # before the table, which names them
        write_atomically(study.root / name, content)
        os.chmod(study.root / name, 0o600)
    changed.put_in_place()


def _made(proposal: Proposal, track: str, row: Mapping[str, Any]) -> bool:
    """Whether a row of the table of tracks is what this command writes of the recording."""
    cells: dict[str, str] = {name: (row.get(name) or "").strip() for name in ("region", "of")}
    return cells["region"] == proposal.file(track) and (cells["of"] or MAIN) == (proposal.of or MAIN)


def _refuse_old_tracks(table: str, proposal: Proposal, existing: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    """Refuse to leave boxes of an earlier run beside the new ones: they may show whom these show."""
    old = [
        track
        for (session_id, track), row in existing.items()
        if session_id == proposal.session_id
        and track not in proposal.regions
        and (track in proposal.seats or re.fullmatch(r"p\d+", track))
        and _made(proposal, track, row)
    ]
    if old:
        raise TableChangeError(
            f"{table}: {proposal.session_id} has tracks of an earlier run that this one does not find "
            f"({', '.join(old)}): nothing is written; remove their rows first, or rename their files of boxes to keep "
            "them"
        )


def write_preview(proposal: Proposal, folder: Path) -> Path | None:
    """Draw the regions on the frame that shows most people, with their tracks' names; None where nobody was found.

    Raises:
        OSError: the picture cannot be written.
    """
    if not proposal.regions:
        return None
    times = np.concatenate([boxes.time_s[boxes.seen] for boxes in proposal.regions.values()])
    shown = {track: boxes.at(times, 0) for track, boxes in proposal.regions.items()}
    best = int(np.isfinite([boxes[:, 0] for boxes in shown.values()]).sum(axis=0).argmax())
    picture = _read_frame(proposal.video, float(times[best]), proposal.streams)
    size = np.array([picture.shape[1], picture.shape[0]] * 2)
    _draw_boxes(picture, {track: boxes[best] * size for track, boxes in shown.items() if np.isfinite(boxes[best, 0])})
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{proposal.session_id}{f'@{proposal.of}' if proposal.of else ''}.png"
    _, content = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    write_atomically(path, content.tobytes())
    return path


def _read_frame(video: Path, time: float, streams: StreamChoice) -> np.ndarray:
    """The frame that is shown at this second of the recording: (height, width, 3) uint8 RGB."""
    for batch in read_frames(video, 16, allow_truncated=True, streams=streams):
        if batch.time[-1] >= time - _SAME_TIME_S:
            return batch.rgb[int(np.argmin(np.abs(batch.time - time)))].copy()
    raise RecordingError(f"{video.name} ends before {time:.3f} s")


def _draw_boxes(picture: np.ndarray, boxes: Mapping[str, np.ndarray]) -> None:
    """Draw boxes by name, (4,) each: left, top, width, height in pixels, on an RGB picture."""
    for (name, (left, top, width, height)), colour in zip(boxes.items(), cycle(_COLOURS), strict=False):
        corner = round(float(left)), round(float(top))
        cv2.rectangle(picture, corner, (round(float(left + width)), round(float(top + height))), colour, 2, cv2.LINE_AA)
        where = corner[0] + 3, corner[1] + 16
        cv2.putText(picture, name, where, cv2.FONT_HERSHEY_SIMPLEX, 0.5, colour, 1, cv2.LINE_AA)


def find_forgotten(asked: Asked) -> Iterator[Trace]:
    """The files of boxes of forgotten sessions and tracks."""
    for path in sorted((asked.study / FOLDER).glob("*@*.csv")):
        session, _, track = path.stem.partition("@")
        if asked.scope.has(session, track):
            yield Trace.of_file(path, "boxes of a person")


def find_outdated(study: Study) -> Iterator[str]:
    """Name the boxes that this command made by older rules, and the command that makes them again."""
    for session_id, tracks in study.tracks.items():
        for track in tracks:
            file = f"{FOLDER}/{session_id}@{track}.csv"
            if tracks[track].region != file or not (path := study.root / file).is_file():
                continue
            with path.open(errors="replace") as opened:
                header, first = (opened.readline().strip().split(",") for _ in range(2))
            if dict(zip(header, first, strict=False)).get("rules") != str(RULES):
                command = f"storyframes people {shlex.quote(str(study.root))} --session {shlex.quote(session_id)}"
                command += f" --track {shlex.quote(of)}" if (of := tracks[track].of or MAIN) != MAIN else ""
                yield (
                    f"{file}: made by older rules, by which a shirt or a door may be a face: look at the recording "
                    f"again with '{command} --replace', with the seats of before; features of the region are then due"
                )
