"""Measure one round of the groups' mean field on a graph as large as ogbn-products.

    python scripts/measure_round.py [--part 10]

A planted graph of 2,449,029 nodes and 124 million stored links (or a part of it) is made in
memory; a round asks of every node and each of 48 groups what its features and its links say, and
estimates vectors and link tables anew. Printed are processor seconds, how much memory the round
adds to that of the graph, and how that compares with an array of links times groups.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

from graphham.graph.planted import planted_hierarchy
from graphham.groups.block_model import GraphLinks, fit_block_model
from graphham.groups.group_map import unit_rows
from graphham.system.peak_memory import peak_memory
from graphham.system.threads import single_threaded

_NODES, _DEGREE, _TREE, _DIM = 2_449_029, 50.5, (8, 6), 64


def _held_bytes() -> int:
    """Return how much memory this process holds now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Make the graph, take one round, print the figures as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", type=int, default=1, help="a so-many-th of the nodes")
    given = parser.parse_args()
    planted = planted_hierarchy(
        _TREE, _NODES // given.part, mean_degree=_DEGREE, features="gaussian", dim=_DIM
    )
    graph, codes = planted.graph, planted.levels[0].astype(np.int64)
    own = unit_rows(np.asarray(graph.features, dtype=np.float32))
    parents = [parent.astype(np.int64) for parent in planted.parents]
    del planted
    with single_threaded():
        before = _held_bytes()
        began = time.process_time()
        links = GraphLinks(graph)
        read = time.process_time() - began
        began = time.process_time()
        fit = fit_block_model(own, 12.0, links, codes, parents, rounds=1)
        spent = time.process_time() - began
    groups = fit.memberships.shape[1]
    found = {
        "nodes": graph.num_nodes,
        "stored_links": graph.num_stored,
        "groups": groups,
        "links_cpu_seconds": round(read, 1),
        "round_cpu_seconds": round(spent, 1),
        "graph_gib": round(before / 2**30, 2),
        # The peak may be that of making the graph, so a round adds at most this.
        "added_at_most_gib": round((peak_memory() - before) / 2**30, 2),
        "links_times_groups_gib": round(4 * graph.num_stored * groups / 2**30, 2),
        "same_groups": round(float((fit.memberships.argmax(1) == codes).mean()), 4),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
