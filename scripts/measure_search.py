"""Measure the search for near nodes among a million: how fast, and how many of the nearest.

    python scripts/measure_search.py

Vectors are those of ``scripts/million_run.py``: forty groups in ten, with noise. The exact answer
reads all vectors for every question; the index looks into cells.
"""

import argparse
import json
import time

import numpy as np

from graphham.graph.ids import NodeIds
from graphham.readout.neighbors import nearest_to
from graphham.results.neighbor_index import NeighborIndex
from graphham.results.result import FitResult

FINE, COARSE = 40, 10


def main() -> None:
    """Draw vectors, ask both ways, print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--questions", type=int, default=100)
    asked = parser.parse_args()
    rng, num = np.random.default_rng(0), asked.nodes
    parents = np.arange(FINE) % COARSE
    centers = (2 * rng.normal(size=(COARSE, asked.dim)))[parents]
    centers += rng.normal(size=(FINE, asked.dim))
    fine = rng.integers(FINE, size=num)
    vectors = centers[fine].astype(np.float32)
    for start in range(0, num, 1 << 16):
        part = vectors[start : start + (1 << 16)]
        part += 1.5 * rng.standard_normal(part.shape, dtype=np.float32)
    result = FitResult(NodeIds.range(num), vectors, (asked.dim,), [], [])
    began = time.process_time()
    index = NeighborIndex(result)
    built = time.process_time() - began
    rows = rng.choice(num, asked.questions, replace=False)
    began = time.process_time()
    exact = [set(nearest_to(vectors, int(row), 10)[0].tolist()) for row in rows]
    alone = time.process_time() - began
    began = time.process_time()
    single = [index.query([int(row)]) for row in rows]
    quick = time.process_time() - began
    began = time.process_time()
    index.query(np.arange(10_000).tolist())
    many = (time.process_time() - began) / 10_000
    hits = [
        len(e & set(map(int, t["neighbor"].to_pylist())))
        for e, t in zip(exact, single, strict=True)
    ]
    print(
        json.dumps(
            {
                "nodes": num,
                "dim": asked.dim,
                "questions": asked.questions,
                "recall_at_10": float(np.mean(hits)) / 10,
                "build_cpu_seconds": round(built, 1),
                "exact_cpu_ms": round(1000 * alone / len(rows), 2),
                "index_cpu_ms": round(1000 * quick / len(rows), 2),
                "index_cpu_ms_of_many": round(1000 * many, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
