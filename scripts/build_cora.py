"""Build the Cora that ships with graphham from the Apache-licensed graphdatascience wheel.

The wheel has the papers' own ids and subjects; the public train/validation/test split is known only
for the Planetoid files, which have neither. Both hold the same graph, so nodes are matched by their
words and their neighbours, and the result keeps Planetoid's row order: row numbers found in the
literature mean the same paper here.

Run: GRAPHHAM_DATA=... python scripts/build_cora.py
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp

from graphham.datasets import dataset_info, planetoid
from graphham.graph.graph import Graph, build_graph

WHEEL = "graphdatascience"
OUT = Path(__file__).resolve().parents[1] / "src/graphham/datasets/embedded/cora.npz"
# The wheel stores numbers; its resources/cora/serialize_cora.py says what they mean.
SUBJECTS = (
    "Neural Networks",
    "Rule Learning",
    "Reinforcement Learning",
    "Probabilistic Methods",
    "Theory",
    "Genetic Algorithms",
    "Case Based",
)
PLANETOID = replace(dataset_info("cora"), format="planetoid", folder="Cora", prefix="cora")


def read_wheel() -> tuple[Graph, np.ndarray, np.ndarray, int, str]:
    """Return the wheel's graph, paper ids, subjects, number of citations, and the wheel's name."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", WHEEL]
        subprocess.run([*command, "--dest", folder], check=True)
        wheel = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            nodes, rels = (
                pq.read_table(
                    BytesIO(archive.read(f"{WHEEL}/resources/cora/cora_{part}.parquet.gzip"))
                )
                for part in ("nodes", "rels")
            )
        name = wheel.name
    ids = nodes["nodeId"].to_numpy()
    words = nodes["features"].combine_chunks().flatten().to_numpy().reshape(len(ids), -1)
    order = np.argsort(ids)
    ends = [
        order[np.searchsorted(ids[order], rels[c].to_numpy())]
        for c in ("sourceNodeId", "targetNodeId")
    ]
    graph = build_graph(*ends, len(ids), features=sp.csr_matrix(words.astype(np.float32)))
    return graph, ids, nodes["subject"].to_numpy(), rels.num_rows, name


def refine(graph: Graph, colours: list[bytes]) -> list[bytes]:
    """Mix each node's colour with those of its neighbours until no class splits any more."""
    distinct = len(set(colours))
    while True:
        colours = [
            hashlib.blake2b(
                colour + b"".join(sorted(colours[j] for j in graph.neighbors(i))), digest_size=16
            ).digest()
            for i, colour in enumerate(colours)
        ]
        if len(set(colours)) == distinct:
            return colours
        distinct = len(set(colours))


def match(ours: Graph, theirs: Graph) -> np.ndarray:
    """Return for each row of ``theirs`` the row of ``ours`` that is the same paper."""
    colours = []
    for graph in (ours, theirs):
        words = graph.features
        rows = [words.indices[a:b] for a, b in zip(words.indptr, words.indptr[1:], strict=False)]
        start = [hashlib.blake2b(np.sort(r).astype("<i4").tobytes()).digest() for r in rows]
        colours.append(refine(graph, start))
    while len(set(colours[0])) < len(colours[0]):
        # Look-alikes with look-alike neighbours: pair any two of them, then let that spread.
        shared = next(c for c in sorted(colours[0]) if colours[0].count(c) > 1)
        for side, graph in enumerate((ours, theirs)):
            colours[side][colours[side].index(shared)] = b"paired" + shared
            colours[side] = refine(graph, colours[side])
    place = {colour: row for row, colour in enumerate(colours[0])}
    return np.array([place[colour] for colour in colours[1]])


def main() -> None:
    """Match, verify and write."""
    if "GRAPHHAM_DATA" not in os.environ:
        sys.exit("set GRAPHHAM_DATA to the folder that holds Cora/raw/ind.cora.*")
    reference = planetoid.load(Path(os.environ["GRAPHHAM_DATA"]) / "Cora", PLANETOID)
    wheel, ids, subjects, citations, origin = read_wheel()
    order = match(wheel, reference)
    same = wheel.permuted(order)
    labels = subjects[order]
    assert np.array_equal(same.indptr, reference.indptr)
    assert np.array_equal(same.indices, reference.indices)
    assert (same.features != reference.features).nnz == 0
    pairs = set(zip(labels.tolist(), reference.labels.codes.tolist(), strict=True))
    assert len(pairs) == 7, "the subjects are not Planetoid's classes under other numbers"

    names = [SUBJECTS[s] for s, _ in sorted(pairs, key=lambda p: p[1])]
    edges = same.edge_list()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        OUT,
        ids=ids[order].astype(np.int32),
        # Rows ascend, so their lengths stand for the first ends.
        edge_counts=np.bincount(edges[:, 0], minlength=len(ids)).astype(np.uint8),
        edge_targets=edges[:, 1].astype(np.uint16),
        word_counts=np.diff(same.features.indptr).astype(np.uint8),
        word_indices=same.features.sorted_indices().indices.astype(np.uint16),
        num_words=np.array(same.features.shape[1]),
        codes=reference.labels.codes.astype(np.int8),
        classes=np.array(names),
        train=reference.splits["train"].astype(np.int16),
        val=reference.splits["val"].astype(np.int16),
        test=reference.splits["test"].astype(np.int16),
        raw_links=np.array(citations),
        origin=np.array(f"{origin}, resources/cora; rows and split of Planetoid"),
    )
    print(
        f"{OUT}: {OUT.stat().st_size:,} bytes, {same.num_nodes:,} nodes, {same.num_edges:,} edges"
    )


if __name__ == "__main__":
    main()
