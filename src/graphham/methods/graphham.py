"""GraphHAM, its ablations and the paper's preset, as methods beside their rivals."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch

from graphham.config.settings import make_config
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.methods.base import Floats, Method, Rows, cosines
from graphham.methods.fitting import Fitted, fit_graph
from graphham.methods.link_scorer import LinkClues, LinkWeights
from graphham.readout.whole_graph import full_batch
from graphham.results.encoder import Encoder
from graphham.results.run_folder import Run
from graphham.results.run_writer import start_run
from graphham.system.threads import single_threaded

if TYPE_CHECKING:
    from graphham.results.result import FitResult
    from graphham.training.trainer import Listener

_BOTH = frozenset({"classify", "links"})


class GraphHAMMethod(Method):
    """GraphHAM with the settings of its default preset.

    Args:
        seed: Decides every random draw.
        dim: Width of the embedding, all layers together.
        groups: Groups per level, fine to coarse; chosen from the graph when not given.
        epochs: Passes over the nodes; the preset's number when not given.
        link_score: ``"learned"`` weighs the layers' cosines and what needs no training (features
            in common, shared neighbours, degrees) by held-out links, once :meth:`learn_links` has
            been given some; until then, and with ``"cosine"``, links are scored by the first
            layer's cosine alone.
        settings: Further settings by dotted name, such as ``{"model.residual": True}``.
    """

    name: ClassVar[str] = "graphham"
    summary: ClassVar[str] = "membership attention over a nested hierarchy of groups"
    tasks: ClassVar[frozenset[str]] = _BOTH
    preset: ClassVar[str] = "default"
    # What an ablation switches off; stronger than the caller's settings.
    fixed: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        *,
        seed: int = 0,
        dim: int = 128,
        groups: Sequence[int] | None = None,
        epochs: int | None = None,
        link_score: str = "learned",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(seed=seed, dim=dim)
        self.groups = groups
        self.epochs = epochs
        self.link_score = link_score
        self.settings = settings

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

    def _fit(
        self,
        graph: Graph,
        task: str,
        train_rows: Rows | None,
        validation_rows: Rows | None,
        listener: Listener | None,
    ) -> None:
        if self.link_score not in ("learned", "cosine"):
            raise InputError(f"link_score must be 'learned' or 'cosine', got {self.link_score!r}")
        config = make_config(
            self.settings or {},
            {
                "task": task,
                "seed": self.seed,
                "dim": self.dim,
                "groups": None if self.groups is None else tuple(self.groups),
                "train.epochs": self.epochs,
            },
            self.fixed,
            preset=self.preset,
        )
        fitted = fit_graph(
            graph,
            config,
            listener=listener,
            train_rows=train_rows,
            validation_rows=validation_rows,
        )
        self._fitted: Fitted | None = fitted
        self._take(fitted.result, fitted.encoder, fitted.summary)
        self.history_ = fitted.history
        self.network_scores_: Floats | None = None
        if task == "classify":
            self.network_scores_, self.class_scores_ = _class_scores(fitted)
        self._clues: LinkClues | None = None
        self._weights: LinkWeights | None = None

    def _take(self, result: FitResult, encoder: Encoder, summary: dict[str, Any]) -> None:
        self.result_ = result
        self.summary_ = summary
        self.embedding_ = np.asarray(result.embedding)
        self.levels_ = list(result.groups)
        self.validation_ = summary["training"]["validation"]
        self._encoder = encoder

    def _score_links(self, pairs: Rows) -> npt.NDArray[np.float64]:
        if self._clues is None or self._weights is None:
            return cosines(self.result_.layer(1), pairs)
        return self._weights.score(self._clues.between(pairs, self._layers()))

    def learn_links(self, pairs: Rows, is_link: npt.NDArray[np.bool_]) -> Self:
        """Return this fit with its link score learned from links it was not fitted on."""
        if self.link_score == "cosine" or self._fitted is None:
            return self
        again = copy.copy(self)
        again._clues = self._clues or LinkClues.of(self._fitted.graph)
        again._weights = LinkWeights.learn(again._clues.between(pairs, self._layers()), is_link)
        return again

    def _layers(self) -> list[Any]:
        return [self.result_.layer(level + 1) for level in range(len(self.levels_ or []))]

    def _transform(self, graph: Graph) -> Floats:
        known = None
        if self._encoder.features.is_structural:
            known = self.ids_.find(graph.ids)
        inputs = self._encoder.features.apply(graph, known)
        return np.asarray(self._encoder.read(graph, inputs).embedding)

    def save(self, path: str | Path) -> None:
        """Write a whole run folder, the same as ``graphham fit`` writes; never overwrite one."""
        self._check_fitted()
        if self._fitted is None:
            raise InputError("a loaded method keeps no training graph; copy its folder instead")
        state = dict(self._fitted.state)
        if self.class_scores_ is not None:
            state["outputs.class_scores"] = self.class_scores_
        if self._clues is not None and self._weights is not None:
            state |= {**self._clues.state(), **self._weights.state()}
        about = {
            "name": self.name,
            "settings": self.get_params(),
            "cost": self.cost_,
            "classes": list(self.classes_),
        }
        with start_run(path, self._fitted.config.to_dict()) as writer:
            for record in self.history_:
                writer.log(record)
            writer.finish(
                self.result_, state, self._fitted.graph, {**self.summary_, "method": about}
            )

    def _restore_run(self, path: Path) -> None:
        run = Run.open(path)
        self._take(run.result(), Encoder.from_run(run), run.summary)
        about = run.summary.get("method") or {}
        state = run.state()
        self.ids_ = self.result_.ids
        self.history_ = run.metrics
        self.classes_ = tuple(about.get("classes", self._encoder.classes))
        self.cost_ = dict(about.get("cost", run.summary["cost"]))
        self.class_scores_ = state.get("outputs.class_scores")
        self._clues = self._weights = None
        if "links.weight" in state:
            self._clues = LinkClues.from_state(state)
            self._weights = LinkWeights.from_state(state)
        self._fitted = None


class NoGroupAttention(GraphHAMMethod):
    """GraphHAM whose attention ignores groups: the ablation of lambda."""

    name: ClassVar[str] = "graphham-no-lambda"
    summary: ClassVar[str] = "GraphHAM without group attention"
    fixed: ClassVar[Mapping[str, Any]] = {"model.group_score": "none"}


class NoGroupContext(GraphHAMMethod):
    """GraphHAM whose context vectors do not depend on groups: the ablation of Q."""

    name: ClassVar[str] = "graphham-no-q"
    summary: ClassVar[str] = "GraphHAM whose context vectors do not depend on groups"
    fixed: ClassVar[Mapping[str, Any]] = {"loss.group_context": False}


class NoConstraints(GraphHAMMethod):
    """GraphHAM without must-link and cannot-link constraints: the ablation of L_reg."""

    name: ClassVar[str] = "graphham-no-reg"
    summary: ClassVar[str] = "GraphHAM without must-link and cannot-link constraints"
    fixed: ClassVar[Mapping[str, Any]] = {
        "loss.must_link_weight": 0.0,
        "loss.cannot_link_weight": 0.0,
    }


class PaperGraphHAM(GraphHAMMethod):
    """GraphHAM as printed, with the settings of the preset ``paper``."""

    name: ClassVar[str] = "graphham-paper"
    summary: ClassVar[str] = "GraphHAM as printed in the paper (preset paper)"
    preset: ClassVar[str] = "paper"

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        # The preset is what the paper says; only what it leaves open is tried.
        return [
            {},
            {"settings": {"train.lr": 0.02}},
            {"settings": {"inputs.scaling": "tfidf"}},
            {"settings": {"train.dropout": 0.5}},
        ]


@single_threaded()
def _class_scores(fitted: Fitted) -> tuple[Floats | None, Floats]:
    """Return what the network says by itself where it asked for opinions, and the final scores."""
    encoder, model = fitted.encoder, fitted.encoder.model

    def scores(logits: torch.Tensor) -> Floats:
        found = logits.sigmoid() if encoder.is_multi else logits.softmax(1)
        return np.asarray(found.cpu().numpy(), dtype=np.float32)

    with torch.no_grad():
        model.eval()
        batch = full_batch(model, fitted.inputs, fitted.graph)
        states = torch.cat([one.output for one in model.encode(batch)], dim=1)
        final = encoder.class_logits(states.cpu().numpy(), fitted.graph, fitted.inputs)
        if encoder.opinions is None:
            return None, scores(final)
        return scores(model.spread(model.class_logits([states]), batch.blocks[-1])), scores(final)
