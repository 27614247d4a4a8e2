"""A fitted GraphHAM as a plain ``torch.nn.Module`` that takes ``(x, edge_index)``.

The network is written out in torch operations alone, so that it can be put into other modules,
trained on, exported with ``torch.export`` and, where PyTorch Geometric is installed, be looked at
by its explainers. Nothing here needs PyTorch Geometric; it is imported only with ``pyg=True``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.ids import NodeIds
from graphham.model.network import activate, toward_groups

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.model.attention import MembershipAttention
    from graphham.results.encoder import Encoder


class EdgeAttention(nn.Module):
    """One fitted layer over an edge list, in torch operations alone.

    Args:
        layer: The layer whose parameters are shared.
        messages: Sums weighted messages: ``messages(values, edge_index, alpha)``.
    """

    def __init__(self, layer: MembershipAttention, messages: nn.Module) -> None:
        super().__init__()
        self.layer, self.messages = layer, messages

    def forward(self, x: Tensor, edge_index: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(num_nodes, out_dim)`` states and ``(num_edges, heads)`` weights.

        Args:
            x: ``(num_nodes, in_dim)`` input.
            edge_index: ``(2, num_edges)`` source and target rows.
            z: ``(num_nodes, groups + d)`` memberships, in layer 1 with own features behind them.
        """
        layer = self.layer
        values = (x @ layer.weight).view(x.shape[0], layer.heads, layer.out_dim)
        source, target = edge_index[0], edge_index[1]
        left, right = (values * layer.attention[0]).sum(2), (values * layer.attention[1]).sum(2)
        node = F.leaky_relu(left[target] + right[source], layer.slope)
        group = self._group_scores(z, source, target)
        count = x.shape[0]
        if group is None:
            alpha = _softmax(node, target, count)
        elif layer.product == "literal":
            spread = group.expand_as(node)
            alpha = _softmax(node, target, count) * _softmax(spread, target, count)
        else:
            alpha = _softmax(node + group, target, count)
        out: Tensor = self.messages(values, edge_index, alpha).mean(dim=1)
        return (out if layer.shortcut is None else out + x @ layer.shortcut), alpha

    def _group_scores(self, z: Tensor, source: Tensor, target: Tensor) -> Tensor | None:
        layer = self.layer
        if layer.group_score == "none":
            return None
        if layer.pair_score is not None:
            scores = (layer.pulls(z)[target] * z[source]).sum(1, keepdim=True)
            if not layer.reads_likeness(z):
                return scores
            own = layer.self_likeness(z)[target].unsqueeze(-1)
            return torch.where((source == target).unsqueeze(-1), scores + own, scores)
        own, told = layer._additive_terms()
        return F.leaky_relu((z @ own)[target] + (z @ told)[source], layer.slope)


class WeightedSum(nn.Module):
    """Sum the messages of every target's edges."""

    def forward(self, values: Tensor, edge_index: Tensor, alpha: Tensor) -> Tensor:
        """Return ``(num_nodes, heads, dim)``."""
        told = values[edge_index[0]] * alpha.unsqueeze(-1)
        return torch.zeros_like(values).index_add(0, edge_index[1], told)


class EdgeNetwork(nn.Module):
    """All layers over an edge list: what ``torch.export`` takes.

    Args:
        encoder: The fitted encoder; parameters are shared with it.
        pyg: Sum messages with PyTorch Geometric's ``MessagePassing``, whose hooks explainers use.
    """

    def __init__(self, encoder: Encoder, pyg: bool = False) -> None:
        super().__init__()
        network = encoder.model
        self.groups = tuple(network.groups)
        self.has_block_groups = network.has_block_groups
        self.activation = network.settings.activation
        self.group_centers: Tensor | None
        self.register_buffer("group_centers", network.group_centers)
        self.layers = nn.ModuleList(
            EdgeAttention(network.layer(level), _message_passing() if pyg else WeightedSum())
            for level in range(len(self.groups))
        )

    def forward(self, h: Tensor, edge_index: Tensor, memberships: Tensor) -> Tensor:
        """Return ``(num_nodes, dim)``: the layers' unit vectors side by side.

        Args:
            h: ``(num_nodes, num_inputs)`` scaled inputs, of :meth:`TorchEncoder.prepare`.
            edge_index: ``(2, num_edges)`` with the self edges the model was fitted with.
            memberships: ``(num_nodes, sum of K_l + d)`` the block model's columns; none without
                one.
        """
        states, _ = self.passes(h, edge_index, memberships)
        units = [F.normalize(state, dim=1) for state in states]
        units[-1] = toward_groups(units[-1], memberships[:, : self.groups[0]], self.group_centers)
        return torch.cat(units, dim=1)

    def passes(
        self, h: Tensor, edge_index: Tensor, memberships: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the states and the attention of every layer."""
        states: list[Tensor] = []
        weights: list[Tensor] = []
        first = 0
        for level, count in enumerate(self.groups):
            layer = self.layers[level]
            assert isinstance(layer, EdgeAttention)
            if self.has_block_groups:
                z = memberships[:, first : first + count]
                if level == 0:
                    z = torch.cat([z, memberships[:, sum(self.groups) :]], dim=1)
            else:
                z = layer.layer.means(layer.layer.affinities(h))
            first += count
            h, alpha = layer(h, edge_index, z)
            if level + 1 < len(self.groups):
                h = activate(h, self.activation)
            states.append(h)
            weights.append(alpha)
        return states, weights


class TorchEncoder(nn.Module):
    """A fitted GraphHAM that takes ``(x, edge_index)``; made by ``model.to_torch()``.

    Args:
        encoder: The fitted encoder; parameters are shared with it.
        ids: The training nodes.
        is_directed: Whether the model was fitted to directed links.
        pyg: Use PyTorch Geometric's ``MessagePassing``, so that its explainers can read along.
    """

    def __init__(
        self, encoder: Encoder, ids: NodeIds, is_directed: bool = False, pyg: bool = False
    ) -> None:
        super().__init__()
        self.network = EdgeNetwork(encoder, pyg)
        self._encoder, self._ids, self._is_directed = encoder, ids, is_directed

    def forward(self, x: Tensor | None, edge_index: Tensor) -> Tensor:
        """Return the ``(num_nodes, dim)`` embedding, as ``model.transform`` does.

        Gradients reach the parameters; inputs and groups are read outside of torch.

        Args:
            x: ``(num_nodes, num_features)`` the features as you have them, unscaled. ``None`` for
                the training nodes of a model that was fitted without features.
            edge_index: ``(2, num_edges)``; of an undirected model every link in both directions.
        """
        out: Tensor = self.network(*self.prepare(x, edge_index))
        return out

    def attention(self, x: Tensor | None, edge_index: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the edges with self edges behind them, and per layer ``(num_edges, heads)``."""
        h, grown, memberships = self.prepare(x, edge_index)
        return grown, self.network.passes(h, grown, memberships)[1]

    @torch.no_grad()
    def prepare(self, x: Tensor | None, edge_index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what :class:`EdgeNetwork` takes: scaled inputs, edges, memberships."""
        graph = self._graph(x, edge_index)
        inputs = self._encoder.inputs_of(graph, self._ids)
        device = edge_index.device
        kept = edge_index
        if self._encoder.config.model.self_edge:
            loops = torch.arange(graph.num_nodes, device=device)
            kept = torch.cat([edge_index, torch.stack([loops, loops])], dim=1)
        return inputs.rows(None).to_dense().to(device), kept, inputs.memberships.to(device)

    def _graph(self, x: Tensor | None, edge_index: Tensor) -> Graph:
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise InputError(
                f"edge_index must have shape (2, num_edges), got {tuple(edge_index.shape)}"
            )
        count = len(self._ids) if x is None else len(x)
        source, target = edge_index.cpu().numpy()
        features: Any = None
        if x is not None:
            dense = x.detach().cpu().numpy().astype(np.float32)
            features = sp.csr_matrix(dense) if (dense == 0).mean() > 0.5 else dense
        is_training = x is None
        # Rows that are no training nodes are new ones: their ids must not be known.
        ids = self._ids if is_training else NodeIds([f"\0row {row}" for row in range(count)])
        # The target reads the source, so a link leads from the target.
        graph = build_graph(
            *((target, source) if self._is_directed else (source, target)),
            count,
            ids=ids,
            features=features,
            directed=self._is_directed,
        )
        if graph.num_stored != edge_index.shape[1]:
            raise InputError(
                f"edge_index has {edge_index.shape[1]:,} columns where the graph has "
                f"{graph.num_stored:,} links; list each link "
                f"{'once' if self._is_directed else 'in both directions'}, without self-loops and "
                f"repetitions (torch_geometric.utils.to_undirected, coalesce, remove_self_loops)"
            )
        return graph


def _softmax(scores: Tensor, target: Tensor, count: int) -> Tensor:
    """Return the softmax of ``(num_edges, heads)`` scores over the edges of each target."""
    places = target.unsqueeze(-1).expand_as(scores)
    lowest = scores.new_full((count, scores.shape[1]), -torch.inf)
    # The largest score cancels out of the result, so no gradient flows through it.
    top = lowest.scatter_reduce(0, places, scores.detach(), "amax")
    powers = torch.exp(scores - top[target])
    total = scores.new_zeros((count, scores.shape[1])).index_add(0, target, powers)
    return powers / total[target]


def _message_passing() -> nn.Module:
    """Return :class:`WeightedSum` as a ``MessagePassing`` of PyTorch Geometric."""
    try:
        base: Any = importlib.import_module("torch_geometric.nn").MessagePassing
    except ImportError:
        raise InputError(
            "pyg=True needs the package torch_geometric; install it, or leave pyg out: the module "
            "takes (x, edge_index) either way"
        ) from None

    class EdgeMessages(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(aggr="add", node_dim=0)

        def forward(self, values: Tensor, edge_index: Tensor, alpha: Tensor) -> Any:
            return self.propagate(edge_index, x=values, alpha=alpha)

        def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
            return x_j * alpha.unsqueeze(-1)

    made: nn.Module = EdgeMessages()
    return made
