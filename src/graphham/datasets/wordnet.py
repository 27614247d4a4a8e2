"""Read the synset graph derived from WordNet 3.0."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphham.datasets.catalog import DatasetInfo
from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.ids import NodeIds


def load(folder: Path, info: DatasetInfo) -> Graph:
    """Read ``wordnet.npz``; ids are synsets such as ``n00001740``, titles their first lemma."""
    path = folder / info.files[0].path
    try:
        with np.load(path, allow_pickle=False) as archive:
            parts = {key: archive[key] for key in archive.files}
        columns = parts["attr_indices"].astype(np.int32)
        features = sp.csr_matrix(
            (np.ones(len(columns), np.float32), columns, parts["attr_indptr"]),
            shape=tuple(parts["attr_shape"].tolist()),
        )
        features.check_format(full_check=True)
        features.sort_indices()
        return build_graph(
            parts["edges"][:, 0],
            parts["edges"][:, 1],
            len(parts["labels"]),
            ids=NodeIds(parts["synset"].tolist()),
            origin=info.source,
            name=info.name,
            features=features,
            feature_names=parts["vocabulary"].tolist(),
            labels=Labels(
                tuple(parts["class_names"].tolist()), codes=parts["labels"].astype(np.int32)
            ),
            titles=[lemma.replace("_", " ") for lemma in parts["lemma"].tolist()],
        )
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not the WordNet file ({error})") from error
