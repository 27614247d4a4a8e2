"""One fit looked at from all sides: the data behind Figures 3, 4 and 6."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.classify import Arrays
from graphham.evaluate.hierarchy_scores import hierarchy_scores, level_arrays
from graphham.graph.graph import Graph

if TYPE_CHECKING:
    from graphham.results.result import FitResult


def measure_portrait(cell: Cell, graph: Graph, place: Path | None) -> tuple[Record, Arrays]:
    """Fit GraphHAM to a whole graph, leave the run folder, and keep what the figures show.

    Args:
        cell: Names graph and seed; its protocol is the task (``embed`` or ``classify``).
        graph: The graph.
        place: Folder of the cell; the run goes into ``run`` below it.
    """
    from graphham.config.settings import make_config
    from graphham.methods.fitting import fit_graph
    from graphham.methods.run_fitting import fit_to_run

    config = make_config({"task": cell.protocol, "seed": cell.seed}, dict(cell.settings))
    if place is None:
        result: FitResult = fit_graph(graph, config).result
    else:
        result = fit_to_run(graph, config, place / "run", overwrite=True).result()
    metrics = hierarchy_scores(
        result.groups,
        graph.labels,
        group_counts=result.group_counts,
    )
    arrays: Arrays = {
        **level_arrays(result.groups),
        "map": tsne(np.asarray(result.embedding), cell.seed),
        "concentration": np.asarray(result.concentration),
        "degrees": graph.degrees().astype(np.int32),
    }
    for layer, gap in enumerate(result.attention_gap or [], 1):
        arrays[f"gap_{layer}"] = np.asarray(gap)
    record: Record = {"metrics": metrics, "chosen": config.to_dict()}
    if graph.labels is not None and graph.labels.codes is not None:
        arrays["label"] = graph.labels.codes
        record["classes"] = [str(name) for name in graph.labels.classes]
    return record, arrays


def tsne(vectors: npt.NDArray[Any], seed: int) -> npt.NDArray[np.float32]:
    """Lay vectors out in the plane; openTSNE where installed, scikit-learn's t-SNE otherwise."""
    perplexity = float(min(30, max(2, (len(vectors) - 1) // 4)))
    try:
        from openTSNE import TSNE
    except ImportError:
        from sklearn import manifold

        slow = manifold.TSNE(perplexity=perplexity, init="pca", random_state=seed)
        return np.asarray(slow.fit_transform(vectors), dtype=np.float32)
    quick = TSNE(perplexity=perplexity, metric="cosine", random_state=seed, n_jobs=1)
    return np.asarray(quick.fit(vectors), dtype=np.float32)
