"""Training on Cora, whole graph per step: the compiled operations against their plain-torch form.

Both sides take the same steps with the same draws; only ``GRAPHHAM_OPS`` differs.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from benchmarks.context import Context, make_trainer
from benchmarks.measure import Sample, Side, interleave, once
from benchmarks.results import OURS, Comparison, Result
from graphham.datasets import load_dataset

# Epochs per sample; one of the paper preset, with its 50 walks a node, lasts long enough.
_EPOCHS = {"default": 5, "paper": 1}


def measure(context: Context) -> Result:
    """Compare epochs of the two presets."""
    torch.set_num_threads(1)
    graph = load_dataset("cora")
    result = Result("cora")
    result.notes.append("whole-graph steps of the two presets on the packaged Cora, groups 16 > 7")
    for preset in ("default", "paper"):
        settings = {"preset": preset, "groups": (16, 7), "train.batch": "full"}
        sides = {
            OURS: _epochs(graph, settings, "", context),
            "plain torch": _epochs(graph, settings, "reference", context),
        }
        samples = interleave(sides, context.rounds(5))
        result.comparisons.append(
            Comparison.of(preset, f"{preset} preset, one epoch", "epochs", 1, samples)
        )
    return result


def _epochs(graph: Any, settings: dict[str, Any], ops: str, context: Context) -> Side:
    trainer = make_trainer(graph, settings)
    count = context.pick(_EPOCHS[settings["preset"]], 1)
    epoch = 0

    def work() -> None:
        nonlocal epoch
        for _ in range(count):
            trainer._epoch(epoch)
            epoch = 0  # draws repeat, so both sides and all rounds do the same work

    def side() -> Sample:
        before = os.environ.get("GRAPHHAM_OPS")
        os.environ["GRAPHHAM_OPS"] = ops
        try:
            sample = once(work)
        finally:
            os.environ.pop("GRAPHHAM_OPS")
            if before is not None:
                os.environ["GRAPHHAM_OPS"] = before
        return Sample(sample.cpu / count, sample.wall / count)

    return side
