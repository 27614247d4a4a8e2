"""A result survives the table of nodes, with whatever ids and labels it has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Labels
from graphham.results.result import FitResult
from graphham.results.result_table import nodes_table, result_from_table
from tests.outputs import HOSTILE, make_result


def same_labels(a: FitResult, b: FitResult) -> bool:
    def seen(labels: Labels | None) -> object:
        return None if labels is None else (labels.classes, labels.values())

    return seen(a.labels) == seen(b.labels) and seen(a.prediction) == seen(b.prediction)


@given(
    count=st.integers(1, 40),
    labels=st.sampled_from(["text", "integer", "multi", "none"]),
    classify=st.booleans(),
    tree=st.booleans(),
)
def test_the_node_table_holds_the_whole_result(
    count: int, labels: str, classify: bool, tree: bool
) -> None:
    ids = np.random.default_rng(count).permutation(count) * 7 - 3
    result = make_result(count, (4, 2), ids=ids, labels=labels, classify=classify, tree=tree)
    table = nodes_table(result)
    back = result_from_table(table, result.embedding, result.layer_dims, result.hierarchy)
    assert back.validate().ids == result.ids
    for name in ("memberships", "groups", "parents", "attention_gap"):
        for mine, theirs in zip(getattr(result, name), getattr(back, name), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(back.concentration, result.concentration)
    assert same_labels(result, back)


def test_labels_keep_the_users_values_in_the_table() -> None:
    result = make_result(25, labels="integer", classify=True)
    assert result.labels is not None
    assert result.prediction is not None
    table = nodes_table(result)
    assert table.column("label").to_pylist() == result.labels.values()
    assert table.column("prediction").to_pylist() == result.prediction.values()
    multi = make_result(25, labels="multi")
    assert multi.labels is not None
    assert None in multi.labels.values()
    assert nodes_table(multi).column("label").to_pylist() == multi.labels.values()


def test_hostile_ids_survive_the_table() -> None:
    result = make_result(len(HOSTILE), ids=HOSTILE)
    assert nodes_table(result).column("id").to_pylist() == HOSTILE


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_groups_need_no_memberships_and_vectors_need_no_groups(levels: int) -> None:
    whole = make_result(20, (5, 2), classify=True)
    hard = FitResult(
        whole.ids,
        whole.embedding,
        whole.layer_dims,
        groups=whole.groups[:levels],
        labels=whole.labels,
        prediction=whole.prediction,
    ).validate()
    tree = hard.hierarchy if levels else None
    table = nodes_table(hard)
    assert not [n for n in table.column_names if n.startswith(("membership", "concentration"))]
    back = result_from_table(table, hard.embedding, hard.layer_dims, tree).validate()
    assert back.num_levels == levels
    assert (back.memberships, back.parents) == ([], [])
    for mine, theirs in zip(hard.groups, back.groups, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert same_labels(hard, back)
    assert back.metrics == hard.metrics
    assert ("nmi_1" in hard.metrics) == bool(levels)
    if not levels:
        with pytest.raises(InputError, match="no groups"):
            _ = hard.hierarchy
