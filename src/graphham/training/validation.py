"""Scores for early stopping: held-out labels, or held-out links."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from graphham.graph.graph import Graph
from graphham.model.network import Batch, GraphHAMNet
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.training.supervision import Truth


class Validator(Protocol):
    """Something that scores a network on what it was not trained on."""

    def score(self, model: GraphHAMNet, batch: Batch) -> tuple[float, float]:
        """Return the score and a tie-breaker, both better when larger."""
        ...


class LabelValidator:
    """Accuracy (single-label) or micro-F1 (multi-label) on the validation labels."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.logits: Tensor | None = None

    def score(self, model: GraphHAMNet, batch: Batch) -> tuple[float, float]:
        """Return accuracy or micro-F1, then the negative loss; keep the logits of all nodes."""
        self.logits = class_logits(model, batch)
        return self.truth.score(self.logits[self.truth.validation])


def class_logits(model: GraphHAMNet, batch: Batch) -> Tensor:
    """Return ``(num_targets, num_classes)`` the logits of the classes, without noise."""
    with torch.no_grad():
        model.eval()
        states = [one.output for one in model.encode(batch)]
        told = batch.memberships[: batch.num_targets]
        logits = model.class_logits(states, told)
        return model.spread(logits, batch.blocks[-1], told).cpu()


class LinkValidator:
    """Pooled AUC of first-layer cosines on held-out edges against random pairs."""

    def __init__(self, edges: npt.NDArray[np.int64], graph: Graph, seed: int) -> None:
        generator = numpy_generator(derive_key(seed, "validation pairs"))
        self.positive = torch.from_numpy(edges)
        first = np.repeat(edges[:, :1], 20, axis=1)
        # A step around the rows never ends where it began: no node is held against itself.
        step = generator.integers(1, graph.num_nodes, size=first.shape)
        others = (first + step) % graph.num_nodes
        self.negative = torch.from_numpy(np.stack([first.ravel(), others.ravel()], axis=1))

    def score(self, model: GraphHAMNet, batch: Batch) -> tuple[float, float]:
        """Return the AUC twice over: there is no better tie-breaker."""
        with torch.no_grad():
            model.eval()
            state = F.normalize(model.encode(batch)[0].output, dim=1).cpu()
        auc = ranking_auc(_cosines(state, self.positive), _cosines(state, self.negative))
        return auc, auc


def ranking_auc(positive: Tensor, negative: Tensor) -> float:
    """Return the chance that a positive scores above a negative, ties counting half."""
    ordered = negative.sort().values
    below = torch.searchsorted(ordered, positive, side="left")
    up_to = torch.searchsorted(ordered, positive, side="right")
    return float((below + up_to).double().mean() / 2 / max(len(ordered), 1))


def _cosines(state: Tensor, pairs: Tensor) -> Tensor:
    return (state[pairs[:, 0]] * state[pairs[:, 1]]).sum(1)
