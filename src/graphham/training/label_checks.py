"""Ask the labels two questions before training: do own features help, and do neighbours agree?

A layer that only averages cannot keep a node's own features apart. On some graphs that costs
accuracy, on others a path of its own only overfits. Two linear models on the features' main
directions, compared on the validation labels, tell which; they take a second.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from graphham.config.settings import InputConfig
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.kernels import mean_aggregate
from graphham.model.inputs import fit_inputs
from graphham.training.supervision import Truth

_DIRECTIONS = 256  # enough to tell, and few enough to solve in a second
_STEPS = 2  # as far as the two layers of the default look
_FEWEST_LINKS = 30  # fewer say too little about a share
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of ridge regression; validation chooses


def own_features_help(graph: Graph, config: InputConfig, truth: Truth, seed: int) -> bool:
    """Say whether smoothed and own features together predict better than smoothed ones alone.

    Args:
        graph: The training graph.
        config: How features are scaled.
        truth: Labels; the linear models are fitted on its training part and scored on validation.
        seed: The run's seed.
    """
    if graph.features is None or not len(truth.validation):
        return False
    _, inputs, lead = fit_inputs(graph, config, seed, _DIRECTIONS)
    own = inputs.rows(None).matmul(torch.from_numpy(lead).contiguous())
    block = Block.full(graph)
    smooth = own
    for _ in range(_STEPS):
        smooth = mean_aggregate(smooth, block)
    own, smooth = F.normalize(own, dim=1), F.normalize(smooth, dim=1)
    return _error(torch.cat([own, smooth], dim=1), truth) < _error(smooth, truth)


def link_agreement(graph: Graph, truth: Truth) -> tuple[float, float] | None:
    """Return the share of links between labelled nodes that join equal labels, and its error.

    Args:
        graph: The training graph.
        truth: Labels; those for training and for validation are looked at. With several labels a
            node, one in common is enough.

    Returns:
        ``None`` where fewer than 30 links have labels at both ends.
    """
    known = truth.training.clone()
    known[truth.validation] = True
    rows = torch.nonzero(known)[:, 0].numpy()
    among = graph.adjacency()[rows][:, rows].tocoo()
    if among.nnz < _FEWEST_LINKS:
        return None
    targets = truth.targets[rows]
    first, second = targets[among.row], targets[among.col]
    same = (first * second).sum(1) > 0 if truth.is_multi else first == second
    share = float(same.double().mean())
    # A link between two nodes is stored both ways and counts once.
    return share, (share * (1 - share) / max(among.nnz / 2, 1)) ** 0.5


def _error(x: Tensor, truth: Truth) -> float:
    """Return the smallest validation error of ridge regression onto the labels."""
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1).double()
    wanted = truth.targets.double()
    if not truth.is_multi:
        wanted = F.one_hot(truth.targets.clamp_min(0)).double()
    train, held = x[truth.training], x[truth.validation]
    gram, product = train.T @ train, train.T @ wanted[truth.training]
    errors: list[float] = []
    for penalty in _PENALTIES:
        weight = torch.linalg.solve(gram + penalty * torch.eye(len(gram)).double(), product)
        said = held @ weight
        if truth.is_multi:
            errors.append(float((said - wanted[truth.validation]).square().mean()))
        else:
            wrong = said.argmax(1) != truth.targets[truth.validation]
            errors.append(float(wrong.double().mean()))
    return min(errors)
