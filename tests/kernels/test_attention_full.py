"""The loops for many edges per source, which keep a source's terms, against the reference."""

import numpy as np
import pytest
import torch

from graphham import kernels as ops
from graphham.graph.neighborhoods import Block
from graphham.kernels import attention_full, attention_sampled
from tests.kernels.test_attention_ops import compare, groups_of

# Above two edges per source attention_ops takes these loops, else those of attention_sampled.
SOURCES = {"full": 8, "sampled": 60}


def check_loops(which, kind, heads, shared, weighted, monkeypatch):
    """Compare values and gradients on a block that only one of the two pairs of loops serves."""
    other = attention_sampled if which == "full" else attention_full
    for name in ("sampled_forward", "sampled_backward", "attend_forward", "attend_backward"):
        if hasattr(other, name):
            monkeypatch.delattr(other, name)
    rng = np.random.default_rng(heads)
    degrees = [0, 1, 3, 14, 33]  # no edge, a rest, whole groups of four and a rest
    count = sum(degrees)
    weights = rng.uniform(0.1, 3.0, count) if weighted else None
    columns = rng.integers(0, SOURCES[which], count)
    block = Block(np.cumsum([0, *degrees]), columns, SOURCES[which], False, weights)
    generator = torch.Generator().manual_seed(heads)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    inputs = [draw(block.num_sources, 1 if shared else heads, 19), draw(2, heads, 19) / 4]
    inputs += groups_of(kind, heads, block, draw)

    def run(values, vectors, left=None, right=None):
        groups = None if left is None else ops.GroupTerms(left, right, kind)
        return ops.attend(values, vectors, block, groups=groups, slope=0.3)

    compare(run, inputs)


@pytest.mark.parametrize("kind", ["none", "pair", "additive", "table"])
@pytest.mark.parametrize(("heads", "shared"), [(1, False), (3, False), (4, True)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loops_equal_plain_torch(kind, heads, shared, weighted, monkeypatch):
    check_loops("full", kind, heads, shared, weighted, monkeypatch)


def test_terms_of_a_node_are_its_products_with_both_vectors():
    rng = np.random.default_rng(0)
    values, vectors = rng.normal(size=(9, 2, 7)), rng.normal(size=(1, 2, 7))
    out = np.empty((9, 2), dtype=np.float32)
    attention_full.node_terms(values.astype("f4"), vectors.astype("f4"), out)
    np.testing.assert_allclose(out, (values * vectors[0]).sum(2), rtol=1e-4, atol=1e-5)
