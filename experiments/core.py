"""Measure what a change of settings does on a graph that is classified or linked.

The cells of ``presets.toml``. The protocols are older than those of
:mod:`graphham.evaluate.splits` and kept as they were, because the defaults were chosen by them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.metrics import link_metrics
from graphham.evaluate.running import load_graph
from graphham.results.scores import partition_scores

_GROUPS = (16, 7)  # for Cora without labels
_NEGATIVES = 20
_HIERARCHY = ("nesting", "used_1", "used_2", "nmi_1", "nmi_2")


def measure_core(cell: Cell) -> Record:
    """Do the work of one cell; its protocol says what is done, its settings change the fit."""
    if cell.protocol not in _PROTOCOLS:
        raise InputError(f"there is no protocol {cell.protocol!r} of the core")
    metrics = _PROTOCOLS[cell.protocol](cell)
    return {"cost": {"seconds": metrics.pop("seconds")}, "metrics": metrics}


def _classify(cell: Cell) -> Record:
    """Classify one stratified fold; labels of the test fold are never seen."""
    from sklearn.model_selection import StratifiedKFold

    graph = load_graph(cell.graph)
    codes = _class_codes(graph)
    folds = StratifiedKFold(cell.folds, shuffle=True, random_state=cell.seed)
    train, test = list(folds.split(codes, codes))[cell.fold]
    fitted = _fit(cell, graph, train_rows=train, task="classify")
    predicted = fitted.result.prediction.codes
    return {
        "accuracy": float((predicted[test] == codes[test]).mean()),
        "nmi_2_test": _nmi(codes[test], fitted.result.groups[1][test]),
        **_facts(fitted),
    }


def _links(cell: Cell) -> Record:
    """Test a fifth of the edges by layer-1 cosines, a twentieth set aside; score the groups too."""
    graph = load_graph(cell.graph)
    edges = graph.edge_list()
    order = np.random.default_rng([cell.seed, 20]).permutation(len(edges))
    test, aside = np.split(edges[order[: len(edges) // 4]], [len(edges) // 5])
    rest = graph.without_edges(np.concatenate([test, aside]))
    fitted = _fit(cell, rest, groups=_GROUPS)
    return {**_link_scores(graph, test, fitted.result.layer(1), cell.seed), **_facts(fitted)}


_PROTOCOLS: dict[str, Callable[[Cell], Record]] = {
    "classify": _classify,
    "links": _links,
}


def _fit(cell: Cell, graph: Any, *, train_rows: Any = None, **settings: Any) -> Any:
    """Fit with the default preset, the cell's seed and its settings."""
    from graphham.config.settings import make_config
    from graphham.methods.fitting import fit_graph

    config = make_config({"seed": cell.seed, **settings, **cell.settings})
    return fit_graph(graph, config, train_rows=train_rows)


def _facts(fitted: Any) -> Record:
    """Return the hierarchy's scores and the cost of a fit."""
    metrics = fitted.summary["hierarchy"]
    out = {name: metrics[name] for name in _HIERARCHY if name in metrics}
    out["used_share"] = min(
        metrics[f"used_{level}"] / metrics[f"groups_{level}"] for level in (1, 2)
    )
    out["seconds"] = fitted.summary["cost"]["seconds"]
    return out


def _class_codes(graph: Any) -> Any:
    assert graph.labels is not None
    assert graph.labels.codes is not None
    return graph.labels.codes


def _nmi(truth: Any, groups: Any) -> float:
    return partition_scores(groups, truth)["nmi"]


def _link_scores(graph: Any, test: Any, vectors: Any, seed: int) -> dict[str, float]:
    """Return pooled AUC and MRR of held-out edges against 20 non-neighbours of the source."""
    from graphham.sampling.keys import derive_key
    from graphham.sampling.walks import sample_negatives

    # One draw per test edge: a source that occurs twice gets different negatives.
    key = derive_key(seed, "link negatives")
    sources, place = np.unique(test[:, 0], return_inverse=True)
    most = int(np.bincount(place).max())
    pool = sample_negatives(graph, sources, _NEGATIVES * most, key)
    pool = pool.reshape(len(sources), most, _NEGATIVES)
    turn = np.zeros(len(test), dtype=np.int64)
    seen: dict[int, int] = defaultdict(int)
    for i, source in enumerate(place.tolist()):
        turn[i] = seen[source]
        seen[source] += 1
    candidates = np.column_stack([test[:, 1], pool[place, turn]])
    found = link_metrics((vectors[test[:, 0]][:, None] * vectors[candidates]).sum(2))
    return {"auc": found["auc"], "mrr": found["mrr"]}
