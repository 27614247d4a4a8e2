"""Reading spans of a whole graph against blocks of the same nodes and the plain operations."""

import numpy as np
import pytest
import torch

from graphham.graph.neighborhoods import Block
from graphham.kernels import GroupTerms, attend, attention_readout
from graphham.system.jit import frozen
from tests.reference.graphs import random_graph

FIRST, LAST = 3, 11


def arrays(graph):
    weights = np.empty(0) if graph.weights is None else graph.weights
    return frozen(graph.indptr, np.int64), frozen(graph.indices), frozen(weights, np.float32)


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_led_by_their_own_node_are_those_of_the_full_block(weighted):
    graph = random_graph(14, 2, weighted)
    full = Block.full(graph)
    bounds, columns, weights = attention_readout.lead_with_self(*arrays(graph), FIRST, LAST)
    own = slice(full.indptr[FIRST], full.indptr[LAST])
    np.testing.assert_array_equal(bounds, full.indptr[FIRST : LAST + 1] - own.start)
    np.testing.assert_array_equal(columns, full.indices[own])
    if weighted:
        np.testing.assert_allclose(weights, full.weights[own], rtol=1e-6)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("groups", [0, 5])
@pytest.mark.parametrize("self_edge", [False, True])
def test_attention_of_a_span_is_that_of_the_reference(heads, groups, self_edge):
    graph = random_graph(14, 4)
    block = Block.full(graph, self_edge)
    values, vectors = draw(14, heads, 6), draw(2, heads, 6)
    z, table = draw(14, max(groups, 1)).softmax(1), draw(max(groups, 1), max(groups, 1))
    terms = GroupTerms((z @ table).double(), z.double(), "pair") if groups else None
    # In double precision the plain version runs.
    plain = attend(values.double(), vectors.double(), block, groups=terms, slope=0.2)
    rows = torch.cat([values.flatten(1), z[:, :groups]], 1).numpy()
    left, right = ((values * vector).sum(2).numpy() for vector in vectors)
    pulled = (z @ table)[FIRST:LAST, :groups].numpy().copy()
    out = np.empty((LAST - FIRST, heads, 6), dtype=np.float32)
    gap = np.empty(LAST - FIRST, dtype=np.float32)
    indptr, indices, _ = arrays(graph)
    attention_readout.attend(
        indptr,
        indices,
        FIRST,
        LAST,
        self_edge,
        rows,
        right,
        left[FIRST:LAST],
        pulled,
        0.2,
        out,
        gap,
    )
    np.testing.assert_allclose(out, plain[FIRST:LAST], rtol=1e-4, atol=1e-5)
