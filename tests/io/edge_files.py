"""What the tests of readers share: small files, and one file read in memory and by way of disk."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.ids import NodeIds
from graphham.io.edge_streams import EdgeColumns
from graphham.io.reader import read_edges, read_graph

WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 9)

GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="edge" attr.name="strength" attr.type="double"><default>3.0</default></key>
<graph edgedefault="directed">
<node id="n1"/><node id="n0"/><node id="alone"/>
<edge source="n0" target="n1"/><edge source="n1" target="n0"><data key="d0">4</data></edge>
</graph></graphml>"""


def put(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def pairs(graph: Graph) -> set[tuple[object, object]]:
    return {(graph.ids[a], graph.ids[b]) for a, b in graph.edge_list().tolist()}


def path_of(*ids: int | str) -> Graph:
    """A path through the given ids, in this row order."""
    n = len(ids)
    return build_graph(np.arange(n - 1), np.arange(1, n), n, ids=NodeIds(list(ids)))


ABC = path_of("a", "b", "c")
NUMBERS = path_of(10, 20, 30)


def assert_same(result: Graph, expected: Graph) -> None:
    assert result.ids == expected.ids
    assert result.ids.kind == expected.ids.kind
    for name in ("indptr", "indices", "weights"):
        ours, theirs = getattr(result, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
    assert result.report == expected.report
    assert (result.name, result.directed) == (expected.name, expected.directed)


def on_disk(path: Path | list[Path], scratch: Path, **options: Any) -> Graph:
    """Read files with not a single edge waiting in memory."""
    scratch.mkdir(exist_ok=True)
    paths = path if isinstance(path, list) else [path]
    names = ("source", "target", "weight", "directed")
    columns = EdgeColumns(**{name: options.pop(name) for name in names if name in options})
    return read_edges(paths, columns, scratch=scratch, in_memory_bytes=0, **options)


def refusal_or_graph(read: Any, *args: Any, **options: Any) -> Graph | str:
    try:
        graph: Graph = read(*args, **options)
    except InputError as error:
        return str(error)
    return graph


def read_both(path: Path, **options: Any) -> Graph:
    """Read a file in memory and by way of disk: the same graph to the bit, or the same refusal."""
    expected = refusal_or_graph(read_graph, path, **options)
    with tempfile.TemporaryDirectory() as scratch:
        result = refusal_or_graph(on_disk, path, Path(scratch), **options)
        if isinstance(result, str) or isinstance(expected, str):
            assert result == expected
            raise InputError(str(expected))
        assert_same(result, expected)
    return expected
