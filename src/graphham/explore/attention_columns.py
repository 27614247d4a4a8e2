"""Both attentions of every node at once, computed on first use and kept."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.report.view import RunView
from graphham.system.peak_memory import machine_memory

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run

# Up to this many nodes the attentions take seconds and are computed before the first request.
QUICK_NODES = 300_000
# Share of the machine's memory that looking at a run may take.
_MEMORY_SHARE = 0.5
_USUAL_MACHINE = 8 << 30  # where the system does not say


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """One layer's attentions in compressed rows: who listens to whom, and how much."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    node: npt.NDArray[np.float32]
    group: npt.NDArray[np.float32]
    weight: npt.NDArray[np.float32]


class AttentionCache:
    """Computes the attentions of a run once.

    Args:
        view: The run.
    """

    def __init__(self, view: RunView) -> None:
        self._view = view
        self._lock = threading.Lock()
        self._layers: list[LayerAttention] | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_quick(self) -> bool:
        """Whether the attentions take seconds, so that they need no request."""
        return self._view.num_nodes <= QUICK_NODES

    def start(self) -> None:
        """Compute the attentions in a thread of their own, once."""
        if self._thread is None and not self.is_ready:
            self._thread = threading.Thread(target=self.layers, daemon=True)
            self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for that thread; return whether none is at work any more."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    @property
    def unavailable_reason(self) -> str | None:
        """Why there are no attentions to show, in one sentence; ``None`` if there are."""
        if self._view.graph is None:
            return "The run does not keep its graph; start the explorer with --graph."
        if "model" not in self._view.run.summary:
            return f"The method {self._view.run.method} has no attentions to show."
        needed = attention_bytes(self._view.run, self._view.graph)
        if needed > _MEMORY_SHARE * _machine_bytes():
            return (
                f"Computing the attentions of {self._view.num_nodes:,} nodes would take about "
                f"{needed / 2**30:.1f} GiB, more than half of this machine's memory, so they are "
                f"not shown."
            )
        return None

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`layers` returns at once."""
        return self._layers is not None or self.unavailable_reason is not None

    def layers(self) -> list[LayerAttention]:
        """Return the attentions per layer; empty if there are none."""
        if self.unavailable_reason is not None:
            return []
        with self._lock:
            if self._layers is None:
                graph = self._view.graph
                assert graph is not None
                self._layers = compute_attention(self._view.run, graph)
            return self._layers


def attention_bytes(run: Run, graph: Graph) -> int:
    """Return about how many bytes :func:`compute_attention` takes."""
    heads = int(run.config.get("model", {}).get("heads", 4))
    edges = 2 * graph.num_edges + graph.num_nodes
    # Three attentions per edge, head and layer with their intermediate values; a dozen states.
    return 4 * (6 * edges * heads + 12 * graph.num_nodes * int(run.embedding.shape[1]))


def _machine_bytes() -> int:
    return machine_memory() or _USUAL_MACHINE


def compute_attention(run: Run, graph: Graph) -> list[LayerAttention]:
    """Return both attentions over every neighbourhood, per layer, heads averaged."""
    import torch

    from graphham.readout.whole_graph import full_batch
    from graphham.results.encoder import Encoder

    encoder = Encoder.from_run(run)
    model = encoder.model
    batch = full_batch(model, encoder.inputs_of(graph, graph.ids), graph)
    layers = []
    with torch.no_grad():
        model.eval()
        for level, layer in enumerate(model.encode(batch)):
            block = batch.blocks[level]
            weights = model.layer(level).attention_weights(layer.x, block, layer.assigned.z)
            layers.append(
                LayerAttention(
                    np.asarray(block.indptr),
                    np.asarray(block.indices),
                    weights.node.mean(1).cpu().numpy(),
                    weights.group.mean(1).cpu().numpy(),
                    weights.weight.mean(1).cpu().numpy(),
                )
            )
    return layers
