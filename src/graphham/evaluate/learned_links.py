"""Rank held-out links by a scorer that is learned: what is known of a pair, and a method's word.

A cosine of vectors says one thing of two nodes. This scorer is told more: shared neighbours,
degrees, how alike features are, and what a method says of the pair, its own score and the cosine of
every layer. A logistic regression weighs them, fitted to the validation edges, which neither the
method nor the graph it sees holds. Every method gets the same, and a row of its own,
:data:`CLUES`, has all of it but a method.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.evaluate.candidates import NEGATIVES, hard_queries, uniform_queries
from graphham.evaluate.cells import LEARNED, Cell, Record
from graphham.evaluate.classify import Arrays, choice_record, with_hierarchy
from graphham.evaluate.fit_cache import Fits, embedded
from graphham.evaluate.links import as_pairs, score_queries
from graphham.evaluate.metrics import link_metrics
from graphham.evaluate.splits import EdgeSplit, edge_split
from graphham.evaluate.tuning import choose
from graphham.graph.graph import Graph
from graphham.methods.link_cosines import cosines
from graphham.methods.scaled_features import scaled_features
from graphham.methods.sparse_dots import SparseRows, smoothed_rows, unit_rows
from graphham.methods.untrained import shared_neighbors
from graphham.sampling.keys import derive_key

if TYPE_CHECKING:
    from graphham.methods.base import Method

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
CLUES = "clues"  # the row without a method
_FEWEST = 10  # validation edges from which anything can be learned


def measure_learned_links(
    graph: Graph,
    cell: Cell,
    keep: Path | None = None,
    fits: Fits | None = None,
    negatives: int = NEGATIVES,
) -> tuple[Record, Arrays]:
    """Fit a method without the test edges, learn to score pairs, and rank each test edge.

    Settings are chosen by the method's own score, so that a fit serves both scorers.

    Args:
        graph: The whole graph.
        cell: As for :func:`graphham.evaluate.links.measure_links`, its protocol with
            :data:`~graphham.evaluate.cells.LEARNED` behind it; the method may be :data:`CLUES`.
        keep: Folder to save the fitted method in, which must not exist.
        fits: Fits to the same fold.
        negatives: Non-neighbours per edge.

    Returns:
        What goes into the cell's JSON, and the groups found, if any.
    """
    split = edge_split(graph, seed=cell.seed, fold=cell.fold, folds=cell.folds)
    if len(split.validation) < _FEWEST:
        raise InputError(
            f"the learned scorer needs at least {_FEWEST} validation edges, and {graph.name!r} "
            f"leaves {len(split.validation)}; compare by --scorer own"
        )
    asked = _questions(graph, split, cell, negatives)
    began = time.perf_counter()
    sources = pair_clues(split.graph, cell.seed)
    record: Record = {"cost": {}}
    chosen = None
    if cell.method != CLUES:
        spared = 0.0

        def fit(candidate: Method) -> Method:
            nonlocal spared
            method, saved = embedded(candidate, split.graph, fits)
            spared += saved
            return method

        def validate(candidate: Method) -> float:
            found = link_metrics(score_queries(candidate, asked["validation"]))
            return (found["auc"] + found["mrr"]) / 2

        own = replace(cell, protocol=cell.protocol.removesuffix(LEARNED))
        chosen = choose(own, fit, validate)
        record = choice_record(chosen, spared)
        sources += method_clues(chosen.method)
    scores = learned_scores(sources, asked["validation"], asked["test"])
    record["cost"].setdefault("seconds", time.perf_counter() - began)
    record = {
        "metrics": link_metrics(scores),
        **record,
        "split": {
            "train": split.graph.num_edges,
            "validation": len(split.validation),
            "test": len(split.test),
            "fingerprint": split.fingerprint(),
            "queries": len(asked["test"]),
            "negatives": negatives,
        },
    }
    if chosen is None:
        return record, {}
    return with_hierarchy(record, chosen.method, graph.labels, None, keep)


Clue = Callable[[Rows], Floats]


def pair_clues(graph: Graph, seed: int) -> list[Clue]:
    """Return what a graph tells of pairs of rows without any training.

    Args:
        graph: The graph without the edges that are asked for.
        seed: Of features made for a graph without any.
    """
    rare = SparseRows(shared_neighbors(graph))
    common = SparseRows((graph.adjacency() != 0).astype(np.float32))
    size = np.log1p(graph.degrees().astype(np.float64))
    found: list[Clue] = [
        lambda pairs: np.log1p(rare.dots(pairs)),
        lambda pairs: np.log1p(common.dots(pairs)),
        lambda pairs: size[pairs].sum(1),
        lambda pairs: np.abs(size[pairs[:, 0]] - size[pairs[:, 1]]),
    ]
    if graph.features is not None:
        x = scaled_features(graph, "auto", seed)
        views = [SparseRows(unit_rows(x)), SparseRows(smoothed_rows(x, graph, 1))]
        found += [view.dots for view in views]
    return found


def method_clues(method: Method) -> list[Clue]:
    """Return what a fitted method says of pairs: its own score, and the cosine of every layer."""
    vectors = np.asarray(method.result_.embedding)
    ends = np.cumsum(method.result_.layer_dims)
    layers = np.split(vectors, ends[:-1], axis=1)
    return [
        method.score_links,
        *(functools.partial(cosines, np.ascontiguousarray(layer)) for layer in layers),
    ]


def learned_scores(clues: list[Clue], shown: Rows, asked: Rows) -> Floats:
    """Return ``(queries, candidates)`` scores of queries, true link first.

    Args:
        clues: What is known of pairs.
        shown: ``(count, 1 + candidates)`` queries to learn from.
        asked: The queries to answer.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    pairs, is_link = as_pairs(shown)
    # Products let a clue count more where another says that it can: no neighbours, none shared.
    model: Any = make_pipeline(
        StandardScaler(),
        PolynomialFeatures(2, include_bias=False),
        StandardScaler(),
        LogisticRegression(C=0.1, class_weight="balanced", max_iter=1000),
    )
    model.fit(_columns(clues, pairs), is_link)
    wanted, _ = as_pairs(asked)
    found: Floats = model.decision_function(_columns(clues, wanted))
    return found.reshape(len(asked), -1)


def _columns(clues: list[Clue], pairs: Rows) -> Floats:
    return np.column_stack([clue(pairs) for clue in clues])


def _questions(graph: Graph, split: EdgeSplit, cell: Cell, negatives: int) -> dict[str, Rows]:
    """Return the queries of :func:`graphham.evaluate.links.measure_links` for the same fold."""
    found = {}
    for purpose, edges in (("validation", split.validation), ("test", split.test)):
        key = derive_key(cell.seed, "link queries", purpose, cell.fold)
        if cell.protocol.startswith("hard"):
            found[purpose] = hard_queries(graph, split.graph, edges, key, negatives)
        else:
            found[purpose] = uniform_queries(graph, edges, key, negatives)
    return found
