"""What groups say of classes against plain loops, one label left out at a time."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.graph.graph import Labels, build_graph
from graphham.groups.block_model import GraphLinks, fit_block_model, softmax_rows, sum_levels
from graphham.training import teacher
from graphham.training.supervision import Truth
from graphham.training.teacher import class_table, group_classes, one_hot, teach, with_shares

LEANS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
PARENTS = [np.array([0, 1, 0, 1]), np.array([0, 0])]


def slow_table(levels, parents, targets, rows, lean):
    """Theta of the finest groups from the labels of some rows, from the top downwards."""
    classes = targets.shape[1]
    theta = None
    for level in reversed(range(len(levels))):
        held = levels[level]
        table = np.zeros((held.shape[1], classes))
        for k in range(held.shape[1]):
            members = sum(held[i, k] for i in rows)
            for c in range(classes):
                count = sum(held[i, k] * targets[i, c] for i in rows)
                if theta is None:
                    # Above the tree are all labels together, one of each class added.
                    above = (sum(targets[i, c] for i in rows) + 1) / (len(rows) + classes)
                else:
                    above = theta[parents[level][k], c]
                table[k, c] = (count + lean * above) / (members + lean)
        theta = table
    return theta


def slow_classes(memberships, parents, targets, rows, is_multi):
    """The whole teacher; also returns which lean the labels chose. Rows may stand in it twice."""
    levels = [level.astype(float) for level in sum_levels(memberships, parents)]
    best = None
    for lean in LEANS:
        score = 0.0
        for i in rows:
            others = [j for j in rows if j != i]
            theta = slow_table(levels, parents, targets, others, lean)
            for c in range(targets.shape[1]):
                q = sum(memberships[i, k] * theta[k, c] for k in range(memberships.shape[1]))
                q = min(max(q, 1e-9), 1 - 1e-9)
                score += targets[i, c] * math.log(q)
                if is_multi:
                    score += (1 - targets[i, c]) * math.log(1 - q)
        if best is None or score > best[0]:
            best = score, lean
    theta = slow_table(levels, parents, targets, rows, best[1])
    return memberships @ theta, best[1]


def make_truth(targets, rows, is_multi, nodes):
    training = torch.zeros(nodes, dtype=torch.bool)
    training[rows] = True
    values = torch.from_numpy(targets).float() if is_multi else torch.from_numpy(targets.argmax(1))
    return Truth(values, training, torch.zeros(0, dtype=torch.long))


def example(seed, nodes, is_multi, depth):
    rng = np.random.default_rng(seed)
    memberships = softmax_rows(3 * rng.normal(size=(nodes, 4)).astype(np.float32))
    targets = np.eye(3)[np.append([0, 1, 2], rng.integers(0, 3, nodes - 3))]
    if is_multi:
        targets = np.maximum(targets, rng.random((nodes, 3)) < 0.3)
    rows = sorted(rng.choice(nodes, nodes // 2 + 1, replace=False).tolist())
    return memberships, PARENTS[: depth - 1], targets, rows


@pytest.mark.parametrize("is_multi", [False, True])
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 9), st.integers(1, 3))
def test_the_teacher_equals_the_loops(is_multi, seed, nodes, depth):
    memberships, parents, targets, rows = example(seed, nodes, is_multi, depth)
    truth = make_truth(targets, rows, is_multi, nodes)
    assert truth.is_multi == is_multi
    np.testing.assert_array_equal(one_hot(truth, 3), targets)
    expected, _ = slow_classes(memberships, parents, targets, rows, is_multi)
    found = group_classes(memberships, parents, truth, 3)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    if not is_multi:
        np.testing.assert_allclose(found.sum(1), 1, atol=1e-4)


def test_labels_left_out_in_pieces_choose_the_same(monkeypatch):
    memberships, parents, targets, rows = example(3, 40, False, 3)
    truth = make_truth(targets, rows, False, 40)
    whole = group_classes(memberships, parents, truth, 3)
    monkeypatch.setattr(teacher, "_CHUNK", 1)  # one label at a time
    np.testing.assert_array_equal(group_classes(memberships, parents, truth, 3), whole)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(6, 12), st.integers(1, 3))
def test_a_label_that_counts_twice_is_two_labels(seed, nodes, depth):
    """A weight of two equals a second node of the same class in the same groups."""
    memberships, parents, targets, rows = example(seed, nodes, False, depth)
    codes = targets.argmax(1)
    again = [row for row in rows if codes[row] == 1]
    more = np.concatenate([memberships, memberships[again]])
    truth = make_truth(targets, rows, False, nodes)
    twice = make_truth(
        np.concatenate([targets, targets[again]]),
        [*rows, *range(nodes, nodes + len(again))],
        False,
        nodes + len(again),
    )
    levels = [level.astype(float) for level in sum_levels(memberships[rows], parents)]
    each = np.where(codes[rows] == 1, 2.0, 1.0)[:, None]
    weighted = [level * each for level in levels]
    counts = teacher.ClassCounts(
        [level.T @ targets[rows] for level in weighted], [w.sum(0) for w in weighted], parents
    )
    doubled = [level.astype(float) for level in sum_levels(more, parents)]
    picked = torch.nonzero(twice.training)[:, 0].numpy()
    others = teacher.ClassCounts(
        [level[picked].T @ one_hot(twice, 3)[picked] for level in doubled],
        [level[picked].sum(0) for level in doubled],
        parents,
    )
    for lean in LEANS:
        np.testing.assert_allclose(counts.table(lean), others.table(lean), atol=1e-6)
        # And class_table passes its weights on: with one lean to choose from it is that table.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(teacher, "_LEANS", (lean,))
            table = class_table(memberships, parents, truth, 3, np.array([1.0, 2.0, 1.0]))
        np.testing.assert_allclose(table, others.table(lean), atol=1e-6)
    plain = group_classes(memberships, parents, truth, 3)
    np.testing.assert_array_equal(group_classes(memberships, parents, truth, 3, np.ones(3)), plain)


@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(2, 6))
def test_with_shares_gives_classes_their_shares(seed, nodes, classes):
    rng = np.random.default_rng(seed)
    given_ = torch.from_numpy(rng.dirichlet(np.ones(classes), nodes)) + 0.01
    given_ /= given_.sum(1, keepdim=True)
    shares = torch.from_numpy(rng.dirichlet(5 * np.ones(classes)))
    found = with_shares(given_, shares)
    torch.testing.assert_close(found.sum(1), torch.ones(nodes, dtype=torch.float64))
    torch.testing.assert_close(found.mean(0), shares, atol=0.02, rtol=0)
    # What has the shares already stays as it is, and so does the order of nodes within a class.
    torch.testing.assert_close(with_shares(given_, given_.mean(0)), given_)


def test_labels_outside_the_training_rows_do_not_matter():
    memberships, parents, targets, rows = example(4, 30, False, 2)
    other = np.eye(3)[(targets.argmax(1) + 1) % 3]
    other[rows] = targets[rows]
    found = [
        group_classes(memberships, parents, make_truth(t, rows, False, 30), 3)
        for t in (targets, other)
    ]
    np.testing.assert_array_equal(*found)


def test_a_group_without_labels_leans_on_its_parent():
    """Groups 0 and 2 share a parent, 1 and 3 the other; only 0 and 1 have labelled members."""
    nodes = 40
    codes = np.arange(nodes) % 4
    memberships = np.eye(4, dtype=np.float32)[codes]
    targets = np.eye(2)[codes % 2]
    rows = np.flatnonzero(codes < 2).tolist()
    truth = make_truth(targets, rows, False, nodes)
    nested = group_classes(memberships, PARENTS[:1], truth, 2)
    assert nested[codes == 2][0, 0] > 0.9
    assert nested[codes == 3][0, 1] > 0.9
    # Without a tree nothing is known of them but how many labels there are of each class.
    flat = group_classes(memberships, [], truth, 2)
    np.testing.assert_allclose(flat[codes >= 2], 0.5, atol=1e-6)


def test_the_labels_choose_how_much_groups_lean_on_their_parents(monkeypatch):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 200)
    memberships = np.eye(4, dtype=np.float32)[codes]
    pure = np.eye(2)[codes // 2]  # a parent holds both classes, a group only one
    mixed = np.eye(2)[rng.integers(0, 2, 200)]  # groups say nothing
    used = []
    table = teacher.ClassCounts.table

    def watched(self, lean):
        used.append(lean)
        return table(self, lean)

    monkeypatch.setattr(teacher.ClassCounts, "table", watched)
    rows = list(range(60))
    for targets, small in ((pure, True), (mixed, False)):
        used.clear()
        group_classes(memberships, PARENTS[:1], make_truth(targets, rows, False, 200), 2)
        # The last table is the one that is taken.
        assert (used[-1] == min(LEANS)) if small else (used[-1] >= 3.0)


def test_fits_that_disagree_leave_the_teacher_unsure():
    graph = build_graph([0, 1, 3, 4], [1, 2, 4, 5], 6)
    x = np.repeat(np.eye(2, dtype=np.float32), 3, axis=0)
    links = GraphLinks(graph)
    right = fit_block_model(x, 12.0, links, np.array([0, 0, 0, 1, 1, 1]), [])
    one = fit_block_model(x, 12.0, links, np.zeros(6, dtype=np.int64), [])
    labels = Labels(("a", "b"), codes=np.array([0, 0, -1, 1, 1, -1], dtype=np.int32))
    truth = Truth.split(labels, 0, 0.0)
    alone = [teach([fit], truth, 2) for fit in (right, one)]
    assert alone[0][2, 0] > 0.9
    assert alone[0][5, 1] > 0.9
    torch.testing.assert_close(teach([right, one], truth, 2), (alone[0] + alone[1]) / 2)
    assert teach([right], truth, 2).dtype == torch.float32


def test_a_class_that_no_node_has_is_still_a_column():
    """As in a part of a graph whose labels keep the names of the whole."""
    labels = Labels(("a", "b", "c"), codes=np.array([0, 1, -1], dtype=np.int32))
    memberships = np.eye(2, dtype=np.float32)[[0, 1, 0]]
    found = group_classes(memberships, [], Truth.split(labels, 0, 0.0), 3)
    assert found.shape == (3, 3)
    assert (found[:, 2] < found.max(1)).all()
