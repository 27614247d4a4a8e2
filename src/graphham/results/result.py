"""What a fit hands back: vectors, memberships and groups of every node, under the user's ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import DivergedError, InputError, blame_rates
from graphham.graph.graph import Labels
from graphham.graph.ids import NodeIds
from graphham.results.hierarchy import Hierarchy, hierarchy_metrics
from graphham.results.scores import Codes, between_groups

if TYPE_CHECKING:
    pass

Floats = npt.NDArray[np.float32]

_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class FitResult:
    """Everything a fitted model says about the nodes; levels run from fine to coarse.

    A method without groups leaves all that concerns levels empty; one with groups but without
    memberships leaves ``memberships`` and ``concentration`` empty.

    Args:
        ids: The user's ids in row order.
        embedding: ``(num_nodes, dim)`` float32, the layers' states side by side.
        layer_dims: Width of each layer's share of the embedding.
        memberships: Per level ``(num_nodes, num_groups)`` float32; rows sum to one.
        groups: Per level ``(num_nodes,)`` int32 group: the strongest of the membership; with
            ``parents``, each lies inside the one above; see
            :func:`graphham.results.scores.show_paths`.
        parents: Per level but the last ``(num_groups,)`` int32 parent in the next level; empty when
            there is one level or the model has no tree of its own.
        parents_from: Whether the model fixed ``parents`` or the majority of nodes chose them.
        concentration: ``(num_nodes,)`` float32 from 0 to 1: spread evenly, or all in one group.
        between: ``(num_nodes,)`` float32 from 0 to 1: two strong memberships; 1 is half and half.
        evidence: ``(num_nodes,)`` float32 from 0 to 1: how much links and features there are to go
            by; empty where the method does not know.
        labels: Known classes, or ``None``.
        prediction: Predicted classes of every node, over the same ``classes`` as ``labels``.
        confidence: ``(num_nodes,)`` float32 probability of the prediction.
        attention_gap: Per layer ``(num_nodes,)`` float32 mean of ``alpha log(alpha / lambda)``
            over neighbours (A11, reading a), or ``None``.
    """

    ids: NodeIds
    embedding: Floats
    layer_dims: tuple[int, ...]
    memberships: list[Floats] = field(default_factory=list)
    groups: list[Codes] = field(default_factory=list)
    parents: list[Codes] = field(default_factory=list)
    parents_from: Literal["model", "majority"] = "model"
    concentration: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    between: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    evidence: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    labels: Labels | None = None
    prediction: Labels | None = None
    confidence: Floats | None = None
    attention_gap: list[Floats] | None = None

    def __post_init__(self) -> None:
        if self.concentration.size == 0 and len(self.ids) and self.memberships:
            object.__setattr__(self, "concentration", concentration(self.memberships))
        if self.between.size == 0 and len(self.ids) and self.memberships:
            object.__setattr__(self, "between", between_groups(self.memberships[0]))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.ids)

    @property
    def num_levels(self) -> int:
        """Number of levels of groups."""
        return len(self.groups)

    @property
    def group_counts(self) -> tuple[int, ...]:
        """Number of groups of each level, used or not."""
        if not self.memberships:
            return tuple(int(codes.max(initial=-1)) + 1 for codes in self.groups)
        return tuple(int(m.shape[1]) for m in self.memberships)

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The tree of groups, counted once from every node's groups.

        Raises:
            InputError: The fit found no groups.
        """
        if not self.groups:
            raise InputError("the fit found no groups, so there is no tree; fit graphham for one")
        made = Hierarchy.from_groups(self.groups, self.group_counts, self.parents)
        if self.parents_from == "majority":
            return replace(made, parents_from="majority")
        return made

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What :func:`graphham.results.hierarchy.hierarchy_metrics` measures, measured once.

        Empty where the fit found no groups.
        """
        if not self.groups:
            return {}
        found = hierarchy_metrics(self.hierarchy, self.groups, self.labels)
        if self.memberships:
            found["concentration"] = float(self.concentration.mean(dtype=np.float64))
        return found

    def layer(self, number: int) -> Floats:
        """Return the ``(num_nodes, dim)`` state of one layer, counted from 1."""
        if not 1 <= number <= len(self.layer_dims):
            raise InputError(f"there is no layer {number}; layers are 1..{len(self.layer_dims)}")
        stop = sum(self.layer_dims[:number])
        return self.embedding[:, stop - self.layer_dims[number - 1] : stop]

    def take(self, rows: npt.NDArray[np.int64]) -> FitResult:
        """Return what is said about some rows, in that order; parents stay those of all."""

        def some(values: Any) -> Any:
            return values if values is None or not len(values) else values[rows]

        gaps = self.attention_gap
        return replace(
            self,
            ids=self.ids.take(rows),
            embedding=np.asarray(self.embedding)[rows],
            memberships=[some(values) for values in self.memberships],
            groups=[some(values) for values in self.groups],
            concentration=some(self.concentration),
            between=some(self.between),
            evidence=some(self.evidence),
            labels=None if self.labels is None else self.labels.take(rows),
            prediction=None if self.prediction is None else self.prediction.take(rows),
            confidence=some(self.confidence),
            attention_gap=None if gaps is None else [some(gap) for gap in gaps],
        )

    def validate(self) -> FitResult:
        """Check every promise of this class; return self or raise :class:`InputError`."""
        n, levels = self.num_nodes, self.num_levels
        if self.embedding.shape != (n, sum(self.layer_dims)):
            raise InputError(
                f"the embedding is {self.embedding.shape}, expected {(n, sum(self.layer_dims))} "
                f"from {n:,} ids and layers of width {self.layer_dims}"
            )
        if len(self.memberships) not in (0, levels):
            raise InputError(
                f"{len(self.memberships)} levels of memberships need as many of groups, "
                f"got {levels}"
            )
        for level, member in enumerate(self.memberships, 1):
            self._check_memberships(level, member)
        for level in range(1, levels + 1):
            self._check_codes(level)
        self._check_parents()
        for what, values in self._node_values():
            if values.shape != (n,) or not np.isfinite(values).all():
                raise InputError(f"{what} must hold one finite number per node ({n:,})")
        for what, labels in (("labels", self.labels), ("prediction", self.prediction)):
            if labels is not None and len(labels) != n:
                raise InputError(f"{what} cover {len(labels):,} nodes, not {n:,}")
        classes = {v.classes for v in (self.labels, self.prediction) if v is not None}
        if len(classes) > 1:
            raise InputError("prediction and labels must share the same classes")
        return self

    def refuse_not_finite(self, rates: Mapping[str, tuple[float, float]]) -> FitResult:
        """Return self, or raise a :class:`DivergedError` if a number of any node is not finite.

        Vectors that are all the same are refused too.

        Args:
            rates: Learning rates of the fit; see :func:`refuse_not_finite`.
        """
        refuse_alike(self.embedding, rates)
        named = [("vector", self.embedding)]
        named += [(f"membership on level {i}", m) for i, m in enumerate(self.memberships, 1)]
        refuse_not_finite(self.ids, [*named, *self._node_values()], rates)
        return self

    def _check_memberships(self, level: int, member: Floats) -> None:
        n = self.num_nodes
        if member.ndim != 2 or member.shape[0] != n or member.shape[1] == 0:
            raise InputError(f"memberships of level {level} are {member.shape} for {n:,} nodes")
        for start in range(0, n, _CHUNK):
            part = member[start : start + _CHUNK]
            wrong = ~(np.abs(part.sum(axis=1) - 1) < 1e-3) | ~(part >= -1e-6).all(axis=1)
            if wrong.any():
                row = start + int(np.flatnonzero(wrong)[0])
                raise InputError(
                    f"membership of node {self.ids[row]!r} on level {level} is no probability "
                    f"row: it sums to {float(member[row].sum()):.4g}"
                )

    def _check_codes(self, level: int) -> None:
        count = self.group_counts[level - 1]
        codes = self.groups[level - 1]
        inside = (codes >= 0) & (codes < count)
        if codes.shape != (self.num_nodes,) or not bool(inside.all()):
            raise InputError(f"groups of level {level} must be one of 0..{count - 1} per node")

    def _check_parents(self) -> None:
        counts = self.group_counts
        if not self.parents:
            return
        if len(self.parents) != len(counts) - 1:
            raise InputError(f"{len(counts)} levels need {len(counts) - 1} parent lists")
        for level, parent in enumerate(self.parents, 1):
            inside = (parent >= 0) & (parent < counts[level])
            if parent.shape != (counts[level - 1],) or not bool(inside.all()):
                raise InputError(
                    f"parents of level {level} must name one of the {counts[level]} groups above "
                    f"for each of the {counts[level - 1]} groups"
                )

    def _node_values(self) -> list[tuple[str, Floats]]:
        named = [("concentration", self.concentration)] if self.memberships else []
        if self.confidence is not None:
            named.append(("confidence", self.confidence))
        named += [
            (f"attention_gap of layer {i}", v) for i, v in enumerate(self.attention_gap or [], 1)
        ]
        return named


def refuse_not_finite(
    ids: NodeIds,
    named: Iterable[tuple[str, npt.NDArray[Any]]],
    rates: Mapping[str, tuple[float, float]],
) -> None:
    """Refuse what training left behind if any of it is not finite.

    Args:
        ids: The user's ids in row order.
        named: What to call the rows of an array, and the array, ``(num_nodes, ...)``.
        rates: Learning rates by the name of their setting; see :func:`graphham.errors.blame_rates`.

    Raises:
        DivergedError: A number is not finite.
    """
    for what, values in named:
        for start in range(0, len(values), _CHUNK):
            fine = np.isfinite(values[start : start + _CHUNK])
            if bool(fine.all()):
                continue
            row = start + int(np.flatnonzero(~fine.reshape(len(fine), -1).all(axis=1))[0])
            cause, advice = blame_rates(rates)
            raise DivergedError(
                f"training{cause} went astray: the {what} of node {ids[row]!r} is not finite, so "
                f"nothing was kept; {advice}"
            )


def refuse_alike(vectors: npt.NDArray[Any], rates: Mapping[str, tuple[float, float]]) -> None:
    """Refuse vectors that tell no node from another.

    Args:
        vectors: ``(num_nodes, dim)`` vectors.
        rates: Learning rates by the name of their setting; see :func:`graphham.errors.blame_rates`.

    Raises:
        DivergedError: All vectors are the same.
    """
    # Two linked nodes are alike, and what was never trained cannot have strayed.
    if len(vectors) < 3 or not rates:
        return
    for start in range(0, len(vectors), _CHUNK):
        part = vectors[start : start + _CHUNK]
        if not np.array_equal(part, np.broadcast_to(vectors[:1], part.shape)):
            return
    cause, advice = blame_rates(rates)
    what = "zero" if not np.any(vectors[0]) else "the same"
    raise DivergedError(
        f"the vectors of all {len(vectors):,} nodes{cause} came out {what}, so nothing was kept; "
        f"look whether links and features tell nodes apart, or {advice}"
    )


def concentration(memberships: Sequence[npt.NDArray[Any]]) -> Floats:
    """Score how firmly each node commits to one group, from 0 to 1, averaged over levels.

    The score of a level is the variance of the membership row (the paper's) over the largest that
    a row of as many groups can have: 1 for a node in one group, 0 for one spread evenly, however
    many groups there are. A level of a single group says nothing and does not count.

    Args:
        memberships: One ``(num_nodes, num_groups)`` array per level.
    """
    if not memberships:
        raise InputError("concentration() needs the memberships of at least one level, got none")
    total = np.zeros(len(memberships[0]), dtype=np.float64)
    telling = [member for member in memberships if member.shape[1] > 1]
    for member in telling:
        groups = member.shape[1]
        for start in range(0, len(member), _CHUNK):
            part = np.asarray(member[start : start + _CHUNK], dtype=np.float64)
            total[start : start + _CHUNK] += part.var(axis=1) * (groups * groups / (groups - 1))
    score = np.asarray(total / max(len(telling), 1), dtype=np.float32)
    return np.clip(score, 0.0, 1.0)


def predicted(
    scores: npt.NDArray[Any], classes: tuple[Any, ...], is_multi: bool
) -> tuple[Labels, Floats]:
    """Return the predicted classes and how likely they are.

    Args:
        scores: ``(num_nodes, num_classes)`` probabilities: of one class in all, or of each label.
        classes: The label values behind the columns.
        is_multi: Whether a node may carry several labels: all that are likelier than not, and the
            likeliest in any case.
    """
    best, rows = scores.argmax(1), np.arange(len(scores))
    if not is_multi:
        labels = Labels(classes, codes=best.astype(np.int32))
        return labels, scores[rows, best].astype(np.float32)
    chosen = scores >= 0.5
    chosen[rows, best] = True
    confidence = np.where(chosen, scores, 1.0).min(1)
    return Labels(classes, matrix=sp.csr_matrix(chosen)), confidence.astype(np.float32)
