"""The fused block against plain torch in float64: values and every gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham import kernels as ops
from graphham.errors import InputError
from graphham.graph.neighborhoods import Block
from tests.reference.strategies import random_blocks


def blocks():
    """Few and many edges per source (two ways back), rows without edges, weights, zero weights."""
    return random_blocks(7, st.sampled_from([0, 3, 60]), st.sampled_from([0, 1, 3, 9, 140]), 0.2)


def groups_of(kind, heads, block, draw):
    if kind == "none":
        return []
    if kind == "table":
        return [draw(9, 9) / 3, draw(block.num_sources, 9).softmax(1)]
    width = 5 if kind == "pair" else heads
    return [draw(block.num_targets, width), draw(block.num_sources, width)]


def compare(run, inputs, atol=2e-4):
    """Compare float32 with float64 (plain torch) in value and all gradients."""
    found = []
    for dtype in (torch.float32, torch.float64):
        leaves = [x.to(dtype).requires_grad_() for x in inputs]
        out = run(*leaves)
        seed = torch.sin(1 + torch.arange(out.numel(), dtype=dtype)).view_as(out)
        found.append([out.detach(), *torch.autograd.grad(out, leaves, seed)])
    for compiled, plain in zip(*found, strict=True):
        assert compiled.dtype == torch.float32
        torch.testing.assert_close(compiled.double(), plain, rtol=2e-4, atol=atol)


@settings(max_examples=80)
@given(
    block=blocks(),
    heads=st.sampled_from([1, 2, 4, 5]),
    shared=st.booleans(),
    dim=st.sampled_from([1, 7, 33]),
    kind=st.sampled_from(["none", "pair", "additive", "table"]),
    scaled=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_values_and_gradients_equal_plain_torch(block, heads, shared, dim, kind, scaled, seed):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    inputs = [draw(block.num_sources, 1 if shared else heads, dim), draw(2, heads, dim) / dim**0.5]
    inputs += groups_of(kind, heads, block, draw)
    keep = (torch.rand(block.num_edges, heads, generator=generator) > 0.3).double() / 0.7

    def run(values, vectors, left=None, right=None):
        groups = None if left is None else ops.GroupTerms(left, right, kind)
        scale = keep.to(vectors.dtype) if scaled else None
        out = ops.attend(values, vectors, block, groups=groups, slope=0.3, scale=scale)
        assert ("Attend" in type(out.grad_fn).__name__) == (values.dtype == torch.float32)
        return out

    compare(run, inputs)


@settings(max_examples=40)
@given(
    block=blocks(),
    heads=st.sampled_from([1, 3, 4]),
    average=st.booleans(),
    kind=st.sampled_from(["none", "pair", "additive", "table"]),
    seed=st.integers(0, 10**6),
)
def test_both_orders_give_the_layer(block, heads, average, kind, seed):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    inputs = [draw(block.num_sources, 6), draw(6, heads * 3) / 3, draw(2, heads, 3)]
    inputs += groups_of(kind, heads, block, draw)
    for order in ("aggregate", "transform", "auto"):

        def run(x, weight, attention, left=None, right=None, order=order):
            groups = None if left is None else ops.GroupTerms(left, right, kind)
            # The plain version always transforms first: the order the paper writes.
            way = order if x.dtype == torch.float32 else "transform"
            return ops.fused_attention(
                x, weight, attention, block, groups=groups, average=average, order=way
            )

        compare(run, inputs)


@given(block=blocks(), heads=st.sampled_from([1, 4]), half=st.booleans())
def test_a_table_is_read_by_rows_in_single_or_half_precision(block, heads, half):
    generator = torch.Generator().manual_seed(3)
    table = torch.randn(block.num_sources + 9, 21, generator=generator)
    table = table.half() if half else table
    rows = np.random.default_rng(0).integers(0, len(table), block.num_sources)
    weight = torch.randn(21, heads * 4, generator=generator) / 4
    attention = torch.randn(2, heads, 4, generator=generator)

    def run(weight, attention):
        if weight.dtype == torch.float64:
            return ops.fused_attention(table[rows].double(), weight, attention, block)
        return ops.fused_attention(table, weight, attention, block, rows=rows, order="aggregate")

    compare(run, [weight, attention])
    plain = ops.fused_attention(table, weight, attention, block, rows=rows, order="transform")
    torch.testing.assert_close(run(weight, attention), plain, rtol=1e-3, atol=1e-4)


def fixed_block(**options):
    return Block([0, 3, 3, 6], [0, 4, 2, 2, 3, 2], 5, self_edge=False, **options)


def test_fixed_inputs_do_not_pay_for_columns():
    block = fixed_block()
    weight = torch.ones(3, 4, requires_grad=True)
    ops.fused_attention(torch.rand(5, 3), weight, torch.rand(2, 2, 2), block).sum().backward()
    assert "_transposed" not in vars(block)
    assert weight.grad is not None


def test_a_diverged_value_stays_visible_and_stays_where_it_is():
    values = torch.ones(5, 1, 2)
    values[3] = torch.nan
    out = ops.attend(values, torch.ones(2, 1, 2), fixed_block())
    assert torch.isnan(out[2]).all()
    torch.testing.assert_close(out[0], torch.ones(1, 2))


def test_large_scores_do_not_overflow():
    values = torch.tensor([300.0, -300.0, 0.0, 299.0, 1.0])[:, None, None]
    out = ops.attend(values, torch.ones(2, 1, 1), fixed_block())
    plain = ops.attend(values.double(), torch.ones(2, 1, 1).double(), fixed_block())
    torch.testing.assert_close(out.double(), plain)


@pytest.mark.gpu
def test_cuda_equals_cpu():
    block = fixed_block(weights=[0.5, 1.0, 2.0, 0.25, 3.0, 1.0])
    inputs = [torch.rand(5, 3), torch.rand(3, 8), torch.rand(2, 2, 4)]
    found = ops.fused_attention(*[x.cuda() for x in inputs], block)
    torch.testing.assert_close(found.cpu(), ops.fused_attention(*inputs, block))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda b: ops.attend(torch.ones(4, 1, 2), torch.ones(2, 1, 2), b), "5 rows"),
        (lambda b: ops.attend(torch.ones(5, 3, 2), torch.ones(2, 2, 2), b), "do not fit"),
        (lambda b: ops.attend(torch.ones(5, 1, 2), torch.ones(2, 2), b), r"\(2, heads, dim\)"),
        (
            lambda b: ops.attend(torch.ones(5, 1, 2), torch.ones(2, 1, 2), b, slope=-1.0),
            "slope",
        ),
        (
            lambda b: ops.attend(
                torch.ones(5, 1, 2), torch.ones(2, 1, 2), b, scale=torch.ones(6, 2)
            ),
            r"scale.*\(6, 1\)",
        ),
        (
            lambda b: ops.attend(torch.ones(9, 1, 2), torch.ones(2, 1, 2), b, rows=np.arange(4)),
            "5 sources, got 4",
        ),
        (
            lambda b: ops.attend(torch.ones(4, 1, 2), torch.ones(2, 1, 2), b, rows=np.arange(5)),
            r"row 4 lies outside 0\.\.3",
        ),
        (
            lambda b: ops.attend(
                torch.ones(5, 1, 2, requires_grad=True),
                torch.ones(2, 1, 2),
                b,
                rows=np.arange(5),
            ),
            "no gradient",
        ),
        (
            lambda b: ops.attend(
                torch.ones(5, 1, 2),
                torch.ones(2, 1, 2),
                b,
                groups=ops.GroupTerms(torch.ones(3, 2), torch.ones(5, 3), "pair"),
            ),
            "2 columns, got 2 and 3",
        ),
        (
            lambda b: ops.fused_attention(
                torch.ones(5, 3), torch.ones(3, 5), torch.ones(2, 2, 2), b
            ),
            r"\(3, 4\).*\(3, 5\)",
        ),
    ],
)
def test_wrong_inputs_are_named(call, said):
    with pytest.raises(InputError, match=said):
        call(fixed_block())
