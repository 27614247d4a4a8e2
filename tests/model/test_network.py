"""The whole network against loops, its parts switched on and off, its gradients."""

import numpy as np
import pytest
import torch

from graphham.config.resolve import GraphFacts, resolve
from graphham.config.settings import make_config
from graphham.graph.graph import Labels
from graphham.graph.neighborhoods import Block
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import NodeInputs
from graphham.model.network import Batch, GraphHAMNet
from graphham.model.network_settings import NetworkSettings
from graphham.sampling.sampler import NeighborSampler
from graphham.training.batches import Batches
from graphham.training.make_network import network_settings
from graphham.training.objective import EncodedStep, loss_parts, total_loss
from graphham.training.supervision import Truth
from tests.reference import model as slow
from tests.reference.graphs import random_graph
from tests.reference.networks import fill_parameters

NODES, WIDE = 8, 5
DRAW = np.random.default_rng(0)


def make_model(seed=0, groups=(4, 2), dim=6, num_classes=0, dtype=None, **settings):
    settings = {"assignment": "mean", **settings}
    settings = NetworkSettings(groups=groups, dim=dim, **settings)
    return randomised(GraphHAMNet(settings, WIDE, num_classes), seed, dtype)


def randomised(model, seed=0, dtype=None):
    fill_parameters(model, seed)
    return model.to(dtype or torch.float64).eval()


def make_batch(
    seed=0, groups=(4, 2), weighted=False, sampled=False, dtype=torch.float64, given=True
):
    graph = random_graph(NODES, seed, weighted)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(NODES, WIDE))
    held = np.concatenate([rng.dirichlet(np.ones(k), NODES) for k in groups], axis=1)
    held = held if given else held[:, :0]
    rows = np.arange(NODES)
    blocks = [Block.full(graph)] * len(groups)
    if sampled:
        targets = np.array([5, 2, 0])
        blocks = NeighborSampler(graph).sample_blocks(targets, [2] * len(groups), 1)
        rows = blocks[0].source_rows
    return Batch(
        blocks,
        FeatureRows(dense=torch.from_numpy(x[rows]).to(dtype)),
        torch.from_numpy(held[rows]).to(dtype),
    )


def by_loops(model, batch):
    """The forward pass with pair scores and cosine affinities, written out."""
    x = batch.features.dense.numpy()
    count, first = batch.num_targets, 0
    states, assignments = [], []
    for level, block in enumerate(batch.blocks):
        layer = model.layer(level)
        if model.has_block_groups:
            groups = model.groups[level]
            z = batch.memberships[: block.num_sources, first : first + groups].numpy()
            first += groups
        else:
            vectors = layer.group_embedding.detach().numpy()
            u = slow.affinity(x, vectors, model.settings.affinity_scale)
            z = slow.assignment(u, 1.0, None)
        W = layer.weight.detach().numpy().reshape(layer.in_dim, layer.heads, layer.out_dim)
        h, *_ = slow.attention_layer(
            x,
            block,
            z,
            W.transpose(1, 0, 2),
            layer.attention.detach().numpy(),
            B=layer.pair_score.detach().numpy(),
            slope=layer.slope,
        )
        if level + 1 < len(batch.blocks):
            h = np.where(h > 0, h, np.expm1(np.minimum(h, 0)))
        states.append(h[:count])
        assignments.append(z[:count])
        x = h
    return states, assignments


@pytest.mark.parametrize("self_edge", [True, False])
@pytest.mark.parametrize("product", ["renormalised", "literal"])
@pytest.mark.parametrize("sampled", [False, True])
def test_likeness_counts_beside_the_groups_but_not_for_oneself(sampled, product, self_edge):
    model = make_model(membership_input="block", product=product, num_classes=3)
    tables = [np.random.default_rng(k).normal(size=(k, k)) for k in (4, 2)]
    batch = make_batch(sampled=sampled)
    x = torch.nn.functional.normalize(torch.randn(len(batch.memberships), 3).double(), dim=1)
    if not self_edge:
        blocks = [
            Block(b.indptr, b.indices, b.num_sources, False, None, b.source_rows)
            for b in batch.blocks
        ]
        batch = Batch(blocks, batch.features, batch.memberships)
    model.take_link_tables(tables, (1.5, 0.3))
    assert not any(model.layer(level).pair_score.requires_grad for level in (0, 1))
    grown = Batch(batch.blocks, batch.features, torch.cat([batch.memberships, x], dim=1))
    first, second = model.encode(grown)
    block = batch.blocks[0]
    z = batch.memberships
    found = model.layer(0).group_scores(first.assigned.z, block)[:, 0]
    for i in range(block.num_targets):
        for e in range(block.indptr[i], block.indptr[i + 1]):
            j = block.indices[e]
            is_self = self_edge and e == block.indptr[i]
            like = 0.3 if is_self else x[i] @ x[j]
            expected = z[i, :4] @ torch.from_numpy(tables[0]) @ z[j, :4] + 1.5 * like
            assert float(found[e]) == pytest.approx(float(expected), abs=1e-6)
    weights = model.layer(0).attention_weights(first.x, block, first.assigned.z).weight
    projected = model.layer(0)._project(first.x)
    expected = torch.zeros(block.num_targets, model.layer(0).out_dim, dtype=torch.float64)
    for i in range(block.num_targets):
        for e in range(block.indptr[i], block.indptr[i + 1]):
            expected[i] += (weights[e, :, None] * projected[block.indices[e]]).mean(0)
    torch.testing.assert_close(first.output, torch.nn.functional.elu(expected))
    # Only the first layer reads it, and nobody takes features for memberships.
    assert second.assigned.z.shape[1] == 2
    output = model(grown)
    assert [level.shape[1] for level in output.memberships] == [4, 2]
    told = grown.memberships[: batch.num_targets]
    logits = model.class_logits(output.states, told)
    torch.testing.assert_close(logits, model.class_logits(output.states, told[:, :6]))
    # Without a slope the columns say nothing.
    model.take_link_tables(tables, (0.0, 0.3))
    for one, other in zip(model(grown).states, model(batch).states, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("told", [None, False, True])
def test_scores_are_spread_along_links_that_are_no_chance(weighted, told):
    source = "state" if told is None else "block"
    model = make_model(membership_input=source, num_classes=3, class_steps=4)
    table = DRAW.normal(size=(4, 4))
    if told:
        model.take_link_tables([table, np.zeros((2, 2))], (1.5, 0.3))
    batch = make_batch(weighted=weighted, given=told is not None)
    block = batch.blocks[0]
    z, own = batch.memberships[:, : model.groups[0]].numpy(), np.eye(NODES, 3)
    shares = np.zeros((NODES, NODES))
    for i in range(NODES):
        part = slice(block.indptr[i], block.indptr[i + 1])
        near = block.indices[part]
        share = np.ones(len(near)) if block.weights is None else block.weights[part].copy()
        if told:
            share *= np.exp(z[near] @ (z[i] @ table))
        shares[i, near] = share / share.sum()
    expected = own
    for _ in range(4):
        expected = 0.9 * shares @ expected + 0.1 * own
    found = model.spread(torch.from_numpy(own), block, batch.memberships)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("groups", [(3,), (4, 2), (5, 3, 2)])
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("source", ["block", "state"])
def test_the_network_equals_the_loops(groups, weighted, sampled, source):
    for seed in range(3):
        model = make_model(seed, groups, dim=6 * len(groups), heads=2, membership_input=source)
        batch = make_batch(seed, groups, weighted, sampled, given=source == "block")
        states, assignments = by_loops(model, batch)
        with torch.no_grad():
            found = model(batch)
        parts = (found.states, found.assignments, found.memberships)
        for one, other in zip(parts, (states, assignments, assignments), strict=True):
            assert len(one) == len(groups)
            for a, b in zip(one, other, strict=True):
                np.testing.assert_allclose(a, b, atol=2e-5)
        units = [h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12) for h in states]
        if model.group_centers is not None:
            model.group_centers.copy_(torch.as_tensor(DRAW.normal(size=model.group_centers.shape)))
            last = units[-1] + assignments[0] @ model.group_centers.numpy()
            units[-1] = last / np.linalg.norm(last, axis=1, keepdims=True)
        made = model.embedding(found)
        np.testing.assert_allclose(made, np.concatenate(units, axis=1), atol=1e-5)


def test_uneven_layers_share_the_width():
    model = make_model(dim=7)
    with torch.no_grad():
        found = model(make_batch())
    assert [h.shape[1] for h in found.states] == [4, 3]
    assert model.embedding(found).shape == (NODES, 7)


def test_group_attention_is_what_the_groups_say_of_links():
    model = make_model()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    tables = [np.random.default_rng(k).normal(size=(k, k)).astype(np.float32) for k in (4, 2)]
    model.take_link_tables(tables)
    changed = {k for k, v in model.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {"layers.0.pair_score", "layers.1.pair_score", "link_table"}
    for level, table in enumerate(tables):
        np.testing.assert_allclose(model.layer(level).pair_score.detach(), table, rtol=1e-6)
    make_model(group_score="none").take_link_tables(tables)  # has none, and says nothing


@pytest.mark.parametrize("source", ["block", "state"])
def test_dropout_and_noise_follow_the_generator(source):
    model = make_model(dropout=0.5, assignment="log", membership_input=source)
    batch = make_batch(given=source == "block")

    def run(seed):
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        with torch.no_grad():
            return model(batch, 0.7, generator)

    assert torch.equal(run(0).states[1], run(0).states[1])
    assert not torch.equal(run(0).states[1], run(1).states[1])
    assert torch.equal(run(None).states[1], run(None).states[1])
    # The groups of a block model are not drawn.
    is_drawn = not torch.equal(run(0).assignments[0], run(1).assignments[0])
    assert is_drawn == (source == "state")


@pytest.mark.parametrize("activation", ["relu", "identity"])
@pytest.mark.parametrize("source", ["block", "state"])
def test_class_logits_read_all_layers_and_the_groups(activation, source):
    model = make_model(num_classes=3, class_activation=activation, membership_input=source)
    states = [torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))]
    states.append(states[0].flip(0))
    held = make_batch().memberships[:4]
    joined = torch.cat(states, 1)
    read = joined.clamp_min(0) if activation == "relu" else joined
    expected = read @ model.classifier.weight.T + model.classifier.bias
    if source == "block":
        torch.nn.init.normal_(model.class_odds, generator=torch.Generator().manual_seed(1))
        expected = expected + held @ model.class_odds
    torch.testing.assert_close(model.class_logits(states, held), expected)


STATE = {"model.membership_input": "state"}
SWITCHES = [
    {},
    {"model.heads": 3, "model.residual": True, "model.activation": "relu"},
    {"model.product": "literal", "model.activation": "identity"},
    {"model.group_score": "none", "loss.group_context": False},
    {"loss.teacher_weight": 0.7},
    STATE,
    {**STATE, "model.affinity": "dot"},
    {**STATE, "model.group_score": "additive"},
    {**STATE, "model.group_score": "additive", "model.separate_attention": True},
]


@pytest.mark.parametrize("settings", SWITCHES, ids=str)
@pytest.mark.parametrize("context", ["infonce", "skipgram"])
def test_gradients_of_the_whole_objective(settings, context):
    """Autograd against finite differences, from the loss to every parameter, in float64."""
    graph = random_graph(6, 2)
    config = make_config(
        {"groups": (3, 2), "dim": 4, "task": "classify", "train.batch": "full"},
        {
            # The constraints hold one level fixed on purpose; they are checked by themselves.
            "loss.must_link_weight": 0,
            "loss.cannot_link_weight": 0,
            "loss.context": context,
            "loss.walks": 2,
            "loss.context_weight": 1.0,
            "train.dropout": 0.0,
            "train.feature_dropout": 0.0,
            "train.edge_dropout": 0.0,
            "model.assignment": "mean",
            "model.class_steps": 0,
            "model.residual": False,
            **settings,
        },
    )
    config = resolve(config, GraphFacts(6, graph.num_stored, num_classes=2))
    model = randomised(GraphHAMNet(network_settings(config), WIDE, 2))
    rng = np.random.default_rng(0)
    held = [rng.dirichlet(np.ones(k), 6) for k in (3, 2)]
    if not model.has_block_groups:
        held = [level[:, :0] for level in held]
    inputs = NodeInputs(
        torch.from_numpy(rng.normal(size=(6, WIDE))),
        torch.from_numpy(np.concatenate(held, axis=1)),
    )
    (step,) = Batches(graph, inputs, config, inductive=True).epoch(0)
    truth = Truth.split(Labels((0, 1), codes=np.array([0, 1, -1, 1, 0, 1], "i4")), 0, 0.0)
    said = torch.from_numpy(rng.dirichlet(np.ones(2), 6))
    names = [name for name, _ in model.named_parameters()]

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = model

        def forward(self):
            output = self.net(step.batch)
            parts = loss_parts(EncodedStep(self.net, config.loss, step, output, truth, None, said))
            return total_loss(parts)

    whole = Whole()

    def run(*values):
        held = {f"net.{name}": value for name, value in zip(names, values, strict=True)}
        return torch.func.functional_call(whole, held, ())

    values = [p.detach().clone().requires_grad_() for p in model.parameters()]
    assert torch.autograd.gradcheck(run, values, fast_mode=True)


def test_compiled_and_plain_operations_train_alike(monkeypatch):
    """One step of the default network by numba's loops and by plain torch."""
    grads = []
    for how in ("", "reference"):
        monkeypatch.setenv("GRAPHHAM_OPS", how)
        model = make_model(dtype=torch.float32)
        output = model(make_batch(weighted=True, dtype=torch.float32))
        sum(h.square().sum() for h in output.states + output.memberships).backward()
        grads.append([p.grad for p in model.layers.parameters() if p.grad is not None])
    assert len(grads[0]) == len(grads[1]) > 0
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_the_first_layer_starts_from_the_main_directions():
    model = make_model(heads=2)
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(WIDE, 2)))[0]
    model.reset_parameters(torch.Generator().manual_seed(0), directions)
    shaped = model.layer(0).weight.detach().view(WIDE, 2, 3)
    for head in range(2):
        np.testing.assert_allclose(shaped[:, head, :2], 3 * directions)
    again = make_model(seed=9, heads=2)
    again.reset_parameters(torch.Generator().manual_seed(0), directions)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
