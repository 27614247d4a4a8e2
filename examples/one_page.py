"""GraphHAM on one page of plain numpy and torch, to be read from top to bottom.

    python examples/one_page.py [--epochs N] [--labels-per-class L]     # Cora

1. *Groups are a model of the graph.* Every node has words and links. A group is a direction in the
   space of words, and two groups have odds of being linked. Rounds of mean field ask, for every
   node and group: do its words look like the group, do its links go where the group's links go, and
   do both fit the coarser group above? Levels nest exactly: a coarse membership is a sum.
2. *Groups weigh messages.* A network of two layers, one per level, averages neighbours; the weight
   of a link is that of node attention times how probable the two ends' groups make it that the
   link is no chance.
3. *Groups teach.* Labels that are known are counted along the tree of groups; what the groups then
   expect of a node without a label is what the network should say of it.

The package does the same for graphs of any size, finds the number of groups, averages several fits,
counts labels by how frequent classes are, drops features and links while training and reads
memberships as mixtures (docs/how-it-works.md); tests/examples/test_one_page.py holds this page to
it. Shapes: N nodes, E links both ways, d directions, K groups, C classes.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score
from torch import Tensor, nn

from graphham import load_dataset

SCALE = 12.0  # nats of a perfect match of a node's words with a group
WORTH = 64.0  # links of a hub are not independent: together they count as about so many
LEAN = 0.1  # how much a fine table leans on the coarse one, in expected links
DIRECTIONS, STEPS, ROUNDS, SURE, STRANGERS = 64, 3, 15, 0.9, 0.75
DIM, SLOPE, SPREAD, HOME = 64, 0.2, 10, 0.1  # width of a layer; steps of spreading class scores
LEANS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # how much a group's classes lean on its parent's
LR, DECAY, DROPOUT, FEATURE_DROPOUT = 0.01, 5e-3, 0.7, 0.8
TEACHER, CONTEXT, TEMPERATURE = 3.0, 1.0, 0.2
Array = Any


# ---- 1. Groups: a nested block model of links and words, by mean field ---------------------------
def directions(words: sp.csr_matrix, count: int) -> tuple[sp.csr_matrix, Array]:
    """Return unit rows of TF-IDF words, and the main directions of them, (words, d)."""
    seen = np.bincount(words.indices, minlength=words.shape[1])
    x = words.multiply(np.log((1 + words.shape[0]) / (1 + seen)) + 1).tocsr()
    x = sp.diags(1 / np.maximum(np.sqrt(x.multiply(x).sum(1).A1), 1e-12)) @ x
    return x.tocsr(), sp.linalg.svds(x, count, random_state=0)[2][::-1].T


def unit(x: Array) -> Array:
    """Return rows of length one."""
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def smoothed(x: Array, A: sp.csr_matrix) -> Array:
    """Average every node with its neighbours, a few steps far: where k-means starts."""
    degrees = A.sum(1).A1 + 1
    for _ in range(STEPS):
        x = (A @ x + x) / degrees[:, None]
    x = unit(x)
    return unit(x - x.mean(0))


def start(points: Array, groups: tuple[int, int], seed: int) -> tuple[Array, Array]:
    """Cut points into coarse groups and these into fine ones: (N,) fine groups, (K1,) parents."""
    coarse = KMeans(groups[1], n_init=4, random_state=seed).fit_predict(points)
    share = groups[0] * np.bincount(coarse, minlength=groups[1]) / len(points)
    pieces = np.maximum(1, share.round().astype(int))
    while pieces.sum() != groups[0]:  # as many as were asked for
        pieces[(pieces - share).argmin() if pieces.sum() < groups[0] else pieces.argmax()] += (
            1 if pieces.sum() < groups[0] else -1
        )
    fine = np.zeros(len(points), dtype=int)
    for group in range(groups[1]):
        rows = np.flatnonzero(coarse == group)
        inner = KMeans(pieces[group], n_init=2, random_state=seed).fit_predict(points[rows])
        fine[rows] = pieces[:group].sum() + inner
    return fine, np.repeat(np.arange(groups[1]), pieces)


class Groups(NamedTuple):
    """Two levels of groups, fine first."""

    pi: list[Array]  # (N, K) memberships
    tables: list[Array]  # (K, K) log odds of a link
    reasons: list[Array]  # (K, K) log probabilities that a link is no chance
    parent: Array  # (K1,) coarse group of each fine one
    bound: float  # what words, links and memberships are worth, in nats


def fit_groups(x: Array, A: sp.csr_matrix, fine: Array, parent: Array) -> Groups:
    """Alternate between what groups look like and who is in them."""
    degrees = A.sum(1).A1
    up = np.eye(parent.max() + 1)[parent]  # (K1, K2)
    pi = np.full((len(x), len(parent)), (1 - SURE) / len(parent))
    pi[np.arange(len(x)), fine] += SURE
    trust = 1 / (1 + degrees / WORTH)  # rho_i
    for _ in range(ROUNDS):
        phi = [unit(pi.T @ x), unit(up.T @ (pi.T @ x))]  # a group points where its members do
        seen = pi.T @ (A @ pi)  # links between groups, and how many degrees let expect
        ends = pi.T @ degrees
        expected = np.outer(ends, ends) / degrees.sum()
        above = up.T @ seen @ up, up.T @ expected @ up
        T2 = np.log((above[0] + 1) / (above[1] + 1))
        prior = LEAN * expected * np.exp(T2[parent][:, parent])  # a fine table leans on the coarse
        T1 = np.log((seen + prior + 1e-3) / ((1 + LEAN) * expected + 1e-3))
        told = SCALE * (x @ phi[0].T + (x @ phi[1].T)[:, parent])  # what words say, both levels
        heard = trust[:, None] * (A @ pi @ T1)  # what links say, through the table
        old, pi = pi, softmax(told + heard)
        if np.abs(pi - old).sum() / len(x) < 1e-3:
            break
    entropy = -(pi * np.log(pi + 1e-9)).sum()
    gains = [(s * np.log((s + 1e-9) / (e + 1e-9))).sum() / 2 for s, e in ((seen, expected), above)]
    bound = entropy + (pi * told).sum() + sum(gains)
    odds, expected = np.exp(T1).ravel(), np.outer(pi.T @ degrees, pi.T @ degrees).ravel()
    order = odds.argsort(kind="stable")  # chance joins any two: what the least likely pairs have
    least = order[: (expected[order].cumsum() / expected.sum()).searchsorted(STRANGERS) + 1]
    chance = min(1.0, (expected[least] * odds[least]).sum() / expected[least].sum())
    reasons = [np.log(np.maximum(1 - chance * np.exp(-T), 0.02)) for T in (T1, T2)]
    return Groups([pi, pi @ up], [T1, T2], reasons, parent, float(bound))


def softmax(logits: Array) -> Array:
    """Return each row as probabilities."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


# ---- 2. What groups say of classes: counts along the tree ---------------------------------------
def class_table(groups: Groups, rows: Array, labels: Array, classes: int) -> Array:
    """Return (K1, C) theta: shares of the classes, a group leaning on its parent."""
    pi = [level[rows] for level in groups.pi]
    y = np.eye(classes)[labels[rows]]

    def table(n: list[Array], m: list[Array], lean: float) -> Array:
        """Lean on the level above, from the whole graph down; n counts labels, m members."""
        theta = ((n[1].sum(-2) + 1) / (m[1].sum(-1)[..., None] + classes))[..., None, :]
        theta = (n[1] + lean * theta) / (m[1][..., None] + lean)
        return (n[0] + lean * theta[..., groups.parent, :]) / (m[0][..., None] + lean)

    n, m = [p.T @ y for p in pi], [p.sum(0) for p in pi]
    others = [a - p[:, :, None] * y[:, None] for a, p in zip(n, pi, strict=True)]
    members = [a - p for a, p in zip(m, pi, strict=True)]

    def left_out(lean: float) -> float:
        """Return the log likelihood of every label given all others."""
        said = np.einsum("ik,ikc->ic", pi[0], table(others, members, lean))
        return float((y * np.log(np.clip(said, 1e-9, 1 - 1e-9))).sum())

    return table(n, m, max(LEANS, key=left_out))


# ---- 3. The network: attention by states and by groups ------------------------------------------
class Layer(nn.Module):
    """Averages neighbours; links that fit the groups weigh more."""

    def __init__(self, in_dim: int, dim: int, table: Array) -> None:
        super().__init__()
        self.W = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_dim, dim)))
        self.a = nn.Parameter(0.1 * torch.randn(2, dim))
        self.B = torch.as_tensor(table, dtype=torch.float32)  # no parameter: it stays
        self.R = nn.Parameter(0.1 * torch.randn(len(table), dim))  # contexts, seen from a group

    def weights(self, p: Tensor, pi: Tensor, edges: Tensor) -> Tensor:
        """Return (E,) how much each target listens to each of its neighbours."""
        j, i = edges
        node = F.leaky_relu((p @ self.a[0])[i] + (p @ self.a[1])[j], SLOPE)
        scores = node + ((pi @ self.B)[i] * pi[j]).sum(1)  # pi_i B pi_j: is the link no chance?
        top = scores.new_full((len(p),), -torch.inf).scatter_reduce(0, i, scores.detach(), "amax")
        powers = (scores - top[i]).exp()
        return powers / scores.new_zeros(len(p)).index_add(0, i, powers)[i]

    def forward(self, x: Tensor, pi: Tensor, edges: Tensor) -> Tensor:
        """Return (N, d) new states."""
        p = x @ self.W
        w = self.weights(p, pi, edges)
        return torch.zeros_like(p).index_add(0, edges[1], w[:, None] * p[edges[0]])


class Network(nn.Module):
    """Two layers, and a classifier that reads states and memberships."""

    def __init__(self, num_features: int, groups: Groups, classes: int) -> None:
        super().__init__()
        widths = (num_features, DIM)
        layers = [Layer(w, DIM, B) for w, B in zip(widths, groups.reasons, strict=True)]
        self.layers: Any = nn.ModuleList(layers)
        self.pi = [torch.as_tensor(level, dtype=torch.float32) for level in groups.pi]
        self.classifier = nn.Linear(2 * DIM, classes)

    def states(self, x: Tensor, edges: Tensor, dropout: float = 0.0) -> list[Tensor]:
        """Return the states of both layers; the second is linear."""
        first = F.elu(self.layers[0](x, self.pi[0], edges))
        return [first, self.layers[1](F.dropout(first, dropout), self.pi[1], edges)]

    def logits(self, states: list[Tensor], edges: Tensor, dropout: float = 0.0) -> Tensor:
        """Return (N, C) class scores, spread along links as personalised PageRank would."""
        joined = F.dropout(F.relu(torch.cat(states, 1)), dropout)
        own: Tensor = self.classifier(joined)
        (j, i), pi = edges, self.pi[0]
        w = ((pi @ self.layers[0].B)[i] * pi[j]).sum(1).exp()[:, None]  # links that are no chance
        total, spread = torch.zeros(len(own), 1).index_add(0, i, w), own
        for _ in range(SPREAD):
            mean = torch.zeros_like(own).index_add(0, i, w * spread[j]) / total
            spread = (1 - HOME) * mean + HOME * own
        return spread

    def context_loss(self, states: list[Tensor], left: Tensor, right: list[Tensor]) -> Tensor:
        """Ask each anchor to pick the node its walk met among those all anchors met."""
        total = states[0].new_zeros(())
        for level, (h, met) in enumerate(zip(states, right, strict=True)):
            own = h[left] * (1 + self.pi[level][left] @ self.layers[level].R)  # seen from its group
            cosine = F.normalize(own, dim=1) @ F.normalize(h[met], dim=1).T
            total = total + F.cross_entropy(cosine / TEMPERATURE, torch.arange(len(left)))
        return total


# ---- Training and reading ----------------------------------------------------------------------
def train(
    net: Network, x: Tensor, A: sp.csr_matrix, taught: Tensor, labels: Tensor, rows: Tensor,
    epochs: int,
) -> list[float]:  # fmt: skip
    """Take one step over the whole graph per epoch."""
    edges, losses = edges_of(A), []
    known = torch.zeros(len(x), dtype=torch.bool).index_fill(0, rows, True)
    decayed = [net.layers[0].W, net.layers[1].W, net.classifier.weight]
    adam = torch.optim.Adam([p for p in net.parameters() if all(p is not q for q in decayed)], LR)
    adam.add_param_group({"params": decayed, "weight_decay": DECAY})
    for epoch in range(epochs):
        left = torch.randperm(len(x))[:512]
        left = left[torch.as_tensor(np.diff(A.indptr))[left] > 0]
        once = step(A, left)
        states = net.states(F.dropout(x, FEATURE_DROPOUT), edges, DROPOUT)
        logits = net.logits(states, edges, DROPOUT)
        loss = F.cross_entropy(logits[rows], labels[rows])
        loss = loss + TEACHER * F.cross_entropy(logits[~known], taught[~known])
        loss = loss + CONTEXT * net.context_loss(states, left, [once, step(A, once)])
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        losses.append(loss.item())
        if epoch % 20 == 0 or epoch + 1 == epochs:
            print(f"epoch {epoch + 1:3d}  loss {losses[-1]:.4f}", flush=True)
    return losses


def edges_of(A: sp.csr_matrix) -> Tensor:
    """Return (2, E + N) neighbours and targets, a node being its own neighbour first."""
    own, target = np.arange(A.shape[0]), A.nonzero()[0]
    return torch.as_tensor(np.stack([np.r_[own, A.indices], np.r_[own, target]]), dtype=torch.long)


def step(A: sp.csr_matrix, here: Tensor) -> Tensor:
    """Return a random neighbour of each node."""
    first, degree = torch.as_tensor(A.indptr[:-1]), torch.as_tensor(np.diff(A.indptr))
    place = first[here] + (torch.rand(len(here)) * degree[here]).long()
    return torch.as_tensor(A.indices).long()[place]


def main() -> None:
    """Find the groups of Cora without labels, then learn classes from a few."""
    parser = argparse.ArgumentParser(description="GraphHAM on one page, on Cora.")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--labels-per-class", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    graph: Any = load_dataset("cora")
    labels, classes = graph.labels.codes, len(graph.labels.classes)
    A = graph.adjacency().astype(np.float64).tocsr()
    words, basis = directions(sp.csr_matrix(graph.features, dtype=np.float64), DIRECTIONS)
    x, sizes = unit(words @ basis), (4 * classes, classes)
    starts = [start(points, sizes, given.seed) for points in (x, smoothed(words @ basis, A))]
    fits = [fit_groups(x, A, *one) for one in starts]
    groups = max(fits, key=lambda fit: fit.bound)
    for number, pi in enumerate(groups.pi, 1):
        agree = adjusted_mutual_info_score(labels, pi.argmax(1))
        print(f"level {number}  {pi.shape[1]} groups, AMI with the classes {agree:.3f}")
    draw = np.random.default_rng(given.seed)
    each = [draw.permutation(np.flatnonzero(labels == c)) for c in range(classes)]
    rows = np.concatenate([found[: given.labels_per_class] for found in each])
    said = [fit.pi[0] @ class_table(fit, rows, labels, classes) for fit in fits]
    taught, truth = torch.as_tensor(np.mean(said, 0)).float(), torch.as_tensor(labels).long()
    net = Network(words.shape[1], groups, classes)
    dense = torch.as_tensor(words.toarray(), dtype=torch.float32)
    train(net, dense, A, taught, truth, torch.as_tensor(rows), given.epochs)
    test = np.setdiff1d(np.arange(len(labels)), rows)
    with torch.no_grad():
        logits = net.logits(net.states(dense, edges_of(A)), edges_of(A))
    for name, scores in (("groups alone", taught), ("network", logits)):
        right = float((scores.argmax(1) == truth)[test].float().mean())
        print(f"accuracy of the {name} {right:.3f} on {len(test)} nodes")


if __name__ == "__main__":
    main()
