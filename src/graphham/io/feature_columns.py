"""Which columns of a table are features: those the user named, and never the answer itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Features, Graph, Labels
from graphham.io.added_nodes import add_notes
from graphham.io.encode import listed, undo_dictionary
from graphham.io.node_tables import NodeTable, is_frame, split_spec

# One column per value: more values than this are likely names or free text.
_MOST_VALUES = 200
# A larger table stays on disk and is not copied to lose a column.
_COPIED_BYTES = 4 << 30


@dataclass(frozen=True)
class ChosenColumns:
    """What the user said about the columns of a feature table.

    Args:
        columns: The features, in this order; all that are numbers if not given.
        drop: Columns to leave out.
    """

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that was named."""
        return (*(self.columns or ()), *self.drop)

    def positions(self, table: NodeTable, key: int, label: int | None) -> list[int]:
        """Return the positions of the columns to read, in order."""
        for name in self.drop:
            table.position(name, "feature")  # a misspelt one would stay a feature
        if self.columns is None:
            found = [i for i in range(len(table.names)) if i not in (key, label)]
        else:
            found = [table.position(name, "feature") for name in self.columns]
            for place, what in ((key, "id"), (label, "label")):
                if place in found:
                    raise InputError(
                        f"the column {table.names[place]!r} of {table.origin} is the {what} "
                        f"column, so it cannot be a feature too; leave it out of --features"
                    )
        return [i for i in found if table.names[i] not in self.drop]

    def with_indicators(
        self, table: NodeTable, positions: Sequence[int], numbers: dict[int, pa.ChunkedArray]
    ) -> tuple[list[str], list[pa.ChunkedArray]]:
        """Return names and values of all columns, text as one column of 0 and 1 per value."""
        names: list[str] = []
        values: list[pa.ChunkedArray] = []
        for place in positions:
            if place in numbers:
                names.append(table.names[place])
                values.append(numbers[place])
                continue
            for value, column in _indicators(table, place):
                names.append(f"{table.names[place]}={value}")
                values.append(column)
        if not names:
            raise InputError(
                f"no column of {table.origin} is left as a feature; name at least one that is not "
                f"dropped"
            )
        return names, values

    def of_matrix(
        self, matrix: Features, names: list[str] | None, origin: str
    ) -> tuple[Features, list[str] | None]:
        """Take the chosen columns of a matrix."""
        if not self.names:
            return matrix, names
        if names is None:
            raise InputError(
                f"{origin} has no column names, so {self.names[0]!r} cannot be chosen or dropped; "
                f"add an array 'names'"
            )
        unknown = next((name for name in self.names if name not in names), None)
        if unknown is not None:
            raise InputError(f"{origin} has no feature {unknown!r}; it has {listed(names)}")
        kept = [name for name in self.columns or names if name not in self.drop]
        if not kept:
            raise InputError(f"no column of {origin} is left as a feature; drop fewer")
        place = {name: i for i, name in enumerate(names)}
        return matrix[:, [place[name] for name in kept]], kept


def _indicators(table: NodeTable, place: int) -> list[tuple[str, pa.ChunkedArray]]:
    """Write a text column as one column per value, in order of the values; blank is all 0."""
    column = undo_dictionary(table.column(place))
    try:
        text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(
            f"the feature column {table.names[place]!r} of {table.origin} is of type "
            f"{column.type}; features are numbers or text"
        ) from None
    values = sorted(v for v in pc.unique(text).to_pylist() if v)
    if len(values) > _MOST_VALUES:
        raise InputError(
            f"the feature column {table.names[place]!r} of {table.origin} has {len(values):,} "
            f"different texts; at most {_MOST_VALUES} become features, so leave it out"
        )
    found = []
    for value in values:
        equal = pc.fill_null(pc.equal(text, pa.scalar(value, pa.large_string())), False)
        found.append((value, equal.cast(pa.uint8()).cast(pa.float32())))
    return found


def split_features(source: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Split what the user gave as features into the table and the columns named, if any."""
    if isinstance(source, tuple) and len(source) == 2:
        table, columns = source
        if is_frame(table) or isinstance(table, str | os.PathLike):
            return table, (columns,) if isinstance(columns, str) else tuple(columns)
    if not isinstance(source, str):
        return source, None
    file, text = split_spec(source)
    if text is None:
        return source, None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    twice = next((name for name in names if names.count(name) > 1), None)
    if not names or twice is not None:
        raise InputError(
            f"--features {source} names {'no column' if twice is None else f'{twice!r} twice'}; "
            f"give FILE:one,two with each column once"
        )
    return file, names


def without_labels(graph: Graph, name: str | None) -> Graph:
    """Take a feature that is the label column itself out of a graph.

    Features may have been read long before the labels, as in a store: the column that now holds
    the labels is then among them if it has the same name and says the same of every node.

    Args:
        graph: The graph with its labels.
        name: Name of the label column.

    Raises:
        InputError: The features are too large to be copied without the column, or nothing is left.
    """
    if name is None or graph.labels is None or graph.features is None:
        return graph
    names = list(graph.feature_names or ())
    matrix: Any = graph.features
    same = [
        column
        for column, feature in enumerate(names)
        if (feature == name or feature.startswith(f"{name}="))  # "topic=a": one value of a text
        and _says_the_same(matrix, column, feature, name, graph.labels)
    ]
    if not same:
        return graph
    cure = f"ingest the graph again with --drop {name}"
    if len(same) == len(names):
        raise InputError(
            f"the only feature of the graph is {name!r}, which is the label itself; {cure}, or "
            f"leave the features out"
        )
    if not sp.issparse(matrix) and matrix.nbytes > _COPIED_BYTES:
        raise InputError(
            f"the features of the graph hold the label column {name!r} itself, so a model would "
            f"read the answer off its input; {cure}"
        )
    kept = np.setdiff1d(np.arange(len(names)), same)
    graph = replace(graph, features=matrix[:, kept], feature_names=[names[i] for i in kept])
    return add_notes(graph, f"the feature {name} is the label column, so it was left out")


def _says_the_same(matrix: Any, column: int, feature: str, name: str, labels: Labels) -> bool:
    """Whether a feature column is what the labels say, wherever these are known."""
    known = labels.known
    if labels.codes is None or not known.any():
        return False
    cells = matrix[:, [column]]
    values = (cells.toarray() if sp.issparse(cells) else np.asarray(cells))[:, 0][known]
    codes = labels.codes[known]
    if feature != name:
        value = feature.removeprefix(f"{name}=")
        meant = np.array([float(str(c) == value) for c in labels.classes])
    else:
        try:
            meant = np.array([float(c) for c in labels.classes])
        except ValueError:
            return False
    return bool(np.array_equal(values.astype(np.float32), meant.astype(np.float32)[codes]))
