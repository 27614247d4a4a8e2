"""The user's own node ids, and the rows we give them.

An *id* is what the user wrote: an integer or a piece of text. A *row* is our dense integer. Rows
stay inside; every table that leaves the package carries ids.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError

Rows = npt.NDArray[np.int64]
_WHOLE = re.compile("-?[0-9]+")


class NodeIds:
    """A one-to-one map between ids and the rows ``0..N-1``.

    Args:
        values: Distinct ids in row order: an integer array, or text as an object array, a list of
            strings or an Arrow array of either.

    The look-up structure is built on first use, so opening a graph of millions of nodes costs
    nothing until somebody asks for a node by its id.
    """

    def __init__(self, values: Any) -> None:
        self._integers: npt.NDArray[np.int64] | None = None
        self._text: Any = None  # an Arrow string array; imported only where text ids occur
        self._sorted: tuple[npt.NDArray[np.int64], Rows] | None = None
        self._lookup: dict[str, int] | None = None
        self._is_range = False
        if type(values).__module__.startswith("pyarrow") and _is_integer_column(values):
            values = values.to_numpy()
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            if values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
                raise InputError(f"the id {values.max()} is beyond 64 bits; give it as text")
            self._integers = values.astype(np.int64, copy=False)
        elif type(values).__module__.startswith("pyarrow"):
            self._text = _as_large_string(values)
        else:
            items = list(values)
            if all(_fits_int64(v) for v in items):
                self._integers = np.asarray(items, dtype=np.int64)
            else:
                self._text = _text_column([str(v) for v in items])

    @classmethod
    def range(cls, count: int) -> NodeIds:
        """Make the ids ``0..count-1``, for graphs that come without names."""
        ids = cls(np.arange(count, dtype=np.int64))
        ids._is_range = True
        return ids

    @property
    def kind(self) -> Literal["integer", "text"]:
        """Whether the ids are whole numbers or text."""
        return "integer" if self._integers is not None else "text"

    def __len__(self) -> int:
        return len(self._integers) if self._integers is not None else len(self._text)

    def __getitem__(self, row: int) -> int | str:
        """Return the id of one row, as a plain Python value."""
        if self._integers is not None:
            return int(self._integers[row])
        value: str = self._text[int(row)].as_py()
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeIds) or self.kind != other.kind or len(self) != len(other):
            return False
        if self._integers is not None and other._integers is not None:
            return bool(np.array_equal(self._integers, other._integers))
        return bool(self._text.equals(other._text))

    __hash__ = None  # type: ignore[assignment]

    def take(self, rows: Sequence[int] | npt.NDArray[Any]) -> NodeIds:
        """Return the ids of ``rows``, in that order."""
        picked = np.asarray(rows, dtype=np.int64)
        if self._integers is not None:
            return NodeIds(self._integers[picked])
        import pyarrow as pa

        return NodeIds(self._text.take(pa.array(picked)))

    def tolist(self) -> list[int] | list[str]:
        """Return all ids as plain Python values."""
        values: list[Any] = self.to_arrow().to_pylist()
        return values

    def to_arrow(self) -> Any:
        """Return the ids as an Arrow array: ``int64`` or ``large_string``."""
        if self._integers is not None:
            import pyarrow as pa

            return pa.array(self._integers)
        return self._text

    def find(self, values: Any) -> Rows:
        """Return the row of each value, -1 where it is not a known id.

        Integers written as text ("31336") find integer ids and the other way round, because a CSV
        and a Parquet file of the same user often disagree on the type.
        """
        if self._integers is not None:
            queries, valid = _to_integers(values)
            return np.where(valid, self._find_integers(queries), -1)
        column = values.to_arrow() if isinstance(values, NodeIds) else values
        if len(column) > 10_000 and type(column).__module__.startswith("pyarrow"):
            return self._find_column(column)
        return self._find_text(_to_text(column))

    def rows(self, values: Any, what: str = "node") -> Rows:
        """Return the row of each value; a value that is not an id is an :class:`InputError`."""
        listed = [values] if isinstance(values, str | int | np.integer) else values
        rows = self.find(listed)
        missing = np.flatnonzero(rows < 0)
        if missing.size:
            first = _item(listed, int(missing[0]))
            raise InputError(
                f"{what} {first!r} is not an id of this graph{self._suggest(first)}"
                + (f" ({missing.size:,} such ids in all)" if missing.size > 1 else "")
            )
        return rows

    def row(self, value: int | str) -> int:
        """Return the row of one id; an unknown id is an :class:`InputError`."""
        return int(self.rows([value])[0])

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str | int | np.integer) and bool(self.find([value])[0] >= 0)

    def first_duplicate(self) -> int | str | None:
        """Return an id that occurs twice, or ``None`` when all are distinct."""
        if self._integers is not None:
            if self._is_range:
                return None
            ordered = np.sort(self._integers)
            twice = np.flatnonzero(ordered[1:] == ordered[:-1])
            return int(ordered[twice[0]]) if twice.size else None
        import pyarrow.compute as pc

        counts = pc.value_counts(self._text)
        if len(counts) == len(self._text):
            return None
        where = pc.index(pc.greater(counts.field("counts"), 1), True).as_py()
        value: str = counts.field("values")[where].as_py()
        return value

    def _find_integers(self, queries: npt.NDArray[np.int64]) -> Rows:
        assert self._integers is not None
        if self._is_range:
            return np.where((queries >= 0) & (queries < len(self)), queries, -1)
        if self._sorted is None:
            order = np.argsort(self._integers, kind="stable")
            self._sorted = self._integers[order], order
        ordered, order = self._sorted
        if not len(ordered):
            return np.full(len(queries), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(ordered, queries), len(ordered) - 1)
        return np.where(ordered[place] == queries, order[place], -1)

    def _find_text(self, queries: list[str | None]) -> Rows:
        if self._lookup is None:
            self._lookup = {v: i for i, v in enumerate(self._text.to_pylist())}
        lookup = self._lookup
        return np.fromiter(
            (-1 if v is None else lookup.get(v, -1) for v in queries), np.int64, count=len(queries)
        )

    def _find_column(self, queries: Any) -> Rows:
        """Look up a whole Arrow column: a hash join, without a Python object per id."""
        import pyarrow as pa
        import pyarrow.compute as pc

        values = _as_large_string(queries)
        rows = pc.fill_null(pc.index_in(values, self._text, skip_nulls=True), -1)
        return np.asarray(rows.cast(pa.int64()).to_numpy())

    def _suggest(self, value: Any) -> str:
        if not len(self):
            return ""
        if self._integers is None and len(self) <= 200_000:
            near = difflib.get_close_matches(str(value), self._text.to_pylist(), n=1)
            if near:
                return f" (did you mean {near[0]!r}?)"
        return f" (its ids are such as {self[0]!r})"

    def __repr__(self) -> str:
        return f"NodeIds({len(self):,} ids: {self.kind})"


def _text_column(items: list[str]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(items, type=pa.large_string())
    except UnicodeEncodeError as error:
        raise InputError(f"the id {error.object!r} is not valid text; rename it") from None


def _fits_int64(value: Any) -> bool:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and -(2**63) <= int(value) < 2**63


def _is_integer_column(values: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(values.type)) and not values.null_count


def _as_large_string(values: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        # One chunk, as in a memory-mapped file, is taken as it is: joining would copy it.
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return values if values.type == pa.large_string() else values.cast(pa.large_string())


def _item(values: Any, position: int) -> Any:
    value = values[position] if hasattr(values, "__getitem__") else list(values)[position]
    return value.as_py() if hasattr(value, "as_py") else value


def _to_integers(values: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Read values as integers; the second array tells which of them really are."""
    if isinstance(values, NodeIds):
        values = values._integers if values._integers is not None else values._text
    if type(values).__module__.startswith("pyarrow"):
        if _is_integer_column(values):
            values = values.to_numpy()
        elif len(values) > 10_000:
            return _column_to_integers(_as_large_string(values))
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values.astype(np.int64), values <= np.iinfo(np.int64).max
    numbers = np.zeros(len(values), dtype=np.int64)
    valid = np.zeros(len(values), dtype=bool)
    for i, text in enumerate(_to_text(values)):
        if text is not None and _WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**63:
            numbers[i], valid[i] = int(text), True
    return numbers, valid


def _column_to_integers(values: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Read a large Arrow text column as integers; 19 digits and more go the slow way."""
    import pyarrow as pa
    import pyarrow.compute as pc

    short = pc.fill_null(pc.match_substring_regex(values, "^-?[0-9]{1,18}$"), False)
    plain = pc.if_else(short, values, pa.scalar("0", pa.large_string()))
    numbers = np.array(plain.cast(pa.int64()).to_numpy())
    valid = np.array(short.to_numpy(zero_copy_only=False))
    rest = np.flatnonzero(~valid)
    if rest.size:
        numbers[rest], valid[rest] = _to_integers(values.take(pa.array(rest)).to_pylist())
    return numbers, valid


def _to_text(values: Any) -> list[str | None]:
    if isinstance(values, NodeIds):
        values = values.to_arrow()
    if type(values).__module__.startswith("pyarrow"):
        values = values.to_pylist()
    elif isinstance(values, np.ndarray):
        values = values.tolist()
    items: Iterable[Any] = values
    return [None if v is None else str(v) for v in items]
