"""Walk with PecanPy, ensmallen or karateclub, learn with gensim; runs without graphham.

python -m benchmarks.walk_peers ENGINE FOLDER STEPS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Load the graph into an engine, then walk once for every line read."""
    engine, folder, steps = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    bounds, columns = np.load(folder / "indptr.npy"), np.load(folder / "indices.npy")
    engines = {
        "pecanpy": pecanpy,
        "ensmallen": ensmallen,
        "karateclub": karateclub,
        "gensim": gensim,
    }
    walk = engines[engine](bounds, columns, steps, folder)
    print(json.dumps({"bench": engine, "ready": True}), flush=True)
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        walk()
        taken = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        print(json.dumps({"bench": engine, **taken}), flush=True)


def pecanpy(bounds: Any, columns: Any, steps: int, folder: Path) -> Callable[[], object]:
    """Return first-order walks of PecanPy, one from each node."""
    from pecanpy.pecanpy import FirstOrderUnweighted

    graph = FirstOrderUnweighted(p=1, q=1, workers=1, verbose=False)
    np.savez(
        folder / "pecanpy.npz",
        IDs=np.arange(len(bounds) - 1).astype(str),
        data=np.ones(len(columns), dtype=np.float32),
        indptr=bounds.astype(np.uint32),
        indices=columns.astype(np.uint32),
    )
    graph.read_npz(str(folder / "pecanpy.npz"), weighted=False)
    graph.preprocess_transition_probs()
    return lambda: graph.simulate_walks(num_walks=1, walk_length=steps)


def ensmallen(bounds: Any, columns: Any, steps: int, folder: Path) -> Callable[[], object]:
    """Return ensmallen's complete walks, one from each node."""
    from ensmallen import Graph

    path = folder / "edges.tsv"
    rows = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    once = rows < columns
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, int(once.sum()), 1 << 20):
            part = slice(start, start + (1 << 20))
            pairs = zip(rows[once][part].tolist(), columns[once][part].tolist(), strict=True)
            file.write("".join(f"{a}\t{b}\n" for a, b in pairs))
    graph = Graph.from_csv(
        directed=False,
        edge_path=str(path),
        edge_list_separator="\t",
        edge_list_header=False,
        edge_list_numeric_node_ids=True,
        sources_column_number=0,
        destinations_column_number=1,
        numeric_node_ids=True,
        verbose=False,
    )
    # Walks of ensmallen count their first node; one longer gives as many steps.
    return lambda: graph.complete_walks(walk_length=steps + 1, iterations=1)


def karateclub(bounds: Any, columns: Any, steps: int, folder: Path) -> Callable[[], object]:
    """Return karateclub's walker, the first half of its DeepWalk."""
    import networkx as nx
    from karateclub.utils.walker import RandomWalker

    rows = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    graph = nx.Graph()
    graph.add_nodes_from(range(len(bounds) - 1))
    graph.add_edges_from(zip(rows.tolist(), columns.tolist(), strict=True))
    walker = RandomWalker(steps + 1, 1)
    return lambda: walker.do_walks(graph)


def gensim(bounds: Any, columns: Any, steps: int, folder: Path) -> Callable[[], object]:
    """Return gensim's skip-gram over walks that were made before, one from each node."""
    from gensim.models import Word2Vec

    rng = np.random.default_rng(0)
    at = np.arange(len(bounds) - 1)
    walks = [at]
    for _ in range(steps):
        degree = bounds[at + 1] - bounds[at]
        pick = bounds[at] + (rng.random(len(at)) * degree).astype(np.int64)
        at = np.where(degree > 0, columns[np.minimum(pick, len(columns) - 1)], at)
        walks.append(at)
    sentences = np.stack(walks, axis=1).astype(str).tolist()
    return lambda: Word2Vec(
        sentences,
        vector_size=128,
        window=5,
        negative=5,
        sg=1,
        hs=0,
        min_count=0,
        sample=0,
        workers=1,
        epochs=1,
    )


if __name__ == "__main__":
    main()
