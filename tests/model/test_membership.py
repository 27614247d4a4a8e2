"""Memberships against loops: affinities, assignments, neighbours' evidence, nested levels."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.graph.neighborhoods import Block
from graphham.model.membership import (
    assign,
    combine_levels,
    cosine_affinity,
    gumbel_noise,
    neighbor_evidence,
    one_hot_straight_through,
)
from tests.reference import model as slow
from tests.reference.graphs import random_graph

SEEDS = st.integers(0, 10**6)


def draw(seed, *shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def simplex(seed, *shape):
    return (2 * draw(seed, *shape)).softmax(-1)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 7), SEEDS)
def test_cosine_affinity_equals_the_loop(nodes, groups, dim, seed):
    states, vectors = draw(seed, nodes, dim), draw(seed + 1, groups, dim)
    states[0] = 0.0  # a node nothing is known about is equally far from all groups
    expected = slow.affinity(states.numpy(), vectors.numpy(), scale=8.0)
    np.testing.assert_allclose(cosine_affinity(states, vectors, 8.0), expected, atol=1e-9)
    assert not expected[0].any()


@settings(max_examples=40)
@given(
    st.integers(1, 6),
    st.integers(1, 5),
    SEEDS,
    st.sampled_from([0.1, 0.5, 1.0, 3.0]),
    st.sampled_from(["log", "literal"]),
)
def test_assignment_equals_the_loop(nodes, groups, seed, tau, how):
    u, noise = 4 * draw(seed, nodes, groups), draw(seed + 1, nodes, groups)
    found = assign(u, tau, noise, how).numpy()
    np.testing.assert_allclose(found, slow.assignment(u.numpy(), tau, noise.numpy(), how))
    np.testing.assert_allclose(found.sum(1), 1)
    mean = slow.assignment(u.numpy(), tau, None)
    np.testing.assert_allclose(assign(u, tau, None, how), mean)
    np.testing.assert_allclose(assign(u, tau, noise, "mean"), mean)


def test_noise_on_the_logarithm_draws_each_group_as_often_as_its_membership():
    u = torch.tensor([[2.0, 0.5, -1.0]]).expand(40_000, 3)
    noise = gumbel_noise(u.shape, torch.Generator().manual_seed(0), u)
    often = assign(u, 1.0, noise).argmax(1).bincount(minlength=3) / 40_000
    torch.testing.assert_close(often, u[0].softmax(0), atol=0.01, rtol=0)
    # As printed in the paper a certain node is still mostly noise: e / (e + K - 1) (A3).
    sure = torch.tensor([[50.0, 0.0, 0.0]]).expand(40_000, 3)
    literal = assign(sure, 1.0, noise, "literal").argmax(1).bincount(minlength=3) / 40_000
    assert literal[0] == pytest.approx(math.e / (math.e + 2), abs=0.01)


def test_gumbel_noise_is_gumbel_and_never_infinite():
    like = torch.zeros(1)
    noise = gumbel_noise((200_000,), torch.Generator().manual_seed(1), like)
    assert torch.isfinite(noise).all()
    assert noise.mean() == pytest.approx(0.5772, abs=0.01)
    assert noise.var() == pytest.approx(math.pi**2 / 6, abs=0.03)
    again = gumbel_noise((200_000,), torch.Generator().manual_seed(1), like)
    assert torch.equal(noise, again)


@pytest.mark.parametrize("how", ["log", "literal"])
def test_a_dirichlet_draw_has_the_right_mean_a_gradient_and_a_seed(how):
    u = torch.tensor([[1.0, 0.0, -1.0]]).repeat(20_000, 1).requires_grad_()

    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        noise = gumbel_noise(u.shape, generator, u)
        return assign(u, 0.5, noise, how, dirichlet=True, generator=generator)

    z = drawn(0)
    # Marginally an assignment from a Dirichlet of total concentration one is one from its mean.
    if how == "log":
        often = z.argmax(1).bincount(minlength=3) / 20_000
        torch.testing.assert_close(often, u[0].detach().softmax(0), atol=0.015, rtol=0)
    (grad,) = torch.autograd.grad(z[:, 0].sum(), u)
    assert torch.isfinite(grad).all()
    assert grad.sum(0)[0] > 0 > grad.sum(0)[2]
    torch.manual_seed(5)  # torch's own stream must not matter
    assert torch.equal(z, drawn(0))
    assert not torch.equal(z, drawn(1))


def test_a_dirichlet_draw_survives_certain_nodes():
    u = torch.tensor([[80.0, -80.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        noise = gumbel_noise(u.shape, generator, u)
        z = assign(u, 0.1, noise, "log", dirichlet=True, generator=generator)
        (grad,) = torch.autograd.grad(z.square().sum(), u)
        assert torch.isfinite(z).all()
        assert torch.isfinite(grad).all()


@given(st.integers(1, 6), st.integers(1, 5), SEEDS)
def test_straight_through_is_one_hot_forward_and_soft_backward(nodes, groups, seed):
    soft = simplex(seed, nodes, groups).requires_grad_()
    hard = one_hot_straight_through(soft)
    expected = np.zeros((nodes, groups))
    expected[np.arange(nodes), soft.detach().numpy().argmax(1)] = 1
    np.testing.assert_allclose(hard.detach(), expected, atol=1e-12)
    factor = draw(seed + 1, nodes, groups)
    (grad,) = torch.autograd.grad((hard * factor).sum(), soft)
    torch.testing.assert_close(grad, factor)


@settings(max_examples=40)
@given(st.integers(2, 9), st.integers(1, 4), SEEDS, st.booleans(), st.booleans(), st.booleans())
def test_neighbor_evidence_equals_the_loop(nodes, groups, seed, weighted, directed, self_edge):
    graph = random_graph(nodes, seed, weighted, directed)
    block = Block.full(graph, self_edge)
    held = simplex(seed, nodes, groups)
    table = draw(seed + 1, groups, groups)
    table = table + table.T
    degrees = torch.from_numpy(graph.degrees().astype(np.float64))
    expected = slow.neighbor_evidence(held.numpy(), table.numpy(), block, degrees.numpy())
    found = neighbor_evidence(held, table, block, degrees)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    quick = neighbor_evidence(held.float(), table.float(), block, degrees.float())
    np.testing.assert_allclose(quick, expected, atol=1e-4)
    assert not found[torch.from_numpy(graph.degrees() == 0)].any()


def test_a_sampled_neighbourhood_speaks_for_the_whole():
    """Dropping half of equal neighbours changes nothing: evidence is scaled to the real degree."""
    held = torch.tensor([[0.5, 0.5]] + [[0.9, 0.1]] * 8, dtype=torch.float64)
    table = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
    degrees = torch.tensor([8.0])
    whole = Block([0, 9], range(9), 9)
    part = Block([0, 5], [0, 2, 4, 6, 8], 9)
    torch.testing.assert_close(
        neighbor_evidence(held, table, whole, degrees),
        neighbor_evidence(held, table, part, degrees),
    )


@st.composite
def trees(draw_from):
    """Group counts and parents; every group has a child."""
    counts = [draw_from(st.integers(1, 4))]
    for _ in range(draw_from(st.integers(0, 2))):
        counts.append(counts[-1] + draw_from(st.integers(0, 4)))
    counts = counts[::-1]
    rng = np.random.default_rng(draw_from(SEEDS))
    parents = [
        rng.permutation(np.append(np.arange(up), rng.integers(0, up, low - up)))
        for low, up in itertools.pairwise(counts)
    ]
    return counts, parents


@settings(max_examples=40)
@given(trees(), st.integers(1, 5), SEEDS)
def test_combined_levels_equal_the_loop_and_nest_exactly(tree, nodes, seed):
    counts, parents = tree
    evidence = [draw(seed + k, nodes, count).softmax(1) for k, count in enumerate(counts)]
    maps = [torch.from_numpy(p) for p in parents]
    found = combine_levels([e.log() for e in evidence], maps)
    expected = slow.combine_levels([e.numpy() for e in evidence], parents)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
        np.testing.assert_allclose(one.sum(1), 1, atol=1e-9)
    for level, parent in enumerate(maps):
        summed = torch.zeros_like(found[level + 1]).index_add(1, parent, found[level])
        torch.testing.assert_close(summed, found[level + 1])


def test_levels_that_firmly_disagree_leave_a_node_between_their_two_groups():
    """All but certain evidence in float32: no NaN, rows sum to one, no group nobody named."""
    lower = (300.0 * torch.eye(6)[[0, 5, 1]]).log_softmax(1)
    upper = (300.0 * torch.eye(3)[[1, 2, 0]]).log_softmax(1)
    found = combine_levels([lower, upper], [torch.tensor([0, 0, 1, 1, 2, 2])])
    for level in found:
        torch.testing.assert_close(level.sum(1), torch.ones(3))
    # The second parent has two equally unlikely children, which count sqrt(2) times as much.
    share = 1 / (1 + 2**0.5)
    rest = 1 - share
    torch.testing.assert_close(found[1][0], torch.tensor([share, rest, 0.0]))
    expected = torch.tensor([share, 0.0, rest / 2, rest / 2, 0.0, 0.0])
    torch.testing.assert_close(found[0][0], expected)
    assert found[0][1, 5] > 0.99  # no contradiction: certain
    assert found[0][2, 1] > 0.99


def test_a_parent_without_children_gets_next_to_nothing_and_no_nan():
    lower, upper = torch.zeros(1, 2).log_softmax(1), torch.zeros(1, 3).log_softmax(1)
    found = combine_levels([lower, upper], [torch.tensor([0, 2])])
    torch.testing.assert_close(found[1], torch.tensor([[0.5, 0.0, 0.5]]))
    torch.testing.assert_close(found[0], torch.tensor([[0.5, 0.5]]))


def test_gradients_of_the_membership_functions():
    graph = random_graph(6, 3)
    block = Block.full(graph)
    degrees = torch.from_numpy(graph.degrees().astype(np.float64))
    table = draw(9, 3, 3)
    noise = draw(10, 6, 3)
    parents = [torch.tensor([0, 1, 0])]
    u = draw(11, 6, 3).requires_grad_()
    v = draw(12, 6, 2).requires_grad_()
    states, vectors = draw(13, 6, 4).requires_grad_(), draw(14, 3, 4).requires_grad_()
    check = torch.autograd.gradcheck
    assert check(lambda a, b: cosine_affinity(a, b, 8.0), (states, vectors))
    for how in ("log", "literal", "mean"):
        assert check(lambda a, how=how: assign(a, 0.7, noise, how), (u,))
    assert check(lambda a: neighbor_evidence(a.softmax(1), table, block, degrees), (u,))
    assert check(
        lambda a, b: tuple(combine_levels([a.log_softmax(1), b.log_softmax(1)], parents)), (u, v)
    )
