"""How a process reads the graph of a job: all of it here, or a part here and the rest by asking.

What fits a graph asks its access and never where the links and features are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.mapped_features import MappedFeatures, Moments, column_moments
from graphham.graph.spans import span_of
from graphham.parallel.partitioned_graph import (
    PartitionedFeatures,
    PartitionedSampler,
    joint_moments,
)
from graphham.parallel.ranks import ALONE, Ranks
from graphham.sampling.sampler import NeighborSampler, Sampler

if TYPE_CHECKING:
    from graphham.graph.graph import Graph


class GraphAccess(Protocol):
    """What a fit asks of its graph beyond what every process knows of it."""

    @property
    def is_whole(self) -> bool:
        """Whether this process can read all links and features by itself."""

    def sampler(self) -> Sampler:
        """Return what draws neighbourhoods, walks and negatives."""

    def all_features(self) -> Any:
        """Return the feature table, where this process has all of it."""

    def column_moments(self, skips_blank: bool) -> Moments:
        """Return mean and deviation of each column of a dense table, with rows of zeros or not."""

    def feature_source(self, mapped: MappedFeatures) -> MappedFeatures:
        """Return a scaled table whose every row can be read."""

    def share_rows(self, values: npt.NDArray[Any]) -> None:
        """Fill in, in place, the rows of nodes that are not here."""


class WholeGraph:
    """A graph that this process has in memory or mapped from its store.

    Args:
        graph: The graph.
    """

    is_whole = True

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def sampler(self) -> Sampler:
        """Return what draws by itself."""
        return NeighborSampler(self.graph)

    def all_features(self) -> Any:
        """Return the feature table."""
        return self.graph.features

    def column_moments(self, skips_blank: bool) -> Moments:
        """Return mean and deviation of each feature column."""
        return column_moments(self.all_features(), skips_blank)[0]

    def feature_source(self, mapped: MappedFeatures) -> MappedFeatures:
        """Return the table as it is: every row is here."""
        return mapped

    def share_rows(self, values: npt.NDArray[Any]) -> None:
        """Do nothing: this process has computed every row."""


class PartitionedGraph:
    """One part of a graph; the other processes of the job have the others.

    Every process calls the same methods in the same order.

    Args:
        graph: The part.
        ranks: The processes.
    """

    is_whole = False

    def __init__(self, graph: Graph, ranks: Ranks) -> None:
        self.graph, self.ranks = graph, ranks

    def sampler(self) -> Sampler:
        """Return what draws together with the other processes."""
        return PartitionedSampler(self.graph, self.ranks)

    def all_features(self) -> Any:
        """Refuse: nobody has them all, and only tf-idf asks."""
        raise InputError("inputs.scaling = 'tfidf' needs a whole store; use row or standard")

    def column_moments(self, skips_blank: bool) -> Moments:
        """Return mean and deviation of each feature column over all parts."""
        return joint_moments(self.graph, self.ranks, skips_blank)

    def feature_source(self, mapped: MappedFeatures) -> MappedFeatures:
        """Return the table with other rows asked for where they are."""
        return PartitionedFeatures.of(mapped, self.ranks)

    def share_rows(self, values: npt.NDArray[Any]) -> None:
        """Fill in what the other processes have computed."""
        self.ranks.share_rows(values, span_of(len(values)))


def graph_access(graph: Graph, ranks: Ranks = ALONE) -> GraphAccess:
    """Return how to read a graph: the one place that looks whether it is a part."""
    return WholeGraph(graph) if graph.part is None else PartitionedGraph(graph, ranks)
