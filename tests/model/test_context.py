"""The context decoder against loops: scores, losses, tables and their row-wise updates."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.model.context import TEMPERATURE, ContextDecoder, ContextTable
from graphham.model.membership import one_hot_straight_through
from graphham.parallel.ranks import ALONE
from graphham.parallel.row_shards import RowShards
from tests.reference import model as slow

NODES, GROUPS, DIM = 7, 3, 4


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_decoder(seed, form, straight_through=False, **options):
    """Return a decoder and the keyword arguments of the loops that mean the same."""
    rows = {"inductive": 0, "factored": NODES, "full": NODES * GROUPS}[form]
    table = ContextTable(draw(seed, rows, DIM)) if rows else None
    decoder = ContextDecoder(
        GROUPS,
        DIM,
        table,
        form == "full",
        straight_through=straight_through,
        contrast_size=4,
        **options,
    ).double()
    same = {"table": None if table is None else table.weight.clone().numpy()}
    if decoder.group_context is not None:
        with torch.no_grad():
            decoder.group_context.copy_(draw(seed + 1, GROUPS, DIM))
        same["group"] = decoder.group_context.detach().numpy().copy()
    same["full"] = form == "full" and decoder.by_group
    return decoder, same


def pairs(seed):
    """Anchors with contexts and non-contexts, some missing."""
    rng = np.random.default_rng(seed)
    anchors = rng.permutation(NODES)[:4]
    positives = rng.integers(-1, NODES, (4, 3))
    negatives = rng.integers(-1, NODES, (4, 3))
    return anchors, positives, negatives


FORMS = st.sampled_from(["inductive", "factored", "full"])


@settings(max_examples=60)
@given(
    FORMS, st.booleans(), st.booleans(), st.sampled_from(["vector", "loss"]), st.integers(0, 10**6)
)
def test_scores_and_losses_equal_the_loops(form, grouped, hard, mix, seed):
    decoder, same = make_decoder(seed, form, hard, group_context=grouped, mix=mix)
    states, z = draw(seed + 2, NODES, DIM), draw(seed + 3, NODES, GROUPS).softmax(1)
    if hard:
        z = one_hot_straight_through(z)
    anchors, positives, negatives = pairs(seed)
    left, right = np.repeat(anchors, 3), np.maximum(positives.reshape(-1), 0)
    with torch.no_grad():
        found = decoder.scores(states, z, torch.from_numpy(left), torch.from_numpy(right))
        loss = decoder.skipgram(
            states, z, *(torch.from_numpy(part) for part in (anchors, positives, negatives))
        )
    h, held = states.numpy(), z.numpy()
    expected = [slow.context_score(i, j, h, held, **same) for i, j in zip(left, right, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    # Without groups there is nothing to mix.
    how = mix if grouped else "vector"
    wanted = slow.context_loss(h, held, anchors, positives, negatives, how, **same)
    assert float(loss) == pytest.approx(wanted, abs=1e-9)


@settings(max_examples=30)
@given(st.booleans(), st.integers(0, 10**6))
def test_contrast_equals_the_loop(grouped, seed):
    decoder, same = make_decoder(seed, "inductive", group_context=grouped)
    states, z = draw(seed + 2, NODES, DIM), draw(seed + 3, NODES, GROUPS).softmax(1)
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, NODES, (2, 9))
    with torch.no_grad():
        found = decoder.contrast(states, z, torch.from_numpy(left), torch.from_numpy(right))
    h, held = states.numpy(), z.numpy()
    factor = 1 + held @ same["group"] if grouped else np.ones((NODES, DIM))
    sets = [part.tolist() for part in np.array_split(range(9), round(9 / 4))]
    expected = slow.contrastive((h * factor)[left], h[right], TEMPERATURE, sets)
    assert float(found) == pytest.approx(expected)


def test_the_full_table_is_cut_into_pieces_without_changing_the_sum(monkeypatch):
    decoder, _ = make_decoder(0, "full")
    states, z = draw(1, NODES, DIM), draw(2, NODES, GROUPS).softmax(1)
    parts = [torch.from_numpy(part) for part in pairs(3)]
    whole = decoder.skipgram(states, z, *parts)
    monkeypatch.setattr("graphham.model.context._CHUNK", 2 * GROUPS * DIM)
    torch.testing.assert_close(decoder.skipgram(states, z, *parts), whole)


@pytest.mark.parametrize("form", ["inductive", "factored", "full"])
@pytest.mark.parametrize("mix", ["vector", "loss"])
def test_gradients_of_states_assignments_and_group_vectors(form, mix):
    decoder, _ = make_decoder(0, form, mix=mix)
    states, logits = draw(1, NODES, DIM).requires_grad_(), draw(2, NODES, GROUPS).requires_grad_()
    parts = [torch.from_numpy(part) for part in pairs(4)]
    inputs = [states, logits]
    if decoder.group_context is not None:
        inputs.append(decoder.group_context.detach().clone().requires_grad_())

    def run(h, u, *vectors):
        if vectors:
            decoder._parameters.pop("group_context", None)
            decoder.group_context = vectors[0]
        return decoder.skipgram(h, u.softmax(1), *parts)

    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("form", ["factored", "full"])
def test_gradients_reach_exactly_the_rows_that_were_looked_up(form):
    decoder, _ = make_decoder(0, form)
    table = decoder.table
    before = table.weight.clone()
    states, z = draw(1, NODES, DIM), draw(2, NODES, GROUPS).softmax(1)
    anchors, positives, negatives = (
        torch.tensor(v) for v in ([0, 1], [[2, -1], [3, 3]], [[4], [4]])
    )
    decoder.skipgram(states, z, anchors, positives, negatives).backward()
    table.step(0.1)
    moved = (table.weight != before).any(1).numpy()
    touched = {"factored": np.array([2, 3, 4])}.get(
        form, np.concatenate([np.arange(GROUPS) + GROUPS * j for j in (2, 3, 4)])
    )
    np.testing.assert_array_equal(np.flatnonzero(moved), touched)
    # A step without a look-up changes nothing.
    after = table.weight.clone()
    table.step(0.1)
    assert torch.equal(table.weight, after)


def test_rows_are_updated_by_adagrad_with_one_number_per_row():
    table = ContextTable(torch.ones(4, 2, dtype=torch.float64))
    rows = torch.tensor([1, 3, 1])
    weight, squares = np.ones((4, 2)), np.zeros(4)
    for factor in (1.0, -2.0):
        vectors = table.look_up(rows)
        (vectors * torch.tensor([[1.0, 2.0], [3.0, 0.0], [1.0, 0.0]]) * factor).sum().backward()
        table.step(0.5)
        # Row 1 was asked for twice: its gradients add up before they are squared.
        for row, grad in ((1, np.array([2.0, 2.0]) * factor), (3, np.array([3.0, 0.0]) * factor)):
            squares[row] += (grad**2).mean()
            weight[row] -= 0.5 * grad / (np.sqrt(squares[row]) + 1e-8)
    np.testing.assert_allclose(table.weight, weight)
    np.testing.assert_allclose(table.squares, squares)


def test_straight_through_look_ups_pass_gradient_to_the_chosen_group():
    decoder, same = make_decoder(0, "full", straight_through=True)
    states = draw(1, NODES, DIM)
    soft = draw(2, NODES, GROUPS).softmax(1).requires_grad_()
    z = one_hot_straight_through(soft)
    left, right = torch.tensor([0, 1]), torch.tensor([4, 5])
    scores = decoder.scores(states, z, left, right)
    (grad,) = torch.autograd.grad(scores.sum(), soft)
    chosen = soft.detach().argmax(1)
    for i, j in ((0, 4), (1, 5)):
        k = int(chosen[i])
        expected = slow.dot(states[i], same["table"][j * GROUPS + k])
        assert float(grad[i, k]) == pytest.approx(expected)
    assert float(grad.abs().sum()) == pytest.approx(float(scores.detach().abs().sum()))


def test_looking_up_without_gradient_leaves_nothing_to_update():
    table = ContextTable.start(5, 3, torch.Generator().manual_seed(0))
    before = table.weight.clone()
    with torch.no_grad():
        table.look_up(torch.tensor([0, 1]))
    table.look_up(torch.tensor([2]))  # never used in a loss
    table.step(1.0)
    assert torch.equal(table.weight, before)


def test_learning_separates_contexts_from_others():
    """A few steps of the full machinery raise the score of true contexts above the others."""
    decoder, _ = make_decoder(5, "factored")
    states = draw(6, NODES, DIM).requires_grad_()
    z = draw(7, NODES, GROUPS).softmax(1)
    anchors = torch.arange(NODES)
    positives, negatives = ((anchors + 1) % NODES)[:, None], ((anchors + 3) % NODES)[:, None]
    optimizer = torch.optim.Adam([states, *decoder.parameters()], lr=0.05)
    losses = []
    for _ in range(60):
        loss = decoder.skipgram(states, z, anchors, positives, negatives)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decoder.table.step(0.1)
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


@settings(max_examples=40)
@given(
    st.sampled_from(["factored", "full"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 4, 19]),
    st.integers(0, 10**6),
)
def test_the_compiled_pairs_equal_plain_torch(form, hard, grouped, sharded, dim, seed):
    """Loss, gradients of states, assignments and group vectors, and the tables after two steps."""
    rng = np.random.default_rng(seed)
    rows = NODES * (GROUPS if form == "full" else 1)
    start = torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))
    batches = [pairs(seed + step) for step in range(2)]
    h = torch.from_numpy(3 * rng.standard_normal((NODES, dim)).astype("f4"))
    u = torch.from_numpy(rng.standard_normal((NODES, GROUPS)).astype("f4"))
    found = []
    for how in ("compiled", "reference"):
        if sharded:
            table = RowShards(NODES, rows // NODES, dim, 0, ALONE, "cpu")
            table.weight.copy_(start)
        else:
            table = ContextTable(start.clone())
        decoder = ContextDecoder(
            GROUPS, dim, table, form == "full", group_context=grouped, straight_through=hard
        )
        decoder.reset_parameters(torch.Generator().manual_seed(1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GRAPHHAM_OPS", how)
            for step in batches:
                anchors, *nodes = (torch.from_numpy(part) for part in step)
                states, soft = h.clone().requires_grad_(), u.softmax(1).requires_grad_()
                if sharded:
                    table.fetch(nodes)
                z = one_hot_straight_through(soft) if hard else soft
                loss = decoder.skipgram(states, z, anchors, *nodes)
                decoder.zero_grad()
                (2.5 * loss).backward()
                if sharded:
                    table.end_shard()
                    table.send()
                table.step(0.1)
        vectors = decoder.group_context
        grads = [states.grad, soft.grad, None if vectors is None else vectors.grad]
        zero = torch.zeros(1)
        grads = [zero if g is None or not g.abs().sum() else g for g in grads]
        found.append([loss.detach(), *grads, table.weight, table.squares])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-6)


def test_pairs_scored_without_gradient_leave_nothing_to_update():
    table = ContextTable.start(5, 3, torch.Generator().manual_seed(0))
    before, rows = table.weight.clone(), torch.tensor([[0, -1]])
    with torch.no_grad():
        seen = table.pair_loss(torch.ones(1, 3), None, rows, 1.0)
    torch.testing.assert_close(seen, -(before[0].sum().sigmoid().log()))
    assert table.pair_loss(torch.ones(1, 3), None, torch.tensor([[-1]]), 1.0).detach() == 0
    table.step(1.0)
    assert torch.equal(table.weight, before)
