"""Pieces of one recording joined by what their faces are to a model: dlib's, or one of ``[[embed]]``.

Each piece has the mean of its faces' embeddings, which is kept nowhere. Pieces are one person's if all of them are
nearer to each other than the user's limit, and by :data:`_MARGIN` of it nearer than to any other piece; if they are
never there at once; and if their colours are alike. Where one of this is not so, they stay apart. A model to which two
faces that are seen at the same time are about as near as the limit cannot tell these people apart: then nothing is
joined. A doubtful detection is doubtful no more if its own face is as clearly that of the person whose piece it is in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from storyframes_people.attribution import Person, are_at_once, by_themselves
from storyframes_people.detections import LOOK, look_distance
from storyframes_people.detectors import Pictures
from storyframes_people.dlib_faces import DlibFaces, DlibSettings
from storyframes_people.pieces import AT_LEAST_S, BRIDGE_S, Piece
from tasks.extractors import ExtractionError, ExtractorsSettings, ImageEmbedding

_MARGIN = 1 / 3  # of the limit, since each model has distances of its own
_LOOKED_AT = 8  # sure faces of each piece
_GOING_S = 0.4  # at the end of a piece, whose movement says where the face was going


class JoiningError(Exception):
    """What is to join pieces cannot be used; the message says what it may be."""


@dataclass(frozen=True)
class SameFace:
    """A model that tells people apart by their faces."""

    model: ImageEmbedding | DlibFaces
    limit: float  # cosine distance (1 - cosine) of two mean embeddings below which they may be one person's

    @classmethod
    def parse(cls, text: str, settings: ExtractorsSettings) -> SameFace:
        """Of ``NAME=DISTANCE``.

        Raises:
            JoiningError: the text is not that, there is no such model of faces, or it is not here.
        """
        name, _, limit = text.partition("=")
        section = next((each for each in settings.embed if each.name == name.strip()), None)
        try:
            if not 0 < float(limit) <= 1:
                raise ValueError
            model: ImageEmbedding | DlibFaces
            if name.strip() == DlibFaces.spec.name:
                model = DlibFaces(getattr(settings, DlibFaces.spec.name, DlibSettings()), settings.common)
            elif isinstance(section, ImageEmbedding.Settings) and section.crop == "face":
                model = ImageEmbedding(section, settings.common)
            else:
                raise ValueError
            model.check_tool()
        except ExtractionError as error:
            raise JoiningError(f"--same-face {text!r}: {error}") from None
        except ValueError:
            raise JoiningError(
                f"--same-face {text!r}: write NAME=DISTANCE, with dlib or the name of an [[embed]] with crop = 'face', "
                "and a cosine distance above 0 and at most 1"
            ) from None
        return cls(model, float(limit))


@dataclass(frozen=True)
class Embeddings:
    """What a model makes of the faces of n pieces: vectors of length 1."""

    means: np.ndarray  # (n, d) float64, of detections that are not doubtful; 0 without a face
    doubtful: list[np.ndarray]  # of each piece (k, d), of its doubtful detections in order; NaN without a face


def frame_by_frame(pieces: Sequence[Piece], clock: np.ndarray) -> list[Piece]:
    """The pieces with a doubtful row for each frame that is near a doubtful one, or between two pieces.

    A row is added at most :data:`BRIDGE_S` from a sure one, between two rows on the line between them, and beyond the
    piece's end, if another piece begins so soon, where the face was going. Its look is NaN.

    Args:
        clock: (T,) seconds of all frames of the recording.
    """
    begins, ends = (np.array([piece.time[row] for piece in pieces]) for row in (0, -1))
    return [_with_rows(piece, clock, begins, ends) for piece in pieces]


def _with_rows(piece: Piece, clock: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> Piece:
    time, sure = piece.time, piece.time[~piece.doubtful]
    before, after = time[0] - ends, begins - time[-1]
    first, last = (gap.max(initial=0, where=(gap > 0) & (gap <= BRIDGE_S + 1e-6)) for gap in (before, after))
    added = clock[(clock > time[0] - first) & (clock < time[-1] + last) & ~np.isin(clock, time)]
    uncertain = np.concatenate([[True], piece.doubtful, [True]])
    left = np.searchsorted(time, added)  # the row before, of the padded ones
    next_sure = np.searchsorted(sure, added)
    padded = np.concatenate([[-np.inf], sure, [np.inf]])
    near = np.minimum(added - padded[next_sure], padded[next_sure + 1] - added) <= BRIDGE_S
    added = added[(uncertain[left] | uncertain[left + 1]) & near]
    box = np.column_stack([np.interp(added, time, side) for side in piece.box.T])
    for rows, beyond in (
        (time <= time[0] + _GOING_S, added < time[0]),
        (time >= time[-1] - _GOING_S, added > time[-1]),
    ):
        if beyond.any() and rows.sum() > 1:
            slope, level = np.polyfit(time[rows] - time[0], piece.box[rows, :2], 1)
            box[beyond, :2] = level + (added[beyond] - time[0])[:, None] * slope
    order = np.argsort(np.concatenate([time, added]), kind="stable")
    unseen = np.full((len(added), piece.looks.shape[1]), np.nan, np.float32)
    parts = ((time, added), (piece.box, box), (piece.looks, unseen), (piece.doubtful, np.ones(len(added), bool)))
    return Piece(*(np.concatenate(both)[order] for both in parts))


def embed_pieces(pictures: Pictures, pieces: Sequence[Piece], model: ImageEmbedding | DlibFaces) -> Embeddings:
    """The embeddings of a recording's pieces, which is decoded once for it.

    Raises:
        ExtractionError: the model cannot be run, or gives numbers that are not finite.
        RecordingError: the recording does not decode.
    """
    places: list[tuple[int, int]] = []

    def faces() -> Iterator[np.ndarray]:
        for number, row, face in _faces(pictures, pieces, model):
            places.append((number, row))
            yield face

    return in_pieces(pieces, places, _of_length_1(model.embed(faces())))


def in_pieces(pieces: Sequence[Piece], places: Sequence[tuple[int, int]], vectors: np.ndarray) -> Embeddings:
    """Embeddings (N, d) of length 1 by the pieces that their faces are in.

    Args:
        places: of each the number of its piece, and its row in it.
    """
    means = np.zeros((len(pieces), vectors.shape[1]))
    doubtful = [np.full((piece.doubtful.sum(), vectors.shape[1]), np.nan) for piece in pieces]
    numbers = [np.cumsum(piece.doubtful) - 1 for piece in pieces]
    for (number, row), vector in zip(places, vectors, strict=True):
        if pieces[number].doubtful[row]:
            doubtful[number][numbers[number][row]] = vector
        else:
            means[number] += vector
    return Embeddings(_of_length_1(means), doubtful)


def _of_length_1(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _faces(
    pictures: Pictures, pieces: Sequence[Piece], model: ImageEmbedding | DlibFaces
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Square pictures of the pieces' faces, each with its piece's number and its row; the recording is decoded once."""
    wanted: dict[float, list[tuple[int, int, np.ndarray]]] = defaultdict(list)
    for number, piece in enumerate(pieces):
        for row in rows_to_embed(piece):
            left, top, width, height = piece.box[row]
            place = [left + width / 2, top + height / 2, max(width, height) * (1 + 2 * model.settings.margin)]
            wanted[float(piece.time[row])].append((number, row, np.array(place)))
    pictures = replace(pictures, frames=np.flatnonzero(np.isin(pictures.clock, list(wanted))))
    for time, rgb in zip(pictures.time, pictures, strict=True):
        for number, row, square in wanted[float(time)]:
            face = model.face_in(rgb, square)
            if face is not None:
                yield number, row, face


def rows_to_embed(piece: Piece) -> list[int]:
    """The detections of a piece that are looked at: a few sure ones, evenly chosen, and all that are doubtful."""
    sure = np.flatnonzero(~piece.doubtful)
    few = sure[np.linspace(0, len(sure) - 1, min(_LOOKED_AT, len(sure))).astype(int)]
    return [*few.tolist(), *np.flatnonzero(piece.doubtful).tolist()]


def joined(pieces: Sequence[Piece], embeddings: Embeddings, limit: float) -> tuple[list[Person], list[str]]:
    """People without a name, p1, p2, …, and why pieces that are near stay apart nevertheless.

    A piece that is too short to be somebody is left out if it is not clearly that of one of the people.

    Args:
        limit: see :class:`SameFace`.
    """
    distance, margin = 1 - embeddings.means @ embeddings.means.T, _MARGIN * limit
    unknown = np.all(embeddings.means == 0, axis=1)
    lasting = np.array([piece.sure_s >= AT_LEAST_S for piece in pieces])
    distance[unknown | unknown[:, None]] = np.inf
    at_once = np.array([[are_at_once(a, b) and a is not b for b in pieces] for a in pieces])
    alike = np.array([[look_distance(a.look, b.look) <= LOOK for b in pieces] for a in pieces])
    nearest = float(distance[at_once & lasting & lasting[:, None]].min(initial=np.inf))
    if nearest < limit + margin:
        return by_themselves([_seen(piece) for piece, lasts in zip(pieces, lasting, strict=True) if lasts]), [
            f"nothing is joined: two faces that are seen at the same time have a distance of {nearest:.2g}, which is "
            f"not {margin:.2g} above the limit of {limit:g}"
        ]
    near = (distance < limit) | np.eye(len(pieces), dtype=bool)
    groups: list[np.ndarray] = []
    reasons = [
        f"{piece.time[0]:.1f} to {piece.time[-1]:.1f} s: no face of it is inside the picture, so nothing joins it"
        for piece, is_unknown in zip(pieces, unknown & lasting, strict=True)
        if is_unknown
    ]
    taken: set[int] = set()
    for number in np.flatnonzero(lasting).tolist():
        if number in taken:
            continue
        group, others = np.flatnonzero(near[number] & lasting), np.flatnonzero(~near[number] & lasting)
        within = np.ix_(group, group)
        is_clear = distance[within].max() + margin <= distance[np.ix_(group, others)].min(initial=np.inf)
        is_one = is_clear and (near[group] == near[number])[:, lasting].all() and alike[within].all()
        if len(group) > 1 and not is_one:
            first, last = pieces[number].time[[0, -1]]
            reasons.append(f"{first:.1f} to {last:.1f} s: near another face, but not surely the same")
            group = np.array([number])
        taken.update(group.tolist())
        groups.append(group)
    means = _of_length_1(np.array([embeddings.means[group].sum(axis=0) for group in groups]))
    for number in np.flatnonzero(~lasting & ~unknown).tolist():
        to_people = 1 - means @ embeddings.means[number]
        nearest_person = int(to_people.argmin())
        group, others = groups[nearest_person], np.delete(to_people, nearest_person)
        is_clear = to_people[nearest_person] < min(limit, others.min(initial=np.inf) - margin)
        if is_clear and alike[number, group].all() and not at_once[number, group].any():
            groups[nearest_person] = np.append(group, number)
    people = []
    begins = [float(piece.time[~piece.doubtful][0]) for piece in pieces]
    for number, group in enumerate(groups):
        settled: list[Piece] = []
        for member in sorted(group.tolist(), key=begins.__getitem__):
            piece = _settled(pieces[member], 1 - embeddings.doubtful[member] @ means.T, number, limit)
            if settled:  # what is surely hers is not looked for a second time, but a piece keeps its sure detections
                last = settled[-1]
                over = last.time[~last.doubtful & (last.time < begins[member])][-1]
                piece = _part(piece, piece.time > over)
            settled.append(piece)
        people.append(Person(f"p{number + 1}", tuple(settled)))
    return people, reasons


def _part(piece: Piece, rows: np.ndarray | slice) -> Piece:
    return Piece(piece.time[rows], piece.box[rows], piece.looks[rows], piece.doubtful[rows])


def _settled(piece: Piece, distance: np.ndarray, person: int, limit: float) -> Piece:
    """The piece without doubt where the distances (k, people) of its doubtful rows say that it is this person."""
    own, others = distance[:, person], np.delete(distance, person, axis=1).min(axis=1, initial=np.inf)
    doubtful = piece.doubtful.copy()
    step_s = np.diff(piece.time, append=piece.time[-1])
    hidden = step_s > 1.5 * np.median(step_s)  # after it: the box may show who is in front
    doubtful[doubtful] = ~((own < limit) & (own + _MARGIN * limit <= others)) | hidden[doubtful]  # without a face, NaN
    return _seen(replace(piece, doubtful=doubtful))


def _seen(piece: Piece) -> Piece:
    """The piece without what :func:`frame_by_frame` added before and after it, as far as that is not proven hers."""
    kept = np.flatnonzero(~piece.doubtful | np.isfinite(piece.looks).all(axis=1))
    return _part(piece, slice(kept[0], kept[-1] + 1))
