"""Memberships that layers make, against loops: affinities, assignments, their gradients."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.model.membership import (
    assign,
    cosine_affinity,
    gumbel_noise,
    one_hot_straight_through,
)
from tests.reference import model as slow

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


def test_gradients_of_the_membership_functions():
    noise = draw(10, 6, 3)
    u = draw(11, 6, 3).requires_grad_()
    states, vectors = draw(13, 6, 4).requires_grad_(), draw(14, 3, 4).requires_grad_()
    check = torch.autograd.gradcheck
    assert check(lambda a, b: cosine_affinity(a, b, 8.0), (states, vectors))
    for how in ("log", "literal", "mean"):
        assert check(lambda a, how=how: assign(a, 0.7, noise, how), (u,))
