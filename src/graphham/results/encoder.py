"""What a trained network says about every node: no noise, all neighbours, the same every time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from graphham.config.resolved import ResolvedConfig, read_resolved
from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels
from graphham.graph.ids import NodeIds
from graphham.graph.neighborhoods import Block
from graphham.graph.spans import SPAN
from graphham.graph.undirected import undirected
from graphham.groups.block_model import link_trust, sum_levels
from graphham.groups.contributions import Contributions, MeanFieldRound, explain_membership
from graphham.groups.group_map import GroupMap, over_columns, unit_rows
from graphham.groups.mixtures import Mixtures, lead_with, mix_memberships
from graphham.model.inputs import FeatureMap, NodeInputs
from graphham.model.network import GraphHAMNet
from graphham.parallel.graph_access import graph_access
from graphham.parallel.ranks import ALONE, Ranks
from graphham.readout.layerwise import LayerWise, Reading
from graphham.readout.whole_graph import full_batch
from graphham.results.explain import NodeAttention
from graphham.results.result import FitResult, predicted
from graphham.results.scores import majority_parents, show_paths
from graphham.system.threads import single_threaded
from graphham.training.make_network import network_settings

if TYPE_CHECKING:
    from graphham.results.run_folder import Run


# Links times groups from which on mixtures get fewer rounds, and from which on none: memberships
# are then shown as mean field left them.
_MUCH_MIXING, _MOST_MIXING = 20_000_000, 400_000_000
_ROUNDS, _FEW_ROUNDS = 8, 2


class Encoder:
    """A network with everything it needs to read a graph; what a run folder restores.

    Args:
        model: The network.
        features: Fitted steps from graph to inputs.
        config: Resolved settings.
        classes: Label values behind the classifier's columns; empty without one.
        is_multi: Whether a node may carry several labels.
        groups: Fitted steps from inputs to memberships; ``None`` where layers make their own.
    """

    def __init__(
        self,
        model: GraphHAMNet,
        features: FeatureMap,
        config: ResolvedConfig,
        classes: tuple[Any, ...] = (),
        is_multi: bool = False,
        groups: GroupMap | None = None,
    ) -> None:
        self.model, self.features, self.config = model, features, config
        self.classes, self.is_multi, self.groups = classes, is_multi, groups

    @classmethod
    def from_run(cls, run: Run, state: Mapping[str, Tensor] | None = None) -> Encoder:
        """Rebuild the encoder of a finished run.

        Args:
            run: A run of GraphHAM.
            state: The tensors of the run, where they have been read already.
        """
        config = read_resolved(run.config)
        facts = run.summary["model"]
        state = run.state("torch") if state is None else state
        arrays = {k: v.numpy() for k, v in state.items() if k.startswith("inputs.")}
        features = FeatureMap.from_state(arrays, facts["scaling"])
        classes = tuple(facts["classes"])
        model = GraphHAMNet(network_settings(config), facts["num_features"], len(classes))
        weights = {k[6:]: v for k, v in state.items() if k.startswith("model.")}
        model.load_state_dict(weights, strict=False)
        block = {k: v.numpy() for k, v in state.items() if k.startswith(("groups.", "block."))}
        groups = GroupMap.from_state(block) if block else None
        return cls(model.eval(), features, config, classes, facts["is_multi"], groups)

    def state(self) -> dict[str, Any]:
        """Return the tensors and arrays to save as ``model.safetensors``."""
        weights = {f"model.{k}": v.detach().cpu() for k, v in self.model.state_dict().items()}
        groups = {} if self.groups is None else self.groups.state()
        return {**weights, **self.features.state(), **groups}

    @single_threaded()
    def inputs_of(self, graph: Graph, ids: NodeIds) -> NodeInputs:
        """Return what the network reads of every node of a graph.

        Args:
            graph: Any graph with the feature columns of the training graph.
            ids: The training nodes.
        """
        rows = ids.find(graph.ids)
        if self.features.is_structural and not (rows >= 0).any():
            raise InputError(
                "the run was fitted without features and none of the graph's ids is known to it; "
                "new nodes need at least one link to a known node"
            )
        inputs = self.features.apply(graph, rows)
        if self.groups is None:
            return inputs
        return NodeInputs(inputs.features, self.groups.apply(inputs.features, graph, rows))

    def facts(self) -> dict[str, Any]:
        """Return what must be known besides settings and tensors."""
        return {
            "scaling": self.features.scaling,
            "num_features": self.model.layer(0).in_dim,
            "classes": list(self.classes),
            "is_multi": self.is_multi,
        }

    @single_threaded()
    def read(
        self,
        graph: Graph,
        inputs: NodeInputs,
        ranks: Ranks = ALONE,
        is_fitted_to: bool = False,
    ) -> FitResult:
        """Return vectors, groups and memberships of every node of ``graph``.

        Args:
            graph: The graph.
            inputs: Inputs of its nodes.
            ranks: The processes that share the work; every one gets the whole answer.
            is_fitted_to: Whether this is the graph by which the groups find their places.
        """
        whole = LayerWise(self.model, inputs, graph, ranks)
        reading = whole.read()
        with torch.no_grad():
            # Before the states are scaled to unit vectors where they stand.
            prediction, confidence = self._predict(reading.states, graph, inputs)
            mixtures = self._mixtures(graph, inputs)
            parents = None if self.groups is None else self.groups.model.parents
            self._to_vectors(reading, is_fitted_to)
            return make_result(
                self.model, graph, reading, parents, mixtures, prediction, confidence
            )

    def _to_vectors(self, reading: Reading, is_fitted_to: bool) -> None:
        """Make the embedding of the states where they stand: unit vectors that carry the groups."""
        first = 0
        for width in self.model.settings.layer_dims:
            _to_unit(reading.states[:, first : first + width])
            first += width
        if self.groups is None:
            return
        last, finest = reading.states[:, first - width :], reading.memberships[0]
        if is_fitted_to:
            sums = sum(x.T @ y for x, y in zip(_spans(finest), _spans(last), strict=True))
            means = sums / np.maximum(finest.sum(0, dtype=np.float64), 1e-6)[:, None]
            middle = last.mean(0, dtype=np.float64)
            self.model.place_groups(*(torch.from_numpy(x).float() for x in (means, middle)))
        device = next(self.model.parameters()).device
        for x, y in zip(_spans(finest), _spans(last), strict=True):
            told = (torch.from_numpy(part).to(device) for part in (y, x))
            y[:] = self.model.with_groups(*told).cpu().numpy()

    def reasons(
        self, graph: Graph, inputs: NodeInputs, row: int, result: FitResult
    ) -> list[Contributions]:
        """Return per level what the log-odds of a node's group against the next are made of.

        Empty where the groups are not those of a block model.

        Args:
            graph: The graph.
            inputs: Inputs of its nodes.
            row: The node.
            result: What was read of the graph; says which groups are shown.
        """
        if self.groups is None:
            return []
        model = self.groups.model
        star = self._star(graph, inputs, row)
        out: list[Contributions] = []
        for level, path in enumerate(model.paths()):
            member = result.memberships[level][row].copy()
            own = int(result.groups[level][row])
            member[own] = -1.0
            other = int(member.argmax()) if len(member) > 1 else own
            parts = explain_membership(star, 0, own, other, path if level else None)
            out.append(parts)
        near = self._near(graph, row)[0]
        return [replace(parts, neighbor_rows=near) for parts in out]

    def _near(self, graph: Graph, row: int) -> tuple[npt.NDArray[np.int64], Any, int]:
        """Return the other ends of a node's links, their weights, and how many go out."""
        links = graph.adjacency()
        leaving = links[[row]].tocoo()
        parts = [(leaving.col, leaving.data)]
        if graph.directed:
            arriving = links[:, [row]].tocoo()
            parts.append((arriving.row, arriving.data))
        rows = np.concatenate([np.asarray(p[0], dtype=np.int64) for p in parts])
        weights = np.concatenate([np.asarray(p[1], dtype=np.float64) for p in parts])
        keep = rows != row
        out = int(keep[: len(parts[0][0])].sum())
        mean = 1.0 if graph.weights is None else float(np.mean(graph.weights, dtype=np.float64))
        return rows[keep], weights[keep] / (mean or 1.0), out

    def _star(self, graph: Graph, inputs: NodeInputs, row: int) -> MeanFieldRound:
        """Return a node and its links as a graph of their own, the node in row 0."""
        assert self.groups is not None
        model = self.groups.model
        rows, weights, out = self._near(graph, row)
        finest = inputs.memberships[torch.from_numpy(rows), : self.groups.groups[0]].numpy()
        table = model.tables[0].astype(np.float64)
        # What each link says of every group: outgoing and incoming links read the table both ways.
        said = finest @ table.T
        said[out:] = finest[out:] @ table
        basis = torch.from_numpy(over_columns(self.groups.basis, inputs.num_features))
        own = unit_rows(inputs.rows(np.array([row])).matmul(basis).numpy())
        own = own * np.float32(self.groups.scale**0.5)
        parts = [own @ v[p].T for v, p in zip(model.vectors, model.paths(), strict=True)]
        count = len(table)
        return MeanFieldRound(
            indptr=np.array([0, len(rows)]),
            indices=np.arange(1, len(rows) + 1),
            weights=weights,
            heard=np.concatenate([np.zeros((1, count)), said]),
            table=np.eye(count),
            rho=link_trust(np.array([weights.sum()], dtype=np.float32)),
            features=parts[0],
            parent=np.arange(count),
            parent_features=np.sum(parts[1:], axis=0) if len(parts) > 1 else None,
        )

    def _mixtures(self, graph: Graph, inputs: NodeInputs) -> Mixtures | None:
        """Return memberships as calibrated mixtures; nobody has all links of a split graph."""
        if self.groups is None or not graph_access(graph).is_whole:
            return None
        finest = inputs.memberships[:, : self.groups.groups[0]].cpu().numpy()
        parents = self.groups.model.parents
        work = finest.shape[1] * graph.num_stored
        if work > _MOST_MIXING:
            return None
        links = undirected(graph)
        evidence = self.groups.evidence(inputs.features)
        mixtures = mix_memberships(
            links.indptr,
            links.indices,
            links.weights,
            finest,
            parents,
            None if self.features.is_structural else evidence,
            rounds=_ROUNDS if work <= _MUCH_MIXING else _FEW_ROUNDS,
        )
        shown = lead_with(mixtures.memberships[0], finest)
        return replace(mixtures, memberships=tuple(sum_levels(shown, parents)))

    def class_logits(
        self, states: npt.NDArray[np.float32], graph: Graph, inputs: NodeInputs
    ) -> Tensor:
        """Return ``(num_nodes, num_classes)`` logits of the classes.

        Args:
            states: ``(num_nodes, dim)`` states of all layers, before they are made unit vectors.
            graph: The graph they belong to.
            inputs: Inputs of its nodes.
        """
        device = next(self.model.parameters()).device
        parts: list[Tensor] = []
        for first in range(0, len(states), SPAN):
            span = torch.from_numpy(states[first : first + SPAN]).to(device)
            memberships = inputs.memberships[first : first + SPAN].to(device)
            parts.append(self.model.class_logits([span], memberships).cpu())
        logits = torch.cat(parts)
        if self.config.model.class_steps:
            block = Block.full(graph, self.config.model.self_edge)
            logits = self.model.spread(logits.to(device), block, inputs.memberships.to(device))
        return logits

    def class_scores(self, graph: Graph, inputs: NodeInputs) -> npt.NDArray[np.float32]:
        """Return ``(num_nodes, num_classes)`` probabilities for the nodes of any graph.

        Args:
            graph: The graph.
            inputs: Inputs of its nodes.
        """
        states = LayerWise(self.model, inputs, graph, ALONE).read().states
        with torch.no_grad():
            return class_scores(self.class_logits(states, graph, inputs), self.is_multi)

    def _predict(
        self, states: npt.NDArray[np.float32], graph: Graph, inputs: NodeInputs
    ) -> tuple[Labels | None, npt.NDArray[Any] | None]:
        if self.model.classifier is None:
            return None, None
        scores = class_scores(self.class_logits(states, graph, inputs), self.is_multi)
        return predicted(scores, self.classes, self.is_multi)


def class_scores(logits: Tensor, is_multi: bool) -> npt.NDArray[np.float32]:
    """Return ``(num_nodes, num_classes)`` probabilities: of each label, or of one class in all."""
    scores = logits.sigmoid() if is_multi else logits.softmax(1)
    return np.asarray(scores.detach().cpu().numpy(), dtype=np.float32)


def make_result(
    model: GraphHAMNet,
    graph: Graph,
    reading: Reading,
    parents: Sequence[npt.NDArray[Any]] | None = None,
    mixtures: Mixtures | None = None,
    prediction: Labels | None = None,
    confidence: npt.NDArray[Any] | None = None,
) -> FitResult:
    """Turn a network's answer for a whole graph into plain arrays, a span of nodes at a time.

    Args:
        model: The network.
        graph: The graph that was read.
        reading: What the layers computed; its states are the vectors of the embedding by now.
        parents: The tree of a block model; the majority of the nodes decides when not given.
        mixtures: Calibrated memberships, shown in place of those the layers read.
        prediction: Predicted labels.
        confidence: How sure they are.
    """
    counts, levels = model.groups, reading.memberships
    scores: dict[str, Any] = {}
    if mixtures is not None:
        levels = [np.asarray(level, dtype=np.float32) for level in mixtures.memberships]
        scores = {"between": mixtures.between[0], "evidence": mixtures.evidence}
    if parents is None:
        codes = [level.argmax(1).astype(np.int32) for level in levels]
        tree = [
            majority_parents(low, high, counts[level], counts[level + 1]).astype(np.int32)
            for level, (low, high) in enumerate(itertools.pairwise(codes))
        ]
    else:
        tree = [np.asarray(parent, dtype=np.int32) for parent in parents]
    return FitResult(
        ids=graph.ids,
        embedding=reading.states,
        layer_dims=model.settings.layer_dims,
        memberships=levels,
        groups=show_paths(levels, tree, sums=parents is not None),
        parents=tree,
        parents_from="majority" if parents is None else "model",
        labels=graph.labels,
        prediction=prediction,
        confidence=confidence,
        attention_gap=reading.gaps,
        **scores,
    )


def _to_unit(states: npt.NDArray[np.float32]) -> None:
    """Scale rows to unit length where they stand, a span at a time."""
    for part in _spans(states):
        part[:] = F.normalize(torch.from_numpy(np.ascontiguousarray(part)), dim=1).numpy()


def _spans(rows: npt.NDArray[np.float32]) -> Iterator[npt.NDArray[np.float32]]:
    for first in range(0, len(rows), SPAN):
        yield rows[first : first + SPAN]


def node_attention(
    model: GraphHAMNet, inputs: NodeInputs, graph: Graph, row: int
) -> list[NodeAttention]:
    """Return both attentions of one node over its neighbours, per layer, heads averaged."""
    batch = full_batch(model, inputs, graph)
    out: list[NodeAttention] = []
    with torch.no_grad():
        model.eval()
        for level, one in enumerate(model.encode(batch)):
            block = batch.blocks[level]
            weights = model.layer(level).attention_weights(one.x, block, one.assigned.z)
            part = slice(int(block.indptr[row]), int(block.indptr[row + 1]))
            out.append(
                NodeAttention(
                    block.indices[part].astype(np.int64),
                    weights.node[part].mean(1).cpu().numpy(),
                    weights.group[part].mean(1).cpu().numpy(),
                    weights.weight[part].mean(1).cpu().numpy(),
                )
            )
    return out


def embed_graph(run: Run, graph: Graph) -> FitResult:
    """Give vectors and memberships to the nodes of any graph, without refitting.

    Args:
        run: A finished run.
        graph: New nodes, with the run's feature columns. Where the run was fitted without
            features, nodes the run knows by id keep theirs and new ones read their neighbours'.
    """
    encoder = Encoder.from_run(run)
    return encoder.read(graph, encoder.inputs_of(graph, NodeIds(run.nodes["id"])))
