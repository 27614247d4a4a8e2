"""GraphHAM, the object most users meet, and its ablations: the same class with fixed settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch

from graphham.config.settings import RunConfig, make_config
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.ids import NodeIds
from graphham.methods.base import FitRequest, Floats, Method, Rows, cosines
from graphham.methods.fitting import fit_graph
from graphham.methods.run_fitting import fit_to_run
from graphham.methods.scikit import class_array
from graphham.model.inputs import NodeInputs
from graphham.parallel.ranks import ALONE, Ranks
from graphham.readout.whole_graph import full_batch
from graphham.results.encoder import Encoder, class_scores, node_attention
from graphham.results.explain import Explanation, explain_node
from graphham.results.result import FitResult
from graphham.results.run_folder import Run
from graphham.system.threads import single_threaded

if TYPE_CHECKING:
    from graphham.results.torch_encoder import TorchEncoder

_BOTH = frozenset({"classify", "links"})


class GraphHAM(Method):
    """Node embeddings with a nested hierarchy of latent groups.

    Arguments are only stored; everything happens in :meth:`fit`, and a second fit forgets the
    first.

    Args:
        groups: Groups per level, fine to coarse, such as ``(12, 5)``; chosen from the graph when
            not given.
        dim: Width of the embedding, all layers together.
        task: ``"embed"`` never trains on labels; ``"classify"`` trains jointly and predicts.
        epochs: Passes over the nodes; the preset's number when not given.
        preset: ``"default"`` or ``"paper"``.
        seed: Decides every random draw.
        device: Where torch computes.
        settings: Further settings by dotted name, such as ``{"model.heads": 4}``.

    The attributes of a fit are those of :class:`graphham.methods.fitted_model.FittedModel`.

    Example:
        >>> from graphham import GraphHAM, planted_hierarchy
        >>> planted = planted_hierarchy((2, 3), num_nodes=120, seed=0)
        >>> model = GraphHAM(groups=(6, 2), dim=16, epochs=4).fit(planted.graph)
        >>> model.embedding_.shape
        (120, 16)
    """

    name: ClassVar[str] = "graphham"
    tasks: ClassVar[frozenset[str]] = _BOTH
    # What an ablation switches off; stronger than the caller's settings.
    fixed: ClassVar[Mapping[str, Any]] = {}

    _encoder: Encoder
    _inputs: NodeInputs | None = None
    _scores: Floats | None = None

    def __init__(
        self,
        groups: Sequence[int] | None = None,
        dim: int = 128,
        task: str = "embed",
        epochs: int | None = None,
        preset: str = "default",
        seed: int = 0,
        device: str = "cpu",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(seed=seed, dim=dim)
        self.groups = groups
        self.task = task
        self.epochs = epochs
        self.preset = preset
        self.device = device
        self.settings = settings

    @classmethod
    def from_config(cls, config: RunConfig) -> Self:
        """Return a GraphHAM, not fitted, with the settings of a config."""
        named = ("groups", "dim", "task", "preset", "seed", "device")
        others = {k: v for k, v in config.to_dict().items() if k not in named}
        return cls(
            **{name: getattr(config, name) for name in named},
            epochs=config.train.epochs,
            settings=others,
        )

    def _config(self, task: str) -> RunConfig:
        return make_config(
            self.settings or {},
            {
                "task": task,
                "seed": self.seed,
                "dim": self.dim,
                "device": self.device,
                "groups": None if self.groups is None else tuple(self.groups),
                "train.epochs": self.epochs,
            },
            self.fixed,
            preset=self.preset,
        )

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        if task == "classify":
            gentle = {"train.feature_dropout": 0.3, "train.dropout": 0.4}
            return [
                {},
                {"settings": {"model.residual": True}},
                {"settings": gentle},
                {"settings": {**gentle, "model.residual": True}},
            ]
        still = {"train.edge_dropout": 0.0}
        return [
            {},
            {"settings": {"model.residual": True}},
            {"settings": still},
            {"settings": {**still, "model.residual": True}},
        ]

    def _usual_task(self) -> str:
        return self.task

    def _fit(self, request: FitRequest) -> None:
        # With its labels, which describe the groups afterwards: embedding never reads them.
        fitted = fit_graph(
            request.given,
            self._config(request.task),
            listener=request.listener,
            train_rows=request.train_rows,
            validation_rows=request.validation_rows,
        )
        self.result_, self.summary_, self.history_ = fitted.result, fitted.summary, fitted.history
        self._know_encoder(fitted.encoder, fitted.inputs)
        self.validation_ = fitted.summary["training"]["validation"]
        self._status = fitted.status

    def _know_encoder(self, encoder: Encoder, inputs: NodeInputs | None) -> None:
        self._encoder, self._inputs = encoder, inputs
        self.levels_ = list(self.result_.groups)
        self._scores = None

    def _refuse_not_finite(self, ids: NodeIds) -> None:
        """Refuse nothing: the fit has looked already, at memberships too."""

    def _make_result(self, request: FitRequest) -> FitResult:
        return self.result_

    def _make_summary(self, request: FitRequest, seconds: float) -> dict[str, Any]:
        return self.summary_

    def fit_to_run(
        self,
        graph: Graph,
        out: str | Path,
        *,
        task: str | None = None,
        ranks: Ranks | None = None,
        **more: Any,
    ) -> Run:
        """Fit a graph and write the run folder, with checkpoints on the way."""
        config = self._config(self._checked_task(task or self.task))
        return fit_to_run(graph, config, out, ranks=ranks or ALONE, about=self._about(), **more)

    @property
    def class_scores_(self) -> Floats | None:
        """``(num_nodes, num_classes)`` probabilities of every node; ``None`` after ``embed``."""
        # Computed when asked for: most people want predictions, which the result holds.
        if self._scores is None and self._encoder.model.classifier is not None:
            graph = self._need_graph("class_scores_")
            self._scores = _all_class_scores(self._encoder, graph, self._known_inputs(graph))
        return self._scores

    @class_scores_.setter
    def class_scores_(self, scores: Floats | None) -> None:
        self._scores = scores

    def _known_inputs(self, graph: Graph) -> NodeInputs:
        if self._inputs is None:
            self._inputs = self._encoder.inputs_of(graph, self.ids_)
        return self._inputs

    def _score_links(self, pairs: Rows) -> npt.NDArray[np.float64]:
        return cosines(self.result_.layer(1), pairs)

    def _transform(self, graph: Graph) -> FitResult:
        return self._encoder.read(graph, self._encoder.inputs_of(graph, self.ids_))

    def _class_scores_of(self, graph: Graph) -> Floats:
        return self._encoder.class_scores(graph, self._encoder.inputs_of(graph, self.ids_))

    def to_torch(self, pyg: bool = False) -> TorchEncoder:
        """Return the encoder as a ``torch.nn.Module`` that takes ``(x, edge_index)``.

        Args:
            pyg: Pass messages with PyTorch Geometric, so that its explainers can read attention.

        Raises:
            InputError: The model was fitted to weighted links, which ``edge_index`` does not hold.
        """
        self._check_fitted()
        about = self.summary_.get("graph", {})
        if about.get("weighted"):
            raise InputError(
                "the model was fitted to weighted links, which (x, edge_index) does not hold; use "
                "transform(graph)"
            )
        from graphham.results.torch_encoder import TorchEncoder

        return TorchEncoder(self._encoder, self.ids_, bool(about.get("directed")), pyg)

    def explain(self, node: int | str) -> Explanation:
        """Say why a node is in its groups: memberships, attention to neighbours, typical features.

        Args:
            node: The user's own id.
        """
        graph = self._need_graph("explain")
        row = self.ids_.row(node)
        inputs = self._known_inputs(graph)
        attention = node_attention(self._encoder.model, inputs, graph, row)
        reasons = self._encoder.reasons(graph, inputs, row, self.result_)
        return explain_node(
            self.result_, graph, row, attention, self.groups_table(), reasons=reasons
        )

    def _run_config(self) -> dict[str, Any]:
        return self._encoder.config.to_dict()

    def _about(self) -> dict[str, Any]:
        return {"name": self.name, "settings": {}}

    def _state(self) -> dict[str, Any]:
        return self._encoder.state()

    def _output_arrays(self) -> dict[str, Any]:
        return {} if self._scores is None else {"outputs.class_scores": self._scores}

    @classmethod
    def _from_run(cls, run: Run) -> Self:
        state = run.state("torch")
        encoder = Encoder.from_run(run, state)
        method = cls.from_config(encoder.config)
        method._take_run(run)
        method._know_encoder(encoder, None)
        method.classes_ = class_array(encoder.classes)
        if "outputs.class_scores" in state:
            method._scores = state["outputs.class_scores"].numpy()
        return method


class NoGroupAttention(GraphHAM):
    """GraphHAM whose attention ignores groups: the ablation of lambda."""

    name: ClassVar[str] = "graphham-no-lambda"
    fixed: ClassVar[Mapping[str, Any]] = {"model.group_score": "none"}


class NoGroupContext(GraphHAM):
    """GraphHAM whose context vectors do not depend on groups: the ablation of Q."""

    name: ClassVar[str] = "graphham-no-q"
    fixed: ClassVar[Mapping[str, Any]] = {"loss.group_context": False}


class NoConstraints(GraphHAM):
    """GraphHAM without must-link and cannot-link constraints: the ablation of L_reg."""

    name: ClassVar[str] = "graphham-no-reg"
    fixed: ClassVar[Mapping[str, Any]] = {
        "loss.must_link_weight": 0.0,
        "loss.cannot_link_weight": 0.0,
    }


class PaperGraphHAM(GraphHAM):
    """GraphHAM as printed, with the settings of the preset ``paper``."""

    name: ClassVar[str] = "graphham-paper"

    def __init__(self, *, preset: str = "paper", **settings: Any) -> None:
        super().__init__(preset=preset, **settings)

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        # The preset is what the paper says; only what it leaves open is tried.
        return [
            {},
            {"settings": {"train.lr": 0.02}},
            {"settings": {"inputs.scaling": "tfidf"}},
            {"settings": {"train.dropout": 0.5}},
        ]


@single_threaded()
def _all_class_scores(encoder: Encoder, graph: Graph, inputs: NodeInputs) -> Floats:
    """Return ``(num_nodes, num_classes)`` probabilities."""
    with torch.no_grad():
        encoder.model.eval()
        passes = encoder.model.encode(full_batch(encoder.model, inputs, graph))
        states = torch.cat([one.output for one in passes], dim=1)
        logits = encoder.class_logits(states.cpu().numpy(), graph, inputs)
        return class_scores(logits, encoder.is_multi)
