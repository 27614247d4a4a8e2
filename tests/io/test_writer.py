"""What is written is read back, and nothing is overwritten."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.ids import NodeIds
from graphham.io import write_edges
from tests.io.edge_files import put, read_both

# CSV and XML cannot hold every character: NUL marks binary files, XML forbids control characters.
any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


xml_text = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1
)


whole = st.integers(-(2**62), 2**62)


@st.composite
def graphs(draw: st.DrawFn, texts: st.SearchStrategy[str] = any_text) -> Graph:
    """Any small graph without isolated nodes, whose ids are any text or any integers."""
    ids = draw(
        st.lists(texts, min_size=2, max_size=7, unique=True)
        | st.lists(whole, min_size=2, max_size=7, unique=True)
    )
    n = len(ids)
    ends = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12))
    ends += [(i, (i + 1) % n) for i in range(n)]
    directed = draw(st.booleans())
    weights = draw(st.none() | st.just([0.25 + i for i in range(len(ends))]))
    source, target = np.array(ends).T
    return build_graph(
        source,
        target,
        n,
        ids=NodeIds(ids),
        directed=directed,
        weights=None if weights is None else np.array(weights),
    )


def assert_equal_by_id(read: Graph, written: Graph) -> None:
    """Compare two graphs by id: the rows may come in another order, as the reader's rule says."""
    texts = [str(v) for v in written.ids.tolist()]
    assert sorted(map(str, read.ids.tolist())) == sorted(texts)
    order = read.ids.rows(written.ids.tolist())
    expected, found = written.adjacency(), read.adjacency()[order][:, order]
    assert (expected != found).nnz == 0
    assert (read.weights is None) == (written.weights is None)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".parquet", ".npz"])
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, ending: str
) -> None:
    folder = tmp_path_factory.mktemp("round")

    @given(graphs())
    def check(graph: Graph) -> None:
        file = folder / f"e{ending}"
        file.unlink(missing_ok=True)
        write_edges(graph, file)
        weight = None if graph.weights is None or ending == ".npz" else "weight"
        assert_equal_by_id(read_both(file, directed=graph.directed, weight=weight), graph)

    check()


@pytest.mark.parametrize("ending", [".graphml", ".graphml.gz"])
def test_graphml_is_read_back(tmp_path_factory: pytest.TempPathFactory, ending: str) -> None:
    folder = tmp_path_factory.mktemp("round")

    @given(graphs(xml_text))
    def check(graph: Graph) -> None:
        file = folder / f"e{ending}"
        file.unlink(missing_ok=True)
        write_edges(graph, file)
        weight = None if graph.weights is None else "weight"
        assert_equal_by_id(read_both(file, directed=graph.directed, weight=weight), graph)

    check()


def test_writer_overwrites_nothing(tmp_path: Path) -> None:
    graph = build_graph(np.array([0]), np.array([1]), 2)
    file = put(tmp_path, "e.csv", "precious")
    with pytest.raises(InputError, match="exists already"):
        write_edges(graph, file)
    assert file.read_text() == "precious"
    with pytest.raises(InputError, match=r"e\.doc"):
        write_edges(graph, tmp_path / "e.doc")
