"""The strict reading of one table: what stands there, or which row is wrong; never a guess."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.messages import missing, unlike
from support.work import grows_in_proportion

from tasks.study.curves import CurveError, CurveSamples
from tasks.study.strict_tables import Table, read_table

ANY_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def read(folder: Path, content: str | bytes, *, has_text: bool = False) -> Table:
    path = folder / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, has_text=has_text)


def values(table: Table) -> list[tuple[str, ...]]:
    assert not table.faults
    return [row.values for row in table.rows]


def faults(table: Table) -> list[str]:
    """Each as ``row (line): rule``."""
    return [f"{fault.number} ({fault.line}): {fault.rule}" for fault in table.faults]


# What people's cells hold, without what makes a line in a text look like a row of its own.
CELLS = st.text(st.sampled_from("aB1 .;'\"\n\t-äß…\u2028\x0b\x85"), max_size=12) | st.text('a1 ,"', max_size=12)


@given(
    rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=8),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.booleans(),
)
@ANY_FOLDER
def test_what_a_csv_writer_wrote_is_read_back(tmp_path: Path, rows, quoting: int, end: str, mark: bool) -> None:
    written = io.StringIO(newline="")
    if end == "\r":
        quoting = csv.QUOTE_ALL  # with this end it leaves line feeds unquoted otherwise
    writer = csv.writer(written, quoting=quoting, lineterminator=end)
    writer.writerows([["a", "b", "c"], *rows])
    table = read(tmp_path, written.getvalue().encode("utf-8-sig" if mark else "utf-8"))
    assert table.columns == ("a", "b", "c")
    assert values(table) == [tuple(row) for row in rows]


@given(rows=st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=8))
@ANY_FOLDER
def test_what_pandas_wrote_is_read_back_with_its_lines(tmp_path: Path, rows) -> None:
    pd.DataFrame(rows, columns=["a", "b"]).to_csv(tmp_path / "table.csv", index=False)
    table = read_table(tmp_path / "table.csv")
    assert values(table) == [tuple(row) for row in rows]
    line = 2
    for row, cells in zip(table.rows, rows, strict=True):
        assert row.line == line
        line += 1 + sum(cell.count("\n") for cell in cells)


@pytest.mark.slow
@given(
    rows=st.lists(st.lists(st.from_regex(r"[a-z0-9]{1,4}", fullmatch=True), min_size=3, max_size=3), min_size=2),
    place=st.data(),
)
@ANY_FOLDER
def test_one_damaged_row_is_named_and_no_other_row_changes(tmp_path: Path, rows, place) -> None:
    """A field too many or too few, or a quote that does not belong: never other values, never a row less."""
    lines = [",".join(row) for row in rows]
    number = place.draw(st.integers(0, len(rows) - 1), "row")
    at = place.draw(st.integers(0, len(lines[number])), "place")
    lines[number] = (
        lines[number][:at] + place.draw(st.sampled_from([",", '"', ',"', '","']), "sign") + lines[number][at:]
    )
    table = read(tmp_path, "\n".join(["a,b,c", *lines]) + "\n")
    assert table.faults, lines[number]
    assert table.faults[0].number == number + 2
    assert table.faults[0].line == number + 2
    for row in table.rows:
        assert row.values == tuple(rows[row.number - 2])


@given(content=st.text(st.sampled_from('ab,"\n\r \0'), max_size=60), has_text=st.booleans())
@ANY_FOLDER
def test_no_text_whatever_ends_in_a_traceback_and_every_row_is_whole(
    tmp_path: Path, content: str, has_text: bool
) -> None:
    table = read(tmp_path, content, has_text=has_text)
    assert all(len(row.values) == len(table.columns) for row in table.rows)
    assert table.columns or table.faults


@given(content=st.binary(max_size=200))
@ANY_FOLDER
def test_no_bytes_whatever_end_in_a_traceback(tmp_path: Path, content: bytes) -> None:
    read(tmp_path, content)
    (tmp_path / "table.parquet").write_bytes(b"PAR1" + content + b"PAR1")
    assert read_table(tmp_path / "table.parquet").faults


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # What pandas' index_col=False read in silence.
        ("a,b,c\n1,2,3,4\n5,6,7\n", ["2 (2): has 4 fields, the header has 3: quote what has a comma in it"]),
        ("a,b,c\n5,6,7\n1,2,3,4\n", ["3 (3): has 4 fields, the header has 3: quote what has a comma in it"]),
        ("a,b,c\n1,2\n", ["2 (2): has 2 fields, the header has 3: quote what has a comma in it"]),
        ("a,b,c\n1,2,3,\n", ["2 (2): has 4 fields, the header has 3: quote what has a comma in it"]),
        ("a,b\n\n\n1\n", ["4 (4): has 1 field, the header has 2: quote what has a comma in it"]),
        ('a,b\n1,"x\n2,y\n3,z\n', ["2 (2): has a quote (line 2) that is never closed"]),
        ("a,b,a\n1,2,3\n", ["None (1): table.csv: the columns 1 and 3 have the same name: keep one of them"]),
        ("a,b, a\n1,2,3\n", ["None (1): table.csv: the columns 1 and 3 have the same name: keep one of them"]),
        ("a|b\n1|2\n", ["None (1): table.csv cannot be read: its columns are separated by '|', not by commas"]),
        ("a;b\n1;2;3\n", ["2 (2): has 3 fields, the header has 2: quote what has a semicolon in it"]),
        ("", ["None (None): table.csv cannot be read: it is empty; the first line has the columns' names"]),
        ("a,b\n1,\0\n", ["None (2): table.csv cannot be read: line 2 has a zero byte: save it as UTF-8"]),
    ],
)
def test_faults_name_the_row_the_line_and_the_rule(tmp_path: Path, content: str, expected: list[str]) -> None:
    assert faults(read(tmp_path, content)) == expected


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        # A spreadsheet shows the header as row 1, a text over several lines as one row, and an empty line as a row.
        ("id,text\n1,x\n2,y\n", [2, 3]),
        ('id,text\n1,"x\nand\n\nmore"\n2,"y\n"\n3,z\n', [2, 3, 4]),
        ('id,text\r\n1,"x\r\nand more"\r\n\r\n2,y\r\n', [2, 4]),
        ("id,text\r1,x\r2,y", [2, 3]),
        ('id,"text\nof it"\n1,x\n\n   \n\n2,y', [2, 6]),
        ("\n\nid,text\n1,x\n", [4]),
        ("sep=;\nid;text\n1;x\n\n2;y\n", [2, 4]),  # a spreadsheet takes the first line for itself
        ('id,text\n1,"x"y\n2,"once\nupon"\n3,z\n', [3, 4]),  # behind a row that is refused
    ],
)
def test_rows_are_counted_as_a_spreadsheet_shows_them(tmp_path: Path, content: str, rows: list[int]) -> None:
    table = read(tmp_path, content)
    assert [row.number for row in table.rows] == rows
    assert {row.number for row in table.rows}.isdisjoint(fault.number for fault in table.faults)


@given(
    rows=st.lists(st.sampled_from(["1,x", '1,"x\ny"', '1,"\n\n"', "", " "]), max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
)
@ANY_FOLDER
def test_any_mixture_of_empty_lines_and_texts_over_lines_is_counted_so(
    tmp_path: Path, rows: list[str], end: str
) -> None:
    table = read(tmp_path, "".join(f"{row}\n" for row in ["id,text", *rows]).replace("\n", end))
    assert [row.number for row in table.rows] == [place for place, row in enumerate(rows, start=2) if row.strip()]
    assert table.faults == []


@pytest.mark.parametrize(
    "content",
    [
        'id,text\n1,he said "no"\n2,y\n',
        'id,text\n1,"no" he said\n2,y\n',
        'id,text\n1, "no"\n2,y\n',
        'id,text\n1,"a "b" c"\n2,y\n',
    ],
)
def test_a_quote_in_the_wrong_place_costs_its_own_row(tmp_path: Path, content: str) -> None:
    table = read(tmp_path, content)
    assert [fault.number for fault in table.faults] == [2]
    assert "quote" in table.faults[0].rule
    assert [row.values for row in table.rows] == [("2", "y")]


@pytest.mark.parametrize(
    "content",
    [
        'id,text\n1,"once\n2,upon"\n3,x\n',  # one quote missing in each of two rows: they would become one
        'id,text\n1,"once\n2,upon a time\n3,there was"\n',
        'id,n,text\n1,1,"once\n2,2,upon"\n',
        'id,text,n\n1,"once,1\n2,upon",1\n',
    ],
)
def test_rows_that_two_stray_quotes_would_merge(tmp_path: Path, content: str) -> None:
    (fault,) = read(tmp_path, content).faults
    assert (fault.number, fault.line) == (2, 2)
    assert not missing(fault.rule, "a line that looks like")


@pytest.mark.parametrize("text", ["Dear Anna,\nyesterday, we went.\n\nYours, B", "a\nb,", "one\ntwo words,three", "\n"])
def test_a_quoted_text_may_go_over_lines(tmp_path: Path, text: str) -> None:
    assert values(read(tmp_path, f'id,text\n1,"{text}"\n', has_text=True)) == [("1", text)]


@pytest.mark.parametrize("content", ["id,text\n1,once\nlater, we went\n", "id,text,x\n1,once, we went\n"])
def test_what_an_unquoted_comma_or_line_break_cut_off_a_text(tmp_path: Path, content: str) -> None:
    (fault,) = read(tmp_path, content, has_text=True).faults
    assert "begins with a space" in fault.rule


def test_columns_without_a_name_and_empty_lines_are_nothing(tmp_path: Path) -> None:
    table = read(tmp_path, "\ufeff,a,,b,\r\n\r\n0,1,,2,\r\n  \r\n")
    assert table.columns == ("", "a", "", "b", "")
    assert values(table) == [("0", "1", "", "2", "")]


def test_a_table_that_may_not_be_read_is_a_fault(tmp_path: Path) -> None:
    (fault,) = read_table(tmp_path / "absent.csv").faults
    assert not missing(fault.rule, "absent.csv cannot be read", "No such file or directory")


# --- Parquet ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([["a"], ["b", "c"]]),
        pa.array([{"x": 1}, {"x": 2}]),
        pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float32(), 2)),
    ],
)
def test_a_nested_parquet_column_is_a_fault_and_the_others_are_read(tmp_path: Path, cells: pa.Array) -> None:
    pq.write_table(pa.table({"id": ["x", "y"], "video": cells}), tmp_path / "table.parquet")
    table = read_table(tmp_path / "table.parquet")
    assert not unlike(faults(table), ("table.parquet", "column 2 holds lists"))
    assert [row.values for row in table.rows] == [("x",), ("y",)]


def test_parquet_of_many_types_is_read_as_it_stands(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "id": pd.Categorical(["x", "y"]),
            "n": [1, 2],
            "share": [0.5, float("nan")],
            "when": pd.to_datetime(["2024-05-01 10:00", None]),
            "none": [None, None],
        },
        index=["p", "q"],
    )
    frame.to_parquet(tmp_path / "table.parquet")
    table = read_table(tmp_path / "table.parquet")
    assert table.columns == ("id", "n", "share", "when", "none")
    assert table.rows[0].values[:3] == ("x", 1, 0.5)
    assert table.rows[0].values[3].year == 2024
    assert table.rows[1].values[3:] == (None, None)
    assert [(row.number, row.line) for row in table.rows] == [(2, None), (3, None)]


def test_two_parquet_columns_of_one_name(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), tmp_path / "table.parquet")
    assert not missing(faults(read_table(tmp_path / "table.parquet"))[0], "have the same name")


# --- big tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ["s1,st1,1,4", 's1,"st1",1,"4"', 's1,"a ""quote"" and\na line",1,4', 's1,st"1,1,4'])
def test_reading_takes_work_in_proportion_to_the_rows(tmp_path: Path, row: str) -> None:
    def reading(rows: int) -> Callable[[], object]:
        (tmp_path / "table.csv").write_text("\n".join(["a,b,c,d", *[row] * rows]))
        return lambda: read_table(tmp_path / "table.csv")

    assert grows_in_proportion(reading, 50)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("time_s,time_s\n1,2\n", r"^c\.csv: the columns 1 and 2 have the same name: keep one of them$"),
        ("", r"^c\.csv: cannot be read: it is empty; "),
        ("time_s,value\n1,2,3\n", r"^c\.csv: row 2 has 3 fields, the header has 2"),
    ],
)
def test_a_fault_names_its_file_once(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "c.csv"
    path.write_text(content)
    with pytest.raises(CurveError, match=message):
        CurveSamples.read(path)
