"""Reading OpenFace's CSV, and checking that it is whole.

The tool exits 0 with a cut file, too few rows or no file at all, so the CSV itself must prove that it is whole:
714 named columns, 714 fields in every row, ``frame`` counting 1 to T, T the number of frames that decode, one person,
and action units that were post-processed, which is the last thing the tool does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from storyframes.features import OPENFACE_COLUMNS

_BLOCK_BYTES = 8 << 20
_NOT_NUMBERS = ["", "nan", "-nan", "NaN", "-nan(ind)", "nan(ind)", "inf", "-inf", "-1.#IND", "1.#QNAN"]
_TOP = 2  # the first row, as a spreadsheet shows it: the header is row 1
_FRAME = OPENFACE_COLUMNS.index("frame")
_SUCCESS = OPENFACE_COLUMNS.index("success")
_LANDMARKS_2D = slice(OPENFACE_COLUMNS.index("x_0"), OPENFACE_COLUMNS.index("y_67") + 1)
_BOOKKEEPING = OPENFACE_COLUMNS.index("success") + 1
_FACE_ID = OPENFACE_COLUMNS.index("face_id")
_INTENSITIES = [number for number, name in enumerate(OPENFACE_COLUMNS) if re.fullmatch(r"AU\d\d_r", name)]
_MOST_INTENSE = 5.0


class OpenFaceOutputError(Exception):
    """The CSV is not the whole and sound output of one run; the message names the line and the rule."""


def read_openface_csv(path: Path, frames: int) -> Iterator[np.ndarray]:
    """The rows of an OpenFace CSV (or CSV.gz) in blocks, checked.

    Both separators are read: ``", "`` (2.0.x, names with a leading space) and ``","`` (2.2.x).

    Args:
        path: the file.
        frames: how many frames of the video decode.

    Yields:
        (n, 714) float32; rows of frames in which no face was ever tracked are NaN behind the bookkeeping columns.

    Raises:
        OpenFaceOutputError: the output is cut, incomplete, of other columns or of another video.
    """
    rows = 0
    person: float | None = None
    try:
        with _open(path) as stream:
            for batch in _batches(stream, path):
                block = _to_array(batch)
                person = _check_person(block, rows, person, path)
                _check_numbering(block, rows, path)
                _check_intensities(block, rows, path)
                rows += len(block)
                if rows > frames:
                    break
                yield _mask_never_tracked(block)
    except (OSError, EOFError) as error:
        raise OpenFaceOutputError(f"{path.name}: cannot be read to its end ({error})") from None
    if rows != frames:
        count = f"more than {frames}" if rows > frames else f"{rows}"
        raise OpenFaceOutputError(
            f"{path.name}: has {count} rows, but {frames} frames of the video decode: it is cut, or another video's "
            "output"
        )


def _open(path: Path) -> pa.NativeFile:
    try:
        return pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None)
    except FileNotFoundError:
        raise OpenFaceOutputError(f"{path.name}: OpenFace wrote no such file") from None


def _batches(stream: pa.NativeFile, path: Path) -> Iterator[pa.RecordBatch]:
    header = _read_line(stream)
    names = [name.strip() for name in header.split(",")]
    _check_columns(names, path)
    faulty: list[pc.InvalidRow] = []

    def reject(row: pc.InvalidRow) -> str:
        faulty.append(row)
        return "skip"

    guarded = _WholeLines(stream)
    try:
        reader = pc.open_csv(
            pa.PythonFile(guarded, mode="r"),
            read_options=pc.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=names),
            parse_options=pc.ParseOptions(invalid_row_handler=reject),
            convert_options=pc.ConvertOptions(
                column_types=dict.fromkeys(names, pa.float32()), null_values=_NOT_NUMBERS
            ),
        )
        for batch in reader:
            if faulty:
                break
            yield batch
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error):
            raise OpenFaceOutputError(f"{path.name}: {error}") from None
    if faulty:
        line = f"line {faulty[0].number + 1}" if faulty[0].number else "a line"
        raise OpenFaceOutputError(
            f"{path.name}: {line} has {faulty[0].actual_columns} fields, not {len(names)}: the file is cut or damaged "
            "(was the disk full?)"
        )
    if not guarded.ends_with_newline:
        raise OpenFaceOutputError(f"{path.name}: the last line has no end: the file is cut (was the disk full?)")


class _WholeLines:
    """A stream that remembers whether what was read of it ended with a newline."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self.ends_with_newline = True

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(size if size >= 0 else None)
        if content:
            self.ends_with_newline = content.endswith(b"\n")
        return content

    def close(self) -> None:
        self.closed = True


def _read_line(stream: pa.NativeFile) -> str:
    line = b""
    while not line.endswith(b"\n"):
        byte = stream.read(1)
        if not byte:
            break
        line += byte
    return line.decode("ascii", errors="replace").strip()


def _check_columns(names: list[str], path: Path) -> None:
    if names == list(OPENFACE_COLUMNS):
        return
    absent = [name for name in OPENFACE_COLUMNS if name not in names]
    unknown = [name for name in names if name not in OPENFACE_COLUMNS]
    if absent:
        detail = f"{len(absent)} are missing, the first is {absent[0]!r}"
    elif unknown:
        detail = f"{len(unknown)} are unknown, the first is {unknown[0]!r}"
    else:
        detail = "they are in another order"
    raise OpenFaceOutputError(
        f"{path.name}: has {len(names)} columns, not OpenFace's 714 ({detail}): run FeatureExtraction with "
        "-2Dfp -3Dfp -pdmparams -pose -aus -gaze"
    )


def _to_array(batch: pa.RecordBatch) -> np.ndarray:
    block = np.empty((batch.num_rows, batch.num_columns), np.float32)
    for column in range(batch.num_columns):
        block[:, column] = batch.column(column).to_numpy(zero_copy_only=False)
    return block


def _check_numbering(block: np.ndarray, before: int, path: Path) -> None:
    expected = np.arange(before + 1, before + 1 + len(block), dtype=np.float32)
    wrong = np.flatnonzero(block[:, _FRAME] != expected)
    if len(wrong):
        row = wrong[0]
        raise OpenFaceOutputError(
            f"{path.name}: row {before + row + _TOP} has frame = {block[row, _FRAME]:g}, expected {expected[row]:g}: "
            "the frames must count 1 to T without a gap"
        )
    success = block[:, _SUCCESS]
    wrong = np.flatnonzero((success != 0) & (success != 1))
    if len(wrong):
        raise OpenFaceOutputError(
            f"{path.name}: row {before + wrong[0] + _TOP} has success = {success[wrong[0]]:g}, expected 0 or 1"
        )


def _check_person(block: np.ndarray, before: int, person: float | None, path: Path) -> float | None:
    """Refuse rows of several people; gives back whose rows these are."""
    if person is None:
        if not len(block):
            return None
        person = float(block[0, _FACE_ID])
    wrong = np.flatnonzero(block[:, _FACE_ID] != person)
    if len(wrong):
        raise OpenFaceOutputError(
            f"{path.name}: row {before + wrong[0] + _TOP} has face_id = {block[wrong[0], _FACE_ID]:g}, the first row "
            f"has {person:g}: these are several people, as FaceLandmarkVidMulti writes them, and their ids may change "
            "from frame to frame; run FeatureExtraction, which follows one"
        )
    return person


def _check_intensities(block: np.ndarray, before: int, path: Path) -> None:
    """Refuse action units as they are before the tool's last step: it cuts them to 0 to 5 and smooths them."""
    intensities = block[:, _INTENSITIES]
    wrong = np.argwhere((intensities < 0) | (intensities > _MOST_INTENSE))
    if len(wrong):
        row, column = wrong[0]
        raise OpenFaceOutputError(
            f"{path.name}: row {before + row + _TOP} has {OPENFACE_COLUMNS[_INTENSITIES[column]]} = "
            f"{intensities[row, column]:g}, and intensities are 0 to {_MOST_INTENSE:g}: OpenFace was ended "
            "before it had post-processed the action units, so none of them can be used; run FeatureExtraction on this "
            "video again"
        )


def _mask_never_tracked(block: np.ndarray) -> np.ndarray:
    """OpenFace writes zeros, and a pose of millions of millimetres, while it has not found any face yet."""
    never = (block[:, _SUCCESS] == 0) & ~block[:, _LANDMARKS_2D].any(axis=1)
    block[never, _BOOKKEEPING:] = np.nan
    return block


_TAIL_BYTES = 1 << 16  # longer than any row of 714 numbers


def peek_openface_csv(path: Path) -> int | None:
    """Check the header and the last row, without what is between them.

    Returns:
        The number of the last frame; None for a CSV.gz, whose end is known only by reading all of it.

    Raises:
        OpenFaceOutputError: the columns are others, there is no row, or the last one is cut.
    """
    try:
        with _open(path) as stream:
            names = [name.strip() for name in _read_line(stream).split(",")]
            _check_columns(names, path)
        if path.suffix == ".gz":
            return None
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            tail = file.read()
    except (OSError, EOFError) as error:
        raise OpenFaceOutputError(f"{path.name}: cannot be read ({error})") from None
    if not tail.endswith(b"\n"):
        raise OpenFaceOutputError(f"{path.name}: the last line has no end: the file is cut (was the disk full?)")
    fields = tail.rstrip().rpartition(b"\n")[2].split(b",")
    try:
        if len(fields) != len(names):
            raise ValueError
        return round(float(fields[_FRAME]))
    except ValueError:
        raise OpenFaceOutputError(f"{path.name}: has no rows, or the last one is damaged") from None
