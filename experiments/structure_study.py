"""Measure what is found without labels: how many groups, how many levels, or nothing.

    python -m experiments.structure_study [--quick] [--large]

Planted trees, flat, mixed and heterophilous graphs, random graphs with and without features made of
noise, and real graphs. One line per graph goes to ``results/structure.jsonl``, the table to
``results/structure.md``. ``--large`` adds a hundred thousand nodes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from experiments.planted_cases import planted_graph
from experiments.versions import study_version
from graphham.datasets import load_dataset
from graphham.evaluate.running import versions
from graphham.graph.graph import Graph, build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.groups.group_count import find_structure
from graphham.model.spectral import main_directions
from graphham.system.atomic import write_bytes
from graphham.system.peak_memory import peak_memory
from graphham.system.threads import single_threaded

FOLDER = Path(__file__).parent / "results"
REAL = ("cora", "citeseer", "amazon-photo")
_DIM, _STEPS = 64, 3
Draw = Callable[[int], tuple[Graph, list[Any]]]


def group_inputs(graph: Graph) -> tuple[sp.csr_matrix, Any, Any]:
    """Return links, main directions of the features, and those averaged over neighbours."""
    links = graph.adjacency().astype(np.float32)
    if graph.directed:
        links = links + links.T
    links = links.tocsr()
    if graph.features is None:
        return links, None, None
    if sp.issparse(graph.features):
        x = sp.csr_matrix(graph.features, dtype=np.float32, copy=True)
        seen = np.bincount(x.indices, minlength=x.shape[1])
        x.data *= (np.log((1 + x.shape[0]) / (1 + seen)) + 1).astype(np.float32)[x.indices]
        length = np.sqrt(np.asarray(x.multiply(x).sum(1)).ravel())
        x.data /= np.repeat(np.maximum(length, 1e-12), np.diff(x.indptr)).astype(np.float32)
    else:
        x = np.asarray(graph.features, dtype=np.float32)
        x = (x - x.mean(0)) / np.maximum(x.std(0), 1e-6)
    near = np.asarray(x @ main_directions(x, _DIM, 0), dtype=np.float32)
    own, degrees = _unit(near), np.asarray(links.sum(1), dtype=np.float32).ravel() + 1
    for _ in range(_STEPS):
        near = (links @ near + near) / degrees[:, None]
    near = _unit(near)
    return links, own, _unit(near - near.mean(0))


def _unit(x: Any) -> Any:
    return (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)).astype(np.float32)


def cases() -> dict[str, tuple[Draw, str]]:
    """Return how each case is drawn, and the groups that should be found."""

    def planted(branching: tuple[int, ...], shares: Any, words: bool, **given: Any) -> Draw:
        def draw(seed: int) -> tuple[Graph, list[Any]]:
            kind: Any = "words" if words else "none"
            made = planted_hierarchy(
                branching, 2000, edge_shares=shares, features=kind, seed=seed, **given
            )
            return made.graph, list(made.levels)

        return draw

    found: dict[str, tuple[Draw, str]] = {}
    for words in (True, False):
        end = "words" if words else "links only"
        for shares in ((0.7, 0.2, 0.1), (0.6, 0.25, 0.15)):
            name = "/".join(f"{100 * share:.0f}" for share in shares)
            found[f"tree {name}, {end}"] = planted((3, 4), shares, words), "12 > 3"
        found[f"flat 60/40, {end}"] = planted((12,), (0.6, 0.4), words), "12"
    for degree in (12, 30):
        draw = planted((3, 4), (0.7, 0.2, 0.1), True, mixed=0.3, mean_degree=degree)
        found[f"30% mixed, degree {degree}"] = draw, "12 > 3"
    found["heterophilous, features"] = (lambda seed: planted_graph("heterophilous", seed)), "12"
    for size in (500, 2000, 5000):
        for skewed in (False, True):
            for words in (False, True):
                name = f"{'configuration' if skewed else 'Erdos-Renyi'} {size:,}"
                found[f"{name}{', noise words' if words else ''}"] = (
                    _noise(size, skewed, words),
                    "none",
                )
    for shares in ((0.5, 0.33, 0.17), (0.4, 0.3, 0.3)):
        name = "/".join(f"{100 * share:.0f}" for share in shares)
        found[f"hard tree {name}, words"] = planted((3, 4), shares, True), "12 > 3 (hard)"
    found["tree 36 > 9 > 3"] = planted((3, 3, 4), (0.6, 0.2, 0.12, 0.08), False), "36 > 9 > 3"
    return found


def _noise(size: int, skewed: bool, words: bool) -> Draw:
    def draw(seed: int) -> tuple[Graph, list[Any]]:
        rng = np.random.default_rng([seed, size])
        share = rng.random(size) ** -0.5 if skewed else np.ones(size)
        ends = rng.choice(size, (2, 4 * size), p=share / share.sum())
        features = None
        if words:
            features = sp.random(size, 240, 0.05, "csr", np.float32, random_state=rng)
            features.data[:] = 1.0
        return build_graph(ends[0], ends[1], size, name="noise", features=features), []

    return draw


def measure(name: str, draw: Draw, expected: str, seed: int) -> dict[str, Any]:
    """Find the structure of one graph and compare it with the truth."""
    graph, truth = draw(seed)
    inputs = group_inputs(graph)
    before, began = peak_memory(), time.process_time()
    found = find_structure(*inputs, seed=seed)
    record: dict[str, Any] = {
        "case": name, "seed": seed, "expected": expected, "nodes": graph.num_nodes,
        "found": found.found, "groups": list(found.groups), "displayed": list(found.displayed),
        "gain": round(found.gain, 1), "rewired_gain": round(found.rewired_gain, 1),
        "agreement": round(found.agreement, 3),
        "cpu_seconds": round(time.process_time() - began, 2),
        "extra_gib": round((peak_memory() - before) / 2**30, 3),
    }  # fmt: skip
    pairs = list(zip(found.assignments, truth, strict=False))
    shown = [found.level(count) for count in found.displayed]
    if len(truth) == 1 and found.found:
        pairs = [(codes, truth[0]) for codes in found.assignments]
        record["displayed_ami"] = [
            round(float(adjusted_mutual_info_score(truth[0], codes)), 3) for codes in shown
        ]
    for score in (adjusted_mutual_info_score, normalized_mutual_info_score):
        label = "ami" if score is adjusted_mutual_info_score else "nmi"
        record[label] = [round(float(score(true, codes)), 3) for codes, true in pairs]
    return record


def runs(quick: bool, large: bool) -> Iterator[dict[str, Any]]:
    """Yield one record per graph."""
    for name, (draw, expected) in cases().items():
        for seed in range(1 if quick else 3):
            yield measure(name, draw, expected, seed)

    def real(graph: Graph) -> tuple[Graph, list[Any]]:
        assert graph.labels is not None
        return graph, [graph.labels.codes]

    for name in REAL:
        graph = load_dataset(name)
        yield measure(name, lambda _, graph=graph: real(graph), "something", 0)  # type: ignore[misc]
    if large:
        made = planted_hierarchy(
            (8, 6), 100_000, mean_degree=10, edge_shares=(0.5, 0.33, 0.17), seed=0
        )
        yield measure(
            "100,000 nodes 50/33/17", lambda _: (made.graph, list(made.levels)), "48 > 8", 0
        )


def table(records: list[dict[str, Any]]) -> str:
    """Return the records as Markdown, the graphs of a case in one row."""
    lines = [
        "| case | expected | found (groups: graphs) | AMI, mean | agreement | CPU-s, mean |",
        "|---|---|---|---|---|---|",
    ]
    for case in dict.fromkeys(record["case"] for record in records):
        rows = [record for record in records if record["case"] == case]
        names = [" > ".join(map(str, r["groups"])) if r["found"] else "none" for r in rows]
        counts = ", ".join(f"{n}: {names.count(n)}" for n in dict.fromkeys(names))
        depth = min(len(r["ami"]) for r in rows)
        scores = " / ".join(f"{np.mean([r['ami'][i] for r in rows]):.3f}" for i in range(depth))
        agreement = np.mean([r["agreement"] for r in rows])
        seconds = np.mean([r["cpu_seconds"] for r in rows])
        lines.append(
            f"| {case} | {rows[0]['expected']} | {counts} | {scores} | {agreement:.2f} "
            f"| {seconds:.1f} |"
        )
    return "\n".join(lines) + "\n"


@single_threaded()
def main() -> None:
    """Run all cases and write records and table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one graph per case")
    parser.add_argument("--large", action="store_true", help="also a hundred thousand nodes")
    parser.add_argument("--out", default=str(FOLDER))
    given = parser.parse_args()
    records: list[dict[str, Any]] = []
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    stamp = {"versions": versions(study_version(runs))}
    for record in runs(given.quick, given.large):
        records.append({**record, **stamp})
        print(json.dumps(record), flush=True)
        lines = "".join(json.dumps(line) + "\n" for line in records)
        write_bytes(out / "structure.jsonl", lines.encode())
        write_bytes(out / "structure.md", table(records).encode())


if __name__ == "__main__":
    main()
