"""The GraphHAM layer: groups as vectors, and attention over nodes and over their groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphham import kernels
from graphham.errors import InputError
from graphham.model.feature_rows import FeatureRows
from graphham.model.membership import assign, cosine_affinity, gumbel_noise

if TYPE_CHECKING:
    from graphham.graph.neighborhoods import Block
    from graphham.sampling.random_stream import Source

_MANY = 1 << 16


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """How each edge of a block was weighted.

    Args:
        node: ``(num_edges, heads)`` alpha (E6).
        group: ``(num_edges, heads)`` lambda (E7); uniform where group attention is off.
        weight: ``(num_edges, heads)`` w (E8), what messages were multiplied with.
    """

    node: Tensor
    group: Tensor
    weight: Tensor


class MembershipAttention(nn.Module):
    r"""One GraphHAM layer (E1-E9), usable in any torch network.

    Every node gets an affinity to each of ``groups`` group vectors and a relaxed assignment z drawn
    from it; messages are weighted by node attention and by attention between the groups of the two
    ends, renormalised over each neighbourhood:

    .. math::
        h_i = \tfrac1M \sum_m \sum_{j \in S(i)}
              \mathrm{softmax}_j(e^m_{ij} + f_{ij})\, W^m x_j

    Args:
        in_dim: Width of the input.
        out_dim: Width of the output; heads are averaged, not joined.
        groups: Number of latent groups K.
        heads: Number of attention heads M.
        membership_dim: Width of the vectors groups are compared with; the input's when not given.
        group_score: ``pair`` has a score B[k, k'] per pair of groups, read from the block model
            where there is one and learned otherwise; ``additive`` is the paper's
            a . [W phi_k ; W phi_k'], ``none`` drops group attention (minus-lambda).
        affinity: ``cosine`` (scaled by ``affinity_scale``) or ``dot`` with a learned scale.
        affinity_scale: Scale of the cosine affinity.
        product: ``renormalised`` or the ``literal`` product of the two softmaxes (A5).
        separate_attention: Own attention vector for the additive group score (A12).
        assignment: Where Gumbel noise is added: ``log``, ``literal`` or ``mean`` for none (A3).
        dirichlet: Draw memberships from a Dirichlet first (E3).
        tau: Temperature of the assignment.
        slope: LeakyReLU slope.
        residual: Add a linear path around the attention.
        self_edge: Let a node attend to itself when an edge list is given.

    Shapes:
        - input: ``(num_nodes, in_dim)`` and an ``edge_index`` of ``(2, num_edges)`` source and
          target rows, or a :class:`~graphham.graph.neighborhoods.Block`
        - output: ``(num_targets, out_dim)``
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        groups: int,
        heads: int = 1,
        *,
        membership_dim: int | None = None,
        group_score: Literal["pair", "additive", "none"] = "pair",
        affinity: Literal["cosine", "dot"] = "cosine",
        affinity_scale: float = 8.0,
        product: Literal["renormalised", "literal"] = "renormalised",
        separate_attention: bool = False,
        assignment: Literal["log", "literal", "mean"] = "log",
        dirichlet: bool = False,
        tau: float = 1.0,
        slope: float = 0.2,
        residual: bool = False,
        self_edge: bool = True,
    ) -> None:
        super().__init__()
        self.in_dim, self.out_dim, self.groups, self.heads = in_dim, out_dim, groups, heads
        self.membership_dim = in_dim if membership_dim is None else membership_dim
        if group_score == "additive" and self.membership_dim != in_dim:
            raise InputError(
                "the additive group score needs group vectors in the layer's input space; "
                "use group_score='pair' or membership_input='state'"
            )
        self.group_score, self.affinity, self.affinity_scale = group_score, affinity, affinity_scale
        self.product, self.assignment, self.dirichlet = product, assignment, dirichlet
        self.tau, self.slope, self.self_edge = tau, slope, self_edge
        self.weight = nn.Parameter(torch.empty(in_dim, heads * out_dim))
        self.attention = nn.Parameter(torch.empty(2, heads, out_dim))
        self.group_embedding = nn.Parameter(torch.empty(groups, self.membership_dim))
        self.log_scale = nn.Parameter(torch.zeros(())) if affinity == "dot" else None
        self.pair_score = (
            nn.Parameter(torch.empty(groups, groups)) if group_score == "pair" else None
        )
        # What the cosine of both ends' own features counts in the pair score, and its mean over
        # links. No parameters: they are found together with the groups.
        self.likeness: Tensor | None
        self.register_buffer("likeness", torch.zeros(2) if group_score == "pair" else None)
        own = group_score == "additive" and separate_attention
        self.group_attention = nn.Parameter(torch.empty(2, heads, out_dim)) if own else None
        self.shortcut = nn.Parameter(torch.empty(in_dim, out_dim)) if residual else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters anew."""
        nn.init.xavier_uniform_(self.weight, generator=generator)
        for vector in (self.attention, self.group_attention):
            if vector is not None:
                nn.init.normal_(vector, std=0.1, generator=generator)
        nn.init.normal_(
            self.group_embedding, std=max(self.membership_dim, 1) ** -0.5, generator=generator
        )
        if self.shortcut is not None:
            nn.init.xavier_uniform_(self.shortcut, generator=generator)
        if self.pair_score is not None:
            with torch.no_grad():
                # A mild preference for the own group: what homophily would teach it anyway.
                self.pair_score.copy_(0.5 * torch.eye(self.groups))

    def affinities(self, states: Tensor | FeatureRows) -> Tensor:
        """Return ``(nodes, groups)`` affinities u (E1) of membership states."""
        if self.affinity == "cosine":
            if isinstance(states, FeatureRows):
                products = states.matmul(F.normalize(self.group_embedding, dim=1).T)
                lengths = states.norms().to(products).clamp_min(1e-12)
                return self.affinity_scale * products / lengths[:, None]
            if len(states) >= _MANY and not states.requires_grad:
                # A copy of so many rows at unit length would take longer than their product.
                lengths = torch.linalg.vector_norm(states, dim=1, keepdim=True)
                out: Tensor = states @ self._group_factors() / lengths.clamp_min(1e-12)
                return out
            return cosine_affinity(states, self.group_embedding, self.affinity_scale)
        return states.matmul(self._group_factors())

    def assigned(
        self,
        states: Tensor | FeatureRows,
        generator: Source | None,
        tau: float,
        lead: int,
        keyed: bool = False,
    ) -> kernels.Assigned:
        """Return affinities u (E1) and relaxed assignments z (E4); mean ones without a generator.

        Args:
            states: ``(nodes, membership_dim)`` membership states.
            generator: Source of the noise.
            tau: Temperature.
            lead: How many of the first nodes anyone but their neighbours asks about.
            keyed: Take one key from the generator and the noise from a compiled loop, where the
                settings allow it: for the many sources of a sampled batch.
        """
        keyed = keyed and generator is not None
        keyed = keyed and self.assignment == "log" and not self.dirichlet
        dense = states.dense if isinstance(states, FeatureRows) else states
        if keyed and dense is not None and not dense.requires_grad:
            return kernels.assign_sources(
                dense,
                self._group_factors(),
                tau,
                kernels.draw_key(generator),
                lead,
                by_length=self.affinity == "cosine",
                mixed=self._additive_terms()[1] if self.group_score == "additive" else None,
            )
        affinity = self.affinities(states)
        if keyed:
            z = kernels.gumbel_softmax(affinity, tau, kernels.draw_key(generator))
        elif generator is None or self.assignment == "mean":
            z = self.means(affinity)
        else:
            noise = gumbel_noise(affinity.shape, generator, affinity)
            z = assign(affinity, tau, noise, self.assignment, self.dirichlet, generator)
        return kernels.Assigned(z, z[:lead], affinity[:lead])

    def means(self, affinity: Tensor) -> Tensor:
        """Return ``(nodes, groups)`` mean memberships of affinities (E2)."""
        return assign(affinity, 1.0, None, self.assignment, self.dirichlet)

    def _group_factors(self) -> Tensor:
        """Return the ``(membership_dim, groups)`` matrix whose product with states is u.

        For the cosine the product is still to be divided by the states' lengths.
        """
        if self.affinity == "cosine":
            return self.affinity_scale * F.normalize(self.group_embedding, dim=1).T
        assert self.log_scale is not None
        # The scale goes onto the groups, which are few, and not onto every node.
        return self.group_embedding.T * self.log_scale.exp()

    def propagate(
        self, x: Tensor | FeatureRows, block: Block, z: Tensor | kernels.Assigned
    ) -> Tensor:
        """Return ``(num_targets, out_dim)`` aggregated messages (E5-E9).

        Args:
            x: ``(num_sources, in_dim)`` input states or features.
            block: The neighbourhood.
            z: ``(num_sources, groups)`` assignments, or all of :meth:`assigned` with at least the
                block's targets in the lead. For the pair score unit rows of own features may stand
                behind them; see :meth:`pulls`.
        """
        assigned = z if isinstance(z, kernels.Assigned) else kernels.plain_assignment(z)
        is_literal = self.product == "literal" and self.group_score != "none"
        # The fused loops know no self edges that score other than links do.
        if is_literal or self.reads_likeness(assigned.z):
            projected = self._project(x)
            weights = self._weights(
                self._node_scores(projected, block), self._group_scores(assigned, block), block
            )
            out = kernels.aggregate(weights, projected, block).mean(dim=1)
        elif isinstance(x, FeatureRows) and x.dense is None:
            # Sparse features are wide: gather what is left of them after the product.
            groups = self._group_terms(assigned, block)
            out = kernels.attend(
                self._project(x), self.attention, block, groups=groups, slope=self.slope
            )
            out = out.squeeze(1) if self.heads == 1 else out.mean(dim=1)
        else:
            out = kernels.fused_attention(
                _plain(x),
                self.weight,
                self.attention,
                block,
                groups=self._group_terms(assigned, block),
                slope=self.slope,
                average=True,
            )
        if self.shortcut is None:
            return out
        if isinstance(x, FeatureRows) and x.dense is None:
            around: Tensor = x.matmul(self.shortcut)
            return out + around[: block.num_targets]
        return out + _plain(x)[: block.num_targets] @ self.shortcut

    def attention_weights(
        self, x: Tensor | FeatureRows, block: Block, z: Tensor
    ) -> AttentionWeights:
        """Return both attentions as distributions over each neighbourhood (E6-E8)."""
        e = self._node_scores(self._project(x), block)
        f = self._group_scores(kernels.plain_assignment(z), block)
        flat = torch.zeros_like(e) if f is None else f.expand_as(e).contiguous()
        return AttentionWeights(
            kernels.edge_softmax(e, block),
            kernels.edge_softmax(flat, block),
            self._weights(e, f, block),
        )

    def group_scores(self, z: Tensor, block: Block) -> Tensor | None:
        """Return ``(num_edges, 1 or heads)`` f (E7); ``None`` without group attention."""
        return self._group_scores(kernels.plain_assignment(z), block)

    def reads_likeness(self, z: Tensor) -> bool:
        """Whether own features stand behind assignments and count in the pair score."""
        return self.likeness is not None and z.shape[1] > self.groups

    def likeness_scores(self, own: Tensor, told: Tensor, block: Block) -> Tensor:
        """Return ``(num_edges, 1)`` pair scores z_i B z_j + slope * cos(x_i, x_j).

        A node is as like itself as nobody else is: the weight of its own message would drown all
        others. A self edge gets the usual cosine of a link instead.

        Args:
            own: ``(num_targets, groups + d)`` assignments and unit features of the targets.
            told: ``(num_sources, groups + d)`` the same of the sources.
            block: The neighbourhood.
        """
        assert self.likeness is not None
        scores = kernels.edge_dot(self.pulls(own), told, block)[:, None]
        if not block.self_edge:
            return scores
        places = block.to(own.device).indptr[:-1]
        return scores.index_add(0, places, self.self_likeness(own)[:, None])

    def pulls(self, z: Tensor) -> Tensor:
        """Return ``(nodes, groups + d)`` what targets bring to the pair scores of their edges.

        Args:
            z: ``(nodes, groups + d)`` assignments, and behind them unit features if there are any.
        """
        assert self.pair_score is not None
        pulled = z[:, : self.groups] @ self.pair_score
        if not self.reads_likeness(z):
            return pulled
        assert self.likeness is not None
        return torch.cat([pulled, self.likeness[0] * z[:, self.groups :]], dim=1)

    def self_likeness(self, z: Tensor) -> Tensor:
        """Return ``(nodes,)`` what makes the cosine of self edges that of a usual link."""
        assert self.likeness is not None
        return self.likeness[0] * (self.likeness[1] - z[:, self.groups :].square().sum(1))

    def _project(self, x: Tensor | FeatureRows) -> Tensor:
        return x.matmul(self.weight).view(-1, self.heads, self.out_dim)

    def _weights(self, e: Tensor, f: Tensor | None, block: Block) -> Tensor:
        """Return ``(num_edges, heads)`` w (E8) from node scores and group scores."""
        if f is None:
            weights = kernels.edge_softmax(e, block)
        elif self.product == "literal":
            lam = kernels.edge_softmax(f.expand_as(e).contiguous(), block)
            weights = kernels.edge_softmax(e, block) * lam
        else:
            weights = kernels.edge_softmax(e + f, block)
        if block.weights is None:
            return weights
        # Given edge weights scale attention, then each neighbourhood keeps its total.
        return kernels.rescaled(weights, block)

    def _node_scores(self, projected: Tensor, block: Block) -> Tensor:
        """Return ``(num_edges, heads)`` e (E6)."""
        left = (projected[: block.num_targets] * self.attention[0]).sum(2)
        right = (projected * self.attention[1]).sum(2)
        return kernels.edge_scores(left, right, block, self.slope)

    def _group_scores(self, assigned: kernels.Assigned, block: Block) -> Tensor | None:
        """Return ``(num_edges, 1 or heads)`` f (E7)."""
        if self.reads_likeness(assigned.z):
            return self.likeness_scores(assigned.z[: block.num_targets], assigned.z, block)
        terms = self._group_terms(assigned, block)
        if terms is None:
            return None
        terms = terms.expanded(block.num_targets)
        if terms.kind == "pair":
            return kernels.edge_dot(terms.left, terms.right, block)[:, None]
        return kernels.edge_scores(terms.left, terms.right, block, self.slope)

    def _group_terms(self, assigned: kernels.Assigned, block: Block) -> kernels.GroupTerms | None:
        """Return what targets and sources bring to f (E7)."""
        if self.group_score == "none":
            return None
        if self.pair_score is not None:
            return kernels.GroupTerms(self.pair_score, assigned.z, "table")
        left, right = self._additive_terms()
        told = kernels.tall_product(assigned.z, right) if assigned.terms is None else assigned.terms
        own = kernels.tall_product(assigned.lead[: block.num_targets], left)
        return kernels.GroupTerms(own, told, "additive")

    def _additive_terms(self) -> tuple[Tensor, Tensor]:
        """Return ``(groups, heads)`` scores a . W phi_k of targets' and of sources' groups."""
        vectors = self.attention if self.group_attention is None else self.group_attention
        # Only K scalars per head are needed, mixed by z.
        psi = (self.group_embedding @ self.weight).view(-1, self.heads, self.out_dim)
        return (psi * vectors[0]).sum(2), (psi * vectors[1]).sum(2)

    def forward(
        self,
        x: Tensor,
        edges: Tensor | Block,
        membership_states: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return ``(num_targets, out_dim)`` new states.

        Args:
            x: ``(num_nodes, in_dim)`` input states.
            edges: ``(2, num_edges)`` source and target rows, or a block.
            membership_states: ``(num_nodes, membership_dim)`` vectors the groups look at.
            generator: Source of the Gumbel noise while training; torch's own when not given.
        """
        block = self._block(x, edges) if isinstance(edges, Tensor) else edges
        affinity = self.affinities(x if membership_states is None else membership_states)
        noisy = self.training and self.assignment != "mean"
        noise = gumbel_noise(affinity.shape, generator, affinity) if noisy else None
        z = assign(affinity, self.tau, noise, self.assignment, self.dirichlet, generator)
        return self.propagate(x, block, z)

    def _block(self, x: Tensor, edge_index: Tensor) -> Block:
        from graphham.graph.neighborhoods import Block

        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise InputError(
                f"edge_index must have shape (2, num_edges), got {tuple(edge_index.shape)}"
            )
        source, target = edge_index.cpu().numpy()
        return Block.from_edges(source, target, len(x), self_edge=self.self_edge)

    def extra_repr(self) -> str:
        """Describe the layer in one line."""
        return f"{self.in_dim}, {self.out_dim}, groups={self.groups}, heads={self.heads}"


def _plain(x: Tensor | FeatureRows) -> Tensor:
    """Return dense features or states as the tensor they are."""
    if isinstance(x, Tensor):
        return x
    assert x.dense is not None
    return x.dense
