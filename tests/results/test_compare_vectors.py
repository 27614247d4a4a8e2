"""Two runs without groups are compared by who is near whom."""

from pathlib import Path

import numpy as np

import graphham as gh
from graphham.methods import DeepWalk
from graphham.results.compare_vectors import compare_vectors


def test_a_turned_space_is_the_same_and_shuffled_vectors_are_chance(tmp_path: Path) -> None:
    graph = gh.planted_hierarchy((4, 2), num_nodes=150, seed=0).graph
    run = DeepWalk(seed=0, dim=16, walks=3).fit(graph).save(tmp_path / "run")
    turned, shuffled = (gh.open_run(run.path) for _ in range(2))
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(16, 16)))[0]
    turned.__dict__["embedding"] = (run.embedding @ turn).astype(np.float32)
    shuffled.__dict__["embedding"] = np.asarray(run.embedding)[rng.permutation(150)]
    assert compare_vectors(run, turned).kept.mean() > 0.97
    by_chance = compare_vectors(run, shuffled)
    assert abs(by_chance.kept.mean() - 10 / 149) < 0.05
    assert "7% by chance" in by_chance.lines()[-1]
    table = by_chance.moved_table()
    kept = table["neighbors_kept"].to_numpy()
    assert (np.diff(kept) >= 0).all()
    assert set(table["id"].to_pylist()) == set(graph.ids.tolist())
