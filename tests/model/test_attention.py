"""The layer against loops: both attentions, their product, heads, weights, gradients."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.neighborhoods import Block
from graphham.kernels import SparseMatrix
from graphham.model.attention import MembershipAttention
from graphham.model.feature_rows import FeatureRows
from tests.reference import model as slow
from tests.reference.graphs import planted, random_graph


def make_layer(seed, in_dim=4, out_dim=3, groups=3, heads=2, dtype=torch.float64, **options):
    layer = MembershipAttention(in_dim, out_dim, groups, heads, **options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return layer.to(dtype).eval()


def by_loops(layer, x, block, z):
    def plain(tensor):
        return None if tensor is None else tensor.detach().double().numpy()

    shaped = plain(layer.weight).reshape(layer.in_dim, layer.heads, layer.out_dim)
    own = layer.group_attention if layer.group_attention is not None else layer.attention
    return slow.attention_layer(
        plain(x),
        block,
        plain(z),
        shaped.transpose(1, 0, 2),
        plain(layer.attention),
        score=layer.group_score,
        B=plain(layer.pair_score),
        Phi=plain(layer.group_embedding),
        a_group=plain(own),
        product=layer.product,
        slope=layer.slope,
        shortcut=plain(layer.shortcut),
    )


def draw_states(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=60)
@given(
    nodes=st.integers(2, 7),
    heads=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
    directed=st.booleans(),
    self_edge=st.booleans(),
    score=st.sampled_from(["pair", "additive", "none"]),
    separate=st.booleans(),
    product=st.sampled_from(["renormalised", "literal"]),
    residual=st.booleans(),
)
def test_the_layer_equals_the_loops(
    nodes, heads, seed, weighted, directed, self_edge, score, separate, product, residual
):
    block = Block.full(random_graph(nodes, seed, weighted, directed), self_edge)
    kind = {
        "heads": heads,
        "group_score": score,
        "separate_attention": separate,
        "product": product,
        "residual": residual,
        "slope": 0.3,
    }
    layer = make_layer(seed, **kind)
    x = draw_states(seed + 1, nodes, 4)
    z = draw_states(seed + 2, nodes, 3).softmax(1)
    h, alpha, lam, weight = by_loops(layer, x, block, z)
    with torch.no_grad():
        np.testing.assert_allclose(layer.propagate(x, block, z), h, atol=1e-6)
        found = layer.attention_weights(x, block, z)
        np.testing.assert_allclose(found.node, alpha, atol=1e-9)
        np.testing.assert_allclose(found.group, lam, atol=1e-9)
        np.testing.assert_allclose(found.weight, weight, atol=1e-6)
        # The compiled float32 loops say the same.
        quick = make_layer(seed, **kind, dtype=torch.float32)
        np.testing.assert_allclose(
            quick.propagate(x.float(), block, z.float()), h, atol=2e-4, rtol=1e-3
        )


def test_literal_weights_shrink_with_the_degree_and_renormalised_ones_do_not():
    count = 10
    block = Block.from_edges(np.arange(1, count), np.zeros(count - 1, int), count, self_edge=True)
    x = draw_states(0, count, 4)
    z = draw_states(1, count, 3).softmax(1)
    sums = {}
    for product in ("literal", "renormalised"):
        layer = make_layer(2, product=product)
        weights = layer.attention_weights(x, block, z).weight[:count].sum(0)
        sums[product] = weights.detach()
    torch.testing.assert_close(sums["renormalised"], torch.ones(2, dtype=torch.float64))
    assert (sums["literal"] < 0.6).all()


def test_the_literal_product_renormalised_is_the_softmax_of_the_sum():
    block = Block.full(random_graph(6, 4))
    x, z = draw_states(0, 6, 4), draw_states(1, 6, 3).softmax(1)
    literal = make_layer(3, product="literal").attention_weights(x, block, z).weight
    other = make_layer(3, product="renormalised").attention_weights(x, block, z).weight
    targets = torch.tensor(block.edge_targets).long()
    totals = torch.zeros(6, 2, dtype=torch.float64).index_add(0, targets, literal)
    torch.testing.assert_close(literal / totals[targets], other)


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(1, 4), st.integers(0, 10**6))
def test_affinities_equal_the_loops(nodes, groups, seed):
    states = draw_states(seed, nodes, 4)
    cosine = make_layer(seed, groups=groups, affinity_scale=5.0)
    dot = make_layer(seed, groups=groups, affinity="dot")
    for layer, is_cosine, scale in (
        (cosine, True, 5.0),
        (dot, False, float(dot.log_scale.detach().exp()) if dot.log_scale is not None else 1),
    ):
        expected = slow.affinity(
            states.numpy(), layer.group_embedding.detach().numpy(), scale, is_cosine
        )
        with torch.no_grad():
            np.testing.assert_allclose(layer.affinities(states), expected, atol=1e-9)


@pytest.mark.parametrize("affinity", ["cosine", "dot"])
@pytest.mark.parametrize("score", ["pair", "additive"])
def test_sparse_and_dense_features_give_the_same(affinity, score):
    """Equivalent inputs: a sparse or dense table behind FeatureRows, and the same numbers plain."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(7, 12)) * (rng.random((7, 12)) < 0.4)
    table[3] = 0.0
    rows = FeatureRows(SparseMatrix.from_scipy(sp.csr_matrix(table.astype(np.float32))))
    dense = torch.from_numpy(table.astype(np.float32))
    layer = make_layer(
        1, in_dim=12, dtype=torch.float32, affinity=affinity, group_score=score, residual=True
    )
    block = Block.full(random_graph(7, 9))
    with torch.no_grad():
        z = layer.means(layer.affinities(rows))
        for held in (rows, FeatureRows(dense=dense)):
            torch.testing.assert_close(layer.affinities(held), layer.affinities(dense))
        torch.testing.assert_close(
            layer.propagate(rows, block, z), layer.propagate(dense, block, z)
        )


@pytest.mark.parametrize("score", ["pair", "additive", "none"])
@pytest.mark.parametrize("product", ["renormalised", "literal"])
def test_gradients_of_the_layer(score, product):
    graph = random_graph(5, 2, weighted=True)
    block = Block.full(graph)
    layer = make_layer(
        7, group_score=score, product=product, separate_attention=True, residual=True
    )
    layer.assignment = "mean"
    names = [name for name, _ in layer.named_parameters()]
    x = draw_states(8, 5, 4).requires_grad_()

    def run(x, *values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x, block))

    values = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    assert torch.autograd.gradcheck(run, (x, *values))


@pytest.mark.parametrize("dirichlet", [False, True])
@pytest.mark.parametrize("assignment", ["log", "literal", "mean"])
def test_noise_comes_from_the_generator_while_training_only(assignment, dirichlet):
    layer = make_layer(3, assignment=assignment, dirichlet=dirichlet)
    x = draw_states(0, 6, 4)
    block = Block.full(random_graph(6, 1))

    def run(seed):
        return layer(x, block, generator=torch.Generator().manual_seed(seed)).detach()

    layer.train()
    first, again, other = run(0), run(0), run(1)
    assert torch.equal(first, again)
    assert torch.equal(first, other) == (assignment == "mean")
    layer.eval()
    assert torch.equal(run(0), run(1))
    expected = layer.propagate(x, block, layer.affinities(x).softmax(1)).detach()
    torch.testing.assert_close(run(0), expected)


def test_an_edge_list_and_a_block_are_the_same_graph():
    layer = make_layer(0)
    x = draw_states(1, 6, 4)
    source, target = torch.tensor([[0, 1, 2, 5, 2], [1, 0, 3, 3, 2]])
    block = Block.from_edges(source.numpy(), target.numpy(), 6, self_edge=True)
    edges = torch.stack([source, target])
    assert torch.equal(layer(x, edges), layer(x, block))
    # The order of the edges is no information.
    torch.testing.assert_close(layer(x, edges[:, [4, 2, 0, 3, 1]]), layer(x, block))
    # A node without edges still sees itself, unless told not to.
    assert layer(x, edges)[4].abs().sum() > 0
    alone = make_layer(0, self_edge=False)
    assert not alone(x, edges)[4].any()


def test_permuting_the_nodes_permutes_the_output():
    graph = random_graph(9, 5, weighted=True)
    order = np.random.default_rng(0).permutation(9)
    layer = make_layer(1)
    x = draw_states(2, 9, 4)
    first = layer(x, Block.full(graph))
    second = layer(x[order.copy()], Block.full(graph.permuted(order)))
    torch.testing.assert_close(second, first[order.copy()])


def test_a_target_reads_nobody_but_its_sources():
    layer = make_layer(0)
    x = draw_states(1, 5, 4).requires_grad_()
    block = Block.from_edges([1, 2], [0, 1], 5, self_edge=True)
    (grad,) = torch.autograd.grad(layer(x, block)[0].sum(), x)
    assert grad[[0, 1]].abs().sum() > 0
    assert not grad[2:].any()


def test_own_membership_states():
    layer = make_layer(0, membership_dim=6)
    x, held = draw_states(1, 5, 4), draw_states(2, 5, 6)
    block = Block.full(random_graph(5, 3))
    expected = layer.propagate(x, block, layer.affinities(held).softmax(1))
    assert torch.equal(layer(x, block, held), expected)


def test_refusals_are_one_sentence():
    with pytest.raises(InputError, match="membership_input='state'"):
        MembershipAttention(4, 3, 2, membership_dim=5, group_score="additive")
    layer = make_layer(0)
    with pytest.raises(InputError, match=r"shape \(2, num_edges\), got \(3, 2\)"):
        layer(draw_states(0, 4, 4), torch.zeros(3, 2, dtype=torch.long))
    with pytest.raises(InputError, match="9 lies outside"):
        layer(draw_states(0, 4, 4), torch.tensor([[9], [0]]))


def test_the_layer_learns_inside_any_network():
    """Dropped into a plain torch loop it tells two planted groups apart."""
    truth = planted(120, seed=3)
    graph = truth.graph
    x = torch.from_numpy(graph.features.toarray())
    pairs = torch.from_numpy(graph.edge_list().T.copy())
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    wanted = torch.from_numpy(truth.levels[1].astype(np.int64))
    torch.manual_seed(0)
    network = torch.nn.ModuleList(
        [MembershipAttention(60, 16, groups=4, heads=2), torch.nn.Linear(16, 2)]
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(0)
    seen = torch.arange(120) % 2 == 0
    for _ in range(30):
        logits = network[1](network[0](x, edges, generator=generator))
        loss = torch.nn.functional.cross_entropy(logits[seen], wanted[seen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()
    said = network[1](network[0](x, edges)).argmax(1)
    assert (said == wanted)[~seen].float().mean() > 0.9
    assert "groups=4, heads=2" in repr(network[0])


def test_affinities_of_many_rows_without_gradient_equal_those_of_few(monkeypatch):
    layer = make_layer(0, groups=4, affinity_scale=5.0).float()
    states = torch.randn(20, layer.membership_dim, generator=torch.Generator().manual_seed(0))
    states[3] = 0.0
    found = []
    for many in (1000, 10):
        monkeypatch.setattr("graphham.model.attention._MANY", many)
        layer.zero_grad()
        u = layer.affinities(states)
        (u * torch.arange(4.0)).sum().backward()
        found.append((u.detach(), layer.group_embedding.grad.clone()))
    for few, many in zip(*found, strict=True):
        torch.testing.assert_close(few, many, rtol=1e-5, atol=1e-5)
