"""A fit of Cora from graph to result: the compiled operations against their plain-torch form.

Both sides take the same epochs with the same draws; only ``GRAPHHAM_OPS`` differs. The plain form
is what runs on other devices: gathers and scatters that write out edges x dim and pairs x dim,
torch's sparse products, and autograd over single torch operations.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from benchmarks.context import Context
from benchmarks.measure import Sample, Side, interleave, once
from benchmarks.results import OURS, Comparison, Result, Value
from graphham.config.settings import make_config
from graphham.datasets import load_dataset
from graphham.methods.fitting import fit_graph
from graphham.model import losses

_PRODUCTS = "products"
_SHARED = {"groups": (16, 7), "train.batch": "full"}
# Patience is switched off so that rounding cannot end one side's fit earlier. The paper's 100
# epochs with 50 walks a node would take minutes on the plain side; a tenth shows the same ratio.
_FITS: dict[str, tuple[str, dict[str, Any], int]] = {
    "default": ("default preset", {"preset": "default"}, 80),
    "classify": (
        "default preset with labels",
        {"preset": "default", "task": "classify", "train.patience": 10_000},
        60,
    ),
    "paper": ("paper preset", {"preset": "paper"}, 10),
}


def measure(context: Context) -> Result:
    """Compare fits of the two presets, and of the classifier."""
    torch.set_num_threads(1)
    graph = load_dataset("cora")
    result = Result("cora")
    result.notes.append(
        "whole-graph fits of the packaged Cora, groups 16 > 7, set-up and read-out included"
    )
    for name, (title, settings, epochs) in _FITS.items():
        chosen = {**_SHARED, **settings, "train.epochs": context.pick(epochs, 2)}
        sides = {
            OURS: _fit(graph, chosen, ""),
            "plain torch": _fit(graph, chosen, "reference"),
        }
        if name == "default":
            sides[_PRODUCTS] = _products(_contrasts(graph, chosen))
        samples = interleave(sides, context.rounds(3))
        if name == "default":
            alone = [sample.cpu for sample in samples.pop(_PRODUCTS)]
            words = "the matrix products of the default fit's contrasts, which both sides make"
            result.values.append(Value("products", words, "CPU-s", alone))
        told = f"{title}, one fit of {chosen['train.epochs']} epochs"
        result.comparisons.append(Comparison.of(name, told, "fits", 1, samples))
    return result


def _contrasts(graph: Any, settings: dict[str, Any]) -> list[tuple[int, int, int]]:
    """Return pairs, width and number of sets of every contrast that a fit makes."""
    seen: list[tuple[int, int, int]] = []
    held: Any = losses
    real = held.contrast

    def noted(anchors: Any, positives: Any, temperature: float, count: int) -> Any:
        seen.append((*anchors.shape, count))
        return real(anchors, positives, temperature, count)

    held.contrast = noted
    try:
        fit_graph(graph, make_config(settings))
    finally:
        held.contrast = real
    return seen


def _products(contrasts: list[tuple[int, int, int]]) -> Side:
    """Make the scores of each set and both their gradients, and nothing else."""

    def work() -> None:
        for pairs, width, count in contrasts:
            for left in torch.ones(pairs, width).tensor_split(count):
                scores = torch.mm(left, left.t())
                torch.mm(scores, left)
                torch.mm(scores.t(), left)

    return lambda: once(work)


def _fit(graph: Any, settings: dict[str, Any], ops: str) -> Side:
    config = make_config(settings)

    def side() -> Sample:
        before = os.environ.get("GRAPHHAM_OPS")
        os.environ["GRAPHHAM_OPS"] = ops
        try:
            return once(lambda: fit_graph(graph, config))
        finally:
            os.environ.pop("GRAPHHAM_OPS")
            if before is not None:
                os.environ["GRAPHHAM_OPS"] = before

    return side
