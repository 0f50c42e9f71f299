"""Scores of story pairs by the embeddings of their texts, computed on this machine: nothing is sent anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd

from storyframes.store import write_atomically
from storyframes_empathy.pairs.table import read_texts
from tasks.extractors import SbertSettings

Encode = Callable[[Sequence[str]], tuple[np.ndarray, list[int]]]


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs with the cosine of their texts' embeddings.

    Attributes:
        table: ``row`` (of the file, as a spreadsheet shows it), the labels that there are by aspect, and ``sbert``. No
            text.
        texts: how many different ones there were.
        in_chunks: how many of them are longer than the model reads, and were embedded in chunks.
    """

    table: pd.DataFrame
    texts: int
    in_chunks: int


def score_pairs(
    path: Path, settings: SbertSettings | None = None, *, summaries: bool = False, encode: Encode | None = None
) -> ScoredPairs:
    """Score the pairs of a table.

    Args:
        path: CSV or Parquet with the columns story_a and story_b, or those of the published EmpathicStories files.
        settings: which model; by default all-MiniLM-L6-v2.
        summaries: compare the columns summary_a and summary_b instead.
        encode: in place of the model: texts in, (n, width) vectors and how many chunks each took out.

    Raises:
        TableFaultError: with everything that is wrong: no such columns, rows without a text.
        ExtractionError: the model is not there.
        OSError: the table cannot be read.
    """
    texts = read_texts(path, summaries=summaries)
    sides = (texts.a, texts.b)
    different = list(dict.fromkeys(text for side in sides for text in side))
    vectors, chunks = encode(different) if encode else (settings or SbertSettings()).encode_whole(different)
    places = {text: at for at, text in enumerate(different)}
    vectors = vectors.astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)  # not every model gives unit vectors
    a, b = (vectors[[places[text] for text in side]] for side in sides)
    scored = texts.labels.copy()
    scored["sbert"] = np.clip((a * b).sum(axis=1), -1, 1)  # rounding may go a little beyond
    return ScoredPairs(scored, len(different), sum(count > 1 for count in chunks))


def write_table(table: pd.DataFrame, out: Path) -> None:
    """Write the table as CSV, or as Parquet where the name ends so; readable by its owner alone.

    Raises:
        OSError: it cannot be written.
    """
    if out.suffix == ".parquet":
        buffer = BytesIO()
        table.to_parquet(buffer, index=False)
        content = buffer.getvalue()
    else:
        content = table.to_csv(index=False).encode()
    write_atomically(out, content)
