import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham import kernels as ops
from graphham.errors import InputError
from graphham.graph.neighborhoods import Block
from graphham.kernels import reference
from tests.reference import ops as slow
from tests.reference.strategies import random_blocks


def blocks():
    """Small bipartite blocks: rows without edges, repeated edges, isolated sources, no edges."""
    return random_blocks(6, st.integers(0, 5), st.integers(0, 11))


SIZES = st.tuples(st.integers(1, 4), st.integers(1, 19))


def make_inputs(name, block, heads, dim, dtype=torch.float32):
    """Return an operation as a function of its differentiable inputs, and such inputs."""
    generator = torch.Generator().manual_seed(heads * 100 + dim)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    targets, sources, edges = block.num_targets, block.num_sources, block.num_edges
    if name == "edge_scores":
        return (draw(targets, heads), draw(sources, heads)), (block, 0.2)
    if name == "edge_dot":
        return (draw(targets, dim), draw(sources, dim)), (block,)
    if name == "edge_softmax":
        return (3 * draw(edges, heads),), (block,)
    if name == "aggregate":
        return (draw(edges, heads), draw(sources, heads, dim)), (block,)
    return (draw(sources, dim),), (block,)


NAMES = ["edge_scores", "edge_dot", "edge_softmax", "aggregate", "mean_aggregate"]


@pytest.mark.parametrize("name", NAMES)
@given(block=blocks(), sizes=SIZES)
def test_compiled_and_torch_versions_equal_the_loops(name, block, sizes):
    inputs, rest = make_inputs(name, block, *sizes)
    expected = getattr(slow, name)(*[x.numpy() for x in inputs], *rest)
    compiled = getattr(ops, name)(*inputs, *rest)
    plain = getattr(reference, name)(*inputs, *rest)
    assert compiled.shape == plain.shape == expected.shape
    np.testing.assert_allclose(compiled.numpy(), expected, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(plain.numpy(), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
@given(block=blocks(), sizes=SIZES)
def test_compiled_gradients_equal_autograd_of_the_torch_version(name, block, sizes):
    grads = []
    for module, dtype in ((ops, torch.float32), (reference, torch.float64)):
        inputs, rest = make_inputs(name, block, *sizes, dtype)
        inputs = [x.requires_grad_() for x in inputs]
        out = getattr(module, name)(*inputs, *rest)
        # Not contiguous on purpose: torch hands expanded gradients to backward.
        seed = torch.linspace(-1.0, 2.0, max(len(out), 1), dtype=dtype)[: len(out)]
        seed = seed.reshape(-1, *[1] * (out.dim() - 1)).expand_as(out)
        grads.append(torch.autograd.grad(out, inputs, seed))
    for compiled, plain in zip(*grads, strict=True):
        np.testing.assert_allclose(compiled.numpy(), plain.numpy(), rtol=1e-4, atol=5e-5)


def fixed_block(weighted=False):
    weights = [0.5, 1.0, 2.0, 0.25, 3.0, 1.0] if weighted else None
    return Block([0, 3, 3, 6], [0, 4, 2, 2, 3, 2], 5, self_edge=False, weights=weights)


@pytest.mark.parametrize("name", NAMES)
def test_torch_version_passes_gradcheck(name):
    block = fixed_block(weighted=True)
    inputs, rest = make_inputs(name, block, 2, 3, torch.float64)
    inputs = [x.requires_grad_() for x in inputs]
    # Through the public function: float64 must take the plain torch path by itself.
    assert torch.autograd.gradcheck(lambda *xs: getattr(ops, name)(*xs, *rest), inputs)


@given(block=blocks(), heads=st.integers(1, 4), shift=st.sampled_from([0.0, 80.0, -300.0, 3e4]))
def test_softmax_sums_to_one_whatever_the_offset(block, heads, shift):
    logits = make_inputs("edge_softmax", block, heads, 1)[0][0] + shift
    weights = ops.edge_softmax(logits, block).numpy()
    filled = block.degrees() > 0
    sums = np.zeros((block.num_targets, heads))
    np.add.at(sums, block.edge_targets, weights)
    np.testing.assert_allclose(sums[filled], 1.0, rtol=1e-5)
    assert (weights >= 0).all()


def test_a_diverged_value_stays_visible():
    block = fixed_block()
    logits = torch.zeros(6, 1)
    logits[1] = torch.nan
    weights = ops.edge_softmax(logits, block)
    assert torch.isnan(weights[:3]).all()
    assert not torch.isnan(weights[3:]).any()
    values = torch.ones(5, 1, 2)
    values[3] = torch.inf
    out = ops.aggregate(torch.ones(6, 1), values, block)
    assert torch.isinf(out[2]).all()
    assert torch.equal(out[0], torch.full((1, 2), 3.0))


def test_inputs_that_need_no_gradient_get_none():
    block = fixed_block()
    weights = torch.rand(6, 2, requires_grad=True)
    values = torch.rand(5, 2, 3)
    ops.aggregate(weights, values, block).sum().backward()
    expected = values.sum(dim=2)[torch.as_tensor(np.array(block.indices), dtype=torch.int64)]
    torch.testing.assert_close(weights.grad, expected)
    assert "_transposed" not in vars(block), "a layer on fixed features must not pay for columns"


def test_views_and_transposed_inputs_give_the_same_result():
    block = fixed_block()
    wide = torch.rand(3, 2, 5, requires_grad=True)
    strided = wide.permute(2, 1, 0)
    weights = torch.rand(2, 6).t()
    torch.testing.assert_close(
        ops.aggregate(weights, strided, block),
        reference.aggregate(weights, strided, block),
    )


def test_environment_variable_selects_the_torch_version(monkeypatch):
    block = fixed_block()
    left, right = torch.rand(3, 2, requires_grad=True), torch.rand(5, 2)
    assert "EdgeScores" in type(ops.edge_scores(left, right, block).grad_fn).__name__
    monkeypatch.setenv("GRAPHHAM_OPS", "reference")
    assert "EdgeScores" not in type(ops.edge_scores(left, right, block).grad_fn).__name__


def test_torch_defaults_do_not_change_the_result():
    block = fixed_block()
    weights = torch.rand(6, 2, requires_grad=True)
    values = torch.rand(5, 2, 3, requires_grad=True)
    expected = ops.aggregate(weights, values, block)
    torch.set_default_dtype(torch.float64)
    try:
        out = ops.aggregate(ops.edge_softmax(weights, block) * 0 + weights, values, block)
        (grad,) = torch.autograd.grad(out.sum(), values)
    finally:
        torch.set_default_dtype(torch.float32)
    assert out.dtype == grad.dtype == torch.float32
    assert torch.equal(out, expected)


def test_exponential_is_accurate_where_softmax_uses_it():
    # Deeper down the result is a denormal number, which has fewer digits by nature.
    depths = np.concatenate([np.linspace(0, 30, 4001), np.linspace(30, 80, 500)])
    block = Block([0, len(depths)], np.zeros(len(depths)), 1, self_edge=False)
    logits = torch.as_tensor(-depths, dtype=torch.float32)[:, None]
    exact = torch.softmax(logits.double(), dim=0)
    found = ops.edge_softmax(logits, block).double()
    assert ((found - exact).abs() / exact).max() < 2e-6
    # A masked edge gets no weight, as far as float32 can tell.
    logits[5] = -torch.inf
    assert ops.edge_softmax(logits, block)[5] < 1e-37


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_cuda_equals_cpu(name):
    inputs, rest = make_inputs(name, fixed_block(weighted=True), 3, 5)
    expected = getattr(ops, name)(*inputs, *rest)
    found = getattr(ops, name)(*[x.cuda() for x in inputs], *rest)
    assert found.is_cuda
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda b: ops.edge_scores(torch.ones(4, 2), torch.ones(5, 2), b), r"left.*3 rows.*\(4, 2"),
        (lambda b: ops.edge_scores(torch.ones(3, 2), torch.ones(5, 3), b), "second dimension"),
        (lambda b: ops.edge_scores(torch.ones(3, 2), torch.ones(5, 2), b, -1.0), "slope"),
        (
            lambda b: ops.edge_dot(torch.ones(3, 2), torch.ones(5, 2, dtype=torch.float64), b),
            "float32.*float64",
        ),
        (
            lambda b: ops.edge_dot(torch.ones(3, 2), torch.ones(5, 2, device="meta"), b),
            "cpu.*meta",
        ),
        (lambda b: ops.edge_softmax(torch.ones(6), b), r"2 dimensions.*\(6,\)"),
        (lambda b: ops.aggregate(torch.ones(6, 1), torch.ones(5, 2), b), "3 dimensions"),
        (lambda b: ops.aggregate(torch.ones(6, 1), torch.ones(5, 2, 4), b), "second dimension"),
        (lambda b: ops.mean_aggregate(torch.ones(5, 2, dtype=torch.int64), b), "int64"),
    ],
)
def test_wrong_inputs_are_named(call, said):
    with pytest.raises(InputError, match=said):
        call(fixed_block())


def test_works_where_no_cache_folder_can_be_written(tmp_path):
    """Point every cache folder at a file, so that not even root can write there."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    package = Path(ops.__file__).parents[1]
    # A copy whose __pycache__ is a file: numba cannot write beside the source either.
    copy = tmp_path / "lib" / "graphham"
    for path in package.rglob("*.py"):
        target = copy / path.relative_to(package)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    for folder in [copy, *[p for p in copy.rglob("*") if p.is_dir()]]:
        (folder / "__pycache__").write_text("")
    code = (
        "import torch, graphham; from graphham import kernels as ops\n"
        "from graphham.kernels import edge_loops\n"
        "from graphham.graph.neighborhoods import Block\n"
        f"assert graphham.__file__.startswith({str(tmp_path)!r}), graphham.__file__\n"
        "assert type(edge_loops.gather_sum._cache).__name__ == 'NullCache'\n"
        "b = Block([0, 2], [0, 1], 2)\n"
        "print(ops.aggregate(torch.ones(2, 1), torch.ones(2, 1, 3), b).sum().item())\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA")}
    environment |= {
        "PYTHONPATH": str(tmp_path / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(blocked),
        "XDG_CACHE_HOME": str(blocked),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "6.0"
