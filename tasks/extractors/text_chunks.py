"""Texts that are longer than a model reads, in chunks that it reads whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Chunk:
    """A part of a text.

    Attributes:
        text: its words, as they stand in the text.
        pieces: word pieces that the tokenizer makes of them, without its marks of beginning and end.
    """

    text: str
    pieces: int


def chunks(text: str, tokenizer: Any, most_pieces: int) -> list[Chunk]:
    """The text in as few chunks as can be, cut between words; one chunk where the model reads it whole.

    Args:
        text: any text.
        tokenizer: a fast tokenizer of transformers.
        most_pieces: of a chunk. Only a single word that has more is cut inside.
    """
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    spans, words = encoded["offset_mapping"], encoded.word_ids()
    found, first = [], 0
    while len(spans) - first > most_pieces:
        stop = first + most_pieces
        while stop > first and words[stop] == words[stop - 1]:  # inside a word
            stop -= 1
        stop = stop if stop > first else first + most_pieces
        found.append(Chunk(text[spans[first][0] : spans[stop][0]].rstrip(), stop - first))
        first = stop
    rest = text[spans[first][0] :] if found else text
    return [*found, Chunk(rest, len(spans) - first)]


def embed_in_chunks(
    texts: Sequence[Sequence[Chunk]], embed: Callable[[Sequence[str]], np.ndarray], *, unit_length: bool = True
) -> np.ndarray:
    """One vector for each text: the mean of its chunks' vectors, by their word pieces.

    Args:
        texts: the chunks of each.
        embed: texts in, (n, width) float32 out.
        unit_length: these are of unit length, and the mean is made so again.

    Returns:
        (texts, width) float32.
    """
    vectors = embed([chunk.text for text in texts for chunk in text])
    means, first = np.empty((len(texts), vectors.shape[1]), np.float32), 0
    for row, text in enumerate(texts):
        part = vectors[first : first + len(text)].astype(np.float64)
        first += len(text)
        if len(text) == 1:
            means[row] = part[0]  # as the model gives it, to the bit
            continue
        mean = np.average(part, axis=0, weights=[chunk.pieces for chunk in text])
        means[row] = mean / np.linalg.norm(mean) if unit_length else mean
    return means
