"""The page beside the package: the same groups, classes, attentions, logits and losses."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_mutual_info_score

from graphham.config.settings import make_config
from graphham.graph.neighborhoods import Block
from graphham.graph.planted import planted_hierarchy
from graphham.groups.block_model import GraphLinks, chance_share, fit_block_model, reason_table
from graphham.model.feature_rows import FeatureRows
from graphham.model.network import Batch, GraphHAMNet
from graphham.training.make_network import network_settings
from graphham.training.plan import plan_fit
from graphham.training.supervision import Truth
from graphham.training.teacher import class_table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import one_page  # noqa: E402

GROUPS, CLASSES = (6, 2), 6


@pytest.fixture(scope="module")
def planted():
    return planted_hierarchy((2, 3), 240, edge_shares=(0.6, 0.25, 0.15), word_on=0.2, seed=5)


@pytest.fixture(scope="module")
def made(planted):
    """Links, words, where words lie along their directions, and a fit of the page."""
    graph = planted.graph
    A = graph.adjacency().astype(np.float64).tocsr()
    words, basis = one_page.directions(graph.features.astype(np.float64), 16)
    x = one_page.unit(words @ basis)
    fine, parent = one_page.start(one_page.smoothed(words @ basis, A), GROUPS, 0)
    return A, words, x, fine, parent, one_page.fit_groups(x, A, fine, parent)


def test_the_start_is_a_tree_of_the_wanted_size(made):
    _, _, _, fine, parent, _ = made
    assert len(np.unique(fine)) == len(parent) == 6
    assert parent.tolist() == sorted(parent.tolist())
    assert set(parent.tolist()) == {0, 1}


def test_rounds_are_those_of_the_package(planted, made):
    _, _, x, fine, parent, groups = made
    theirs = fit_block_model(
        x.astype(np.float32), one_page.SCALE, GraphLinks(planted.graph), fine, [parent]
    )
    for ours, other in zip(groups.pi, theirs.levels(), strict=True):
        np.testing.assert_allclose(ours, other, atol=2e-3)
    for ours, other in zip(groups.tables, theirs.model.tables, strict=True):
        np.testing.assert_allclose(ours, other, atol=2e-3)
    degrees = planted.graph.degrees().astype(np.float32)
    chance = chance_share(theirs.model.tables[0], theirs.memberships, degrees, degrees)
    assert 0 < chance < 1
    for ours, other in zip(groups.reasons, theirs.model.tables, strict=True):
        np.testing.assert_allclose(ours, reason_table(other, chance), atol=2e-2)
    assert groups.bound == pytest.approx(theirs.bound, rel=1e-3)
    assert adjusted_mutual_info_score(groups.pi[0].argmax(1), planted.levels[0]) > 0.8


def test_the_class_table_is_that_of_the_teacher(planted, made):
    *_, groups = made
    rows, labels = np.arange(0, 240, 7), planted.levels[0]
    seen = torch.zeros(240, dtype=torch.bool)
    seen[rows] = True
    truth = Truth(torch.as_tensor(labels).long(), seen, torch.arange(0))
    theirs = class_table(groups.pi[0].astype(np.float32), [groups.parent], truth, CLASSES)
    ours = one_page.class_table(groups, rows, labels, CLASSES)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    right = (groups.pi[0] @ ours).argmax(1) == labels
    assert right.mean() > 0.8


@pytest.fixture(scope="module")
def both(planted, made):
    """Return the page's network and the package's with the same parameters."""
    _, words, _, _, _, groups = made
    torch.manual_seed(0)
    page = one_page.Network(words.shape[1], groups, CLASSES)
    given = {"task": "classify", "groups": GROUPS, "dim": 2 * one_page.DIM}
    given |= {"model.class_steps": one_page.SPREAD, "model.class_groups": False}
    config = plan_fit(planted.graph, make_config({"model.residual": False}, given)).config
    network = GraphHAMNet(network_settings(config), words.shape[1], CLASSES)
    with torch.no_grad():
        for level, layer in enumerate(page.layers):
            network.layer(level).weight.copy_(layer.W)
            network.layer(level).attention.copy_(layer.a[:, None])
            network.decoder(level).group_context.copy_(layer.R)
        network.classifier.load_state_dict(page.classifier.state_dict())
    network.take_link_tables([np.float32(table) for table in groups.reasons])
    return page, network.eval()


def test_the_network_is_that_of_the_package(planted, made, both):
    A, words, *_ = made
    page, network = both
    x, edges = torch.as_tensor(words.toarray(), dtype=torch.float32), one_page.edges_of(A)
    block = Block.full(planted.graph)
    pi = torch.cat(page.pi, 1)
    passes = network.encode(Batch([block] * 2, FeatureRows(dense=x), pi))
    states = page.states(x, edges)
    for level, one in enumerate(passes):
        torch.testing.assert_close(states[level], one.output, rtol=1e-4, atol=1e-5)
        below = x if level == 0 else states[0]
        found = network.layer(level).attention_weights(below, block, page.pi[level]).weight[:, 0]
        ours = page.layers[level].weights(below @ page.layers[level].W, page.pi[level], edges)
        sources, targets = block.to("cpu").sources.long(), block.to("cpu").targets.long()
        theirs = torch.zeros(240, 240).index_put((targets, sources), found)
        mine = torch.zeros(240, 240).index_put((edges[1], edges[0]), ours)
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    logits = network.class_logits([one.output for one in passes], pi)
    logits = network.spread(logits, block, pi)
    torch.testing.assert_close(page.logits(states, edges), logits, rtol=1e-3, atol=1e-4)


def test_the_context_loss_is_that_of_the_package(made, both):
    A, words, *_ = made
    page, network = both
    x = torch.as_tensor(words.toarray(), dtype=torch.float32)
    states = page.states(x, one_page.edges_of(A))
    left = torch.arange(0, 240, 3)
    met = [one_page.step(A, left), one_page.step(A, one_page.step(A, left))]
    theirs = sum(
        network.decoder(level).contrast(states[level], page.pi[level], left, met[level])
        for level in range(2)
    )
    torch.testing.assert_close(page.context_loss(states, left, met), theirs, rtol=1e-4, atol=1e-5)


def test_steps_go_to_neighbours(made):
    A, *_ = made
    here = torch.arange(240)
    here = here[torch.as_tensor(np.diff(A.indptr)) > 0]
    there = one_page.step(A, here)
    assert (A.toarray()[here.numpy(), there.numpy()] == 1).all()


def test_the_page_runs_as_a_script():
    command = [sys.executable, "examples/one_page.py", "--epochs", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    losses = [float(text) for text in re.findall(r"^epoch +\d+  loss ([\d.]+)", done.stdout, re.M)]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    agree = [float(text) for text in re.findall(r"AMI with the classes ([\d.]+)", done.stdout)]
    assert len(agree) == 2
    assert min(agree) > 0.4
    found = dict(re.findall(r"^accuracy of the (.+) ([\d.]+) on 2568 nodes", done.stdout, re.M))
    assert float(found["groups alone"]) > 0.65


def test_the_page_takes_nothing_but_the_dataset_from_the_package():
    source = (ROOT / "examples" / "one_page.py").read_text("utf-8")
    taken = [
        (getattr(node, "module", None), [alias.name for alias in node.names])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    ours = [(module, names) for module, names in taken if "graphham" in f"{module} {names}"]
    assert ours == [("graphham", ["load_dataset"])]
    assert len(source.splitlines()) <= 300
