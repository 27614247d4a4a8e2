"""Several workers on one graph: threads that prepare batches, and processes that train."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from benchmarks import graphs
from benchmarks.context import Context, make_trainer, training_settings
from benchmarks.measure import Sample, Side, interleave, once
from benchmarks.results import OURS, Comparison, Curve, Result


def measure(context: Context) -> Result:
    """Compare no, one and two preparing threads; then one and two processes."""
    torch.set_num_threads(1)
    result = Result("workers")
    graph = graphs.load(
        graphs.sized(context.pick(10_000_000, 20_000), 10.0 if context.quick else 50.0)
    )
    steps = context.pick(20, 2)
    counts = (0, 1, 2)
    sides = {str(count): _threads(graph, count, steps) for count in counts}
    samples = interleave(sides, context.rounds(3))
    result.curves.append(
        Curve(
            "threads",
            "training step against preparing threads",
            "threads that train or prepare",
            [float(1 + count) for count in counts],
            "seconds a step",
            [[sample.wall for sample in samples[str(count)]] for count in counts],
        )
    )
    result.comparisons.append(
        Comparison.of(
            "threads",
            "no preparing thread against one",
            "steps",
            1,
            {OURS: samples["1"], "no preparing thread": samples["0"]},
        )
    )
    return result


def _threads(graph: Any, count: int, steps: int) -> Side:
    settings = training_settings("paper", train__workers=count, model__group_init="random")
    trainer = make_trainer(graph, settings)

    def work() -> None:
        source = trainer.batches.epoch(0)
        for step in itertools.islice(source, steps):
            trainer._step(step, 0)
        source.close()

    def side() -> Sample:
        whole = once(work)
        return Sample(whole.cpu / steps, whole.wall / steps)

    return side
