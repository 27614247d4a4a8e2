"""Read the MUSAE files: pages, the links between them, and the words of their descriptions."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphham.datasets.catalog import DatasetInfo
from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph


def load(folder: Path, info: DatasetInfo) -> Graph:
    """Read the three Facebook files; rows follow the page ids, titles are the page names."""
    raw = folder / "raw"
    try:
        with (raw / "musae_facebook_target.csv").open(encoding="utf-8", newline="") as stream:
            pages = sorted(
                (int(r["id"]), r["page_name"], r["page_type"]) for r in csv.DictReader(stream)
            )
        pairs = np.loadtxt(
            raw / "musae_facebook_edges.csv", dtype=np.int64, delimiter=",", skiprows=1, ndmin=2
        )
        words = json.loads((raw / "musae_facebook_features.json").read_text("utf-8"))
        rows = [words[str(page)] for page, _, _ in pages]
        columns = np.fromiter((w for row in rows for w in row), np.int64)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{raw} does not hold MUSAE Facebook files ({error})") from error
    if [page for page, _, _ in pages] != list(range(len(pages))):
        raise InputError(f"the page ids in {raw} are not 0..{len(pages) - 1}; fetch it again")

    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    features = sp.csr_matrix((np.ones(len(columns), np.float32), columns, indptr))
    features.sum_duplicates()
    features.data[:] = 1.0
    classes, codes = np.unique([kind for _, _, kind in pages], return_inverse=True)
    return build_graph(
        pairs[:, 0],
        pairs[:, 1],
        len(pages),
        origin=info.source,
        name=info.name,
        features=features,
        feature_names=[f"w{i}" for i in range(features.shape[1])],
        labels=Labels(tuple(classes.tolist()), codes=codes.astype(np.int32)),
        titles=[title for _, title, _ in pages],
    )
