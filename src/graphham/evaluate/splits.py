"""Which nodes and which edges are trained on, chosen by and tested on.

The same graph, protocol, seed and fold give the same split to every method; the split's fingerprint
is stored with each result, so that anyone can check it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels
from graphham.sampling.keys import derive_key, numpy_generator

Rows = npt.NDArray[np.int64]

VALIDATION_SHARE = 0.10
LINK_VALIDATION_SHARE = 0.05
FEW_VALIDATION = 200

PROTOCOLS = {
    "public_split": "the public Planetoid split: 20 labels per class, 500 validation nodes, 1000 "
    "test nodes; seeds change the methods' own draws only",
    "folds": "folds over the labelled nodes, stratified by class, 10% of the training part for "
    "validation, whole graph visible; softmax, so accuracy equals micro-F1",
    "folds_sigmoid": "the same folds, one sigmoid per class cut at 0.5, accuracy is exact match: "
    "for comparison with the printed tables only",
    "fewN": "N labels per class (few5, few10, few20), 200 validation nodes, all others tested; the "
    "seed draws the labels",
    "links": "folds over edges: a fifth tested and removed from the graph before anything sees it, "
    "5% of the rest for validation; each test edge against 20 uniform non-neighbours of one end",
    "hard": "the folds of links, negatives are the likeliest non-neighbours by common neighbours "
    "and by personalised PageRank on the training graph",
}


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Three disjoint lists of rows, each ascending."""

    train: Rows
    validation: Rows
    test: Rows

    def fingerprint(self) -> str:
        """Return a short hash by which two results can be seen to share a split."""
        return _hash(self.train, self.validation, self.test)


@dataclass(frozen=True, eq=False)
class EdgeSplit:
    """Held-out edges and the graph that lacks them.

    Args:
        graph: The graph without validation and test edges, all that a method may see.
        validation: ``(count, 2)`` rows, the source of the query first.
        test: ``(count, 2)`` rows, the source of the query first.
    """

    graph: Graph
    validation: Rows
    test: Rows

    def fingerprint(self) -> str:
        """Return a short hash by which two results can be seen to share a split."""
        return _hash(self.validation, self.test)


def check_protocol(task: str, name: str) -> str:
    """Return the protocol's name, or say which ones there are."""
    allowed = {
        "classify": {"public_split", "folds", "folds_sigmoid"},
        "links": {"links", "hard"},
    }[task]
    if name in allowed or (task == "classify" and re.fullmatch(r"few[1-9][0-9]*", name)):
        return name
    extra = ", few5, few10, few20" if task == "classify" else ""
    raise InputError(
        f"there is no protocol {name!r} for {task}; choose {', '.join(sorted(allowed))}{extra}"
    )


def num_folds(protocol: str, folds: int) -> int:
    """Return how many folds a protocol really has: fixed splits have one."""
    return 1 if protocol == "public_split" or protocol.startswith("few") else folds


def node_split(
    graph: Graph,
    protocol: str = "folds",
    *,
    seed: int = 0,
    fold: int = 0,
    folds: int = 5,
    stratified: bool = True,
) -> NodeSplit:
    """Split the labelled nodes.

    Args:
        graph: A graph with labels.
        protocol: ``public_split``, ``folds``, ``folds_sigmoid`` or ``fewN``.
        seed: Draws the folds; the public split does not depend on it.
        fold: Which fold is tested, from 0.
        folds: Number of folds.
        stratified: Spread every class evenly over the folds. Without it (A9) one permutation is
            cut into ``floor(nodes / folds)`` and the remainder is never tested. Labels of several
            classes per node are never stratified.
    """
    check_protocol("classify", protocol)
    labels = graph.labels
    if labels is None or not labels.known.any():
        raise InputError(f"{graph.name!r} has no labels to classify by; give --labels FILE:COLUMN")
    if not 0 <= fold < num_folds(protocol, folds):
        raise InputError(f"there is no fold {fold}; {protocol} has {num_folds(protocol, folds)}")
    if protocol == "public_split":
        return _public_split(graph)
    if protocol.startswith("few"):
        return _few_labels(labels, int(protocol[3:]), seed)
    known = np.flatnonzero(labels.known)
    if folds < 2 or len(known) < 2 * folds:
        raise InputError(
            f"{len(known):,} labelled nodes cannot be cut into {folds} folds; use at least 2 folds "
            f"and twice as many labels"
        )
    shuffled = numpy_generator(derive_key(seed, "node folds", folds)).permutation(known)
    codes = None if labels.codes is None or not stratified else labels.codes
    if codes is None:
        size = len(known) // folds
        test = shuffled[fold * size : (fold + 1) * size]
    else:
        test = _deal(shuffled, codes, folds, fold)
    rest = shuffled[~np.isin(shuffled, test)]
    rest = numpy_generator(derive_key(seed, "validation", folds, fold)).permutation(rest)
    parts = round(1 / VALIDATION_SHARE)
    validation = rest[: len(rest) // parts] if codes is None else _deal(rest, codes, parts, 0)
    train = rest[~np.isin(rest, validation)]
    return NodeSplit(np.sort(train), np.sort(validation), np.sort(test))


def hide_labels(graph: Graph, rows: Rows) -> Graph:
    """Return the graph without the labels of ``rows``: a method cannot train on what is not there.

    The list of classes stays, so that predictions keep their codes.
    """
    labels = graph.labels
    assert labels is not None
    if labels.codes is not None:
        codes = labels.codes.copy()
        codes[rows] = -1
        return replace(graph, labels=Labels(labels.classes, codes=codes))
    assert labels.matrix is not None
    keep = np.ones(graph.num_nodes)
    keep[rows] = 0
    matrix = sp.csr_matrix((sp.diags(keep) @ labels.matrix.astype(np.float32)) > 0)
    matrix.eliminate_zeros()
    return replace(graph, labels=Labels(labels.classes, matrix=matrix))


def as_separate_labels(graph: Graph) -> Graph:
    """Return the graph with one yes-or-no label per class, for ``folds_sigmoid``."""
    labels = graph.labels
    assert labels is not None
    if labels.codes is None:
        return graph
    rows = np.flatnonzero(labels.codes >= 0)
    shape = (graph.num_nodes, len(labels.classes))
    entries = (np.ones(len(rows), dtype=bool), (rows, labels.codes[rows]))
    return replace(graph, labels=Labels(labels.classes, matrix=sp.csr_matrix(entries, shape=shape)))


def edge_split(graph: Graph, *, seed: int = 0, fold: int = 0, folds: int = 5) -> EdgeSplit:
    """Hold out one fold of the edges for testing and a twentieth of the others for validation.

    Which end of an undirected edge asks the question is drawn too: rows follow the order of the
    user's file, and the lower row is not a random end.

    Args:
        graph: The whole graph.
        seed: Draws the folds.
        fold: Which fold is tested, from 0.
        folds: Number of folds.
    """
    edges = graph.edge_list()
    if folds < 2 or len(edges) < 4 * folds:
        raise InputError(
            f"{len(edges):,} edges cannot be cut into {folds} folds; use at least 2 folds and four "
            f"times as many edges"
        )
    if not 0 <= fold < folds:
        raise InputError(f"there is no fold {fold}; folds run from 0 to {folds - 1}")
    draw = numpy_generator(derive_key(seed, "edge folds", folds))
    shuffled = edges[draw.permutation(len(edges))]
    if not graph.directed:
        flip = draw.random(len(shuffled)) < 0.5
        shuffled[flip] = shuffled[flip, ::-1]
    is_test = np.zeros(len(shuffled), dtype=bool)
    is_test[fold::folds] = True
    test, rest = shuffled[is_test], shuffled[~is_test]
    rest = rest[numpy_generator(derive_key(seed, "held edges", fold)).permutation(len(rest))]
    validation = rest[: max(1, int(LINK_VALIDATION_SHARE * len(rest)))]
    return EdgeSplit(graph.without_edges(np.concatenate([test, validation])), validation, test)


def _deal(rows: Rows, codes: npt.NDArray[np.int32], hands: int, hand: int) -> Rows:
    """Deal shuffled rows class by class, like cards; return one hand."""
    ordered = rows[np.argsort(codes[rows], kind="stable")]
    return ordered[hand::hands]


def _public_split(graph: Graph) -> NodeSplit:
    names = ("train", "val", "test")
    if not all(name in graph.splits for name in names):
        raise InputError(f"{graph.name!r} comes without a public split; use --protocol folds")
    train, validation, test = (np.sort(graph.splits[name]).astype(np.int64) for name in names)
    return NodeSplit(train, validation, test)


def _few_labels(labels: Labels, count: int, seed: int) -> NodeSplit:
    if labels.codes is None:
        raise InputError("few-label protocols need one label per node; use --protocol folds")
    known = np.flatnonzero(labels.codes >= 0)
    draw = numpy_generator(derive_key(seed, "few labels", count))
    shuffled = draw.permutation(known)
    codes = labels.codes[shuffled]
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes, minlength=len(labels.classes))
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # A rare class keeps half of its nodes for the test.
    quota = np.minimum(count, np.maximum(1, sizes // 2))
    train = shuffled[order[place < np.repeat(quota, sizes)]]
    # Drawn anew: what comes early in the old order has given its rare classes to training.
    rest = draw.permutation(shuffled[~np.isin(shuffled, train)])
    if len(rest) < 2:
        raise InputError(f"{len(known):,} labelled nodes are too few for few{count}")
    validation = rest[: min(FEW_VALIDATION, len(rest) // 2)]
    test = rest[len(validation) :]
    return NodeSplit(np.sort(train), np.sort(validation), np.sort(test))


def _hash(*arrays: Rows) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for array in arrays:
        digest.update(b"%d;" % len(array))
        digest.update(np.ascontiguousarray(array, dtype=np.int64).data)
    return digest.hexdigest()
