"""What the network baselines share as methods: inputs, training, saving, placing new nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from graphham.graph.graph import Graph
from graphham.methods.base import FitRequest, Floats, Method
from graphham.methods.memory_check import check_memory
from graphham.methods.network_training import (
    NodeNet,
    Schedule,
    Trained,
    encode_all,
    train,
)
from graphham.methods.parameters import keyword_settings
from graphham.methods.scaled_features import fit_features
from graphham.model.inputs import FeatureMap, NodeInputs
from graphham.results.encoder import class_scores
from graphham.system.threads import single_threaded
from graphham.training.supervision import Truth

_VALIDATION_SHARE = 0.1
# The two sizes between which regularisation falls: Cora, and graphs of twenty thousand nodes.
_SMALL, _LARGE = 2_708, 20_000


def by_size(num_nodes: int, small: float, large: float) -> float:
    """Return a rate that goes from ``small`` to ``large`` with the logarithm of the graph's size.

    GraphHAM sets its own dropout the same way, so its rivals get the same help.
    """
    share = math.log(max(num_nodes, 1) / _SMALL) / math.log(_LARGE / _SMALL)
    return round(small + (large - small) * min(max(share, 0.0), 1.0), 6)


def split_labels(request: FitRequest, seed: int) -> Truth:
    """Return the labels to train on and those kept for validation, as every method splits them."""
    assert request.graph.labels is not None
    rows = request.train_rows, request.validation_rows
    return Truth.split(request.graph.labels, seed, _VALIDATION_SHARE, *rows)


@keyword_settings
class NetworkMethod(Method):
    """A network trained end to end on labels, or without them on walks.

    ``None`` leaves a setting to :meth:`_defaults`, which looks at the task and the graph's size:
    small graphs need strong dropout and weight decay, large ones lose by them.

    Args:
        seed: Decides every random draw.
        dim: Width of the embedding.
        scaling: ``auto``, ``none``, ``row``, ``tfidf`` or ``standard`` features.
        epochs: Passes over the training nodes.
        lr: Adam learning rate.
        weight_decay: L2 penalty.
        average: Share of the old in the running average of weights that is kept; 0 for none.
        feature_dropout: Share of input values dropped.
        dropout: Share of hidden values dropped.
        edge_dropout: Share of edges dropped per step.
        batch: ``auto``, ``full`` or ``sampled``.
        batch_size: Targets per sampled step.
        fanouts: Neighbours sampled per layer, first layer first.
        patience: Epochs without a better validation score before stopping.
        walk_length: Steps of the walks that give positive pairs (without labels).
        negatives: Random nodes per set of anchors (without labels).
        negative_weight: Weight of a pair's negatives, all together (without labels).
        scale: Multiplies cosines in the unsupervised loss.
        weigh_classes: Count each label by how frequent validation labels say its class is, as
            GraphHAM's teacher does.
    """

    tasks: ClassVar[frozenset[str]] = frozenset({"classify", "links"})

    scaling: str = "auto"
    epochs: int | None = None
    lr: float | None = None
    weight_decay: float | None = None
    average: float | None = None
    feature_dropout: float | None = None
    dropout: float | None = None
    edge_dropout: float | None = None
    batch: str = "auto"
    batch_size: int = 512
    fanouts: Sequence[int] = (25, 25)
    patience: int = 100
    walk_length: int | None = None
    negatives: int | None = None
    negative_weight: float | None = None
    scale: float | None = None
    weigh_classes: bool = False

    # Settings that go into the schedule; dropout belongs to the network.
    _scheduled: ClassVar[tuple[str, ...]] = (
        "epochs",
        "lr",
        "weight_decay",
        "average",
        "feature_dropout",
        "edge_dropout",
        "batch",
        "batch_size",
        "patience",
        "walk_length",
        "negatives",
        "negative_weight",
        "scale",
        "weigh_classes",
    )

    def _defaults(self, task: str, num_nodes: int) -> dict[str, Any]:
        """Return ``dropout`` and what differs from the defaults of :class:`Schedule`."""
        if task == "classify":
            return {
                # GraphHAM keeps an average too; without it here a comparison would be unfair.
                "average": 0.95,
                "weight_decay": by_size(num_nodes, 5e-4, 1e-4),
                "feature_dropout": by_size(num_nodes, 0.6, 0.2),
                "dropout": by_size(num_nodes, 0.5, 0.3),
            }
        return {
            "weight_decay": 0.0,
            "feature_dropout": by_size(num_nodes, 0.7, 0.2),
            "edge_dropout": by_size(num_nodes, 0.3, 0.1),
            "dropout": 0.3,
            "negatives": 200,
        }

    def _make_net(
        self, num_features: int, num_classes: int, dropout: float, num_nodes: int
    ) -> NodeNet:
        raise NotImplementedError

    def _schedule(self, task: str, num_nodes: int) -> tuple[Schedule, float]:
        """Return the schedule of a task and the network's dropout rate."""
        chosen = self._defaults(task, num_nodes)
        given = {name: getattr(self, name) for name in (*self._scheduled, "dropout")}
        chosen.update({name: value for name, value in given.items() if value is not None})
        dropout = float(chosen.pop("dropout"))
        return replace(Schedule(fanouts=tuple(self.fanouts)), **chosen), dropout

    def _fit(self, request: FitRequest) -> None:
        graph, task = request.graph, request.task
        schedule, dropout = self._schedule(task, graph.num_nodes)
        truth = split_labels(request, self.seed) if task == "classify" else None
        with single_threaded():
            self._features, inputs = fit_features(graph, self.scaling, self.dim, self.seed)
            num_classes = len(self.classes_) if truth is not None else 0
            self._is_multi = truth is not None and truth.is_multi
            self._net = self._make_net(inputs.num_features, num_classes, dropout, graph.num_nodes)
            done = train(self._net, graph, inputs, schedule, self.seed, truth, request.listener)
            self._read(graph, inputs)
        self.trained_: Trained = done
        self.history_ = done.history
        self.validation_ = done.validation

    def _read(self, graph: Graph, inputs: NodeInputs) -> None:
        vectors = encode_all(self._net, graph, inputs)
        self.embedding_ = vectors.numpy().astype(np.float32)
        if self._net.classifier is not None:
            with torch.no_grad():
                logits = self._net.classify(vectors, None)
            self.class_scores_ = class_scores(logits, self._is_multi)

    def _place(self, graph: Graph) -> Floats:
        known = self.ids_.find(graph.ids) if self._features.is_structural else None
        with single_threaded():
            inputs = self._shown(self._features.apply(graph, known))
            return encode_all(self._net, graph, inputs).numpy().astype(np.float32)

    def _shown(self, inputs: NodeInputs) -> NodeInputs:
        """Return what the network is shown of scaled features."""
        return inputs

    def _state(self) -> dict[str, Any]:
        weights = {f"model.{k}": v for k, v in self._net.state_dict().items()}
        return {**weights, **self._features.state()}

    def _facts(self) -> dict[str, Any]:
        classifier = self._net.classifier
        return {
            "scaling": self._features.scaling,
            "num_features": self._num_features(),
            "num_classes": 0 if classifier is None else classifier.out_features,
        }

    def _num_features(self) -> int:
        features = self._features
        return int(features.structural.shape[1] if features.is_structural else len(features.scale))

    def _restore(self, state: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self._features = FeatureMap.from_state(dict(state), facts["scaling"])
        self._net = self._make_net(facts["num_features"], facts["num_classes"], 0.0, len(self.ids_))
        weights = {
            k[6:]: torch.from_numpy(v.copy()) for k, v in state.items() if k.startswith("model.")
        }
        self._net.load_state_dict(weights)
        self._net.eval()


@keyword_settings
class LayeredMethod(NetworkMethod):
    """A network of as many layers as one wants steps around a node.

    Args:
        layers: Number of layers; two for classes and one for links when not given.
        **settings: Those of :class:`NetworkMethod`.
    """

    layers: int | None = None

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        mild = {"feature_dropout": 0.3, "edge_dropout": 0.1}
        return [{}, mild, {"layers": 2}, {**mild, "layers": 2}]

    def _num_layers(self, num_classes: int) -> int:
        if self.layers is None:
            return 2 if num_classes else 1
        self._check_counts("layers")
        return self.layers


@keyword_settings
class WholeGraphMethod(NetworkMethod):
    """A network that is trained on labels, every step on the whole graph, as it was published.

    Args:
        seed: Decides every random draw.
        dim: Width of the hidden layer and of the embedding.
        scaling: ``auto``, ``none``, ``row``, ``tfidf`` or ``standard`` features.
        epochs: Steps.
        lr: Adam learning rate.
        weight_decay: L2 penalty.
        average: Share of the old in the running average of weights that is kept; 0 for none.
        feature_dropout: Share of input values dropped.
        dropout: Share of hidden values dropped.
        patience: Epochs without a better validation score before stopping.
        memory_gib: Refuse to train where the estimate is above this; above the machine's free
            memory when not given.
        weigh_classes: Count each label by how frequent validation labels say its class is, as
            GraphHAM's teacher does.
    """

    tasks: ClassVar[frozenset[str]] = frozenset({"classify"})
    # What to do where the whole graph is too much.
    _advice: ClassVar[str] = "lower dim or choose graphsage"

    memory_gib: float | None = None
    # A batch of neighbourhoods does not know the degrees of its nodes, and there are no walks.
    batch: str = field(default="full", init=False)
    batch_size: int = field(default=512, init=False)
    fanouts: Sequence[int] = field(default=(25, 25), init=False)
    edge_dropout: float | None = field(default=None, init=False)
    walk_length: int | None = field(default=None, init=False)
    negatives: int | None = field(default=None, init=False)
    negative_weight: float | None = field(default=None, init=False)
    scale: float | None = field(default=None, init=False)

    def _defaults(self, task: str, num_nodes: int) -> dict[str, Any]:
        return {"feature_dropout": 0.5, "dropout": 0.5}

    def _fit(self, request: FitRequest) -> None:
        needed = self._step_bytes(request.graph)
        check_memory(self.name, needed, self.memory_gib, self._advice)
        super()._fit(request)

    def _step_bytes(self, graph: Graph) -> int:
        """Return about how much memory a step takes."""
        return 40 * graph.num_nodes * self.dim + 64 * (graph.num_stored + graph.num_nodes)


class BoundNetwork(WholeGraphMethod):
    """A network that knows the nodes of its graph one by one and cannot place others.

    Args:
        **settings: Those of :class:`WholeGraphMethod`.
    """

    def _place(self, graph: Graph) -> Floats:
        return Method._place(self, graph)

    def _facts(self) -> dict[str, Any]:
        return {}

    def _restore(self, state: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Keep the weights to be looked at; outputs were loaded, and new nodes have no place."""
        self._weights = {name: value for name, value in state.items() if name.startswith("model.")}

    def _state(self) -> dict[str, Any]:
        if hasattr(self, "_weights"):
            return dict(self._weights)
        return {f"model.{name}": value for name, value in self._net.state_dict().items()}
