import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.results.describe import groups_table
from graphham.results.explain import Explanation, NodeAttention, explain_node
from graphham.results.result import FitResult
from tests.outputs import HOSTILE, make_graph, make_result


def attend(graph: Graph, row: int, levels: int, seed: int = 0) -> list[NodeAttention]:
    rng = np.random.default_rng([seed, row])
    rows = np.append(row, graph.neighbors(row))
    made = []
    for _ in range(levels):
        alpha, lam = rng.dirichlet(np.ones(len(rows)), 2)
        made.append(NodeAttention(rows, alpha, lam, alpha * lam))
    return made


def explain(result: FitResult, graph: Graph, row: int, **more) -> Explanation:
    attention = attend(graph, row, result.num_levels)
    return explain_node(result, graph, row, attention, groups_table(result, graph), **more)


@given(row=st.integers(0, 39), labels=st.sampled_from(["text", "multi", "none"]))
def test_every_number_can_be_found_in_the_result(row: int, labels: str) -> None:
    result = make_result(40, labels=labels, classify=labels == "text", ids=np.arange(40) * 10)
    graph = make_graph(result)
    attention = attend(graph, row, 2)
    found = explain(result, graph, row, count=100)
    assert found.id == row * 10
    assert found.degree == len(graph.neighbors(row))
    assert found.firmer_than == np.mean(result.concentration < result.concentration[row])
    if result.labels is not None:
        assert found.label == result.labels.values()[row]
    for level in found.levels:
        member = result.memberships[level.level - 1][row]
        codes = result.groups[level.level - 1]
        assert level.group == codes[row]
        assert level.membership == member[level.group]
        assert level.second_membership == max(np.delete(member, level.group))
        assert member[level.second_group] == level.second_membership
        assert level.second_group != level.group
        layer = attention[level.level - 1]
        assert sorted(n.id for n in level.neighbors) == sorted(layer.neighbor_rows * 10)
        weights = [n.weight for n in level.neighbors]
        assert weights == sorted(weights, reverse=True)
        assert sum(n.weight_share for n in level.neighbors) == pytest.approx(1)
        for n in level.neighbors:
            at = list(layer.neighbor_rows).index(n.id // 10)
            assert n.node_attention == layer.node_attention[at]
            assert n.group_attention == layer.group_attention[at]
            assert n.group == codes[n.id // 10]
        rest = layer.neighbor_rows != row
        others = layer.neighbor_rows[rest]
        expected = {int(o) * 10 for o in others if codes[o] == level.second_group}
        assert {n.id for n in level.pulled_by} == expected
        if len(others):
            pull = layer.weight[rest][codes[others] == level.second_group].sum()
            assert level.second_weight == pytest.approx(pull / layer.weight[rest].sum())
            named = sum(n.weight_share for n in level.pulled_by)
            assert named == pytest.approx(level.second_weight)
    own = f"use::topic{result.groups[0][row]}x"
    assert found.features == [] or found.features[0].feature == own
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()


def test_only_features_the_node_has_are_named() -> None:
    result = make_result(300, (3,))
    graph = make_graph(result)
    for row in range(20):
        having = {graph.feature_names[c] for c in graph.features[row].indices}
        found = explain(result, graph, row)
        assert {f.feature for f in found.features} <= having
        assert f"use::topic{result.groups[0][row]}x" in {f.feature for f in found.features}
    dense = replace(graph, features=graph.features.toarray())
    assert explain(result, dense, 5) == explain(result, graph, 5)


def test_a_continuous_feature_counts_only_above_the_mean() -> None:
    result = make_result(200, (2,), labels="none")
    high = result.groups[0] == 1
    x = np.random.default_rng(0).normal(50, 1, (200, 2)).astype(np.float32)
    x[high, 1] += 10
    weak = int(np.flatnonzero(high)[0])
    x[weak, 1] = 40
    graph = make_graph(result, features=x, feature_names=["noise", "price"])
    named = {row: [f.feature for f in explain(result, graph, row).features] for row in range(200)}
    for row in np.flatnonzero(high):
        assert ("price" in named[row]) == (row != weak)


def test_the_text_uses_names_and_ids_of_the_user() -> None:
    result = make_result(60, ids=[f"paper:{i}" for i in range(60)], classify=True)
    graph = make_graph(result, titles=[f"On topic {i}" for i in range(60)])
    found = explain(result, graph, 7)
    text = str(found)
    assert text.startswith("paper:7 (On topic 7)")
    for level in found.levels:
        assert f"level {level.level}: {level.name} ({level.membership:.0%})" in text
        assert f"next: {level.second_name}" in text
        for n in level.neighbors + level.pulled_by:
            assert str(n.id) in text
    assert f"predicted {found.prediction} ({found.confidence:.0%} sure)" in text


def test_a_neighbour_without_weight_is_no_reason() -> None:
    result = make_result(40)
    graph = make_graph(result)
    for row in range(result.num_nodes):
        found = explain(result, graph, row)
        level = next((one for one in found.levels if len(one.pulled_by) > 1), None)
        if level is not None:
            break
    assert level is not None
    first, *rest = level.pulled_by
    shares = [replace(first, weight_share=0.3), *(replace(n, weight_share=0.004) for n in rest)]
    line = f"pulled there by {first.id} (30%)\n"
    assert line in f"{replace(found, levels=[replace(level, pulled_by=shares)])}\n"
    nobody = replace(found, levels=[replace(level, pulled_by=shares[1:])])
    assert "pulled there" not in str(nobody)


def test_ids_that_begin_alike_can_be_told_apart() -> None:
    ids = [f"graphham.results.module_{i:02d}" for i in range(60)]
    result = make_result(60, ids=ids)
    found = explain(result, make_graph(result), 7)
    lines = str(found).split("\n")
    for level in found.levels:
        for n in level.neighbors:
            assert any(line.startswith(f"      {n.id} ") for line in lines)
    heads = [line.index("node att.") for line in lines if "node att." in line]
    assert heads == [len(ids[0]) + 7] * len(found.levels)


def test_hostile_text_stays_on_its_line() -> None:
    result = make_result(len(HOSTILE), ids=HOSTILE)
    graph = make_graph(result, titles=[h + "\x1b[31m" for h in HOSTILE])
    for row in range(len(HOSTILE)):
        found = explain(result, graph, row)
        assert found.id == HOSTILE[row]
        for line in str(found).split("\n"):
            assert line.isprintable()
            assert len(line) < 1000
        json.dumps(found.to_dict())


def test_lonely_nodes_single_groups_and_missing_attention() -> None:
    result = make_result(12, (1,), labels="none")
    graph = make_graph(result, features=None)
    found = explain_node(result, graph, 0, [], groups_table(result, graph))
    assert found.levels[0].second_group is None
    assert found.levels[0].neighbors == []
    assert "next:" not in str(found)
    alone = [NodeAttention(np.array([0]), *(np.ones(1) for _ in range(3)))]
    found = explain_node(result, graph, 0, alone, groups_table(result, graph))
    assert found.levels[0].own_weight is None
    assert "itself" in str(found)
    with pytest.raises(InputError, match="no row 12"):
        explain_node(result, graph, 12, [], groups_table(result, graph))
    with pytest.raises(InputError, match="2 layers"):
        explain_node(result, graph, 0, alone * 2, groups_table(result, graph))
