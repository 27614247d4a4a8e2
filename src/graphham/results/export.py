"""Carry a run to other tools: Parquet, CSV, word2vec text, GraphML, and arrays for PyG.

No format here uses pickles. Every writer works in chunks, never replaces a file, and reports what
it had to change in a note; ids that a format cannot hold are altered visibly, never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.store import refuse_taken
from graphham.results.formats import find_format
from graphham.results.node_columns import flat_parts, run_columns
from graphham.system.atomic import creating
from graphham.system.scratch import publish, scratch_beside

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run

_CHUNK = 1 << 14
_DENSE_BYTES = 1 << 28
# word2vec text separates by blanks and lines; other control characters break its C readers.
_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]")
# The characters XML 1.0 forbids, even escaped.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


@dataclass(frozen=True)
class Export:
    """What was written: the file, its format, and anything worth telling the user."""

    path: Path
    format: str
    notes: tuple[str, ...] = ()


def export_run(run: Run, out: str | Path, format: str, graph: Graph | None = None) -> Export:
    """Write a run in another format.

    What a method does not have is left out.

    * ``parquet``: one table with the columns of :func:`graphham.results.node_columns.node_columns`.
    * ``csv``: the same, one number per column: ``dim_0``, ``dim_1``, ... for the vector.
    * ``word2vec``: the text format; blanks in ids become underscores.
    * ``graphml``: nodes with their groups, names of groups, labels and titles, and the edges.
    * ``pyg``: a ``.npz`` file for PyTorch Geometric, see :func:`pyg_arrays`.
    * ``edges``: a Parquet table of links, see :func:`graphham.results.edge_export.write_edges`.
    * ``zip``: the run folder as one file that :meth:`Run.open` and :func:`graphham.load` take.
    * ``graphrag``: a folder with the tables of GraphRAG, see :mod:`graphham.results.graphrag`.

    Args:
        run: The opened run.
        out: The file to write; it must not exist.
        format: One of ``parquet, csv, word2vec, graphml, pyg, edges, zip, graphrag``.
        graph: The graph of the run, for those that hold it; the one the run holds when not given.
    """
    chosen = find_format(format)
    if chosen.needs_graph:
        graph = _graph_of(run, graph, format)
    path = Path(out)
    if chosen.is_folder:
        refuse_taken(path, overwrite=False)
        with scratch_beside(path) as scratch:
            folder = scratch / "export"
            folder.mkdir()
            notes = chosen.writer()(run, folder, graph)
            refuse_taken(path, overwrite=False)
            publish(folder, path)
        return Export(path, format, tuple(notes))
    with creating(path) as temporary:
        notes = chosen.writer()(run, temporary, graph)
    return Export(path, format, tuple(notes))


def _graph_of(run: Run, graph: Graph | None, what: str) -> Graph:
    """Return the graph given, or the one the run holds; refuse one with other nodes."""
    if graph is None:
        if not run.keeps_graph:
            raise InputError(
                f"the format {what} holds the edges too, but the run {run.path} does not hold its "
                f"graph; give the graph of the run (--graph)"
            )
        graph = run.graph()
    if graph.num_nodes != run.nodes.num_rows or not graph.ids.to_arrow().equals(_ids(run)):
        raise InputError(
            f"the graph given ({graph.num_nodes:,} nodes) is not the one the run {run.path} was "
            f"fitted on ({run.nodes.num_rows:,} nodes); give that one"
        )
    return graph


def _ids(run: Run) -> Any:
    return run.nodes.column("id").combine_chunks()


def _group_columns(run: Run) -> list[str]:
    return [n for n in run.nodes.column_names if n.startswith("group_")]


def _present(run: Run, *names: str) -> list[str]:
    """Return those of the columns that the run's table of nodes has."""
    return [name for name in names if name in run.nodes.column_names]


def _chunks(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNK):
        yield slice(start, min(start + _CHUNK, count))


def write_parquet(run: Run, path: Path, graph: Graph | None) -> list[str]:
    """Write one table with all that is known about nodes."""
    import pyarrow.parquet as pq

    names = [n for n in _group_columns(run) for n in (n, f"{n}_name")]
    pq.write_table(run_columns(run), path, compression="zstd", use_dictionary=names)
    return []


def _vector_table(vectors: npt.NDArray[np.float32]) -> pa.Table:
    import pyarrow as pa

    columns = np.ascontiguousarray(vectors.T)
    return pa.table({f"dim_{i}": pa.array(column) for i, column in enumerate(columns)})


def write_csv(run: Run, path: Path, graph: Graph | None) -> list[str]:
    """Write one line per node: the same columns as Parquet, one number each."""
    import pyarrow.csv as csv

    writer = None
    try:
        for table in flat_parts(run, _CHUNK):
            if writer is None:
                writer = csv.CSVWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
    return []


def write_word2vec(run: Run, path: Path, graph: Graph | None) -> list[str]:
    """Write the text format of word2vec."""
    import pyarrow as pa
    import pyarrow.csv as csv

    originals = [str(v) for v in _ids(run).to_pylist()]
    tokens, altered = _altered(originals, lambda text: _BLANK.sub("_", text) or "_")
    count, dim = run.embedding.shape
    numbers = csv.WriteOptions(include_header=False, delimiter=" ")
    with path.open("wb") as file:
        file.write(f"{count} {dim}\n".encode())
        for rows in _chunks(count):
            # Arrow formats numbers far faster than Python; its lines then get their tokens.
            text = pa.BufferOutputStream()
            csv.write_csv(_vector_table(run.embedding[rows]), text, numbers)
            lines = text.getvalue().to_pybytes().splitlines(keepends=True)
            named = zip(tokens[rows], lines, strict=True)
            file.write(b"".join(token.encode() + b" " + line for token, line in named))
    return _note(altered, "blanks or control characters, written as underscores")


def write_graphml(run: Run, path: Path, graph: Graph | None) -> list[str]:
    """Write nodes with all that is known of them, and edges, as GraphML."""
    import pyarrow as pa
    import pyarrow.compute as pc

    assert graph is not None
    originals = [str(v) for v in _ids(run).to_pylist()]
    safe, altered = _altered(originals, lambda text: _NO_XML.sub("\ufffd", text))
    ids = _escape(pa.array(safe, type=pa.large_string()))
    columns = _graphml_columns(run)
    keys = "".join(
        f'<key id="d{i}" for="node" attr.name="{name}" attr.type="{kind}"/>\n'
        for i, (name, kind, _) in enumerate(columns)
    )
    if graph.weights is not None:
        keys += '<key id="w" for="edge" attr.name="weight" attr.type="double"/>\n'
    direction = "directed" if graph.directed else "undirected"
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        file.write(f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n{keys}')
        file.write(f'<graph id="G" edgedefault="{direction}">\n')
        for rows in _chunks(len(ids)):
            size = rows.stop - rows.start
            parts = ['<node id="', ids.slice(rows.start, size), '">']
            for i, (_, _, values) in enumerate(columns):
                one = _joined(f'<data key="d{i}">', values.slice(rows.start, size), "</data>")
                parts.append(pc.fill_null(one, ""))  # unknown values leave no element at all
            file.write("".join(_joined(*parts, "</node>\n").to_pylist()))
        edges, weights = _edges(graph)
        for rows in _chunks(len(edges)):
            source, target = (ids.take(pa.array(edges[rows, i])) for i in (0, 1))
            parts = ['<edge source="', source, '" target="', target, '">']
            if weights is not None:
                text = pc.cast(pa.array(weights[rows].astype(np.float64)), pa.large_string())
                parts += ['<data key="w">', text, "</data>"]
            file.write("".join(_joined(*parts, "</edge>\n").to_pylist()))
        file.write("</graph>\n</graphml>\n")
    return _note(altered, "characters that XML forbids, written as \ufffd")


def _graphml_columns(run: Run) -> list[tuple[str, str, Any]]:
    """Return name, GraphML type and text of every node attribute; nulls are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def text(values: Any) -> Any:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if pa.types.is_list(values.type):
            values = pc.binary_join(pc.cast(values, pa.list_(pa.string())), "; ")
        return pc.cast(values, pa.large_string())

    columns = []
    for level, name in enumerate(_group_columns(run)):
        codes = run.nodes.column(name)
        named = pa.array(list(run.hierarchy.names[level]), type=pa.large_string())
        columns.append((name, "int", text(codes)))
        columns.append((f"{name}_name", "string", _xml_text(named).take(codes.combine_chunks())))
    for level, member in enumerate(run.result().memberships, 1):
        shown = run.nodes.column(f"group_{level}").to_numpy()
        strength = np.take_along_axis(member, shown[:, None].astype(np.int64), 1)[:, 0]
        columns.append((f"strength_{level}", "double", text(pa.array(strength))))
    for name in _present(run, "title", "label", "prediction"):
        values = run.nodes.column(name)
        kind = "long" if pa.types.is_integer(values.type) else "string"
        columns.append((name, kind, _xml_text(text(values))))
    numbers = _present(run, "concentration", "between", "evidence", "confidence")
    return columns + [(name, "double", text(run.nodes.column(name))) for name in numbers]


def _xml_text(values: Any) -> Any:
    import pyarrow.compute as pc

    forbidden = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x{fffe}\x{ffff}]"
    return _escape(pc.replace_substring_regex(values, pattern=forbidden, replacement="\ufffd"))


def _escape(values: Any) -> Any:
    import pyarrow.compute as pc

    # Line ends and tabs too: a reader would turn them into blanks inside an attribute.
    for char, entity in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("\n", "&#10;"),
        ("\r", "&#13;"),
        ("\t", "&#9;"),
    ):
        values = pc.replace_substring(values, pattern=char, replacement=entity)
    return values


def _joined(*parts: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    scalar = pa.large_string()
    typed = [pa.scalar(p, scalar) if isinstance(p, str) else p for p in parts]
    return pc.binary_join_element_wise(*typed, pa.scalar("", scalar))


def _edges(graph: Graph) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32] | None]:
    edges = graph.edge_list()
    if graph.weights is None:
        return edges, None
    source = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    keep = slice(None) if graph.directed else source < graph.indices
    return edges, graph.weights[keep]


def pyg_arrays(run: Run, graph: Graph | None = None) -> dict[str, npt.NDArray[Any]]:
    """Gather a run and its graph as plain arrays named like the fields of a PyG ``Data``.

    ``edge_index`` (both directions of an undirected edge), ``edge_weight``; ``x``, or for large
    sparse features ``x_data, x_indices, x_indptr, x_shape``; ``y`` (-1 unknown; 0/1 rows if
    multi-label), ``prediction`` and ``confidence``; ``embedding``, ``group_l``, ``membership_l``,
    ``concentration``; ``NAME_mask`` per split; ``ids`` for integer ids, ``ids_utf8`` and
    ``ids_offsets`` for text. From the file::

        z = {k: torch.from_numpy(v) for k, v in np.load("run.npz").items()}
        data = Data(**{k: v for k, v in z.items() if not k.startswith("ids")})
        text, at = bytes(z["ids_utf8"].numpy()), z["ids_offsets"]  # id i: text[at[i]:at[i+1]]
    """
    graph = _graph_of(run, graph, "pyg")
    found = run.result()
    source = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), graph.degrees())
    arrays: dict[str, npt.NDArray[Any]] = {
        "edge_index": np.stack([source, graph.indices.astype(np.int64)]),
        "embedding": np.asarray(found.embedding),
    }
    if found.memberships:
        arrays["concentration"] = found.concentration
    if graph.weights is not None:
        arrays["edge_weight"] = np.asarray(graph.weights)
    x: Any = graph.features
    if x is not None and graph.has_sparse_features:
        if 4 * x.shape[0] * x.shape[1] <= _DENSE_BYTES:
            arrays["x"] = x.toarray().astype(np.float32)
        else:
            arrays |= {"x_data": x.data, "x_indices": x.indices, "x_indptr": x.indptr}
            arrays["x_shape"] = np.array(x.shape)
    elif x is not None:
        arrays["x"] = np.asarray(x)
    for level in range(1, found.num_levels + 1):
        arrays[f"group_{level}"] = found.groups[level - 1].astype(np.int64)
        if found.memberships:
            arrays[f"membership_{level}"] = found.memberships[level - 1]
    if found.labels is not None and found.labels.codes is not None:
        arrays["y"] = found.labels.codes.astype(np.int64)
    elif found.labels is not None and found.labels.matrix is not None:
        arrays["y"] = found.labels.matrix.toarray().astype(np.uint8)
    if found.prediction is not None and found.prediction.codes is not None:
        arrays["prediction"] = found.prediction.codes.astype(np.int64)
    if found.confidence is not None:
        arrays["confidence"] = found.confidence
    for name, rows in graph.splits.items():
        mask = np.zeros(graph.num_nodes, dtype=bool)
        mask[rows] = True
        arrays[f"{name}_mask"] = mask
    if found.ids.kind == "integer":
        arrays["ids"] = found.ids.to_arrow().to_numpy()
    else:
        # Not a numpy text array: those cut trailing NULs and pad every id to the longest.
        encoded = [str(v).encode() for v in found.ids.tolist()]
        arrays["ids_utf8"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        arrays["ids_offsets"] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return arrays


def write_pyg(run: Run, path: Path, graph: Graph | None) -> list[str]:
    """Write the arrays of a PyG ``Data`` as one npz file."""
    assert graph is not None
    arrays = pyg_arrays(run, graph)
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    if "x_data" in arrays:
        return ["the features are too large to write densely; x is stored as CSR parts"]
    return []


def to_pyg(run: Run, graph: Graph | None = None) -> Any:
    """Return the run and its graph as a ``torch_geometric.data.Data``.

    Args:
        run: The opened run.
        graph: The graph of the run; the one the run holds when not given.
    """
    try:
        from torch_geometric.data import Data  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise InputError(
            "torch_geometric is not installed; install it, or export the format pyg as a file"
        ) from None
    import torch

    graph = _graph_of(run, graph, "pyg")
    arrays = pyg_arrays(run, graph)
    ids = {k: arrays.pop(k) for k in list(arrays) if k.startswith("ids")}
    fields = {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}
    if "x_data" in fields:
        for part in ("x_data", "x_indices", "x_indptr", "x_shape"):
            del fields[part]
        x: Any = graph.features.tocoo()  # type: ignore[union-attr]
        where = torch.from_numpy(np.stack([x.row, x.col]).astype(np.int64))
        values = torch.from_numpy(np.array(x.data))
        fields["x"] = torch.sparse_coo_tensor(where, values, x.shape, check_invariants=True)
    return Data(**fields, node_ids=ids["ids"].tolist() if "ids" in ids else graph.ids.tolist())


def _altered(originals: list[str], change: Callable[[str], str]) -> tuple[list[str], int]:
    """Change the ids a format cannot hold, keeping all of them distinct; also count the changed."""
    changed = [change(text) for text in originals]
    moved = [i for i, (a, b) in enumerate(zip(originals, changed, strict=True)) if a != b]
    if not moved:
        return originals, 0
    taken = set(originals) - {originals[i] for i in moved}
    for i in moved:
        fresh, number = changed[i], 2
        while fresh in taken:
            fresh, number = f"{changed[i]}_{number}", number + 1
        taken.add(fresh)
        changed[i] = fresh
    return changed, len(moved)


def _note(altered: int, what: str) -> list[str]:
    if not altered:
        return []
    return [f"{altered:,} {'id has' if altered == 1 else 'ids have'} {what}"]
