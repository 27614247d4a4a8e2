"""Say how far links alone can take a method on a graph: what no look at structure can know.

A held-out link whose ends lie in different parts of the remaining graph looks like any pair of
strangers to a method without features, so half of its comparisons are lost however good the method:
the pooled AUC stays below ``1 - share / 2``. For classes, the vote of a node's labelled neighbours,
and of its part of the graph where no neighbour has a label, is what structure says at once.

    python scripts/structure_ceiling.py cora citeseer pubmed facebook
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.sparse.csgraph import connected_components

import graphham
from graphham.evaluate.splits import edge_split, node_split
from graphham.graph.graph import Graph


def link_ceiling(graph: Graph, fold: int) -> tuple[float, float]:
    """Return the share of held-out links between parts, and the AUC no structure can exceed."""
    split = edge_split(graph, fold=fold)
    _, part = connected_components(split.graph.adjacency(), directed=False)
    ends = part[split.test]
    apart = float((ends[:, 0] != ends[:, 1]).mean())
    return apart, 1 - apart / 2


def vote(graph: Graph, fold: int) -> float:
    """Return the accuracy of the labelled neighbours' vote on folds over the nodes."""
    assert graph.labels is not None
    codes = graph.labels.codes
    assert codes is not None
    split = node_split(graph, "folds", fold=fold)
    known = np.zeros((graph.num_nodes, len(graph.labels.classes)), dtype=np.float32)
    known[split.train, codes[split.train]] = 1
    _, part = connected_components(graph.adjacency(), directed=False)
    whole = np.zeros((part.max() + 1, known.shape[1]), dtype=np.float32)
    np.add.at(whole, part, known)
    common = known.sum(0)
    # Each answer breaks the ties of the one before it.
    score = graph.adjacency() @ known * 1e8 + whole[part] * 1e3 + common / common.sum()
    return float((score[split.test].argmax(1) == codes[split.test]).mean())


def main(names: list[str]) -> None:
    """Print a table of the named graphs."""
    print(f"{'graph':<10} {'links apart':>11} {'AUC at most':>11} {'vote':>6}")
    for name in names:
        graph = graphham.load_dataset(name)
        links = np.mean([link_ceiling(graph, fold) for fold in range(5)], axis=0)
        votes = np.mean([vote(graph, fold) for fold in range(5)])
        print(f"{name:<10} {links[0]:>11.3f} {links[1]:>11.3f} {votes:>6.3f}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["cora", "citeseer", "pubmed", "facebook"])
