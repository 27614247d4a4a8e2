"""Read edge weights and refuse those that a graph cannot hold, naming where they stand.

Graphs keep weights in single precision: one beyond its range would silently become infinite or 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graphham.errors import InputError
from graphham.graph.graph import fits_single
from graphham.io.text import TextTable


def is_usable(weight: float) -> bool:
    """Whether a graph can hold a weight."""
    return bool(fits_single(np.array([weight]))[0])


def advice_for(weight: float) -> str:
    """Say what to do about a weight that cannot be used; not a number counts as not above 0."""
    if not weight > 0:
        return "weights must be numbers above 0"
    return "single precision has no such number, so scale the weights to lie in 1e-37 to 1e38"


def text_weights(
    column: pa.Array, table: TextTable, name: str, has_header: bool, before: int = 0
) -> npt.NDArray[np.float64]:
    """Read a text column of weights, naming the line of one that cannot be used.

    Args:
        column: The cells.
        table: The file they are from.
        name: What the column is called.
        has_header: The first line of the file holds names.
        before: How many rows of the file came before these.
    """
    trimmed = pc.utf8_trim_whitespace(column)
    try:
        values: npt.NDArray[np.float64] = _plain(trimmed.cast(pa.float64()))
        where = _first_unusable(values)
    except pa.ArrowInvalid:
        where = next(i for i, v in enumerate(trimmed.to_pylist()) if not is_usable(number_of(v)))
    if where >= 0:
        text = trimmed[where].as_py()
        line = table.line_of(before + where, has_header)
        raise InputError(
            f"line {line:,} of {table.path} has the weight {text!r} in "
            f"column {name!r}; {advice_for(number_of(text))}"
        )
    return values


def weights_of(
    column: pa.Array, name: str, origin: str, before: int = 0
) -> npt.NDArray[np.float64]:
    """Read a column of weights; ``before`` rows of the same file came before it."""
    try:
        values = _plain(column.cast(pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"the weight column {name!r} of {origin} is not numeric") from None
    return check_weights(values, origin, before)


def check_weights(
    values: npt.NDArray[Any], origin: str, before: int = 0
) -> npt.NDArray[np.float64]:
    """Return weights as float64, or refuse the first that cannot be used by its row."""
    where = _first_unusable(values)
    if where >= 0:
        raise InputError(
            f"row {before + where + 1:,} of {origin} has the weight {values[where]}; "
            f"{advice_for(float(values[where]))}"
        )
    return values.astype(np.float64)


def _plain(column: pa.Array) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    return values


def _first_unusable(values: npt.NDArray[Any]) -> int:
    bad = np.flatnonzero(~fits_single(values))
    return int(bad[0]) if bad.size else -1


def number_of(text: str) -> float:
    """Return a cell as a number; what is none is not a number."""
    try:
        return float(pa.scalar(text).cast(pa.float64()).as_py())
    except pa.ArrowInvalid:
        return float("nan")
