"""What a fit is asked, checked: the graph, the task and the rows whose labels may be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.rows import checked_rows

if TYPE_CHECKING:
    from graphham.training.epochs import Listener

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FitRequest:
    """A fit to make.

    Args:
        graph: What may be learned from. With the task ``embed`` it has no labels, so that nothing
            can look at them by mistake.
        task: ``embed`` or ``classify``.
        given: The graph as the user gave it, labels included, to describe what was found.
        train_rows: Rows whose labels may be trained on; all known ones when ``None``.
        validation_rows: Rows whose labels decide early stopping and settings.
        listener: Who hears about progress.
    """

    graph: Graph
    task: str
    given: Graph
    train_rows: Rows | None = None
    validation_rows: Rows | None = None
    listener: Listener | None = None

    @classmethod
    def checked(
        cls,
        given: Graph,
        task: str,
        train_rows: Any = None,
        validation_rows: Any = None,
        listener: Listener | None = None,
    ) -> FitRequest:
        """Check that graph, task and rows fit together.

        Raises:
            InputError: They do not.
        """
        given.validate()
        if task == "embed":
            bare = replace(given, labels=None, splits={})
            return cls(bare, task, given, listener=listener)
        if given.labels is None or not given.labels.known.any():
            raise InputError("task 'classify' needs labels; give the graph some (--labels)")
        if len(given.labels.classes) < 2:
            only = given.labels.classes[0]
            raise InputError(f"every label is {only!r}; classification needs two classes")
        training = _distinct(train_rows, given, "train_rows")
        validation = _distinct(validation_rows, given, "validation_rows")
        if training is not None and validation is not None:
            both = np.intersect1d(training, validation)
            if both.size:
                raise InputError(
                    f"row {both[0]} is in train_rows and in validation_rows; keep them apart"
                )
        return cls(given, task, given, training, validation, listener)


def _distinct(rows: Any, graph: Graph, what: str) -> Rows | None:
    return None if rows is None else np.unique(checked_rows(rows, graph.num_nodes, what))
