"""Small fits made by hand, for the tests of everything that is written after training."""

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.ids import NodeIds
from graphham.results.hierarchy import show_paths
from graphham.results.result import FitResult

HOSTILE = [
    "plain",
    "two words",
    "two_words",
    "two\twords",
    "line\nbreak",
    "carriage\rreturn",
    'quote"inside',
    "apostrophe'",
    "comma,semicolon;",
    "<tag attr='1'>&amp;</tag>",
    "]]>",
    "nul\x00inside",
    "trailing nul\x00",
    "bell\x07",
    "non\ufffecharacter",
    "Zürich 東京 🦊",
    "e\u0301 combining",
    "\u202eright to left",
    "\u2028separator",
    " leading",
    "trailing ",
    "",
    "=1+1",
    "x" * 10_000,
]


def random_labels(rng: np.random.Generator, count: int, kind: str) -> Labels | None:
    """Labels with gaps: one per node, several per node, or none at all."""
    if kind == "none":
        return None
    if kind == "multi":
        matrix = sp.csr_matrix(rng.random((count, 3)) < 0.4)
        return Labels(("red", "green", "blue"), matrix=matrix)
    classes: tuple[Any, ...] = (10, 20, 30) if kind == "integer" else ("red", "green", "blue")
    return Labels(classes, codes=rng.integers(-1, 3, count).astype(np.int32))


def make_result(
    count: int = 30,
    groups: tuple[int, ...] = (6, 3),
    seed: int = 0,
    ids: Any = None,
    labels: str = "text",
    tree: bool = True,
    classify: bool = False,
) -> FitResult:
    """A fit with random memberships over a random tree."""
    rng = np.random.default_rng([seed, count])
    members = [rng.dirichlet(np.full(k, 0.3), count).astype(np.float32) for k in groups]
    parents = [
        np.append(np.arange(up), rng.integers(0, up, low - up)).astype(np.int32)
        for low, up in itertools.pairwise(groups)
    ]
    known = random_labels(rng, count, labels)
    prediction = None
    if classify and known is not None:
        if known.is_multi:
            prediction = Labels(
                known.classes,
                matrix=sp.csr_matrix(np.eye(3, dtype=bool)[rng.integers(0, 3, count)]),
            )
        else:
            prediction = Labels(known.classes, codes=rng.integers(0, 3, count).astype(np.int32))
    strongest = [m.argmax(1).astype(np.int32) for m in members]
    decoded = show_paths(members, parents, sums=False) if tree else strongest
    dims = (4,) * len(groups)
    return FitResult(
        ids=NodeIds.range(count) if ids is None else NodeIds(ids),
        embedding=rng.normal(size=(count, sum(dims))).astype(np.float32),
        layer_dims=dims,
        memberships=members,
        groups=decoded,
        parents=parents if tree else [],
        labels=known,
        prediction=prediction,
        confidence=rng.random(count).astype(np.float32) if classify else None,
        attention_gap=[rng.random(count).astype(np.float32) for _ in groups],
    ).validate()


def make_graph(result: FitResult, seed: int = 0, **parts: Any) -> Graph:
    """A random graph over the nodes of a result; words of the finest group as features."""
    rng = np.random.default_rng([seed, 1])
    n, k = result.num_nodes, result.group_counts[0]
    if "features" not in parts:
        own = result.groups[0][:, None] == np.arange(k)[None, :]
        noise = rng.random((n, 5)) < 0.5
        parts["features"] = sp.csr_matrix(np.hstack([own, noise]).astype(np.float32))
        parts["feature_names"] = [f"use::topic{g}x" for g in range(k)] + [
            f"noise{i}" for i in range(5)
        ]
    source, target = rng.integers(0, n, (2, 3 * n))
    return build_graph(source, target, n, ids=result.ids, labels=result.labels, **parts)


def blobs(count: int, groups: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors in well separated clouds, and the cloud of each."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, groups, count)
    centers = rng.normal(size=(groups, 12)) * 3
    return (centers[codes] + rng.normal(size=(count, 12)) * 0.3).astype(np.float32), codes
