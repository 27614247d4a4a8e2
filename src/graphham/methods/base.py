"""The one shape of every method: settings in, ``fit`` a graph, vectors, groups and classes out."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from graphham.datasets.open_source import as_graph, as_nodes, labels_at
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.ids import NodeIds
from graphham.methods.fit_request import FitRequest, Rows
from graphham.methods.fitted_model import FittedModel
from graphham.methods.link_cosines import cosines
from graphham.methods.parameters import keyword_settings
from graphham.methods.scikit import class_array
from graphham.results.result import FitResult, Floats, predicted, refuse_alike, refuse_not_finite
from graphham.results.run_folder import Run
from graphham.results.run_places import check_place
from graphham.results.run_writer import graph_facts
from graphham.system.console import FitBar
from graphham.system.memory_limit import naming_short_memory
from graphham.system.peak_memory import peak_memory
from graphham.version import __version__

if TYPE_CHECKING:
    from graphham.parallel.ranks import Ranks
    from graphham.training.epochs import Listener

__all__ = ["SEARCH_BUDGET", "FitRequest", "Floats", "Method", "Rows", "cosines"]

# Every method may try this many settings on validation data, so that none wins by being tuned more.
SEARCH_BUDGET = 4
_USUAL_RATE = 0.01  # of a method that chooses its learning rate itself
# Finer levels are no groups to look at, and tables between levels grow with their product.
_MOST_GROUPS = 1000


@keyword_settings
class Method(FittedModel):
    """A way to embed or classify the nodes of a graph; scikit-learn's conventions hold.

    A subclass declares its settings as fields (see :func:`keyword_settings`) and does the work in
    :meth:`_fit`. Task ``"embed"`` hands it a graph without labels, so it cannot read them; task
    ``"classify"`` may read the labels of ``train_rows`` and ``validation_rows``.

    Args:
        seed: Decides every random draw.
        dim: Width of the embedding.
    """

    tasks: ClassVar[frozenset[str]] = frozenset()
    # Whether classify changes the vectors too; see LabelFreeMethod.
    reads_labels: ClassVar[bool] = True
    # What to set for classes to be what its paper says, where our defaults are others.
    published: ClassVar[Mapping[str, Any]] = {}

    seed: int = 0
    dim: int = 128

    def fit(
        self,
        graph: Any,
        y: Any = None,
        *,
        features: Any = None,
        task: str | None = None,
        train_rows: Any = None,
        validation_rows: Any = None,
        listener: Listener | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Fit to a graph and forget any earlier fit.

        Args:
            graph: A :class:`Graph`, a dataset name, a file or store, a table of edges, a NetworkX
                graph, a SciPy matrix or PyG ``Data``; or ``graph[rows]``, to show the labels of
                these rows only.
            y: Labels that replace the graph's own, in any form ``attach_labels`` takes; one per
                row of ``graph[rows]``.
            features: Features that replace the graph's own.
            task: ``"embed"`` never reads labels; ``"classify"`` learns to predict them. What the
                method does by itself when not given.
            train_rows: Rows whose labels may be trained on; all known ones when not given.
            validation_rows: Rows whose labels decide early stopping and settings; a tenth of the
                training rows when not given.
            listener: Who hears about progress, in place of the bar.
            verbose: Whether to show a bar (lines, where none can be drawn); in terminals and
                notebooks when not given.

        Raises:
            InputError: The graph, the task and the rows do not fit together.
        """
        began = time.perf_counter()
        asked = self._checked_task(self._usual_task() if task is None else task)
        whole, rows = as_nodes(graph)
        if rows is None:
            given = as_graph(whole, features=features, labels=y)
        else:
            given = labels_at(as_graph(whole, features=features), rows, y)
        # Somebody always listens: a fit inside this one would else draw a bar of its own.
        bar = FitBar.wanted(verbose) if listener is None else None
        request = FitRequest.checked(given, asked, train_rows, validation_rows, listener or bar)
        self.class_scores_, self.validation_, self.levels_ = None, None, None
        known = request.graph.labels
        self.classes_ = class_array(() if known is None else known.classes)
        self.history_ = []
        self._folder, self._status = None, "complete"
        with naming_short_memory():
            with bar or nullcontext():
                self._fit(request)
            self._finish(request, time.perf_counter() - began)
        self._source = whole if features is None else None
        return self

    def fit_to_run(
        self,
        graph: Graph,
        out: str | Path,
        *,
        task: str | None = None,
        resume: bool = False,
        overwrite: bool = False,
        listener: Listener | None = None,
        ranks: Ranks | None = None,
    ) -> Run:
        """Fit a graph and write the run folder.

        Args:
            graph: The graph.
            out: The run folder; must not exist unless resumed or overwritten.
            task: As for :meth:`fit`.
            resume: Go on with an unfinished run; only GraphHAM can.
            overwrite: Replace a run of any method.
            listener: Who hears about progress.
            ranks: The processes that fit together; only GraphHAM can use several.
        """
        if resume or (ranks is not None and ranks.count > 1):
            raise InputError(f"the method {self.name} is fitted in one go by one process")
        check_place(out, overwrite)  # before the work, which may take hours
        return self.fit(graph, task=task, listener=listener).save(out, overwrite)

    def fit_transform(self, graph: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit to a graph and return its embedding, as :meth:`transform` does."""
        whole, rows = as_nodes(graph)
        nodes = whole if rows is None else whole[rows]  # read once, whatever it is
        fitted = self.fit(nodes, y, **fit_params)
        return fitted._shown_as(fitted.result_ if rows is None else fitted.result_.take(rows))

    def _fit(self, request: FitRequest) -> None:
        """Do the work: set ``embedding_`` and whatever else the task asks for."""
        raise NotImplementedError

    def _finish(self, request: FitRequest, seconds: float) -> None:
        """Gather what :meth:`_fit` left as result and summary."""
        self._refuse_not_finite(request.graph.ids)
        self._graph, self._fitted_task = request.given, request.task
        self._take(self._make_result(request))
        self.summary_ = self._make_summary(request, seconds)
        self.cost_ = self.summary_["cost"]

    def _make_result(self, request: FitRequest) -> FitResult:
        """Return what the fit says about the nodes, for the run folder and everyone who looks."""
        prediction = confidence = None
        scores, known = self.class_scores_, request.graph.labels
        if scores is not None and known is not None:
            prediction, confidence = predicted(scores, known.classes, known.is_multi)
        return FitResult(
            ids=request.graph.ids,
            embedding=self.embedding_,
            layer_dims=(self.embedding_.shape[1],),
            groups=[c for c in self.levels_ or [] if int(c.max(initial=-1)) < _MOST_GROUPS],
            labels=request.given.labels,
            prediction=prediction,
            confidence=confidence,
        ).validate()

    def _make_summary(self, request: FitRequest, seconds: float) -> dict[str, Any]:
        scored = max(self.history_, key=lambda r: r.get("validation") or 0.0, default={})
        best = scored.get("epoch") if scored.get("validation") is not None else None
        return {
            "graph": graph_facts(request.given),
            **({"hierarchy": self.result_.metrics} if self.result_.groups else {}),
            "training": {
                "epochs": len(self.history_),
                "best_epoch": best,
                "validation": self.validation_,
            },
            "cost": {"seconds": seconds, "peak_memory_bytes": peak_memory()},
            "notes": [],
            "versions": library_versions(),
        }

    def score_links(self, pairs: Any) -> npt.NDArray[np.float64]:
        """Score pairs of nodes, higher for likelier links.

        Args:
            pairs: ``(count, 2)`` rows.

        Returns:
            ``(count,)`` cosines of the embedding, or the method's own score.
        """
        return self._score_links(self._checked_pairs(pairs))

    def _score_links(self, pairs: Rows) -> npt.NDArray[np.float64]:
        return cosines(self.embedding_, pairs)

    def search_space(self, task: str) -> list[dict[str, Any]]:
        """Return ``SEARCH_BUDGET`` settings to choose among on validation data, the default first.

        A method with fewer settings repeats its default; equal settings give equal results, so the
        evaluator need not fit them twice.
        """
        found = self._candidates(task)[:SEARCH_BUDGET]
        return found + [{}] * (SEARCH_BUDGET - len(found))

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}]

    def rescored(self, settings: Mapping[str, Any]) -> Self | None:
        """Return this fit under settings that only change how links are scored.

        Returns:
            A fitted copy that shares this fit's arrays, or ``None`` if the settings (by name, all
            others at their present value) need a fit of their own.
        """
        return None

    def _usual_task(self) -> str:
        return "embed" if "links" in self.tasks else "classify"

    def _checked_task(self, task: str) -> str:
        if task not in ("embed", "classify"):
            raise InputError(f"there is no task {task!r}; choose embed or classify")
        if ("classify" if task == "classify" else "links") not in self.tasks:
            can = "classify" if task == "embed" else "embed"
            raise InputError(f"the method {self.name} cannot {task}; it serves task {can!r} only")
        self._check_counts("dim")
        return task

    def _checked_pairs(self, pairs: Any) -> Rows:
        self._check_fitted()
        rows = np.asarray(pairs)
        if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
            raise InputError(
                f"pairs must be rows of shape (count, 2), got {rows.dtype} of shape {rows.shape}"
            )
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < len(self.ids_):
            worst = int(rows.min()) if int(rows.min()) < 0 else int(rows.max())
            raise InputError(f"row {worst} of the pairs lies outside 0..{len(self.ids_) - 1}")
        return rows.astype(np.int64)

    def _refuse_not_finite(self, ids: NodeIds) -> None:
        """Refuse vectors and class scores that are not finite numbers."""
        named = [("vector", self.embedding_)] if hasattr(self, "embedding_") else []
        if self.class_scores_ is not None:
            # A score of minus infinity is a class that is out of the question.
            scores = np.where(np.isneginf(self.class_scores_), 0, self.class_scores_)
            named.append(("class score", scores))
        rates = {}
        for name, default in self.setting_defaults().items():
            if name.rpartition("_")[2] == "lr":
                usual = default or _USUAL_RATE
                rates[name] = (getattr(self, name) or usual, usual)
        refuse_not_finite(ids, named, rates)
        if hasattr(self, "embedding_"):
            refuse_alike(self.embedding_, rates)


def library_versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {
        "graphham": __version__,
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": np.__version__,
    }
