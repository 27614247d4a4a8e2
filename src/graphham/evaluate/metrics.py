"""Scores of predicted classes and of ranked links."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from graphham.errors import InputError
from graphham.training.multilabel import micro_f1
from graphham.training.validation import ranking_auc

Scores = npt.NDArray[np.float64]

# A rank r counts as 1 / ceil(r / SCALE) in the scaled MRR. The paper does not give its scale; 100,
# the usual one, is always 1 among 21 candidates (A8), so ours is the nearest that says something.
SCALE = 5


def class_metrics(truth: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> dict[str, float]:
    """Score one class per node.

    Accuracy is also the micro-F1, so only one of them is reported. Macro-F1 averages over the
    classes that occur in the truth or in the prediction.

    Args:
        truth: ``(nodes,)`` class codes.
        predicted: ``(nodes,)`` predicted codes.
    """
    if not len(truth):
        raise InputError("there are no nodes to score")
    size = int(max(truth.max(), predicted.max())) + 1
    table = np.bincount(truth.astype(np.int64) * size + predicted, minlength=size * size)
    table = table.reshape(size, size)
    return {
        "accuracy": float(np.trace(table) / len(truth)),
        "macro_f1": _macro(np.diag(table), table.sum(axis=1), table.sum(axis=0)),
    }


def label_metrics(truth: sp.csr_matrix, predicted: sp.csr_matrix) -> dict[str, float]:
    """Score several labels per node.

    Args:
        truth: ``(nodes, labels)`` boolean.
        predicted: ``(nodes, labels)`` boolean.
    """
    truth, predicted = truth.astype(np.int64), predicted.astype(np.int64)
    both = truth.multiply(predicted)
    hits, true, claimed = (np.asarray(m.sum(axis=0)).ravel() for m in (both, truth, predicted))
    wrong = np.asarray((truth != predicted).sum(axis=1)).ravel()
    return {
        "accuracy": float((wrong == 0).mean()),
        "micro_f1": micro_f1(truth, predicted),
        "macro_f1": _macro(hits, true, claimed),
        "label_accuracy": float(1 - wrong.sum() / max(truth.shape[0] * truth.shape[1], 1)),
    }


def link_metrics(scores: Scores, scale: int = SCALE) -> dict[str, float]:
    """Score ranked links; ties count half, a NaN score ranks last.

    Args:
        scores: ``(queries, candidates)``; the first column is the true link.
        scale: Divisor of the ranks in the scaled MRR.

    Returns:
        ``auc`` pooled over all queries, ``auc_query`` averaged over queries, ``mrr``,
        ``scaled_mrr`` (its scale is stored with it) and ``hits_1``.
    """
    scores = np.where(np.isnan(scores), -np.inf, scores)
    true, false = scores[:, :1], scores[:, 1:]
    above = (false > true).sum(axis=1)
    level = (false == true).sum(axis=1)
    rank = 1 + above + level / 2
    return {
        "auc": ranking_auc(*(torch.from_numpy(part.ravel()) for part in (true, false))),
        "auc_query": float((1 - (rank - 1) / false.shape[1]).mean()),
        "mrr": float((1 / rank).mean()),
        "scaled_mrr": float((1 / np.ceil(rank / scale)).mean()),
        "scale": scale,
        "hits_1": float((rank == 1).mean()),
    }


def _macro(hits: Any, true: Any, claimed: Any) -> float:
    total = true + claimed
    seen = total > 0
    return float((2 * hits[seen] / total[seen]).mean()) if seen.any() else math.nan
