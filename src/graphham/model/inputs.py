"""From raw node features to what the network reads, for training nodes and for nodes never seen.

Every node gets two things: its scaled features, which the layers transform, and its memberships in
the groups of the block model (:mod:`graphham.groups.group_map`). Both are computed once, so a
sampled batch knows them as cheaply as the whole graph does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.mapped_features import (
    KEPT_BYTES,
    MappedFeatures,
    clear_blank_rows,
    gather_rows,
)
from graphham.graph.neighborhoods import Block
from graphham.kernels import SparseMatrix, mean_aggregate
from graphham.kernels.attention_readout import lead_with_self
from graphham.model.feature_rows import FeatureRows
from graphham.model.link_columns import LinkColumns
from graphham.model.spectral import main_directions, structural_features
from graphham.parallel.graph_access import graph_access
from graphham.parallel.ranks import ALONE, Ranks
from graphham.sampling.keys import derive_key
from graphham.sampling.random_stream import dropout as drop
from graphham.sampling.random_stream import make_source
from graphham.system.jit import frozen
from graphham.system.threads import single_threaded

Scaling = Literal["none", "row", "tfidf", "standard"]
Floats = npt.NDArray[np.float32]
_SPAN = 1 << 14  # nodes averaged at once
# Columns from which on a dense row of nothing but zeros is taken for one that nobody measured.
_BLANK_COLUMNS = 8


class InputSettings(Protocol):
    """How raw features become the network's input; the ``inputs`` settings of a run are such."""

    @property
    def scaling(self) -> Literal["auto", "none", "row", "tfidf", "standard"]:
        """How features are scaled; ``auto`` looks at them."""

    @property
    def structural_dim(self) -> int:
        """Width of the features made for a graph that has none."""


@dataclass(frozen=True, eq=False)
class NodeInputs:
    """What the network reads of every node of a graph.

    Args:
        features: ``(num_nodes, num_features)`` scaled features: sparse, dense, or left on disk.
        memberships: ``(num_nodes, sum of K_l + d)`` of all levels, fine to coarse, and behind them
            what likeness is read from (:meth:`~graphham.model.group_map.GroupMap.rows`); no columns
            where the layers make their own.
    """

    features: SparseMatrix | Tensor | MappedFeatures
    memberships: Tensor

    @property
    def num_features(self) -> int:
        """Width of the features."""
        return int(self.features.shape[1])

    def rows(self, selection: Any, dropout: float = 0.0, key: Any = 0) -> FeatureRows:
        """Return the features of chosen rows (``None`` for all), with dropout by key."""
        if isinstance(self.features, SparseMatrix):
            matrix = self.features if selection is None else self.features.rows(selection)
            return FeatureRows(matrix.dropped(dropout, key) if dropout else matrix)
        if isinstance(self.features, MappedFeatures):
            mapped = self.features
            dense = mapped.to_tensor() if selection is None else mapped.rows(selection)
        else:
            dense = self.features if selection is None else gather_rows(self.features, selection)
        if dropout:
            # Rows gathered for the occasion are nobody else's.
            dense = drop(dense, dropout, make_source(key, dense.device), selection is not None)
        return FeatureRows(dense=dense)

    def span(self, first: int, last: int) -> FeatureRows:
        """Return the features of the rows ``first`` to ``last - 1``."""
        if isinstance(self.features, SparseMatrix):
            return FeatureRows(self.features.rows(np.arange(first, last)))
        if isinstance(self.features, MappedFeatures):
            return FeatureRows(dense=self.features.span(first, last))
        return FeatureRows(dense=self.features[first:last])

    def membership_rows(self, selection: Any) -> Tensor:
        """Return the memberships of chosen rows (``None`` for all)."""
        return self.memberships if selection is None else gather_rows(self.memberships, selection)

    def to(self, device: torch.device | str) -> NodeInputs:
        """Move what is dense; sparse features are moved by their product."""
        features = self.features
        moved = features.to(device) if isinstance(features, Tensor) else features
        return NodeInputs(moved, self.memberships.to(device))


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """The fitted steps from a graph to :class:`NodeInputs`; saved with the model.

    Args:
        scaling: How raw features are scaled.
        shift: ``(num_features,)`` subtracted from dense features (``standard``).
        scale: ``(num_features,)`` multiplied onto features (``standard``, ``tfidf``).
        structural: ``(num_nodes, structural_dim)`` features made for a graph without any.
        links: Further columns made from links.
        skips_blank: Whether dense rows of nothing but zeros were not measured and stay zero.
    """

    scaling: Scaling
    shift: Floats
    scale: Floats
    structural: Floats
    links: LinkColumns = field(default_factory=LinkColumns.none)
    skips_blank: bool = False

    @property
    def is_structural(self) -> bool:
        """Whether the features were made from the graph itself."""
        return bool(self.structural.shape[1] > 0)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        names = ("shift", "scale", "structural")
        own = {name: getattr(self, name) for name in names} | self.links.state()
        own["skips_blank"] = np.array([self.skips_blank])
        return {f"inputs.{name}": array for name, array in own.items()}

    @classmethod
    def from_state(cls, state: dict[str, Any], scaling: Scaling) -> FeatureMap:
        """Rebuild from saved arrays."""
        names = ("shift", "scale", "structural")
        arrays = {name: np.asarray(state[f"inputs.{name}"]) for name in names}
        links = LinkColumns.from_state({k.removeprefix("inputs."): v for k, v in state.items()})
        # Runs written before there was such a choice went without.
        skips_blank = bool(np.any(state.get("inputs.skips_blank", False)))
        return cls(scaling=scaling, links=links, skips_blank=skips_blank, **arrays)

    @single_threaded()
    def apply(self, graph: Graph, known_rows: npt.NDArray[np.int64] | None = None) -> NodeInputs:
        """Return the inputs of every node of ``graph``, without memberships.

        Args:
            graph: Any graph with the same feature columns as the training graph.
            known_rows: ``(num_nodes,)`` training row of each node, -1 for new ones; only needed
                where features were made from the training graph. The training graph itself when
                not given.
        """
        graph.require_whole()
        if self.is_structural:
            features: Any = torch.from_numpy(self._known_structure(graph, known_rows))
        else:
            features = self._scaled(graph)
        if not self.links.is_empty:
            features = self.links.join(features, graph, known_rows)
        return NodeInputs(features, torch.zeros(graph.num_nodes, 0))

    def _scaled(self, graph: Graph) -> SparseMatrix | Tensor | MappedFeatures:
        width = len(self.scale)
        if graph.features is None or graph.num_features != width:
            raise InputError(
                f"the model was fitted on {width:,} feature columns but the graph has "
                f"{graph.num_features:,}; give the same columns in the same order"
            )
        if sp.issparse(graph.features):
            return SparseMatrix.from_scipy(_scale_sparse(graph.features, self.scaling, self.scale))
        if stays_mapped(graph.features):
            table = graph.features
            return _mapped(table, self.scaling, self.shift, self.scale, self.skips_blank)
        x = np.asarray(graph.features, dtype=np.float32)
        scaled = _scale_dense(x, self.scaling, self.shift, self.scale, self.skips_blank)
        return torch.from_numpy(scaled)

    def _known_structure(self, graph: Graph, known_rows: npt.NDArray[Any] | None) -> Floats:
        if known_rows is None:
            if graph.num_nodes != len(self.structural):
                raise InputError(
                    f"the model knows {len(self.structural):,} nodes but the graph has "
                    f"{graph.num_nodes:,}; say which nodes are which by their ids"
                )
            return self.structural
        x = np.zeros((graph.num_nodes, self.structural.shape[1]), dtype=np.float32)
        known = known_rows >= 0
        x[known] = self.structural[known_rows[known]]
        if known.all():
            return x
        # A node the training graph did not hold takes the mean of those neighbours that have a
        # place; two rounds let it reach known nodes through another new one.
        block = Block.full(graph, self_edge=False)
        placed = torch.from_numpy(known.astype(np.float32)[:, None])
        for _ in range(2):
            share = mean_aggregate(placed, block)
            mean = mean_aggregate(torch.from_numpy(x), block) / share.clamp_min(1e-12)
            x[~known] = mean.numpy()[~known]
            placed = torch.maximum(placed, (share > 0).float())
        return x


def fit_inputs(
    graph: Graph,
    config: InputSettings,
    seed: int,
    directions: int = 0,
    ranks: Ranks = ALONE,
    *,
    has_unit_rows: bool = False,
) -> tuple[FeatureMap, NodeInputs, Floats]:
    """Find the scaling and the main directions of a training graph.

    Args:
        graph: The training graph.
        config: How to do it.
        seed: The run's seed.
        directions: How many main directions the caller wants.
        ranks: The processes that hold the parts of a split graph.
        has_unit_rows: Whether structural features have rows of length 1 on average, as features
            that were given have, so that columns of links beside them are heard.

    Returns:
        The fitted steps, the inputs of every node, and ``(num_features, at most directions)``
        main directions.
    """
    access = graph_access(graph, ranks)
    empty = np.zeros(0, dtype=np.float32)
    structural = np.zeros((graph.num_nodes, 0), dtype=np.float32)
    shift, scale = empty, empty
    scaling: Scaling = "none"
    skips_blank = False
    if graph.features is not None:
        given = config.scaling
        scaling = ranks.tell(suitable_scaling(graph)) if given == "auto" else given
        skips_blank = scaling == "standard" and ranks.tell(_is_measured(graph))
    features: SparseMatrix | Tensor | MappedFeatures
    if graph.features is None:
        structural = _positions(graph, config, seed, has_unit_rows)
        features = torch.from_numpy(structural)
        scaled: Any = structural
    elif sp.issparse(graph.features):
        scale = _idf(graph.features) if scaling == "tfidf" else np.ones(graph.num_features, "f4")
        scaled = _scale_sparse(graph.features, scaling, scale)
        features = SparseMatrix.from_scipy(scaled)
    elif not access.is_whole or stays_mapped(graph.features):
        shift, scale = np.zeros(graph.num_features, "f4"), np.ones(graph.num_features, "f4")
        if scaling == "standard":
            shift, scale = _reciprocal(*access.column_moments(skips_blank))
        elif scaling == "tfidf":
            scale = _idf(sp.csr_matrix(np.asarray(access.all_features())))
        mapped = _mapped(graph.features, scaling, shift, scale, skips_blank)
        scaled = features = access.feature_source(mapped)
    else:
        x = np.asarray(graph.features, dtype=np.float32)
        shift, scale = np.zeros(x.shape[1], "f4"), np.ones(x.shape[1], "f4")
        if scaling == "standard":
            shift, scale = _standard(x, skips_blank)
        elif scaling == "tfidf":
            scale = _idf(sp.csr_matrix(x))
        scaled = _scale_dense(x, scaling, shift, scale, skips_blank)
        features = torch.from_numpy(scaled)
    if access.is_whole and not isinstance(features, MappedFeatures) and _says_nothing(scaled):
        # Columns without a difference, or rows without a word: only links tell nodes apart.
        structural = _positions(graph, config, seed, has_unit_rows)
        features, scaled, scaling = torch.from_numpy(structural), structural, "none"
        shift, scale = empty, empty
    lead = np.zeros((features.shape[1], 0), dtype=np.float32)
    if directions:
        if isinstance(features, MappedFeatures):
            lead = features.leading_directions(min(directions, *features.shape))
        else:
            lead = main_directions(scaled, directions, derive_key(seed, "basis"))
    fitted = FeatureMap(scaling, shift, scale, structural, skips_blank=skips_blank)
    return fitted, NodeInputs(features, torch.zeros(graph.num_nodes, 0)), lead


def _positions(graph: Graph, config: InputSettings, seed: int, has_unit_rows: bool) -> Floats:
    """Return ``(num_nodes, structural_dim)`` features made from links."""
    made = structural_features(graph, config.structural_dim, seed)
    length = float(np.linalg.norm(made, axis=1).mean()) if has_unit_rows else 1.0
    return made / np.float32(max(length, 1e-12))


def averaged(x: Tensor, graph: Graph, ranks: Ranks = ALONE) -> Tensor:
    """Average each node with its neighbours, some nodes at a time; of a split graph, the own."""
    indptr, indices = frozen(graph.indptr, np.int64), frozen(graph.indices)
    weights = frozen(np.empty(0) if graph.weights is None else graph.weights, np.float32)
    out = torch.empty_like(x)
    own = graph.own_rows()
    for first in range(own.start, own.stop, _SPAN):
        last = min(first + _SPAN, own.stop)
        bounds, columns, given = lead_with_self(indptr, indices, weights, first, last)
        block = Block(bounds, columns, len(x), True, given if len(weights) else None)
        out[first:last] = mean_aggregate(x, block)
    graph_access(graph, ranks).share_rows(out.numpy())
    return out


def suitable_scaling(graph: Graph) -> Scaling:
    """Return the scaling that suits a graph's features, ``none`` where it has none."""
    if graph.features is None:
        return "none"
    sample = _sample(graph)
    counts = _are_counts(sample)
    if sp.issparse(graph.features):
        return "tfidf" if counts else "row"
    # A dense table of mostly zero counts is a bag of words written out.
    return "tfidf" if counts and float((sample == 0).mean()) > 0.8 else "standard"


def words_per_node(graph: Graph) -> float:
    """Return how many words the nodes have on average that have any; 0 for measured numbers.

    Words are what mostly is not there: sparse features, and dense counts most of which are zero.
    """
    if suitable_scaling(graph) not in ("tfidf", "row"):
        return 0.0
    values: Any = graph.features
    if sp.issparse(values):
        counts = np.diff(values.indptr)
    else:
        own = values[graph.own_rows()]
        counts = np.count_nonzero(own[: max(1, (1 << 20) // max(own.shape[1], 1))], axis=1)
    return float(counts.sum() / max(np.count_nonzero(counts), 1))


def _sample(graph: Graph) -> npt.NDArray[np.float32]:
    """Return some of the first feature values of a graph's own nodes."""
    values: Any = graph.features
    values = values.data if sp.issparse(values) else values[graph.own_rows()]
    return np.asarray(values.reshape(-1)[: 1 << 20], dtype=np.float32)


def _are_counts(sample: npt.NDArray[np.float32]) -> bool:
    return bool(sample.size) and bool(np.all((sample >= 0) & (sample == np.round(sample))))


def _is_measured(graph: Graph) -> bool:
    """Whether dense features are such that a row of nothing but zeros was never measured.

    Counts and marks may all be zero, and so may a few columns.
    """
    return graph.num_features >= _BLANK_COLUMNS and not _are_counts(_sample(graph))


def _says_nothing(scaled: Any) -> bool:
    """Whether all scaled features are zero."""
    return not (scaled.data if sp.issparse(scaled) else scaled).any()


def stays_mapped(features: Any) -> bool:
    """Whether a dense table is too large to be scaled once and kept."""
    if features is None or sp.issparse(features):
        return False
    return bool(4 * features.size > KEPT_BYTES)


def _mapped(
    features: Any, scaling: Scaling, shift: Floats, scale: Floats, skips_blank: bool = False
) -> MappedFeatures:
    factor = scale / np.sqrt(np.float32(len(scale))) if scaling == "standard" else scale
    unit_rows = scaling in ("tfidf", "row")
    return MappedFeatures(features, shift, factor.astype(np.float32), unit_rows, skips_blank)


def _standard(x: Floats, skips_blank: bool = False) -> tuple[Floats, Floats]:
    """Return the mean of each column and one over its deviation (one for a constant column)."""
    # In float32 a long column with a large mean loses its digits, and what is left of a constant
    # one would be blown up into noise.
    if skips_blank and x.any():
        x = x[x.any(axis=1)]
    return _reciprocal(x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64))


def _reciprocal(mean: Any, spread: Any) -> tuple[Floats, Floats]:
    varies = spread > 1e-6 * np.maximum(np.abs(mean), 1e-30)
    scale = np.divide(1.0, spread, out=np.ones_like(spread), where=varies)
    return mean.astype(np.float32), np.minimum(scale, 1e30).astype(np.float32)


def _idf(x: Any) -> Floats:
    seen = np.bincount(x.indices[x.data != 0], minlength=x.shape[1])
    idf: Floats = (np.log((1 + x.shape[0]) / (1 + seen)) + 1).astype(np.float32)
    return idf


def _scale_sparse(x: Any, scaling: Scaling, scale: Floats) -> Any:
    x = sp.csr_matrix(x, dtype=np.float32, copy=True)
    if scaling == "standard":
        raise InputError(
            "inputs.scaling = 'standard' would fill in a sparse table; use 'row' or 'tfidf'"
        )
    if scaling == "tfidf":
        x.data *= scale[x.indices]
    if scaling in ("tfidf", "row"):
        norm = np.sqrt(np.asarray(x.multiply(x).sum(1)).ravel())
        x.data /= np.repeat(np.maximum(norm, 1e-12), np.diff(x.indptr))
    return x


def _scale_dense(
    x: Floats, scaling: Scaling, shift: Floats, scale: Floats, skips_blank: bool = False
) -> Floats:
    if scaling == "standard":
        # Unit expected row length keeps wide tables from saturating the first layer.
        width = np.sqrt(np.float32(x.shape[1]))
        x = (x - shift) * scale / width
        if skips_blank:
            clear_blank_rows(x, (np.zeros_like(shift) - shift) * scale / width)
    if scaling == "tfidf":
        x = x * scale
    if scaling in ("tfidf", "row"):
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return np.ascontiguousarray(x, dtype=np.float32)
