"""Scores of story pairs by the embeddings of their texts, computed on this machine: nothing is sent anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd

from storyframes.store.durable import write_atomically
from tasks.extractors.sbert import SbertSettings, encode_whole
from tasks.pairs.table import Aspect
from tasks.statistics.rating_table import RatingTable, TableFaultError

Encode = Callable[[Sequence[str]], tuple[np.ndarray, list[int]]]
_TEXTS = (("story_a", "story_b"), ("story_A", "story_B"))
_SUMMARIES = (("summary_a", "summary_b"), ("story_A_summary", "story_B_summary"))


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
    table = RatingTable(path)
    wanted = _SUMMARIES if summaries else _TEXTS
    columns = next((names for names in wanted if set(names) <= set(table.columns)), None)
    if columns is None:
        ways = " or ".join(" and ".join(names) for names in wanted)
        raise TableFaultError(table.name, [f"has no columns {ways}"])
    sides = [table.texts(name) for name in columns]
    for name, texts in zip(columns, sides, strict=True):
        for place, text in enumerate(texts):
            if not text:
                table.refuse_row(place, f"has no {name}")
    labels = [(aspect, name) for aspect in Aspect for name in (str(aspect), aspect.published) if name in table.columns]
    numbers = table.numbers([name for _, name in labels])
    table.check()
    different = list(dict.fromkeys(text for texts in sides for text in texts))
    vectors, chunks = encode(different) if encode else encode_whole(different, settings or SbertSettings())
    places = {text: at for at, text in enumerate(different)}
    vectors = vectors.astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)  # not every model gives unit vectors
    a, b = (vectors[[places[text] for text in texts]] for texts in sides)
    scored = pd.DataFrame({"row": table.row_numbers})
    for at, (aspect, _) in enumerate(labels):
        scored[str(aspect)] = numbers[:, at]
    scored["sbert"] = np.clip((a * b).sum(axis=1), -1, 1)  # rounding may go a little beyond
    return ScoredPairs(scored, len(different), sum(count > 1 for count in chunks))


def write_scored(scored: ScoredPairs, out: Path) -> None:
    """Write the table as CSV, or as Parquet where the name ends so; readable by its owner alone.

    Raises:
        OSError: it cannot be written.
    """
    if out.suffix == ".parquet":
        buffer = BytesIO()
        scored.table.to_parquet(buffer, index=False)
        content = buffer.getvalue()
    else:
        content = scored.table.to_csv(index=False).encode()
    write_atomically(out, content)
