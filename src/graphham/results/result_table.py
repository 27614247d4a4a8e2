"""A result as the table of ``nodes.parquet``, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.graph.graph import Labels
from graphham.graph.ids import NodeIds
from graphham.results.hierarchy import Hierarchy
from graphham.results.result import FitResult, Floats

if TYPE_CHECKING:
    import pyarrow as pa


def nodes_table(result: FitResult, titles: Sequence[str] | None = None) -> pa.Table:
    """Lay the nodes out as the table of ``nodes.parquet``, one row per node.

    Columns: ``id``; ``title`` where the graph has titles; per level ``group_l``, and where the
    method has memberships ``membership_l``, ``concentration``, ``between``, and ``evidence``;
    ``attention_gap_l`` per layer where measured; ``label`` where known; ``prediction`` and
    ``confidence`` after classification.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {"id": result.ids.to_arrow()}
    if titles is not None:
        columns["title"] = pa.array(list(titles), type=pa.large_string())
    for level, codes in enumerate(result.groups):
        columns[f"group_{level + 1}"] = pa.array(codes.astype(np.int32))
        if result.memberships:
            columns[f"membership_{level + 1}"] = rows_to_lists(result.memberships[level])
    if result.memberships:
        columns["concentration"] = pa.array(result.concentration.astype(np.float32))
        columns["between"] = pa.array(result.between.astype(np.float32))
        if len(result.evidence):
            columns["evidence"] = pa.array(result.evidence.astype(np.float32))
    for layer, gap in enumerate(result.attention_gap or [], 1):
        columns[f"attention_gap_{layer}"] = pa.array(gap.astype(np.float32))
    named = result.labels or result.prediction
    about: dict[str, Any] = {"levels": result.num_levels, "has_parents": bool(result.parents)}
    if result.labels is not None:
        columns["label"] = labels_to_arrow(result.labels)
    if result.prediction is not None:
        columns["prediction"] = labels_to_arrow(result.prediction)
    if result.confidence is not None:
        columns["confidence"] = pa.array(result.confidence.astype(np.float32))
    if named is not None:
        classes = labels_to_arrow(Labels(named.classes, np.arange(len(named.classes), dtype="i4")))
        about["classes"] = classes.to_pylist()
    return pa.table(columns).replace_schema_metadata({"graphham": json.dumps(about)})


def result_from_table(
    table: pa.Table,
    embedding: npt.NDArray[Any],
    layer_dims: Sequence[int],
    tree: Hierarchy | None = None,
) -> FitResult:
    """Rebuild a result from its table, its vectors and the tree of its groups.

    The inverse of :func:`nodes_table`, given ``result.hierarchy`` where the fit found groups.
    """
    about = json.loads((table.schema.metadata or {}).get(b"graphham", b"{}"))
    levels = range(1, int(about["levels"]) + 1)
    names = set(table.column_names)
    soft = [i for i in levels if f"membership_{i}" in names]
    parents: Sequence[npt.NDArray[Any]] = ()
    # Tables of version 1 do not say whether the parents belong to the result.
    if tree is not None and about.get("has_parents", tree.parents_from == "model"):
        parents = tree.parents
    classes = about.get("classes")
    layers = range(1, len(layer_dims) + 1)
    gaps = [_numbers(table, f"attention_gap_{i}") for i in layers if f"attention_gap_{i}" in names]
    id_values = table.column("id").combine_chunks()
    is_integer = str(id_values.type) == "int64"
    return FitResult(
        ids=NodeIds(id_values.to_numpy() if is_integer else id_values),
        embedding=embedding,
        layer_dims=tuple(int(d) for d in layer_dims),
        memberships=[lists_to_rows(table.column(f"membership_{i}")) for i in soft],
        groups=[_numbers(table, f"group_{i}") for i in levels],
        parents=[np.asarray(p, dtype=np.int32) for p in parents],
        parents_from=tree.parents_from if parents and tree is not None else "model",
        # Counted anew from the memberships: tables of older versions have it on another scale.
        concentration=np.zeros(0, np.float32),
        between=_numbers(table, "between") if "between" in names else np.zeros(0, np.float32),
        evidence=_numbers(table, "evidence") if "evidence" in names else np.zeros(0, np.float32),
        labels=labels_from_arrow(table.column("label"), classes) if "label" in names else None,
        prediction=(
            labels_from_arrow(table.column("prediction"), classes)
            if "prediction" in names
            else None
        ),
        confidence=_numbers(table, "confidence") if "confidence" in names else None,
        attention_gap=gaps or None,
    )


def _numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = table.column(name).to_numpy()
    return values


def rows_to_lists(values: npt.NDArray[Any]) -> Any:
    """Turn a ``(rows, width)`` array into an Arrow ``list<float32>`` column without a loop."""
    import pyarrow as pa

    rows, width = values.shape
    flat = pa.array(np.ascontiguousarray(values, dtype=np.float32).reshape(-1))
    if rows * width < 2**31:
        offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
        return pa.ListArray.from_arrays(pa.array(offsets), flat)
    wide = np.arange(rows + 1, dtype=np.int64) * width
    return pa.LargeListArray.from_arrays(pa.array(wide), flat)


def lists_to_rows(column: Any) -> Floats:
    """Turn a column of equally long lists back into a ``(rows, width)`` float32 array."""
    flat = np.concatenate([c.flatten().to_numpy() for c in column.chunks] or [np.zeros(0, "f4")])
    return np.asarray(flat.reshape(len(column), -1) if len(column) else flat.reshape(0, 0))


def labels_to_arrow(labels: Labels) -> Any:
    """Return each node's value (or list of values) as the user wrote it, null if unknown."""
    import pyarrow as pa

    whole = all(isinstance(c, int | np.integer) and not isinstance(c, bool) for c in labels.classes)
    values = (
        pa.array([int(c) for c in labels.classes], type=pa.int64())
        if whole
        else pa.array([str(c) for c in labels.classes], type=pa.string())
    )
    if labels.codes is not None:
        codes = pa.array(labels.codes, mask=labels.codes < 0)
        return values.take(codes)
    assert labels.matrix is not None
    matrix = labels.matrix.sorted_indices()
    bounds = np.asarray(matrix.indptr, dtype=np.int32)
    picked = values.take(pa.array(matrix.indices))
    # A null bound in the offsets marks a null list: no label known, as opposed to an empty list.
    offsets = pa.array(bounds, mask=np.append(~labels.known, False))
    return pa.ListArray.from_arrays(offsets, picked)


def labels_from_arrow(column: Any, classes: Sequence[Any]) -> Labels:
    """Read a label column back, with the classes in their original order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    is_multi = pa.types.is_list(values.type)
    of_type = values.type.value_type if is_multi else values.type
    known = pa.array(list(classes), type=of_type)
    if not is_multi:
        codes = pc.fill_null(pc.index_in(values, value_set=known, skip_nulls=True), -1)
        return Labels(tuple(classes), codes=codes.to_numpy().astype(np.int32))
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = pc.index_in(values.flatten(), value_set=known).to_numpy()
    shape = (len(values), len(classes))
    ones = np.ones(len(indices), dtype=bool)
    return Labels(tuple(classes), matrix=sp.csr_matrix((ones, indices, indptr), shape=shape))
