"""The GraphHAM network: blocks in, states and memberships of every level out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphham import kernels
from graphham.model.attention import MembershipAttention
from graphham.model.context import ContextDecoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from graphham.graph.neighborhoods import Block
    from graphham.model.context import ContextTable
    from graphham.model.feature_rows import FeatureRows
    from graphham.model.network_settings import NetworkSettings
    from graphham.sampling.random_stream import Source

# Unit rows seen along unit directions give numbers below one; a first layer that starts from
# these directions is scaled up. Set by trial, the runs are not kept.
_START_SCALE = 3.0
_SAME_PLACE = 1e-3  # distance from the middle below which a group has no place of its own
_AT_HOME = 0.1  # the usual restart of personalised PageRank on citation graphs


@dataclass(frozen=True, eq=False)
class Batch:
    """What one forward pass reads.

    Args:
        blocks: One neighbourhood per layer; the targets of one are the sources of the next.
        features: Features of the first block's sources.
        memberships: ``(num_sources, sum of K_l + d)`` the block model's memberships of the same
            nodes, level after level, and the own features that likeness is read from; no columns
            where each layer makes its own.
    """

    blocks: list[Block]
    features: FeatureRows
    memberships: Tensor

    @property
    def num_targets(self) -> int:
        """Number of nodes the pass is about."""
        return self.blocks[-1].num_targets

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch with its tensors on ``device``; blocks move with their operations."""
        return Batch(self.blocks, self.features.to(device), self.memberships.to(device))


@dataclass(frozen=True, eq=False)
class Output:
    """What a forward pass says about its targets; lists go from the first layer to the last.

    Args:
        states: ``(num_targets, layer_dim)`` h of each layer.
        assignments: ``(num_targets, K_l)`` z.
        memberships: ``(num_targets, K_l)`` mean memberships.
    """

    states: list[Tensor]
    assignments: list[Tensor]
    memberships: list[Tensor]


@dataclass(frozen=True, eq=False)
class LayerPass:
    """What one layer read and made, for all sources of its block.

    Args:
        x: Input states or features.
        assigned: Assignments z of all sources, affinities u of those that are asked about.
        output: ``(num_targets, layer_dim)`` h.
    """

    x: Tensor | FeatureRows
    assigned: kernels.Assigned
    output: Tensor


class GraphHAMNet(nn.Module):
    """The layers, their groups, and the decoders.

    Args:
        settings: Its shape and which reading of the paper each part follows.
        num_features: Width of the input features.
        num_classes: Number of classes, 0 without a classifier.
        tables: One context table per layer, or ``None`` where contexts are inductive.
        full_table: Whether tables hold a vector per node and group.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        num_features: int,
        num_classes: int = 0,
        tables: list[ContextTable] | None = None,
        full_table: bool = False,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.groups = settings.groups
        self.has_block_groups = settings.membership_input == "block"
        layers: list[MembershipAttention] = []
        decoders: list[ContextDecoder] = []
        in_dim = num_features
        for level, count in enumerate(settings.groups):
            dim = settings.layer_dims[level]
            layers.append(
                MembershipAttention(
                    in_dim,
                    dim,
                    count,
                    settings.heads,
                    # The block model has its own vectors; the layer needs none.
                    membership_dim=0 if self.has_block_groups else in_dim,
                    group_score=settings.group_score,
                    affinity=settings.affinity,
                    affinity_scale=settings.affinity_scale,
                    product=settings.product,
                    separate_attention=settings.separate_attention,
                    assignment=settings.assignment,
                    dirichlet=settings.dirichlet,
                    residual=settings.residual,
                    self_edge=settings.self_edge,
                )
            )
            decoders.append(
                ContextDecoder(
                    count,
                    dim,
                    None if tables is None else tables[level],
                    full_table,
                    group_context=settings.group_context,
                    mix=settings.mix,
                    straight_through=settings.straight_through,
                )
            )
            in_dim = dim
        self.layers = nn.ModuleList(layers)
        self.decoders = nn.ModuleList(decoders)
        # Phi: the finest groups' places among the last layer's unit vectors, set after training.
        shape = settings.groups[0], settings.layer_dims[-1]
        self.group_centers: Tensor | None
        self.register_buffer("group_centers", torch.zeros(shape) if self.has_block_groups else None)
        # What the links along which class scores are spread weigh; see take_link_tables.
        self.link_table: Tensor
        self.register_buffer("link_table", torch.zeros(settings.groups[0], settings.groups[0]))
        self.classifier = nn.Linear(settings.dim, num_classes) if num_classes else None
        told = num_classes > 0 and self.has_block_groups and settings.class_groups
        self.class_odds = (
            nn.Parameter(torch.zeros(sum(settings.groups), num_classes)) if told else None
        )

    def level_columns(self, level: int) -> slice:
        """Return where a level's memberships lie beside those of the others."""
        first = sum(self.groups[:level])
        return slice(first, first + self.groups[level])

    def attention_columns(self, told: Tensor, level: int) -> Tensor:
        """Return what the group attention of a level reads of the block model's columns.

        Args:
            told: ``(nodes, sum of K_l + d)`` memberships of all levels, then own features.
            level: The level, from 0.

        Returns:
            ``(nodes, K_l)`` memberships; those of the first layer with own features behind them,
            ``(nodes, K_1 + d)``.
        """
        given = told[:, self.level_columns(level)]
        like = told[:, sum(self.groups) :]
        return torch.cat([given, like], dim=1) if level == 0 else given.contiguous()

    def take_link_tables(
        self, tables: Sequence[npt.NDArray[Any]], likeness: tuple[float, float] | None = None
    ) -> None:
        """Let the group attention of every layer be what the block model says of links.

        It stays what it is while the network is trained: an explanation that shows group attention
        shows how probable it is that each link is no chance, and not what happened to help a class.

        Args:
            tables: Per level ``(K_l, K_l)`` log probabilities B; a link scores pi_i B pi_j.
            likeness: What the cosine of both ends' own features counts beside it in layer 1, and
                its mean over links.
        """
        self.link_table.copy_(torch.from_numpy(tables[0]))
        place = self.layer(0).likeness
        if place is not None and likeness is not None:
            place.copy_(torch.tensor(likeness))
        for level, table in enumerate(tables):
            score = self.layer(level).pair_score
            if score is not None:
                with torch.no_grad():
                    score.copy_(torch.from_numpy(table))
                score.requires_grad_(False)

    def reset_parameters(
        self, generator: torch.Generator, directions: npt.NDArray[Any] | None = None
    ) -> None:
        """Draw all parameters; the first layer starts from given feature directions.

        Args:
            generator: Source of all draws.
            directions: ``(num_features, at most layer_dims[0])`` main directions, or ``None``.
        """
        for level in range(len(self.groups)):
            self.layer(level).reset_parameters(generator)
            self.decoder(level).reset_parameters(generator)
        if self.classifier is not None:
            nn.init.xavier_uniform_(self.classifier.weight, generator=generator)
            nn.init.zeros_(self.classifier.bias)
        if self.class_odds is not None:
            nn.init.zeros_(self.class_odds)
        if directions is not None and directions.shape[1]:
            first = self.layer(0)
            start = torch.from_numpy(directions) * _START_SCALE
            with torch.no_grad():
                shaped = first.weight.view(first.in_dim, first.heads, first.out_dim)
                # Columns of links come behind the features and have no directions.
                shaped[: len(start), :, : start.shape[1]] = start[:, None, :]

    def encode(
        self, batch: Batch, tau: float = 1.0, generator: Source | None = None
    ) -> list[LayerPass]:
        """Run the layers one after another.

        Args:
            batch: Neighbourhoods and inputs.
            tau: Assignment temperature.
            generator: Source of Gumbel noise and dropout; ``None`` switches both off.
        """
        x: Tensor | FeatureRows = batch.features
        passes: list[LayerPass] = []
        for level, block in enumerate(batch.blocks):
            layer = self.layer(level)
            # The last block's sources are asked about, and the targets of this one.
            is_last = level + 1 == len(batch.blocks)
            lead = block.num_sources if is_last else block.num_targets
            if self.has_block_groups:
                told = batch.memberships[: block.num_sources]
                given = told[:, self.level_columns(level)].contiguous()
                assigned = kernels.Assigned(self.attention_columns(told, level), given, given[:0])
            else:
                keyed = block.source_rows is not None
                assigned = layer.assigned(x, generator, tau, lead, keyed)
            if level and generator is not None:
                x = self._dropped(x, generator)
            h = layer.propagate(x, block, assigned)
            if not is_last:
                h = activate(h, self.settings.activation)
            passes.append(LayerPass(x, assigned, h))
            x = h
        return passes

    def forward(self, batch: Batch, tau: float = 1.0, generator: Source | None = None) -> Output:
        """Encode the batch's targets and say which groups they belong to.

        Args:
            batch: Neighbourhoods and inputs.
            tau: Assignment temperature.
            generator: Source of Gumbel noise and dropout; ``None`` switches both off.
        """
        count = batch.num_targets
        passes = self.encode(batch, tau, generator)
        states = [one.output[:count] for one in passes]
        assignments = [one.assigned.lead[:count] for one in passes]
        if self.has_block_groups:
            return Output(states, assignments, assignments)
        memberships = [one.assigned.affinity[:count].softmax(dim=1) for one in passes]
        return Output(states, assignments, memberships)

    def place_groups(self, means: Tensor, middle: Tensor) -> None:
        """Put the finest groups where their members are, each as a unit vector from the middle.

        Args:
            means: ``(K_1, layer_dims[-1])`` means of the members' unit vectors in the last layer.
            middle: ``(layer_dims[-1],)`` the mean over all nodes.
        """
        assert self.group_centers is not None
        # Rounding must not give a place to a group that holds everybody.
        self.group_centers.copy_(F.normalize(means - middle, dim=1, eps=_SAME_PLACE))

    def with_groups(self, last: Tensor, finest: Tensor) -> Tensor:
        """Return unit vectors of the last layer that carry their nodes' groups."""
        return toward_groups(last, finest, self.group_centers)

    def embedding(self, output: Output) -> Tensor:
        """Return ``(num_targets, dim)``: the layers' unit vectors side by side, with the groups."""
        units = [F.normalize(h, dim=1) for h in output.states]
        units[-1] = self.with_groups(units[-1], output.memberships[0])
        return torch.cat(units, dim=1)

    def class_logits(
        self,
        states: list[Tensor],
        memberships: Tensor,
        generator: Source | None = None,
    ) -> Tensor:
        """Return ``(nodes, num_classes)`` logits of E15 from the layers' states and the groups.

        The last layer is linear, so by default the classifier reads the positive part of the
        states.

        Args:
            states: Per layer ``(nodes, layer_dim)``.
            memberships: ``(nodes, sum of K_l + d)`` the block model's columns; none without one.
            generator: Source of dropout.
        """
        assert self.classifier is not None
        joined = torch.cat(states, dim=1)
        if self.settings.class_activation == "relu":
            joined = F.relu(joined)
        if generator is not None:
            joined = self._dropped(joined, generator)
        logits: Tensor = self.classifier(joined)
        if self.class_odds is None:
            return logits
        return logits + memberships[:, : sum(self.groups)] @ self.class_odds

    def spread(self, logits: Tensor, block: Block, memberships: Tensor) -> Tensor:
        """Average class logits along edges, as personalised PageRank would spread them.

        With few labels most nodes have none within the reach of the layers; this adds reach without
        adding parameters. A link counts by how probable it is that it is there for a reason.

        Args:
            logits: ``(num_targets, num_classes)`` what each node's own states say.
            block: The neighbourhood; unless its sources are its targets, nothing is averaged.
            memberships: ``(num_targets, sum of K_l + d)`` the block model's columns; none without
                one.
        """
        if block.num_sources != block.num_targets or not self.settings.class_steps:
            return logits
        weights = self._reasons(block, memberships)
        own = logits
        for _ in range(self.settings.class_steps):
            if weights is None:
                heard = kernels.mean_aggregate(logits, block)
            else:
                heard = kernels.aggregate(weights, logits[:, None], block)[:, 0]
            logits = torch.lerp(heard, own, _AT_HOME)
        return logits

    @torch.no_grad()
    def _reasons(self, block: Block, memberships: Tensor) -> Tensor | None:
        """Return ``(num_edges, 1)`` shares of each neighbourhood by :meth:`take_link_tables`."""
        if not self.has_block_groups or self.settings.group_score == "none":
            return None
        finest = memberships[:, self.level_columns(0)].contiguous()
        scores = kernels.edge_dot(finest @ self.link_table, finest, block)[:, None]
        weights = kernels.edge_softmax(scores, block)
        return weights if block.weights is None else kernels.rescaled(weights, block)

    def decoder(self, level: int) -> ContextDecoder:
        """Return the context decoder of a level (from 0)."""
        decoder = self.decoders[level]
        assert isinstance(decoder, ContextDecoder)
        return decoder

    def layer(self, level: int) -> MembershipAttention:
        """Return the attention layer of a level (from 0)."""
        layer = self.layers[level]
        assert isinstance(layer, MembershipAttention)
        return layer

    def _dropped(self, x: Any, generator: Source) -> Tensor:
        return kernels.dropout(x, self.settings.dropout, generator)


def toward_groups(last: Tensor, finest: Tensor, centers: Tensor | None) -> Tensor:
    """Return unit vectors of the last layer, moved towards the places of their nodes' groups.

    What a node hears and where its groups are have the same weight. The first layer stays as it
    is: contexts were trained on links that the groups have seen, and links are scored by it.

    Args:
        last: ``(nodes, layer_dims[-1])`` unit vectors.
        finest: ``(nodes, K_1)`` finest memberships.
        centers: ``(K_1, layer_dims[-1])`` unit vectors, or ``None`` where groups have no place.
    """
    return last if centers is None else F.normalize(last + finest @ centers, dim=1)


def activate(x: Tensor, name: str) -> Tensor:
    """Apply a layer's non-linearity."""
    if name == "identity":
        return x
    return F.elu(x) if name == "elu" else F.relu(x)
