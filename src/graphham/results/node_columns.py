"""The columns of a table about nodes, one set of them for every format that is a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphham.results.result import FitResult
from graphham.results.result_table import labels_to_arrow, rows_to_lists

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.results.run_folder import Run


def node_columns(
    found: FitResult,
    names: Sequence[Sequence[str]] = (),
    titles: Any = None,
    is_flat: bool = False,
) -> pa.Table:
    """Lay out all that is known about nodes, one row per node.

    ``id``; ``title`` where there are titles; the vector; per level ``group_l``, ``group_l_name``,
    ``strength_l`` (membership in that group) and ``membership_l`` (in all of them);
    ``concentration``, ``between`` and ``evidence``; ``label``; ``prediction`` and ``confidence``
    after classification. What a method does not have is left out.

    Args:
        found: What the fit says about the nodes.
        names: Names of the groups, per level.
        titles: One title per node, as an Arrow array.
        is_flat: One value per column, as CSV needs it: ``dim_0``, ``dim_1`` and so on instead of
            ``embedding``, ``membership_l_0`` and so on, and several labels joined by ``;``.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {"id": found.ids.to_arrow()}
    if titles is not None:
        columns["title"] = titles

    def add(name: str, matrix: Any, flat_name: str) -> None:
        if is_flat:
            flat = np.ascontiguousarray(matrix.T)
            columns.update({f"{flat_name}_{i}": pa.array(c) for i, c in enumerate(flat)})
        else:
            columns[name] = rows_to_lists(np.asarray(matrix))

    add("embedding", found.embedding, "dim")
    for level, codes in enumerate(found.groups, 1):
        columns[f"group_{level}"] = pa.array(codes.astype(np.int32))
        for called in names[level - 1 : level]:
            values = pa.array(list(called), type=pa.large_string())
            columns[f"group_{level}_name"] = values.take(columns[f"group_{level}"])
        for member in found.memberships[level - 1 : level]:
            strength = np.take_along_axis(member, codes[:, None].astype(np.int64), 1)[:, 0]
            columns[f"strength_{level}"] = pa.array(np.asarray(strength, dtype=np.float32))
            add(f"membership_{level}", member, f"membership_{level}")
    for name in ("concentration", "between", "evidence"):
        values = getattr(found, name)
        if len(values):
            columns[name] = pa.array(values.astype(np.float32))
    for name, labels in (("label", found.labels), ("prediction", found.prediction)):
        if labels is not None:
            values = labels_to_arrow(labels)
            columns[name] = _joined(values) if is_flat and labels.is_multi else values
    if found.confidence is not None:
        columns["confidence"] = pa.array(found.confidence.astype(np.float32))
    return pa.table(columns)


def run_columns(run: Run) -> pa.Table:
    """Return :func:`node_columns` of a run."""
    names = run.hierarchy.names if run.has_groups else ()
    return node_columns(run.result(), names, _titles(run))


def flat_parts(run: Run, size: int) -> Iterator[pa.Table]:
    """Yield :func:`node_columns` of a run as CSV needs them, some rows at a time."""
    found, titles = run.result(), _titles(run)
    names = run.hierarchy.names if run.has_groups else ()
    for start in range(0, found.num_nodes, size):
        rows = np.arange(start, min(start + size, found.num_nodes))
        some = None if titles is None else titles.slice(start, len(rows))
        yield node_columns(found.take(rows), names, some, is_flat=True)


def _titles(run: Run) -> Any:
    has_titles = "title" in run.nodes.column_names
    return run.nodes.column("title").combine_chunks() if has_titles else None


def _joined(values: Any) -> Any:
    import pyarrow as pa

    texts = [None if v is None else ";".join(map(str, v)) for v in values.to_pylist()]
    return pa.array(texts, pa.string())
