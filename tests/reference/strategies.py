"""Inputs drawn by hypothesis that several tests share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from graphham.graph.graph import Graph, build_graph
from graphham.graph.neighborhoods import Block


@st.composite
def small_graphs(draw: st.DrawFn) -> Graph:
    """Graphs of a few nodes, isolated ones among them."""
    count = draw(st.integers(2, 8))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return build_graph(ends[:, 0], ends[:, 1], count)


@st.composite
def random_blocks(
    draw: st.DrawFn,
    most_targets: int,
    further_sources: st.SearchStrategy[int],
    degrees: st.SearchStrategy[int],
    weightless: float = 0.0,
) -> Block:
    """Bipartite blocks with repeated edges; some have weights.

    Args:
        draw: Of hypothesis.
        most_targets: At least one.
        further_sources: How many sources there are besides the targets.
        degrees: Edges of each target.
        weightless: Share of the weights that are zero, where there are any.
    """
    count = draw(st.integers(1, most_targets))
    sources = count + draw(further_sources)
    edges = draw(st.lists(degrees, min_size=count, max_size=count))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    total = sum(edges)
    weights = None
    if draw(st.booleans()):
        weights = rng.uniform(0.1, 3.0, total)
        weights[rng.random(total) < weightless] = 0.0
    bounds = np.concatenate([[0], np.cumsum(edges)])
    columns = rng.integers(0, sources, total)
    return Block(bounds, columns, sources, self_edge=False, weights=weights)
