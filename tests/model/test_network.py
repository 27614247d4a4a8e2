"""The whole network against loops, its parts switched on and off, its gradients."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from graphham.model.group_seeding import Seeds

from graphham.config.settings import make_config
from graphham.graph.graph import Labels
from graphham.graph.neighborhoods import Block
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import NodeInputs
from graphham.model.membership import combine_levels
from graphham.model.network import Batch, GraphHAMNet
from graphham.model.network_settings import NetworkSettings
from graphham.sampling.sampler import NeighborSampler
from graphham.training.batches import Batches
from graphham.training.make_network import network_settings
from graphham.training.objective import EncodedStep, loss_parts, total_loss
from graphham.training.supervision import Truth
from tests.reference import model as slow
from tests.reference.graphs import random_graph

NODES, WIDE, DIFFUSED = 8, 5, 3


def make_model(seed=0, groups=(4, 2), dim=6, num_classes=0, seeded=True, dtype=None, **settings):
    settings = {"assignment": "mean", **settings}
    settings = NetworkSettings(groups=groups, dim=dim, **settings)
    return randomised(GraphHAMNet(settings, WIDE, DIFFUSED, num_classes), seed, seeded, dtype)


def randomised(model, seed=0, seeded=True, dtype=None):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        for level in range(1, len(model.groups)):
            center = model.get_buffer(f"center_{level}")
            center.copy_(0.3 * torch.randn(center.shape, generator=generator))
    if seeded:
        model.graft(random_seeds(model, seed))
    return model.to(dtype or torch.float64).eval()


def random_seeds(model, seed):
    rng = np.random.default_rng(seed)
    counts = model.groups
    tables = [rng.normal(size=(k, k)).astype(np.float32) for k in counts]
    return Seeds(
        centers=[
            rng.normal(size=model.layer(level).group_embedding.shape).astype(np.float32)
            for level in range(len(counts))
        ],
        parents=[np.arange(low) % up for low, up in itertools.pairwise(counts)],
        tables=[t + t.T for t in tables],
        codes=[np.zeros(NODES, dtype=np.int64) for _ in counts],
    )


def make_batch(seed=0, layers=2, weighted=False, sampled=False, dtype=torch.float64):
    graph = random_graph(NODES, seed, weighted)
    rng = np.random.default_rng(seed)
    x, diffused = rng.normal(size=(NODES, WIDE)), rng.normal(size=(NODES, DIFFUSED))
    degrees = graph.degrees().astype(np.float64)
    rows = np.arange(NODES)
    targets = rows
    blocks = [Block.full(graph)] * layers
    if sampled:
        targets = np.array([5, 2, 0])
        blocks = NeighborSampler(graph).sample_blocks(targets, [2] * layers, 1)
        rows = blocks[0].source_rows
    return Batch(
        blocks,
        FeatureRows(dense=torch.from_numpy(x[rows]).to(dtype)),
        torch.from_numpy(diffused[rows]).to(dtype),
        torch.from_numpy(degrees[targets]).to(dtype),
    )


def by_loops(model, batch, rounds):
    """The forward pass of the default model, written out."""
    config = model.settings
    x = batch.features.dense.numpy()
    diffused = batch.diffused.numpy()
    count = batch.num_targets
    states, assignments, affinities = [], [], []
    for level, block in enumerate(batch.blocks):
        layer = model.layer(level)
        held = diffused[: block.num_sources]
        if level:
            center = model.get_buffer(f"center_{level}").numpy()
            own = np.stack([row / max(slow.norm(row), 1e-12) - center for row in x])
            own = np.stack([row / max(slow.norm(row), 1e-12) for row in own])
            held = np.concatenate([held, own], axis=1)
        u = slow.affinity(held, layer.group_embedding.detach().numpy(), config.affinity_scale)
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
        affinities.append(u)
        x = h
    block = batch.blocks[-1]
    evidence = []
    for level, u in enumerate(affinities):
        table = model.get_buffer(f"link_table_{level}").numpy()
        said = slow.assignment(u[: block.num_sources], 1.0, None)
        for _ in range(rounds):
            heard = slow.neighbor_evidence(said, table, block, batch.degrees.numpy())
            logits = u[:count] + heard
            said = slow.assignment(logits, 1.0, None)
        evidence.append(slow.assignment(logits / config.membership_temperature, 1.0, None))
    parents = [p.numpy() for p in model.parent_maps]
    return states, assignments, evidence, slow.combine_levels(evidence, parents)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("groups", [(3,), (4, 2), (5, 3, 2)])
@pytest.mark.parametrize(("sampled", "rounds"), [(False, 1), (False, 3), (True, 1)])
def test_the_network_equals_the_loops(groups, weighted, sampled, rounds):
    for seed in range(3):
        model = make_model(seed, groups, dim=6 * len(groups), heads=2)
        batch = make_batch(seed, len(groups), weighted, sampled)
        expected = by_loops(model, batch, rounds)
        with torch.no_grad():
            found = model(batch, rounds=rounds)
        parts = (found.states, found.assignments, found.evidence, found.memberships)
        for one, other in zip(parts, expected, strict=True):
            assert len(one) == len(groups)
            for a, b in zip(one, other, strict=True):
                np.testing.assert_allclose(a, b, atol=2e-5)
        units = [
            h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12) for h in expected[0]
        ]
        np.testing.assert_allclose(found.embedding(), np.concatenate(units, axis=1), atol=1e-5)


def test_before_the_graft_levels_speak_for_themselves():
    model = make_model(seeded=False)
    batch = make_batch()
    with torch.no_grad():
        found = model(batch)
        passes = model.encode(batch)
    assert not model.is_seeded
    for level in range(2):
        expected = passes[level].assigned.affinity.softmax(1)
        torch.testing.assert_close(found.evidence[level], expected)
        assert found.memberships[level] is found.evidence[level]


def test_the_graft_sets_groups_tree_and_tables_and_nothing_else():
    model = make_model(seeded=False)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    seeds = random_seeds(model, 3)
    model.graft(seeds)
    changed = {k for k, v in model.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {
        "seeded",
        "layers.0.group_embedding",
        "layers.1.group_embedding",
        "link_table_0",
        "link_table_1",
        "parent_0",
    }
    assert model.is_seeded
    np.testing.assert_array_equal(model.parent_maps[0], seeds.parents[0])


def test_dropout_and_noise_follow_the_generator():
    model = make_model(dropout=0.5, assignment="log")
    batch = make_batch()

    def run(seed):
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        with torch.no_grad():
            return model(batch, 0.7, generator).states[1]

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))
    assert torch.equal(run(None), run(None))


def test_the_running_centre_moves_while_training_only():
    model = make_model()
    batch = make_batch()
    before = model.get_buffer("center_1").clone()
    model(batch)
    model.train()
    with torch.no_grad():
        model(batch)
    assert torch.equal(model.get_buffer("center_1"), before)
    output = model(batch)
    unit = torch.nn.functional.normalize(model.encode(batch)[0].output.detach(), dim=1)
    assert not torch.equal(model.get_buffer("center_1"), before)
    output.states[1].sum().backward()  # the moved buffer must not break the backward pass
    model.get_buffer("center_1").copy_(before)
    model.encode(batch)
    torch.testing.assert_close(model.get_buffer("center_1"), before.lerp(unit.mean(0), 0.1))


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


@pytest.mark.parametrize("activation", ["relu", "identity"])
def test_class_logits_read_all_layers(activation):
    model = make_model(num_classes=3, class_activation=activation)
    states = [torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))]
    states.append(states[0].flip(0))
    joined = torch.cat(states, 1)
    read = joined.clamp_min(0) if activation == "relu" else joined
    expected = read @ model.classifier.weight.T + model.classifier.bias
    torch.testing.assert_close(model.class_logits(states), expected)


SWITCHES = [
    {},
    {"model.heads": 3, "model.residual": True, "model.activation": "relu"},
    {"model.product": "literal", "model.activation": "identity"},
    {"model.affinity": "dot"},
    {"model.group_score": "none", "loss.group_context": False},
    {
        "model.membership_input": "state",
        "model.nesting": "none",
        "model.group_score": "additive",
    },
    {
        "model.membership_input": "state",
        "model.nesting": "none",
        "model.group_score": "additive",
        "model.separate_attention": True,
    },
    {"model.neighbor_evidence": False},
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
            "model.assignment": "mean",
            "model.class_steps": 0,
            "model.residual": False,
            **settings,
        },
    )
    model = randomised(GraphHAMNet(network_settings(config), WIDE, DIFFUSED, 2))
    rng = np.random.default_rng(0)
    inputs = NodeInputs(
        torch.from_numpy(rng.normal(size=(6, WIDE))),
        torch.from_numpy(rng.normal(size=(6, DIFFUSED))),
    )
    (step,) = Batches(graph, inputs, config, inductive=True).epoch(0)
    step = replace(step, batch=replace(step.batch, degrees=step.batch.degrees.double()))
    truth = Truth.split(Labels((0, 1), codes=np.array([0, 1, -1, 1, 0, 1], "i4")), 0, 0.0)
    seeds = [torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([0, 1, 0, 0, 1, 0])]
    names = [name for name, _ in model.named_parameters()]

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = model

        def forward(self):
            output = self.net(step.batch)
            parts = loss_parts(EncodedStep(self.net, config.loss, step, output, truth, seeds, None))
            return total_loss(parts)

    whole = Whole()

    def run(*values):
        held = {f"net.{name}": value for name, value in zip(names, values, strict=True)}
        return torch.func.functional_call(whole, held, ())

    values = [p.detach().clone().requires_grad_() for p in model.parameters()]
    assert torch.autograd.gradcheck(run, values, fast_mode=True)


def test_nested_memberships_come_out_of_the_network():
    model = make_model(groups=(6, 3, 2), dim=9, dtype=torch.float32)
    with torch.no_grad():
        found = model(make_batch(layers=3, dtype=torch.float32), rounds=3)
    expected = combine_levels([e.log() for e in found.evidence], model.parent_maps)
    for level, parent in enumerate(model.parent_maps):
        torch.testing.assert_close(found.memberships[level], expected[level])
        summed = torch.zeros_like(found.memberships[level + 1])
        summed.index_add_(1, parent, found.memberships[level])
        torch.testing.assert_close(summed, found.memberships[level + 1])


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
