"""Measure node classification: one method, one split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.fit_cache import Fits, classified
from graphham.evaluate.hierarchy_scores import method_hierarchy
from graphham.evaluate.metrics import class_metrics, label_metrics
from graphham.evaluate.splits import NodeSplit, as_separate_labels, hide_labels, node_split
from graphham.evaluate.tuning import Choice, choose
from graphham.graph.graph import Graph, Labels
from graphham.training.multilabel import take_as_many

if TYPE_CHECKING:
    from graphham.methods.base import Method

Arrays = dict[str, npt.NDArray[Any]]


def measure_classification(
    graph: Graph,
    cell: Cell,
    keep: Path | None = None,
    fits: Fits | None = None,
    stratified: bool = True,
) -> tuple[Record, Arrays]:
    """Fit a method on the training nodes of one split and score it on the test nodes.

    The method never receives the labels of test nodes.

    Args:
        graph: A graph with labels.
        cell: The method, its budget, and which fold of which split it is tested on.
        keep: Folder to save the fitted method in, which must not exist.
        fits: Fits that other splits of this graph have made and may make use of.
        stratified: Whether folds keep the shares of the classes.

    Returns:
        What goes into the cell's JSON, and the groups found, if any.
    """
    protocol = cell.protocol
    split = node_split(
        graph, protocol, seed=cell.seed, fold=cell.fold, folds=cell.folds, stratified=stratified
    )
    whole = as_separate_labels(graph) if protocol == "folds_sigmoid" else graph
    shown = hide_labels(whole, split.test)
    assert whole.labels is not None
    labels = whole.labels

    spared = 0.0

    def fit(candidate: Method) -> Method:
        nonlocal spared
        method, saved = classified(candidate, shown, split.train, split.validation, fits)
        spared += saved
        return method

    def validate(candidate: Method) -> float:
        found = _score(candidate, labels, split.validation, protocol)
        return float(found["micro_f1"] if "micro_f1" in found else found["accuracy"])

    chosen = choose(cell, fit, validate)
    metrics = _score(chosen.method, labels, split.test, protocol)
    record = {
        "metrics": metrics,
        **choice_record(chosen, spared),
        "split": _split_facts(split),
    }
    return with_hierarchy(record, chosen.method, graph.labels, split.test, keep)


def with_hierarchy(
    record: Record,
    method: Method,
    labels: Labels | None,
    rows: npt.NDArray[Any] | None,
    keep: Path | None,
) -> tuple[Record, Arrays]:
    """Return a record with the scores of the method's groups, if any, and the groups themselves.

    Args:
        record: What was measured so far.
        method: The fitted method.
        labels: Labels to compare the groups with.
        rows: Nodes they are compared on; all when ``None``.
        keep: Folder to save the method in, or ``None``.
    """
    hierarchy, arrays = method_hierarchy(method, labels, rows)
    if keep is not None:
        method.save(keep)
    return {**record, "hierarchy": hierarchy} if hierarchy else record, arrays


def choice_record(chosen: Choice, spared: float) -> Record:
    """Return what a cell keeps of a choice: settings, validation scores and cost.

    Args:
        chosen: The choice; its seconds are those of whole fits.
        spared: How many of these were not spent again, the fit being another cell's.
    """
    return {
        "validation": chosen.validation,
        "chosen": chosen.settings,
        "tried": chosen.tried,
        "cost": {
            "seconds": chosen.method.cost_["seconds"],
            "search_seconds": chosen.seconds,
            "peak_memory_bytes": chosen.method.cost_["peak_memory_bytes"],
            **({"shared_seconds": spared} if spared else {}),
        },
    }


def _score(method: Method, labels: Labels, rows: npt.NDArray[Any], protocol: str) -> Record:
    scores = method.class_scores_
    if scores is None:
        raise InputError(f"the method {method.name} gives no class scores; choose another")
    picked = np.asarray(scores, dtype=np.float64)[rows]
    if labels.codes is not None:
        return class_metrics(labels.codes[rows], picked.argmax(axis=1))
    assert labels.matrix is not None
    truth = labels.matrix[rows]
    if protocol != "folds_sigmoid":
        return label_metrics(truth, take_as_many(picked, truth))
    # Methods give probabilities or log-odds; one half and zero are the same cut.
    is_probability = bool((scores >= 0).all() and (scores <= 1).all())
    return label_metrics(truth, sp.csr_matrix(picked > (0.5 if is_probability else 0.0)))


def _split_facts(split: NodeSplit) -> Record:
    return {
        "train": len(split.train),
        "validation": len(split.validation),
        "test": len(split.test),
        "fingerprint": split.fingerprint(),
    }
