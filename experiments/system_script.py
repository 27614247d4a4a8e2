"""Find groups with libraries of the system's Python: graph-tool and leidenalg.

Run by path, with that Python: ``python3 system_script.py NAME IN.npz OUT.npz``. It imports nothing
of this repository. ``IN`` holds ``edges`` ((M, 2) rows, each link once), ``count`` nodes,
``groups`` (wanted, fine to coarse; none for the method's own) and ``seed``; ``OUT`` holds
``level_1``, ``level_2``. ``leiden-range`` takes resolutions as ``groups`` instead and gives
``levels`` and ``seconds``. :func:`experiments.hierarchy_peers.peer_hierarchy` calls it.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import numpy as np

_RESOLUTIONS = np.geomspace(0.02, 60, 40)


def nested_sbm(edges: Any, count: int, groups: list[int], seed: int) -> list[Any]:
    """Fit graph-tool's nested, degree-corrected stochastic block model.

    With numbers given the fit has exactly so many groups, and so many groups of those above them.
    """
    gt = importlib.import_module("graph_tool.all")
    gt.seed_rng(seed + 1)  # 0 would mean a random seed
    np.random.seed(seed)  # noqa: NPY002 - graph-tool draws from it as well
    gt.openmp_set_num_threads(1)
    graph = gt.Graph(directed=False)
    graph.add_vertex(count)
    graph.add_edge_list(edges)
    if not groups:
        nested = gt.minimize_nested_blockmodel_dl(graph)
        fine = np.asarray(nested.levels[0].b.a)[:count]
        above = np.asarray(nested.levels[1].b.a)
        return [fine, above[fine]]
    levels: list[Any] = []
    weight = None
    for wanted in groups:
        state = gt.minimize_blockmodel_dl(
            graph,
            # Levels above the finest describe counts of links, whose degrees are known already.
            state_args={"eweight": weight, "deg_corr": weight is None},
            multilevel_mcmc_args={"B_min": wanted, "B_max": wanted},
        )
        found = np.asarray(state.b.a)[: graph.num_vertices()]
        codes = np.unique(found, return_inverse=True)[1]
        levels.append(codes if not levels else codes[levels[-1]])
        size = int(codes.max()) + 1
        between: dict[tuple[int, int], float] = {}
        counts = [1.0] * graph.num_edges() if weight is None else weight.a.tolist()
        for (one, two), often in zip(graph.get_edges().tolist(), counts, strict=True):
            ends = int(codes[one]), int(codes[two])
            key = min(ends), max(ends)
            between[key] = between.get(key, 0) + often
        graph = gt.Graph(directed=False)
        graph.add_vertex(size)
        graph.add_edge_list(list(between))
        weight = graph.new_edge_property("int", vals=list(between.values()))
    return levels


def leiden(edges: Any, count: int, groups: list[int], seed: int) -> list[Any]:
    """Run Leiden, then Leiden inside each of its groups.

    With numbers given, the resolutions are those whose groups of at least a hundredth of the nodes
    come nearest to them; otherwise both are 1.
    """
    ig = importlib.import_module("igraph")
    la = importlib.import_module("leidenalg")
    graph = ig.Graph(n=count, edges=edges.tolist())

    def parts(part: Any, resolution: float) -> Any:
        found = la.find_partition(
            part,
            la.RBConfigurationVertexPartition,
            resolution_parameter=resolution,
            seed=seed,
            n_iterations=4,
        )
        return np.asarray(found.membership)

    def inside(coarse: Any, resolution: float) -> Any:
        codes = np.zeros(count, dtype=np.int64)
        for group in range(int(coarse.max()) + 1):
            rows = np.flatnonzero(coarse == group)
            finer = parts(graph.induced_subgraph(rows.tolist()), resolution)
            codes[rows] = codes.max() + 1 + finer
        return np.unique(codes, return_inverse=True)[1]

    def nearest(find: Any, wanted: int) -> Any:
        best: tuple[int, Any] | None = None
        for resolution in _RESOLUTIONS.tolist():
            codes = find(resolution)
            used = int((np.bincount(codes) >= 0.01 * count).sum())
            if best is None or abs(used - wanted) < best[0]:
                best = abs(used - wanted), codes
            if used >= wanted:
                break
        assert best is not None
        return best[1]

    if not groups:
        coarse = parts(graph, 1.0)
        return [inside(coarse, 1.0), coarse]
    coarse = nearest(lambda resolution: parts(graph, resolution), groups[-1])
    return [nearest(lambda resolution: inside(coarse, resolution), groups[0]), coarse]


def leiden_range(edges: Any, count: int, resolutions: list[float], seed: int) -> tuple[Any, Any]:
    """Return one partition for each resolution, and the seconds each took."""
    ig = importlib.import_module("igraph")
    la = importlib.import_module("leidenalg")
    graph = ig.Graph(n=count, edges=edges.tolist())
    levels, seconds = [], []
    for resolution in resolutions:
        began = time.process_time()
        found = la.find_partition(
            graph,
            la.RBConfigurationVertexPartition,
            resolution_parameter=resolution,
            seed=seed,
        )
        levels.append(np.asarray(found.membership))
        seconds.append(time.process_time() - began)
    return np.stack(levels), np.array(seconds)


def main(name: str, given: str, out: str) -> None:
    """Read, find, write."""
    with np.load(given) as held:
        edges, count = held["edges"], int(held["count"])
        if name == "leiden-range":
            found = leiden_range(edges, count, held["groups"].tolist(), int(held["seed"]))
            np.savez(out, levels=found[0], seconds=found[1])
            return
        groups, seed = [int(g) for g in held["groups"]], int(held["seed"])
    find = {"nested-sbm": nested_sbm, "leidenalg": leiden}[name]
    levels = find(edges, count, groups, seed)
    fine, coarse = (np.asarray(level) for level in levels)
    np.savez(out, level_1=fine, level_2=coarse)


if __name__ == "__main__":
    main(*sys.argv[1:])
