"""What a Parquet file says about its columns, read without Arrow.

Arrow ends the whole process when it is asked about a column whose entry contradicts itself, since
that question, unlike reading, does not catch the error inside. The footer is a structure in
Thrift's compact protocol, of which a few numbers are needed; everything else is skipped.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MOST_DEPTH = 30
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED")
_DELTA_BYTE_ARRAY = 7


@dataclass(frozen=True)
class Chunk:
    """The values of one column in one group of rows.

    Args:
        group: The group of rows.
        path: The name of the column; those of nested ones have points in them.
        physical_type: How its values are stored.
        num_values: How many there are.
        num_bytes: What they take when they are not compressed.
        has_dictionary: Whether values are numbers that name entries of a dictionary.
        is_delta: Whether texts are stored by what differs from the text before.
    """

    group: int
    path: str
    physical_type: str
    num_values: int
    num_bytes: int
    has_dictionary: bool
    is_delta: bool


def read_chunks(raw: bytes | mmap.mmap) -> Iterator[Chunk]:
    """Yield what the footer says of every column of every group of rows.

    Raises:
        ValueError: The footer is damaged.
    """
    size = int.from_bytes(raw[-8:-4], "little")
    if len(raw) < size + 12 or raw[-4:] != b"PAR1":
        raise ValueError("the footer is cut short")
    try:
        about = _Compact(bytes(raw[-8 - size : -8])).struct()
        for group, rows in enumerate(about[4]):
            for column in rows[1]:
                yield _chunk(group, column[3])
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the footer is damaged ({error})") from None


def _chunk(group: int, about: dict[int, Any]) -> Chunk:
    return Chunk(
        group=group,
        path=b".".join(about[3]).decode("utf-8", errors="replace"),
        physical_type=_TYPES[about[1]],
        num_values=max(0, int(about[5])),
        num_bytes=max(0, int(about[6])),
        has_dictionary=11 in about,
        is_delta=_DELTA_BYTE_ARRAY in about[2],
    )


class _Compact:
    """Thrift's compact protocol: structures as dictionaries from the numbers of their fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._depth = data, 0, 0

    def struct(self) -> dict[int, Any]:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError("the footer is nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._number()
            found[field] = kind == 1 if kind in (1, 2) else self._value(kind)
        self._depth -= 1
        return found

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):  # in a list, a truth value takes a byte
            return self._byte()
        if kind in (4, 5, 6):
            return self._number()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._element(head & 15) for _ in range(self._checked(count))]
        if kind == 11:
            count = self._varint()
            kinds = self._byte() if count else 0
            entries = range(self._checked(count))
            return [(self._element(kinds >> 4), self._element(kinds & 15)) for _ in entries]
        if kind == 12:
            return self.struct()
        raise ValueError(f"the footer has a value of unknown type {kind}")

    def _element(self, kind: int) -> Any:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError("the footer is nested too deeply")
        value = self._value(kind)
        self._depth -= 1
        return value

    def _checked(self, count: int) -> int:
        if count > len(self._data) - self._at:  # every value takes a byte at least
            raise ValueError(f"the footer promises {count:,} values that are not there")
        return count

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += self._checked(count)
        return self._data[self._at - count : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("the footer has a number that never ends")

    def _number(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
