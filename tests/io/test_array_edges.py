"""Edges of npz files: lists of edges and sparse matrices agree, and nothing is unpickled."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.errors import InputError
from tests.io.edge_files import pairs, read_both


def test_npz_forms_agree(tmp_path: Path) -> None:
    edges = np.array([[0, 1], [1, 2], [3, 1]])
    np.savez(tmp_path / "list.npz", edges=edges)
    matrix = sp.coo_matrix((np.ones(3), edges.T), shape=(4, 4)).tocsr()
    matrix = matrix.maximum(matrix.T)
    sp.save_npz(tmp_path / "csr.npz", matrix)
    sp.save_npz(tmp_path / "csc.npz", matrix.tocsc())
    sp.save_npz(tmp_path / "coo.npz", matrix.tocoo())
    np.savez(tmp_path / "adj.npz", adj_indptr=matrix.indptr, adj_indices=matrix.indices)
    for name in ("list", "csr", "csc", "coo", "adj"):
        graph = read_both(tmp_path / f"{name}.npz")
        assert pairs(graph) == {(0, 1), (1, 2), (1, 3)}, name
        assert graph.weights is None
        assert graph.report is not None
        assert graph.report.duplicates_merged == 0, name


def test_matrix_values_are_weights_and_not_doubled(tmp_path: Path) -> None:
    matrix = sp.csr_matrix(np.array([[0, 2.5, 0], [2.5, 0, 1], [0, 0, 0]]))
    sp.save_npz(tmp_path / "m.npz", matrix)
    graph = read_both(tmp_path / "m.npz")
    assert graph.weights is not None
    assert graph.weights.tolist() == [2.5, 2.5, 1.0, 1.0]


def test_npz_rows_into_ids(tmp_path: Path) -> None:
    ids = np.array(["c", "b", "a", "lonely"])
    np.savez(tmp_path / "e.npz", edges=np.array([[0, 2], [1, 2]]), ids=ids)
    graph = read_both(tmp_path / "e.npz")
    assert graph.ids.tolist() == ["c", "b", "a", "lonely"]
    assert pairs(graph) == {("c", "a"), ("b", "a")}
    assert graph.report is not None
    assert graph.report.isolated == 1


def test_npz_with_python_objects_is_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", edges=np.array([["a", 1]], dtype=object))
    with pytest.raises(InputError, match="never unpickled"):
        read_both(tmp_path / "o.npz")


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"edges": np.zeros((3, 4), int)}, r"shape \(3, 4\)"),
        ({"edges": np.zeros((0, 2), int)}, "no edges"),
        ({"edges": np.ones((2, 2))}, "float64"),
        ({"edges": np.array([[0, 5]]), "ids": np.array(["a", "b"])}, "row 5"),
        ({"edges": np.array([[0, 1]]), "ids": np.array(["a", "a"])}, "'a' occurs twice"),
        ({"edges": np.array([[0, 1]]), "weights": np.ones(3)}, "3 weights for 1 edges"),
        ({"edges": np.array([[0, 1]]), "weights": np.array([1e39])}, r"row 1 .*1e\+39; .*scale"),
        (
            {
                "data": np.array([1e-60, 1e-60]),
                "indices": np.array([1, 0]),
                "indptr": np.array([0, 1, 2]),
                "shape": np.array([2, 2]),
            },
            "edge 0 - 1 .*1e-60; .*scale",
        ),
        ({"indptr": np.array([0, 1]), "indices": np.array([7])}, "damaged"),
        ({"something": np.ones(3)}, "it has the arrays something"),
    ],
)
def test_bad_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], told: str) -> None:
    np.savez(tmp_path / "b.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=told):
        read_both(tmp_path / "b.npz")
