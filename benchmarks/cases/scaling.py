"""How the cost of an epoch and of reading all nodes grows from 10^5 to 10^8 directed edges.

Series: nodes and edges together at one mean degree, edges alone, and nodes alone. An epoch
is extrapolated from a few steps; reading all nodes is done whole.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks import graphs
from benchmarks.cases.training import draw_step
from benchmarks.context import Context, make_encoder, make_trainer, training_settings
from benchmarks.measure import Sample, Side, interleave, once
from benchmarks.results import Curve, Result

_DEGREE = graphs.NAMED["amazon"].mean_degree


def measure(context: Context, cost: str = "epoch") -> Result:
    """Measure an ``epoch`` as nodes and edges grow together, or all other series (``read``)."""
    torch.set_num_threads(1)
    result = Result("scaling" if cost == "epoch" else "scaling-read")
    if context.quick:
        together = [graphs.sized(10_000, 10.0), graphs.sized(30_000, 10.0)]
        edges = [graphs.Recipe(2000, degree) for degree in (5.0, 15.0)]
        nodes = [graphs.sized(20_000, degree) for degree in (20.0, 10.0)]
    else:
        together = [graphs.sized(10**power, _DEGREE) for power in (5, 6, 7)]
        together.append(graphs.NAMED["amazon"])
        edges = [graphs.Recipe(200_000, degree) for degree in (5.0, 15.0, 50.0, 150.0)]
        nodes = [graphs.sized(10_000_000, degree) for degree in (100.0, 33.0, 10.0, 5.0)]
    if cost == "epoch":
        result.curves += _epochs(
            context, result, together, "epoch-together", "edges", "nodes and edges together"
        )
    else:
        result.curves += [
            _reads(context, together, "read-together", "edges", "nodes and edges together"),
            _reads(context, edges, "read-edges", "edges", "edges alone, 200,000 nodes"),
            _reads(context, nodes, "read-nodes", "nodes", "nodes alone, 10 million edges"),
            *_epochs(
                context, result, nodes, "epoch-nodes", "nodes", "nodes alone, 10 million edges"
            ),
        ]
    result.notes.append(
        "paper preset, 256 seeds a step, 25 x 25 neighbours, 100 features; an epoch is the cost of "
        "a step times the number of steps"
    )
    return result


def _size(graph: Any, label: str) -> float:
    return float(graph.num_stored if label == "edges" else graph.num_nodes)


def _epochs(
    context: Context,
    result: Result,
    recipes: list[graphs.Recipe],
    name: str,
    label: str,
    what: str,
) -> list[Curve]:
    """Return an epoch's cost against the graph's size, and against the edges it samples."""
    settings = training_settings("paper", model__group_init="random")
    steps = context.pick(4, 1)
    sides: dict[str, Side] = {}
    sizes: list[float] = []
    counts: list[int] = []
    sampled: list[float] = []
    for number, recipe in enumerate(recipes):
        trainer = make_trainer(graphs.load(recipe), settings)
        sizes.append(_size(trainer.graph, label))
        counts.append(trainer.graph.num_nodes)
        sampled.append(_sampled_edges(trainer))
        sides[str(number)] = _side(trainer, steps)
    samples = interleave(sides, context.rounds(3))
    cost = [[sample.cpu for sample in samples[side]] for side in sides]
    size = trainer.config.train.batch_size
    each = [min(c) * size / n for c, n in zip(cost, counts, strict=True)]
    result.notes.append(
        f"{what}: a step takes {', '.join(f'{1e3 * c:.0f}' for c in each)} CPU-ms from the "
        "smallest graph to the largest, because the neighbourhoods of a small graph's targets "
        "overlap; with fan-outs that is bounded, and so an epoch is linear in the end. Against the "
        "edges an epoch samples, which is the work it does, the second curve has its exponent"
    )
    unit = "directed edges" if label == "edges" else "nodes"
    paid = "CPU-seconds an epoch"
    work = Curve(
        f"{name}-work", f"epoch against its work, {what}", "sampled edges", sampled, paid, cost
    )
    return [Curve(name, f"epoch against {what}", unit, sizes, paid, cost), work]


def _sampled_edges(trainer: Any) -> float:
    """Return the edges of an epoch's blocks, from one step's."""
    step = draw_step(trainer, 0)
    edges = sum(len(block.indices) for block in step.batch.blocks)
    return float(edges * trainer.graph.num_nodes / trainer.config.train.batch_size)


def _side(trainer: Any, steps: int) -> Side:
    batches = trainer.graph.num_nodes / trainer.config.train.batch_size

    def side() -> Sample:
        whole = once(lambda: [trainer._step(draw_step(trainer, i), 0) for i in range(steps)])
        return Sample(whole.cpu / steps * batches, whole.wall / steps * batches)

    return side


def _reads(
    context: Context, recipes: list[graphs.Recipe], name: str, label: str, what: str
) -> Curve:
    sizes: list[float] = []
    cost: list[list[float]] = []
    for recipe in recipes:
        graph = graphs.load(recipe)
        encoder, inputs = make_encoder(graph, training_settings("paper"))
        sizes.append(_size(graph, label))
        # A second run shows the spread where it is cheap.
        runs = 1 if graph.num_stored > 50_000_000 else context.rounds(3)
        read = _reader(encoder, graph, inputs)
        if graph.num_stored < 2_000_000:
            read()
        cost.append([once(read).cpu for _ in range(runs)])
    unit = "directed edges" if label == "edges" else "nodes"
    return Curve(name, f"all nodes read against {what}", unit, sizes, "CPU-seconds", cost)


def _reader(encoder: Any, graph: Any, inputs: Any) -> Any:
    return lambda: encoder.read(graph, inputs)
