"""Write a run of a million nodes without training, to try the explorer and the report on it.

    python scripts/million_run.py runs/million
    graphham explore runs/million

Vectors, memberships and links follow a planted tree of 40 fine groups in 10 coarse ones.
"""

import argparse

import numpy as np

from graphham.graph.graph import Labels, build_graph
from graphham.graph.ids import NodeIds
from graphham.results.projection import run_map
from graphham.results.result import FitResult
from graphham.results.run_writer import start_run

FINE, COARSE, DIM = 40, 10, 32


def main() -> None:
    """Draw the nodes, write the run, and make its map (about a minute)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="the run folder to make")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    asked = parser.parse_args()
    rng, num = np.random.default_rng(0), asked.nodes
    parents = (np.arange(FINE) % COARSE).astype(np.int32)
    fine = rng.choice(FINE, num, p=rng.dirichlet(np.full(FINE, 3.0))).astype(np.int32)
    coarse = parents[fine]
    centers = (2 * rng.normal(size=(COARSE, DIM)))[parents] + rng.normal(size=(FINE, DIM))
    vectors = (centers[fine] + 1.5 * rng.normal(size=(num, DIM))).astype(np.float32)
    labels = Labels(tuple(f"class {i}" for i in range(8)), codes=(coarse % 8).astype(np.int32))
    result = FitResult(
        ids=NodeIds.range(num),
        embedding=vectors,
        layer_dims=(DIM // 2, DIM // 2),
        memberships=[_memberships(rng, fine, FINE), _memberships(rng, coarse, COARSE)],
        groups=[fine, coarse],
        parents=[parents],
        labels=labels,
        attention_gap=[rng.exponential(0.02, num).astype(np.float32) for _ in range(2)],
    )
    order = np.argsort(fine, kind="stable")
    place = np.empty(num, dtype=np.int64)
    place[order] = np.arange(num)
    source = rng.integers(0, num, 3 * num)
    target = order[(place[source] + rng.integers(1, 500, 3 * num)) % num]
    graph = build_graph(source, target, num, labels=labels, name=f"planted {num:,}")
    settings = {"seed": 0, "task": "embed", "preset": "default"}
    with start_run(asked.out, settings) as writer:
        writer.log({"epoch": 1, "loss": 1.0})
        run = writer.finish(result, {"none": np.ones(1, dtype=np.float32)}, graph, {})
    print(f"{run.path}: {run_map(run).note}")


def _memberships(rng: np.random.Generator, codes: np.ndarray, count: int) -> np.ndarray:
    table = rng.random((len(codes), count)).astype(np.float32) * 0.02
    table[np.arange(len(codes)), codes] += rng.beta(5, 1, len(codes)).astype(np.float32)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


if __name__ == "__main__":
    main()
