"""Measure what the core promises: planted hierarchies, and Cora unsupervised, classified, linked.

The cells of ``core.toml`` and ``presets.toml``. The protocols are older than those of
:mod:`graphham.evaluate.splits` and kept as they were, because the defaults were chosen by them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from experiments.planted_cases import COARSE, FINE, planted_graph
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
    seconds = metrics.pop("seconds", None)
    return {"metrics": metrics, **({} if seconds is None else {"cost": {"seconds": seconds}})}


def _truth(cell: Cell) -> Record:
    """Find planted groups again, beside two-level Louvain and k-means of smoothed features."""
    graph, (fine, coarse) = planted_graph(cell.graph, cell.seed)
    fitted = _fit(cell, graph, groups=(FINE, COARSE))
    result = fitted.result
    out = {
        "fine": _nmi(fine, result.groups[0]),
        "coarse": _nmi(coarse, result.groups[1]),
        **_facts(fitted),
    }
    low, high = _louvain_levels(graph.adjacency(), FINE, COARSE, cell.seed)
    out |= {"louvain_fine": _nmi(fine, low), "louvain_coarse": _nmi(coarse, high)}
    for steps in (1, 2, 3, 4):
        x = _smoothed(graph, steps)
        out[f"kmeans{steps}_fine"] = _nmi(fine, _kmeans(x, FINE, cell.seed))
        out[f"kmeans{steps}_coarse"] = _nmi(coarse, _kmeans(x, COARSE, cell.seed))
    return out


def _embed(cell: Cell) -> Record:
    """Fit the whole graph without labels."""
    return _facts(_fit(cell, load_graph(cell.graph), groups=_GROUPS))


def _seeding(cell: Cell) -> Record:
    """Cut smoothed features into nested groups by k-means: what groups owe to no model."""
    from graphham.config.settings import InputConfig
    from graphham.model.group_map import GroupInputs
    from graphham.model.group_tree import group_tree
    from graphham.model.inputs import fit_inputs

    graph = load_graph(cell.graph)
    features, inputs, lead = fit_inputs(graph, InputConfig(), cell.seed, InputConfig().group_dim)
    seen = GroupInputs.of(inputs.features, lead, graph, features.is_structural)
    fine, parents = group_tree(seen.smooth, _GROUPS, cell.seed)
    codes = _class_codes(graph)
    return {"nmi_1": _nmi(codes, fine), "nmi_2": _nmi(codes, parents[0][fine])}


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
    "truth": _truth,
    "embed": _embed,
    "seeding": _seeding,
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


def _smoothed(graph: Any, steps: int) -> Any:
    """Return centred unit rows of features averaged over ``steps`` hops."""
    n = graph.num_nodes
    walk = graph.adjacency() + sp.eye(n)
    walk = sp.diags(1 / np.asarray(walk.sum(1)).ravel()) @ walk
    x = graph.features
    for _ in range(steps):
        x = walk @ x
    x = x.toarray()
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    return x - x.mean(0)


def _kmeans(x: Any, count: int, seed: int) -> Any:
    """Return scikit-learn's k-means clusters."""
    from sklearn.cluster import KMeans

    return KMeans(count, n_init=5, random_state=seed).fit_predict(x)


def _louvain_levels(adjacency: Any, fine: int, coarse: int, seed: int) -> tuple[Any, Any]:
    """Return two-level Louvain with the resolution searched for the wanted number of groups."""
    low = _louvain(adjacency, fine, seed, lambda codes: codes)
    member = sp.csr_matrix((np.ones(len(low)), (np.arange(len(low)), low)))
    merged = (member.T @ adjacency @ member).tocsr()
    high = _louvain(merged, coarse, seed, lambda codes: codes[low])
    return low, high[low]


def _louvain(adjacency: Any, count: int, seed: int, spread: Callable[[Any], Any]) -> Any:
    from sknetwork.clustering import Louvain

    best: tuple[int, Any] | None = None
    for resolution in np.geomspace(0.05, 20, 30):
        codes = Louvain(resolution=resolution, random_state=seed).fit_predict(adjacency)
        sizes = np.bincount(spread(codes))
        gap = abs(int((sizes >= 0.01 * sizes.sum()).sum()) - count)
        if best is None or gap < best[0]:
            best = gap, codes
    assert best is not None
    return best[1]
