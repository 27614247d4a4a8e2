"""What every edge format is to the reader: a stream of batches of edges.

A format is a module with one function, listed in the table of :mod:`graphham.io.edge_formats`. It
looks at an opened file and says what is in it as an :class:`EdgeSource`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.io.encode import listed


class NotIntegersError(Exception):
    """A file that began with whole numbers holds an id that is none: read everything as text."""


@dataclass(frozen=True)
class EdgeColumns:
    """Where the user says the edges of a file are.

    Args:
        source: Name of the first endpoint column; the first column if not given.
        target: Name of the second endpoint column; the first other column if not given.
        weight: Name of the weight column (npz: array, GraphML: edge attribute).
        directed: Keep the direction of edges.
        skip_bad_rows: Leave rows out that cannot be used, and say so, instead of refusing them.
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    directed: bool = False
    skip_bad_rows: bool = False

    def positions(self, names: Sequence[str], origin: str) -> tuple[int, int, int | None]:
        """Return the positions of source, target and weight among the column names."""
        for name in (self.source, self.target, self.weight):
            if name is not None and name not in names:
                raise InputError(f"{origin} has no column {name!r}; it has {listed(names)}")
        w = names.index(self.weight) if self.weight is not None else None
        ends = {
            "source": None if self.source is None else names.index(self.source),
            "target": None if self.target is None else names.index(self.target),
        }
        free = [i for i in range(len(names)) if i not in (*ends.values(), w)]
        for end, position in ends.items():
            if position is None:
                if not free:
                    raise InputError(f"{origin} has no column left for the {end} of an edge")
                ends[end] = free.pop(0)
        s, t = ends["source"], ends["target"]
        assert s is not None
        assert t is not None
        if s == t:
            raise InputError(f"the source and the target column of {origin} are both {names[s]!r}")
        return s, t, w


@dataclass(frozen=True)
class Batch:
    """Some edges of a file.

    Args:
        source: First ends without nulls, ``int64`` or text.
        target: Second ends.
        weights: One weight per edge, or ``None``.
        share: Share of the file that is read once this batch is.
    """

    source: pa.Array
    target: pa.Array
    weights: npt.NDArray[np.float64] | None = None
    share: float = 1.0


@dataclass(frozen=True)
class EdgeSource:
    """The edges of one file, which can be read piece by piece and more than once.

    Args:
        origin: What to call the file in messages.
        batches: Yields the edges. Called with ``True`` every id must be ``int64``, and one that is
            text is a :class:`NotIntegersError`; with ``False`` every id must be text.
        has_integers: The ids look like whole numbers, so try ``batches(True)`` first.
        is_weighted: Batches have weights.
        num_bytes: Size of the file, by which progress is measured.
        nodes: Ids that are nodes even without an edge, in the order of the file.
        row_ids: The ids in row order if batches hold rows (``int64``) instead of ids.
        notes: Remarks for the report.
        late_notes: Remarks that are known only when all batches have been read; added to.
        header_note: What to remark about a header if ids turn out to be text.
        first_line: The fields of the first line if it was read as an edge although it might be a
            header.
        remarks: Says what reading showed, once all batches were taken.
        unread: Names of the columns that are neither ends nor weights.
        how_to_weigh: What to do if one of them holds weights.
    """

    origin: str
    batches: Callable[[bool], Iterator[Batch]]
    has_integers: bool
    is_weighted: bool
    num_bytes: int = 1
    nodes: pa.Array | None = None
    row_ids: NodeIds | None = None
    notes: tuple[str, ...] = ()
    header_note: str = ""
    first_line: tuple[str, ...] | None = None
    remarks: Callable[[], list[str]] = list
    late_notes: list[str] = field(default_factory=list)
    unread: tuple[str, ...] = ()
    how_to_weigh: str = "--weight names a column of weights"


def unread_notes(sources: Sequence[EdgeSource]) -> list[str]:
    """Name the columns that nobody read, once for all files: one may hold the weights."""
    left = [source for source in sources if source.unread]
    if not left:
        return []
    first = left[0]
    more = f" and {len(left) - 1:,} more" if len(left) > 1 else ""
    told = f"columns of {first.origin}{more} were not read: {listed(first.unread, '').strip()}"
    return [
        told if first.is_weighted or not first.how_to_weigh else f"{told}; {first.how_to_weigh}"
    ]
