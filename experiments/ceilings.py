"""Say how well classes of planted graphs can be told at all: by who knows everything but one label.

    python -m experiments.ceilings heterophilous partners homophilous

A node's class is drawn first, its links and features given it. Who knows the law they were drawn by
and the true classes of all other nodes, but not that all groups are of one size, chooses the
likeliest class of each node by Bayes' rule, and nobody can be right more often on average, however
many labels there are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from experiments.planted_cases import (
    _DIM,
    _NODES,
    CASES,
    COARSE,
    FINE,
    Case,
    _edges,
    planted_graph,
)
from graphham.errors import InputError
from graphham.sampling.keys import derive_key, numpy_generator

Floats = npt.NDArray[np.float64]
DRAWS = 10
_NOBODY = 1e-12  # share of links between groups that have none


def ceiling(name: str, seed: int) -> float:
    """Return the accuracy of Bayes' rule on one draw of a planted case.

    Args:
        name: A key of the planted cases, whose fine groups are the classes.
        seed: Draws the graph.
    """
    case = CASES[name]
    graph, (fine, _) = planted_graph(name, seed)
    x, means = np.asarray(graph.features, dtype=np.float64), group_means(case, seed)
    score = x @ means.T - (means**2).sum(1) / 2  # the noise has deviation 1
    score[~x.any(axis=1)] = 0.0  # a node without features
    share = link_shares(case)
    odds = np.log(np.maximum(share + share.T, _NOBODY))  # either end may have drawn the link
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    kept = source != graph.indices
    np.add.at(score, source[kept], odds[:, fine[graph.indices[kept]]].T)
    return float((score.argmax(1) == fine).mean())


def group_means(case: Case, seed: int) -> Floats:
    """Return ``(FINE, d)`` the mean features that a draw of a case used."""
    nodes, dim = _NODES, _DIM
    draw = numpy_generator(derive_key(seed, "planted case", case.key))
    fine = draw.permutation(np.arange(nodes) % FINE).astype(np.int32)
    _edges(case, fine, draw)
    own = draw.normal(size=(FINE, dim))
    shared = draw.normal(size=(COARSE, dim))[np.arange(FINE) // (FINE // COARSE)]
    means: Floats = case.strength * (own + shared)
    return means


def link_shares(case: Case) -> Floats:
    """Return ``(FINE, FINE)`` where the links that a group's node draws go."""
    same, near, anywhere = case.shares
    per = FINE // COARSE
    group = np.arange(FINE)
    table = np.full((FINE, FINE), anywhere / FINE)
    table[group, group] += same
    table += near / per * (group[:, None] // per == group // per)
    for step in range(1, COARSE):
        partner = (group // per + step) % COARSE * per + (group + 1) % per
        table[group, partner] += case.partners / (COARSE - 1)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the ceiling of the named cases."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.ceilings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", nargs="*", default=["partners"], metavar="CASE")
    parser.add_argument("--draws", type=int, default=DRAWS)
    given = parser.parse_args(arguments)
    try:
        for name in given.cases:
            if name not in CASES:
                raise InputError(f"there is no planted case {name!r}; choose {', '.join(CASES)}")
            found = [ceiling(name, seed) for seed in range(given.draws)]
            error = float(np.std(found, ddof=1) / len(found) ** 0.5) if len(found) > 1 else 0.0
            print(f"{name}: {np.mean(found):.4f} ± {error:.4f} over {len(found)} draws")
    except InputError as error_:
        print(error_, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
