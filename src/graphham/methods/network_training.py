"""One training loop for every network among the baselines: full graph or sampled neighbourhoods.

With labels the loss is cross-entropy. Without, it is that of unsupervised GraphSAGE (A18): nodes
met on short random walks should score high together, nodes drawn at random low.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.methods.fit_request import Rows
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import NodeInputs
from graphham.model.losses import class_loss
from graphham.sampling.keys import derive_key, numpy_generator, torch_generator
from graphham.sampling.sampler import NeighborSampler
from graphham.sampling.walks import walk_contexts
from graphham.system.memory_limit import available_memory
from graphham.training.class_shares import class_weights
from graphham.training.epochs import EpochLoop, Score
from graphham.training.last_good import check_step
from graphham.training.optimizer import Adam
from graphham.training.supervision import Truth

if TYPE_CHECKING:
    from graphham.training.epochs import Listener

_GIB = 1 << 30
_USUAL_ROOM = 4 * _GIB  # where the system does not say
# Largest norm of a gradient, as in GraphHAM's own settings.
_CLIP = 5.0


@dataclass(frozen=True)
class Schedule:
    """How a network is trained.

    Args:
        epochs: Passes over the training nodes (full graph: steps).
        lr: Adam learning rate.
        weight_decay: L2 penalty on all parameters.
        average: Keep a running average of the weights, this much of it old every epoch; what is
            validated and kept is the average. 0 switches it off.
        feature_dropout: Share of input values dropped.
        edge_dropout: Share of edges dropped per step.
        batch: ``full``, ``sampled``, or ``auto`` by estimated memory.
        batch_size: Targets per sampled step.
        fanouts: Neighbours sampled per layer, first layer first.
        patience: Epochs without a better validation score before stopping.
        evaluate_every: Epochs between two validations.
        walk_length: Steps of the walks that give positive pairs.
        anchors: Nodes whose walks a full-graph step reads.
        negatives: Random nodes that a set of ``contrast`` anchors shares.
        contrast: Size of such a set.
        negative_weight: Weight of a pair's negatives, all together, against its positive.
        scale: Multiplies the cosines of pairs before the logistic loss.
        memory_gib: ``auto`` trains on the full graph while the estimate stays below this; below
            what is free when ``None``.
        weigh_classes: Count each label by how frequent its class is (``class_weights``).
    """

    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 5e-4
    average: float = 0.0
    feature_dropout: float = 0.5
    edge_dropout: float = 0.0
    batch: str = "auto"
    batch_size: int = 512
    fanouts: tuple[int, ...] = (25, 25)
    patience: int = 100
    evaluate_every: int = 2
    walk_length: int = 4
    anchors: int = 8192
    negatives: int = 20
    contrast: int = 512
    negative_weight: float = 1.0
    scale: float = 5.0
    memory_gib: float | None = None
    weigh_classes: bool = False


@dataclass
class Trained:
    """What training leaves behind besides the network, which holds its best state.

    Args:
        history: One record per epoch.
        validation: Best validation score, or ``None``.
        best_epoch: The epoch the network is from.
        batch: ``full`` or ``sampled``.
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    validation: float | None = None
    best_epoch: int = 0
    batch: str = "full"


class NodeNet(nn.Module):
    """A network over node features: ``num_layers`` neighbourhood layers, then maybe classes.

    Args:
        dim: Width of the embedding.
        num_classes: Columns of the classifier; 0 for none.
        num_layers: How many neighbourhoods :meth:`encode` reads.
        self_edge: Whether those hold the node itself.
        dropout: Share of hidden values dropped.
    """

    def __init__(
        self, dim: int, num_classes: int, num_layers: int, self_edge: bool, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.num_layers, self.self_edge, self.dropout = num_layers, self_edge, dropout
        self.classifier = nn.Linear(dim, num_classes) if num_classes else None

    def encode(
        self, features: FeatureRows, blocks: list[Block], generator: torch.Generator | None
    ) -> Tensor:
        """Return the ``(targets, dim)`` vectors of the last block's targets.

        Args:
            features: Inputs of the first block's sources.
            blocks: One neighbourhood per layer; empty for a network that reads no graph.
            generator: Source of dropout; ``None`` outside training.
        """
        raise NotImplementedError

    def classify(self, vectors: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return ``(nodes, num_classes)`` logits of encoded nodes."""
        assert self.classifier is not None
        logits: Tensor = self.classifier(vectors)
        return logits

    def working_bytes(self, nodes: int, edges: int) -> int:
        """Return about how much memory one full-graph step takes."""
        return 40 * nodes * 128 * max(self.num_layers, 1) + 16 * edges

    def decayed(self) -> list[nn.Parameter]:
        """Return the parameters that the L2 penalty falls on: all, unless a paper says other."""
        return list(self.parameters())

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw every matrix anew (Glorot) and set vectors named bias to zero."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith("bias"):
                    parameter.zero_()
                else:
                    nn.init.xavier_uniform_(parameter, generator=generator)


def train(
    net: NodeNet,
    graph: Graph,
    inputs: NodeInputs,
    schedule: Schedule,
    seed: int,
    truth: Truth | None = None,
    listener: Listener | None = None,
) -> Trained:
    """Train a network in place and leave it at its best validated state.

    Args:
        net: The network; its parameters are drawn here.
        graph: Training graph.
        inputs: Inputs of its nodes.
        schedule: How to train.
        seed: Decides every draw.
        truth: Labels; without them the loss is unsupervised.
        listener: Who hears about progress.
    """
    if truth is None and not graph.num_stored:
        raise InputError("the graph has no edges to learn from; give at least one")
    net.reset_parameters(torch_generator(derive_key(seed, "parameters")))
    loop = _NetworkLoop(net, _Steps(net, graph, inputs, schedule, seed, truth), listener)
    loop.run()
    net.eval()
    return Trained(loop.history, loop.best_validation, loop.best_epoch, loop.steps.mode)


class _NetworkLoop(EpochLoop):
    """The epochs of a baseline's network."""

    def __init__(self, net: NodeNet, steps: _Steps, listener: Listener | None) -> None:
        schedule = steps.schedule
        super().__init__(
            net,
            epochs=schedule.epochs,
            average=schedule.average,
            evaluate_every=schedule.evaluate_every,
            patience=schedule.patience,
            listener=listener,
        )
        self.net, self.steps = net, steps
        self.is_one_step = steps.mode == "full"
        decayed = net.decayed()
        groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": schedule.weight_decay}]
        held = {id(parameter) for parameter in decayed}
        free = [parameter for parameter in net.parameters() if id(parameter) not in held]
        if free:
            groups.append({"params": free})
        self.optimizer = Adam(groups, schedule.lr)

    def take_epoch(self, epoch: int) -> dict[str, Any]:
        """Take the steps of an epoch; return the mean loss."""
        losses = []
        for loss in self.steps.losses(epoch + 1):
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            norm = self.optimizer.clip(_CLIP)
            self.optimizer.step()
            losses.append(float(loss.detach()))
            check_step(losses[-1:], norm)
        return {"loss": float(np.mean(losses))}

    def score(self) -> Score | None:
        """Return accuracy or micro-F1 on the validation rows, then the negative loss for ties."""
        steps = self.steps
        if steps.truth is None or not len(steps.truth.validation):
            return None
        self.net.eval()
        with torch.no_grad():
            vectors = encode_all(self.net, steps.graph, steps.inputs)
            logits = self.net.classify(vectors[steps.truth.validation], None)
        return steps.truth.score(logits)


def encode_all(net: NodeNet, graph: Graph, inputs: NodeInputs) -> Tensor:
    """Return the ``(num_nodes, dim)`` vectors of every node, all neighbours read, no dropout."""
    blocks = [Block.full(graph, net.self_edge)] * net.num_layers
    with torch.no_grad():
        return net.encode(inputs.rows(None), blocks, None)


def dropped(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Return ``x`` with dropout drawn from ``generator``; unchanged without one."""
    if generator is None or not rate:
        return x
    keep = torch.empty_like(x).bernoulli_(1 - rate, generator=generator)
    return x * keep / (1 - rate)


def product(x: FeatureRows | Tensor, weight: Tensor) -> Tensor:
    """Return inputs or hidden states times a weight."""
    return x.matmul(weight)


def _room(schedule: Schedule) -> float:
    """Return the bytes that a step over the whole graph may take."""
    if schedule.memory_gib is not None:
        return schedule.memory_gib * _GIB
    free = available_memory()
    return _USUAL_ROOM if free is None else free


class _Steps:
    """The losses of each epoch, one per update."""

    def __init__(
        self,
        net: NodeNet,
        graph: Graph,
        inputs: NodeInputs,
        schedule: Schedule,
        seed: int,
        truth: Truth | None,
    ) -> None:
        self.net, self.graph, self.inputs = net, graph, inputs
        self.schedule, self.seed, self.truth = schedule, seed, truth
        self.mode = schedule.batch
        if self.mode == "auto":
            needed = net.working_bytes(graph.num_nodes, graph.num_stored + graph.num_nodes)
            self.mode = "full" if needed <= _room(schedule) else "sampled"
        if self.mode not in ("full", "sampled"):
            raise InputError(f"batch must be auto, full or sampled, got {self.mode!r}")
        self.rows = np.arange(graph.num_nodes)
        if truth is not None:
            self.rows = np.flatnonzero(truth.training.numpy())
        self.block = Block.full(graph, net.self_edge) if self.mode == "full" else None
        self.sampler = NeighborSampler(graph) if self.mode == "sampled" else None
        # word2vec's choice: common nodes often, but not as often as they occur.
        weight = graph.degrees().astype(np.float64) ** 0.75
        self.noise = np.cumsum(weight / max(weight.sum(), 1e-12))

    def losses(self, epoch: int) -> Iterator[Tensor]:
        """Yield the loss of each step of an epoch; the caller steps in between."""
        order = numpy_generator(derive_key(self.seed, "order", epoch)).permutation(self.rows)
        if self.mode == "full":
            chosen = self.rows if self.truth is not None else order[: self.schedule.anchors]
            yield self._loss(chosen, derive_key(self.seed, "step", epoch, 0))
            return
        size = self.schedule.batch_size
        for index, start in enumerate(range(0, len(order), size)):
            key = derive_key(self.seed, "step", epoch, index)
            yield self._loss(order[start : start + size], key)

    def _loss(self, targets: Rows, key: Any) -> Tensor:
        if self.truth is None:
            return self._walk_loss(targets, key)
        vectors = self._encode(targets, key)
        generator = torch_generator(derive_key(key, "classifier"))
        wanted = self.truth.targets[torch.from_numpy(targets)]
        logits = self.net.classify(vectors, generator)
        if self.schedule.weigh_classes:
            weights = class_weights(self.truth, logits.shape[1])
            if weights is not None:
                return F.cross_entropy(logits, wanted, torch.from_numpy(weights).to(logits))
        return class_loss(logits, wanted)

    def _walk_loss(self, anchors: Rows, key: Any) -> Tensor:
        """Return the mean of -log s(z_u z_v) - Q E_n log s(-z_u z_n) over pairs met on walks."""
        schedule = self.schedule
        met = walk_contexts(
            self.graph, anchors, 1, schedule.walk_length, derive_key(key, "walks")
        ).astype(np.int64)[:, 0]
        sets = max(1, round(len(anchors) / schedule.contrast))
        draw = numpy_generator(derive_key(key, "negatives"))
        noise = np.searchsorted(self.noise, draw.random((sets, schedule.negatives)))
        noise = np.minimum(noise, self.graph.num_nodes - 1)
        needed, place = np.unique(
            np.concatenate([anchors, np.maximum(met, 0).ravel(), noise.ravel()]),
            return_inverse=True,
        )
        z = F.normalize(self._encode(needed, key), dim=1)
        where = torch.from_numpy(place)
        first, second = len(anchors), len(anchors) + met.size
        left = z[where[:first]]
        right = z[where[first:second]].view(len(anchors), -1, z.shape[1])
        valid = torch.from_numpy(met >= 0)
        scores = schedule.scale * torch.einsum("ad,akd->ak", left, right)
        pull = -F.logsigmoid(scores)[valid]
        others = z[where[second:]].view(sets, -1, z.shape[1])
        push = [
            -F.logsigmoid(-schedule.scale * part @ negative.T).mean(1)
            for part, negative in zip(left.tensor_split(sets), others, strict=True)
        ]
        # Each anchor's negatives count once per positive, as if drawn anew for every pair.
        weight = schedule.negative_weight * valid.sum(1).float()
        pairs = valid.sum().clamp_min(1)
        return (pull.sum() + (torch.cat(push) * weight).sum()) / pairs

    def _encode(self, targets: Rows, key: Any) -> Tensor:
        """Return the vectors of distinct targets, with dropout."""
        schedule, net = self.schedule, self.net
        net.train()
        generator = torch_generator(derive_key(key, "dropout"))
        feature_key = derive_key(key, "features")
        edge_key = derive_key(key, "edges")
        if self.block is not None:
            block = self.block
            if schedule.edge_dropout:
                block = block.drop_edges(schedule.edge_dropout, edge_key)
            features = self.inputs.rows(None, schedule.feature_dropout, feature_key)
            vectors = net.encode(features, [block] * net.num_layers, generator)
            return vectors[torch.from_numpy(targets)]
        assert self.sampler is not None
        last = len(schedule.fanouts) - 1
        fanouts = [schedule.fanouts[min(i, last)] for i in range(net.num_layers)]
        blocks = self.sampler.sample_blocks(
            targets, fanouts, derive_key(key, "neighbors"), net.self_edge
        )
        if schedule.edge_dropout:
            blocks = [b.drop_edges(schedule.edge_dropout, edge_key) for b in blocks]
        rows = blocks[0].source_rows if blocks else targets
        features = self.inputs.rows(rows, schedule.feature_dropout, feature_key)
        return net.encode(features, blocks, generator)
