"""Ask the labels before training: do own features help, do links tell, who are the neighbours?

A layer that only averages cannot keep a node's own features apart, and does not know who the
neighbours are. On some graphs that costs accuracy, on others a path of its own only overfits.
Linear models on main directions, compared on the validation labels, tell which; they take a second.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from scipy.linalg import inv
from scipy.special import rel_entr
from torch import Tensor

from graphham.config.settings import InputConfig
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.kernels import mean_aggregate
from graphham.model.inputs import fit_inputs, stays_mapped
from graphham.model.link_columns import link_rows
from graphham.parallel.graph_access import graph_access
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.training.supervision import Truth

Rows = npt.NDArray[np.int64]
_DIRECTIONS = 256  # enough to tell, and few enough to solve in a second
_MOST_LEARNED = 1500  # labelled nodes that tell whether neighbours do
_WORTH = 0.02  # share of errors that links must spare beyond the standard error
_MOST_ROWS = 200_000  # nodes; more columns than that nobody should keep
_STEPS = 2  # as far as the two layers of the default look
_FEWEST_LINKS = 30  # fewer say too little about a share
_MOST_ASKED = 50_000  # labelled nodes whose links are counted
_LEAST_NATS = 0.1  # about a class, that all links of a node must be able to tell
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
    own, smooth = _views(graph, config, seed)
    return float(_errors(torch.cat([own, smooth], dim=1), truth).mean()) < float(
        _errors(smooth, truth).mean()
    )


def neighbors_tell(graph: Graph, config: InputConfig, truth: Truth, seed: int) -> bool:
    """Say whether knowing who a node's neighbours are predicts better than what they are like.

    Links are many and weak inputs: where a linear model gains nothing by them they cost the network
    about a point of accuracy, so they must promise more than that.

    Args:
        graph: The training graph.
        config: How features are scaled.
        truth: Labels, as above; where they are few, nobody could learn so many columns.
        seed: The run's seed.
    """
    is_small = graph_access(graph).is_whole and graph.num_nodes <= _MOST_ROWS
    if not is_small or stays_mapped(graph.features):
        return False
    if graph.features is None:
        return True  # there is nothing else to tell nodes apart by
    if truth.is_few:
        return False
    known = torch.cat(_views(graph, config, seed), dim=1).numpy()
    some = np.flatnonzero(truth.training.numpy())
    if len(some) > _MOST_LEARNED:
        generator = numpy_generator(derive_key(seed, "link rows"))
        some = np.sort(generator.choice(some, _MOST_LEARNED, replace=False))
    rows = link_rows(graph)[some]
    alike = (known[some] @ known[some].T).astype(np.float64)
    gain = _left_out_errors(alike, truth, some)
    gain = gain - _left_out_errors(alike + (rows @ rows.T).toarray(), truth, some)
    return float(gain.mean() - gain.std() / len(gain) ** 0.5) > _WORTH


def _views(graph: Graph, config: InputConfig, seed: int) -> tuple[Tensor, Tensor]:
    """Return unit main directions of own features, and of those smoothed over two steps."""
    _, inputs, lead = fit_inputs(graph, config, seed, _DIRECTIONS)
    own = inputs.rows(None).matmul(torch.from_numpy(lead).contiguous())
    block = Block.full(graph)
    smooth = own
    for _ in range(_STEPS):
        smooth = mean_aggregate(smooth, block)
    return F.normalize(own, dim=1), F.normalize(smooth, dim=1)


def link_agreement(graph: Graph, truth: Truth) -> tuple[float, float] | None:
    """Return the share of links between labelled nodes that join equal labels, and its error.

    Args:
        graph: The training graph.
        truth: Labels; those for training and for validation are looked at. With several labels a
            node, one in common is enough.

    Returns:
        ``None`` where fewer than 30 links have labels at both ends.
    """
    links = _labelled_links(graph, truth)
    if links is None:
        return None
    first, second = truth.targets[links[0]], truth.targets[links[1]]
    same = (first * second).sum(1) > 0 if truth.is_multi else first == second
    share = float(same.double().mean())
    # A link between two nodes is stored both ways and counts once.
    return share, (share * (1 - share) / max(len(same) / 2, 1)) ** 0.5


def links_tell(graph: Graph, config: InputConfig, truth: Truth, seed: int) -> bool:
    """Say whether links can tell anything of the classes.

    They do where the classes of linked nodes depend on each other, alike or not, or where features
    smoothed over them predict better than own ones alone. In doubt they do: where few links have
    labels at both ends, without features, and with several labels a node.

    Args:
        graph: The training graph.
        config: How features are scaled.
        truth: Labels, as above.
        seed: The run's seed.
    """
    if truth.is_multi or graph.features is None or not len(truth.validation):
        return True
    degree = graph.num_stored / graph.num_nodes
    if degree * link_information(graph, truth) > _LEAST_NATS:
        return True
    own, smooth = _views(graph, config, seed)
    gain = _errors(own, truth) - _errors(torch.cat([own, smooth], dim=1), truth)
    error = float(gain.std(correction=0)) / len(gain) ** 0.5
    return bool(gain.mean() > 2 * error)


def link_information(graph: Graph, truth: Truth) -> float:
    r"""Return how many nats a link tells at most about the class of one end, given the other's.

    That is the mutual information of the two labels of a link, less what chance alone would show,
    and two standard errors of that more; endless where there are fewer links with labels at both
    ends than a table of classes has free cells.
    """
    links = _labelled_links(graph, truth)
    if links is None:
        return float("inf")
    first, second = truth.targets[links[0]].numpy(), truth.targets[links[1]].numpy()
    classes = int(truth.targets.max()) + 1
    counts = np.bincount(first * classes + second, minlength=classes**2).astype(np.float64)
    counts = counts.reshape(classes, classes)
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    found = float(rel_entr(counts, expected).sum() / counts.sum())
    # Twice the information times the links is chi-squared where labels are independent.
    rows, columns = (np.count_nonzero(counts.sum(axis)) - 1 for axis in (1, 0))
    freedom = rows * columns if graph.directed else rows * (rows + 1) / 2
    seen = counts.sum() / (1 if graph.directed else 2)
    if seen < freedom:
        return float("inf")
    chance = float(freedom - 2 * (2 * freedom) ** 0.5) / float(2 * seen)
    return found - chance


def _labelled_links(graph: Graph, truth: Truth) -> tuple[Rows, Rows] | None:
    """Return the ends of links between nodes whose labels may be looked at, if there are enough."""
    known = truth.training.clone()
    known[truth.validation] = True
    rows = torch.nonzero(known)[:, 0].numpy()
    rows = rows[:: max(1, len(rows) // _MOST_ASKED)]
    links = graph.adjacency()[rows].tocoo()
    among = known.numpy()[links.col]
    if int(among.sum()) < _FEWEST_LINKS:
        return None
    return rows[links.row[among]], links.col[among].astype(np.int64)


def _errors(x: Tensor, truth: Truth) -> Tensor:
    """Return each validation node's error by the ridge regression that makes fewest."""
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1).double()
    wanted = truth.targets.double()
    if not truth.is_multi:
        wanted = F.one_hot(truth.targets.clamp_min(0)).double()
    train, held = x[truth.training], x[truth.validation]
    gram, product = train.T @ train, train.T @ wanted[truth.training]
    best: Tensor | None = None
    for penalty in _PENALTIES:
        weight = torch.linalg.solve(gram + penalty * torch.eye(len(gram)).double(), product)
        said = held @ weight
        if truth.is_multi:
            errors = (said - wanted[truth.validation]).square().mean(1)
        else:
            errors = (said.argmax(1) != truth.targets[truth.validation]).double()
        if best is None or float(errors.mean()) < float(best.mean()):
            best = errors
    assert best is not None
    return best


def _left_out_errors(
    alike: npt.NDArray[np.float64], truth: Truth, some: Rows
) -> npt.NDArray[np.float64]:
    """Return each node's error by the best ridge regression on all the others.

    There may be more columns than nodes, so the regression is solved among nodes, where leaving
    each of them out costs nothing more.

    Args:
        alike: ``(nodes, nodes)`` inner products of their inputs.
        truth: Labels.
        some: ``(nodes,)`` their rows.
    """
    targets = truth.targets.numpy()[some]
    wanted = targets if truth.is_multi else np.eye(int(truth.targets.max()) + 1)[targets]
    wanted = wanted - wanted.mean(0)
    best: npt.NDArray[np.float64] | None = None
    for penalty in _PENALTIES[1::2]:
        inverse = inv(alike + penalty * np.eye(len(alike)), overwrite_a=True, check_finite=False)
        # The mean of the classes is a column that is never left out; it shifts all alike.
        said = wanted - (inverse @ wanted) / inverse.diagonal()[:, None]
        if truth.is_multi:
            errors = np.square(said - wanted).mean(1) / max(float(wanted.var()), 1e-12)
        else:
            errors = (said.argmax(1) != targets).astype(np.float64)
        if best is None or errors.mean() < best.mean():
            best = errors
    assert best is not None
    return best
