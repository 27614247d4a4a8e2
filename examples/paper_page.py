"""The paper's model, literally, on one page of plain torch: the preset `paper` of the package.

    python examples/paper_page.py [--epochs N] [--labels]   # Cora; with labels, a classifier too

Every layer owns a few group vectors. A node's closeness to them is its membership of that level;
while training, one noisy assignment is drawn from it. Messages are weighted by attention between
nodes times attention between their groups. Each layer must predict the nodes that short random
walks meet, seen through the target's group. Layer 1 has many fine groups, layer 2 few coarse ones;
a penalty asks nodes that share a fine group to share a coarse one.

This is the preset `paper` of the package: the literal model, whole graph at once. The penalty alone
is met best by a single coarse group, and on Cora that is what level 2 becomes, here as there; what
the default preset does about it is in docs/how-it-works.md, as are the equations E1-E16 in the
margin; docs/ambiguities.md has A1-A18. Shapes: N nodes, E edges with self edges, F features (or the
states below), K groups, M heads, d width of a layer, C classes. tests/examples/test_paper_page.py
holds outputs, losses and gradients to the package's, to 1e-9 relative in double precision.
"""

import argparse
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor, nn

from graphham import load_dataset

GROUPS = (17, 7)  # K of each level, fine to coarse; 7 is about the fourth root of N
DIM, HEADS, SLOPE = 64, 1, 0.2  # width d of each layer, heads M, slope of LeakyReLU
TAU_START, TAU_END = 1.0, 0.5  # temperature of the assignments, falling exponentially
GAMMA, BETA, ETA = 1.0, 0.1, 1.0  # weights: must-link, cannot-link, classes
LR, TABLE_LR, DECAY, DROPOUT, CLIP = 0.005, 0.1, 5e-4, 0.2, 5.0


# ---- One layer: memberships, assignments, attention over nodes and over groups (E1-E9) ----------
class LayerOutput(NamedTuple):
    """What one layer computes."""

    h: Tensor  # (N, d) new states, before the non-linearity
    pi: Tensor  # (N, K) mean memberships
    z: Tensor  # (N, K) relaxed assignments
    alpha: Tensor  # (E, M) attention over neighbours by their states
    lam: Tensor  # (E, M) attention over neighbours by their groups
    weight: Tensor  # (E, M) what messages are multiplied with


class Layer(nn.Module):
    """Attention over a node's neighbours and over the groups they belong to."""

    def __init__(self, in_dim: int, dim: int, groups: int, heads: int) -> None:
        super().__init__()
        self.Phi = nn.Parameter(torch.randn(groups, in_dim) / in_dim**0.5)  # (K, F) group vectors
        self.log_scale = nn.Parameter(torch.zeros(()))  # dot products of sparse rows are tiny: A13
        W = nn.init.xavier_uniform_(torch.empty(in_dim, heads * dim))
        self.W = nn.Parameter(W.view(in_dim, heads, dim))  # (F, M, d) a map for each head
        self.a_left = nn.Parameter(0.1 * torch.randn(heads, dim))  # what the target brings
        self.a_right = nn.Parameter(0.1 * torch.randn(heads, dim))  # what the neighbour brings

    def affinities(self, x: Tensor) -> Tensor:
        """Compare every node with every group, (N, F) with (K, F): (N, K)."""
        return x @ self.Phi.T * self.log_scale.exp()  # E1   u_ik = phi_k . h_i

    def forward(
        self, x: Tensor, edges: Tensor, tau: float, noise: Tensor | None, dropout: float = 0.0
    ) -> LayerOutput:
        """Return new states; without (N, K) Gumbel noise z is the mean membership."""
        j, i = edges  # (E,) neighbour and target of each edge; i itself is among its neighbours: A5
        u = self.affinities(x)
        pi = u.softmax(1)  # E2, E3   no Dirichlet draw: it changes nothing in distribution, A3
        z = pi if noise is None else ((u.log_softmax(1) + noise) / tau).softmax(1)  # E4
        # Groups look at the whole state; dropout only thins out the messages.
        p = torch.einsum("nf,fmd->nmd", F.dropout(x, dropout), self.W)  # E5   (N, M, d)
        psi = torch.einsum("kf,fmd->kmd", self.Phi, self.W)  # E5   (K, M, d)
        left, right = (p * self.a_left).sum(2), (p * self.a_right).sum(2)  # (N, M)
        alpha = neighbor_softmax(F.leaky_relu(left[i] + right[j], SLOPE), i, len(x))  # E6   (E, M)
        # a . r_i = sum_k z_ik (a . psi_k): K numbers per head stand for the vectors r of E5.
        left, right = z @ (psi * self.a_left).sum(2), z @ (psi * self.a_right).sum(2)  # (N, M)
        lam = neighbor_softmax(F.leaky_relu(left[i] + right[j], SLOPE), i, len(x))  # E7   (E, M)
        w = lam * alpha  # E8   (E, M)
        w = w / neighbor_sum(w, i, len(x))[i]  # E8   each target's weights add up to 1: A5
        h = neighbor_sum(w[:, :, None] * p[j], i, len(x)).mean(1)  # E9   (N, d) mean over heads
        return LayerOutput(h, pi, z, alpha, lam, w)


def neighbor_sum(values: Tensor, target: Tensor, count: int) -> Tensor:
    """Add up edges that have the same target: (E, ...) to (N, ...)."""
    return values.new_zeros(count, *values.shape[1:]).index_add(0, target, values)


def neighbor_softmax(scores: Tensor, target: Tensor, count: int) -> Tensor:
    """Return softmax over the edges of each target, (E, M)."""
    top = scores.new_full((count, scores.shape[1]), -torch.inf)
    place = target[:, None].expand_as(scores)
    top = top.scatter_reduce(0, place, scores.detach(), "amax")  # cancels out, prevents overflow
    powers = (scores - top[target]).exp()
    return powers / neighbor_sum(powers, target, count)[target]


# ---- The network: layers, context vectors, classifier ------------------------------------------
class GraphHAM(nn.Module):
    """Layers one after another, a table of context vectors for each, and a linear classifier."""

    def __init__(
        self, num_nodes: int, num_features: int, num_classes: int, groups: tuple[int, ...], dim: int
    ) -> None:
        super().__init__()
        self.groups, widths = groups, [num_features, *[dim] * (len(groups) - 1)]
        layers = [Layer(width, dim, k, HEADS) for width, k in zip(widths, groups, strict=True)]
        self.layers = nn.ModuleList(layers)
        # Row j K + k is Q_{j,k}: node j as a context, seen from a target in group k (A2).
        self.Q = nn.ParameterList(torch.randn(num_nodes * k, dim) / dim**0.5 for k in groups)
        self.classifier = nn.Linear(dim * len(groups), num_classes)

    def forward(
        self, x: Tensor, edges: Tensor, tau: float, noise: list[Tensor] | None, dropout: float
    ) -> list[LayerOutput]:
        """Return what every layer computes; inference is without noise and dropout."""
        outputs: list[LayerOutput] = []
        for level, layer in enumerate(self.layers):
            drawn = None if noise is None else noise[level]
            out = layer(x, edges, tau, drawn, dropout if level else 0.0)
            if level + 1 < len(self.layers):
                out = out._replace(h=F.elu(out.h))  # E9   the last layer is linear
            outputs.append(out)
            x = out.h
        return outputs

    def class_logits(self, outputs: list[LayerOutput], rows: Tensor, dropout: float) -> Tensor:
        """Return (rows, C) logits from the states of all layers side by side."""
        joined = F.dropout(torch.cat([out.h[rows] for out in outputs], dim=1), dropout)
        return F.linear(joined, self.classifier.weight, self.classifier.bias)  # E15

    @torch.no_grad()
    def start_groups(self, x: Tensor, edges: Tensor) -> None:
        """Put group vectors where random nodes are, and give affinities unit spread (A13)."""
        for level, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            states = self(x, edges, 1.0, None, 0.0)[level - 1].h if level else x
            chosen = states[torch.randperm(len(x))[: self.groups[level]]]
            layer.Phi.copy_(chosen + 0.01 * chosen.std() * torch.randn_like(chosen))
            layer.log_scale.copy_(-layer.affinities(states).std().log())


# ---- What is minimised (E10-E16) ---------------------------------------------------------------
def one_hot(z: Tensor) -> Tensor:
    """Return the drawn groups as one-hot rows that pass gradients on to the relaxed ones."""
    return F.one_hot(z.argmax(1), z.shape[1]) + z - z.detach()


def context_scores(h: Tensor, z: Tensor, Q: Tensor, nodes: Tensor) -> Tensor:
    """Score each one-hot assigned target with its contexts, (N, contexts) rows, -1 for none."""
    group = z.argmax(1, keepdim=True)  # (N, 1) the TARGET's group
    vectors = F.embedding(nodes.clamp_min(0) * z.shape[1] + group, Q)  # (N, contexts, d)
    s = torch.einsum("nd,ncd->nc", h, vectors)  # E10   s_ij = h_i . Q_{j, group of i}
    return (s * z.gather(1, group))[nodes >= 0]  # times 1, so that the gradient reaches z


def violation(lower: Tensor, upper: Tensor) -> Tensor:
    """Return the share of pairs together in (N, K) lower and apart in (N, K') upper groups."""
    # Over pairs i != j: sum of (a_i . a_j) (1 - c_i . c_j), without ever listing the pairs.
    own = (lower.square().sum(1) * (1 - upper.square().sum(1))).sum()  # i = j
    mass = lower.sum(0).square().sum() - (lower.T @ upper).square().sum() - own  # E12
    return mass / (len(lower) * (len(lower) - 1))


def unsupervised_loss(
    model: GraphHAM, outputs: list[LayerOutput], contexts: list[tuple[Tensor, Tensor]]
) -> dict[str, Tensor]:
    """Return the parts of the loss, each a mean; contexts are positives and negatives by layer."""
    hard = [one_hot(out.z) for out in outputs]  # the decoder sees a single group per node: A3
    context = nesting = outputs[0].h.new_zeros(())
    for out, z, Q, pair in zip(outputs, hard, model.Q, contexts, strict=True):
        true, false = (context_scores(out.h, z, Q, nodes) for nodes in pair)
        context = context - F.logsigmoid(true).mean() - F.logsigmoid(-false).mean()  # E11
    for lower, upper in pairwise(hard):
        nesting = nesting + GAMMA * violation(lower.detach(), upper)  # E13   moves the upper level
        nesting = nesting + BETA * violation(lower, upper.detach())  # E13   moves the lower level
    return {"context": context, "nesting": nesting}  # E14   the loss is their sum


def class_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the weighted cross-entropy of (rows, C) logits and (rows,) class codes."""
    return ETA * F.cross_entropy(logits, labels)  # E15, E16


# ---- What a step looks at: edges, walks, negatives (A6) ----------------------------------------
class Links(NamedTuple):
    """The neighbours of every node, one list after another."""

    start: Tensor  # (N,) where each node's list begins
    degree: Tensor  # (N,)
    neighbor: Tensor  # all lists; a link is in the lists of both its ends

    def edges(self) -> Tensor:
        """Return (2, E) neighbours and targets, self edges first."""
        own = torch.arange(len(self.degree))
        target = own.repeat_interleave(self.degree)
        return torch.stack([torch.cat([own, self.neighbor]), torch.cat([own, target])])


def draw_walks(links: Links, walks: int, steps: int) -> Tensor:
    """Walk at random from every node: (N, walks, steps), -1 where a walk is at its start."""
    start = torch.arange(len(links.degree))[:, None].expand(-1, walks)
    here, met = start, []
    for _ in range(steps):
        place = links.start[here] + (torch.rand(here.shape) * links.degree[here]).long()
        step = links.neighbor[place.clamp_max(len(links.neighbor) - 1)]
        here = torch.where(links.degree[here] > 0, step, here)  # without links it stays
        met.append(torch.where(here == start, -1, here))
    return torch.stack(met, dim=2)


def draw_negatives(links: Links, positives: Tensor) -> Tensor:
    """Draw for each positive, (N, contexts), a node that is neither the target nor linked to it."""
    count = len(links.degree)
    j, i = links.edges()
    target = torch.arange(count)[:, None].expand_as(positives)
    drawn = torch.full_like(positives, -1)
    for _ in range(20):  # then give up: the target may be linked to every other node
        empty = (drawn < 0) & (positives >= 0)
        tried = torch.randint(count, (int(empty.sum()),))
        is_linked = torch.isin(target[empty] * count + tried, i * count + j)
        drawn[empty] = torch.where(is_linked, -1, tried)
    return drawn


def draw_contexts(links: Links, walks: int, levels: int) -> list[tuple[Tensor, Tensor]]:
    """Return the positives and negatives of each layer; layer l predicts nodes within l steps."""
    met = draw_walks(links, walks, levels)
    positives = [met[:, :, : level + 1].flatten(1) for level in range(levels)]
    return [(nodes, draw_negatives(links, nodes)) for nodes in positives]


# ---- Training and reading ----------------------------------------------------------------------
def train(
    model: GraphHAM, x: Tensor, links: Links, labels: Tensor, rows: Tensor, epochs: int, walks: int
) -> list[float]:
    """Take one step over the whole graph per epoch; classes count at the training rows, if any."""
    edges, losses = links.edges(), []
    model.start_groups(x, edges)
    named = [(name, p) for name, p in model.named_parameters() if not name.startswith("Q")]
    decayed = [p for name, p in named if name.endswith(("W", "weight"))]
    free = [p for name, p in named if not name.endswith(("W", "weight"))]
    adam = torch.optim.Adam(free, LR)
    adam.add_param_group({"params": decayed, "weight_decay": DECAY})
    adagrad = torch.optim.Adagrad(model.Q.parameters(), TABLE_LR)  # each row is met rarely
    for epoch in range(epochs):
        tau = TAU_START * (TAU_END / TAU_START) ** (epoch / max(epochs - 1, 1))
        noise = [-torch.empty(len(x), k).exponential_().log() for k in model.groups]  # Gumbel
        outputs = model(x, edges, tau, noise, DROPOUT)
        parts = unsupervised_loss(model, outputs, draw_contexts(links, walks, len(model.groups)))
        if len(rows):
            parts["class"] = class_loss(model.class_logits(outputs, rows, DROPOUT), labels[rows])
        loss = torch.stack(list(parts.values())).sum()  # E14, E16
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(decayed + free, CLIP)
        adam.step()
        adagrad.step()
        losses.append(loss.item())
        if epoch % 10 == 0 or epoch + 1 == epochs:
            each = ", ".join(f"{name} {part.item():.4f}" for name, part in parts.items())
            print(f"epoch {epoch + 1:3d}  loss {losses[-1]:.4f} ({each})", flush=True)
    return losses


def main() -> None:
    """Train on Cora and tell what the groups, and the classifier, have found."""
    parser = argparse.ArgumentParser(description="GraphHAM on one page, trained on Cora.")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--walks", type=int, default=10, help="per node; the preset draws 50")
    parser.add_argument("--labels", action="store_true", help="train a classifier jointly")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    graph: Any = load_dataset("cora")
    x = F.normalize(torch.from_numpy(graph.features.toarray()), dim=1)  # (N, F)
    bounds, neighbor = torch.tensor(graph.indptr), torch.tensor(graph.indices).long()
    links = Links(bounds[:-1], bounds.diff(), neighbor)
    labels = torch.tensor(graph.labels.codes).long()  # (N,)
    seen = torch.tensor(graph.splits["train"] if options.labels else [], dtype=torch.long)
    model = GraphHAM(len(x), x.shape[1], len(graph.labels.classes), GROUPS, DIM)
    train(model, x, links, labels, seen, options.epochs, options.walks)
    with torch.no_grad():  # no noise: z is the mean membership, a node's group its largest entry
        outputs = model(x, links.edges(), 1.0, None, 0.0)
        for level, out in enumerate(outputs, start=1):
            group = out.pi.argmax(1)
            used = int((group.bincount() >= 0.01 * len(x)).sum())
            nmi = normalized_mutual_info_score(labels, group)
            print(f"level {level}  {used} of {out.pi.shape[1]} groups in use, NMI {nmi:.3f}")
        if options.labels:
            test = torch.tensor(graph.splits["test"])
            right = model.class_logits(outputs, test, 0.0).argmax(1) == labels[test]
            print(f"accuracy {right.float().mean():.3f} on {len(test)} test nodes")


if __name__ == "__main__":
    main()
