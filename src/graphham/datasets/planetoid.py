"""Read the Planetoid files: Python-2 pickles of arrays, opened without running anything."""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.datasets.catalog import DatasetInfo
from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph

_NUM_VALIDATION = 500


class _Matrix:
    """Stands in for ``csr_matrix`` while unpickling: it takes the parts and runs nothing."""

    def __setstate__(self, state: Any) -> None:
        self.parts = state


def _encode_latin1(text: str, encoding: str) -> bytes:
    # Python 3 writes bytes into old pickle protocols as encode(text, "latin1"), no other.
    if encoding not in ("latin1", "latin-1", "iso-8859-1"):
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is not used by data files")
    return text.encode("latin1")


def _reconstruct() -> Any:
    """Return numpy's array rebuilder, whose module changed its name between numpy 1 and 2."""
    function: Any = np.zeros(1).__reduce__()[0]
    return function


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct(),
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("_codecs", "encode"): _encode_latin1,
}


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler that can build arrays, lists and dicts of lists, and knows nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which a data file has no use for"
            ) from None


def read_arrays(path: Path) -> Any:
    """Unpickle a file that may hold numpy arrays, CSR matrices, lists and dicts of lists only.

    Anything else, code above all, is refused with an :class:`InputError` before it runs.
    """
    with path.open("rb") as stream:
        return _unpickle(stream, str(path))


def _unpickle(stream: BinaryIO, origin: str) -> Any:
    try:
        value = _ArrayUnpickler(stream, encoding="latin1").load()
    except Exception as error:  # a damaged pickle can raise almost anything
        raise InputError(f"{origin} is not a Planetoid data file: {error}") from error
    return _to_csr(value, origin) if isinstance(value, _Matrix) else value


def _to_csr(matrix: _Matrix, origin: str) -> sp.csr_matrix:
    try:
        parts = dict(matrix.parts)
        shape = parts["_shape"] if "_shape" in parts else parts["shape"]
        result = sp.csr_matrix(
            (np.asarray(parts["data"], np.float32), parts["indices"], parts["indptr"]),
            shape=tuple(int(s) for s in shape),
        )
        result.check_format(full_check=True)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{origin} holds a damaged sparse matrix ({error})") from error
    result.sort_indices()
    return result


def load(folder: Path, info: DatasetInfo) -> Graph:
    """Read the eight files of one Planetoid graph.

    Test nodes come in the order of ``test.index``; CiteSeer's index has gaps, which become nodes
    without features and with unknown labels, as they are isolated papers nobody has the text of.
    """
    raw = folder / "raw"

    def path(part: str) -> Path:
        return raw / f"ind.{info.prefix}.{part}"

    all_x, test_x = (_expect(read_arrays(path(p)), sp.csr_matrix, path(p)) for p in ("allx", "tx"))
    y, all_y, test_y = (
        _expect(read_arrays(path(p)), np.ndarray, path(p)) for p in ("y", "ally", "ty")
    )
    adjacency = _expect(read_arrays(path("graph")), dict, path("graph"))
    try:
        test = np.array(path("test.index").read_text("ascii").split(), dtype=np.int64)
    except ValueError as error:
        raise InputError(f"{path('test.index')} is not a list of whole numbers") from error

    num_nodes = max(len(adjacency), int(test.max()) + 1)
    features = _place(all_x, test_x, test, num_nodes)
    hot = np.zeros((num_nodes, all_y.shape[1]), dtype=np.float32)
    hot[: len(all_y)] = all_y
    hot[test] = test_y
    codes = np.where(hot.any(axis=1), hot.argmax(axis=1), -1).astype(np.int32)

    source, target = _pairs(adjacency, path("graph"))
    classes: tuple[Any, ...] = info.class_names or tuple(range(hot.shape[1]))
    graph = build_graph(
        source,
        target,
        num_nodes,
        origin=info.source,
        name=info.name,
        features=features,
        feature_names=[f"w{i}" for i in range(features.shape[1])],
        labels=Labels(classes, codes=codes),
        splits={
            "train": np.arange(len(y)),
            "val": np.arange(len(y), len(y) + _NUM_VALIDATION),
            "test": np.sort(test),
        },
    )
    return replace(graph, report=_halve(graph, len(source)))


def _expect(value: Any, kind: type, path: Path) -> Any:
    if not isinstance(value, kind) or (
        isinstance(value, np.ndarray) and value.dtype.kind not in "fiub"
    ):
        raise InputError(f"{path} does not hold what its name promises; fetch it again")
    return value


def _place(
    all_x: sp.csr_matrix, test_x: sp.csr_matrix, test: npt.NDArray[np.int64], num_nodes: int
) -> sp.csr_matrix:
    """Put the rows of ``tx`` where ``test.index`` says; rows nobody claims stay empty."""
    order = np.argsort(test)
    gap = num_nodes - all_x.shape[0]
    lengths = np.zeros(gap, dtype=np.int64)
    lengths[test[order] - all_x.shape[0]] = np.diff(test_x.indptr)[order]
    tail = test_x[order]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    spread = sp.csr_matrix((tail.data, tail.indices, indptr), shape=(gap, all_x.shape[1]))
    return sp.vstack([all_x, spread], format="csr")


def _pairs(
    adjacency: dict[Any, Any], path: Path
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    try:
        lengths = np.fromiter((len(v) for v in adjacency.values()), np.int64, len(adjacency))
        source = np.repeat(np.fromiter(adjacency, np.int64, len(adjacency)), lengths)
        flat = (n for neighbours in adjacency.values() for n in neighbours)
        return source, np.fromiter(flat, np.int64, int(lengths.sum()))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} is not a map from nodes to lists of nodes") from error


def _halve(graph: Graph, entries: int) -> Any:
    """Count as the paper does: adjacency lists name each link twice, repeats and loops included."""
    report = graph.report
    assert report is not None
    rows = entries // 2
    loops = report.self_loops_dropped // 2
    return replace(
        report,
        rows_read=rows,
        self_loops_dropped=loops,
        duplicates_merged=rows - loops - graph.num_edges,
    )
