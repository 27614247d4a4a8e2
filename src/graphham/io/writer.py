"""Write the edges of a graph with the user's ids, so that reading them gives the graph back."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.system.atomic import creating

_FORBIDDEN_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def write_edges(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write each edge once; the ending of the name chooses the format.

    ``.csv`` and ``.tsv`` (also ``.gz``), ``.parquet`` and ``.graphml`` carry the columns source,
    target and, if the graph has weights, weight; ``.npz`` and ``.graphml`` keep isolated nodes too.

    Raises:
        InputError: The file exists already, the ending is unknown, or GraphML cannot hold an id.
    """
    file = Path(path)
    ending = Path(file.name.lower().removesuffix(".gz")).suffix
    if ending not in (".csv", ".tsv", ".parquet", ".npz", ".graphml"):
        raise InputError(
            f"edges cannot be written as {file.name!r}; use .csv, .parquet, .npz or .graphml"
        )
    weights = None if graph.weights is None else edge_weights(graph)
    if ending == ".npz":
        _write_npz(graph, weights, file)
    elif ending == ".graphml":
        _write_text(_graphml(graph, weights), file)
    elif ending == ".parquet":
        with creating(file) as temporary:
            pq.write_table(edge_table(graph), temporary)
    else:
        _write_delimited(edge_table(graph), "\t" if ending == ".tsv" else ",", file)


def edge_weights(graph: Graph) -> npt.NDArray[np.float32]:
    """Return one weight per row of :meth:`Graph.edge_list`; all ones without weights."""
    if graph.weights is None:
        return np.ones(graph.num_edges, dtype=np.float32)
    if graph.directed:
        return graph.weights
    source = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    kept: npt.NDArray[np.float32] = graph.weights[source < graph.indices]
    return kept


def edge_table(graph: Graph) -> pa.Table:
    """Return the edges as an Arrow table: source, target and, if there are any, weight."""
    edges = graph.edge_list()
    ids = graph.ids.to_arrow()
    columns = {"source": ids.take(pa.array(edges[:, 0])), "target": ids.take(pa.array(edges[:, 1]))}
    if graph.weights is not None:
        columns["weight"] = pa.array(edge_weights(graph))
    return pa.table(columns)


def _write_delimited(table: pa.Table, separator: str, file: Path) -> None:
    unpack = gzip.open if file.name.lower().endswith(".gz") else open
    with creating(file) as temporary, unpack(temporary, "wb") as stream:
        pcsv.write_csv(table, stream, pcsv.WriteOptions(delimiter=separator))


def _write_npz(graph: Graph, weights: Any, file: Path) -> None:
    listed = graph.ids.tolist()
    ids = np.array(listed) if graph.ids.kind == "integer" else np.array(listed, dtype=np.str_)
    parts = {"edges": graph.edge_list(), "ids": ids} | (
        {} if weights is None else {"weights": weights}
    )
    with creating(file) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **parts)


def _graphml(graph: Graph, weights: Any) -> str:
    names = [str(v) for v in graph.ids.tolist()]
    for name in names:
        if _FORBIDDEN_IN_XML.search(name):
            raise InputError(f"the id {name!r} has a character GraphML cannot hold; use Parquet")
    quoted = [_attribute(name) for name in names]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
        if weights is not None
        else "",
        f'<graph edgedefault="{"directed" if graph.directed else "undirected"}">',
        *(f"<node id={name}/>" for name in quoted),
    ]
    for i, (a, b) in enumerate(graph.edge_list().tolist()):
        inside = (
            "" if weights is None else f'<data key="w">{escape(repr(float(weights[i])))}</data>'
        )
        lines.append(f"<edge source={quoted[a]} target={quoted[b]}>{inside}</edge>")
    return "\n".join([*lines, "</graph>", "</graphml>", ""])


def _attribute(text: str) -> str:
    # Parsers turn raw line breaks and tabs in attributes into blanks; character references survive.
    return quoteattr(text, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _write_text(text: str, file: Path) -> None:
    data = text.encode()
    if file.name.lower().endswith(".gz"):
        data = gzip.compress(data)
    with creating(file) as temporary:
        temporary.write_bytes(data)
