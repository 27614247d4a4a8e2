"""Two runs, matched group by group."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.results.compare import compare_runs
from graphham.results.result import FitResult
from graphham.results.run_writer import Run, start_run
from tests.outputs import make_graph, make_result


def write_both(place: Path, first: FitResult, second: FitResult) -> list[Run]:
    runs = []
    for name, result in (("a", first), ("b", second)):
        with start_run(place / name, {"seed": 0}) as writer:
            runs.append(writer.finish(result, {}, make_graph(result), {}))
    return runs


def runs_with_moves(place: Path) -> tuple[list[Run], list[int]]:
    """Two runs that differ in three nodes, which left group 2 for group 4; and their rows."""
    result = make_result(80, (6, 3), labels="none", tree=False)
    moved = np.flatnonzero(result.groups[0] == 2)[:3]
    codes = result.groups[0].copy()
    codes[moved] = 4
    other = dataclasses.replace(result, groups=[codes, result.groups[1]])
    return write_both(place, result, other), moved.tolist()


def test_a_run_compared_with_a_shuffled_copy_has_not_moved(tmp_path: Path) -> None:
    result = make_result(80, (6, 3), labels="none")
    order = np.random.default_rng(0).permutation(80)
    swap = np.array([3, 5, 0, 1, 4, 2], dtype=np.int32)
    back = np.argsort(swap)
    other = dataclasses.replace(
        result,
        ids=result.ids.take(order),
        embedding=result.embedding[order],
        memberships=[result.memberships[0][order][:, back], result.memberships[1][order]],
        groups=[swap[result.groups[0][order]], result.groups[1][order]],
        parents=[result.parents[0][back]],
        concentration=result.concentration[order],
        attention_gap=None,
    )
    comparison = compare_runs(*write_both(tmp_path, result, other), level=1)
    assert comparison.ari == pytest.approx(1)
    assert not comparison.moved.any()
    assert comparison.partner.tolist() == swap.tolist()
    assert comparison.moved_table().num_rows == 0


def test_moved_nodes_are_found_and_counted(tmp_path: Path) -> None:
    runs, moved = runs_with_moves(tmp_path)
    comparison = compare_runs(*runs, level=1)
    assert comparison.rows_a[comparison.moved].tolist() == moved
    assert "3 nodes (4%) moved" in comparison.lines()[-1]
    groups = comparison.groups_table().to_pylist()
    assert groups[2]["shared"] == groups[2]["size_a"] - 3
    with pytest.raises(InputError, match=r"levels 1 to 2, not 3"):
        compare_runs(*runs, level=3)


def test_runs_without_common_nodes_cannot_be_compared(tmp_path: Path) -> None:
    other = make_result(80, ids=[f"x{i}" for i in range(80)])
    with pytest.raises(InputError, match="no node id in common"):
        compare_runs(*write_both(tmp_path, make_result(80), other))
