"""A fit of any method: what it says about nodes, and how it is kept, loaded and looked at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from graphham.datasets.open_source import as_graph, as_nodes
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.ids import NodeIds
from graphham.io.joined import join_graphs
from graphham.methods.alike import checked_like
from graphham.methods.scikit import ScikitConventions, class_array, share_right
from graphham.results.describe import boundary_table, groups_table
from graphham.results.hierarchy import Hierarchy
from graphham.results.names import Namer, names_of, renamed_table
from graphham.results.result import FitResult, Floats
from graphham.results.run_folder import Run
from graphham.results.run_names import checked_source, name_run
from graphham.results.run_writer import start_run
from graphham.results.similar import similar_nodes
from graphham.results.unpacked_run import is_unpacked
from graphham.system import hooks

if TYPE_CHECKING:
    import pyarrow as pa


class FittedModel(ScikitConventions):
    """What a method is once it is fitted; :class:`graphham.methods.base.Method` fits it.

    Attributes:
        embedding_: ``(num_nodes, dim)`` float32; rows follow ``ids_``.
        memberships_: One ``(num_nodes, K_l)`` array per level, fine first; rows sum to one. Empty
            where the method has none.
        groups_: One ``(num_nodes,)`` array of group numbers per level, fine first; empty likewise.
        concentration_: ``(num_nodes,)`` from 0 to 1; low for nodes at a boundary between groups.
        hierarchy_: The tree of groups; ``None`` where the method finds no groups.
        result_: All of these in one object.
        class_scores_: ``(num_nodes, num_classes)`` float32, the largest being the predicted class
            (or per-label scores for multi-label graphs); ``None`` after ``embed``.
        classes_: Array of the label values behind the columns of ``class_scores_``.
        validation_: Score on ``validation_rows`` that early stopping and tuning may look at.
        levels_: ``(num_nodes,)`` int32 groups per level, fine first, where the method finds any.
        cost_: ``seconds`` of the fit and ``peak_memory_bytes`` of the process.
        history_: One record of numbers per epoch.
        summary_: Graph, groups, training, cost and versions: what ``summary.json`` says.
        ids_: The user's ids in row order.
    """

    embedding_: Floats
    class_scores_: Floats | None
    classes_: npt.NDArray[Any]
    validation_: float | None
    levels_: list[npt.NDArray[np.int32]] | None
    cost_: dict[str, float]
    history_: list[dict[str, Any]]
    summary_: dict[str, Any]
    result_: FitResult
    memberships_: list[Floats]
    groups_: list[npt.NDArray[np.int32]]
    concentration_: Floats
    hierarchy_: Hierarchy | None
    ids_: NodeIds
    _source: Graph | None = None  # the very object that was given to fit
    _graph: Graph | None = None  # what was fitted, or what the run folder keeps
    _folder: Path | None = None  # where the fit is kept as a run, once it is
    _explorer: Any = None
    _groups: pa.Table | None = None  # the table of groups, once it was asked for
    _names: dict[tuple[int, int], str] | None = None  # given by name_groups
    _named_by: str | None = None
    _status = "complete"
    _fitted_task = "embed"

    def _take(self, result: FitResult) -> None:
        self._groups, self._names, self._named_by = None, None, None
        self.result_ = result
        self.ids_ = result.ids
        self.embedding_ = np.asarray(result.embedding)
        self.memberships_, self.groups_ = result.memberships, result.groups
        self.concentration_ = result.concentration
        self.hierarchy_ = result.hierarchy if result.groups else None

    def transform(self, graph: Any) -> Any:
        """Return the vectors of any graph's nodes, unfitted: one row per node.

        Args:
            graph: What ``fit`` takes, or some nodes of it as ``graph[rows]``. The graph that was
                fitted gives exactly the vectors of the fit.

        Returns:
            A ``(num_nodes, dim)`` float32 array, or the frame that :meth:`set_output` asked for.

        Raises:
            InputError: The method has no vectors for nodes it was not fitted on.
        """
        return self._shown_as(self.read(graph))

    def read(self, graph: Any) -> FitResult:
        """Return all that the method says about any graph's nodes, unfitted.

        Args:
            graph: As for :meth:`transform`.

        Returns:
            Vectors with ids and, where the method has them, groups, memberships and predictions.
        """
        self._check_fitted()
        whole, rows = as_nodes(graph)
        if whole is self._source:
            result = self.result_
        else:
            alike = checked_like(whole, self.summary_.get("graph", {}), self._feature_names())
            result = self._transform(alike.validate())
        return result if rows is None else result.take(rows)

    def read_new(self, edges: Any, features: Any = None, id_column: str | None = None) -> FitResult:
        """Return all that the method says about new nodes, which are linked to known ones.

        The new nodes and their links are joined to the training graph, which the run holds; old
        nodes and their features need not be given again.

        Args:
            edges: Links of the new nodes among themselves and to known ids, in any form ``fit``
                takes.
            features: Table of the new nodes' features, where the model was fitted with features.
            id_column: Name of its id column; the first one if not given.

        Returns:
            As :meth:`read`, of the new nodes only.
        """
        known = self._need_graph("read_new")
        joined, rows = join_graphs(known, as_graph(edges), features, id_column)
        return self.read(joined).take(rows)

    def _feature_names(self) -> list[str] | None:
        """Return the names of the features the model was fitted on, where they are at hand."""
        try:
            return [str(name) for name in self.feature_names_in_]
        except AttributeError:
            return None

    def _transform(self, graph: Graph) -> FitResult:
        vectors = self._place(graph)
        return FitResult(graph.ids, vectors, (vectors.shape[1],), labels=graph.labels)

    def _place(self, graph: Graph) -> Floats:
        """Return the ``(num_nodes, dim)`` vectors of other nodes."""
        raise InputError(
            f"the method {self.name} learns one vector per node it was fitted on and cannot place "
            f"others; fit it on the whole graph, or choose graphham, graphsage or gat"
        )

    def predict(self, graph: Any = None) -> list[Any]:
        """Return the predicted label of each node, as the user wrote labels.

        Args:
            graph: Nodes to predict, where the method can, or ``graph[rows]``; the training
                graph's when not given.
        """
        self._check_fitted()
        result = self.result_ if graph is None else self.read(graph)
        if self.result_.prediction is None:
            raise InputError(f"{self!r} was fitted without labels; fit with task='classify'")
        if result.prediction is None:
            raise InputError(f"the method {self.name} predicts only nodes it was fitted on")
        return result.prediction.values()

    def predict_proba(self, graph: Any = None) -> Floats:
        """Return the probability of each class, in the order of ``classes_``.

        Args:
            graph: As for :meth:`predict`: GraphHAM answers for any graph, other methods for nodes
                they were fitted on.

        Returns:
            ``(num_nodes, num_classes)``; rows sum to one unless a node may have several labels.

        Raises:
            InputError: The fit has no classes, or the method cannot answer for these nodes.
        """
        self._check_fitted()
        if self.result_.prediction is None:
            raise InputError(f"{self!r} was fitted without labels; fit with task='classify'")
        whole, rows = (None, None) if graph is None else as_nodes(graph)
        if whole is None or whole is self._source:
            scores = self.class_scores_
            assert scores is not None
        else:
            alike = checked_like(whole, self.summary_.get("graph", {}), self._feature_names())
            scores = self._class_scores_of(alike.validate())
        return scores if rows is None else scores[rows]

    def _class_scores_of(self, graph: Graph) -> Floats:
        """Return the ``(num_nodes, num_classes)`` probabilities of a graph that was not fitted."""
        if graph.ids != self.ids_:
            raise InputError(
                f"the method {self.name} has probabilities for the nodes it was fitted on only; "
                f"graphham has them for any graph"
            )
        assert self.class_scores_ is not None
        return self.class_scores_

    def score(self, graph: Any = None, y: Any = None) -> float:
        """Return the share of nodes whose label is predicted right (multi-label: micro-F1).

        Args:
            graph: As for :meth:`predict`. Of a graph that was fitted this includes the nodes it
                learned from, so give the others as ``graph[rows]``.
            y: The true labels in the order of the nodes, ``None`` where unknown; the graph's own
                when not given.
        """
        said = self.predict(graph)
        if y is None:
            whole, rows = (self._graph, None) if graph is None else as_nodes(graph)
            known = self.result_.labels if whole is None else whole.labels
            if known is None:
                raise InputError("score needs the true labels; give them as y")
            y = (known if rows is None else known.take(rows)).values()
        return share_right(said, y.tolist() if hasattr(y, "tolist") else list(y))

    def groups_table(self, level: int | None = None) -> pa.Table:
        """Return the groups with size, parent, typical features and nodes.

        Args:
            level: Only this level (1 is the finest).
        """
        graph = self._need_graph("groups_table")
        if self._groups is None:
            self._groups = groups_table(self.result_, graph)
        kept = self._kept_run()
        names = self._names if kept is None else kept.renamed
        table = renamed_table(self._groups, names or {})
        if level is None:
            return table
        import pyarrow.compute as pc

        return table.filter(pc.equal(table["level"], level))

    def _kept_run(self) -> Run | None:
        """Return the run folder of this fit, where there is one."""
        has_one = self._folder is not None and self._folder.exists()
        return Run.open(self._folder) if has_one and self._folder is not None else None

    def name_groups(
        self, namer: Namer | None = None, by_labels: bool = False, again: bool = False
    ) -> pa.Table:
        """Give the groups other names, which are kept with the fit and in its run folder.

        The usual names come from the words that set a group apart from its siblings, or else from
        its typical nodes; without arguments, groups get them back.

        Args:
            namer: Your own function, such as a call of a language model. It is asked once per
                group, parents first, with one
                :class:`~graphham.results.names.GroupFacts` (level, size, parent's name, words that
                set the group apart, typical nodes and titles, the usual name) and returns the name,
                or ``None`` for the usual one. What it said is kept, so that it is not asked twice.
            by_labels: Name groups after their most frequent labels, marked ``[label]``.
            again: Ask the namer about groups it has named already too.

        Returns:
            What :meth:`groups_table` returns.
        """
        graph = self._need_graph("name_groups")
        kept = self._kept_run()
        if kept is not None:
            name_run(kept, graph, namer, by_labels, again)
            return self.groups_table()
        how = checked_source(namer, by_labels)
        if how is None:
            self._names = self._named_by = None
        elif how == "labels" or again or self._named_by != "namer":
            table = groups_table(self.result_, graph, namer=namer, by_labels=by_labels)
            self._names, self._named_by = names_of(table), how
        return self.groups_table()

    def boundary_nodes(self, count: int = 20) -> pa.Table:
        """Return the nodes most between two groups, and which two."""
        self._check_fitted()
        return boundary_table(self.result_, count)

    def neighbors(self, node: int | str, count: int = 10, inside: str | None = None) -> pa.Table:
        """Return the nodes most like one node, by the cosine of their vectors; exact.

        Args:
            node: The user's own id.
            count: How many at most.
            inside: Only members of this group: ``LEVEL-GROUP``, such as ``2-5``, or its name.

        Returns:
            ``id``, ``similarity`` and the groups of each, the nearest first.
        """
        self._check_fitted()
        tree, kept = self.hierarchy_, self._kept_run()
        if tree is not None and kept is not None:
            tree = kept.hierarchy  # with the names of the groups
        return similar_nodes(self.result_, tree, node, count, inside)

    def explore(self, port: int = 0, open_browser: bool = True) -> Any:
        """Look at the fit in the browser; needs the ``view`` extra.

        A fit that is not in a run folder yet is written to a temporary one first.

        Args:
            port: Port on 127.0.0.1; 0 takes a free one.
            open_browser: Open the page; otherwise only its address is returned.

        Returns:
            The running explorer: ``.address`` is its page and ``.stop()`` ends it.
        """
        self._check_fitted()
        self._explorer = hooks.open_explorer(self, port, open_browser)
        return self._explorer

    def selection(self) -> pa.Table:
        """Return the nodes chosen in the explorer that :meth:`explore` opened last, as a table."""
        if self._explorer is None:
            raise InputError("nothing is selected: there is no explorer; call explore() first")
        table: pa.Table = self._explorer.selection()
        return table

    def save(self, path: str | Path, overwrite: bool = False) -> Run:
        """Write a run folder, the same as the command line writes.

        Args:
            path: The folder to be.
            overwrite: Replace a run of any method; the old one stays until the new one is whole.
        """
        graph = self._need_graph("save")
        with start_run(path, self._run_config(), overwrite, is_resumable=False) as writer:
            for record in self.history_:
                writer.log(record)
            run = writer.finish(
                self.result_,
                {**self._state(), **self._output_arrays()},
                graph,
                {**self.summary_, "method": self._about()},
                status=self._status,
                write_more=self.write_outputs,
            )
        self._folder = run.path
        return run if self._names is None else run.keep_names(self._names, self._named_by)

    def _run_config(self) -> dict[str, Any]:
        """Return what ``config.toml`` holds: enough to repeat the run."""
        return {"method": self.name, "task": self._fitted_task, **self.get_params()}

    def _about(self) -> dict[str, Any]:
        """Return what tells :meth:`load` which method this is and how it was made."""
        return {
            "name": self.name,
            "settings": self.get_params(),
            "classes": self.classes_.tolist(),
            "facts": self._facts(),
        }

    def _output_arrays(self) -> dict[str, Any]:
        levels = {f"outputs.level.{n}": codes for n, codes in enumerate(self.levels_ or [], 1)}
        scores = self.class_scores_
        return levels if scores is None else {**levels, "outputs.class_scores": scores}

    @classmethod
    def load(cls, path: str | Path, graph: Any = None) -> Self:
        """Load a run folder; what it answers is equal bit for bit to the fit that was saved.

        Args:
            path: The run folder.
            graph: The training graph, read only by ``explain``, ``groups_table`` and ``save``, and
                needed only where the run does not hold it; its rows may come in any order.
        """
        run = Run.open(path)
        kinds = [cls]
        for kind in kinds:  # grows: a form of this method, such as an ablation, will do
            kinds += kind.__subclasses__()
        named = {kind.name: kind for kind in kinds}
        if run.method not in named:
            raise InputError(
                f"{path} holds the method {run.method}, not {cls.name}; load it with graphham.load"
            )
        method = named[run.method]._from_run(run)
        if graph is not None:
            method._know(as_graph(graph))
        return method

    @classmethod
    def _from_run(cls, run: Run) -> Self:
        """Rebuild the fit that a run folder holds."""
        about = run.summary["method"]
        method = cls.make(**about["settings"])
        method._take_run(run)
        state = run.state()
        levels = sum(name.startswith("outputs.level.") for name in state)
        method.levels_ = [state[f"outputs.level.{n}"] for n in range(1, levels + 1)] or None
        method.class_scores_ = state.get("outputs.class_scores")
        method.classes_ = class_array(about["classes"])
        method._restore(
            {k: v for k, v in state.items() if not k.startswith("outputs.")}, about["facts"]
        )
        return method

    def _take_run(self, run: Run) -> None:
        self._take(run.result())
        self.summary_, self.history_ = run.summary, run.metrics
        self.cost_ = run.summary["cost"]
        self.validation_ = run.summary["training"]["validation"]
        self._fitted_task = str(run.config.get("task", "embed"))
        self._status = run.summary.get("status", "complete")
        self._folder = run.path

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

    def _need_graph(self, what: str) -> Graph:
        """Return the training graph: the one fitted, given or kept in the run folder."""
        self._check_fitted()
        if self._graph is None and self._folder is not None and self._folder.exists():
            # Read when first asked for: transforming with a loaded run needs no graph.
            run = Run.open(self._folder)
            if run.keeps_graph:
                self._know(run.graph())
        if self._graph is None:
            raise InputError(
                f"{what} needs the training graph, which the run does not hold; name it with "
                f"--graph, or load the run with graphham.load(path, graph)"
            )
        return self._graph

    def _know(self, graph: Graph) -> None:
        """Take a graph as the training graph, rows put in order; refuse one with other nodes."""
        if graph.ids != self.ids_:
            rows = graph.ids.find(self.ids_)
            if len(graph.ids) != len(self.ids_) or (rows < 0).any():
                raise InputError(
                    f"the graph {graph.name!r} does not have the {len(self.ids_):,} nodes the "
                    f"model was fitted on; give the training graph"
                )
            graph = graph.permuted(rows)
        self._graph = graph

    def __repr__(self) -> str:
        """Say what was fitted, in one line; settings where nothing is fitted yet."""
        if not hasattr(self, "ids_"):
            return super().__repr__()
        name = getattr(self, "summary_", {}).get("graph", {}).get("name")
        found = [f"{len(self.ids_):,} nodes"]
        if self.hierarchy_ is not None:
            found.append(f"groups {' > '.join(map(str, self.hierarchy_.groups_in_use))}")
        found += [f"vectors of {self.embedding_.shape[1]}", f"task {self._fitted_task}"]
        if self._folder is not None:
            # A zip is unpacked under a name of the moment, which nobody has seen.
            place = f"{self._folder.name}.zip" if is_unpacked(self._folder) else self._folder
            found.append(f"run {place}")
        said = f"{type(self).__name__} fitted{f' to {name}' if name else ''}: {', '.join(found)}"
        return f"<{said}>"

    def _check_fitted(self) -> None:
        if not hasattr(self, "ids_"):
            raise InputError(f"{type(self).__name__} is not fitted yet; call fit(graph) first")
