"""What a fit hands back: vectors, memberships and groups of every node, under the user's ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import DivergedError, InputError
from graphham.graph.graph import Labels
from graphham.graph.ids import NodeIds

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int32]

_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class FitResult:
    """Everything a fitted model says about the nodes; levels run from fine to coarse.

    Args:
        ids: The user's ids in row order.
        embedding: ``(num_nodes, dim)`` float32, the layers' states side by side.
        layer_dims: Width of each layer's share of the embedding.
        memberships: Per level ``(num_nodes, num_groups)`` float32; rows sum to one.
        groups: Per level ``(num_nodes,)`` int32 group: the strongest of the membership; with
            ``parents``, each lies inside the one above; see
            :func:`graphham.results.scores.show_paths`.
        evidence: Per level ``(num_nodes,)`` int32 argmax of the layer alone, before the levels are
            combined: the honest input to nesting scores.
        parents: Per level but the last ``(num_groups,)`` int32 parent in the next level; empty when
            there is one level or the model has no tree of its own.
        concentration: ``(num_nodes,)`` float32, low for nodes between groups.
        labels: Known classes, or ``None``.
        prediction: Predicted classes of every node, over the same ``classes`` as ``labels``.
        confidence: ``(num_nodes,)`` float32 probability of the prediction.
        attention_gap: Per layer ``(num_nodes,)`` float32 mean of ``alpha log(alpha / lambda)``
            over neighbours (A11, reading a), or ``None``.
    """

    ids: NodeIds
    embedding: Floats
    layer_dims: tuple[int, ...]
    memberships: list[Floats]
    groups: list[Codes]
    evidence: list[Codes]
    parents: list[Codes] = field(default_factory=list)
    concentration: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    labels: Labels | None = None
    prediction: Labels | None = None
    confidence: Floats | None = None
    attention_gap: list[Floats] | None = None

    def __post_init__(self) -> None:
        if self.concentration.size == 0 and len(self.ids) and self.memberships:
            object.__setattr__(self, "concentration", concentration(self.memberships))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.ids)

    @property
    def num_levels(self) -> int:
        """Number of levels of groups."""
        return len(self.memberships)

    @property
    def group_counts(self) -> tuple[int, ...]:
        """Number of groups of each level, used or not."""
        return tuple(int(m.shape[1]) for m in self.memberships)

    def layer(self, number: int) -> Floats:
        """Return the ``(num_nodes, dim)`` state of one layer, counted from 1."""
        if not 1 <= number <= len(self.layer_dims):
            raise InputError(f"there is no layer {number}; layers are 1..{len(self.layer_dims)}")
        stop = sum(self.layer_dims[:number])
        return self.embedding[:, stop - self.layer_dims[number - 1] : stop]

    def validate(self) -> FitResult:
        """Check every promise of this class; return self or raise :class:`InputError`."""
        n, levels = self.num_nodes, self.num_levels
        if levels == 0:
            raise InputError("a fit result needs the memberships of at least one level")
        if self.embedding.shape != (n, sum(self.layer_dims)):
            raise InputError(
                f"the embedding is {self.embedding.shape}, expected {(n, sum(self.layer_dims))} "
                f"from {n:,} ids and layers of width {self.layer_dims}"
            )
        if len(self.groups) != levels or len(self.evidence) != levels:
            raise InputError(
                f"{levels} levels of memberships need as many of groups and evidence, got "
                f"{len(self.groups)} and {len(self.evidence)}"
            )
        for level, member in enumerate(self.memberships, 1):
            self._check_level(level, member)
        self._check_parents()
        for what, values in self._node_values():
            if values.shape != (n,) or not np.isfinite(values).all():
                raise InputError(f"{what} must hold one finite number per node ({n:,})")
        for what, labels in (("labels", self.labels), ("prediction", self.prediction)):
            if labels is not None and len(labels) != n:
                raise InputError(f"{what} cover {len(labels):,} nodes, not {n:,}")
        classes = {v.classes for v in (self.labels, self.prediction) if v is not None}
        if len(classes) > 1:
            raise InputError("prediction and labels must share the same classes")
        return self

    def refuse_not_finite(self, rates: Mapping[str, tuple[float, float]]) -> FitResult:
        """Return self, or raise a :class:`DivergedError` if a number of any node is not finite.

        Args:
            rates: Learning rates of the fit; see :func:`refuse_not_finite`.
        """
        named = [("vector", self.embedding)]
        named += [(f"membership on level {i}", m) for i, m in enumerate(self.memberships, 1)]
        refuse_not_finite(self.ids, [*named, *self._node_values()], rates)
        return self

    def _check_level(self, level: int, member: Floats) -> None:
        n = self.num_nodes
        if member.ndim != 2 or member.shape[0] != n or member.shape[1] == 0:
            raise InputError(f"memberships of level {level} are {member.shape} for {n:,} nodes")
        for start in range(0, n, _CHUNK):
            part = member[start : start + _CHUNK]
            wrong = ~(np.abs(part.sum(axis=1) - 1) < 1e-3) | ~(part >= -1e-6).all(axis=1)
            if wrong.any():
                row = start + int(np.flatnonzero(wrong)[0])
                raise InputError(
                    f"membership of node {self.ids[row]!r} on level {level} is no probability "
                    f"row: it sums to {float(member[row].sum()):.4g}"
                )
        for what, codes in (("groups", self.groups), ("evidence", self.evidence)):
            of_level = codes[level - 1]
            inside = (of_level >= 0) & (of_level < member.shape[1])
            if of_level.shape != (n,) or not bool(inside.all()):
                raise InputError(
                    f"{what} of level {level} must be one of 0..{member.shape[1] - 1} per node"
                )

    def _check_parents(self) -> None:
        counts = self.group_counts
        if not self.parents:
            return
        if len(self.parents) != len(counts) - 1:
            raise InputError(f"{len(counts)} levels need {len(counts) - 1} parent lists")
        for level, parent in enumerate(self.parents, 1):
            inside = (parent >= 0) & (parent < counts[level])
            if parent.shape != (counts[level - 1],) or not bool(inside.all()):
                raise InputError(
                    f"parents of level {level} must name one of the {counts[level]} groups above "
                    f"for each of the {counts[level - 1]} groups"
                )

    def _node_values(self) -> list[tuple[str, Floats]]:
        named = [("concentration", self.concentration)]
        if self.confidence is not None:
            named.append(("confidence", self.confidence))
        named += [
            (f"attention_gap of layer {i}", v) for i, v in enumerate(self.attention_gap or [], 1)
        ]
        return named


def refuse_not_finite(
    ids: NodeIds,
    named: Iterable[tuple[str, npt.NDArray[Any]]],
    rates: Mapping[str, tuple[float, float]],
) -> None:
    """Refuse what training left behind if any of it is not finite.

    Args:
        ids: The user's ids in row order.
        named: What to call the rows of an array, and the array, ``(num_nodes, ...)``.
        rates: Learning rates by the name of their setting, each with the usual value. The one
            furthest above it is named, since too large steps are what makes training diverge.

    Raises:
        DivergedError: A number is not finite.
    """
    for what, values in named:
        for start in range(0, len(values), _CHUNK):
            fine = np.isfinite(values[start : start + _CHUNK])
            if bool(fine.all()):
                continue
            row = start + int(np.flatnonzero(~fine.reshape(len(fine), -1).all(axis=1))[0])
            cause, advice = "", "scale down very large features and weights"
            if rates:
                name = max(rates, key=lambda key: rates[key][0] / rates[key][1])
                value, usual = rates[name]
                cause = f" with {name} = {value:g}"
                advice = f"give a smaller {name} ({usual:g} is usual), or {advice}"
            raise DivergedError(
                f"training{cause} went astray: the {what} of node {ids[row]!r} is not finite, so "
                f"nothing was kept; {advice}"
            )


def concentration(memberships: Sequence[npt.NDArray[Any]]) -> Floats:
    """Score how firmly each node commits to one group, averaged over levels.

    The score of a level is the population variance of the membership row, so a level with a single
    group scores 0. A node near zero spreads its membership and lies between groups.

    Args:
        memberships: One ``(num_nodes, num_groups)`` array per level.
    """
    if not memberships:
        raise InputError("concentration() needs the memberships of at least one level, got none")
    total = np.zeros(len(memberships[0]), dtype=np.float64)
    for member in memberships:
        for start in range(0, len(member), _CHUNK):
            part = np.asarray(member[start : start + _CHUNK], dtype=np.float64)
            total[start : start + _CHUNK] += part.var(axis=1)
    return np.asarray(total / len(memberships), dtype=np.float32)


def nodes_table(result: FitResult, titles: Sequence[str] | None = None) -> pa.Table:
    """Lay the nodes out as the table of ``nodes.parquet``, one row per node.

    Columns: ``id``; ``title`` where the graph has titles; per level ``group_l``, ``membership_l``
    and ``evidence_l``; ``concentration``; ``attention_gap_l`` per layer where measured; ``label``
    where known; ``prediction`` and ``confidence`` after classification.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {"id": result.ids.to_arrow()}
    if titles is not None:
        columns["title"] = pa.array(list(titles), type=pa.large_string())
    for level in range(result.num_levels):
        columns[f"group_{level + 1}"] = pa.array(result.groups[level].astype(np.int32))
        columns[f"membership_{level + 1}"] = rows_to_lists(result.memberships[level])
        columns[f"evidence_{level + 1}"] = pa.array(result.evidence[level].astype(np.int32))
    columns["concentration"] = pa.array(result.concentration.astype(np.float32))
    for layer, gap in enumerate(result.attention_gap or [], 1):
        columns[f"attention_gap_{layer}"] = pa.array(gap.astype(np.float32))
    named = result.labels or result.prediction
    about: dict[str, Any] = {"levels": result.num_levels}
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
    parents: Sequence[npt.NDArray[Any]] = (),
) -> FitResult:
    """Rebuild a result from its table: the inverse of :func:`nodes_table`."""
    about = json.loads((table.schema.metadata or {}).get(b"graphham", b"{}"))
    levels = range(1, int(about["levels"]) + 1)
    names = set(table.column_names)
    classes = about.get("classes")
    layers = range(1, len(layer_dims) + 1)
    gaps = [_numbers(table, f"attention_gap_{i}") for i in layers if f"attention_gap_{i}" in names]
    id_values = table.column("id").combine_chunks()
    is_integer = str(id_values.type) == "int64"
    return FitResult(
        ids=NodeIds(id_values.to_numpy() if is_integer else id_values),
        embedding=embedding,
        layer_dims=tuple(int(d) for d in layer_dims),
        memberships=[lists_to_rows(table.column(f"membership_{i}")) for i in levels],
        groups=[_numbers(table, f"group_{i}") for i in levels],
        evidence=[_numbers(table, f"evidence_{i}") for i in levels],
        parents=[np.asarray(p, dtype=np.int32) for p in parents],
        concentration=_numbers(table, "concentration"),
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
