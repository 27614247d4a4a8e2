"""Planted mixed memberships: how well the second share of a node comes back, and at what cost.

``python -m experiments.mixture_study`` prints the table as Markdown and writes its rows to
``results/mixture.jsonl``; ``--seeds 5`` is its default.
Every graph is read twice: from the mean-field memberships of a fit without labels, and, as the
bound of what its links and words can tell, with the true neighbours and the true link table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from experiments.versions import study_version
from graphham.evaluate.cells import rounded
from graphham.evaluate.running import versions
from graphham.evaluate.tables import Column, Table
from graphham.groups.mixtures import STEPS, Mixtures, link_odds, mix_memberships
from graphham.kernels import mixture_loops as loops
from graphham.model.kmeans import kmeans
from graphham.system.atomic import write_bytes
from graphham.system.jit import frozen

Array = npt.NDArray[Any]
FILE = Path(__file__).parent / "results" / "mixture.jsonl"
STRONG = 0.3
_LOW, _HIGH = 0.05, 0.5
_WORDS_EACH, _WORDS_OWN, _WORD_FOCUS = 20, 10, 0.35


@dataclass(frozen=True)
class MixedGraph:
    """A graph whose nodes are in one group or two.

    Args:
        adjacency: Symmetric, no loops, zeros and ones.
        memberships: ``(n, K)`` true shares.
        second_share: ``(n,)`` share of the second group; 0 for a pure node.
        parent: ``(K,)`` coarse group of each group.
        table: ``(K, K)`` true odds of a link against chance.
        words: ``(n, vocabulary)`` counts, or ``None``.
        profiles: ``(K, vocabulary)`` true word frequencies of each group, or ``None``.
    """

    adjacency: sp.csr_matrix
    memberships: Array
    second_share: Array
    parent: Array
    table: Array
    words: sp.csr_matrix | None = None
    profiles: Array | None = None


def plant_mixtures(
    num_nodes: int = 2000,
    groups: int = 12,
    coarse: int = 3,
    degree: float = 12,
    shares: tuple[float, float, float] = (0.8, 0.1, 0.1),
    mixed: float = 0.3,
    has_words: bool = False,
    seed: int = 0,
) -> MixedGraph:
    """Draw a graph with mixed nodes.

    Each link picks a node, one of its groups by its shares, the other end's group by reach (own,
    sibling, elsewhere), and the other end by its share of that group.

    Args:
        num_nodes: Nodes, spread evenly over the groups.
        groups: Fine groups.
        coarse: Groups of the level above.
        degree: Mean degree.
        shares: Parts of the links inside a group, among siblings, and elsewhere.
        mixed: Part of the nodes with a second group, any of the others.
        has_words: Whether every node gets ten words, each from one of its groups.
        seed: Decides all draws.
    """
    rng = np.random.default_rng(seed)
    rows = np.arange(num_nodes)
    first = rng.permutation(rows % groups)
    second = (first + rng.integers(1, max(groups, 2), num_nodes)) % groups
    share = np.zeros(num_nodes)
    chosen = rng.permutation(num_nodes)[: round(mixed * num_nodes) if groups > 1 else 0]
    share[chosen] = rng.uniform(_LOW, _HIGH, len(chosen))
    pi = np.zeros((num_nodes, groups))
    pi[rows, first] = 1 - share
    pi[rows, second] += share
    parent = np.arange(groups) * coarse // groups
    same, family = np.eye(groups, dtype=bool), parent[:, None] == parent
    parts = [same, family & ~same, ~family]
    reach = sum(
        part * mask / np.maximum(mask.sum(1, keepdims=True), 1)
        for part, mask in zip(shares, parts, strict=True)
    )
    reach = reach / reach.sum(1, keepdims=True)
    table = reach * groups
    running, reach = np.cumsum(pi, axis=0), np.cumsum(reach, axis=1)
    wanted, keys = round(num_nodes * degree / 2), np.empty(0, dtype=np.int64)
    while len(keys) < wanted:
        count = wanted - len(keys)
        one = rng.integers(0, num_nodes, count)
        group = np.where(rng.random(count) < share[one], second[one], first[one])
        group = (reach[group] < rng.random(count)[:, None]).sum(1).clip(max=groups - 1)
        other, draw = np.empty(count, dtype=np.int64), rng.random(count)
        for k in range(groups):
            at = group == k
            other[at] = np.searchsorted(running[:, k], draw[at] * running[-1, k])
        low, high = np.minimum(one, other), np.maximum(one, other)
        keys = np.unique(np.concatenate([keys, (low * num_nodes + high)[low < high]]))
    low, high = keys // num_nodes, keys % num_nodes
    ends = np.r_[low, high], np.r_[high, low]
    adjacency = sp.csr_matrix((np.ones(2 * len(low), np.float32), ends), (num_nodes, num_nodes))
    adjacency.sort_indices()
    words, profiles = _plant_words(pi, rng) if has_words else (None, None)
    return MixedGraph(adjacency, pi, share, parent, table, words, profiles)


def _plant_words(pi: Array, rng: np.random.Generator) -> tuple[sp.csr_matrix, Array]:
    count, groups = pi.shape
    size = groups * _WORDS_EACH
    profiles = np.full((groups, size), (1 - _WORD_FOCUS) / size)
    for k in range(groups):
        profiles[k, k * _WORDS_EACH : (k + 1) * _WORDS_EACH] += _WORD_FOCUS / _WORDS_EACH
    rows = np.repeat(np.arange(count), _WORDS_OWN)
    group = (np.cumsum(pi, axis=1)[rows] < rng.random(len(rows))[:, None]).sum(1)
    group = group.clip(max=groups - 1)
    word = (np.cumsum(profiles, axis=1)[group] < rng.random(len(rows))[:, None]).sum(1)
    made = sp.csr_matrix((np.ones(len(rows)), (rows, word.clip(max=size - 1))), (count, size))
    return made, profiles


def start_memberships(graph: MixedGraph, groups: int, seed: int = 0, rounds: int = 15) -> Array:
    """Return mean-field memberships: k-means on leading eigenvectors, then rounds over links."""
    a = graph.adjacency.astype(np.float64)
    degrees = np.asarray(a.sum(1)).ravel()
    root = sp.diags(1 / np.sqrt(np.maximum(degrees, 1)))
    begin = np.random.default_rng(seed).standard_normal(a.shape[0])
    values, x = sp.linalg.eigsh(root @ a @ root, groups, which="LA", v0=begin)
    x = x * values
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    _, codes = kmeans(x.astype(np.float32), groups, seed)
    pi = np.eye(groups)[codes]
    rho = 1 / (1 + degrees / 64)
    for _ in range(rounds):
        ends = degrees @ pi
        table = (pi.T @ (a @ pi) + 0.5) / (np.outer(ends, ends) / degrees.sum() + 0.5)
        logits = rho[:, None] * (a @ pi @ np.log(table)) + np.log(pi.mean(0) + 1e-9)
        if graph.words is not None:
            logits += word_evidence(graph, pi)
        pi = np.exp(logits - logits.max(1, keepdims=True))
        pi /= pi.sum(1, keepdims=True)
    return pi


def word_evidence(graph: MixedGraph, pi: Array) -> Array:
    """Return ``(n, K)`` log likelihoods of each node's words, frequencies shrunk to the whole's."""
    assert graph.words is not None
    counts = pi.T @ graph.words
    overall = counts.sum(0) + 1
    overall = overall / overall.sum()
    profiles = (counts + 50 * overall) / (counts.sum(1, keepdims=True) + 50)
    return np.asarray(graph.words @ np.log(profiles / overall).T)


def read_mixtures(graph: MixedGraph, start: Array, rounds: int = 8) -> Mixtures:
    """Read a graph as a fit does: links, and words where there are any."""
    a = graph.adjacency
    said = None if graph.words is None else word_evidence(graph, start)
    return mix_memberships(a.indptr, a.indices, None, start, (), said, rounds=rounds)


def read_with_truth(graph: MixedGraph) -> Array:
    """Return the expected second share where neighbours, table and shares are known."""
    a, pi = graph.adjacency, graph.memberships
    count, groups = pi.shape
    single = frozen(pi, np.float32)
    pairs = np.zeros((count, loops.KEPT, 2), dtype=np.int32)
    mass = np.zeros((count, loops.KEPT, loops.RANGES, 2), dtype=np.float32)
    # A true membership kept as a certain pair does not move when a listener is taken out.
    order = np.argsort(-pi, axis=1)[:, :2]
    pairs[:, 0] = order
    mass[:, 0, 0, 0], mass[:, 0, 0, 1] = 1.0, graph.second_share
    said = np.empty((0, groups))
    if graph.words is not None and graph.profiles is not None:
        said = graph.words @ np.log(graph.profiles).T
        said = said - said.max(axis=1, keepdims=True)
    out = np.empty((count, groups), dtype=np.float32)
    mixed, second = np.empty((1, count), np.float32), np.empty((1, count), np.float32)
    loops.weigh_pairs(
        frozen(a.indptr, np.int64),
        frozen(a.indices),
        frozen(np.empty(0, np.float32)),
        link_odds(pi, graph.table),
        frozen(graph.table, np.float32),
        frozen(np.zeros_like(single)),
        frozen(pairs),
        frozen(mass),
        frozen(said, np.float32),
        pi.mean(0),
        float((graph.second_share > 0).mean()),
        STEPS,
        0.25,
        frozen(np.arange(groups, dtype=np.int64)[None]),
        0,
        count,
        out,
        np.empty_like(single),
        np.empty_like(pairs),
        np.empty_like(mass),
        mixed,
        second,
    )
    found: Array = second[0]
    return found


def outside_share(graph: MixedGraph, pi: Array) -> Array:
    """Return the share of each node's neighbours outside its own group: the score to beat."""
    own = np.eye(pi.shape[1])[pi.argmax(1)]
    inside = ((graph.adjacency @ own) * own).sum(1)
    degrees = np.asarray(graph.adjacency.sum(1)).ravel()
    share: Array = 1 - inside / np.maximum(degrees, 1)
    return share


def auc(is_hit: Array, score: Array) -> float:
    """Return the probability that a hit scores above a miss, ties counted half."""
    from scipy.stats import rankdata

    ranks, hits = rankdata(score), int(is_hit.sum())
    misses = len(score) - hits
    return float((ranks[is_hit].sum() - hits * (hits + 1) / 2) / (hits * misses))


def grade(graph: MixedGraph, second: Array, between: Array) -> dict[str, float]:
    """Compare estimated with true second shares; strong ones against the pure nodes."""
    truth = graph.second_share
    second = second.astype(np.float64)
    is_mixed, compared = truth > 0, (truth == 0) | (truth > STRONG)
    strong = truth[compared] > STRONG
    return {
        "corr": float(np.corrcoef(second[is_mixed], truth[is_mixed])[0, 1]),
        "corr_all": float(np.corrcoef(second, truth)[0, 1]),
        "ratio": float(second[is_mixed].mean() / truth[is_mixed].mean()),
        "ratio_all": float(second.mean() / truth.mean()),
        "pure": float(second[~is_mixed].mean()),
        "auc": auc(strong, between[compared]),
    }


def measure_case(seeds: Iterable[int], **settings: Any) -> list[dict[str, Any]]:
    """Return three rows of means over seeds: what is found, the bound, and the baseline."""
    found: list[dict[str, float]] = []
    bound: list[dict[str, float]] = []
    base: list[dict[str, float]] = []
    for seed in seeds:
        graph = plant_mixtures(seed=seed, **settings)
        groups = graph.memberships.shape[1]
        start = start_memberships(graph, groups, seed)
        began = time.process_time()
        read = read_mixtures(graph, start)
        took = time.process_time() - began
        spent = {"w": read.mixed_share, "cpu": took}
        if (graph.second_share > 0).any():
            found.append(grade(graph, read.second_share[0], read.between[0]) | spent)
            known = read_with_truth(graph)
            bound.append(grade(graph, known, known))
            second = np.sort(start, axis=1)[:, -2]
            base.append(grade(graph, second, outside_share(graph, start)))
        else:
            found.append(spent)
    rows = [("mixtures", found), ("with the truth", bound), ("start, outside share", base)]
    return [
        {"read": name, **{key: float(np.mean([r[key] for r in many])) for key in many[0]}}
        for name, many in rows
        if many
    ]


def study(seeds: int, degrees: Iterable[float] = (12, 30)) -> Table:
    """Return the table of all cases."""
    plain: dict[str, dict[str, Any]] = {
        "links 80/10/10": {},
        "links 70/20/10": {"shares": (0.7, 0.2, 0.1)},
        "links 80/10/10 and words": {"has_words": True},
        "links 70/20/10 and words": {"shares": (0.7, 0.2, 0.1), "has_words": True},
        "nobody mixed": {"mixed": 0.0},
    }
    rows = []
    for name, settings in plain.items():
        for degree in degrees:
            measured = measure_case(range(seeds), degree=degree, **settings)
            rows += [{"graph": name, "degree": degree, **row} for row in measured]
    columns = (
        Column("graph", "graph"),
        Column("degree", "degree", "count"),
        Column("read", "read"),
        Column("corr", "correlation, mixed", "score"),
        Column("corr_all", "correlation, all", "score"),
        Column("ratio", "mean / true, mixed", "score"),
        Column("ratio_all", "mean / true, all", "score"),
        Column("pure", "pure nodes", "score"),
        Column("auc", "AUC strong", "score"),
        Column("w", "w (true .30)", "score"),
        Column("cpu", "CPU-s", "score"),
    )
    return Table("Second shares of planted mixed memberships", columns, tuple(rows))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=FILE)
    chosen = parser.parse_args()
    # Compile before anything is timed.
    for has_words in (False, True):
        small = plant_mixtures(120, 4, 2, 8, has_words=has_words)
        read_mixtures(small, small.memberships, rounds=1)
    found = study(chosen.seeds)
    stamp = {"versions": versions(study_version(study))}
    lines = [json.dumps({**rounded(row, 4), **stamp}) + "\n" for row in found.rows]
    write_bytes(chosen.out, "".join(lines).encode())
    print(found.markdown())


if __name__ == "__main__":
    main()
