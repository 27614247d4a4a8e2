"""The benchmarks, shortest first; each module has one function ``measure(context)``."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """One benchmark.

    Args:
        title: What it measures, in words.
        module: Module below this package.
        environment: ``own`` for the caller's interpreter, otherwise the peers' environment.
        minutes: About how long it takes on two cores, graphs made already.
        options: Further arguments of its function.
    """

    title: str
    module: str
    environment: str
    minutes: float
    options: dict[str, str] = field(default_factory=dict)


_OWN, _PEERS = "own", "torch"
_PAPER, _DEFAULT = {"preset": "paper"}, {"preset": "default"}
CASES = {
    "cora": Case("Cora, compiled against plain torch", "cora", _OWN, 3),
    "sampling": Case("Neighbour sampling", "sampling", _PEERS, 2),
    "growth": Case("Cost against groups, width, heads and fan-out", "growth", _OWN, 3),
    "walks": Case("Random walks", "walks", _PEERS, 4),
    "attention": Case("The attention block", "attention", _PEERS, 4),
    "workers": Case("Several workers", "workers", _OWN, 9),
    "training": Case("The training step against GAT", "training", _PEERS, 4, _PAPER),
    "training-heads": Case(
        "The training step against GAT, four heads on both sides",
        "training",
        _PEERS,
        4,
        {"preset": "paper", "heads": "4"},
    ),
    "training-default": Case(
        "The training step against GAT, default preset", "training", _PEERS, 6, _DEFAULT
    ),
    "inference": Case("All nodes at Amazon size", "inference", _OWN, 3, _PAPER),
    "inference-default": Case(
        "All nodes at Amazon size, default preset", "inference", _OWN, 3, _DEFAULT
    ),
    "epoch": Case("Training at Amazon size", "epoch", _OWN, 4, _PAPER),
    "epoch-default": Case("Training at Amazon size, default preset", "epoch", _OWN, 4, _DEFAULT),
    "ingest": Case("60 million rows with string ids", "ingest", _OWN, 5),
    "scaling": Case("An epoch against nodes and edges", "scaling", _OWN, 4, {"cost": "epoch"}),
    "scaling-read": Case(
        "Reading all nodes against nodes and edges", "scaling", _OWN, 6, {"cost": "read"}
    ),
}
