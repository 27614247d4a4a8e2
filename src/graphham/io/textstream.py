"""Read delimited text piece by piece, for files that should not be in memory at once."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv

from graphham.errors import InputError
from graphham.io.text import (
    SPACE,
    TextTable,
    body_start,
    lines_are_exact,
    rows_of_lines,
    single_spaces,
    strip_comments,
)

_HEAD_BYTES = 1 << 22
_HEAD_LINES = 64
_BLOCK_BYTES = 1 << 22
_MARK = b"\xef\xbb\xbf"


class StreamedTable(TextTable):
    """A text table that only ever holds its first lines and the piece being read.

    Args:
        file: Where the text lies, not compressed.
        path: What the user calls the file, for messages.
        head: Its first lines.
    """

    def __init__(self, file: Path, path: Path, head: bytes) -> None:
        super().__init__(path, head, "edges")
        self._file = file
        self.rows_before = 0  # the piece in hand, for line numbers
        self.quoted = self._holds_quote()

    @classmethod
    def open(cls, file: Path, path: Path) -> StreamedTable | None:
        """Open a text file, or return ``None`` if it is of a rare kind that must be read whole.

        Those are files whose first lines are very long, files without line feeds, and quoted cells
        between runs of blanks. What is wrong with a file is also left to the whole reader to say.
        """
        with file.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            if len(head) == _HEAD_BYTES:
                head = head[: head.rfind(b"\n") + 1]
                if head.count(b"\n") < _HEAD_LINES:
                    return None
        if b"\n" not in head:
            return None
        try:
            table = cls(file, path, head)
        except InputError:
            return None
        return None if table.quoted and table.separator == SPACE else table

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return self._file.stat().st_size

    def integers_are_exact(self) -> bool:
        """Whether whole numbers read from this file are certain to be written back the same way."""
        return all(lines_are_exact(block) for block in self._blocks())

    def line_of(self, row: int, has_header: bool) -> int:
        """Return the line number of a row of the piece read last."""
        return super().line_of(self.rows_before + row, has_header)

    def batches(
        self, columns: Mapping[int, pa.DataType], has_header: bool
    ) -> Iterator[list[pa.Array]]:
        """Yield some columns piece by piece.

        Raises:
            pa.ArrowInvalid: A line has another number of fields, a cell is not of its type, or the
                text is not UTF-8; :meth:`explain` finds out which.
        """
        self.rows_before = 0
        body = pa.PythonFile(_Body(self._cleaned(has_header)), mode="r")
        try:
            reader = pcsv.open_csv(body, **self._options(columns))
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return
            raise
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            yield [batch.column(str(i)) for i in columns]

    def explain(
        self, error: pa.ArrowInvalid, columns: Mapping[int, pa.DataType], has_header: bool
    ) -> None:
        """Find the line Arrow stumbled over and raise a sentence about it."""
        self.rows_before = 0
        self._explain(error, columns, has_header, ())

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole lines, without a byte order mark."""
        rest = b""
        with self._file.open("rb") as stream:
            if stream.read(3) != _MARK:
                stream.seek(0)
            while piece := stream.read(_BLOCK_BYTES):
                cut = piece.rfind(b"\n") + 1
                if cut:
                    yield rest + piece[:cut]
                    rest = piece[cut:]
                else:
                    rest += piece
        if rest:
            yield rest

    def _cleaned(self, has_header: bool) -> Iterator[bytes]:
        """Yield the lines of the data rows, without comments and with single separators."""
        quotes, begun = 0, False
        for block in self._blocks():
            data: bytes = strip_comments(block, quotes)[:]
            if self.quoted:
                quotes += data.count(b'"')
            if self.separator == SPACE:
                data = single_spaces(data)[:]
            if not begun and data.strip(b"\r\n"):
                data, begun = data[body_start(data, has_header) :], True
            if begun and data:
                yield data

    def _holds_quote(self) -> bool:
        return any(b'"' in block for block in self._blocks())

    def _all_rows(self) -> Iterator[tuple[int, list[str]]]:
        with self._file.open("rb") as stream:
            lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            try:
                yield from rows_of_lines(lines, self.separator, self.path, self.quoted)
            except UnicodeDecodeError:
                raise InputError(f"{self.path} is not UTF-8 text; save it as UTF-8") from None


class _Body(io.RawIOBase):
    """Bytes from an iterator, as a file that Arrow can read from."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
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
                self._rest = memoryview(block)
            piece = self._rest if missing < 0 else self._rest[:missing]
            self._rest = self._rest[len(piece) :]
            parts.append(piece)
            missing -= len(piece) if missing > 0 else 0
        return parts[0].tobytes() if len(parts) == 1 else b"".join(parts)
