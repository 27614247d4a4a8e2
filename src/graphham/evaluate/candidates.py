"""Whom a held-out link is ranked against: non-neighbours drawn evenly, or the hardest ones.

Hard negatives follow the idea of HeaRT: a random stranger is easy to tell from a friend, a friend
of a friend is not. Both kinds cost time linear in the number of queries.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.sampling.keys import derive_key, numpy_generator

Rows = npt.NDArray[np.int64]

NEGATIVES = 20
_MAX_ROUNDS = 100
# Personalised PageRank: chance to return, and the residue per neighbour that is not pushed on. One
# source touches at most 1 / (RETURN * RESIDUE) neighbours, however large the graph is.
_RETURN = 0.15
_RESIDUE = 2e-4
# Friends of friends seen per source; a hub's are sampled by taking evenly spaced ones.
_MOST_PATHS = 20_000


def uniform_queries(graph: Graph, edges: Rows, key: Any, count: int = NEGATIVES) -> Rows:
    """Give each held-out edge ``count`` non-neighbours of its source.

    Args:
        graph: The whole graph: no true neighbour may pass for a negative.
        edges: ``(queries, 2)`` rows; the first is the source.
        key: Of the draw.
        count: Negatives per query, drawn with replacement.

    Returns:
        ``(queries, 2 + count)`` rows: source, true end, negatives. Sources that are linked to all
        other nodes ask no question and are left out.
    """
    source = edges[:, 0]
    n = graph.num_nodes
    possible = graph.degrees()[source] < n - 1
    edges, source = edges[possible], source[possible]
    if not len(edges):
        raise InputError(
            f"every node of {graph.name!r} with a held-out edge is linked to all others; there is "
            f"nothing to rank against"
        )
    draw = numpy_generator(derive_key(int(key), "uniform"))
    keys = neighbor_keys(graph)
    drawn = draw.integers(n, size=(len(edges), count))
    for _ in range(_MAX_ROUNDS):
        wrong = is_linked(keys, n, source[:, None], drawn)
        missing = int(wrong.sum())
        if not missing:
            break
        drawn[wrong] = draw.integers(n, size=missing)
    else:
        # Nearly complete rows: chance no longer finds the few strangers, so list them.
        for query in np.flatnonzero(wrong.any(axis=1)):
            strangers = np.setdiff1d(
                np.arange(n), np.append(graph.neighbors(int(source[query])), source[query])
            )
            drawn[query] = draw.choice(strangers, count)
    return np.concatenate([edges, drawn], axis=1)


def hard_queries(graph: Graph, seen: Graph, edges: Rows, key: Any, count: int = NEGATIVES) -> Rows:
    """Give each held-out edge the likeliest non-neighbours of its source.

    Half of the negatives have the most common neighbours with the source (weighted by their
    rarity, as Adamic and Adar do), half have the highest personalised PageRank; where the source
    has too few nodes around it, the rest is drawn evenly.

    Args:
        graph: The whole graph, to tell true neighbours.
        seen: The training graph, on which likeliness is measured.
        edges: ``(queries, 2)`` rows; the first is the source.
        key: Of the draws that fill up.
        count: Negatives per query.

    Returns:
        As :func:`uniform_queries`.
    """
    queries = uniform_queries(graph, edges, key, count)
    sources, place = np.unique(queries[:, 0], return_inverse=True)
    whole_indptr, whole = graph.indptr, graph.indices.astype(np.int64)
    found = _likeliest(
        seen.indptr, seen.indices.astype(np.int64), whole_indptr, whole, sources, count
    )
    hard = found[place]
    queries[:, 2:] = np.where(hard >= 0, hard, queries[:, 2:])
    return queries


def neighbor_keys(graph: Graph) -> Rows:
    """Return ``row * num_nodes + neighbour`` of every stored entry, ascending."""
    source = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), graph.degrees())
    return np.asarray(source * graph.num_nodes + graph.indices)


def is_linked(keys: Rows, num_nodes: int, source: Rows, other: Rows) -> npt.NDArray[np.bool_]:
    """Tell which pairs are neighbours or the same node."""
    queries = source * num_nodes + other
    at = np.minimum(np.searchsorted(keys, queries), max(len(keys) - 1, 0))
    stored = keys[at] == queries if len(keys) else np.zeros(queries.shape, dtype=bool)
    return np.asarray(stored | (source == other))


@numba.njit(cache=True)
def _likeliest(
    indptr: Any, indices: Any, whole_indptr: Any, whole: Any, sources: Any, count: int
) -> Any:
    """Return the hardest negatives per source, -1 where there are too few."""
    n = len(indptr) - 1
    found = np.full((len(sources), count), -1, dtype=np.int64)
    score = np.zeros(n)
    residue = np.zeros(n)
    barred = np.zeros(n, dtype=np.bool_)
    waiting = np.zeros(n, dtype=np.bool_)
    touched = np.empty(n, dtype=np.int64)
    queue = np.empty(n + 1, dtype=np.int64)
    for s in range(len(sources)):
        source = sources[s]
        barred[source] = True
        for e in range(whole_indptr[source], whole_indptr[source + 1]):
            barred[whole[e]] = True

        # Common neighbours, rare ones counting more.
        paths = 0
        for e in range(indptr[source], indptr[source + 1]):
            middle = indices[e]
            paths += indptr[middle + 1] - indptr[middle]
        step = max(1, paths // _MOST_PATHS)
        number = 0
        position = 0
        for e in range(indptr[source], indptr[source + 1]):
            middle = indices[e]
            degree = indptr[middle + 1] - indptr[middle]
            weight = 1.0 / np.log(max(degree, 2))
            for f in range(indptr[middle], indptr[middle + 1]):
                position += 1
                if position % step:
                    continue
                end = indices[f]
                if barred[end]:
                    continue
                if score[end] == 0:
                    touched[number] = end
                    number += 1
                score[end] += weight
        taken = _take_best(touched[:number], score, (count + 1) // 2, found[s], 0)
        for t in range(number):
            score[touched[t]] = 0.0
        for t in range(taken):
            barred[found[s, t]] = True

        # Personalised PageRank by pushing residue along edges until little is left anywhere.
        number = 0
        head, tail = 0, 0
        residue[source] = 1.0
        queue[0] = source
        waiting[source] = True
        tail = 1
        touched[0] = source
        number = 1
        while head != tail:
            node = queue[head]
            head = (head + 1) % (n + 1)
            waiting[node] = False
            degree = indptr[node + 1] - indptr[node]
            mass = residue[node]
            residue[node] = 0.0
            if degree == 0:
                score[node] += mass
                continue
            score[node] += _RETURN * mass
            share = (1 - _RETURN) * mass / degree
            for f in range(indptr[node], indptr[node + 1]):
                end = indices[f]
                if residue[end] == 0 and score[end] == 0 and not waiting[end]:
                    touched[number] = end
                    number += 1
                residue[end] += share
                around = indptr[end + 1] - indptr[end]
                if not waiting[end] and residue[end] > _RESIDUE * max(around, 1):
                    queue[tail] = end
                    tail = (tail + 1) % (n + 1)
                    waiting[end] = True
        _take_best(touched[:number], score, count - taken, found[s], taken, barred)
        for t in range(number):
            score[touched[t]] = 0.0
            residue[touched[t]] = 0.0

        for t in range(taken):
            barred[found[s, t]] = False
        barred[source] = False
        for e in range(whole_indptr[source], whole_indptr[source + 1]):
            barred[whole[e]] = False
    return found


@numba.njit(cache=True)
def _take_best(among: Any, score: Any, count: int, out: Any, start: int, barred: Any = None) -> int:
    """Write the ``count`` best-scored rows into ``out`` from ``start`` on; return how many."""
    taken = 0
    values = np.empty(len(among))
    for i in range(len(among)):
        values[i] = -score[among[i]]
    for i in np.argsort(values, kind="mergesort"):
        if taken == count or values[i] == 0:
            break
        if barred is not None and barred[among[i]]:
            continue
        out[start + taken] = among[i]
        taken += 1
    return taken
