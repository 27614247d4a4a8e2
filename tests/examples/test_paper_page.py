"""The page beside the package: the same numbers and gradients, and a page that trains."""

import ast
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.config.settings import make_config
from graphham.graph.graph import Labels, build_graph
from graphham.graph.neighborhoods import Block
from graphham.kernels.skipgram_loss import left_for_table
from graphham.model.context import ContextTable
from graphham.model.feature_rows import FeatureRows
from graphham.model.membership import gumbel_noise
from graphham.model.network import Batch, GraphHAMNet
from graphham.training.batches import Step
from graphham.training.make_network import network_settings
from graphham.training.objective import EncodedStep, Truth, loss_parts, total_loss
from graphham.training.optimizer import MAX_GRADIENT_NORM
from graphham.training.plan import plan_fit
from tests.reference.graphs import planted, random_graph

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import paper_page  # noqa: E402

GROUPS, DIM, CLASSES = (5, 3), 4, 3
# The compiled kernels of the package work in single precision, its plain versions in any.
TOLERANCE = {torch.float64: (1e-9, 1e-12), torch.float32: (1e-4, 1e-5)}


def links_of(graph):
    bounds = torch.tensor(graph.indptr)
    return paper_page.Links(bounds[:-1], bounds.diff(), torch.tensor(graph.indices).long())


def make_page(graph, num_features, dtype):
    page = paper_page.GraphHAM(graph.num_nodes, num_features, CLASSES, GROUPS, DIM).to(dtype)
    with torch.no_grad():
        for parameter in page.parameters():  # larger than at a start, so that nothing is near zero
            parameter.copy_(torch.randn(parameter.shape, dtype=dtype))
    return page


def make_network(page, graph, num_features, dropout):
    """Return the package's network of the preset, with the parameters of the page."""
    given = {"preset": "paper", "task": "classify", "groups": GROUPS, "dim": DIM * len(GROUPS)}
    heads = {"model.heads": paper_page.HEADS, "train.dropout": dropout}
    config = plan_fit(graph, make_config(given, heads)).config
    assert config.loss.context_table == "full"
    tables = [ContextTable(Q.detach().clone()) for Q in page.Q]
    network = GraphHAMNet(network_settings(config), num_features, CLASSES, tables, full_table=True)
    network = network.to(page.Q[0].dtype)
    for level, layer in enumerate(page.layers):
        with torch.no_grad():
            network.layer(level).weight.copy_(layer.W.flatten(1))
            network.layer(level).attention.copy_(torch.stack([layer.a_left, layer.a_right]))
            network.layer(level).group_embedding.copy_(layer.Phi)
            network.layer(level).log_scale.copy_(layer.log_scale)
    network.classifier.load_state_dict(page.classifier.state_dict())
    return network, config, tables


class Stream:
    """Noise and dropout of the page, drawn when asked for and from one generator as in a fit."""

    def __init__(self, num_nodes, dtype):
        self.generator = torch.Generator().manual_seed(3)
        self.num_nodes, self.like = num_nodes, torch.zeros((), dtype=dtype)

    def __getitem__(self, level):
        return gumbel_noise((self.num_nodes, GROUPS[level]), self.generator, self.like)

    def dropout(self, x, rate):
        if not rate:
            return x
        keep = torch.rand(x.shape, generator=self.generator, dtype=x.dtype) >= rate
        return x * keep / (1 - rate)


def table_gradient(table):
    total = torch.zeros_like(table.weight)
    for held in table._looked_up:
        pairs = left_for_table(held)
        real = pairs.rows >= 0
        each = pairs.slopes[real, None] * pairs.targets[pairs.anchors[real]]
        total.index_add_(0, pairs.rows[real].long(), each.to(total))
    return total


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    ("heads", "noisy", "dropout"), [(1, False, 0.0), (1, True, 0.0), (3, True, 0.2)]
)
def test_the_page_is_the_preset_paper(monkeypatch, heads, noisy, dropout, dtype):
    """States, memberships, attentions, parts of the loss and all gradients are the package's."""
    monkeypatch.setattr(paper_page, "HEADS", heads)
    rtol, atol = TOLERANCE[dtype]

    def check(ours, theirs, name):
        torch.testing.assert_close(
            ours, theirs, rtol=rtol, atol=atol, msg=lambda text: f"{name}: {text}"
        )

    graph = random_graph(40, 5)
    assert (graph.degrees() == 0).any()  # isolated nodes have only themselves
    rng = np.random.default_rng(0)
    graph = replace(
        graph,
        features=rng.standard_normal((40, 6)).astype(np.float32),
        labels=Labels(tuple("abc"), codes=rng.integers(CLASSES, size=40).astype(np.int32)),
    )
    x = F.normalize(torch.tensor(graph.features), dim=1).to(dtype)
    page = make_page(graph, x.shape[1], dtype)
    network, config, tables = make_network(page, graph, x.shape[1], dropout)
    block = Block.full(graph)
    edges = torch.stack([block.to("cpu").sources, block.to("cpu").targets])
    contexts = paper_page.draw_contexts(links_of(graph), walks=3, levels=2)
    labels = torch.tensor(graph.labels.codes).long()
    rows = torch.arange(0, 40, 2)

    stream = Stream(40, dtype) if noisy else None
    if noisy:
        monkeypatch.setattr(paper_page.F, "dropout", stream.dropout)
    outputs = page(x, edges, 0.7, stream, dropout)
    parts = paper_page.unsupervised_loss(page, outputs, contexts)
    logits = page.class_logits(outputs, rows, dropout)
    parts["class"] = paper_page.class_loss(logits, labels[rows])
    torch.stack(list(parts.values())).sum().backward()

    batch = Batch([block] * 2, FeatureRows(dense=x), x[:, :0])
    generator = torch.Generator().manual_seed(3) if noisy else None
    result = network.train()(batch, 0.7, generator)
    everyone = torch.arange(40)
    positives, negatives = (list(nodes) for nodes in zip(*contexts, strict=True))
    step = Step(batch, everyone.numpy(), everyone, everyone, positives, negatives, 0)
    truth = Truth(labels, torch.isin(everyone, rows), rows[:0])
    theirs = loss_parts(EncodedStep(network, config.loss, step, result, truth, generator))
    total_loss(theirs).backward()

    below = x
    for level, out in enumerate(outputs):
        check(out.h, result.states[level], f"states {level}")
        check(out.pi, result.memberships[level], f"memberships {level}")
        check(out.z, result.assignments[level], f"assignments {level}")
        if not (level and dropout):
            weights = network.layer(level).attention_weights(below, block, out.z)
            check(out.alpha, weights.node, f"node attention {level}")
            check(out.lam, weights.group, f"group attention {level}")
            check(out.weight, weights.weight, f"weights {level}")
        below = out.h
    check(parts["context"], theirs["context"], "context")
    check(parts["nesting"], theirs["nesting_loss"], "nesting")
    check(parts["class"], theirs["class"], "class")
    assert len(parts) == len(theirs)
    for level, layer in enumerate(page.layers):
        other = network.layer(level)
        check(layer.W.grad.flatten(1), other.weight.grad, f"gradient of W {level}")
        both = torch.stack([layer.a_left.grad, layer.a_right.grad])
        check(both, other.attention.grad, f"gradient of a {level}")
        check(layer.Phi.grad, other.group_embedding.grad, f"gradient of Phi {level}")
        check(layer.log_scale.grad, other.log_scale.grad, f"gradient of the scale {level}")
        check(page.Q[level].grad, table_gradient(tables[level]), f"gradient of Q {level}")
    check(page.classifier.weight.grad, network.classifier.weight.grad, "gradient of W_c")


def test_the_settings_are_those_of_the_preset():
    config = plan_fit(planted(2708).graph, make_config({"preset": "paper"})).config
    assert config.groups == paper_page.GROUPS
    assert set(config.layer_dims) == {paper_page.DIM}
    model, loss, train = config.model, config.loss, config.train
    slope = GraphHAMNet(network_settings(config), 60, 0).layer(0).slope
    assert (model.heads, slope) == (paper_page.HEADS, paper_page.SLOPE)
    assert (model.tau, model.tau_end) == (paper_page.TAU_START, paper_page.TAU_END)
    ours = (paper_page.GAMMA, paper_page.BETA, paper_page.ETA)
    assert ours == (loss.must_link_weight, loss.cannot_link_weight, loss.class_weight)
    ours = (
        paper_page.LR,
        paper_page.TABLE_LR,
        paper_page.DECAY,
        paper_page.DROPOUT,
        paper_page.CLIP,
    )
    assert ours == (train.lr, train.table_lr, train.weight_decay, train.dropout, MAX_GRADIENT_NORM)


@settings(max_examples=40)
@given(st.integers(2, 30), st.integers(0, 10**6))
def test_contexts_are_walks_and_strangers(num_nodes, seed):
    """Positives of layer l are l steps away at most; negatives are never linked to the target."""
    drawn = random_graph(num_nodes, seed).edge_list()
    # The first node is linked to all others but the last, which may be left alone.
    hub = np.arange(1, max(num_nodes - 1, 2))
    source = np.concatenate([drawn[:, 0], np.zeros_like(hub)])
    graph = build_graph(source, np.concatenate([drawn[:, 1], hub]), num_nodes)
    links = links_of(graph)
    near = [set(graph.neighbors(i).tolist()) for i in range(num_nodes)]
    far = [set().union(*(near[j] for j in near[i])) for i in range(num_nodes)]

    found = {(int(j), int(i)) for j, i in links.edges().T}
    block = Block.full(graph).to("cpu")
    expected = set(zip(block.sources.tolist(), block.targets.tolist(), strict=True))
    assert found == expected
    assert links.edges().shape[1] == len(expected)

    for level, (positives, negatives) in enumerate(paper_page.draw_contexts(links, 4, 2)):
        assert positives.shape == negatives.shape == (num_nodes, 4 * (level + 1))
        for i in range(num_nodes):
            met = set(positives[i].tolist()) - {-1}
            assert i not in met
            assert met <= (near[i] | far[i] if level else near[i])
            assert bool(met) or not near[i]
            others = set(negatives[i].tolist()) - {-1}
            assert not others & (near[i] | {i})
            if 2 * (len(near[i]) + 1) <= num_nodes:  # 20 draws in a row hardly ever all miss
                assert ((negatives[i] < 0) == (positives[i] < 0)).all()


def test_training_learns_the_planted_classes():
    graph = planted(300).graph
    x = F.normalize(torch.tensor(graph.features.toarray()), dim=1)
    labels = torch.tensor(graph.labels.codes).long()
    page = paper_page.GraphHAM(300, x.shape[1], 6, (6, 2), 16)
    seen, links = torch.arange(0, 300, 3), links_of(graph)
    losses = paper_page.train(page, x, links, labels, seen, epochs=60, walks=5)
    assert np.mean(losses[-5:]) < 0.7 * losses[0]
    with torch.no_grad():
        logits = page.class_logits(page(x, links.edges(), 1.0, None, 0.0), torch.arange(300), 0.0)
    right = logits.argmax(1) == labels
    right[seen] = False
    assert right.sum() > 0.8 * 200


def test_the_page_runs_as_a_script():
    command = [
        sys.executable,
        "examples/paper_page.py",
        "--epochs",
        "4",
        "--walks",
        "2",
        "--labels",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    losses = [float(text) for text in re.findall(r"^epoch +\d+  loss ([\d.]+)", done.stdout, re.M)]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    groups = re.findall(r"^level \d  (\d+) of (\d+) groups in use, NMI ([\d.]+)", done.stdout, re.M)
    assert [int(count) for _, count, _ in groups] == list(paper_page.GROUPS)
    assert all(0 < int(used) <= int(count) for used, count, _ in groups)
    (accuracy,) = re.findall(r"^accuracy ([\d.]+) on 1000 test nodes", done.stdout, re.M)
    assert float(accuracy) > 1 / 7


def test_the_page_takes_nothing_but_the_dataset_from_the_package():
    source = (ROOT / "examples" / "paper_page.py").read_text("utf-8")
    taken = [
        (getattr(node, "module", None), [alias.name for alias in node.names])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    ours = [(module, names) for module, names in taken if "graphham" in f"{module} {names}"]
    assert ours == [("graphham", ["load_dataset"])]
    assert len(source.splitlines()) <= 300
