"""The one shape of every method: settings in, ``fit`` a graph, vectors and class scores out."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels
from graphham.graph.ids import NodeIds
from graphham.results.result import refuse_not_finite
from graphham.training.multilabel import ranked_micro_f1

if TYPE_CHECKING:
    from graphham.training.trainer import Listener

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

# Every method may try this many settings on validation data, so that none wins by being tuned more.
SEARCH_BUDGET = 4
_PAIRS_AT_ONCE = 1 << 16
_USUAL_RATE = 0.01  # of a method that chooses its learning rate itself


class Method:
    """A way to embed or classify the nodes of a graph; scikit-learn's conventions hold.

    A subclass stores its settings in ``__init__`` (keyword-only, nothing else happens there) and
    does the work in :meth:`_fit`. Task ``"embed"`` hands it a graph without labels, so it cannot
    read them; task ``"classify"`` may read the labels of ``train_rows`` and ``validation_rows``.

    Args:
        seed: Decides every random draw.
        dim: Width of the embedding.

    Attributes:
        embedding_: ``(num_nodes, dim)`` float32; rows follow ``ids_``.
        class_scores_: ``(num_nodes, num_classes)`` float32, the largest being the predicted class
            (or per-label scores for multi-label graphs); ``None`` after ``embed``.
        classes_: The label values behind the columns of ``class_scores_``.
        validation_: Score on ``validation_rows`` that early stopping and tuning may look at.
        levels_: ``(num_nodes,)`` int32 groups per level, fine first, where the method finds any.
        cost_: ``seconds`` of the fit and ``peak_memory_bytes`` of the process.
        history_: One record of numbers per epoch.
        ids_: The user's ids in row order.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    tasks: ClassVar[frozenset[str]] = frozenset()
    # Whether classify changes the vectors too; see LabelFreeMethod.
    reads_labels: ClassVar[bool] = True

    embedding_: Floats
    class_scores_: Floats | None
    classes_: tuple[Any, ...]
    validation_: float | None
    levels_: list[npt.NDArray[np.int32]] | None
    cost_: dict[str, float]
    history_: list[dict[str, Any]]
    ids_: NodeIds

    def __init__(self, *, seed: int = 0, dim: int = 128) -> None:
        self.seed = seed
        self.dim = dim

    @classmethod
    def setting_defaults(cls) -> dict[str, Any]:
        """Return every argument of the constructor with its default, the general ones first."""
        found: list[dict[str, Any]] = []
        for kind in cls.__mro__:
            if "__init__" not in vars(kind):
                continue
            parameters = inspect.signature(vars(kind)["__init__"]).parameters.values()
            found.append({p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY})
            # A subclass that only adds settings passes the others on as **settings.
            if all(p.kind is not p.VAR_KEYWORD for p in parameters):
                break
        return {name: value for one in reversed(found) for name, value in one.items()}

    @classmethod
    def setting_kinds(cls) -> dict[str, str]:
        """Return what each setting may be, as the constructor's annotations say."""
        found: dict[str, str] = {}
        for kind in cls.__mro__:
            if "__init__" in vars(kind):
                for p in inspect.signature(vars(kind)["__init__"]).parameters.values():
                    found.setdefault(p.name, str(p.annotation))
        return {name: found[name] for name in cls.setting_defaults()}

    @classmethod
    def setting_names(cls) -> list[str]:
        """Return the names of the constructor's arguments."""
        return list(cls.setting_defaults())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in self.setting_names()}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; return self."""
        for name, value in params.items():
            if name not in self.setting_names():
                raise InputError(
                    f"the method {self.name} has no setting {name!r}; "
                    f"it takes {', '.join(self.setting_names())}"
                )
            setattr(self, name, value)
        return self

    def fit(
        self,
        graph: Any,
        *,
        task: str = "embed",
        train_rows: Any = None,
        validation_rows: Any = None,
        listener: Listener | None = None,
    ) -> Self:
        """Fit to a graph and forget any earlier fit.

        Args:
            graph: A :class:`Graph` or anything :func:`graphham.as_graph` takes.
            task: ``"embed"`` never reads labels; ``"classify"`` learns to predict them.
            train_rows: Rows whose labels may be trained on; all known ones when not given.
            validation_rows: Rows whose labels decide early stopping and settings; a tenth of the
                training rows when not given.
            listener: Who hears about progress.

        Raises:
            InputError: The graph, the task and the rows do not fit together.
        """
        began = time.perf_counter()
        work = self._checked(graph, task)
        if task == "embed":
            # Without the labels nothing below can look at them by mistake.
            work = replace(work, labels=None, splits={})
            training = validation = None
        else:
            training = checked_rows(train_rows, work, "train_rows")
            validation = checked_rows(validation_rows, work, "validation_rows")
            check_apart(training, validation)
        self.class_scores_, self.validation_, self.levels_ = None, None, None
        self.classes_ = work.labels.classes if work.labels is not None else ()
        self.history_ = []
        self._fit(work, task, training, validation, listener)
        self._refuse_not_finite(work.ids)
        self.ids_ = work.ids
        self.cost_ = {
            "seconds": time.perf_counter() - began,
            "peak_memory_bytes": float(peak_memory()),
        }
        return self

    def _fit(
        self,
        graph: Graph,
        task: str,
        train_rows: Rows | None,
        validation_rows: Rows | None,
        listener: Listener | None,
    ) -> None:
        """Do the work: set ``embedding_`` and whatever else the task asks for."""
        raise NotImplementedError

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

    def learn_links(self, pairs: Rows, is_link: npt.NDArray[np.bool_]) -> Self:
        """Return this fit with a link score that has learned from pairs it was not fitted on.

        Args:
            pairs: ``(count, 2)`` rows.
            is_link: ``(count,)`` which of them are links.

        Returns:
            A copy that shares this fit's arrays; the fit itself where it has nothing to learn.
        """
        return self

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

    def transform(self, graph: Any) -> Floats:
        """Return the ``(num_nodes, dim)`` vectors of any graph's nodes, without refitting.

        Raises:
            InputError: The method has no vectors for nodes it was not fitted on.
        """
        self._check_fitted()
        from graphham.datasets.open_source import as_graph

        return self._transform(as_graph(graph).validate())

    def _transform(self, graph: Graph) -> Floats:
        raise InputError(
            f"the method {self.name} learns one vector per node it was fitted on and cannot place "
            f"others; fit it on the whole graph, or choose graphham, graphsage or gat"
        )

    def predict(self) -> list[Any]:
        """Return the predicted label of each node as the user wrote it (single-label graphs)."""
        self._check_fitted()
        if self.class_scores_ is None:
            raise InputError("the method was fitted without labels; fit with task='classify'")
        return [self.classes_[code] for code in self.class_scores_.argmax(1).tolist()]

    def save(self, path: str | Path) -> None:
        """Write the fitted method as a new folder; nothing is ever overwritten."""
        self._check_fitted()
        from graphham.methods.method_folder import save_method

        save_method(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a folder written by :meth:`save`; its answers are equal bit for bit."""
        from graphham.methods.method_folder import load_method

        method = load_method(path)
        if not isinstance(method, cls):
            raise InputError(
                f"{path} holds the method {method.name}, not {cls.name}; "
                f"load it with graphham.methods.registry.load_method"
            )
        return method

    def write_outputs(self, folder: Path) -> list[str]:
        """Write what only this method finds into a folder, for people to look at.

        Returns:
            The names of the files; loading does not need them.
        """
        return []

    def _state(self) -> dict[str, Any]:
        """Return the arrays that loading needs besides the outputs."""
        return {}

    def _facts(self) -> dict[str, Any]:
        """Return what loading needs besides settings and arrays; plain JSON values."""
        return {}

    def _restore(self, state: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Take back what :meth:`_state` and :meth:`_facts` gave."""

    def _checked(self, graph: Any, task: str) -> Graph:
        if task not in ("embed", "classify"):
            raise InputError(f"there is no task {task!r}; choose embed or classify")
        if ("classify" if task == "classify" else "links") not in self.tasks:
            can = "classify" if task == "embed" else "embed"
            raise InputError(f"the method {self.name} cannot {task}; it serves task {can!r} only")
        if not isinstance(self.dim, int) or self.dim < 1:
            raise InputError(f"dim must be a whole number of at least 1, got {self.dim!r}")
        if not isinstance(graph, Graph):
            from graphham.datasets.open_source import as_graph

            graph = as_graph(graph)
        work: Graph = graph.validate()
        if task == "classify":
            if work.labels is None or not work.labels.known.any():
                raise InputError("task 'classify' needs labels; give the graph some")
            if len(work.labels.classes) < 2:
                only = work.labels.classes[0]
                raise InputError(f"every label is {only!r}; classification needs two classes")
        return work

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

    def _check_fitted(self) -> None:
        if not hasattr(self, "ids_"):
            raise InputError(f"the method {self.name} is not fitted yet; call fit(graph) first")

    def __repr__(self) -> str:
        defaults = self.setting_defaults()
        shown = ", ".join(
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != defaults[name]
        )
        return f"{type(self).__name__}({shown})"


def cosines(vectors: Floats, pairs: Rows) -> npt.NDArray[np.float64]:
    """Return the cosine of each pair of rows; 0 where a vector is zero."""
    norm = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    out = np.empty(len(pairs), dtype=np.float64)
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        left, right = pairs[start : start + _PAIRS_AT_ONCE].T
        dots = np.einsum("ij,ij->i", vectors[left], vectors[right], dtype=np.float64)
        out[start : start + len(left)] = dots / np.maximum(norm[left] * norm[right], 1e-30)
    return out


def label_score(scores: npt.NDArray[Any], labels: Labels, rows: Rows) -> float:
    """Return accuracy (single-label) or micro-F1 (multi-label) of class scores on some rows.

    Args:
        scores: ``(num_nodes, num_classes)``.
        labels: The truth; rows with unknown labels are left out.
        rows: Rows to score.
    """
    rows = rows[labels.known[rows]]
    if not len(rows):
        return float("nan")
    if labels.codes is not None:
        return float((scores[rows].argmax(1) == labels.codes[rows]).mean())
    assert labels.matrix is not None
    return ranked_micro_f1(scores[rows], labels.matrix[rows])


def checked_rows(rows: Any, graph: Graph, what: str) -> Rows | None:
    """Return rows or a mask over all nodes as ascending distinct rows; refuse all else."""
    if rows is None:
        return None
    found = np.asarray(rows)
    if found.dtype == bool and found.shape == (graph.num_nodes,):
        found = np.flatnonzero(found)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InputError(f"{what} must be a list of rows, got {found.dtype} of {found.shape}")
    if found.size and not 0 <= int(found.min()) <= int(found.max()) < graph.num_nodes:
        worst = int(found.min()) if int(found.min()) < 0 else int(found.max())
        raise InputError(f"{what} names row {worst}, outside 0..{graph.num_nodes - 1}")
    return np.unique(found.astype(np.int64))


def check_apart(training: Rows | None, validation: Rows | None) -> None:
    """Refuse rows that are to be trained on and validated with."""
    if training is None or validation is None:
        return
    both = np.intersect1d(training, validation)
    if both.size:
        raise InputError(f"row {both[0]} is in train_rows and in validation_rows; keep them apart")


def peak_memory() -> int:
    """Return the most memory this process has held so far, in bytes."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
