"""What each training step looks at: the whole graph, or sampled neighbourhoods of a few targets.

Both kinds of step carry the same things, so the same objective serves both. Everything is drawn by
key from (seed, epoch, step), never from the order in which workers happen to finish.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphham.config.resolved import ResolvedConfig
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.model.inputs import NodeInputs
from graphham.model.network import Batch
from graphham.parallel.graph_access import graph_access
from graphham.parallel.ranks import ALONE, Ranks
from graphham.sampling.keys import derive_key, numpy_generator

Rows = npt.NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Step:
    """One training step.

    Args:
        batch: What the network encodes.
        rows: ``(num_targets,)`` graph rows of the encoded targets.
        members: ``(count,)`` positions of the nodes that were drawn evenly from the graph, always
            the first ones.
        anchors: ``(count,)`` positions of the nodes that carry the context losses.
        positives: Per layer ``(anchors, contexts)`` context nodes, -1 for none: positions when
            ``inductive``, graph rows otherwise.
        negatives: Per layer the same number of non-neighbours; empty for the contrastive loss.
        key: What every further draw of the step derives from.
    """

    batch: Batch
    rows: Rows
    members: Tensor
    anchors: Tensor
    positives: list[Tensor]
    negatives: list[Tensor]
    key: Any

    def drawn(self, level: Tensor) -> Tensor:
        """Return the rows of the nodes that were drawn evenly: members come first."""
        return level[: len(self.members)]

    def to(self, device: torch.device | str) -> Step:
        """Return the step with its tensors on ``device``."""
        return replace(
            self,
            batch=self.batch.to(device),
            members=self.members.to(device),
            anchors=self.anchors.to(device),
            positives=[nodes.to(device) for nodes in self.positives],
            negatives=[nodes.to(device) for nodes in self.negatives],
        )


class Batches:
    """The steps of every epoch.

    Args:
        graph: Training graph.
        inputs: Inputs of its nodes.
        config: Resolved settings.
        inductive: Whether context nodes are encoded (rather than looked up in a table).
        ranks: The processes that hold the parts of a split graph.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: NodeInputs,
        config: ResolvedConfig,
        inductive: bool,
        ranks: Ranks = ALONE,
    ) -> None:
        self.graph, self.inputs, self.config, self.inductive = graph, inputs, config, inductive
        self.is_full = config.train.batch == "full"
        self.degrees = graph.degrees().astype(np.float32)
        self._block = Block.full(graph, config.model.self_edge) if self.is_full else None
        self.sampler = graph_access(graph, ranks).sampler()

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps in one epoch."""
        if self.is_full:
            return 1
        return len(self.starts())

    def starts(self) -> range:
        """Return where each sampled step of an epoch begins in the epoch's order of the nodes."""
        train = self.config.train
        all_steps = range(0, self.graph.num_nodes, train.batch_size)
        return all_steps[: train.epoch_steps] if train.epoch_steps else all_steps

    def epoch(self, epoch: int) -> Iterator[Step]:
        """Yield the steps of one epoch in order; worker threads prepare them ahead."""
        order = numpy_generator(derive_key(self.config.seed, "order", epoch)).permutation(
            self.graph.num_nodes
        )
        if self.is_full:
            yield self._full_step(order, derive_key(self.config.seed, "step", epoch, 0))
            return
        size = self.config.train.batch_size
        parts = [order[start : start + size] for start in self.starts()]
        keys = [derive_key(self.config.seed, "step", epoch, index) for index in range(len(parts))]
        workers = self.config.train.workers
        if not workers or self.sampler.draws_together:
            yield from map(self.sampled_step, parts, keys)
            return
        yield from drawn_ahead(
            lambda index: self.sampled_step(parts[index], keys[index]), range(len(parts)), workers
        )

    def _full_step(self, order: Rows, key: Any) -> Step:
        train = self.config.train
        assert self._block is not None
        block = self._block
        if train.edge_dropout:
            block = block.drop_edges(train.edge_dropout, derive_key(key, "edges"))
        anchors = order[: train.anchors]
        positives, negatives = self._contexts(anchors, key)
        batch = Batch(
            [block] * self.config.num_layers,
            self.inputs.rows(None, train.feature_dropout, derive_key(key, "features")),
            self.inputs.memberships,
        )
        rows = np.arange(self.graph.num_nodes)
        return Step(
            batch,
            rows,
            torch.from_numpy(rows),
            torch.from_numpy(anchors),
            [torch.from_numpy(nodes) for nodes in positives],
            [torch.from_numpy(nodes) for nodes in negatives],
            key,
        )

    def sampled_step(self, targets: Rows, key: Any) -> Step:
        """Return the step of some targets with sampled neighbourhoods."""
        config, train = self.config, self.config.train
        positives, negatives = self._contexts(targets, key)
        rows = targets
        if self.inductive and config.loss.context_weight:
            # Context nodes are encoded too; targets stay in front so their positions are known.
            nodes = np.concatenate([n.reshape(-1) for n in (*positives, *negatives)])
            extra = np.setdiff1d(nodes[nodes >= 0], targets)
            rows = np.concatenate([targets, extra])
            positives = [_positions(nodes, rows) for nodes in positives]
            negatives = [_positions(nodes, rows) for nodes in negatives]
        fanouts = [config.fanout(layer) for layer in range(config.num_layers)]
        blocks = self.sampler.sample_blocks(
            rows, fanouts, derive_key(key, "neighbors"), config.model.self_edge
        )
        if train.edge_dropout:
            blocks = [b.drop_edges(train.edge_dropout, derive_key(key, "edges")) for b in blocks]
        sources = blocks[0].source_rows
        dropout = train.feature_dropout
        batch = Batch(
            blocks,
            self.inputs.rows(sources, dropout, derive_key(key, "features")),
            self.inputs.membership_rows(sources),
        )
        members = torch.arange(len(targets))
        return Step(
            batch,
            rows,
            members,
            members,
            [torch.from_numpy(nodes) for nodes in positives],
            [torch.from_numpy(nodes) for nodes in negatives],
            key,
        )

    def _contexts(self, anchors: Rows, key: Any) -> tuple[list[Rows], list[Rows]]:
        """Return per layer the context nodes of each anchor and as many negatives (A6)."""
        loss, layers = self.config.loss, self.config.num_layers
        if not loss.context_weight:
            return [], []
        walks = self.sampler.walk_contexts(anchors, loss.walks, layers, derive_key(key, "walks"))
        walks = walks.astype(np.int64)
        positives = [_in_scope(walks, layer, loss.scope) for layer in range(layers)]
        if loss.context == "infonce":
            # One positive per walk: which step of the scope it is taken from is drawn.
            draw = numpy_generator(derive_key(key, "steps"))
            return [_one_step(nodes, draw) for nodes in positives], []
        flat = [nodes.reshape(len(nodes), nodes.shape[1] * nodes.shape[2]) for nodes in positives]
        negatives = [
            self.sampler.sample_negatives(
                anchors, nodes.shape[1], derive_key(key, "negatives", layer)
            ).astype(np.int64)
            for layer, nodes in enumerate(flat)
        ]
        # A walk without a context asks for no negative either, or isolated nodes would have nothing
        # but negatives.
        return flat, [np.where(p >= 0, n, -1) for p, n in zip(flat, negatives, strict=True)]


def drawn_ahead(make: Callable[[int], T], indices: Iterable[int], workers: int) -> Iterator[T]:
    """Yield what ``make`` returns for each index in order, while threads prepare those to come."""
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[T]] = deque()
        for index in indices:
            waiting.append(pool.submit(make, index))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _in_scope(walks: Rows, layer: int, scope: str) -> Rows:
    """Return ``(anchors, walks, steps)`` of the walk steps that ``layer`` (from 0) predicts."""
    if scope == "exact":
        return walks[:, :, layer : layer + 1]
    return walks if scope == "all" else walks[:, :, : layer + 1]


def _one_step(nodes: Rows, draw: np.random.Generator) -> Rows:
    anchors, walks, steps = nodes.shape
    chosen = draw.integers(steps, size=(anchors, walks, 1))
    return np.take_along_axis(nodes, chosen, axis=2)[:, :, 0]


def _positions(nodes: Rows, rows: Rows) -> Rows:
    """Turn graph rows into positions in ``rows``; -1 stays."""
    order = np.argsort(rows, kind="stable")
    place = np.searchsorted(rows[order], np.maximum(nodes, 0))
    positions = order[np.minimum(place, len(rows) - 1)]
    return np.where(nodes >= 0, positions, -1)
