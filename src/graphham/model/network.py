"""The GraphHAM network: blocks in, states, evidence and memberships of every level out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphham import kernels
from graphham.model.attention import MembershipAttention
from graphham.model.context import ContextDecoder
from graphham.model.membership import combine_levels, neighbor_evidence, witnesses

if TYPE_CHECKING:
    import numpy.typing as npt

    from graphham.graph.neighborhoods import Block
    from graphham.model.context import ContextTable
    from graphham.model.feature_rows import FeatureRows
    from graphham.model.group_seeding import Seeds
    from graphham.model.network_settings import NetworkSettings
    from graphham.sampling.random_stream import Source

_CENTER_MOMENTUM = 0.1
# Unit rows seen along unit directions give numbers below one; a first layer that starts from
# these directions is scaled up. Set by trial, the runs are not kept.
_START_SCALE = 3.0
_AT_HOME = 0.1  # the usual restart of personalised PageRank on citation graphs


@dataclass(frozen=True, eq=False)
class Batch:
    """What one forward pass reads.

    Args:
        blocks: One neighbourhood per layer; the targets of one are the sources of the next.
        features: Features of the first block's sources.
        diffused: ``(num_sources, diffusion_dim)`` diffused vectors of the same nodes.
        degrees: ``(num_targets,)`` real degrees of the last block's targets.
    """

    blocks: list[Block]
    features: FeatureRows
    diffused: Tensor
    degrees: Tensor

    @property
    def num_targets(self) -> int:
        """Number of nodes the pass is about."""
        return self.blocks[-1].num_targets

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch with its tensors on ``device``; blocks move with their operations."""
        features = self.features.to(device)
        return Batch(self.blocks, features, self.diffused.to(device), self.degrees.to(device))


@dataclass(frozen=True, eq=False)
class Output:
    """What a forward pass says about its targets; lists go from the first layer to the last.

    Args:
        states: ``(num_targets, layer_dim)`` h of each layer.
        assignments: ``(num_targets, K_l)`` z.
        evidence: ``(num_targets, K_l)`` what each layer says by itself.
        memberships: ``(num_targets, K_l)`` what the levels say together.
    """

    states: list[Tensor]
    assignments: list[Tensor]
    evidence: list[Tensor]
    memberships: list[Tensor]

    def embedding(self) -> Tensor:
        """Return ``(num_targets, dim)``: the layers' unit vectors side by side."""
        return torch.cat([F.normalize(h, dim=1) for h in self.states], dim=1)


@dataclass(frozen=True, eq=False)
class LayerPass:
    """What one layer read and made, for all sources of its block.

    Args:
        x: Input states or features.
        membership_states: ``(num_sources, membership_dim)`` vectors its groups looked at.
        assigned: Assignments z of all sources, affinities u of those that are asked about.
        output: ``(num_targets, layer_dim)`` h.
    """

    x: Tensor | FeatureRows
    membership_states: Tensor | FeatureRows
    assigned: kernels.Assigned
    output: Tensor


class GraphHAMNet(nn.Module):
    """The layers, their groups, the tree between the groups, and the decoders.

    Args:
        settings: Its shape and which reading of the paper each part follows.
        num_features: Width of the input features.
        diffusion_dim: Width of the diffused vectors.
        num_classes: Number of classes, 0 without a classifier.
        tables: One context table per layer, or ``None`` where contexts are inductive.
        full_table: Whether tables hold a vector per node and group.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        num_features: int,
        diffusion_dim: int,
        num_classes: int = 0,
        tables: list[ContextTable] | None = None,
        full_table: bool = False,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.groups = settings.groups
        self.diffusion_dim = diffusion_dim
        self.register_buffer("seeded", torch.zeros((), dtype=torch.bool))
        dim = settings.layer_dim
        self.uses_diffusion = settings.membership_input == "diffused"
        layers: list[MembershipAttention] = []
        decoders: list[ContextDecoder] = []
        for level, count in enumerate(settings.groups):
            in_dim = num_features if level == 0 else dim
            width = in_dim
            if self.uses_diffusion:
                width = diffusion_dim + (dim if level else 0)
            layers.append(
                MembershipAttention(
                    in_dim,
                    dim,
                    count,
                    settings.heads,
                    membership_dim=width,
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
            self.register_buffer(f"center_{level}", torch.zeros(dim if level else 0))
            self.register_buffer(f"link_table_{level}", torch.zeros(count, count))
            if level + 1 < len(settings.groups):
                self.register_buffer(f"parent_{level}", torch.zeros(count, dtype=torch.long))
        self.layers = nn.ModuleList(layers)
        self.decoders = nn.ModuleList(decoders)
        self.classifier = nn.Linear(settings.dim, num_classes) if num_classes else None

    @property
    def is_seeded(self) -> bool:
        """Whether the graft has set the groups and their tree."""
        return bool(self.get_buffer("seeded"))

    def graft(self, seeds: Seeds) -> None:
        """Take over seeded group vectors, parents and link tables; all else stays."""
        with torch.no_grad():
            for level, center in enumerate(seeds.centers):
                vectors = self.layer(level).group_embedding
                vectors.copy_(torch.from_numpy(center))
                self.get_buffer(f"link_table_{level}").copy_(torch.from_numpy(seeds.tables[level]))
            for level, parent in enumerate(seeds.parents):
                self.get_buffer(f"parent_{level}").copy_(torch.from_numpy(parent))
            self.get_buffer("seeded").fill_(True)

    @property
    def parent_maps(self) -> list[Tensor]:
        """Per level but the last the ``(K_l,)`` parent of each group."""
        return [self.get_buffer(f"parent_{level}") for level in range(len(self.groups) - 1)]

    def reset_parameters(
        self, generator: torch.Generator, directions: npt.NDArray[Any] | None = None
    ) -> None:
        """Draw all parameters; the first layer starts from given feature directions.

        Args:
            generator: Source of all draws.
            directions: ``(num_features, at most layer_dim)`` main directions, or ``None``.
        """
        for level in range(len(self.groups)):
            self.layer(level).reset_parameters(generator)
            self.decoder(level).reset_parameters(generator)
        if self.classifier is not None:
            nn.init.xavier_uniform_(self.classifier.weight, generator=generator)
            nn.init.zeros_(self.classifier.bias)
        if directions is not None and directions.shape[1]:
            first = self.layer(0)
            start = torch.from_numpy(directions) * _START_SCALE
            with torch.no_grad():
                shaped = first.weight.view(first.in_dim, first.heads, first.out_dim)
                shaped[:, :, : start.shape[1]] = start[:, None, :]

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
            seen = self.membership_states(level, x, batch.diffused[: block.num_sources])
            # The last block's sources are asked about, and the targets of this one.
            is_last = level + 1 == len(batch.blocks)
            lead = block.num_sources if is_last else block.num_targets
            keyed = block.source_rows is not None
            assigned = layer.assigned(seen, generator, tau, lead, keyed)
            if level and generator is not None:
                x = self._dropped(x, generator)
            h = layer.propagate(x, block, assigned)
            if not is_last:
                h = activate(h, self.settings.activation)
            passes.append(LayerPass(x, seen, assigned, h))
            x = h
        return passes

    def forward(
        self,
        batch: Batch,
        tau: float = 1.0,
        generator: Source | None = None,
        rounds: int = 1,
    ) -> Output:
        """Encode the batch's targets and say which groups they belong to.

        Args:
            batch: Neighbourhoods and inputs.
            tau: Assignment temperature.
            generator: Source of Gumbel noise and dropout; ``None`` switches both off.
            rounds: How often a node hears its neighbours' groups.
        """
        count = batch.num_targets
        passes = self.encode(batch, tau, generator)
        affinities = [one.assigned.affinity for one in passes]
        levels = self.evidence(affinities, batch.blocks[-1], batch.degrees, rounds)
        evidence = [plain for _, plain in levels]
        memberships = evidence
        if self.is_seeded:
            memberships = combine_levels([logs for logs, _ in levels], self.parent_maps)
        states = [one.output[:count] for one in passes]
        return Output(states, [one.assigned.lead[:count] for one in passes], evidence, memberships)

    def membership_states(
        self, level: int, x: Tensor | FeatureRows, diffused: Tensor
    ) -> Tensor | FeatureRows:
        """Return the vectors a level's groups look at.

        The default joins the diffused features with the layer's input state; ``state`` is the
        input alone, as in E1.
        """
        if not self.uses_diffusion:
            return x
        if level == 0:
            return diffused
        assert isinstance(x, Tensor)
        learns = self.training and torch.is_grad_enabled()
        center = self.get_buffer(f"center_{level}")
        return kernels.beside_centered(x, diffused, center, _CENTER_MOMENTUM if learns else 0.0)

    def evidence(
        self, affinities: list[Tensor], block: Block, degrees: Tensor, rounds: int
    ) -> list[tuple[Tensor, Tensor]]:
        """Return per level what the layer says by itself: ``(num_targets, K_l)`` logs, and plain.

        Once the groups are seeded a node adds what its neighbours' groups say; further rounds need
        a block whose sources are its targets.
        """
        out: list[tuple[Tensor, Tensor]] = []
        listens = self.is_seeded and self.settings.neighbor_evidence
        # Sharper in training: what is nearly certain should agree between the levels too.
        settings = self.settings
        softened = (
            settings.training_temperature if self.training else settings.membership_temperature
        )
        temperature = softened if self.is_seeded else 1.0
        for level, affinity in enumerate(affinities):
            own = affinity[: block.num_targets]
            table = self.get_buffer(f"link_table_{level}")
            if rounds == 1 and not kernels.runs_reference(affinity):
                linked = table if listens else None
                out.append(
                    kernels.evidence(affinity, block, temperature, linked, witnesses(degrees))
                )
                continue
            if not listens:
                logs = (own / temperature).log_softmax(dim=1)
                out.append((logs, logs.exp()))
                continue
            memberships = affinity[: block.num_sources].softmax(dim=1)
            logits = own
            for _ in range(rounds):
                logits = own + neighbor_evidence(memberships, table, block, degrees)
                memberships = logits.softmax(dim=1)
            logs = (logits / temperature).log_softmax(dim=1)
            out.append((logs, logs.exp()))
        return out

    def class_logits(self, states: list[Tensor], generator: Source | None = None) -> Tensor:
        """Return ``(nodes, num_classes)`` logits of E15 from the layers' states.

        The last layer is linear, so by default the classifier reads the positive part of the
        states.
        """
        assert self.classifier is not None
        joined = torch.cat(states, dim=1)
        if self.settings.class_activation == "relu":
            joined = F.relu(joined)
        if generator is not None:
            joined = self._dropped(joined, generator)
        logits: Tensor = self.classifier(joined)
        return logits

    def spread(self, logits: Tensor, block: Block) -> Tensor:
        """Average class logits along edges, as personalised PageRank would spread them.

        With few labels most nodes have none within the reach of the layers; this adds reach without
        adding parameters.

        Args:
            logits: ``(num_targets, num_classes)`` what each node's own states say.
            block: The neighbourhood; unless its sources are its targets, nothing is averaged.
        """
        if block.num_sources != block.num_targets:
            return logits
        own = logits
        for _ in range(self.settings.class_steps):
            logits = torch.lerp(kernels.mean_aggregate(logits, block), own, _AT_HOME)
        return logits

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


def activate(x: Tensor, name: str) -> Tensor:
    """Apply a layer's non-linearity."""
    if name == "identity":
        return x
    return F.elu(x) if name == "elu" else F.relu(x)
