"""Add nodes and remarks to a graph that is already built."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, ReadReport
from graphham.graph.ids import NodeIds
from graphham.io.encode import as_exact_integers


def add_nodes(graph: Graph, ids: pa.ChunkedArray) -> Graph:
    """Return the graph with isolated nodes added; repeated ids count once.

    Whole-number ids keep their ascending order of rows if they had it, text ids come last.
    """
    if graph.features is not None:
        raise InputError(
            f"the id {ids[0].as_py()!r} has no edge and no features; add a row of features for it"
        )
    fresh = ids.unique()
    if graph.ids.kind == "integer" and pa.types.is_large_string(fresh.type):
        numbers = as_exact_integers(fresh)  # a CSV has its numbers as text
        fresh = fresh if numbers is None else pa.array(numbers)
    both = [graph.ids.to_arrow(), fresh]
    if not all(pa.types.is_integer(part.type) for part in both):
        both = [part.cast(pa.large_string()) for part in both]
    added = len(fresh)
    total = graph.num_nodes + added
    labels = graph.labels
    if labels is not None and labels.codes is not None:
        codes = np.concatenate([labels.codes, np.full(added, -1, dtype=np.int32)])
        labels = Labels(labels.classes, codes=codes)
    elif labels is not None and labels.matrix is not None:
        matrix = labels.matrix.copy()
        matrix.resize((total, matrix.shape[1]))
        labels = Labels(labels.classes, matrix=matrix)
    joined = pa.concat_arrays(both)
    old = graph.ids
    grown = replace(
        graph,
        indptr=np.concatenate([graph.indptr, np.full(added, graph.indptr[-1])]),
        ids=NodeIds(joined.to_numpy() if pa.types.is_integer(joined.type) else joined),
        labels=labels,
        titles=None if graph.titles is None else [*graph.titles, *map(str, fresh.to_pylist())],
    )
    if old.kind == "integer" and grown.ids.kind == "integer":
        values = joined.to_numpy()
        before = values[: graph.num_nodes]
        if bool(np.all(before[1:] > before[:-1])):
            grown = grown.permuted(np.argsort(values, kind="stable"))
    report = graph.report or ReadReport()
    report = replace(report, isolated=report.isolated + added, components=report.components + added)
    note = f"{added:,} nodes have no edge and were added as isolated nodes"
    return add_notes(replace(grown, report=report), note)


def add_notes(graph: Graph, *notes: str) -> Graph:
    """Return the graph with remarks added to its report."""
    report = graph.report or ReadReport()
    return replace(graph, report=replace(report, notes=(*report.notes, *notes)))
