"""GraphHAM, its ablations and the paper's preset, as methods beside their rivals."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch

from graphham.baselines.base import Floats, Method, Rows, cosines
from graphham.baselines.pairs import SparseRows, smoothed_rows
from graphham.config import make_config
from graphham.errors import InputError
from graphham.fitting import Fitted, fit_graph
from graphham.graph import Graph
from graphham.inference import Encoder, full_batch
from graphham.runs import start_run
from graphham.saved import Run

if TYPE_CHECKING:
    from graphham.result import FitResult
    from graphham.trainer import Listener

_BOTH = frozenset({"classify", "links"})


class GraphHAMMethod(Method):
    """GraphHAM with the settings of its default preset.

    Args:
        seed: Decides every random draw.
        dim: Width of the embedding, all layers together.
        groups: Groups per level, fine to coarse; chosen from the graph when not given.
        epochs: Passes over the nodes; the preset's number when not given.
        link_layers: Score links by the cosine of the ``"first"`` layer (the better choice
            throughout our notes) or of ``"all"`` layers.
        smoothed_weight: Add this much of the training-free cosine of one-hop smoothed features to
            link scores; 0 leaves the network on its own.
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
        link_layers: str = "first",
        smoothed_weight: float = 0.0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(seed=seed, dim=dim)
        self.groups = groups
        self.epochs = epochs
        self.link_layers = link_layers
        self.smoothed_weight = smoothed_weight
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
        return [{}, {"smoothed_weight": 1.0}, {"smoothed_weight": 2.0}, {"link_layers": "all"}]

    def _fit(
        self,
        graph: Graph,
        task: str,
        train_rows: Rows | None,
        validation_rows: Rows | None,
        listener: Listener | None,
    ) -> None:
        if self.link_layers not in ("first", "all"):
            raise InputError(f"link_layers must be 'first' or 'all', got {self.link_layers!r}")
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
        if task == "classify":
            self.class_scores_ = _class_scores(fitted)
        self._smooth(graph)

    def _smooth(self, graph: Graph) -> None:
        self._smoothed: SparseRows | None = None
        if self.smoothed_weight and graph.features is not None:
            from graphham.baselines.features import scaled_features

            self._smoothed = SparseRows(smoothed_rows(scaled_features(graph), graph, 1))

    def _take(self, result: FitResult, encoder: Encoder, summary: dict[str, Any]) -> None:
        self.result_ = result
        self.summary_ = summary
        self.embedding_ = np.asarray(result.embedding)
        self.levels_ = list(result.groups)
        self.validation_ = summary["training"]["validation"]
        self._encoder = encoder

    def _score_links(self, pairs: Rows) -> npt.NDArray[np.float64]:
        vectors = self.result_.layer(1) if self.link_layers == "first" else self.embedding_
        scores = cosines(vectors, pairs)
        if self._smoothed is not None:
            scores += self.smoothed_weight * self._smoothed.dots(pairs)
        return scores

    def rescored(self, settings: Mapping[str, Any]) -> Self | None:
        """Return this fit with other weights in its link score, without fitting again."""
        own = self.get_params()
        changed = {name for name, value in settings.items() if own.get(name) != value}
        if self._fitted is None or not changed <= {"link_layers", "smoothed_weight"}:
            return None
        again = copy.copy(self).set_params(**{name: settings[name] for name in changed})
        again._smooth(self._fitted.graph)
        return again

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
        if self._smoothed is not None:
            state.update(self._smoothed.state())
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
        self._smoothed = SparseRows.from_state(state) if "rows.indptr" in state else None
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


def _class_scores(fitted: Fitted) -> Floats:
    model = fitted.encoder.model
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            model.eval()
            batch = full_batch(model, fitted.inputs, fitted.graph)
            logits = model.class_logits([one.output for one in model.encode(batch)])
            scores = logits.sigmoid() if fitted.encoder.is_multi else logits.softmax(1)
    finally:
        torch.set_num_threads(threads)
    return np.asarray(scores.cpu().numpy(), dtype=np.float32)
