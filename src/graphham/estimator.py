"""GraphHAM as an estimator: the object most users meet.

A thin face over the same functions as the command line; scikit-learn's conventions hold (``clone``,
``get_params``, ``set_params``).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.config.settings import make_config
from graphham.datasets.open_source import as_graph
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.ids import NodeIds
from graphham.methods.fitting import Fitted, fit_graph
from graphham.model.inputs import NodeInputs
from graphham.results.describe import boundary_table, groups_table
from graphham.results.encoder import Encoder, known_rows, node_attention
from graphham.results.explain import Explanation, explain_node
from graphham.results.hierarchy import Hierarchy
from graphham.results.result import FitResult
from graphham.results.run_folder import Run
from graphham.results.run_writer import start_run

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.explore.launch import RunningExplorer
    from graphham.training.trainer import Listener


class GraphHAM:
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

    Attributes:
        embedding_: ``(num_nodes, dim)`` float32; rows follow ``ids_``.
        memberships_: One ``(num_nodes, K_l)`` array per level, fine first; rows sum to one.
        groups_: One ``(num_nodes,)`` array of group numbers per level.
        concentration_: ``(num_nodes,)``; low for nodes at a boundary between groups.
        hierarchy_: The tree of groups.
        ids_: The user's ids in row order.
        history_: One record of losses per epoch.
        summary_: Metrics, cost and versions of the fit.

    Example:
        >>> from graphham import GraphHAM, planted_hierarchy
        >>> planted = planted_hierarchy((2, 3), num_nodes=120, seed=0)
        >>> model = GraphHAM(groups=(6, 2), dim=16, epochs=4).fit(planted.graph)
        >>> model.embedding_.shape
        (120, 16)
    """

    _folder: Path | None = None  # where the model is kept as a run, once it is

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
        self.groups = groups
        self.dim = dim
        self.task = task
        self.epochs = epochs
        self.preset = preset
        self.seed = seed
        self.device = device
        self.settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in _argument_names()}

    def set_params(self, **params: Any) -> GraphHAM:
        """Change constructor arguments by name; return self."""
        for name, value in params.items():
            if name not in _argument_names():
                raise InputError(
                    f"GraphHAM has no argument {name!r}; it takes {', '.join(_argument_names())}"
                )
            setattr(self, name, value)
        return self

    def fit(
        self,
        graph: Any,
        y: Any = None,
        *,
        features: Any = None,
        train_rows: Any = None,
        validation_rows: Any = None,
        listener: Listener | None = None,
    ) -> GraphHAM:
        """Fit to a graph.

        Args:
            graph: A :class:`Graph`, a dataset name, a file or store, a table of edges, a NetworkX
                graph, a SciPy matrix or PyG ``Data``.
            y: Labels that replace the graph's own, in any form ``attach_labels`` takes.
            features: Features that replace the graph's own.
            train_rows: Rows whose labels may be trained on (``task="classify"``).
            validation_rows: Rows whose labels decide early stopping.
            listener: Who hears about progress.
        """
        chosen = as_graph(graph, features=features, labels=y)
        config = make_config(
            self.settings or {},
            {
                "task": self.task,
                "seed": self.seed,
                "dim": self.dim,
                "device": self.device,
                "groups": None if self.groups is None else tuple(self.groups),
                "train.epochs": self.epochs,
            },
            preset=self.preset,
        )
        fitted = fit_graph(
            chosen,
            config,
            listener=listener,
            train_rows=train_rows,
            validation_rows=validation_rows,
        )
        self._take(fitted.result, fitted.encoder, fitted.summary, fitted.history)
        self._fitted: Fitted | None = fitted
        self._graph: Graph | None = chosen
        self._inputs: NodeInputs | None = fitted.inputs
        self._status = fitted.status
        return self

    def fit_transform(self, graph: Any, y: Any = None, **fit_params: Any) -> npt.NDArray[Any]:
        """Fit to a graph and return its embedding."""
        return self.fit(graph, y, **fit_params).embedding_

    def transform(self, graph: Any) -> FitResult:
        """Return vectors and memberships for the nodes of any graph, without refitting.

        The training graph gives exactly what the fit gave. New nodes need the same feature columns;
        a model fitted without features places them by their links to nodes it knows.
        """
        self._check_fitted()
        other = as_graph(graph)
        known = known_rows(self._encoder.features, self.ids_, other)
        inputs = self._encoder.features.apply(other, known)
        return self._encoder.read(other, inputs)

    def predict(self, graph: Any = None) -> list[Any]:
        """Return the predicted label of each node, as the user wrote labels.

        Args:
            graph: Nodes to predict; the training graph's when not given.
        """
        self._check_fitted()
        result = self.result_ if graph is None else self.transform(graph)
        if result.prediction is None:
            raise InputError("the model was fitted without labels; fit with task='classify'")
        return result.prediction.values()

    def groups_table(self, level: int | None = None) -> pa.Table:
        """Return the groups with size, parent, typical features and nodes.

        Args:
            level: Only this level (1 is the finest).
        """
        graph = self._need_graph("groups_table")
        table = groups_table(self.result_, graph)
        if level is None:
            return table
        import pyarrow.compute as pc

        return table.filter(pc.equal(table["level"], level))

    def boundary_nodes(self, count: int = 20) -> pa.Table:
        """Return the nodes least committed to one group, and the two groups each lies between."""
        self._check_fitted()
        return boundary_table(self.result_, count)

    def explain(self, node: int | str) -> Explanation:
        """Say why a node is in its groups: memberships, attention to neighbours, typical features.

        Args:
            node: The user's own id.
        """
        graph = self._need_graph("explain")
        row = self.ids_.row(node)
        if self._inputs is None:
            self._inputs = self._encoder.features.apply(graph)
        attention = node_attention(self._encoder.model, self._inputs, graph, row)
        return explain_node(self.result_, graph, row, attention, groups_table(self.result_, graph))

    def save(self, path: str | Path, overwrite: bool = False) -> Run:
        """Write a run folder, the same as the command line writes."""
        graph = self._need_graph("save")
        with start_run(path, self._encoder.config.to_dict(), overwrite) as writer:
            for record in self.history_:
                writer.log(record)
            run = writer.finish(
                self.result_, self._encoder.state(), graph, self.summary_, status=self._status
            )
        self._folder = run.path
        return run

    def explore(self, port: int = 0, open_browser: bool = True) -> RunningExplorer:
        """Look at the fitted model in the browser; needs the ``view`` extra.

        A model that is not in a run folder yet is written to a temporary one first.

        Args:
            port: Port on 127.0.0.1; 0 takes a free one.
            open_browser: Open the page; otherwise only its address is returned.

        Returns:
            The running explorer: ``.address`` is its page and ``.stop()`` ends it.
        """
        import shutil
        import tempfile
        import weakref
        import webbrowser

        from graphham.explore.launch import RunningExplorer

        self._check_fitted()
        place: Path | None = self._folder
        if place is not None and not place.exists():
            place = None
        scratch = None
        if place is None:
            scratch = tempfile.mkdtemp(prefix="graphham-")
            place = self.save(Path(scratch) / "run").path
            self._folder = None  # the folder goes with the explorer
        running = RunningExplorer(place, port, self._graph)
        if scratch is not None:
            weakref.finalize(running, shutil.rmtree, scratch, ignore_errors=True)
        self._explorer = running
        if open_browser:
            webbrowser.open(running.address)
        return running

    def selection(self) -> pa.Table:
        """Return the nodes chosen in the explorer that :meth:`explore` opened last, as a table."""
        running = getattr(self, "_explorer", None)
        if running is None:
            raise InputError("nothing is selected: the model has no explorer; call explore() first")
        table: pa.Table = running.selection()
        return table

    @classmethod
    def load(cls, path: str | Path, graph: Any = None) -> GraphHAM:
        """Load a run folder; transforming with it is bit-equal to the model that was saved.

        Args:
            path: The run folder.
            graph: The training graph, read only by ``explain``, ``groups_table`` and ``save``, and
                needed only where the run does not hold it; its rows may come in any order.
        """
        run = Run.open(path)
        encoder = Encoder.from_run(run)
        config = encoder.config
        model = cls(
            groups=config.groups,
            dim=config.dim,
            task=config.task,
            epochs=config.train.epochs,
            preset=config.preset,
            seed=config.seed,
            device=config.device,
            settings={
                name: section
                for name, section in config.to_dict().items()
                if isinstance(section, dict)
            },
        )
        model._take(run.result(), encoder, run.summary, run.metrics)
        model._fitted = None
        model._inputs = None
        model._graph = None if graph is None else _in_row_order(as_graph(graph), model.ids_)
        model._status = run.summary.get("status", "complete")
        model._folder = run.path
        return model

    def _take(
        self,
        result: FitResult,
        encoder: Encoder,
        summary: dict[str, Any],
        history: list[dict[str, Any]],
    ) -> None:
        self.result_ = result
        self.embedding_ = np.asarray(result.embedding)
        self.memberships_ = result.memberships
        self.groups_ = result.groups
        self.concentration_ = result.concentration
        self.hierarchy_ = Hierarchy.from_result(result)
        self.ids_: NodeIds = result.ids
        self.summary_ = summary
        self.history_ = history
        self._encoder = encoder
        self._folder: Path | None = None

    def _check_fitted(self) -> None:
        if not hasattr(self, "result_"):
            raise InputError("this GraphHAM is not fitted yet; call fit(graph) first")

    def _need_graph(self, what: str) -> Graph:
        self._check_fitted()
        if self._graph is None and self._folder is not None:
            # Read when first asked for: transforming with a loaded run needs no graph.
            self._graph = _kept_graph(self._folder, self.ids_)
        if self._graph is None:
            raise InputError(
                f"{what} needs the training graph, which the run does not hold; load it with "
                f"GraphHAM.load(path, graph)"
            )
        return self._graph

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name, default in _arguments()
            if repr(getattr(self, name)) != repr(default)
        )
        return f"GraphHAM({shown})"


def _kept_graph(folder: Path, ids: NodeIds) -> Graph | None:
    """Return the graph that a run folder keeps, rows in the order of ``ids``, or ``None``."""
    run = Run.open(folder) if folder.exists() else None
    return _in_row_order(run.graph(), ids) if run is not None and run.keeps_graph else None


def _in_row_order(graph: Graph, ids: NodeIds) -> Graph:
    """Return the graph with its rows in the order of ``ids``; refuse one with other nodes."""
    if graph.ids == ids:
        return graph
    rows = graph.ids.find(ids)
    if len(graph.ids) != len(ids) or (rows < 0).any():
        raise InputError(
            f"the graph {graph.name!r} does not have the {len(ids):,} nodes the model was fitted "
            f"on; give the training graph"
        )
    return graph.permuted(rows)


def _arguments() -> list[tuple[str, Any]]:
    parameters = inspect.signature(GraphHAM.__init__).parameters
    return [(name, p.default) for name, p in parameters.items() if name != "self"]


def _argument_names() -> list[str]:
    return [name for name, _ in _arguments()]
