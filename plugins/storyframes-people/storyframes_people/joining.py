"""Pieces of one recording joined by what their faces are to a model: one of the configuration's ``[[embed]]``.

Each piece has the mean of its faces' embeddings, which is kept nowhere. Pieces are one person's if all of them are
nearer to each other than the user's limit, and by :data:`MARGIN` nearer than to any other piece; if they are never
there at once; and if their colours are alike. Where one of this is not so, they stay apart. A model to which two faces
that are seen at the same time are about as near as the limit cannot tell these people apart: then nothing is joined.
A doubtful detection is doubtful no more if its own face is as clearly that of the person whose piece it is in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from storyframes_people.attribution import Person, are_at_once, by_themselves
from storyframes_people.detections import LOOK, look_distance
from storyframes_people.detectors import Pictures
from storyframes_people.pieces import Piece
from tasks.extractors.base import ExtractionError
from tasks.extractors.image.extractor import ImageEmbedding
from tasks.extractors.image.faces import Faces
from tasks.extractors.image.settings import Crop, ImageSettings
from tasks.extractors.registry import ExtractorsSettings

MARGIN = 0.1
_LOOKED_AT = 8  # sure faces of each piece


class JoiningError(Exception):
    """What is to join pieces cannot be used; the message says what it may be."""


@dataclass(frozen=True)
class SameFace:
    """A model that tells people apart by their faces."""

    model: ImageEmbedding
    limit: float  # cosine distance (1 - cosine) of two mean embeddings below which they may be one person's

    @classmethod
    def parse(cls, text: str, settings: ExtractorsSettings) -> SameFace:
        """Of ``NAME=DISTANCE``.

        Raises:
            JoiningError: the text is not that, there is no such ``[[embed]]`` of faces, or its model is not here.
        """
        name, _, limit = text.partition("=")
        section = next((each for each in settings.embed if each.name == name.strip()), None)
        try:
            if not (isinstance(section, ImageSettings) and section.crop is Crop.FACE and 0 < float(limit) <= 1):
                raise ValueError
            model = ImageEmbedding(section, settings.common)
            model.check_tool()
        except ExtractionError as error:
            raise JoiningError(f"--same-face {text!r}: {error}") from None
        except ValueError:
            raise JoiningError(
                f"--same-face {text!r}: write NAME=DISTANCE, with the name of an [[embed]] with crop = 'face', and a "
                "cosine distance above 0 and at most 1"
            ) from None
        return cls(model, float(limit))


@dataclass(frozen=True)
class Embeddings:
    """What a model makes of the faces of n pieces: vectors of length 1."""

    means: np.ndarray  # (n, d) float64, of detections that are not doubtful
    doubtful: list[np.ndarray]  # of each piece (k, d), of its doubtful detections in order; NaN without a face


def embed_pieces(pictures: Pictures, pieces: Sequence[Piece], model: ImageEmbedding) -> Embeddings:
    """The embeddings of a recording's pieces, which is decoded once for it.

    Raises:
        ExtractionError: the model cannot be run, or gives numbers that are not finite.
        RecordingError: the recording does not decode.
    """
    faces = list(_faces(pictures, pieces, model.settings.margin))
    rows = _of_length_1(model.embed(face for _, _, face in faces))
    return in_pieces(pieces, [(number, row) for number, row, _ in faces], rows)


def in_pieces(pieces: Sequence[Piece], places: Sequence[tuple[int, int]], vectors: np.ndarray) -> Embeddings:
    """Embeddings (N, d) of length 1 by the pieces that their faces are in.

    Args:
        places: of each the number of its piece, and its row in it.
    """
    means = np.zeros((len(pieces), vectors.shape[1]))
    of_rows = [np.full((len(piece.time), vectors.shape[1]), np.nan) for piece in pieces]
    for (number, row), vector in zip(places, vectors, strict=True):
        of_rows[number][row] = vector
        if not pieces[number].doubtful[row]:
            means[number] += vector
    doubtful = [rows[piece.doubtful] for rows, piece in zip(of_rows, pieces, strict=True)]
    return Embeddings(_of_length_1(means), doubtful)


def _of_length_1(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _faces(pictures: Pictures, pieces: Sequence[Piece], margin: float) -> Iterator[tuple[int, int, np.ndarray]]:
    """Square pictures of the pieces' faces, each with its piece's number and its row; the recording is decoded once."""
    wanted: dict[float, list[tuple[int, int, np.ndarray]]] = defaultdict(list)
    for number, piece in enumerate(pieces):
        for row in rows_to_embed(piece):
            left, top, width, height = piece.box[row]
            place = [left + width / 2, top + height / 2, max(width, height) * (1 + 2 * margin)]
            wanted[float(piece.time[row])].append((number, row, np.array([place])))
    for time, rgb in zip(pictures.time, pictures, strict=True):
        for number, row, square in wanted.get(float(time), ()):
            face = Faces(square).cut(0, rgb)
            if face is not None:
                yield number, row, face


def rows_to_embed(piece: Piece) -> list[int]:
    """The detections of a piece that are looked at: a few sure ones, evenly chosen, and all that are doubtful."""
    sure = np.flatnonzero(~piece.doubtful)
    few = sure[np.linspace(0, len(sure) - 1, min(_LOOKED_AT, len(sure))).astype(int)]
    return [*few.tolist(), *np.flatnonzero(piece.doubtful).tolist()]


def joined(pieces: Sequence[Piece], embeddings: Embeddings, limit: float) -> tuple[list[Person], list[str]]:
    """People without a name, p1, p2, …, and why pieces that are near stay apart nevertheless.

    Args:
        limit: see :class:`SameFace`.
    """
    distance = 1 - embeddings.means @ embeddings.means.T
    at_once = [[are_at_once(a, b) and a is not b for b in pieces] for a in pieces]
    alike = np.array([[look_distance(a.look, b.look) <= LOOK for b in pieces] for a in pieces])
    if (nearest := float(distance[np.array(at_once)].min(initial=np.inf))) < limit + MARGIN:
        return by_themselves(pieces), [
            f"nothing is joined: two faces that are seen at the same time have a distance of {nearest:.2f}, which is "
            f"not {MARGIN:g} above the limit of {limit:g}"
        ]
    near = (distance < limit) | np.eye(len(pieces), dtype=bool)
    groups: list[np.ndarray] = []
    reasons = []
    taken: set[int] = set()
    for number in range(len(pieces)):
        if number in taken:
            continue
        group, others = np.flatnonzero(near[number]), np.flatnonzero(~near[number])
        within = np.ix_(group, group)
        is_clear = distance[within].max() + MARGIN <= distance[np.ix_(group, others)].min(initial=np.inf)
        is_one = is_clear and (near[group] == near[number]).all() and alike[within].all()
        if len(group) > 1 and not is_one:
            first, last = pieces[number].time[[0, -1]]
            reasons.append(f"{first:.1f} to {last:.1f} s: near another face, but not surely the same")
            group = np.array([number])
        taken.update(group.tolist())
        groups.append(group)
    means = _of_length_1(np.array([embeddings.means[group].sum(axis=0) for group in groups]))
    people = []
    for number, group in enumerate(groups):
        distances = [1 - embeddings.doubtful[member] @ means.T for member in group]
        settled = [
            _settled(pieces[row], each, number, limit) for row, each in zip(group.tolist(), distances, strict=True)
        ]
        people.append(Person(f"p{number + 1}", tuple(settled)))
    return people, reasons


def _settled(piece: Piece, distance: np.ndarray, person: int, limit: float) -> Piece:
    """The piece without doubt where the distances (k, people) of its doubtful detections say that it is this person."""
    own, others = distance[:, person], np.delete(distance, person, axis=1).min(axis=1, initial=np.inf)
    doubtful = piece.doubtful.copy()
    step_s = np.diff(piece.time, append=np.inf)
    hidden = step_s > 1.5 * np.median(step_s)  # after it, also the last: the box may show who is in front
    doubtful[doubtful] = ~((own < limit) & (own + MARGIN <= others)) | hidden[doubtful]  # without a face, NaN
    return replace(piece, doubtful=doubtful)
