"""A training step of GraphHAM against one of GAT in torch_geometric: same blocks, same pairs.

Both sides train on the steps our loader drew, so sampling, walks and the gathering of features cost
them the same and are timed for both. The peer is the strongest form of GAT we know: blocks trimmed
per layer and a sparse context table with plain SGD. It has one attention and one loss
where GraphHAM has two attentions, memberships, two context losses and nesting constraints.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks import graphs, peers
from benchmarks.cases.names import GAT
from benchmarks.context import Context, make_trainer, training_settings
from benchmarks.measure import Sample, Side, interleave, once
from benchmarks.results import OURS, Comparison, Result, Value
from benchmarks.roof import RoofProbe
from graphham.sampling.keys import derive_key
from graphham.training.objective import EncodedStep, loss_parts, total_loss
from graphham.training.optimizer import MAX_GRADIENT_NORM


def measure(context: Context, preset: str = "paper", heads: str = "1") -> Result:
    """Compare steps of one preset; both sides have the same number of attention heads."""
    torch.set_num_threads(1)
    name = "training" if preset == "paper" else f"training-{preset}"
    result = Result(name if heads == "1" else f"{name}-heads")
    graph = graphs.load(context.recipe("amazon"))
    reason = peers.reason_missing_here("torch_geometric", "torch_geometric")
    if reason:
        result.missing["torch_geometric"] = reason
    steps = context.pick(3, 1)
    settings = training_settings(preset, model__group_init="random", model__heads=int(heads))
    trainer = make_trainer(graph, settings)
    size = trainer.config.train.batch_size
    first = draw_step(trainer, 0)
    sides: dict[str, Side] = {OURS: _ours(trainer, steps)}
    if not reason:
        sides[GAT] = _peer(trainer, steps)
    width = trainer.inputs.num_features
    probe = RoofProbe(width, min(graph.num_nodes, 1_000_000), 100_000)
    samples = interleave({**sides, **probe.sides()}, context.rounds(7))
    # What any method must read: the features of the first block's sources, then each layer's
    # rows once per edge forward and backward.
    blocks = first.batch.blocks
    gathered = 4.0 * width * (blocks[0].num_sources + 2 * blocks[0].num_edges)
    gathered += 4.0 * trainer.config.layer_dims[0] * 3 * blocks[1].num_edges
    result.comparisons.append(
        Comparison.of(
            preset,
            f"{preset} preset, {size} seeds a step, heads on both sides: {heads}",
            "seeds",
            size,
            samples,
            probe.roof(samples),
            0.0,
            gathered,
        )
    )
    result.values += _breakdown(trainer, context.pick(9, 1))
    result.notes.append(
        f"{preset}: first block of {blocks[0].num_targets:,} targets, "
        f"{blocks[0].num_sources:,} sources and {blocks[0].num_edges:,} edges"
    )
    return result


def _breakdown(trainer: Any, steps: int) -> list[Value]:
    """Return the CPU-seconds of each part of our step, in the order in which they happen."""
    config, model = trainer.config, trainer.model
    held: dict[str, list[float]] = {}

    @contextmanager
    def part(name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        held.setdefault(name, []).append(time.process_time() - began)

    model.train()
    for number in range(steps):
        with part("sampling, walks, negatives, features"):
            step = draw_step(trainer, number)
        generator = trainer.source(step)
        with part("forward"):
            output = model(step.batch, 1.0, generator)
        with part("losses"):
            loss = total_loss(
                loss_parts(EncodedStep(model, trainer.config.loss, step, output, None, generator))
            )
        trainer.optimizer.zero_grad(set_to_none=True)
        with part("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        with part("weights and tables"):
            trainer.optimizer.clip(MAX_GRADIENT_NORM)
            trainer.optimizer.step()
            for table in trainer.tables:
                table.step(config.train.table_lr)
    return [Value(name, f"our step: {name}", "CPU-s", taken) for name, taken in held.items()]


def draw_step(trainer: Any, number: int) -> Any:
    """Draw one step of the first epoch without drawing those before it."""
    size = trainer.config.train.batch_size
    generator = np.random.default_rng(number)
    targets = generator.choice(trainer.graph.num_nodes, size, replace=False)
    return trainer.batches.sampled_step(targets, derive_key(0, "benchmark", number))


def _per_step(work: Callable[[Any], object], trainer: Any, steps: int) -> Side:
    """Return a side that draws and takes several steps; other ones every round."""
    numbers = itertools.count()

    def side() -> Sample:
        start = next(numbers) * steps
        whole = once(lambda: [work(draw_step(trainer, start + i)) for i in range(steps)])
        return Sample(whole.cpu / steps, whole.wall / steps)

    return side


def _ours(trainer: Any, steps: int) -> Side:
    return _per_step(lambda step: trainer._step(step, 0), trainer, steps)


def _peer(trainer: Any, steps: int) -> Side:
    from torch_geometric.nn import GATConv

    torch.manual_seed(0)
    config = trainer.config
    dim = config.layer_dims[0]
    layers = torch.nn.ModuleList(
        GATConv(width, dim, config.model.heads, concat=False, add_self_loops=False)
        for width in (trainer.inputs.num_features, dim)
    )
    dense = torch.optim.Adam(layers.parameters(), lr=0.01)
    has_table = bool(trainer.tables)
    table = torch.nn.Embedding(trainer.graph.num_nodes if has_table else 1, dim, sparse=True)
    # The lightest sparse optimiser there is; moments would double its memory and time.
    sparse = torch.optim.SGD(table.parameters(), lr=0.01)

    def work(step: Any) -> None:
        blocks = step.batch.blocks
        # The loader has gathered them; neither side gathers twice.
        x = step.batch.features.to_dense()
        for layer, block in zip(layers, blocks, strict=True):
            count = block.num_targets
            x = F.elu(layer((x, x[:count]), _edges(block), size=(len(x), count)))
        loss = _pair_loss(x, step, table) if has_table else _contrast(x, step)
        dense.zero_grad(set_to_none=True)
        sparse.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        dense.step()
        if has_table:
            sparse.step()

    return _per_step(work, trainer, steps)


def _edges(block: Any) -> torch.Tensor:
    return torch.from_numpy(np.stack([block.indices, block.edge_targets]).astype(np.int64))


def _pair_loss(x: torch.Tensor, step: Any, table: torch.nn.Embedding) -> torch.Tensor:
    """Skip-gram on the pairs of the last layer, which hold those of the first."""
    total = x.new_zeros(())
    anchors = x[step.anchors]
    for nodes, sign in ((step.positives[-1], 1.0), (step.negatives[-1], -1.0)):
        scores = torch.einsum("ad,acd->ac", anchors, table(nodes.clamp_min(0)))
        total = total - F.logsigmoid(sign * scores)[nodes >= 0].mean()
    return total


def _contrast(x: torch.Tensor, step: Any) -> torch.Tensor:
    """Contrast every anchor's context against those of the batch."""
    nodes = step.positives[-1]
    valid = nodes >= 0
    left = F.normalize(x[step.anchors[:, None].expand_as(nodes)[valid]], dim=1)
    right = F.normalize(x[nodes[valid]], dim=1)
    logits = left @ right.T / 0.2
    return F.cross_entropy(logits, torch.arange(len(logits)))
