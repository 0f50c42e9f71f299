"""Reading OpenFace's CSV, and checking that it is complete.

The tool exits 0 with a cut file, too few rows or no file at all, so the CSV itself must prove that it is complete: 714
named columns, 714 fields in every row, ``frame`` from 1 to T (the number of frames that decode), one person, increasing
timestamps, numbers wherever a face was tracked, and action units that were post-processed, which is the tool's last
step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from storyframes.features import OPENFACE_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_BYTES = 8 << 20
_NOT_NUMBERS = ["", "nan", "-nan", "NaN", "-nan(ind)", "nan(ind)", "inf", "-inf", "-1.#IND", "1.#QNAN"]
TOP_ROW = 2  # the first row, as a spreadsheet shows it: the header is row 1
FRAME, FACE_ID, TIMESTAMP, CONFIDENCE, SUCCESS = range(5)  # the columns before the measurements
X, Y = (slice(OPENFACE_COLUMNS.index(f"{axis}_0"), OPENFACE_COLUMNS.index(f"{axis}_67") + 1) for axis in "xy")
_LANDMARKS_2D = slice(X.start, Y.stop)
_BOOKKEEPING = SUCCESS + 1
_INTENSITIES = [number for number, name in enumerate(OPENFACE_COLUMNS) if re.fullmatch(r"AU\d\d_r", name)]
_MOST_INTENSE = 5.0
NEAR_S = 1.0  # from the frame's time; a timestamp further away is of another video


class LastRow(NamedTuple):
    """The end of OpenFace's output."""

    frame: int  # counted from 1
    timestamp: float  # seconds


class OpenFaceOutputError(Exception):
    """The CSV is not the complete output of one run; the message names the line and the rule."""


def read_openface_csv(path: Path, frames: int, time: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """The rows of an OpenFace CSV (or CSV.gz) in blocks, checked.

    Both separators are read: ``", "`` (2.0.x, names with a leading space) and ``","`` (2.2.x).

    Args:
        frames: T, the number of frames of the video that decode.
        time: (T,) seconds at which they are shown, which the timestamps may follow as well; None where unknown.

    Yields:
        (n, 714) float32; rows of frames in which no face was ever tracked are NaN behind the bookkeeping columns.

    Raises:
        OpenFaceOutputError: the output is cut or incomplete, has other columns, or is of another video.
    """
    checks = _Checks(path, time)
    for block in csv_blocks(path):
        checks.count_faces(block)
        if not checks.of_several:
            checks.check(block)
        checks.rows += len(block)
        if checks.rows > frames and not checks.of_several:
            break
        if not checks.of_several:
            yield _mask_never_tracked(block)
    checks.refuse_several_people()
    if checks.rows != frames:
        count = f"more than {frames}" if checks.rows > frames else f"{checks.rows}"
        raise OpenFaceOutputError(
            f"{path.name}: has {count} rows, but {frames} frames of the video decode: it is cut, or another video's "
            "output"
        )


def csv_blocks(path: Path) -> Iterator[np.ndarray]:
    """All rows of an OpenFace CSV in blocks, (n, 714) float32, as they are: whole and of numbers, and no more checked.

    Raises:
        OpenFaceOutputError: the file is cut or has other columns.
    """
    try:
        with _open(path) as stream:
            for batch in _batches(stream, path):
                if batch.num_rows:
                    yield _to_array(batch)
    except (OSError, EOFError) as error:
        raise OpenFaceOutputError(f"{path.name}: cannot be read to its end ({error})") from None


def _open(path: Path) -> pa.NativeFile:
    import pyarrow as pa  # which the registry of extractors and an extraction with nothing due do without

    try:
        return pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None)
    except FileNotFoundError:
        raise OpenFaceOutputError(f"{path.name}: OpenFace wrote no such file") from None


def _batches(stream: pa.NativeFile, path: Path) -> Iterator[pa.RecordBatch]:
    """The rows after the header. Arrow's threads get no object of Python's (a PythonFile, a handler of invalid rows):
    one that is let go of while the interpreter ends would abort the process."""
    import pyarrow as pa
    import pyarrow.csv as pc

    header = _read_line(stream)
    names = [name.strip() for name in header.split(",")]
    _check_columns(names, path)
    try:
        yield from pc.open_csv(
            stream,
            read_options=pc.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=names),
            convert_options=pc.ConvertOptions(
                column_types=dict.fromkeys(names, pa.float32()), null_values=_NOT_NUMBERS
            ),
        )
    except pa.ArrowInvalid as error:
        if match := re.search(r"(?:Row #(\d+): )?Expected \d+ columns, got (\d+)", str(error)):
            line = f"line {int(match[1]) + 1}" if match[1] else "a line"
            raise OpenFaceOutputError(
                f"{path.name}: {line} has {match[2]} fields, not {len(names)}: the file is cut or damaged "
                "(was the disk full?)"
            ) from None
        if "Empty CSV file" not in str(error):
            raise OpenFaceOutputError(f"{path.name}: {error}") from None
    if not _ends_with_newline(path):
        raise OpenFaceOutputError(f"{path.name}: the last line has no end: the file is cut (was the disk full?)")


def _ends_with_newline(path: Path) -> bool:
    last = b""
    with _open(path) as stream:
        if path.suffix != ".gz":
            stream.seek(max(0, stream.size() - 1))
        while content := stream.read(_BLOCK_BYTES):
            last = content
    return last.endswith(b"\n")


def last_frame_and_rows(path: Path) -> tuple[LastRow, int]:
    """The last row, and how many rows there are, without reading them; frame 0 and no rows of a damaged file.

    There are fewer rows than frames where the tool writes none for a frame in which it sees nobody.
    """
    lines, tail = 0, b""
    try:
        with _open(path) as stream:
            while content := stream.read(_BLOCK_BYTES):
                lines += content.count(b"\n")
                tail = (tail + content)[-_TAIL_BYTES:]
        last = tail.rstrip().rpartition(b"\n")[2].split(b",")
        return LastRow(round(float(last[FRAME])), float(last[TIMESTAMP])), lines - 1
    except (OSError, EOFError, ValueError, IndexError):  # reading the rows says what is wrong
        return LastRow(0, 0.0), 0


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
    block[np.isinf(block)] = np.nan
    return block


@dataclass
class _Checks:
    """The checks of every row, block after block."""

    path: Path  # the file, for messages
    time: np.ndarray | None  # (T,) seconds at which the video's frames are shown; None where unknown
    rows: int = 0  # the number of checked rows
    _faces: Counter[float] = field(default_factory=Counter)
    _other_face: tuple[int, float] | None = None  # the first row with another face_id, and this id
    _timestamp: float | None = None  # of the row before
    _step_s: float | None = None

    @property
    def of_several(self) -> bool:
        """Whether rows of several people were found."""
        return self._other_face is not None

    def check(self, block: np.ndarray) -> None:
        """Refuse values that no complete run writes, in the next (n, 714) rows.

        Raises:
            OpenFaceOutputError: with the row, the column and the value.
        """
        self._check_numbering(block)
        self._check_timestamps(block[:, TIMESTAMP].astype(np.float64))
        confidence = block[:, CONFIDENCE]
        self._refuse((confidence < 0) | (confidence > 1), "confidence", confidence, "and confidences are 0 to 1")
        tracked = block[:, SUCCESS] == 1
        for row, column in np.argwhere(np.isnan(block) & tracked[:, None])[:1]:
            name = OPENFACE_COLUMNS[column]
            raise self._error(
                row, f"no number in {name}, although success = 1: wherever it tracks a face, there is one"
            )
        self._check_intensities(block)

    def count_faces(self, block: np.ndarray) -> None:
        """Count the rows of each face_id; :meth:`refuse_several_people` needs all rows."""
        ids, first_rows, counts = np.unique(block[:, FACE_ID], return_index=True, return_counts=True)
        if not len(ids):
            return
        first = next(iter(self._faces), float(block[0, FACE_ID]))
        others = [(int(row), float(face)) for face, row in zip(ids, first_rows, strict=True) if face != first]
        if others and self._other_face is None:
            row, face = min(others)
            self._other_face = self.rows + row + TOP_ROW, face
        self._faces[first] += 0  # the first one stays the first key
        self._faces.update(dict(zip(ids.tolist(), counts.tolist(), strict=True)))

    def refuse_several_people(self) -> None:
        """Refuse rows of several people, after all rows are counted.

        Raises:
            OpenFaceOutputError: the rows have several face ids.
        """
        if self._other_face is None:
            return
        row, face = self._other_face
        counts = ", ".join(f"face {face_id:g} in {count} rows" for face_id, count in self._faces.items())
        raise OpenFaceOutputError(
            f"{self.path.name}: row {row} has face_id = {face:g}, the first row has {next(iter(self._faces)):g}: these "
            f"are several people, as FaceLandmarkVidMulti writes them ({counts}), and their ids may change from frame "
            "to frame: give each person a row in the table tracks, with this file as openface and, as region, the part "
            "of the picture where she is (docs/two-people.md), or run FeatureExtraction, which follows one face"
        )

    def _check_numbering(self, block: np.ndarray) -> None:
        expected = np.arange(self.rows + 1, self.rows + 1 + len(block), dtype=np.float32)
        wrong = np.flatnonzero(block[:, FRAME] != expected)
        if len(wrong):
            row = wrong[0]
            rule = f"expected {expected[row]:g}: the frames must count 1 to T without a gap"
            raise self._error(row, f"frame = {block[row, FRAME]:g}, {rule}")
        success = block[:, SUCCESS]
        self._refuse((success != 0) & (success != 1), "success", success, "expected 0 or 1")

    def _check_timestamps(self, timestamps: np.ndarray) -> None:
        """Refuse timestamps that neither increase by one step nor are near the frames' times: no run has them."""
        if not len(timestamps):
            return
        before = self._timestamp
        steps = np.diff(timestamps, prepend=timestamps[0] if before is None else before)
        if self._step_s is None and len(timestamps) > 1:
            self._step_s = float(np.nanmedian(np.diff(timestamps)))
        step_s = self._step_s or 0.0
        rounding_s = 2 * np.spacing(np.abs(timestamps).astype(np.float32))
        is_next = np.abs(steps - step_s) <= step_s / 2 + rounding_s
        is_near = np.zeros(len(timestamps), bool)
        if self.time is not None:
            expected = self.time[self.rows : self.rows + len(timestamps)]
            is_near[: len(expected)] = np.abs(timestamps[: len(expected)] - expected) <= NEAR_S
        right = (steps > 0) & (is_next | is_near)
        if before is None:
            right[0] = abs(timestamps[0]) <= NEAR_S
        self._refuse(~right, "timestamp", timestamps, "and OpenFace counts (frame - 1) / fps from row to row")
        self._timestamp = float(timestamps[-1])

    def _check_intensities(self, block: np.ndarray) -> None:
        """Refuse action units from before the tool's last step, which clips them to 0 to 5 and smooths them."""
        intensities = block[:, _INTENSITIES]
        wrong = np.argwhere((intensities < 0) | (intensities > _MOST_INTENSE))
        if len(wrong):
            row, column = wrong[0]
            raise self._error(
                row,
                f"{OPENFACE_COLUMNS[_INTENSITIES[column]]} = {intensities[row, column]:g}, and intensities are 0 to "
                f"{_MOST_INTENSE:g}: OpenFace was ended before it had post-processed the action units, so none of them "
                "can be used; run FeatureExtraction on this video again",
            )

    def _refuse(self, wrong: np.ndarray, column: str, values: np.ndarray, rule: str) -> None:
        """Refuse the first row in which a column is wrong."""
        for row in np.flatnonzero(wrong)[:1]:
            raise self._error(row, f"{column} = {values[row]:g}, {rule}")

    def _error(self, row: int, what: str) -> OpenFaceOutputError:
        return OpenFaceOutputError(f"{self.path.name}: row {self.rows + row + TOP_ROW} has {what}")


def _mask_never_tracked(block: np.ndarray) -> np.ndarray:
    """Mask the rows before the first face: OpenFace writes zeros there, and a pose of millions of millimetres.

    After a face is lost it repeats the last landmarks and pose; ``success`` is 0 in both.
    """
    never = (block[:, SUCCESS] == 0) & ~block[:, _LANDMARKS_2D].any(axis=1)
    block[never, _BOOKKEEPING:] = np.nan
    return block


_TAIL_BYTES = 1 << 16  # longer than any row of 714 numbers


def peek_openface_csv(path: Path) -> LastRow | None:
    """Check the header and the last row alone.

    Returns:
        The last row; None for a CSV.gz, which has to be read completely to find its end.

    Raises:
        OpenFaceOutputError: it has other columns or no row, or the last row is cut.
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
        return LastRow(round(float(fields[FRAME])), float(fields[TIMESTAMP]))
    except ValueError:
        raise OpenFaceOutputError(f"{path.name}: has no rows, or the last one is damaged") from None
