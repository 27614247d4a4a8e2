"""Read delimited text: CSV, TSV, semicolons, bars or runs of whitespace.

Arrow does the work, at once or block by block for files that should not be in memory. Only when it
refuses a file does a slow pass run over the lines, to say which line is wrong and why.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pcsv

from graphham.errors import InputError
from graphham.io.files import Raw, forget_pages

_SAMPLE_BYTES = 1 << 18
_SAMPLE_LINES = 50
_SCAN_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 22
_MARK = b"\xef\xbb\xbf"
SPACE = " "
_NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar", SPACE: "whitespace"}
# A quote opens a cell only where the cell begins; anywhere else, as in a"x, it is a plain sign.
_QUOTED_OR_GAP = re.compile(rb'(?<![^ \t\r\n])"[^"]*(?:""[^"]*)*(?:"|\Z)|[ \t]+')
_REST_OF_QUOTED = re.compile(rb'[^"]*(?:""[^"]*)*(?:(?P<closed>")|\Z)')
_BLANKS = re.compile(r"[ \t]+")
# A longer line is no row of a table; holding it would take memory without bound.
_LINE_BYTES = 1 << 26


class TextTable:
    """A delimited text file whose cells are still text.

    Comment lines (first character ``#`` or ``%``) and blank lines are skipped. The separator is the
    first of tab, comma, semicolon and bar that splits the sampled lines into equally many (two or
    more) fields, otherwise whitespace.

    Args:
        path: Where the text came from, for messages.
        raw: All bytes of the file.
        what: What the file is to the user ("edges", "features"), for messages.
        separator: What stands between cells, where that is known.
    """

    def __init__(self, path: Path, raw: Raw, what: str, separator: str | None = None) -> None:
        self.path, self.what = path, what
        self.num_comments = 0  # lines left out by the last pass over the rows
        self._raw = raw
        self._refuse_binary()
        self.quoted = any(
            b'"' in raw[start : start + _BLOCK_BYTES] for start in range(0, len(raw), _BLOCK_BYTES)
        )
        forget_pages(raw)
        self.separator = SPACE
        text = self._sample_text()
        if not any(True for _ in _rows_of(text, SPACE, path)):  # comments as far as it reaches
            rows = (line for line in self._lines() if line[0] not in "#%" and line.strip())
            text = "".join(itertools.islice(rows, _SAMPLE_LINES))
        self._longest = max(len(line) for line in text.split("\n"))
        self.separator = separator or _guess_separator(text, path)
        self.sample = [fields for _, fields in _rows_of(text, self.separator, path)]
        if not self.sample:
            raise InputError(
                f"the {what} file {path} has no rows, only blank lines or comments; "
                f"it needs at least one row"
            )

    @property
    def num_bytes(self) -> int:
        """Size of the text."""
        return len(self._raw)

    @property
    def num_columns(self) -> int:
        """Number of fields of the first row."""
        return len(self.sample[0])

    def integers_are_exact(self) -> bool:
        """Whether whole numbers read from this file are certain to be written back the same way.

        A zero at the front ("007", "0x1f", "-0") is what would be lost; finding one anywhere, even
        in a column that is not read, makes the reader take the slower and safer way.
        """
        return lines_are_exact(self._raw)

    def read(
        self,
        columns: Mapping[int, pa.DataType],
        has_header: bool,
        null_values: Sequence[str] = (),
    ) -> list[pa.ChunkedArray]:
        """Read some columns, given by position with their Arrow types.

        Raises:
            InputError: A line has another number of fields, a cell is not of its type, or the text
                is not UTF-8; the message names the line.
        """
        try:
            return self._read_fast(columns, has_header, null_values)
        except pa.ArrowInvalid as error:
            self.explain(error, columns, has_header, null_values)

    def try_read(
        self,
        columns: Mapping[int, pa.DataType],
        has_header: bool,
        null_values: Sequence[str] = (),
    ) -> list[pa.ChunkedArray] | None:
        """Read some columns, or return ``None`` if a cell is not of its type or a line is odd."""
        try:
            return self._read_fast(columns, has_header, null_values)
        except pa.ArrowInvalid:
            return None

    def batches(
        self, columns: Mapping[int, pa.DataType], has_header: bool
    ) -> Iterator[list[pa.Array]]:
        """Yield some columns piece by piece, holding no more of the file than a few blocks.

        Raises:
            pa.ArrowInvalid: A line has another number of fields, a cell is not of its type, or the
                text is not UTF-8; :meth:`explain` says which.
        """
        body = pa.PythonFile(_Body(self._cleaned(self._blocks(), has_header)), mode="r")
        try:
            reader = pcsv.open_csv(body, **self._options(columns))
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return
            raise
        for batch in reader:
            yield [batch.column(str(i)) for i in columns]

    def line_of(self, row: int, has_header: bool) -> int:
        """Return the line number of a data row, counting from 1 as editors do."""
        return next(itertools.islice(self.rows(), row + has_header, None))[0]

    def _read_fast(
        self, columns: Mapping[int, pa.DataType], has_header: bool, null_values: Sequence[str]
    ) -> list[pa.ChunkedArray]:
        body = next(self._cleaned([self._raw_lines()], has_header), None)
        if body is None:
            return [pa.chunked_array([], type=kind) for kind in columns.values()]
        table = pcsv.read_csv(
            pa.BufferReader(pa.py_buffer(body)), **self._options(columns, null_values)
        )
        return [table.column(str(i)) for i in columns]

    def _options(
        self, columns: Mapping[int, pa.DataType], null_values: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return how Arrow is to read the body; its columns are named by position."""
        names = [str(i) for i in range(self.num_columns)]
        block = max(_BLOCK_BYTES, 4 * self._longest)  # Arrow refuses lines longer than a block
        return {
            "read_options": pcsv.ReadOptions(column_names=names, block_size=block),
            "parse_options": pcsv.ParseOptions(
                delimiter=self.separator, newlines_in_values=self.quoted
            ),
            "convert_options": pcsv.ConvertOptions(
                column_types={str(i): kind for i, kind in columns.items()},
                include_columns=[str(i) for i in columns],
                null_values=list(null_values),
                strings_can_be_null=False,
            ),
        }

    def _raw_lines(self) -> Raw:
        """Return the text without a byte order mark, in lines that end with a line feed."""
        data = self._raw
        if data.find(b"\n") < 0 and data.find(b"\r") >= 0:
            data = data[:].replace(b"\r", b"\n")
        return data[len(_MARK) :] if data[: len(_MARK)] == _MARK else data

    def _blocks(self) -> Iterator[Raw]:
        """Yield whole lines, some megabytes at a time."""
        raw = self._raw
        has_old_ends = raw.find(b"\n") < 0
        start = len(_MARK) if raw[: len(_MARK)] == _MARK else 0
        rest: list[bytes] = []
        for begin in range(start, len(raw), _BLOCK_BYTES):
            piece = raw[begin : begin + _BLOCK_BYTES]
            forget_pages(raw)
            if has_old_ends:
                piece = piece.replace(b"\r", b"\n")
            cut = piece.rfind(b"\n") + 1
            if cut:
                yield b"".join([*rest, piece[:cut]])
                rest = []
            rest.append(piece[cut:])
            if sum(map(len, rest)) > _LINE_BYTES:
                self._refuse_long_line()
        if any(rest):
            yield b"".join(rest)

    def _refuse_long_line(self) -> NoReturn:
        raise InputError(
            f"{self.path} has a line of more than {_LINE_BYTES >> 20} MiB, which is no row of a "
            f"table of {self.what}; give one row per line"
        )

    def _cleaned(self, blocks: Iterable[Raw], has_header: bool) -> Iterator[memoryview]:
        """Yield the lines of the data rows, without comments and with single separators."""
        inside = begun = False  # of a quoted cell; of the data
        self.num_comments = 0
        for block in blocks:
            was_inside = inside
            data, count, inside = strip_comments(block, self.separator, inside)
            self.num_comments += count
            if self.separator == SPACE:
                data = single_spaces(data, was_inside)
            start = 0
            if not begun:
                start, begun = body_start(data, has_header, self.separator)
                if start < 0:
                    raise InputError(
                        f"the header of {self.path} opens a quote that is not closed; close it or "
                        f"remove it"
                    )
            if begun and start < len(data):
                yield memoryview(data)[start:]

    def _sample_text(self) -> str:
        data = self._raw
        end = 0
        for _ in range(_SAMPLE_LINES):
            end = data.find(b"\n", end) + 1
            if not end:
                break
        if max(data.find(b"\n", 0, _LINE_BYTES), data.find(b"\r", 0, _LINE_BYTES)) < 0 and (
            len(data) > _LINE_BYTES
        ):
            self._refuse_long_line()
        if end and end < _SAMPLE_BYTES:
            end = data.rfind(b"\n", 0, _SAMPLE_BYTES) + 1 if len(data) > _SAMPLE_BYTES else 0
        sample = data[:end] if end else data[:]
        return sample.decode("utf-8", errors="replace").removeprefix("\ufeff")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and fields of every row of the file."""
        return rows_of_lines(self._lines(), self.separator, self.path, self.quoted)

    def _lines(self) -> Iterator[str]:
        start = len(_MARK) if self._raw[: len(_MARK)] == _MARK else 0
        line = 1
        for block in self._blocks():
            data = block[:]
            try:
                yield from io.StringIO(data.decode("utf-8"), newline="")
            except UnicodeDecodeError as error:
                line += data[: error.start].count(b"\n")
                raise InputError(
                    f"{self.path} is not UTF-8 text (byte {start + error.start:,}, line {line:,}); "
                    f"save it as UTF-8"
                ) from None
            start, line = start + len(data), line + data.count(b"\n")

    def _refuse_binary(self) -> None:
        head = self._raw[:65536]
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError(f"{self.path} is UTF-16 text, not UTF-8; save it as UTF-8")
        if b"\0" in head:
            raise InputError(
                f"{self.path} is binary data, not a table of {self.what} (a zero byte at "
                f"{head.index(0):,}); give CSV, TSV, whitespace text, Parquet, npz or GraphML"
            )

    def explain(
        self,
        error: pa.ArrowInvalid,
        columns: Mapping[int, pa.DataType],
        has_header: bool,
        null_values: Sequence[str] = (),
    ) -> NoReturn:
        """Find the line Arrow stumbled over and raise a sentence about it."""
        expected = self.num_columns
        numeric = {i for i, kind in columns.items() if not pa.types.is_large_string(kind)}
        for position, (line, fields) in enumerate(self.rows()):
            if len(fields) != expected:
                number = f"{len(fields)} field{'s' * (len(fields) != 1)}"
                raise InputError(
                    f"line {line:,} of {self.path} has {number} where the first row has {expected} "
                    f"({shorten(fields)}; the separator is {_NAMES[self.separator]}); use one "
                    f"separator and the same number of fields throughout"
                )
            if position < has_header:
                continue
            for i in numeric:
                cell = fields[i].strip()
                if cell not in null_values and not is_number(cell):
                    raise InputError(
                        f"line {line:,} of {self.path} has {cell!r} in column "
                        f"{self._name(i, has_header)!r}, which must be a number"
                    )
        raise InputError(
            f"{self.path} cannot be read as a table ({str(error).splitlines()[0][:160]}); "
            f"check its quotes and separators"
        ) from None

    def _name(self, column: int, has_header: bool) -> str:
        return self.sample[0][column] if has_header else f"column {column + 1}"


def lines_are_exact(raw: Raw) -> bool:
    """Whether whole lines of text hold no number with a zero at its front."""
    data = np.frombuffer(raw, dtype=np.uint8)
    if data[0] == ord("0") and len(data) > 1 and _is_digit_or_x(data[1:2])[0]:
        return False
    if raw[-2:] == b"-0":
        return False
    for start in range(0, len(data) - 2, _SCAN_BYTES):
        before, here, after = (
            data[start + i : min(start + i + _SCAN_BYTES, len(data) - 2 + i)] for i in range(3)
        )
        forget_pages(raw)
        front = (here == ord("0")) & ~((before - ord("0")) < 10)
        if bool(np.any(front & (_is_digit_or_x(after) | (before == ord("-"))))):
            return False
    return True


def _is_digit_or_x(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    matches: npt.NDArray[np.bool_] = ((data - ord("0")) < 10) | ((data | 0x20) == ord("x"))
    return matches


def is_integer(cell: str) -> bool:
    """Whether a cell holds a whole number in plain decimal digits."""
    digits = cell.strip().removeprefix("-")
    return digits.isascii() and digits.isdecimal()


def is_number(cell: str) -> bool:
    """Whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _rows_of(text: str, separator: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    return rows_of_lines(io.StringIO(text, newline=""), separator, path, '"' in text)


def rows_of_lines(
    lines: Iterable[str], separator: str, path: Path, quoted: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of every row that is neither blank nor a comment."""
    if separator == SPACE and not quoted:
        for number, line in enumerate(lines, start=1):
            # Not str.split, which also takes a no-break space, part of an id, for a gap.
            trimmed = line.strip(" \t\r\n")
            if trimmed and line[0] not in "#%":
                yield number, _BLANKS.split(trimmed)
        return
    number = 0
    at_start = True  # of a record; further lines of a quoted cell are never comments

    def feed() -> Iterator[str]:
        nonlocal number, at_start
        for line in lines:
            number += 1
            if at_start and (line[0] in "#%" or not line.strip("\r\n")):
                continue
            if separator == SPACE:
                line = single_spaces(line.encode())[:].decode()
            at_start = False
            yield line

    reader = csv.reader(feed(), delimiter=separator)
    try:
        for fields in reader:
            at_start = True
            if fields:
                yield number, fields
    except csv.Error as error:
        raise InputError(
            f"line {number:,} of {path} cannot be read ({error}); check its quotes"
        ) from None


def _guess_separator(text: str, path: Path) -> str:
    best, best_lines = SPACE, 0
    for candidate in [sign for sign in "\t,;|" if sign in text] + [SPACE]:
        try:
            widths = Counter(len(fields) for _, fields in _rows_of(text, candidate, path))
        except InputError:  # the wrong separator can make a field longer than csv allows
            continue
        wide = sum(count for width, count in widths.items() if width >= 2)
        if wide and len(widths) == 1:
            return candidate
        if wide > best_lines:
            best, best_lines = candidate, wide
    return best


@functools.cache
def _tokens(separator: str) -> re.Pattern[bytes]:
    """Return what finds comments and quoted cells, each where it begins: in one pass."""
    gaps = rb" \t" if separator == SPACE else re.escape(separator.encode())
    quoted = rb"(?<![^\r\n" + gaps + rb'])"[^"]*(?:""[^"]*)*(?:(?P<closed>")|\Z)'
    return re.compile(rb"(?m:^)(?P<comment>[#%][^\n]*(?:\n|\Z))|" + quoted)


def body_start(data: Raw, has_header: bool, separator: str) -> tuple[int, bool]:
    """Return where the data rows begin, behind blank lines and the header, and if there is one.

    A header with a quote that is not closed has no end, which is returned as -1.
    """
    start = 0
    while data[start : start + 1] in (b"\n", b"\r"):
        start += 1
    if start == len(data) or not has_header:
        return start, start < len(data)
    end = data.find(b"\n", start)
    for cell in _tokens(separator).finditer(data, start):
        if end < 0 or cell.start() > end:
            break
        if cell["comment"] is not None:
            continue
        if cell["closed"] is None:
            return -1, False
        end = data.find(b"\n", max(cell.end(), end))
    return (len(data) if end < 0 else end + 1), True


def strip_comments(data: Raw, separator: str, inside: bool = False) -> tuple[Raw, int, bool]:
    """Leave out the lines that begin with ``#`` or ``%``.

    Args:
        data: Whole lines.
        separator: What stands between cells.
        inside: Whether they begin within a quoted cell, where nothing is a comment.

    Returns:
        The other lines, the number of comments, and whether they end within a quoted cell.
    """
    has_marks = data[:1] in (b"#", b"%") or data.find(b"\n#") >= 0 or data.find(b"\n%") >= 0
    has_quotes = data.find(b'"') >= 0
    if not has_quotes and (inside or not has_marks):
        return data, 0, inside
    kept: list[bytes] = []
    count = start = at = 0  # start: of the stretch not yet copied
    if inside:
        rest = _REST_OF_QUOTED.match(data)
        assert rest is not None
        at, inside = rest.end(), rest["closed"] is None
    for token in _tokens(separator).finditer(data, at):
        if token["comment"] is None:
            inside = token["closed"] is None
            continue
        kept.append(data[start : token.start()])
        start, count = token.end(), count + 1
    if not count:
        return data, 0, inside
    return b"".join([*kept, data[start:]]), count, inside


def single_spaces(data: Raw, inside: bool = False) -> Raw:
    """Turn every run of blanks outside quotes into one space and trim the lines.

    Args:
        data: Whole lines.
        inside: Whether they begin within a quoted cell.
    """
    untidy = (b"\t", b"  ", b" \n", b"\n ", b" \r")
    if data[:1] != b" " and data[-1:] != b" " and all(data.find(u) < 0 for u in untidy):
        return data
    if data.find(b'"') < 0:
        if inside:
            return data
        return re.sub(rb"(?m)^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", data))
    rest = _REST_OF_QUOTED.match(data) if inside else None
    at = 0 if rest is None else rest.end()
    tidy = _QUOTED_OR_GAP.sub(_one_gap, data[at:])
    return data[:at] + tidy


def _one_gap(match: re.Match[bytes]) -> bytes:
    """Return a quoted cell as it is, a gap at either end of a line as nothing, others as one."""
    found = match[0]
    if found[:1] == b'"':
        return found
    text, begin, end = match.string, match.start(), match.end()
    at_edge = begin == 0 or text[begin - 1 : begin] in (b"\n", b"\r")
    at_edge = at_edge or text[end : end + 1] in (b"\n", b"\r", b"")
    return b"" if at_edge else b" "


def shorten(fields: Sequence[str]) -> str:
    """Write fields for a message, cut if they are long."""
    text = repr(" ".join(fields))
    return text if len(text) <= 60 else text[:57] + "...'"


class _Body(io.RawIOBase):
    """Bytes from an iterator, as a file that Arrow can read from."""

    def __init__(self, blocks: Iterator[memoryview]) -> None:
        super().__init__()
        self._blocks, self._rest = blocks, memoryview(b"")

    def readable(self) -> bool:
        """Say that this file can be read from, as Arrow asks."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer than asked for only at the end."""
        parts, missing = [], size
        while missing:
            if not len(self._rest):
                block = next(self._blocks, None)
                if block is None:
                    break
                self._rest = block
            piece = self._rest if missing < 0 else self._rest[:missing]
            self._rest = self._rest[len(piece) :]
            parts.append(piece)
            missing -= len(piece) if missing > 0 else 0
        return parts[0].tobytes() if len(parts) == 1 else b"".join(parts)
