"""Selections of the page as rows of the whole run: a group, an attribute, a lasso."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.report.view import RunView

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

_MAX_TEXT = 20_000


def selected_rows(
    view: RunView, xy: npt.NDArray[Any], request: Mapping[str, Any]
) -> npt.NDArray[np.int64] | None:
    """Return the rows of a selection as the page names it; ``None`` where nothing is selected.

    Args:
        view: The run.
        xy: ``(num_nodes, 2)`` places on the map.
        request: ``group`` such as ``2-5``, ``attribute`` such as ``label:3`` or
            ``between:5``, or ``lasso``, a
            polygon of map places such as ``0,0;1,0;1,1``. All nodes count, drawn or not.
    """
    kinds = {k: request[k] for k in ("group", "attribute", "lasso") if request.get(k)}
    if not kinds:
        return None
    kind, text = next(iter(kinds.items()))
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        raise InputError(f"a {kind} is named by a short text")
    if kind == "group":
        return group_rows(view, text)
    if kind == "attribute":
        name, _, code = text.partition(":")
        return attribute_rows(view, name[:40], _number(code))
    return inside_polygon(xy, read_polygon(text))


def read_polygon(text: object) -> npt.NDArray[np.float64]:
    """Return the corners of a lasso, written as ``0,0;1,0;1,1``."""
    try:
        if not isinstance(text, str) or len(text) > _MAX_TEXT:
            raise ValueError
        polygon = np.asarray([[float(v) for v in p.split(",")] for p in text.split(";")])
    except ValueError:
        polygon = np.zeros((0, 0))
    if polygon.shape[1:] != (2,) or not np.isfinite(polygon).all():
        raise InputError("a lasso is a list of map places such as 0,0;1,0;1,1")
    return polygon


def group_rows(view: RunView, key: str) -> npt.NDArray[np.int64]:
    """Return the rows of a group, named as the page does: ``2-5`` is group 5 of level 2."""
    level, _, group = key.partition("-")
    counts = view.result.group_counts
    depth, number = _number(level), _number(group)
    if not (1 <= depth <= len(counts) and 0 <= number < counts[depth - 1]):
        raise InputError(f"there is no group {key[:40]!r}")
    return np.flatnonzero(view.result.groups[depth - 1] == number)


def _number(text: str) -> int:
    """Return plain digits as a number; -1 for all else, and for more digits than any row has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else -1


def attribute_rows(view: RunView, kind: str, code: int) -> npt.NDArray[np.int64]:
    """Return the rows with a label or a feature, between groups, or with too little evidence.

    Args:
        view: The run.
        kind: ``label``, ``feature``, ``between`` or ``evidence``.
        code: Number of the label or feature; the percentage most between groups; of ``evidence``
            always 0.
    """
    if kind == "between" and 1 <= code <= 100 and view.result.memberships:
        return np.flatnonzero(view.result.between >= view.between_bar(code))
    if kind == "evidence" and code == 0 and len(view.result.evidence):
        return np.flatnonzero(view.is_thin)
    if kind == "label" and 0 <= code < len(view.label_names):
        labels = view.result.labels
        assert labels is not None
        if labels.matrix is not None:
            return np.asarray(labels.matrix.tocsc()[:, code].indices, dtype=np.int64)
        return np.flatnonzero(view.label_codes == code)
    graph = view.graph
    if kind == "feature" and graph is not None and 0 <= code < graph.num_features:
        return _feature_rows(graph, code)
    raise InputError(f"there is no {kind} number {code}")


def inside_polygon(xy: npt.NDArray[Any], polygon: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the rows of the points inside a polygon, by counting its sides to their right.

    Args:
        xy: ``(num_points, 2)`` places.
        polygon: ``(corners, 2)``; the last corner joins the first.
    """
    low, high = polygon.min(axis=0), polygon.max(axis=0)
    rows = np.flatnonzero(((xy >= low) & (xy <= high)).all(axis=1))
    x, y = xy[rows, 0].astype(np.float64), xy[rows, 1].astype(np.float64)
    is_inside = np.zeros(len(rows), dtype=bool)
    for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, 1, axis=0), strict=True):
        crosses = (ay > y) != (by > y)
        with np.errstate(divide="ignore", invalid="ignore"):
            is_inside ^= crosses & (x < (bx - ax) * (y - ay) / (by - ay) + ax)
    return rows[is_inside]


def _feature_rows(graph: Graph, code: int) -> npt.NDArray[np.int64]:
    x: Any = graph.features
    if sp.issparse(x):
        # Row bounds and column numbers alone tell who has the feature; no copy is made.
        at = np.flatnonzero((x.indices == code) & (x.data != 0))
        rows = np.searchsorted(x.indptr, at, side="right") - 1
        return np.asarray(rows, dtype=np.int64)
    return np.flatnonzero(np.asarray(x[:, code]) != 0)
