"""Write the edges of a graph with the user's ids, so that reading them gives the graph back."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from graphham.errors import InputError
from graphham.graph import Graph

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
    if file.exists():
        raise InputError(f"{file} exists already; give another name or remove it first")
    if not file.parent.is_dir():
        raise InputError(f"the folder {file.parent} does not exist; create it first")
    edges = graph.edge_list()
    weights = _weights_of(graph, edges)
    if ending == ".npz":
        _write_npz(graph, edges, weights, file)
    elif ending == ".graphml":
        _write_text(_graphml(graph, edges, weights), file)
    else:
        table = _table(graph, edges, weights)
        if ending == ".parquet":
            pq.write_table(table, file)
        else:
            _write_delimited(table, "\t" if ending == ".tsv" else ",", file)


def _weights_of(graph: Graph, edges: Any) -> Any:
    if graph.weights is None:
        return None
    source = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    keep = slice(None) if graph.directed else source < graph.indices
    return graph.weights[keep]


def _table(graph: Graph, edges: Any, weights: Any) -> pa.Table:
    ids = graph.ids.to_arrow()
    columns = {"source": ids.take(pa.array(edges[:, 0])), "target": ids.take(pa.array(edges[:, 1]))}
    if weights is not None:
        columns["weight"] = pa.array(weights)
    return pa.table(columns)


def _write_delimited(table: pa.Table, separator: str, file: Path) -> None:
    options = pcsv.WriteOptions(delimiter=separator)
    if file.name.lower().endswith(".gz"):
        with gzip.open(file, "xb") as stream:
            pcsv.write_csv(table, stream, options)
    else:
        with file.open("xb") as stream:
            pcsv.write_csv(table, stream, options)


def _write_npz(graph: Graph, edges: Any, weights: Any, file: Path) -> None:
    listed = graph.ids.tolist()
    ids = np.array(listed) if graph.ids.kind == "integer" else np.array(listed, dtype=np.str_)
    parts = {"edges": edges, "ids": ids} | ({} if weights is None else {"weights": weights})
    with file.open("xb") as stream:
        np.savez_compressed(stream, **parts)


def _graphml(graph: Graph, edges: Any, weights: Any) -> str:
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
    for i, (a, b) in enumerate(edges.tolist()):
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
    with file.open("xb") as stream:
        stream.write(data)
