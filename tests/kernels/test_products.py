"""Thin products, and group terms of which only one side learns, against plain torch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.graph.neighborhoods import Block
from graphham.kernels import GroupTerms, attend
from graphham.kernels.products import tall_product


@given(st.integers(0, 50), st.integers(1, 20), st.integers(1, 9), st.integers(0, 10**6))
def test_a_thin_product_equals_the_plain_one(rows, inner, columns, seed):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return torch.from_numpy(rng.standard_normal(shape).astype("f4"))

    tall, narrow, factor = draw(rows, inner), draw(inner, columns), draw(rows, columns)
    found = []
    for product in (tall_product, torch.matmul):
        a, b = tall.clone().requires_grad_(), narrow.clone().requires_grad_()
        out = product(a, b)
        (out * factor).sum().backward()
        found.append((out.detach(), a.grad, b.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sources", [6, 40])  # the loops for many and for few edges per source
@pytest.mark.parametrize("learns", ["left", "right", "both"])
@pytest.mark.parametrize("kind", ["pair", "additive", "table"])
def test_only_the_asked_side_of_the_group_terms_gets_a_gradient(kind, learns, sources, monkeypatch):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, [[sources], [6]], (2, 40))
    block = Block.from_edges(*edges, 6, sources)
    heads, groups = 2, 3
    width = heads if kind == "additive" else groups
    ends = [
        torch.from_numpy(rng.standard_normal(shape).astype("f4"))
        for shape in ((groups if kind == "table" else 6, width), (sources, width))
    ]
    values = torch.from_numpy(rng.standard_normal((sources, 1, 5)).astype("f4"))
    vectors = torch.from_numpy(rng.standard_normal((2, heads, 5)).astype("f4"))
    factor = torch.from_numpy(rng.standard_normal((6, heads, 5)).astype("f4"))
    found = []
    for how in ("compiled", "reference"):
        monkeypatch.setenv("GRAPHHAM_OPS", how)
        left, right = (end.clone() for end in ends)
        left.requires_grad_(learns != "right")
        right.requires_grad_(learns != "left")
        out = attend(values, vectors, block, groups=GroupTerms(left, right, kind))
        (out * factor).sum().backward()
        found.append([left.grad, right.grad])
    for ours, theirs in zip(*found, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
