"""Read the npz files of gnn-benchmark (Amazon Computers and Photo)."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphham.datasets.catalog import DatasetInfo
from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph


def load(folder: Path, info: DatasetInfo) -> Graph:
    """Read adjacency, attributes and labels; the stored direction of links is dropped."""
    path = folder / info.files[0].path
    try:
        with np.load(path, allow_pickle=False) as archive:
            adjacency = _csr(archive, "adj")
            features = _csr(archive, "attr")
            codes = np.asarray(archive["labels"], dtype=np.int32)
            num_classes = int(codes.max()) + 1
            names = _optional(archive, "attr_names", features.shape[1])
            classes = _optional(archive, "class_names", num_classes)
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a gnn-benchmark file ({error})") from error
    links = adjacency.tocoo()
    features.sort_indices()
    return build_graph(
        links.row,
        links.col,
        adjacency.shape[0],
        origin=info.source,
        name=info.name,
        features=features,
        feature_names=names or [f"w{i}" for i in range(features.shape[1])],
        labels=Labels(tuple(classes or range(num_classes)), codes=codes),
    )


def _csr(archive: Any, prefix: str) -> sp.csr_matrix:
    parts = [archive[f"{prefix}_{part}"] for part in ("data", "indices", "indptr")]
    parts[0] = parts[0].astype(np.float32)
    matrix = sp.csr_matrix(tuple(parts), shape=tuple(archive[f"{prefix}_shape"].tolist()))
    matrix.check_format(full_check=True)
    return matrix


def _optional(archive: Any, key: str, count: int) -> list[str] | None:
    """Return a list of names if the file has it as plain text; the originals pickle some."""
    try:
        names = [str(value) for value in archive[key].tolist()]
    except (KeyError, ValueError):
        return None
    return names if len(names) == count else None
