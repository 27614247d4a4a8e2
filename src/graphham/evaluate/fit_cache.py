"""Fit once what several cells need: a fit that a fold cannot change is made for the first of them.

Vectors of a method that never reads labels are the same in every fold of the nodes, and the links
that are hidden are the same whichever negatives they are ranked against. Cells that share a fit
belong to one group. A process holds a group while it measures its cells and forgets the fit when it
leaves the group, so that nothing is ever read from an older version of the program. The numbers of
a cell are those it would have had alone; its record says how many seconds it was spared.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, lock_file

if TYPE_CHECKING:
    from graphham.methods.base import Method


def group_of(cell: Cell) -> str | None:
    """Return what cells that share their fits have in common, or ``None`` for a cell of its own."""
    from graphham.methods.registry import method_class

    if cell.kind not in ("classify", "links"):
        return None
    with contextlib.suppress(InputError):
        if cell.kind == "classify" and method_class(cell.method).reads_labels:
            return None
        # Every protocol shows all edges of the graph, or, for links, the same ones of a fold.
        fold = [cell.fold, cell.folds] if cell.kind == "links" else None
        parts = [cell.kind, cell.graph, cell.method, cell.seed, fold, cell.settings]
        return json.dumps(parts, sort_keys=True, default=str)
    return None


def together(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells with those of a group side by side, where the first of them stood."""
    places: dict[str, list[Cell]] = {}
    for cell in cells:
        places.setdefault(group_of(cell) or f"cell {cell.key}", []).append(cell)
    return [cell for group in places.values() for cell in group]


class Fits:
    """The fits of the group of cells this process is at.

    Args:
        folder: Where groups are claimed; processes that share the work share it. ``None`` for a
            process on its own.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._group: str | None = None
        self._handle: int | None = None
        self._made: dict[str, Method] = {}

    def __enter__(self) -> Fits:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self, cell: Cell) -> bool:
        """Move to a cell's group; return ``False`` if another process holds it."""
        group = group_of(cell)
        if group is not None and group == self._group:
            return True
        self.leave()
        if group is not None and self.folder is not None:
            self._handle = lock_file(self._claim(group))
            if self._handle is None:
                return False
        self._group = group
        return True

    def leave(self) -> None:
        """Forget the fits and let others have the group."""
        if self._handle is not None and self._group is not None:
            # Removed while still locked: nobody can lock a file that is about to vanish.
            self._claim(self._group).unlink(missing_ok=True)
            os.close(self._handle)
        self._group, self._handle = None, None
        self._made.clear()

    def get(self, candidate: Method, make: Callable[[Method], Method]) -> tuple[Method, bool]:
        """Return a fit with the settings of ``candidate``, and whether it had been made before.

        Args:
            candidate: A method that is not fitted.
            make: Fits it.
        """
        key = json.dumps([candidate.name, candidate.get_params()], sort_keys=True, default=str)
        is_known = key in self._made
        if not is_known:
            made = make(candidate)
            if self._group is None:
                return made, False
            self._made[key] = made
        return self._made[key], is_known

    def _claim(self, group: str) -> Path:
        assert self.folder is not None
        name = hashlib.blake2b(group.encode(), digest_size=8).hexdigest()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot make {self.folder}: {error.strerror}; choose another --out"
            ) from error
        return self.folder / name


def classified(
    candidate: Method, graph: Any, train_rows: Any, validation_rows: Any, fits: Fits | None
) -> tuple[Method, float]:
    """Fit a method to labels, reusing its vectors where they do not depend on them.

    Args:
        candidate: A method that is not fitted.
        graph: The graph with the labels that may be seen.
        train_rows: Rows to train on.
        validation_rows: Rows to choose on.
        fits: Fits made before; ``None`` to fit anew.

    Returns:
        The fitted method and the seconds it was spared.
    """
    from graphham.methods.label_free import LabelFreeMethod

    if fits is None or not isinstance(candidate, LabelFreeMethod):
        return candidate.fit(
            graph,
            task="classify",
            train_rows=train_rows,
            validation_rows=validation_rows,
            verbose=False,
        ), 0.0
    vectors, is_known = fits.get(
        candidate, lambda method: method.fit(graph, task="embed", verbose=False)
    )
    assert isinstance(vectors, LabelFreeMethod)
    spared = vectors.cost_["seconds"] if is_known else 0.0
    return vectors.classified(graph, train_rows, validation_rows), spared


def embedded(candidate: Method, graph: Any, fits: Fits | None) -> tuple[Method, float]:
    """Fit a method without labels, or take the fit that was made before.

    Args:
        candidate: A method that is not fitted.
        graph: The graph.
        fits: Fits made before; ``None`` to fit anew.

    Returns:
        The fitted method and the seconds it was spared.
    """
    if fits is None:
        return candidate.fit(graph, task="embed", verbose=False), 0.0
    fitted, is_known = fits.get(
        candidate, lambda method: method.fit(graph, task="embed", verbose=False)
    )
    return fitted, fitted.cost_["seconds"] if is_known else 0.0
