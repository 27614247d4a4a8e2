"""Measure link prediction: one method, one fold of held-out edges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from graphham.evaluate.candidates import NEGATIVES, hard_queries, uniform_queries
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.classify import (
    Arrays,
    choice_record,
    with_hierarchy,
)
from graphham.evaluate.fit_cache import Fits, embedded
from graphham.evaluate.metrics import link_metrics
from graphham.evaluate.splits import EdgeSplit, edge_split
from graphham.evaluate.tuning import choose
from graphham.graph.graph import Graph
from graphham.sampling.keys import derive_key

if TYPE_CHECKING:
    from graphham.methods.base import Method

Rows = npt.NDArray[np.int64]
_QUERIES_AT_ONCE = 1 << 13


def measure_links(
    graph: Graph,
    cell: Cell,
    keep: Path | None = None,
    fits: Fits | None = None,
    negatives: int = NEGATIVES,
) -> tuple[Record, Arrays]:
    """Fit a method on a graph that lacks the test edges and rank each of them among non-links.

    Labels are never shown. Settings are chosen by the mean of AUC and MRR on the validation edges,
    which the method is not fitted on either; their negatives are of the same kind as the test's.

    Args:
        graph: The whole graph.
        cell: The method, its budget, and which fold of the edges it is tested on. The protocol
            ``hard`` ranks against the likeliest non-neighbours instead of random ones.
        keep: Folder to save the fitted method in, which must not exist.
        fits: Fits to the same fold, made for other negatives.
        negatives: Non-neighbours per test edge.

    Returns:
        What goes into the cell's JSON, and the groups found, if any.
    """
    split = edge_split(graph, seed=cell.seed, fold=cell.fold, folds=cell.folds)

    def questions(edges: Rows, purpose: str) -> Rows:
        key = derive_key(cell.seed, "link queries", purpose, cell.fold)
        if cell.protocol == "hard":
            return hard_queries(graph, split.graph, edges, key, negatives)
        return uniform_queries(graph, edges, key, negatives)

    asked = questions(split.validation, "validation")

    spared = 0.0

    def fit(candidate: Method) -> Method:
        nonlocal spared
        method, saved = embedded(candidate, split.graph, fits)
        spared += saved
        return method

    def validate(candidate: Method) -> float:
        found = link_metrics(score_queries(candidate, asked))
        return (found["auc"] + found["mrr"]) / 2

    chosen = choose(cell, fit, validate)
    tested = questions(split.test, "test")
    metrics = link_metrics(score_queries(chosen.method, tested))
    record = {
        "metrics": metrics,
        **choice_record(chosen, spared),
        "split": {**_split_facts(split), "queries": len(tested), "negatives": negatives},
    }
    return with_hierarchy(record, chosen.method, graph.labels, None, keep)


def _split_facts(split: EdgeSplit) -> Record:
    return {
        "train": split.graph.num_edges,
        "validation": len(split.validation),
        "test": len(split.test),
        "fingerprint": split.fingerprint(),
    }


def as_pairs(queries: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Return the ``(count, 2)`` pairs that queries ask about, and which of them are links."""
    width = queries.shape[1] - 1
    pairs = np.stack([np.repeat(queries[:, 0], width), queries[:, 1:].ravel()], axis=1)
    return pairs, np.tile(np.arange(width) == 0, len(queries))


def score_queries(method: Method, queries: Rows) -> npt.NDArray[np.float64]:
    """Return the ``(queries, candidates)`` scores, true link first.

    Args:
        method: Fitted.
        queries: ``(queries, 1 + candidates)`` rows: source, true end, negatives.
    """
    width = queries.shape[1] - 1
    scores = np.empty((len(queries), width))
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        part = queries[start : start + _QUERIES_AT_ONCE]
        pairs, _ = as_pairs(part)
        scores[start : start + len(part)] = method.score_links(pairs).reshape(-1, width)
    return scores
