"""Read delimited text: CSV, TSV, semicolons, bars or runs of whitespace.

Arrow's threaded reader does the work. Only when it refuses a file does a slow pass run over the
lines, to say which line is wrong and why.
"""

from __future__ import annotations

import csv
import io
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
from graphham.io.files import Raw

_SAMPLE_BYTES = 1 << 18
_SAMPLE_LINES = 50
_SCAN_BYTES = 1 << 20
SPACE = " "
_NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar", SPACE: "whitespace"}
_QUOTED_OR_GAP = re.compile(rb'"(?:[^"]|"")*"|[ \t]+')


class TextTable:
    """A delimited text file whose separator is known and whose cells are still text.

    Comment lines (first character ``#`` or ``%``) and blank lines are skipped. The separator is the
    first of tab, comma, semicolon and bar that splits the sampled lines into equally many (two or
    more) fields, otherwise whitespace.

    Args:
        path: Where the text came from, for messages.
        raw: All bytes of the file.
        what: What the file is to the user ("edges", "features"), for messages.
    """

    def __init__(self, path: Path, raw: Raw, what: str) -> None:
        self.path, self.what = path, what
        self._raw = raw
        self._refuse_binary()
        text = self._sample_text()
        self.separator = _guess_separator(text, path)
        self.sample = [fields for _, fields in self._rows(text)]
        if not self.sample:
            if any(True for _ in self._rows(self._decode())):
                self.sample = [fields for _, fields in self._rows(self._decode())][:_SAMPLE_LINES]
            else:
                raise InputError(
                    f"the {what} file {path} has no rows, only blank lines or comments; "
                    f"it needs at least one row"
                )
        self.quoted = raw.find(b'"') >= 0

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
            self._explain(error, columns, has_header, null_values)

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

    def line_of(self, row: int, has_header: bool) -> int:
        """Return the line number of a data row, counting from 1 as editors do."""
        wanted = row + has_header
        for position, (line, _) in enumerate(self._all_rows()):
            if position == wanted:
                return line
        raise IndexError(row)

    def _read_fast(
        self, columns: Mapping[int, pa.DataType], has_header: bool, null_values: Sequence[str]
    ) -> list[pa.ChunkedArray]:
        body = self._body(has_header)
        if not len(body):
            return [pa.chunked_array([], type=kind) for kind in columns.values()]
        table = pcsv.read_csv(pa.BufferReader(body), **self._options(columns, null_values))
        return [table.column(str(i)) for i in columns]

    def _options(
        self, columns: Mapping[int, pa.DataType], null_values: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return how Arrow is to read the body; its columns are named by position."""
        names = [str(i) for i in range(self.num_columns)]
        longest = max(len(line) for line in self._sample_text().splitlines())
        block = max(1 << 22, 4 * longest)  # Arrow refuses lines longer than a block
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

    def _body(self, has_header: bool) -> pa.Buffer:
        """Return the bytes of the data rows, without comments and with single separators."""
        data = self._without_comments(self._raw)
        if self.separator == SPACE:
            data = single_spaces(data)
        return pa.py_buffer(data).slice(body_start(data, has_header))

    def _without_comments(self, data: Raw) -> Raw:
        if data.find(b"\n") < 0 and data.find(b"\r") >= 0:
            data = data[:].replace(b"\r", b"\n")
        if data[:3] == b"\xef\xbb\xbf":
            data = data[3:]
        return strip_comments(data)

    def _all_rows(self) -> Iterator[tuple[int, list[str]]]:
        return self._rows(self._decode())

    def _sample_text(self) -> str:
        data = self._raw
        end = 0
        for _ in range(_SAMPLE_LINES):
            end = data.find(b"\n", end) + 1
            if not end:
                break
        if end and end < _SAMPLE_BYTES:
            end = data.rfind(b"\n", 0, _SAMPLE_BYTES) + 1 if len(data) > _SAMPLE_BYTES else 0
        sample = data[:end] if end else data[:]
        return sample.decode("utf-8", errors="replace").removeprefix("\ufeff")

    def _decode(self) -> str:
        try:
            return self._raw[:].decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            line = self._raw[: error.start].count(b"\n") + 1
            raise InputError(
                f"{self.path} is not UTF-8 text (byte {error.start:,}, line {line:,}); "
                f"save it as UTF-8"
            ) from None

    def _refuse_binary(self) -> None:
        head = self._raw[:65536]
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError(f"{self.path} is UTF-16 text, not UTF-8; save it as UTF-8")
        if b"\0" in head:
            raise InputError(
                f"{self.path} is binary data, not a table of {self.what} (a zero byte at "
                f"{head.index(0):,}); give CSV, TSV, whitespace text, Parquet, npz or GraphML"
            )

    def _rows(self, text: str) -> Iterator[tuple[int, list[str]]]:
        return _rows_of(text, self.separator, self.path)

    def _explain(
        self,
        error: pa.ArrowInvalid,
        columns: Mapping[int, pa.DataType],
        has_header: bool,
        null_values: Sequence[str],
    ) -> NoReturn:
        """Find the line Arrow stumbled over and raise a sentence about it."""
        expected = self.num_columns
        numeric = {i for i, kind in columns.items() if not pa.types.is_large_string(kind)}
        for position, (line, fields) in enumerate(self._all_rows()):
            if len(fields) != expected:
                found = f"{len(fields)} field{'s' * (len(fields) != 1)}"
                raise InputError(
                    f"line {line:,} of {self.path} has {found} where the first row has {expected} "
                    f"({_shorten(fields)}; the separator is {_NAMES[self.separator]}); use one "
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
    for start in range(0, len(data) - 2, _SCAN_BYTES):
        before, here, after = (
            data[start + i : min(start + i + _SCAN_BYTES, len(data) - 2 + i)] for i in range(3)
        )
        front = (here == ord("0")) & ~((before - ord("0")) < 10)
        if bool(np.any(front & (_is_digit_or_x(after) | (before == ord("-"))))):
            return False
    return True


def _is_digit_or_x(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = ((data - ord("0")) < 10) | ((data | 0x20) == ord("x"))
    return found


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
            fields = line.split()
            if fields and line[0] not in "#%":
                yield number, fields
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


def body_start(data: Raw, has_header: bool) -> int:
    """Return where the data rows begin: behind a byte order mark, blank lines and the header."""
    start = 3 if data[:3] == b"\xef\xbb\xbf" else 0
    while data[start : start + 1] in (b"\n", b"\r"):
        start += 1
    if not has_header:
        return start
    end = start
    while True:
        end = data.find(b"\n", end) + 1
        if not end or data[start:end].count(b'"') % 2 == 0:
            return end or len(data)


def strip_comments(data: Raw, quotes: int = 0) -> Raw:
    """Return whole lines without those that begin with ``#`` or ``%``.

    Args:
        data: The lines.
        quotes: How many quotes came before them: within an open one nothing is a comment.
    """
    marks = (b"\n#", b"\n%")
    if data[:1] not in (b"#", b"%") and all(data.find(mark) < 0 for mark in marks):
        return data
    kept: list[bytes] = []
    start = 0  # of the stretch not yet copied
    for mark in re.finditer(rb"(?m)^[#%][^\n]*(?:\n|\Z)", data):
        if mark.start() < start:
            continue
        piece = data[start : mark.start()]
        quotes += piece.count(b'"')
        kept.append(piece)
        start = mark.start()
        # Inside an open quote the line belongs to a cell, it is not a comment.
        if quotes % 2 == 0:
            start = mark.end()
    kept.append(data[start:])
    return b"".join(kept)


def single_spaces(data: Raw) -> Raw:
    """Turn every run of blanks outside quotes into one space and trim the lines."""
    untidy = (b"\t", b"  ", b" \n", b"\n ", b" \r")
    if data[:1] != b" " and data[-1:] != b" " and all(data.find(u) < 0 for u in untidy):
        return data
    if data.find(b'"') < 0:
        tidy = re.sub(rb"[ \t]+", b" ", data)
    else:
        tidy = _QUOTED_OR_GAP.sub(lambda m: m[0] if m[0][:1] == b'"' else b" ", data)
    return re.sub(rb"(?m)^ | (?=\r?$)", b"", tidy)


def _shorten(fields: Sequence[str]) -> str:
    text = repr(" ".join(fields))
    return text if len(text) <= 60 else text[:57] + "...'"
