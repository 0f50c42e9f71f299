"""The text of a CSV file: from bytes to characters, and from characters to records, each with its line.

Spreadsheets follow their country's settings: they write semicolons or tabs instead of commas, and Windows-1252 instead
of UTF-8. Both are read where they can mean one thing only. No message quotes a cell: it may be a story.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from tasks.study.problems import UnusableFileError

_LINE = re.compile(r"[^\n]*+\n?")
_SEP_LINE = re.compile(r'"?sep=([,;\t])"?[,;\t]*\n', re.IGNORECASE)
_QUOTED = re.compile(r'"[^"\n]*+(?:""[^"\n]*+)*+"')
SEPARATORS = ",;\t"
"""What spreadsheets write between two columns."""
# A letter of UTF-8 that is not of ASCII.
_UTF8_LETTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
# Of Windows-1252: western letters, and Word's quotes, dashes and dots. Its letters from 0x80 to 0x9f are left out: on
# older Macs the same bytes are the usual letters with accents.
_WESTERN = frozenset([*range(0xC0, 0xD7), *range(0xD8, 0xF7), *range(0xF8, 0x100), 0x80, 0x85, *range(0x91, 0x98)])
_WESTERN_SIGNS = frozenset([0xA0, 0xA1, 0xA7, 0xAB, 0xB0, 0xB4, 0xBB, 0xBF])


class NotTextError(UnusableFileError):
    """The bytes are no table; ``line`` is the place."""

    def __init__(self, rule: str, line: int) -> None:
        super().__init__(rule)
        self.line = line


@dataclass(frozen=True)
class _Grammar:
    """The patterns of a file's records."""

    separator: str

    @cached_property
    def field(self) -> re.Pattern[str]:
        """One field and what ends it. The possessive quantifiers never backtrack, so time is linear."""
        sign = re.escape(self.separator)
        return re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"{sign}\n]*+))({sign}|\n|\Z)')

    @cached_property
    def like_a_row(self) -> re.Pattern[str]:
        """The beginning of a row: an id and a separator. In prose a space follows a comma."""
        return re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}{re.escape(self.separator)}(?=\S)")


def decode(content: bytes) -> tuple[str, list[str]]:
    """The characters, with line feeds alone between lines, and remarks on an unusual encoding.

    Raises:
        NotTextError: they are neither UTF-8 nor, beyond doubt, Windows-1252.
    """
    remarks: list[str] = []
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        if not _is_windows_1252(content):
            raise NotTextError(f"line {line} is not UTF-8: save it as UTF-8", line) from None
        text = content.decode("cp1252")
        remarks.append(f"is not UTF-8 (line {line}): read as Windows-1252; if letters are wrong, save it as UTF-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise NotTextError(f"line {line} has a zero byte: save it as UTF-8", line)
    return text, remarks


def _is_windows_1252(content: bytes) -> bool:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _UTF8_LETTER.search(content):
        return False
    unusual = {byte for byte in set(content) if byte >= 0x7F or (byte < 0x20 and byte not in b"\t\n\r")}
    return unusual <= _WESTERN | _WESTERN_SIGNS


def separator_of(text: str, signs: str = SEPARATORS) -> tuple[tuple[int, int], str]:
    """Where the header begins (place and line), and the separator of its columns.

    Raises:
        NotTextError: the separator is a sign that no spreadsheet writes.
    """
    if sep_line := _SEP_LINE.match(text):  # "sep=;", which some programs write for others
        return (sep_line.end(), 2), sep_line.group(1)
    lines = enumerate(text.split("\n"), start=1)
    number, header = next(((number, line) for number, line in lines if line.strip()), (1, ""))
    unquoted = _QUOTED.sub("", header)
    separators = [sign for sign in signs if sign in unquoted]
    if not separators and "|" in unquoted:
        raise NotTextError("its columns are separated by '|', not by commas", number)
    return (0, 1), separators[0] if len(separators) == 1 else ","


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A CSV file with these columns and rows."""
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return written.getvalue().encode()


class Record(NamedTuple):
    """One line of a CSV file, or several where a quoted field has line breaks; ``rule`` is the rule that it breaks.

    ``row`` is its number in a spreadsheet, which shows a record over several lines as one row and an empty line as one.
    """

    line: int
    fields: tuple[str, ...]
    rule: str = ""
    row: int = 0


def records_of(text: str, begin: tuple[int, int], separator: str, has_text: bool) -> Iterator[Record]:
    """The header and the rows. After a fault reading continues with the next line.

    Args:
        text: of the file, with line feeds alone between its lines.
        begin: where the header begins: the place in the text, and its line.
        has_text: one of the columns has prose.
    """
    grammar = _Grammar(separator)
    (position, line), width, row = begin, 0, 0
    while position < len(text):
        row += 1
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        if text.find('"', position, end) < 0:  # most lines: nothing is quoted
            fields = tuple(text[position:end].split(separator))
            rule = _SPACE if has_text and width and any(map(_looks_like_prose, fields)) else ""
            record, after = Record(line, fields, rule), end + 1
        else:
            record, after = _quoted_record(grammar, text, position, line, width, has_text)
        if len(record.fields) > 1 or record.rule or record.fields[0].strip():  # an empty line is no row
            width = width or len(record.fields)
            yield record._replace(row=row)
        line += text.count("\n", position, after)
        position = after


_SPACE = (
    "has a field that begins with a space: it looks like the rest of a text whose comma or line break is not quoted"
)


def _looks_like_prose(field: str) -> bool:
    return field[:1] == " " and bool(field.strip())


def _quoted_record(
    grammar: _Grammar, text: str, position: int, line: int, width: int, has_text: bool
) -> tuple[Record, int]:
    """The record that begins at ``position``, and where the next one does."""
    begin, rule = position, ""
    fields: list[str] = []
    spread: list[tuple[int, str]] = []  # fields over several lines: their place and content
    while True:
        match = grammar.field.match(text, position)
        if match is None:
            return _broken(text, begin, position, line, fields)
        quoted, plain, ended_by = match.groups()
        if quoted is None:
            fields.append(plain)
            if has_text and width and _looks_like_prose(plain):
                rule = _SPACE
        else:
            fields.append(quoted.replace('""', '"'))
            if "\n" in quoted:
                spread.append((len(fields), quoted))
        position = match.end()
        if ended_by != grammar.separator:
            break
    for number, content in spread:
        rule = rule or _swallowed(grammar, content, number, len(fields), width)
    return Record(line, tuple(fields), rule), position


def _swallowed(grammar: _Grammar, content: str, number: int, count: int, width: int) -> str:
    """The rule that a quoted field over several lines breaks, where one of the lines looks like a row of its own."""
    *inner, last = content.split("\n")[1:]
    candidates = [(line, 0) for line in inner] + [(last, count - number)]
    if any(
        grammar.like_a_row.match(line) and line.count(grammar.separator) + after >= width - 1
        for line, after in candidates
    ):
        return (
            "has a quoted field with a line that looks like a row of its own: is a quote missing, or one too many? If "
            "not, put a space behind that line's first comma"
        )
    return ""


def _broken(text: str, begin: int, position: int, line: int, fields: list[str]) -> tuple[Record, int]:
    """The record with a stray quote in its field at ``position``."""
    opened = line + text.count("\n", begin, position)
    if text[position] != '"':
        rule = 'has a quote inside a field that does not begin with one: quote the field and double its quotes ("")'
    else:
        closed = re.compile(r'"[^"]*+(?:""[^"]*+)*+"').match(text, position)
        if closed is None:
            return Record(line, tuple(fields), f"has a quote (line {opened}) that is never closed"), len(text)
        position = closed.end()
        rule = 'has something behind a closing quote: a quote inside a quoted field is doubled ("")'
    rest = _LINE.match(text, position)
    return Record(line, tuple(fields), rule), rest.end() if rest else len(text)
