"""The formats that clips are exported to: MMSA's pickle, Parquet for ``datasets``, and tar shards for ``webdataset``.

Each writer gets the clips of each split. Arrays are those of :class:`ClipDataset`, with their masks and
lengths; what a format cannot hold is in its ``LOST``, which the export's README quotes.
"""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from storyframes import ClipDataset
from storyframes_release.export.formats import ExportError

_AT_ONCE = 16  # clips that are read together
_SHARD_BYTES = 2**28
MMSA_FILE = "mmsa.pkl"
_MMSA_SPLITS = {"train": "train", "val": "valid", "test": "test"}
MODALITIES = {"text": "glove", "audio": "opensmile", "vision": "openface"}
"""The parts of MMSA's pickle, and the features that they are unless others are named in this order."""

OPENED = {
    "mmsa": f"""
`{MMSA_FILE}` is a pickle in MMSA's layout: `MMSA_run("tfn", "mosi", custom_feature="{MMSA_FILE}")`. Every clip is as
long as the longest. A pickle runs code when it is opened: open only your own.
""",
    "datasets": """
`datasets.load_dataset(folder, split="train", streaming=True)`, where the folder is this one: a row is a clip, with its
row of the clip index; arrays are lists of fixed length (`.with_format("numpy")`). An index's column that is called like
an array is `clip_<column>`. pandas and polars read the Parquet files as well.
""",
    "webdataset": """
`webdataset.WebDataset("train-000000.tar").decode()`: a sample has `<field>.npy` for each array, and `json`, its row of
the clip index. `tar -tf` lists them.
""",
}
LOST = {
    "mmsa": """
MMSA reads no masks: rows that are no measurement, missing values and padding are all 0. (The pickle has the masks as
`text_mask`, `audio_mask`, `vision_mask`, which MMSA ignores.) Names of columns, times and units are not in it, and of
labels only one. Its accuracies of two, three, five and seven classes go by the label's sign and size: they mean nothing
unless the label is centred at 0, from -3 to 3; its MAE and correlation hold.
""",
    "datasets": """
Names of columns, units and caveats are not in the files. Overlapping clips repeat their frames. float16 is float32.
""",
    "webdataset": """
Names of columns, units and caveats are not in the files. Overlapping clips repeat their frames. Samples are read in
order: shuffle them (`.shuffle(1000)`), as neighbouring clips overlap.
""",
}


class Tokenizer(Protocol):
    """Splits words into the pieces that a model of BERT's kind reads."""

    about: dict[str, str]
    """What it is, without its path."""
    padding: int
    """The id of what stands after a text's end."""
    longest: int
    """The pieces that the model reads."""

    def __call__(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """The id of each piece, with the marks of beginning and end, and the number of its word; of a mark -1."""


@dataclass
class Clips:
    """The clips that are written.

    Attributes:
        rows: by split, the numbers of its clips in the dataset.
        label: for MMSA, the column of the clip index with the label.
        words: for MMSA, what is said in each clip of the dataset; None where it does not leave the study.
        tokenizer: for MMSA, of these words.
        are_aligned: whether rows of all features are the words.
        measured: the features of which a written clip has a measurement; writers fill it.
    """

    dataset: ClipDataset
    rows: Mapping[str, np.ndarray]
    label: str = ""
    words: Sequence[Sequence[str]] | None = None
    tokenizer: Tokenizer | None = None
    are_aligned: bool = False
    measured: set[str] = field(default_factory=set)

    def read(self, numbers: np.ndarray) -> Mapping[str, np.ndarray]:
        """Some clips, by their numbers in the dataset."""
        batch = self.dataset.read(numbers.tolist())
        self.measured |= {name.removesuffix("_mask") for name in batch if name.endswith("_mask") and batch[name].any()}
        return batch

    def batches(self, numbers: np.ndarray) -> Iterator[tuple[Mapping[str, np.ndarray], pd.DataFrame]]:
        """Some clips at a time, with their rows of the clip index."""
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            yield self.read(some), self.dataset.clips.iloc[some]


def write_mmsa(clips: Clips, folder: Path) -> None:
    """Write ``mmsa.pkl``: by split (train, valid, test) the arrays of MMSA's layout. All clips are in memory at once.

    Raises:
        ExportError: a split has no clip, which MMSA does not allow; a feature has no rows of numbers; or a clip has
            more words than the tokenizer's model reads.
    """
    dataset, content = clips.dataset, {}
    features = [name for name, of in dataset.fields.items() if f"{name}_mask" in dataset.fields]
    flat = [name for name in features if len(dataset.fields[name].shape) != 2]
    if flat or len(features) != len(MODALITIES):
        named = ", ".join(flat or features)
        raise ExportError(f"MMSA needs three features with rows of numbers, and these are others: {named}")
    for split in _MMSA_SPLITS:
        if not len(clips.rows.get(split, ())):
            raise ExportError(
                f"MMSA needs clips of all splits, and no clip with the label is in {split!r}: index the study with "
                "other split_shares, in the section [clips]"
            )
    tokens = _tokens(clips) if clips.tokenizer is not None else {}
    length = max((len(ids) for ids, _ in tokens.values()), default=0)  # of all splits, as of the features
    for split, name in _MMSA_SPLITS.items():
        numbers = clips.rows[split]
        batch = clips.read(numbers)
        labels = dataset.clips[clips.label].iloc[numbers].to_numpy(np.float32)
        part: dict[str, Any] = {
            "raw_text": ["" if clips.words is None else " ".join(clips.words[number]) for number in numbers],
            "id": [clip_id.replace(":", "$_$", 1) for clip_id in dataset.clips["clip_id"].iloc[numbers]],
            "regression_labels": labels,
            "classification_labels": (np.sign(labels) + 1).astype(np.int64),
            "annotations": [("Negative", "Neutral", "Positive")[int(sign) + 1] for sign in np.sign(labels)],
        }
        of_split = [tokens[number] for number in numbers.tolist()] if tokens else []
        for modality, feature in zip(MODALITIES, features, strict=True):
            mask, values = batch[f"{feature}_mask"], batch[feature].astype(np.float32)
            values = np.where(mask[..., None] & np.isfinite(values), values, np.float32(0))
            lengths = batch.get(f"{feature}_length", np.full(len(numbers), mask.shape[1]))
            if of_split and clips.are_aligned:
                values, mask = (_of_tokens(rows, lengths, of_split, length) for rows in (values, mask))
                lengths = np.array([len(ids) for ids, _ in of_split])
            part[f"{modality}_mask"], part[modality] = mask, values
            part[f"{modality}_lengths"] = np.maximum(lengths, 1).tolist()  # MMSA packs no sequence of nothing
        if clips.tokenizer is not None:
            part["text_bert"] = np.zeros((len(numbers), 3, length), np.int64)
            part["text_bert"][:, 0] = clips.tokenizer.padding
            for place, (ids, _) in enumerate(of_split):
                part["text_bert"][place, 0, : len(ids)] = ids
                part["text_bert"][place, 1, : len(ids)] = 1  # the third are segments, and there is one
        content[name] = part
    with (folder / MMSA_FILE).open("wb") as file:
        pickle.dump(content, file, protocol=4)


def _tokens(clips: Clips) -> dict[int, tuple[list[int], np.ndarray]]:
    """By number of the clip, the ids of its tokens, and the number of the word of each; of a mark -1."""
    assert clips.tokenizer is not None
    assert clips.words is not None
    tokens = {}
    for number in np.concatenate(list(clips.rows.values())).tolist():
        ids, words = clips.tokenizer(clips.words[number])
        if len(ids) > clips.tokenizer.longest:
            raise ExportError(
                f"--bert-tokenizer: the clip {clips.dataset.clips['clip_id'].iloc[number]} has {len(ids)} tokens, and "
                f"the model reads {clips.tokenizer.longest}: make shorter windows ('storyframes index')"
            )
        tokens[number] = ids, np.array(words)
    return tokens


def _of_tokens(
    rows: np.ndarray, lengths: np.ndarray, tokens: Sequence[tuple[list[int], np.ndarray]], length: int
) -> np.ndarray:
    """(clips, words, …) as (clips, tokens, …): each token has the row of its word; marks and padding are 0.

    Of a session that lacks the feature there are no rows, and all are 0.
    """
    of_tokens = np.zeros((len(rows), length, *rows.shape[2:]), rows.dtype)
    for place in np.flatnonzero(lengths).tolist():
        words = tokens[place][1]
        of_tokens[place, np.flatnonzero(words >= 0)] = rows[place, words[words >= 0]]
    return of_tokens


def write_datasets(clips: Clips, folder: Path) -> None:
    """Write ``<split>.parquet``: a row for each clip, with its row of the clip index; some clips at a time."""
    dataset = clips.dataset
    index = dataset.clips.rename(columns={name: f"clip_{name}" for name in dataset.clips if name in dataset.fields})
    names = index.select_dtypes("category").columns
    about = pa.Table.from_pandas(index.astype(dict.fromkeys(names, object)), preserve_index=False)
    for split, numbers in clips.rows.items():
        writer: pq.ParquetWriter | None = None
        for batch, _ in clips.batches(numbers):
            table = about.take(pa.array(batch["index"]))
            for name, values in batch.items():
                table = table.append_column(name, _lists(values.astype(np.float32) if values.dtype == "f2" else values))
            table = table.replace_schema_metadata(None)
            writer = writer or pq.ParquetWriter(folder / f"{split}.parquet", table.schema, compression="zstd")
            writer.write_table(table)
        if writer is not None:
            writer.close()


def _lists(values: np.ndarray) -> pa.Array:
    """(clips, …) as lists of fixed lengths."""
    array = pa.array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array


def write_webdataset(clips: Clips, folder: Path) -> None:
    """Write ``<split>-000000.tar``, …: shards of about 256 MB."""
    for split, numbers in clips.rows.items():
        shard, size, tar = 0, 0, None
        for batch, index in clips.batches(numbers):
            if tar is None or size >= _SHARD_BYTES:
                if tar is not None:
                    tar.close()
                tar = tarfile.open(folder / f"{split}-{shard:06}.tar", "w")  # noqa: SIM115 - one for many batches
                shard, size = shard + 1, 0
            records = json.loads(index.to_json(orient="records", double_precision=15))
            for place, record in enumerate(records):
                key = f"{batch['index'][place]:09}"
                size += _add(tar, f"{key}.json", json.dumps(record, ensure_ascii=False).encode())
                for name, values in batch.items():
                    stream = io.BytesIO()
                    np.save(stream, values[place])
                    size += _add(tar, f"{key}.{name}.npy", stream.getvalue())
        if tar is not None:
            tar.close()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> int:
    member = tarfile.TarInfo(name)  # of nobody, and of no time
    member.size, member.mode = len(content), 0o600
    tar.addfile(member, io.BytesIO(content))
    return len(content)


CLIP_WRITERS: Mapping[str, Callable[[Clips, Path], None]] = {
    "mmsa": write_mmsa,
    "datasets": write_datasets,
    "webdataset": write_webdataset,
}
