"""Read the datasets that ship inside the package."""

from __future__ import annotations

import io
import lzma
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.datasets.catalog import DatasetInfo
from graphham.graph.graph import Graph, Labels, ReadReport
from graphham.graph.ids import NodeIds


def load(info: DatasetInfo) -> Graph:
    """Read an embedded dataset; ``scripts/build_*.py`` say how each was made."""
    parts = read_parts(info.name)
    num_nodes = len(parts["codes"])
    words = parts["word_indices"].astype(np.int32)
    features = sp.csr_matrix(
        (np.ones(len(words), np.float32), words, _bounds(parts["word_counts"])),
        shape=(num_nodes, int(parts["num_words"])),
    )
    names = _lines(parts["feature_names"]) if "feature_names" in parts else None
    indptr, indices = _both_ways(parts["edge_counts"], parts["edge_targets"])
    graph = Graph(
        indptr=indptr,
        indices=indices,
        ids=NodeIds(parts["ids"] if parts["ids"].dtype != np.uint8 else _lines(parts["ids"])),
        features=features,
        feature_names=names or [f"w{i}" for i in range(features.shape[1])],
        labels=Labels(tuple(parts["classes"].tolist()), codes=parts["codes"].astype(np.int32)),
        name=info.name,
        splits={k: parts[k].astype(np.int64) for k in ("train", "val", "test") if k in parts},
        titles=_lines(parts["titles"]) if "titles" in parts else None,
    )
    links = int(parts["raw_links"])
    report = ReadReport(
        source=str(parts["origin"]),
        rows_read=links,
        duplicates_merged=links - graph.num_edges,
        isolated=int((graph.degrees() == 0).sum()),
        components=graph.components()[0],
    )
    return replace(graph, report=report)


def read_parts(name: str) -> dict[str, npt.NDArray[Any]]:
    """Return the stored arrays of an embedded dataset by name."""
    folder = resources.files("graphham.datasets") / "embedded"
    packed = folder / f"{name}.npz.xz"
    if packed.is_file():
        content = lzma.decompress(packed.read_bytes())
    else:
        content = (folder / f"{name}.npz").read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _bounds(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    bounds = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds


def _both_ways(
    counts: npt.NDArray[Any], targets: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Mirror the stored half (each edge once, in the row of its smaller end)."""
    shape = (len(counts), len(counts))
    half = sp.csr_matrix(
        (np.ones(len(targets), np.int8), targets.astype(np.int32), _bounds(counts)), shape=shape
    )
    full = (half + half.T).tocsr()
    full.sort_indices()
    return full.indptr.astype(np.int64), full.indices.astype(np.int32)


def _lines(text: npt.NDArray[Any]) -> list[str]:
    """Unpack a list of texts, stored as the bytes of its lines."""
    return text.tobytes().decode("utf-8").split("\n")
