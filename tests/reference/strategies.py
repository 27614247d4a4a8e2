"""Inputs drawn by hypothesis that several tests share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from graphham.graph.graph import Graph, build_graph


@st.composite
def small_graphs(draw: st.DrawFn) -> Graph:
    """Graphs of a few nodes, isolated ones among them."""
    count = draw(st.integers(2, 8))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return build_graph(ends[:, 0], ends[:, 1], count)
