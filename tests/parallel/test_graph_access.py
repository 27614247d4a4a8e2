"""A whole graph and a part behind the same questions: the same answers, or one clear refusal."""

import numpy as np
import pytest
import torch

from graphham.errors import InputError
from graphham.graph.mapped_features import MappedFeatures
from graphham.parallel.graph_access import graph_access
from graphham.parallel.partitioned_graph import PartitionedSampler
from graphham.sampling.sampler import NeighborSampler
from tests.parallel.test_partitioned_graph import GRAPH, NODES, in_parts


def mapped(graph):
    columns = graph.num_features
    return MappedFeatures(graph.features, np.zeros(columns, "f4"), np.ones(columns, "f4"), False)


def test_a_whole_graph_is_read_as_it_is():
    access = graph_access(GRAPH)
    assert access.is_whole
    assert isinstance(access.sampler(), NeighborSampler)
    assert not access.sampler().draws_together
    assert access.all_features() is GRAPH.features
    source = mapped(GRAPH)
    assert access.feature_source(source) is source
    values = np.full((NODES, 2), 3.0)
    access.share_rows(values)
    assert (values == 3.0).all()


def test_parts_answer_like_the_whole():
    whole = graph_access(GRAPH)
    rows = np.arange(0, NODES, 7)
    product = GRAPH.features @ np.ones((GRAPH.num_features, 2), "f4")

    def ask(graph, ranks):
        access = graph_access(graph, ranks)
        assert not access.is_whole
        assert isinstance(access.sampler(), PartitionedSampler)
        assert access.sampler().draws_together
        with pytest.raises(InputError, match="needs a whole store"):
            access.all_features()
        shared = np.zeros((NODES, 2), "f4")
        own = graph.own_rows()
        shared[own] = product[own]
        access.share_rows(shared)
        walks = access.sampler().walk_contexts(rows, 2, 3, 5)
        source = access.feature_source(mapped(graph))
        return access.column_moments(False), source.rows(rows), shared, walks

    for moments, features, shared, walks in in_parts(3, ask):
        np.testing.assert_allclose(moments, whole.column_moments(False), rtol=1e-6, atol=1e-7)
        assert torch.equal(features, torch.from_numpy(GRAPH.features[rows]))
        np.testing.assert_array_equal(shared, product)
        np.testing.assert_array_equal(walks, whole.sampler().walk_contexts(rows, 2, 3, 5))
