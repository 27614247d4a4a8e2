"""Give ids rows in order of first appearance: an exact hash table over raw UTF-8 bytes.

An id of up to 15 bytes lies in its slot and is compared there, so a look-up touches one cache line;
of a longer id the slot holds 120 bits of hash and a match is confirmed byte by byte. Slots are
fetched a block of ids ahead of their use, because at millions of ids every look-up misses the
cache and waiting for memory is most of the cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from graphham.errors import InputError
from graphham.system.jit import exact, frozen, inlined, jit, prefetch

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_BLOCK = 64  # edge rows looked up together
_STRIDE = 4  # words of a slot: two of key, row + 1 (0: free), one unused so slots share no line
_FULLEST = 0.7
_SMALLEST = 1 << 12
_INLINE = 15
_LONG = np.uint64(0xFF << 56)
_NUMBER = np.uint64(0xFE << 56)

# What to keep of the two words loaded at an id of 0..15 bytes.
_KEEP = np.array(
    [[(1 << 8 * min(size, 8)) - 1, (1 << 8 * max(size - 8, 0)) - 1] for size in range(_INLINE + 1)],
    dtype=np.uint64,
)


class IdTable:
    """All ids seen so far, each with the row it got.

    Args:
        limit_bytes: How much memory the ids may take.
        numbers: The ids are int64 instead of text.
    """

    def __init__(self, limit_bytes: int, numbers: bool = False) -> None:
        self._limit, self._numbers = limit_bytes, numbers
        self._slots = _new_slots(_SMALLEST)
        self._bytes: Bytes = np.empty(0 if numbers else 1 << 16, dtype=np.uint8)
        # Ends of the ids in the bytes, or the numbers themselves.
        self._items = np.zeros(1 << 12, dtype=np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def num_bytes(self) -> int:
        """How much memory the table takes."""
        return self._slots.nbytes + self._bytes.nbytes + self._items.nbytes

    def encode(self, source: pa.Array, target: pa.Array) -> npt.NDArray[np.int32]:
        """Return the ``(rows, 2)`` codes of edges, adding ids that are new.

        Args:
            source: First ends without nulls, ``int64`` for numbers, else text of any offset width.
            target: Second ends, likewise.
        """
        codes = np.empty((len(source), 2), dtype=np.int32)
        if self._numbers:
            ends = [frozen(_flat(end)) for end in (source, target)]
            self._reserve(2 * len(source), 0)
            args = (*ends, self._slots, self._items, self._count, codes)
            self._count = int(_encode_numbers(*args))
            return codes
        parts = [part for end in (source, target) for part in _text_parts(end)]
        num_bytes = sum(int(bounds[-1] - bounds[0]) for bounds in parts[1::2])
        self._reserve(2 * len(source), num_bytes)
        args = (*parts, self._slots, self._bytes, self._items, self._count, _KEEP, codes)
        self._count = int(_encode_texts(*args))
        return codes

    def ids(self) -> Any:
        """Return the ids in the order of their codes: ``int64`` array or Arrow ``large_string``."""
        if self._numbers:
            return self._items[: self._count]
        bounds = self._items[: self._count + 1]
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._bytes[: bounds[-1]])]
        return pa.Array.from_buffers(pa.large_string(), self._count, buffers)

    def forget_slots(self) -> None:
        """Give back the memory that only :meth:`encode` needs."""
        self._slots = _new_slots(_SMALLEST)

    def _reserve(self, more: int, more_bytes: int) -> None:
        """Make room for that many new ids, so that compiled code never runs out of it."""
        needed = self._count + more
        if needed >= 2**31:
            raise InputError("more than 2,147,483,647 ids may occur; split the graph")
        self._items = _grown(self._items, self._count + 1, needed + 1)
        if not self._numbers:
            used = int(self._items[self._count])
            self._bytes = _grown(self._bytes, used, used + more_bytes)
        capacity = len(self._slots) // _STRIDE
        while needed > _FULLEST * capacity:
            capacity *= 2
        if capacity * _STRIDE > len(self._slots):
            # Both tables exist while the ids move over.
            self._refuse_over(self.num_bytes + capacity * _STRIDE * 8)
            larger = _new_slots(capacity)
            _move_slots(self._slots, larger)
            self._slots = larger
        self._refuse_over(self.num_bytes)

    def _refuse_over(self, num_bytes: int) -> None:
        if num_bytes > self._limit:
            raise InputError(
                f"the {self._count:,} different ids read so far need {num_bytes / 2**30:.2f} GiB, "
                f"more than the {self._limit / 2**30:.2f} GiB they may take; raise --memory-gib"
            )


def _new_slots(capacity: int) -> Words:
    """Return free slots that each lie within one cache line."""
    raw = np.zeros(capacity * _STRIDE + 8, dtype=np.uint64)
    skip = -(raw.ctypes.data // 8) % 8
    return raw[skip : skip + capacity * _STRIDE]


def _grown(values: npt.NDArray[Any], used: int, needed: int) -> npt.NDArray[Any]:
    if needed <= len(values):
        return values
    larger = np.zeros(max(needed, len(values) + len(values) // 2), dtype=values.dtype)
    larger[:used] = values[:used]
    return larger


def _flat(column: pa.Array) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
    return values.astype(np.int64, copy=False)


def _text_parts(column: pa.Array) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Return the bytes and the ``(rows + 1,)`` bounds of a text column, without copying bytes."""
    if not pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    width = np.int32 if pa.types.is_string(column.type) else np.int64
    _, bounds, data = column.buffers()
    if not len(column):
        return frozen(np.empty(0, np.uint8)), frozen(np.zeros(1, np.int64))
    ends = np.frombuffer(bounds, width)[column.offset : column.offset + len(column) + 1]
    flat = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return frozen(flat), frozen(ends, np.int64)


@intrinsic
def _load_word(typing_context: Any, array: Any, position: Any) -> Any:
    """Read the eight bytes that begin at ``array[position]`` as a uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        offset = context.cast(builder, arguments[1], signature.args[1], types.intp)
        word = ir.IntType(64).as_pointer()
        loaded = builder.load(builder.bitcast(builder.gep(view.data, [offset]), word))
        loaded.align = 1
        return loaded

    return types.uint64(array, position), generate


_load: Any = _load_word


@inlined
def _spread(first: Any, second: Any) -> Any:
    """Return 64 well-mixed bits of a key; its top bits choose the slot."""
    bits = first * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(32)
    bits = (bits ^ second) * np.uint64(0xD6E8FEB86659FD93)
    bits ^= bits >> np.uint64(32)
    return bits * np.uint64(0xD6E8FEB86659FD93)


@exact
def _shift_of(slots: Any) -> Any:
    capacity = len(slots) // _STRIDE
    shift = np.uint64(64)
    while capacity > 1:
        capacity >>= 1
        shift -= np.uint64(1)
    return shift


@exact
def _tail_word(data: Any, begin: Any, end: Any) -> Any:
    word = np.uint64(0)
    for at in range(begin, end):
        word |= np.uint64(data[at]) << np.uint64(8 * (at - begin))
    return word


@exact
def _long_key(data: Any, begin: Any, end: Any) -> Any:
    """Return both key words of an id over 15 bytes."""
    first, second = np.uint64(end - begin), np.uint64(0x2545F4914F6CDD1D)
    at = begin
    while at < end:
        word = _load(data, at) if at + 8 <= end else _tail_word(data, at, end)
        first = (first ^ word) * np.uint64(0x9E3779B97F4A7C15)
        first ^= first >> np.uint64(29)
        second = (second + word) * np.uint64(0xBF58476D1CE4E5B9)
        second ^= second >> np.uint64(31)
        at += 8
    return first, (second >> np.uint64(8)) | _LONG


@exact
def _same_bytes(data: Any, begin: Any, end: Any, other: Any, start: Any, stop: Any) -> Any:
    if end - begin != stop - start:
        return False
    for step in range(end - begin):  # noqa: SIM110 - compiled, no generators
        if data[begin + step] != other[start + step]:
            return False
    return True


@jit
def _encode_texts(
    data_s: Any,
    bounds_s: Any,
    data_t: Any,
    bounds_t: Any,
    slots: Any,
    arena: Any,
    ends: Any,
    count: Any,
    keep: Any,
    codes: Any,
) -> Any:
    """Fill ``codes``; return the number of ids. Room for all of them is the caller's promise."""
    shift, last = _shift_of(slots), len(slots) // _STRIDE - 1
    firsts = np.empty(2 * _BLOCK, dtype=np.uint64)
    seconds = np.empty(2 * _BLOCK, dtype=np.uint64)
    places = np.empty(2 * _BLOCK, dtype=np.int64)
    for start in range(0, len(codes), _BLOCK):
        stop = min(start + _BLOCK, len(codes))
        for side in range(2):
            data, bounds = (data_s, bounds_s) if side == 0 else (data_t, bounds_t)
            safe = len(data) - 16
            for row in range(start, stop):
                begin, end = bounds[row], bounds[row + 1]
                size = end - begin
                if size > _INLINE:
                    first, second = _long_key(data, begin, end)
                else:
                    if begin <= safe:
                        first = _load(data, begin) & keep[size, 0]
                        second = _load(data, begin + 8) & keep[size, 1]
                    else:
                        first = _tail_word(data, begin, min(begin + 8, end))
                        second = _tail_word(data, begin + 8, end)
                    second |= np.uint64(size) << np.uint64(56)
                place = np.int64(_spread(first, second) >> shift)
                prefetch(slots, place * _STRIDE)
                at = 2 * (row - start) + side
                firsts[at], seconds[at], places[at] = first, second, place
        for at in range(2 * (stop - start)):
            first, second, place = firsts[at], seconds[at], places[at]
            row, side = start + at // 2, at % 2
            while True:
                slot = place * _STRIDE
                code = np.int64(slots[slot + 2]) - 1
                if code < 0:
                    code = count
                    count += 1
                    slots[slot], slots[slot + 1] = first, second
                    slots[slot + 2] = np.uint64(count)
                    data, bounds = (data_s, bounds_s) if side == 0 else (data_t, bounds_t)
                    begin, size = bounds[row], bounds[row + 1] - bounds[row]
                    arena[ends[code] : ends[code] + size] = data[begin : begin + size]
                    ends[count] = ends[code] + size
                    break
                if slots[slot] == first and slots[slot + 1] == second:
                    if second < _LONG:
                        break
                    data, bounds = (data_s, bounds_s) if side == 0 else (data_t, bounds_t)
                    begin, end = bounds[row], bounds[row + 1]
                    if _same_bytes(data, begin, end, arena, ends[code], ends[code + 1]):
                        break
                place = (place + 1) & last
            codes[row, side] = code
    return count


@jit
def _encode_numbers(
    source: Any, target: Any, slots: Any, numbers: Any, count: Any, codes: Any
) -> Any:
    shift, last = _shift_of(slots), len(slots) // _STRIDE - 1
    for start in range(0, len(codes), _BLOCK):
        stop = min(start + _BLOCK, len(codes))
        for row in range(start, stop):
            for side in range(2):
                value = np.uint64(source[row] if side == 0 else target[row])
                prefetch(slots, np.int64(_spread(value, _NUMBER) >> shift) * _STRIDE)
        for row in range(start, stop):
            for side in range(2):
                value = np.uint64(source[row] if side == 0 else target[row])
                place = np.int64(_spread(value, _NUMBER) >> shift)
                while True:
                    slot = place * _STRIDE
                    code = np.int64(slots[slot + 2]) - 1
                    if code < 0:
                        code = count
                        count += 1
                        slots[slot], slots[slot + 1] = value, _NUMBER
                        slots[slot + 2] = np.uint64(count)
                        numbers[code] = np.int64(value)
                        break
                    if slots[slot] == value:
                        break
                    place = (place + 1) & last
                codes[row, side] = code
    return count


@jit
def _move_slots(old: Any, new: Any) -> None:
    shift, last = _shift_of(new), len(new) // _STRIDE - 1
    for slot in range(0, len(old), _STRIDE):
        if old[slot + 2] != np.uint64(0):
            place = np.int64(_spread(old[slot], old[slot + 1]) >> shift)
            while new[place * _STRIDE + 2] != np.uint64(0):
                place = (place + 1) & last
            for word in range(3):
                new[place * _STRIDE + word] = old[slot + word]
