"""How the cost of a training step grows with groups, width, heads and fan-out, one at a time."""

from __future__ import annotations

import gc
from typing import Any

import torch

from benchmarks import graphs
from benchmarks.cases.training import draw_step
from benchmarks.context import Context, make_trainer, training_settings
from benchmarks.measure import Sample, Side, interleave, once
from benchmarks.results import Curve, Result

_CURVES: dict[str, tuple[str, tuple[int, ...]]] = {
    "groups": ("groups of the finest level, K", (4, 16, 64, 256)),
    "dim": ("width of the embedding", (32, 64, 128, 256, 512)),
    "heads": ("attention heads", (1, 2, 4, 8)),
    "fanout": ("neighbours sampled per layer", (3, 6, 12, 25, 50)),
}


def measure(context: Context) -> Result:
    """Interleave all values of one setting at a time."""
    torch.set_num_threads(1)
    result = Result("growth")
    recipe = graphs.sized(context.pick(10_000_000, 20_000), 50.0 if not context.quick else 10.0)
    graph = graphs.load(recipe)
    steps = context.pick(3, 1)
    for name, (label, sizes) in _CURVES.items():
        tried = sizes[:2] if context.quick else sizes
        sides = {str(size): _steps(graph, name, size, steps) for size in tried}
        samples = interleave(sides, context.rounds(3))
        cost = [[sample.cpu for sample in samples[str(size)]] for size in tried]
        result.curves.append(
            Curve(
                name,
                f"training step against {label}",
                label,
                [float(size) for size in tried],
                "CPU-seconds a step",
                cost,
            )
        )
        gc.collect()
    result.notes.append(
        f"paper preset, 256 seeds a step, {graph.num_nodes:,} nodes, {graph.num_stored:,} directed "
        f"edges; groups 16 > 8, width 128, one head, 25 x 25 neighbours where they do not vary"
    )
    return result


def _steps(graph: Any, name: str, size: int, steps: int) -> Side:
    changes: dict[str, Any] = {"model__group_init": "random"}
    if name == "groups":
        changes["groups"] = (size, max(2, size // 2))
    elif name == "dim":
        changes["dim"] = size
    elif name == "heads":
        changes["model__heads"] = size
    else:
        changes["train__fanouts"] = (size, size)
    trainer = make_trainer(graph, training_settings("paper", **changes))

    def side() -> Sample:
        whole = once(lambda: [trainer._step(draw_step(trainer, i), 0) for i in range(steps)])
        return Sample(whole.cpu / steps, whole.wall / steps)

    return side
