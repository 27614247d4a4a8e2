"""Measure hierarchies found without labels: ours and a peer's, on the same graph."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.hierarchy_peers import PEERS, peer_hierarchy
from experiments.planted_cases import COARSE, FINE, is_planted, planted_graph
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.classify import Arrays
from graphham.evaluate.hierarchy_scores import dendrogram_purity, hierarchy_scores, level_arrays
from graphham.graph.graph import Graph
from graphham.results.scores import partition_scores


def measure_hierarchy(cell: Cell) -> tuple[Record, Arrays]:
    """Find groups without labels and score them.

    Every method is asked for the same numbers of groups: the planted ones, or those GraphHAM takes
    by itself for a graph whose labels it does not see (``groups`` among the settings overrules).
    """
    settings = dict(cell.settings)
    truth: list[npt.NDArray[np.int32]] | None = None
    if is_planted(cell.graph):
        graph, truth = planted_graph(cell.graph, cell.seed)
        wanted = [FINE, COARSE]
    else:
        from graphham.evaluate.running import load_graph

        graph = load_graph(cell.graph)
        wanted = _default_groups(graph)
    wanted = [int(count) for count in settings.pop("groups", wanted)]
    began = time.perf_counter()
    levels, counts, linkage = _find(cell, graph, wanted, settings)
    seconds = time.perf_counter() - began
    metrics = hierarchy_scores(levels, graph.labels, group_counts=counts)
    if truth is not None:
        for number, (found, true) in enumerate(zip(levels, truth, strict=True), 1):
            scores = partition_scores(found, true)
            metrics |= {f"truth_nmi_{number}": scores["nmi"], f"truth_ari_{number}": scores["ari"]}
    if linkage is not None and graph.labels is not None and graph.labels.codes is not None:
        metrics["dendrogram_purity"] = dendrogram_purity(linkage, graph.labels.codes)
    record = {"metrics": metrics, "chosen": {"groups": wanted, **settings}}
    return {**record, "cost": {"seconds": seconds}}, level_arrays(levels)


def _find(cell: Cell, graph: Graph, wanted: list[int], settings: dict[str, Any]) -> Any:
    if cell.method in PEERS:
        peer = peer_hierarchy(cell.method, graph, wanted, cell.seed)
        return peer.levels, None, peer.linkage
    from graphham.methods.registry import make_method

    method = make_method(cell.method, seed=cell.seed, groups=wanted, **settings).fit(graph)
    result = getattr(method, "result_", None)
    if result is None:
        return method.levels_, None, None
    return list(result.groups), list(result.group_counts), None


def _default_groups(graph: Graph) -> list[int]:
    from dataclasses import replace

    from graphham.config.settings import make_config
    from graphham.training.plan import plan_fit

    plan = plan_fit(replace(graph, labels=None), make_config({"task": "embed"}))
    return list(plan.config.groups)
