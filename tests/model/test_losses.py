"""Every term of the objective against loops, its gradients, and who may receive them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.model.losses import (
    balance_loss,
    class_loss,
    constraint_loss,
    contrastive_loss,
    sharpened,
    skipgram_loss,
    violation_mass,
)
from tests.reference import model as slow

SEEDS = st.integers(0, 10**6)


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def simplex(seed, *shape):
    return (2 * draw(seed, *shape)).softmax(-1)


@settings(max_examples=40)
@given(st.integers(2, 13), st.integers(2, 6), st.sampled_from([0.2, 1.0]), SEEDS)
def test_contrastive_loss_equals_the_loop(pairs, size, temperature, seed):
    anchors, positives = draw(seed, pairs, 3), draw(seed + 1, pairs, 3)
    found = contrastive_loss(anchors, positives, temperature, size)
    # Sets are as even as can be and as many as it takes to come near the size.
    sets = [part.tolist() for part in np.array_split(range(pairs), max(1, round(pairs / size)))]
    expected = slow.contrastive(anchors.numpy(), positives.numpy(), temperature, sets)
    assert float(found) == pytest.approx(expected)


def test_contrastive_loss_without_anybody_to_tell_apart_is_zero_with_a_gradient():
    for pairs in (0, 1):
        anchors = torch.ones(pairs, 3, requires_grad=True)
        loss = contrastive_loss(anchors, torch.ones(pairs, 3), 0.2, 8)
        assert float(loss.detach()) == 0.0
        loss.backward()


@settings(max_examples=40)
@given(st.lists(st.floats(-40, 40), max_size=6), st.lists(st.floats(-40, 40), max_size=6))
def test_skipgram_loss_equals_the_loop(positive, negative):
    found = skipgram_loss(
        torch.tensor(positive, dtype=torch.float64), torch.tensor(negative, dtype=torch.float64)
    )
    expected = sum(
        sum(-slow.log_sigmoid(sign * s) for s in part) / len(part)
        for part, sign in ((positive, 1), (negative, -1))
        if part
    )
    assert float(found) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(max_examples=40)
@given(st.integers(2, 9), st.integers(1, 5), st.integers(1, 4), SEEDS, st.booleans())
def test_violation_mass_equals_the_sum_over_all_pairs(nodes, low, high, seed, hard):
    lower, upper = simplex(seed, nodes, low), simplex(seed + 1, nodes, high)
    if hard:
        lower = torch.eye(low, dtype=torch.float64)[lower.argmax(1)]
        upper = torch.eye(high, dtype=torch.float64)[upper.argmax(1)]
    expected = slow.violation_mass(lower.numpy(), upper.numpy())
    assert float(violation_mass(lower, upper)) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40)
@given(
    st.integers(2, 9),
    SEEDS,
    st.sampled_from(["chance", "pairs", "set"]),
    st.sampled_from([(0.5, 0.5), (1.0, 0.1), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0)]),
)
def test_constraint_loss_equals_the_definition(nodes, seed, how, weights):
    must, cannot = weights
    lower, upper = simplex(seed, nodes, 4), simplex(seed + 1, nodes, 3)
    mass = slow.violation_mass(lower.numpy(), upper.numpy())
    below, above = slow.pair_sums(lower.numpy()), slow.pair_sums(upper.numpy())
    pairs = nodes * (nodes - 1)
    if how == "pairs":
        expected = (must + cannot) * mass / pairs
    elif how == "set":
        expected = must * mass / max(below, 1) + cannot * mass / max(pairs - above, 1)
    else:
        expected = (must + cannot) * mass / (below * (1 - above / pairs) + 1e-3 * pairs)
    found = constraint_loss(lower, upper, must, cannot, how)
    assert float(found) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("how", ["chance", "pairs", "set"])
def test_must_link_moves_the_upper_level_and_cannot_link_the_lower(how):
    lower, upper = simplex(0, 6, 4).requires_grad_(), simplex(1, 6, 3).requires_grad_()
    must = constraint_loss(lower, upper, 1.0, 0.0, how)
    grads = torch.autograd.grad(must, (lower, upper), allow_unused=True)
    assert grads[0] is None
    assert grads[1].abs().sum() > 0
    cannot = constraint_loss(lower, upper, 0.0, 1.0, how)
    grads = torch.autograd.grad(cannot, (lower, upper), allow_unused=True)
    assert grads[0].abs().sum() > 0
    assert grads[1] is None


def test_constraint_loss_tells_nested_from_crossed_and_does_not_reward_collapse():
    fine = torch.eye(4, dtype=torch.float64).repeat(8, 1)
    nested = torch.eye(2, dtype=torch.float64)[torch.tensor([0, 0, 1, 1]).repeat(8)]
    crossed = torch.eye(2, dtype=torch.float64)[torch.arange(32) // 4 % 2]
    values = {
        name: float(constraint_loss(fine, upper, 0.5, 0.5, "chance"))
        for name, upper in (("nested", nested), ("crossed", crossed))
    }
    assert values["nested"] == pytest.approx(0, abs=1e-9)
    # What independent levels would give counts as one.
    assert values["crossed"] == pytest.approx(1, abs=0.15)
    flat = torch.ones(32, 1, dtype=torch.float64)
    assert float(constraint_loss(fine, flat, 0.5, 0.5, "chance")) == pytest.approx(0, abs=1e-9)
    # One node has no pairs.
    assert float(constraint_loss(fine[:1], nested[:1], 1.0, 1.0)) == 0.0


@settings(max_examples=30)
@given(st.integers(1, 7), st.integers(1, 5), SEEDS)
def test_balance_equals_the_loops(nodes, groups, seed):
    held, prior = simplex(seed, nodes, groups), simplex(seed + 1, groups)
    mean = held.numpy().mean(0)
    assert float(balance_loss(held, prior)) == pytest.approx(slow.kl(mean, prior), abs=1e-7)
    assert float(balance_loss(prior.expand(nodes, groups), prior)) == pytest.approx(0, abs=1e-7)


def test_class_loss_for_one_label_many_labels_and_none():
    logits = draw(0, 5, 3)
    codes = torch.tensor([0, 2, 1, 1, 0])
    expected = -np.mean(
        [np.log(slow.softmax(row)[c]) for row, c in zip(logits, codes, strict=True)]
    )
    assert float(class_loss(logits, codes)) == pytest.approx(expected)
    matrix = (draw(1, 5, 3) > 0).double()
    expected = 3 * np.mean(
        [
            -slow.log_sigmoid(float(v) if t else -float(v))
            for v, t in zip(logits.flatten(), matrix.flatten(), strict=True)
        ]
    )
    assert float(class_loss(logits, matrix)) == pytest.approx(expected)
    empty = torch.zeros(0, 3, requires_grad=True)
    class_loss(empty, torch.zeros(0, dtype=torch.long)).backward()
    assert float(class_loss(empty, torch.zeros(0, 3)).detach()) == 0.0


def test_gradients_of_the_losses():
    check = torch.autograd.gradcheck
    a, b = draw(0, 5, 3).requires_grad_(), draw(1, 5, 3).requires_grad_()
    u, v = draw(2, 5, 4).requires_grad_(), draw(3, 5, 2).requires_grad_()
    prior = simplex(4, 4)
    codes = torch.tensor([0, 3, 1, 2, 2])
    assert check(lambda x, y: contrastive_loss(x, y, 0.2, 3), (a, b))
    assert check(lambda x, y: skipgram_loss(x[:, 0], y[:, 0]), (a, b))
    assert check(lambda x, y: violation_mass(x.softmax(1), y.softmax(1)), (u, v))
    fixed_u, fixed_v = u.detach().softmax(1), v.detach().softmax(1)
    for how in ("chance", "pairs", "set"):
        # One side only: the other is held fixed on purpose, which gradcheck cannot know.
        assert check(lambda y, how=how: constraint_loss(fixed_u, y.softmax(1), 0.7, 0, how), (v,))
        assert check(lambda x, how=how: constraint_loss(x.softmax(1), fixed_v, 0, 0.7, how), (u,))
    assert check(lambda x: balance_loss(x.softmax(1), prior), (u,))
    assert check(lambda x: class_loss(x, codes), (u,))


def test_firm_memberships_give_finite_losses_and_gradients():
    """Exact zeros and ones in float32, as a certain node has them."""
    held = torch.eye(3)[[0, 0, 1]].requires_grad_()
    prior = torch.full((3,), 1 / 3)
    for loss in (
        balance_loss(held, prior),
        constraint_loss(held, held, 1.0, 1.0),
    ):
        (grad,) = torch.autograd.grad(loss, held, retain_graph=True)
        assert torch.isfinite(loss)
        assert torch.isfinite(grad).all()


@pytest.mark.parametrize("is_multi", [False, True])
def test_sharpened_probabilities_are_surer_and_still_probabilities(is_multi):
    chances = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    sure = sharpened(chances, is_multi)
    if is_multi:
        torch.testing.assert_close(sure[1, 2], torch.tensor(0.64 / (0.64 + 0.04)))
        assert sure[0, 0] == 0.5
    else:
        torch.testing.assert_close(sure.sum(1), torch.ones(2))
        torch.testing.assert_close(sure[0], torch.tensor([0.25, 0.09, 0.04]) / 0.38)
        assert bool((sure.max(1).values > chances.max(1).values).all())
